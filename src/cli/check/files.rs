//! The files that TLS needs, looked at before they are needed: there, PEM, a key that belongs to its certificate, not over.

use std::path::Path;
use std::time::{Duration, SystemTime};

use time::OffsetDateTime;

use crate::config::{Config, Problem, Target, Warning};
use crate::net::client_identity::{Validity, examine};
use crate::net::tls::examine_roots;
use crate::net::{Identity, IdentityFiles};

/// So long before its end a certificate is worth a word.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);

/// What is wrong with files, and what soon will be.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Warning>,
}

/// Looks at every file of `[tls]` and of `[[server]]` tables. `file` is the configuration.
pub(super) fn look(config: &Config, file: &Path) -> Found {
    let mut found = Found::default();
    let mut add = |key: String, seen: Result<Option<Validity>, String>| {
        let problem = |message: String, help: Option<&str>| Problem {
            file: file.to_path_buf(),
            line: 0,
            key: key.clone(),
            message,
            help: help.map(str::to_owned),
        };
        match seen {
            Ok(None) => {}
            Ok(Some(held)) => match ends(held, SystemTime::now()) {
                Ends::Later => {}
                Ends::Soon(when) => {
                    let message = format!("the certificate ends on {when}");
                    found.warnings.push(Warning {
                        key: key.clone(),
                        message,
                        help: Some("renew it".to_owned()),
                    });
                }
                Ends::Never(why) => found.problems.push(problem(why, Some("renew it"))),
            },
            Err(why) => found.problems.push(problem(why, None)),
        }
    };
    if let Some(tls) = &config.tls {
        let files = IdentityFiles {
            cert: tls.cert.clone(),
            key: tls.key.clone(),
            client_ca: tls.client_ca.clone(),
            optional: true,
        };
        let usable = Identity::load(files).map_err(|error| error.to_string());
        let held = || examine(&tls.cert, &tls.key).map(Some).map_err(|error| error.to_string());
        add("tls".to_owned(), usable.and_then(|_| held()));
    }
    for server in &config.servers {
        let key = |key: &str| format!("server {:?}.{key}", server.name);
        if let Target::Http { ca_file: Some(file), .. } = &server.target {
            // The error names the key and the file.
            let seen = examine_roots(file).map(|()| None).map_err(|error| error.to_string());
            add(key("ca_file"), seen);
        }
        if let Some(own) = &server.identity {
            let seen = examine(&own.cert, &own.key).map(Some).map_err(|error| error.to_string());
            add(key("client_cert"), seen);
        }
    }
    found
}

/// When a certificate ends.
#[derive(Debug, PartialEq, Eq)]
enum Ends {
    Later,
    /// On this day.
    Soon(String),
    /// It does not hold now, and why.
    Never(String),
}

fn ends(held: Validity, now: SystemTime) -> Ends {
    let day = |at: SystemTime| OffsetDateTime::from(at).date().to_string();
    if now > held.until {
        Ends::Never(format!("the certificate has expired on {}", day(held.until)))
    } else if now < held.from {
        Ends::Never(format!("the certificate does not hold before {}", day(held.from)))
    } else if now + SOON > held.until {
        Ends::Soon(day(held.until))
    } else {
        Ends::Later
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use time::OffsetDateTime;

    use super::{Found, look};
    use crate::config::Config;

    const SERVER: &str = "[[server]]\nname = \"s\"\nurl = \"https://s/mcp\"\n";

    fn seen(folder: &Path, text: &str) -> Found {
        let config = Config::parse(text, folder, &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
        look(&config, &folder.join("gatehouse.toml"))
    }

    /// Writes NAME.pem and NAME.key; `days` until its end.
    fn pair(folder: &Path, name: &str, days: i64) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = OffsetDateTime::now_utc() - time::Duration::days(90);
        params.not_after = OffsetDateTime::now_utc() + time::Duration::days(days);
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        fs::write(folder.join(format!("{name}.pem")), params.signed_by(&key, &issuer).unwrap().pem())
            .unwrap();
        fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
        fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
    }

    #[test]
    fn good_files_are_passed_over_and_bad_ones_named() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        pair(folder, "good", 90);
        pair(folder, "other", 90);
        pair(folder, "soon", 3);
        pair(folder, "old", -1);
        fs::write(folder.join("text.pem"), "no PEM").unwrap();
        let of = |cert: &str, key: &str| {
            let tls = format!("[tls]\ncert = \"{cert}\"\nkey = \"{key}\"\n");
            let own =
                format!("{SERVER}client_cert = \"{cert}\"\nclient_key = \"{key}\"\nca_file = \"ca.pem\"\n");
            [("tls", seen(folder, &tls)), ("server \"s\".client_cert", seen(folder, &own))]
        };
        for (_, found) in of("good.pem", "good.key") {
            assert!(found.problems.is_empty() && found.warnings.is_empty(), "{found:?}");
        }
        for (key, found) in of("soon.pem", "soon.key") {
            assert!(found.problems.is_empty() && found.warnings.len() == 1, "{found:?}");
            assert!(found.warnings[0].key == key && found.warnings[0].message.contains("ends on"));
        }
        for (cert, key, says) in [
            ("none.pem", "good.key", "none.pem"),
            ("good.pem", "none.key", "none.key"),
            ("text.pem", "good.key", "no certificate in it"),
            ("good.pem", "text.pem", "no private key in it"),
            ("good.pem", "other.key", "good.pem"),
            ("old.pem", "old.key", "expired"),
        ] {
            for (at, found) in of(cert, key) {
                let [problem] = &found.problems[..] else { panic!("{cert} {key}: {found:?}") };
                assert!(problem.key == at && problem.message.contains(says), "{problem:?}");
                assert!(!problem.message.contains("PRIVATE"), "{problem:?}");
            }
        }
    }

    #[test]
    fn authorities_are_looked_at_too() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        pair(folder, "good", 90);
        fs::write(folder.join("text.pem"), "no PEM").unwrap();
        for file in ["none.pem", "text.pem"] {
            let tls = format!("[tls]\ncert = \"good.pem\"\nkey = \"good.key\"\nclient_ca = \"{file}\"\n");
            let found = seen(folder, &tls);
            assert!(found.problems.len() == 1 && found.problems[0].message.contains(file), "{found:?}");
            let found = seen(folder, &format!("{SERVER}ca_file = \"{file}\"\n"));
            assert!(found.problems.len() == 1 && found.problems[0].message.contains(file), "{found:?}");
        }
    }
}
