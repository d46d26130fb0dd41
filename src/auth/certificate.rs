//! Who a client is by its certificate: the principal of one that was verified in the handshake.
//!
//! The issuer of such a principal is `x509`; its subject is what names it first: a URI among the certificate's alternative
//! names (SPIFFE), else a host name, else an address for mail, else its subject, else its digest. Claims for grants: `iss`, `sub`, and
//! under `x509` `subject`, `issuer`, `cn`, `dns`, `uri`, `email`, `serial` and `sha256`. It holds no scopes, and
//! `required_scopes` do not ask it for any: those are for tokens and keys.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use moka::sync::Cache;
use serde_json::{Map, Value, json};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

use super::principal::{Principal, token_id};
use crate::net::PeerCertificate;

/// The issuer of principals by certificate.
const ISSUER: &str = "x509";
/// Certificates whose principals are kept, and how long if they do not come back.
const MOST: u64 = 20_000;
const IDLE: Duration = Duration::from_secs(10 * 60);

/// The principals of certificates that have come: one for each, as long as it comes.
#[derive(Debug)]
pub struct Certificates(Cache<[u8; 32], Option<Arc<Principal>>>);

impl Default for Certificates {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(MOST).time_to_idle(IDLE).build())
    }
}

impl Certificates {
    /// The principal of a verified certificate; `None`: its time is over, or it is none.
    pub fn principal(&self, shown: &PeerCertificate) -> Option<Arc<Principal>> {
        let known = self.0.get(&shown.sha256);
        let found = known.unwrap_or_else(|| self.0.get_with(shown.sha256, || principal(shown).map(Arc::new)));
        // A connection may last longer than what it began with.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        found.filter(|principal| principal.expires.is_none_or(|expires| now < expires))
    }
}

fn principal(shown: &PeerCertificate) -> Option<Principal> {
    let (_, certificate) = X509Certificate::from_der(&shown.der).ok()?;
    let names = Names::of(&certificate);
    let sha256 = HEXLOWER.encode(&shown.sha256);
    let subject = names.first().map_or_else(|| format!("sha256:{sha256}"), str::to_owned);
    let expires = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
    let claims = json!({
        "iss": ISSUER,
        "sub": subject,
        "x509": {
            "subject": names.subject, "issuer": certificate.issuer().to_string(), "cn": names.common,
            "dns": names.dns, "uri": names.uri, "email": names.email,
            "serial": HEXLOWER.encode(certificate.raw_serial()), "sha256": sha256,
        },
    });
    let Value::Object(claims) = claims else { return None };
    Some(Principal {
        id: token_id("cert", ISSUER, &subject),
        issuer: Arc::from(ISSUER),
        client: Some(Arc::from(subject.as_str())),
        subject: Arc::from(subject),
        scopes: BTreeSet::new(),
        claims: without_nothing(claims),
        expires: Some(expires),
    })
}

/// What a certificate calls its holder.
#[derive(Debug, Default)]
struct Names {
    uri: Vec<String>,
    dns: Vec<String>,
    email: Vec<String>,
    /// The distinguished name.
    subject: String,
    common: Option<String>,
}

impl Names {
    fn of(certificate: &X509Certificate<'_>) -> Self {
        let subject = certificate.subject();
        let common = subject.iter_common_name().next().and_then(|name| name.as_str().ok());
        let common = common.map(str::to_owned);
        let mut found = Self { subject: subject.to_string(), common, ..Self::default() };
        let Ok(Some(alternative)) = certificate.subject_alternative_name() else { return found };
        for name in &alternative.value.general_names {
            match name {
                GeneralName::URI(uri) => found.uri.push((*uri).to_owned()),
                GeneralName::DNSName(name) => found.dns.push((*name).to_owned()),
                GeneralName::RFC822Name(address) => found.email.push((*address).to_owned()),
                _ => {}
            }
        }
        found
    }

    /// The one that stands for its holder.
    fn first(&self) -> Option<&str> {
        let alternative = self.uri.first().or(self.dns.first()).or(self.email.first());
        alternative.unwrap_or(&self.subject).lines().next().filter(|name| !name.is_empty())
    }
}

/// Without what the certificate does not say.
fn without_nothing(mut claims: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Object(own)) = claims.get_mut(ISSUER) {
        own.retain(|_, value| !value.is_null() && *value != json!([]));
    }
    claims
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};
    use serde_json::json;

    use super::{Certificates, PeerCertificate};

    fn certificate(change: impl FnOnce(&mut CertificateParams)) -> PeerCertificate {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "robot");
        params.distinguished_name.push(DnType::OrganizationName, "Example");
        change(&mut params);
        PeerCertificate::new(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der())
    }

    #[test]
    fn its_holder_is_who_its_names_say() {
        let uri = SanType::URI("spiffe://example/ci".try_into().unwrap());
        let (dns, mail) = (
            SanType::DnsName("ci.example".try_into().unwrap()),
            SanType::Rfc822Name("ci@example".try_into().unwrap()),
        );
        let all = Certificates::default();
        for (names, subject) in [
            (vec![dns.clone(), uri.clone(), mail.clone()], "spiffe://example/ci"),
            (vec![mail.clone(), dns.clone()], "ci.example"),
            (vec![mail], "ci@example"),
        ] {
            let shown = certificate(|params| params.subject_alt_names = names);
            let principal = all.principal(&shown).unwrap();
            assert_eq!((&*principal.issuer, &*principal.subject), ("x509", subject));
            assert!(std::sync::Arc::ptr_eq(&principal, &all.principal(&shown).unwrap()), "one for each");
            assert_eq!(principal.claims["sub"], subject);
            assert_eq!(principal.claims["x509"]["cn"], "robot");
        }
        let plain = all.principal(&certificate(|_| ())).unwrap();
        assert_eq!(*plain.subject, *plain.claims["x509"]["subject"].as_str().unwrap());
        assert!(plain.subject.contains("CN=robot") && plain.claims["x509"].get("dns").is_none());
        let many = certificate(|params| params.subject_alt_names = vec![dns, uri]);
        assert_eq!(all.principal(&many).unwrap().claims["x509"]["dns"], json!(["ci.example"]));
        // The same holder with another certificate is the same; another holder is not.
        let again = certificate(|_| ());
        assert_eq!(all.principal(&again).unwrap().id, plain.id);
        assert_ne!(all.principal(&many).unwrap().id, plain.id);
    }

    #[test]
    fn one_whose_time_is_over_is_nobody() {
        let all = Certificates::default();
        let old = certificate(|params| params.not_after = date_time_ymd(2002, 1, 1));
        let nameless = certificate(|params| params.distinguished_name = rcgen::DistinguishedName::new());
        for shown in [old, PeerCertificate::new(b"no certificate")] {
            assert_eq!(all.principal(&shown), None);
        }
        assert!(all.principal(&nameless).unwrap().subject.starts_with("sha256:"));
    }
}
