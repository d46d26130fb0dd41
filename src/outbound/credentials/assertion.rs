//! `private_key_jwt`: what the gateway asserts of itself to an authorization server (A-40, RFC 7523).

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use crate::config::signing::SigningKey;

/// `client_assertion_type`
pub(super) const TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// Seconds an assertion holds; it is used at once.
const LIFE: u64 = 60;

/// A fresh assertion for `audience`. `None` when the machine has no randomness.
pub(super) fn assertion(key: &SigningKey, client: &str, audience: &str) -> Option<String> {
    let mut unique = [0; 16];
    rand::fill(&mut unique).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    let header = json!({ "alg": key.algorithm().to_string(), "typ": "JWT" });
    let claims = json!({
        "iss": client, "sub": client, "aud": audience, "jti": URL_SAFE_NO_PAD.encode(unique),
        "iat": now, "exp": now + LIFE,
    });
    let coded = |text: String| URL_SAFE_NO_PAD.encode(text);
    let signed = format!("{}.{}", coded(header.to_string()), coded(claims.to_string()));
    let signature = key.sign(signed.as_bytes())?;
    Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}
