//! Tests of this room; here what they share.

use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use serde_json::{Value, json};

use super::keys::{Document, Keys};
use super::kit::Signer;
use super::{Authenticator, Principal, Reason, seconds_now};
use crate::config::Config;
use crate::config::auth::Auth;
use crate::tasks::Tasks;
use crate::telemetry::Metrics;

mod flips;
mod opaque;
mod rotation;
mod table;
mod tokens;

pub(super) const ISSUER: &str = "https://id.example/";
pub(super) const RESOURCE: &str = "https://gw.example/mcp/crm";

/// RSA keys take a while to make; one for all tests.
pub(super) static RSA: LazyLock<Signer> = LazyLock::new(|| Signer::rsa("rsa"));

/// `[auth]` with the usual issuer, more keys of its own, and more tables.
pub(super) fn auth(issuer: &str, more: &str) -> Auth {
    let text = format!("[auth]\n[[auth.issuer]]\nissuer = \"{ISSUER}\"\n{issuer}\n{more}");
    parse(&text)
}

pub(super) fn parse(text: &str) -> Auth {
    let config = Config::parse(text, Path::new(""), &|_| None).unwrap_or_else(|p| panic!("{p}\n{text}"));
    config.auth.unwrap()
}

/// The claims of a token that is taken, changed: `null` takes one out.
pub(super) fn claims(change: Value) -> Value {
    let now = seconds_now();
    let mut claims = json!({
        "iss": ISSUER, "sub": "alice", "aud": RESOURCE, "client_id": "app", "scope": "mcp:use",
        "iat": now, "nbf": now, "exp": now + 600,
    });
    let Value::Object(change) = change else { panic!("an object") };
    for (name, value) in change {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(&name)),
            value => claims[name] = value,
        }
    }
    claims
}

/// A key server by script: what it says now, and how often it was asked.
#[derive(Default)]
pub(super) struct Script {
    /// `None`: it does not answer.
    pub(super) keys: Mutex<Option<Vec<Value>>>,
    pub(super) asked: AtomicUsize,
}

impl Script {
    pub(super) fn of(signers: &[&Signer]) -> Arc<Self> {
        let script = Self::default();
        script.publish(signers);
        Arc::new(script)
    }

    pub(super) fn publish(&self, signers: &[&Signer]) {
        *self.keys.lock().unwrap() = Some(signers.iter().map(|signer| signer.jwk()).collect());
    }

    pub(super) fn fall_silent(&self) {
        *self.keys.lock().unwrap() = None;
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub(super) fn keys(self: &Arc<Self>, issuer: &str) -> Keys {
        let script = Arc::clone(self);
        let source = move || -> std::pin::Pin<Box<dyn Future<Output = _> + Send>> {
            let script = Arc::clone(&script);
            Box::pin(async move {
                script.asked.fetch_add(1, Ordering::SeqCst);
                // Others run in between, as they would with a real server.
                tokio::task::yield_now().await;
                let keys = script.keys.lock().unwrap().clone().ok_or("silence")?;
                let keys = keys.into_iter().map(|key| key.as_object().unwrap().clone()).collect();
                Ok(Document { keys, max_age: None })
            })
        };
        Keys::new(issuer, Box::new(source), &Tasks::new())
    }
}

/// An authenticator whose only issuer is a script.
pub(super) fn authenticator(auth: &Auth, script: &Arc<Script>) -> Authenticator {
    let keys = auth.issuers.iter().map(|issuer| Arc::new(script.keys(&issuer.issuer))).collect();
    Authenticator::over(auth, keys, None, Arc::new(Metrics::new().unwrap()))
}

/// The verdict on a token at the usual endpoint, now.
pub(super) async fn verdict(authenticator: &Authenticator, token: &str) -> Result<Arc<Principal>, Reason> {
    authenticator.verify(token, RESOURCE, seconds_now()).await.map_err(|rejection| rejection.reason)
}
