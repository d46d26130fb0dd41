//! The table of negative tokens (auth.md, end; F-092): each with its status, challenge and reason in the metrics.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::super::kit::{Signer, b64};
use super::super::seconds_now;
use super::{RESOURCE, RSA, Script, auth, authenticator, claims};
use crate::auth::{Authenticator, Principal, Rejection};

const METADATA: &str = "https://gw.example/.well-known/oauth-protected-resource/mcp/crm";

async fn ask(
    authenticator: &Authenticator,
    values: &[String],
    query: Option<&str>,
) -> Result<Arc<Principal>, Rejection> {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append("authorization", HeaderValue::from_str(value).unwrap());
    }
    authenticator.authenticate(&headers, query, RESOURCE).await
}

/// Refused with this reason, status and challenge, and counted.
async fn refused(authenticator: &Authenticator, token: &str, reason: &str) {
    let rejection = ask(authenticator, &[format!("Bearer {token}")], None).await.expect_err(reason);
    assert_eq!(rejection.reason.as_str(), reason);
    assert_eq!(rejection.status(), 401);
    let scopes = &authenticator.config().required_scopes;
    let challenge = rejection.challenge(scopes, Some(METADATA)).unwrap();
    let expected =
        format!("Bearer error=\"invalid_token\", resource_metadata=\"{METADATA}\", scope=\"mcp:use\"");
    assert_eq!(challenge, expected.as_str());
    let counted = format!("gatehouse_auth_rejections_total{{reason=\"{reason}\"}}");
    assert!(authenticator.metrics.render().contains(&counted), "{counted}");
}

fn usual(issuer: &str) -> (Authenticator, Arc<Script>) {
    let mut auth = auth(issuer, "");
    auth.required_scopes = vec!["mcp:use".to_owned()];
    let script = Script::of(&[&RSA]);
    (authenticator(&auth, &script), script)
}

/// Covers: A-22 (alg, kid, typ, crit), F-092.
#[tokio::test]
async fn a_22_headers() {
    let (gate, _) = usual("");
    let good = RSA.token(&claims(json!({})));
    assert!(ask(&gate, &[format!("Bearer {good}")], None).await.is_ok());

    // alg none, with and without the signature of another.
    let none = |alg: &str| {
        format!(
            "{}.{}",
            b64(format!("{{\"typ\":\"at+jwt\",\"alg\":\"{alg}\",\"kid\":\"rsa\"}}")),
            b64(claims(json!({})).to_string())
        )
    };
    for alg in ["none", "None", "NONE", ""] {
        refused(&gate, &format!("{}.", none(alg)), "algorithm").await;
        refused(&gate, &format!("{}.AAAA", none(alg)), "algorithm").await;
    }
    // HS256 with the public key as the secret, in each form somebody might take for it.
    let jwk = RSA.jwk();
    let secrets = [jwk.to_string().into_bytes(), URL_SAFE_NO_PAD.decode(jwk["n"].as_str().unwrap()).unwrap()];
    for secret in secrets {
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &secret);
        let signed = none("HS256");
        let tag = aws_lc_rs::hmac::sign(&key, signed.as_bytes());
        refused(&gate, &format!("{signed}.{}", b64(tag.as_ref())), "algorithm").await;
    }
    let with = |header: Value| RSA.token_with(&header, &claims(json!({})));
    for crit in [json!(["b64"]), json!(["exp"]), json!([]), json!("exp")] {
        refused(&gate, &with(json!({ "crit": crit, "b64": true, "exp": 1 })), "critical").await;
    }
    for alg in ["RS384", "ES256", "EdDSA", "HS256", "unheard"] {
        let reason = if matches!(alg, "ES256" | "EdDSA") { "key" } else { "algorithm" };
        let (gate, _) = usual("");
        let rejection =
            ask(&gate, &[format!("Bearer {}", with(json!({ "alg": alg })))], None).await.unwrap_err();
        let found = rejection.reason.as_str();
        assert!(found == reason || found == "signature", "{alg}: {found}");
    }
    for typ in ["JWT", "jwt", "oauth-id-jag+jwt", "logout+jwt", "dpop+jwt", "secevent+jwt", "x+jwt", ""] {
        refused(&gate, &with(json!({ "typ": typ })), "type").await;
    }
    refused(&gate, &with(json!({ "typ": null })), "type").await;
    for typ in ["application/at+jwt", "AT+JWT", "Application/AT+JWT"] {
        assert!(
            ask(&gate, &[format!("Bearer {}", with(json!({ "typ": typ })))], None).await.is_ok(),
            "{typ}"
        );
    }
}

/// Covers: A-22: with `require_at_jwt = false` a plain JWT is taken, the others never are.
#[tokio::test]
async fn a_22_plain_jwt_where_it_is_allowed() {
    let (gate, _) = usual("require_at_jwt = false");
    let with = |header: Value, change: Value| RSA.token_with(&header, &claims(change));
    for typ in [json!("JWT"), json!("application/jwt"), Value::Null] {
        let token = with(json!({ "typ": typ }), json!({}));
        assert!(ask(&gate, &[format!("Bearer {token}")], None).await.is_ok(), "{typ}");
    }
    for typ in ["oauth-id-jag+jwt", "application/logout+jwt", "dpop+jwt", "SecEvent+JWT"] {
        refused(&gate, &with(json!({ "typ": typ }), json!({})), "type").await;
    }
    // An ID token: to the client alone, or with what only those have.
    let plain = json!({ "typ": "JWT" });
    let (gate, _) = usual("require_at_jwt = false\naudiences = [\"app\"]");
    refused(&gate, &with(plain.clone(), json!({ "aud": "app" })), "id_token").await;
    refused(
        &gate,
        &with(plain.clone(), json!({ "aud": "app", "client_id": null, "azp": "app" })),
        "id_token",
    )
    .await;
    for name in ["nonce", "at_hash", "c_hash"] {
        refused(&gate, &with(plain.clone(), json!({ name: "x" })), "id_token").await;
        refused(&gate, &with(json!({}), json!({ name: "x" })), "id_token").await;
    }
    for typ in ["ID", "Refresh", "Offline"] {
        refused(&gate, &with(plain.clone(), json!({ "typ": typ })), "id_token").await;
    }
    let bearer = with(plain, json!({ "typ": "Bearer" }));
    assert!(ask(&gate, &[format!("Bearer {bearer}")], None).await.is_ok());
}

/// Covers: A-21, A-22 (aud, exp, nbf, iat, iss, sub), A-26, A-27, F-092.
#[tokio::test]
async fn a_21_claims() {
    let (gate, _) = usual("audiences = [\"api://gateway\"]");
    let now = seconds_now();
    let with = |change: Value| RSA.token(&claims(change));
    for (reason, change) in [
        ("audience", json!({ "aud": "https://other.example/mcp" })),
        // The sibling, and ours in other spellings.
        ("audience", json!({ "aud": "https://gw.example/mcp/wiki" })),
        ("audience", json!({ "aud": "https://gw.example/mcp/crm/" })),
        ("audience", json!({ "aud": "https://GW.example/mcp/crm" })),
        ("audience", json!({ "aud": "https://gw.example/mcp" })),
        ("audience", json!({ "aud": null })),
        ("audience", json!({ "aud": "" })),
        ("audience", json!({ "aud": [] })),
        ("audience", json!({ "aud": { "a": RESOURCE } })),
        ("audience", json!({ "aud": [RESOURCE, "https://other.example"] })),
        ("audience", json!({ "aud": [RESOURCE, 7] })),
        ("expired", json!({ "exp": now - 31 })),
        ("expired", json!({ "exp": 0 })),
        ("claims", json!({ "exp": null })),
        ("claims", json!({ "exp": "2999-01-01" })),
        ("claims", json!({ "exp": -5 })),
        ("not_yet", json!({ "nbf": now + 300 })),
        ("not_yet", json!({ "iat": now + 300 })),
        ("claims", json!({ "nbf": "soon" })),
        ("claims", json!({ "sub": null })),
        ("claims", json!({ "sub": "" })),
        ("claims", json!({ "sub": 7 })),
        ("issuer", json!({ "iss": null })),
        ("issuer", json!({ "iss": "https://id.example" })),
        ("issuer", json!({ "iss": "https://ID.example/" })),
        ("issuer", json!({ "iss": "https://evil.example/" })),
        ("bound", json!({ "cnf": { "jkt": "x" } })),
        ("bound", json!({ "cnf": { "x5t#S256": "x" } })),
        // Expired and without scope: to be renewed, not to be widened.
        ("expired", json!({ "exp": now - 60, "scope": "other" })),
    ] {
        refused(&gate, &with(change), reason).await;
    }
    for fine in [
        json!({ "aud": [RESOURCE] }),
        json!({ "aud": "api://gateway" }),
        json!({ "aud": [RESOURCE, "api://gateway"] }),
        json!({ "exp": now - 20 }),
        json!({ "nbf": now + 25, "iat": now + 25 }),
        json!({ "nbf": null, "iat": null }),
        json!({ "exp": now as f64 + 100.5 }),
        json!({ "client_id": null }),
    ] {
        let said = fine.to_string();
        assert!(ask(&gate, &[format!("Bearer {}", with(fine))], None).await.is_ok(), "{said}");
    }
}

/// Covers: an audience that is borne with opens nothing alone; one that is ours does.
#[tokio::test]
async fn a_27_audiences_beside_ours() {
    let (gate, _) = usual(
        "audiences = [\"api://gateway\"]\nother_audiences = [\"account\", \"https://id.example/userinfo\"]",
    );
    let with = |aud: Value| RSA.token(&claims(json!({ "aud": aud })));
    for foreign in [
        json!("account"),
        json!(["account"]),
        json!(["account", "https://id.example/userinfo"]),
        json!([RESOURCE, "account", "https://other.example"]),
        json!(["api://gateway", "https://gw.example/mcp/wiki"]),
        json!([RESOURCE, ["account"]]),
        json!([RESOURCE, ""]),
    ] {
        refused(&gate, &with(foreign), "audience").await;
    }
    for fine in [
        json!(RESOURCE),
        json!([RESOURCE, "account"]),
        json!(["account", "api://gateway"]),
        json!(["https://id.example/userinfo", RESOURCE, "account", "api://gateway"]),
    ] {
        let said = fine.to_string();
        assert!(ask(&gate, &[format!("Bearer {}", with(fine))], None).await.is_ok(), "{said}");
    }
    // Without it, nobody else may be one.
    let (gate, _) = usual("");
    refused(&gate, &with(json!([RESOURCE, "account"])), "audience").await;
}

/// Covers: A-22: keys are looked up by issuer, so a known `kid` of another does not help.
#[tokio::test]
async fn a_22_signatures() {
    let (gate, script) = usual("");
    let thief = Signer::rsa("rsa");
    refused(&gate, &thief.token(&claims(json!({}))), "signature").await;
    // Its own key in the header, by value and by address.
    let named =
        json!({ "jwk": thief.jwk(), "jku": "https://evil.example/keys", "x5u": "https://evil.example/c" });
    refused(&gate, &thief.token_with(&named, &claims(json!({}))), "signature").await;
    let named = json!({ "jwk": 7, "jku": [], "x5c": {} });
    assert!(
        ask(&gate, &[format!("Bearer {}", RSA.token_with(&named, &claims(json!({}))))], None).await.is_ok()
    );
    // Names that occur twice: whoever signed this, it can be read in two ways.
    let claims = claims(json!({})).to_string();
    let doubled = claims.replacen('{', "{\"sub\":\"root\",", 1);
    refused(
        &gate,
        &RSA.sign("{\"typ\":\"at+jwt\",\"alg\":\"RS256\",\"kid\":\"rsa\"}", &doubled),
        "malformed",
    )
    .await;
    assert_eq!(script.asked(), 1);
}

/// Covers: A-22: the header's `alg` is not trusted beyond the list and the key.
#[tokio::test]
async fn a_22_algorithm_and_key_fit() {
    let (curve, edwards) = (Signer::p256("k"), Signer::ed("e"));
    let big = Signer::p384("b");
    let script = Script::of(&[&curve, &edwards, &RSA, &big]);
    let all = authenticator(
        &auth("algorithms = [\"RS256\", \"PS256\", \"ES256\", \"ES384\", \"EdDSA\"]", ""),
        &script,
    );
    let few = authenticator(&auth("algorithms = [\"ES256\"]", ""), &script);
    for signer in [&curve, &edwards, &*RSA, &big] {
        let token = signer.token(&claims(json!({})));
        assert!(ask(&all, &[format!("Bearer {token}")], None).await.is_ok(), "{}", signer.alg());
        let only = ask(&few, &[format!("Bearer {token}")], None).await;
        assert_eq!(only.is_ok(), signer.alg() == "ES256", "{}", signer.alg());
    }
    let pss = RSA.token_with(&json!({ "alg": "PS256" }), &claims(json!({})));
    assert!(ask(&all, &[format!("Bearer {pss}")], None).await.is_ok());
    let named = edwards.token_with(&json!({ "alg": "Ed25519" }), &claims(json!({})));
    assert!(ask(&all, &[format!("Bearer {named}")], None).await.is_ok());
    // A key that says what it is for is for nothing else.
    let mut jwk = RSA.jwk();
    jwk["alg"] = "RS256".into();
    let mut sealing = RSA.jwk();
    sealing["use"] = "enc".into();
    *script.keys.lock().unwrap() = Some(vec![jwk, sealing]);
    let all = authenticator(&auth("", ""), &script);
    assert!(ask(&all, &[format!("Bearer {pss}")], None).await.is_err());
    assert!(ask(&all, &[format!("Bearer {}", RSA.token(&claims(json!({}))))], None).await.is_ok());
}

/// Covers, F-092.
#[tokio::test]
async fn a_10_credentials_by_their_shape() {
    let (gate, script) = usual("");
    let token = RSA.token(&claims(json!({})));
    let plain = format!("Bearer resource_metadata=\"{METADATA}\", scope=\"mcp:use\"");
    let told = |rejection: Rejection| {
        let challenge = rejection.challenge(&gate.config().required_scopes, Some(METADATA)).unwrap();
        (rejection.status().as_u16(), challenge.to_str().unwrap().to_owned())
    };
    let counted = |reason: &str| {
        let page = gate.metrics.render();
        let line = format!("gatehouse_auth_rejections_total{{reason=\"{reason}\"}} ");
        page.lines().find_map(|found| found.strip_prefix(&line)).map(str::to_owned)
    };
    let query = format!("access_token={token}");
    for (values, query) in
        [(vec![], None), (vec![], Some(query.as_str())), (vec!["Basic YTpi".to_owned()], None)]
    {
        let rejection = ask(&gate, &values, query).await.unwrap_err();
        assert_eq!(told(rejection), (401, plain.clone()), "{values:?}");
    }
    let bearer = format!("Bearer {token}");
    for (values, query) in
        [(vec![bearer.clone(), bearer.clone()], None), (vec![bearer.clone()], Some(query.as_str()))]
    {
        let rejection = ask(&gate, &values, query).await.unwrap_err();
        let (status, challenge) = told(rejection);
        assert_eq!(status, 400);
        assert!(challenge.starts_with("Bearer error=\"invalid_request\", "), "{challenge}");
    }
    for (reason, times) in [("missing", "1"), ("query", "1"), ("scheme", "1"), ("several", "2")] {
        assert_eq!(counted(reason).as_deref(), Some(times), "{reason}");
    }
    assert!(ask(&gate, &[format!("bEaReR  {token}")], None).await.is_ok());
    refused(&gate, &"a".repeat(16 * 1024), "oversized").await;
    refused(&gate, "not-a-token-of-ours", "unknown").await;
    refused(&gate, "a.b.c", "unknown").await;
    refused(&gate, &format!("{}.b.c", b64("{\"alg\":\"RS256\"}")), "malformed").await;
    refused(&gate, &token[..token.len() - 1], "signature").await;
    let without = RSA.token(&claims(json!({ "scope": "other", "scp": ["more"] })));
    let rejection = ask(&gate, &[format!("Bearer {without}")], None).await.unwrap_err();
    let challenge =
        format!("Bearer error=\"insufficient_scope\", scope=\"mcp:use\", resource_metadata=\"{METADATA}\"");
    assert_eq!(told(rejection), (403, challenge));
    assert_eq!(counted("scope").as_deref(), Some("1"));
    assert_eq!(script.asked(), 1);
}
