//! Over real sockets: discovery of keys, and opaque tokens.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::super::kit::{IdServer, Signer};
use super::{RESOURCE, claims, parse, verdict};
use crate::auth::{Authenticator, Reason};
use crate::tasks::Tasks;
use crate::telemetry::Metrics;

async fn started(more: impl Fn(&str) -> String) -> (IdServer, Authenticator) {
    let tasks = Tasks::new();
    let server = IdServer::start().await;
    let text = format!("[[auth.issuer]]\nissuer = \"{}\"\n{}", server.url, more(&server.url));
    let gate = Authenticator::new(&parse(&text), &tasks, Arc::new(Metrics::new().unwrap())).unwrap();
    (server, gate)
}

fn asked(url: &str) -> String {
    format!(
        "introspection = {{ url = \"{url}/introspect\", client_id = \"gate house\", client_secret = \"p:w%\" }}"
    )
}

///
#[tokio::test]
async fn a_36_keys_by_discovery() {
    let (server, gate) = started(|_| String::new()).await;
    let key = Signer::p256("k");
    server.publish(&[&key]);
    let token = |n: usize| key.token(&claims(json!({ "iss": server.url, "jti": n })));
    let tokens: Vec<String> = (0..20).map(token).collect();
    for taken in join_all(tokens.iter().map(|token| verdict(&gate, token))).await {
        assert!(taken.is_ok(), "{taken:?}");
    }
    assert_eq!(server.fetches(), 1);
    // Gone, and what is known stays.
    server.state.broken.store(true, Ordering::SeqCst);
    assert!(verdict(&gate, &token(21)).await.is_ok());
    let other = Signer::p256("other");
    let unknown = other.token(&claims(json!({ "iss": server.url })));
    assert_eq!(verdict(&gate, &unknown).await.unwrap_err(), Reason::KeysUnavailable);
}

/// Covers: metadata of another issuer, or that lead elsewhere, are not used.
#[tokio::test]
async fn a_36_metadata_that_are_not_believed() {
    let key = Signer::ed("k");
    for spoiled in [
        |url: &str| json!({ "issuer": format!("{url}/"), "jwks_uri": format!("{url}/keys") }),
        |url: &str| json!({ "issuer": "https://id.example/", "jwks_uri": format!("{url}/keys") }),
        |url: &str| json!({ "jwks_uri": format!("{url}/keys") }),
        |url: &str| json!({ "issuer": url }),
        |url: &str| json!({ "issuer": url, "jwks_uri": "file:///etc/passwd" }),
        |url: &str| json!({ "issuer": url, "jwks_uri": format!("{url}/nowhere") }),
        |_: &str| Value::Null,
    ] {
        let (server, gate) = started(|_| String::new()).await;
        server.publish(&[&key]);
        let spoiled = spoiled(&server.url);
        *server.state.metadata.lock().unwrap() = spoiled.clone();
        let token = key.token(&claims(json!({ "iss": server.url })));
        assert_eq!(verdict(&gate, &token).await.unwrap_err(), Reason::KeysUnavailable, "{spoiled}");
        assert_eq!(server.fetches(), 0, "{spoiled}");
    }
    // With the address in the configuration nobody needs metadata.
    let (server, gate) = started(|url| format!("jwks_url = \"{url}/keys\"")).await;
    server.publish(&[&key]);
    *server.state.metadata.lock().unwrap() = Value::Null;
    assert!(verdict(&gate, &key.token(&claims(json!({ "iss": server.url })))).await.is_ok());
}

/// Covers: A-24, RFC 7662.
#[tokio::test]
async fn a_24_opaque_tokens() {
    let (server, gate) = started(asked).await;
    let full = |change: Value| {
        let mut all = claims(json!({ "iss": null, "active": true, "token_type": "Bearer" }));
        for (name, value) in change.as_object().unwrap() {
            match value {
                Value::Null => drop(all.as_object_mut().unwrap().remove(name)),
                value => all[name] = value.clone(),
            }
        }
        all
    };
    let now = super::super::seconds_now();
    *server.state.tokens.lock().unwrap() = json!({
        "good": full(json!({})),
        "named": full(json!({ "iss": server.url, "exp": null })),
        "machine": full(json!({ "sub": null })),
        "nobody": full(json!({ "sub": null, "client_id": null })),
        "said-yes": full(json!({ "active": "true" })),
        "foreign": full(json!({ "iss": "https://other.example" })),
        "elsewhere": full(json!({ "aud": "https://gw.example/mcp/wiki" })),
        "no-aud": full(json!({ "aud": null })),
        "over": full(json!({ "exp": now - 40 })),
        "bound": full(json!({ "cnf": { "jkt": "x" } })),
        "dpop": full(json!({ "token_type": "DPoP" })),
    });
    let good = verdict(&gate, "good").await.unwrap();
    assert_eq!((&*good.subject, &*good.issuer, good.client_label()), ("alice", server.url.as_str(), "app"));
    // base64("gate+house:p%3Aw%25"), as RFC 6749 wants both halves coded.
    assert_eq!(*server.state.shown.lock().unwrap(), "Basic Z2F0ZStob3VzZTpwJTNBdyUyNQ==");
    assert!(verdict(&gate, "named").await.is_ok());
    let machine = verdict(&gate, "machine").await.unwrap();
    assert!(machine.id.starts_with("app:") && &*machine.subject == "app", "{machine:?}");
    for (token, reason) in [
        ("nobody", Reason::Claims),
        ("said-yes", Reason::Inactive),
        ("never-heard-of", Reason::Inactive),
        ("foreign", Reason::Issuer),
        ("elsewhere", Reason::Audience),
        ("no-aud", Reason::Audience),
        ("over", Reason::Expired),
        ("bound", Reason::Bound),
        ("dpop", Reason::Bound),
    ] {
        assert_eq!(verdict(&gate, token).await.unwrap_err(), reason, "{token}");
    }
}

/// Covers: A-24: many requests with one token ask once; a silent server is no verdict.
#[tokio::test]
async fn a_24_answers_are_kept_and_silence_is_not() {
    let (server, gate) = started(asked).await;
    let count = || server.state.introspections.load(Ordering::SeqCst);
    server.state.broken.store(true, Ordering::SeqCst);
    assert_eq!(verdict(&gate, "good").await.unwrap_err(), Reason::IntrospectionUnavailable);
    server.state.broken.store(false, Ordering::SeqCst);
    *server.state.tokens.lock().unwrap() = json!({ "good": claims(json!({ "iss": null, "active": true })) });
    assert_eq!(count(), 1);
    for _ in 0..3 {
        for taken in join_all((0..20).map(|_| verdict(&gate, "good"))).await {
            assert!(taken.is_ok(), "{taken:?}");
        }
        for refused in join_all((0..20).map(|_| verdict(&gate, "bad"))).await {
            assert_eq!(refused.unwrap_err(), Reason::Inactive);
        }
    }
    assert_eq!(count(), 3);
    // For each endpoint its own verdict.
    let sibling = gate.verify("good", "https://gw.example/mcp/wiki", super::super::seconds_now()).await;
    assert_eq!(sibling.unwrap_err(), Reason::Audience.into());
    assert!(gate.verify("good", RESOURCE, super::super::seconds_now()).await.is_ok());
}

/// A new configuration keeps what is known of issuers that have not changed.
#[tokio::test]
async fn keys_survive_another_configuration() {
    let (server, gate) = started(|_| String::new()).await;
    let key = Signer::ed("k");
    server.publish(&[&key]);
    gate.warm();
    let token = key.token(&claims(json!({ "iss": server.url })));
    assert!(verdict(&gate, &token).await.is_ok());
    let text = |more: &str| format!("[auth]\n{more}\n[[auth.issuer]]\nissuer = \"{}\"\n", server.url);
    let tasks = Tasks::new();
    let next = gate.renewed(&parse(&text("required_scopes = [\"mcp:use\"]")), &tasks).unwrap();
    let other = text("") + &format!("jwks_url = \"{}/keys\"", server.url);
    let moved = gate.renewed(&parse(&other), &tasks).unwrap();
    server.state.broken.store(true, Ordering::SeqCst);
    assert!(verdict(&next, &token).await.is_ok());
    assert_eq!(server.fetches(), 1);
    assert_eq!(verdict(&moved, &token).await.unwrap_err(), Reason::KeysUnavailable);
}
