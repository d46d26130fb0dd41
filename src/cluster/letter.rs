//! A request on its way from one replica to the one that has what it is about: sealed with a subkey of `keys`, for one
//! reader, once, for half a minute (design §7).
//!
//! In it stands what was decided about the request where it arrived: who calls, by which method, path and headers. The
//! caller's token is not in it. The body goes beside it, and only its hash is in the seal.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Cluster, Replica, random};
use crate::seal::{Purpose, Sealer};

/// How long a letter may be on its way.
const LIFE: u64 = 30_000;
/// How far a reader's clock may be behind.
const SKEW: u64 = 30_000;
/// Letters are of no endpoint.
const NOWHERE: &str = "";

/// What is sealed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Letter {
    /// The process it is for; no other takes it, so it cannot go further.
    to: String,
    /// The HTTP method.
    pub method: String,
    /// The endpoint's path.
    pub path: String,
    /// Header lines; bytes as characters.
    headers: Vec<(String, String)>,
    /// Who calls, as JSON.
    pub principal: Box<RawValue>,
    /// The client's address.
    pub address: Option<IpAddr>,
    /// The body's SHA-256.
    body: String,
    /// Milliseconds since 1970.
    until: u64,
    nonce: String,
}

/// Why a letter is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not sealed by one of our keys, or changed.
    #[error("it is not sealed by a replica with our keys")]
    Seal,
    /// For another process: that one has ended, or it came the wrong way.
    #[error("it is for another process")]
    Stranger,
    /// Its time is over, or has not come.
    #[error("its time is over")]
    Time,
    /// It was taken before.
    #[error("it was taken before")]
    Replayed,
}

impl Letter {
    /// One about a request.
    pub fn new(
        (method, path): (&http::Method, &str),
        headers: &HeaderMap,
        principal: Box<RawValue>,
        body: &[u8],
    ) -> Self {
        let text = |value: &HeaderValue| value.as_bytes().iter().copied().map(char::from).collect();
        Self {
            to: String::new(),
            method: method.to_string(),
            path: path.to_owned(),
            headers: headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            principal,
            address: None,
            body: hash(body),
            until: 0,
            nonce: String::new(),
        }
    }

    /// Sealed for a replica, from now on for a short time.
    pub fn seal(&mut self, sealer: &Sealer, to: &Replica) -> String {
        self.to.clone_from(&to.id);
        self.until = now() + LIFE;
        self.nonce = random();
        // Plain data of our own: it can always be written.
        sealer.seal(Purpose::Peer, NOWHERE, &serde_json::to_vec(self).unwrap_or_default())
    }

    /// The headers.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(self.headers.len());
        for (name, value) in &self.headers {
            let bytes: Option<Vec<u8>> = value.chars().map(|c| u8::try_from(c).ok()).collect();
            let value = bytes.and_then(|bytes| HeaderValue::from_bytes(&bytes).ok());
            if let (Ok(name), Some(value)) = (HeaderName::try_from(name), value) {
                headers.append(name, value);
            }
        }
        headers
    }
}

impl Cluster {
    /// A letter to this process that came with this body.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn open(&self, sealer: &Sealer, sealed: &str, body: &[u8]) -> Result<Letter, Refused> {
        self.open_at(sealer, (sealed, body), now())
    }

    pub(super) fn open_at(
        &self,
        sealer: &Sealer,
        (sealed, body): (&str, &[u8]),
        now: u64,
    ) -> Result<Letter, Refused> {
        let plain = sealer.open(Purpose::Peer, NOWHERE, sealed).ok_or(Refused::Seal)?;
        let letter: Letter = serde_json::from_slice(&plain).map_err(|_| Refused::Seal)?;
        if letter.body != hash(body) {
            return Err(Refused::Seal);
        }
        if letter.to != self.me.id {
            return Err(Refused::Stranger);
        }
        if letter.until < now || letter.until > now + LIFE + SKEW {
            return Err(Refused::Time);
        }
        let nonce = u128::from_str_radix(&letter.nonce, 16).map_err(|_| Refused::Seal)?;
        self.nonces.take(nonce, letter.until, now).then_some(letter).ok_or(Refused::Replayed)
    }
}

fn hash(body: &[u8]) -> String {
    STANDARD_NO_PAD.encode(digest(&SHA256, body))
}

pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
