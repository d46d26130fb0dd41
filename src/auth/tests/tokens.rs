//! What becomes of tokens and keys that are taken: principals, scopes, and what is kept of them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::principal::token_id;
use super::super::{Reason, seconds_now};
use super::{ISSUER, RESOURCE, RSA, Script, auth, authenticator, claims, parse, verdict};
use crate::auth::{Authenticator, Principal};

fn gate(issuer: &str, more: &str) -> (Authenticator, Arc<Script>) {
    let script = Script::of(&[&RSA]);
    (authenticator(&auth(issuer, more), &script), script)
}

/// Covers: A-22 (`sub`, `client_id`, `azp`).
#[tokio::test]
async fn a_22_principals() {
    let (gate, _) = gate("", "");
    let of = async |change: Value| verdict(&gate, &RSA.token(&claims(change))).await.unwrap();
    let alice = of(json!({ "groups": ["a", "b"] })).await;
    assert_eq!((&*alice.issuer, &*alice.subject, alice.client.as_deref()), (ISSUER, "alice", Some("app")));
    assert_eq!(alice.claims["groups"], json!(["a", "b"]));
    // The same person by another token and client is the same principal; nobody else is.
    let again = of(json!({ "client_id": null, "azp": "other", "scope": "x" })).await;
    assert_eq!((&again.id, again.client.as_deref()), (&alice.id, Some("other")));
    let bob = of(json!({ "sub": "bob" })).await;
    assert_ne!(bob.id, alice.id);
    assert_eq!(of(json!({ "client_id": null })).await.client_label(), "other");
    let shown = format!("{alice:?}");
    assert!(!shown.contains("groups") && !alice.id.contains("alice"), "{shown}");
}

#[test]
fn ids_do_not_run_into_one_another() {
    let ids = [
        token_id("sub", "https://a", "b"),
        token_id("sub", "https://a/b", ""),
        token_id("sub", "https://a/", "b"),
        token_id("sub", "https://ab", ""),
        token_id("app", "https://a", "b"),
    ];
    for (at, id) in ids.iter().enumerate() {
        assert!(!ids[at + 1..].contains(id), "{id}");
    }
    assert_eq!(token_id("sub", "https://a", "b"), ids[0]);
    assert_eq!(&*Principal::anonymous().id, "anonymous");
}

/// Covers: A-12, F-092: scopes in every shape, and what they imply.
#[tokio::test]
async fn a_12_scopes() {
    let more = "[auth.scope_implies]\nadmin = [\"write\"]\nwrite = [\"mcp:use\"]";
    let mut config = auth("", more);
    config.required_scopes = vec!["mcp:use".to_owned()];
    let gate = authenticator(&config, &Script::of(&[&RSA]));
    for fine in [
        json!({ "scope": "a mcp:use" }),
        json!({ "scope": ["a", "mcp:use"] }),
        json!({ "scope": null, "scp": "mcp:use a" }),
        json!({ "scope": null, "scp": ["mcp:use"] }),
        json!({ "scope": "a", "scp": ["write"] }),
        json!({ "scope": "admin" }),
    ] {
        let said = fine.to_string();
        assert!(verdict(&gate, &RSA.token(&claims(fine))).await.is_ok(), "{said}");
    }
    for short in [
        json!({ "scope": null }),
        json!({ "scope": "mcp" }),
        json!({ "scope": "MCP:USE" }),
        json!({ "scope": "mcp:use2" }),
        json!({ "scope": ["mcp:use a"] }),
        json!({ "scope": { "mcp:use": true } }),
    ] {
        let said = short.to_string();
        assert_eq!(verdict(&gate, &RSA.token(&claims(short))).await.unwrap_err(), Reason::Scope, "{said}");
    }
    let admin = verdict(&gate, &RSA.token(&claims(json!({ "scope": "admin" })))).await.unwrap();
    assert_eq!(admin.scopes.iter().collect::<Vec<_>>(), ["admin", "mcp:use", "write"]);
}

/// Covers: A-07: one resource per endpoint.
#[tokio::test]
async fn a_07_a_verdict_is_for_one_endpoint() {
    let (gate, _) = gate("", "");
    let token = RSA.token(&claims(json!({})));
    for _ in 0..2 {
        assert!(gate.verify(&token, RESOURCE, seconds_now()).await.is_ok());
        let sibling = gate.verify(&token, "https://gw.example/mcp/wiki", seconds_now()).await;
        assert_eq!(sibling.unwrap_err(), Reason::Audience.into());
    }
}

/// A verified token is believed until it is over, and not a second longer.
#[tokio::test]
async fn kept_verdicts_end_with_their_token() {
    let (gate, _) = gate("", "");
    let now = seconds_now();
    let token = RSA.token(&claims(json!({ "exp": now + 100 })));
    let first = gate.verify(&token, RESOURCE, now).await.unwrap();
    let second = gate.verify(&token, RESOURCE, now + 129).await.unwrap();
    assert!(Arc::ptr_eq(&first, &second), "its signature is looked at once");
    assert_eq!(gate.verify(&token, RESOURCE, now + 130).await.unwrap_err(), Reason::Expired.into());
    assert_eq!(first.expires, Some(now + 100));
}

///
#[tokio::test]
async fn a_28_static_keys() {
    let digest = |key: &str| -> String {
        super::super::sha256(&[key.as_bytes()]).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let text = format!(
        "[auth]\nrequired_scopes = [\"mcp:use\"]\n\
         [[auth.key]]\nname = \"ci\"\nsha256 = \"{}\"\nclaims = {{ scope = \"mcp:use\", groups = [\"jobs\"] }}\n\
         [[auth.key]]\nname = \"poor\"\nsha256 = \"{}\"\n",
        digest("first-key"),
        digest("second-key")
    );
    let gate = authenticator(&parse(&text), &Script::of(&[]));
    let ci = verdict(&gate, "first-key").await.unwrap();
    assert_eq!((&*ci.id, &*ci.subject, &*ci.issuer, ci.client_label()), ("key:ci", "ci", "", "ci"));
    assert_eq!((ci.claims["groups"].clone(), ci.expires), (json!(["jobs"]), None));
    assert_eq!(verdict(&gate, "second-key").await.unwrap_err(), Reason::Scope);
    for wrong in ["first-ke", "first-key2", "FIRST-KEY", &digest("first-key")] {
        assert_eq!(verdict(&gate, wrong).await.unwrap_err(), Reason::Unknown, "{wrong}");
    }
    assert_eq!(verdict(&gate, "").await.unwrap_err(), Reason::Malformed);
}
