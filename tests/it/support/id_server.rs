//! Signers of tokens, and a small authorization server on loopback. The tests of `src/auth` use this file too, so it
//! stands on nothing else of this kit.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Debug)]
enum Pair {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

/// A key that signs tokens.
#[derive(Debug)]
pub(crate) struct Signer {
    pub(crate) kid: Option<&'static str>,
    pair: Pair,
}

impl Signer {
    fn new(kid: &'static str, pair: Pair) -> Self {
        Self { kid: Some(kid), pair }
    }

    pub(crate) fn rsa(kid: &'static str) -> Self {
        Self::new(kid, Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()))
    }

    pub(crate) fn p256(kid: &'static str) -> Self {
        Self::new(kid, Pair::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap()))
    }

    pub(crate) fn p384(kid: &'static str) -> Self {
        Self::new(kid, Pair::P384(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap()))
    }

    pub(crate) fn ed(kid: &'static str) -> Self {
        Self::new(kid, Pair::Ed(Ed25519KeyPair::generate().unwrap()))
    }

    /// The same key without a `kid`, in its set and in its tokens.
    pub(crate) fn nameless(self) -> Self {
        Self { kid: None, ..self }
    }

    pub(crate) const fn alg(&self) -> &'static str {
        match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::P256(_) => "ES256",
            Pair::P384(_) => "ES384",
            Pair::Ed(_) => "EdDSA",
        }
    }

    /// The public half, as a member of a key set.
    pub(crate) fn jwk(&self) -> Value {
        let mut jwk = match &self.pair {
            Pair::Rsa(pair) => {
                let public = pair.public_key();
                let (n, e) = (public.modulus().big_endian_without_leading_zero(), public.exponent());
                json!({ "kty": "RSA", "n": b64(n), "e": b64(e.big_endian_without_leading_zero()) })
            }
            Pair::P256(pair) => point("P-256", pair.public_key().as_ref()),
            Pair::P384(pair) => point("P-384", pair.public_key().as_ref()),
            Pair::Ed(pair) => json!({ "kty": "OKP", "crv": "Ed25519", "x": b64(pair.public_key().as_ref()) }),
        };
        if let Some(kid) = self.kid {
            jwk["kid"] = kid.into();
        }
        jwk
    }

    /// A token with the usual header.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({}), claims)
    }

    /// A token with the usual header, changed: `null` takes a member out.
    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        let mut all = json!({ "typ": "at+jwt", "alg": self.alg() });
        if let Some(kid) = self.kid {
            all["kid"] = kid.into();
        }
        for (name, value) in header.as_object().unwrap() {
            match value {
                Value::Null => drop(all.as_object_mut().unwrap().remove(name)),
                value => all[name] = value.clone(),
            }
        }
        self.sign(&all.to_string(), &claims.to_string())
    }

    /// Header and claims as they are, signed by the algorithm that fits this key (PS256 if the header says so).
    pub(crate) fn sign(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", b64(header), b64(claims));
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let coding = if header.contains("PS256") { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(coding, &random, signed.as_bytes(), &mut signature).unwrap();
                signature
            }
            Pair::P256(pair) | Pair::P384(pair) => {
                pair.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec()
            }
            Pair::Ed(pair) => pair.sign(signed.as_bytes()).as_ref().to_vec(),
        };
        format!("{signed}.{}", b64(signature))
    }
}

pub(crate) fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn point(curve: &str, point: &[u8]) -> Value {
    let half = point.len() / 2;
    json!({ "kty": "EC", "crv": curve, "x": b64(&point[1..=half]), "y": b64(&point[half + 1..]) })
}

/// An authorization server on loopback: metadata, keys, introspection.
#[derive(Debug)]
pub(crate) struct IdServer {
    /// Its address, and its issuer unless it says another.
    pub(crate) url: String,
    pub(crate) state: Arc<IdState>,
}

/// What it says and what it was asked.
#[derive(Debug, Default)]
pub(crate) struct IdState {
    pub(crate) keys: Mutex<Vec<Value>>,
    /// The whole metadata; `null`: none.
    pub(crate) metadata: Mutex<Value>,
    /// What introspection answers by token.
    pub(crate) tokens: Mutex<Value>,
    /// Everything answers with 500.
    pub(crate) broken: AtomicBool,
    pub(crate) key_fetches: AtomicUsize,
    pub(crate) introspections: AtomicUsize,
    /// `Authorization` of the last introspection.
    pub(crate) shown: Mutex<String>,
}

impl IdServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(IdState::default());
        let metadata = json!({ "issuer": url, "jwks_uri": format!("{url}/keys") });
        *state.metadata.lock().unwrap() = metadata;
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, state }
    }

    pub(crate) fn publish(&self, signers: &[&Signer]) {
        *self.state.keys.lock().unwrap() = signers.iter().map(|signer| signer.jwk()).collect();
    }

    pub(crate) fn fetches(&self) -> usize {
        self.state.key_fetches.load(Ordering::SeqCst)
    }
}

async fn answer(State(state): State<Arc<IdState>>, request: Request<Body>) -> Response {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let count = |counter: &AtomicUsize| counter.fetch_add(1, Ordering::SeqCst);
    let body = body.collect().await.unwrap().to_bytes();
    let said = match path {
        "/keys" => {
            count(&state.key_fetches);
            json!({ "keys": *state.keys.lock().unwrap() })
        }
        "/introspect" => {
            count(&state.introspections);
            let shown = head.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
            *state.shown.lock().unwrap() = shown.unwrap_or_default();
            let form = url::form_urlencoded::parse(&body);
            let token = form.into_owned().find(|(name, _)| name == "token").map(|(_, token)| token);
            let known = state.tokens.lock().unwrap().get(token.unwrap_or_default()).cloned();
            known.unwrap_or_else(|| json!({ "active": false }))
        }
        "/.well-known/oauth-authorization-server" => state.metadata.lock().unwrap().clone(),
        _ => Value::Null,
    };
    let status = match said {
        _ if state.broken.load(Ordering::SeqCst) => 500,
        Value::Null => 404,
        _ => 200,
    };
    Response::builder().status(status).body(Body::from(said.to_string())).unwrap()
}
