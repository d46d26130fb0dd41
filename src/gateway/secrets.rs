//! Does a text hold a secret? Forms of tokens and keys as those who issue them document them, and nothing that guesses:
//! what refuses a call must be right.
//!
//! No crate fits: the kept detectors (gitleaks, trufflehog, kingfisher, ripsecrets) are programs, need a newer compiler or
//! native code, or bring hundreds of rules that guess by names and randomness.

use std::sync::LazyLock;

use regex::RegexSet;

use super::leaves;

/// Each with who issues it.
const FORMS: [&str; 20] = [
    // Amazon Web Services: access key ids.
    r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b",
    // GitHub: personal, OAuth, user, server and refresh tokens, fine-grained ones.
    r"\bgh[pousr]_[A-Za-z0-9]{36}",
    r"\bgithub_pat_[A-Za-z0-9_]{36}",
    // GitLab.
    r"\bglpat-[A-Za-z0-9_-]{20}",
    // Slack: tokens and incoming webhooks.
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10}",
    r"\bhooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]{16}",
    // Stripe.
    r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16}",
    // Anthropic, OpenAI.
    r"\bsk-ant-[A-Za-z0-9_-]{20}",
    r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{32}",
    // Google: API keys and OAuth access tokens.
    r"\bAIza[A-Za-z0-9_-]{35}",
    r"\bya29\.[A-Za-z0-9_-]{20}",
    // npm, PyPI, Hugging Face.
    r"\bnpm_[A-Za-z0-9]{36}",
    r"\bpypi-AgEI[A-Za-z0-9_-]{32}",
    r"\bhf_[A-Za-z0-9]{34}",
    // SendGrid, DigitalOcean.
    r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
    r"\bdo[opr]_v1_[a-f0-9]{64}",
    // Signed tokens (RFC 7519): two JSON objects in base64 and a signature.
    r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10}",
    // Private keys (RFC 7468 and OpenSSH), age.
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
    r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}",
    // A password in an address (RFC 3986).
    r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@?#]+:[^\s/@]{3,}@",
];

static SET: LazyLock<Option<RegexSet>> = LazyLock::new(|| RegexSet::new(FORMS).ok());

/// Whether a text holds a token or a key.
pub(super) fn is_secret(text: &str) -> bool {
    SET.as_ref().is_some_and(|set| set.is_match(text))
}

/// Where in arguments the first secret stands.
pub(super) fn place(arguments: &str) -> Option<String> {
    let mut found = None;
    leaves::each(arguments, &mut |path, value| {
        if is_secret(value) {
            found = Some(if is_secret(path) { "a name".to_owned() } else { path.to_owned() });
        }
        found.is_none()
    });
    // A name is a place for a secret like any other; then the path to it cannot be told.
    found.or_else(|| leaves::any_key(arguments, &is_secret).then(|| "a name".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{FORMS, is_secret, place};

    /// Made up, in the form that each issuer documents; put together here, so that no scanner takes this file for a leak.
    fn examples() -> Vec<String> {
        let run = |length: usize| "aB3dE5gH7jK9mN1pQ".chars().cycle().take(length).collect::<String>();
        let hex = |length: usize| "0123456789abcdef".chars().cycle().take(length).collect::<String>();
        vec![
            format!("AKIA{}", "ABCDEFGH234567AB"),
            format!("ghp_{}", run(36)),
            format!("github_pat_{}_{}", run(22), run(59)),
            format!("glpat-{}", run(20)),
            format!("xoxb-{}-{}", "1234567890", run(24)),
            format!("https://hooks.slack.com/services/T0ABC/B0DEF/{}", run(24)),
            format!("sk_live_{}", run(24)),
            format!("sk-ant-api03-{}", run(90)),
            format!("sk-proj-{}", run(48)),
            format!("AIza{}", run(35)),
            format!("ya29.{}", run(60)),
            format!("npm_{}", run(36)),
            format!("pypi-AgEI{}", run(80)),
            format!("hf_{}", run(34)),
            format!("SG.{}.{}", run(22), run(43)),
            format!("dop_v1_{}", hex(64)),
            format!("eyJ{}.eyJ{}.{}", run(20), run(40), run(43)),
            format!("-----BEGIN {} KEY-----\nMII", "RSA PRIVATE"),
            format!("AGE-SECRET-KEY-1{}", "Q2".repeat(29)),
            format!("postgres://app:{}@db.internal/app", "hunter22"),
        ]
    }

    #[test]
    fn each_form_is_known_alone_and_inside_a_text() {
        let examples = examples();
        assert_eq!(examples.len(), FORMS.len());
        for example in examples {
            assert!(is_secret(&example), "{example}");
            assert!(is_secret(&format!("Use \"{example}\" for it.")), "{example}");
            let arguments = format!("{{\"a\":[1,{{\"b\":{}}}]}}", serde_json::to_string(&example).unwrap());
            assert_eq!(place(&arguments).as_deref(), Some("a[1].b"));
            let name = serde_json::to_string(&example).unwrap();
            for value in ["1", "{}", "[]", "\"v\""] {
                let arguments = format!("{{\"x\":[{{{name}:{value}}}]}}");
                assert_eq!(place(&arguments).as_deref(), Some("a name"), "{arguments}");
            }
        }
    }

    #[test]
    fn what_only_looks_odd_is_no_secret() {
        for plain in [
            "",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "550e8400-e29b-41d4-a716-446655440000",
            "sk-8 is a road, xoxb is not a word",
            "https://example.com:8443/a@b?c=d:e@f",
            "mailto:ann@example.com",
            "AKIA",
            "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0 ann@host",
            "-----BEGIN PUBLIC KEY-----",
            "ghp_short",
            "eyJhbGciOiJIUzI1NiJ9",
            "The password is in the vault.",
        ] {
            assert!(!is_secret(plain), "{plain}");
        }
        assert_eq!(place(r#"{"a":"b","c":[null,1e400]}"#), None);
    }
}
