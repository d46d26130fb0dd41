//! People with tokens of an authorization server on loopback, which also exchanges them.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::gateway::Setup;
use super::id_server::{IdServer, Signer};
use super::request::Request;
use super::token_server::{Asked, TokenServer, token};

/// The address by which clients know the gateway.
pub(crate) const PUBLIC: &str = "https://mcp.example.test";
/// SHA-256 of `a-long-and-random-key`.
pub(crate) const KEY_DIGEST: &str = "79985d181da1d010d5001f2c27c75dc0b659f908792816479290d8fe25bc89ae";

/// An authorization server for callers, whose token endpoint exchanges their tokens: `for-NAME-NUMBER`, or `own`
/// for the gateway's own.
pub(crate) struct People {
    pub(crate) id: IdServer,
    pub(crate) key: Signer,
    pub(crate) tokens: TokenServer,
}

impl People {
    pub(crate) async fn new() -> Self {
        let id = IdServer::start().await;
        let key = Signer::p256("k1");
        id.publish(&[&key]);
        let tokens = TokenServer::start(|number, asked| match asked.get("subject_token") {
            "" => token("own"),
            subject => token(&format!("for-{}-{number}", claims_of(subject)["sub"].as_str().unwrap())),
        })
        .await;
        let metadata = json!({
            "issuer": id.url, "jwks_uri": format!("{}/keys", id.url),
            "token_endpoint": format!("{}/token", tokens.url),
        });
        *id.state.metadata.lock().unwrap() = metadata;
        Self { id, key, tokens }
    }

    /// A gateway that takes their tokens, and one static key.
    pub(crate) fn setup(&self) -> Setup {
        self.setup_with("")
    }

    /// The same with more lines about the issuer.
    pub(crate) fn setup_with(&self, issuer: &str) -> Setup {
        let url = &self.id.url;
        let auth = format!(
            "[auth]\n[[auth.issuer]]\nissuer = \"{url}\"\n{issuer}\n[[auth.key]]\nname = \"ci\"\nsha256 = \"{KEY_DIGEST}\""
        );
        Setup::new().gateway(&format!("public_url = \"{PUBLIC}\"")).toml(&auth)
    }

    /// Lines of a server that sees each of them as himself.
    pub(crate) fn exchange(&self, more: &str) -> String {
        format!(
            "protocol = \"modern\"\n[server.credentials]\nkind = \"token_exchange\"\nissuer = \"{}\"\n\
             client_id = \"gw\"\nclient_secret = \"x\"\naudience = \"downstream\"\n{more}",
            self.id.url
        )
    }

    /// A token of somebody for `/mcp`.
    pub(crate) fn token(&self, subject: &str) -> String {
        self.token_of(subject, json!({}))
    }

    /// The same with other claims.
    pub(crate) fn token_of(&self, subject: &str, change: Value) -> String {
        let now = now();
        let mut claims = json!({
            "iss": self.id.url, "sub": subject, "aud": format!("{PUBLIC}/mcp"), "client_id": "app",
            "iat": now, "exp": now + 600,
        });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        self.key.token(&claims)
    }

    /// Every exchange so far.
    pub(crate) fn exchanges(&self) -> Vec<Asked> {
        self.tokens.asked().into_iter().filter(|asked| !asked.get("subject_token").is_empty()).collect()
    }
}

/// A request with a token.
pub(crate) fn with(request: impl Into<Request>, token: &str) -> Request {
    request.into().with("Authorization", format!("Bearer {token}"))
}

/// What a token claims.
pub(crate) fn claims_of(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}
