//! Who calls: what is known of a caller once its credential has been verified.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::config::auth::{ApiKey, Auth, scope_words};

/// A verified caller. Holds no token.
#[derive(Clone, PartialEq)]
pub struct Principal {
    /// The same for the same caller in every request and process: handles are bound to it. A digest of
    /// (issuer, subject), the key's name, or `anonymous`.
    pub id: Arc<str>,
    /// Whose token it was; empty for keys and `anonymous`.
    pub issuer: Arc<str>,
    /// `sub`, the key's name, or `anonymous`.
    pub subject: Arc<str>,
    /// The OAuth client (`client_id`, else `azp`), the key's name, or `anonymous`.
    pub client: Option<Arc<str>>,
    /// What it was given, and what that implies.
    pub scopes: BTreeSet<String>,
    /// Every claim, for grants.
    pub claims: Map<String, Value>,
    /// `exp`, in seconds since 1970.
    pub expires: Option<u64>,
}

impl Principal {
    /// Everybody, where nobody is asked who they are.
    pub fn anonymous() -> Arc<Self> {
        static ANONYMOUS: LazyLock<Arc<Principal>> = LazyLock::new(|| {
            let name: Arc<str> = Arc::from("anonymous");
            Arc::new(Principal {
                id: Arc::clone(&name),
                issuer: Arc::from(""),
                subject: Arc::clone(&name),
                client: Some(name),
                scopes: BTreeSet::new(),
                claims: Map::new(),
                expires: None,
            })
        });
        Arc::clone(&ANONYMOUS)
    }

    /// The holder of a static key.
    pub(super) fn of_key(key: &ApiKey, auth: &Auth) -> Self {
        let name: Arc<str> = Arc::from(key.name.as_str());
        Self {
            id: Arc::from(format!("key:{name}")),
            issuer: Arc::from(""),
            subject: Arc::clone(&name),
            client: Some(name),
            scopes: scopes(&key.claims, auth),
            claims: key.claims.clone(),
            expires: None,
        }
    }

    /// Somebody with these claims, to find out what that one could do; nothing is verified.
    pub fn supposed(claims: Map<String, Value>, auth: &Auth) -> Self {
        let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
        Self {
            id: Arc::from("supposed"),
            issuer: Arc::from(text("iss")),
            subject: Arc::from(text("sub")),
            client: None,
            scopes: scopes(&claims, auth),
            expires: None,
            claims,
        }
    }

    /// The authorization context: who it is, by which client and with which scopes. Other tokens of the same context
    /// are the same to whom they are shown (L-22).
    pub fn authorization(&self) -> Arc<str> {
        let client = self.client.as_deref().unwrap_or_default();
        let words = [client].into_iter().chain(self.scopes.iter().map(String::as_str));
        // Lengths before them, so that no two lists are one text.
        let text: String = words.map(|word| format!("{} {word}", word.len())).collect();
        Arc::from(format!("{}/{}", self.id, URL_SAFE_NO_PAD.encode(super::sha256(&[text.as_bytes()]))))
    }

    /// All that is known of it, for another replica (JSON). No token is in it.
    pub fn carried(&self) -> Box<RawValue> {
        let text = |text: &Arc<str>| text.to_string();
        let carried = Carried {
            id: text(&self.id),
            issuer: text(&self.issuer),
            subject: text(&self.subject),
            client: self.client.as_ref().map(text),
            scopes: self.scopes.clone(),
            claims: self.claims.clone(),
            expires: self.expires,
        };
        // Plain data of our own: it can always be written.
        serde_json::value::to_raw_value(&carried).unwrap_or_default()
    }

    /// The same again, out of what another replica has sealed.
    pub fn from_carried(text: &str) -> Option<Arc<Self>> {
        let carried: Carried = serde_json::from_str(text).ok()?;
        Some(Arc::new(Self {
            id: carried.id.into(),
            issuer: carried.issuer.into(),
            subject: carried.subject.into(),
            client: carried.client.map(Into::into),
            scopes: carried.scopes,
            claims: carried.claims,
            expires: carried.expires,
        }))
    }

    /// Whether nobody asked who it is.
    pub fn is_anonymous(&self) -> bool {
        *self.id == *"anonymous"
    }

    /// The value of the `client` label before it is bounded.
    pub fn client_label(&self) -> &str {
        self.client.as_deref().unwrap_or("other")
    }

    /// How long its credential holds from now on, if it ends.
    pub fn time_left(&self) -> Option<Duration> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.expires.map(|expires| Duration::from_secs(expires).saturating_sub(now))
    }

    /// Whether every one of these is held.
    pub fn holds<'s>(&self, scopes: impl IntoIterator<Item = &'s String>) -> bool {
        scopes.into_iter().all(|scope| self.scopes.contains(scope))
    }
}

/// A caller on the way to another replica.
#[derive(Serialize, Deserialize)]
struct Carried {
    id: String,
    issuer: String,
    subject: String,
    client: Option<String>,
    scopes: BTreeSet<String>,
    claims: Map<String, Value>,
    expires: Option<u64>,
}

impl fmt::Debug for Principal {
    /// Without the claims: they are about people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Principal")
            .field("id", &self.id)
            .field("issuer", &self.issuer)
            .field("client", &self.client)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// `scope` and its alias `scp`, with all they imply.
pub(super) fn scopes(claims: &Map<String, Value>, auth: &Auth) -> BTreeSet<String> {
    auth.closure(["scope", "scp"].iter().filter_map(|name| claims.get(*name)).flat_map(scope_words))
}

/// The id of a token's subject. `kind` tells people (`sub`) from clients that act for themselves (`app`). The
/// issuer holds no line break, so no two pairs are one text.
pub(super) fn token_id(kind: &str, issuer: &str, subject: &str) -> Arc<str> {
    let digest = super::sha256(&[issuer.as_bytes(), b"\n", subject.as_bytes()]);
    Arc::from(format!("{kind}:{}", URL_SAFE_NO_PAD.encode(digest)))
}
