//! Sealed tokens: what we hand out and take back, readable by us alone, each for one purpose (design §7).
//!
//! A token is `1.` and URL-safe Base64 of: key id (4 bytes), nonce (24), ciphertext with tag. Sealed with
//! XChaCha20-Poly1305 under a key derived by HKDF-SHA256 for its purpose; bound to its endpoint. It says
//! nothing about time or caller: what must hold later is put into the plaintext by who seals.

use aws_lc_rs::{hkdf, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};

const VERSION: &str = "1.";
const ID: usize = 4;
const NONCE: usize = 24;

/// What a token is for; one opens for no other purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// `requestState`.
    State,
    /// A list's cursor (L-55).
    Cursor,
    /// A legacy session's id.
    Session,
    /// A task's id.
    Task,
    /// A call from one replica to another.
    Peer,
}

impl Purpose {
    const ALL: [Self; 5] = [Self::State, Self::Cursor, Self::Session, Self::Task, Self::Peer];

    const fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Cursor => "cursor",
            Self::Session => "session",
            Self::Task => "task",
            Self::Peer => "peer",
        }
    }
}

/// Seals with the first key, opens with all (key rotation).
pub struct Sealer {
    first: Subkeys,
    others: Vec<Subkeys>,
}

struct Subkeys {
    id: [u8; ID],
    ciphers: [XChaCha20Poly1305; Purpose::ALL.len()],
}

impl Sealer {
    /// With the operator's keys (`gateway.keys`, decoded); `None` when there are none.
    pub fn new<K: AsRef<[u8]>>(keys: &[K]) -> Option<Self> {
        let (first, others) = keys.split_first()?;
        let others = others.iter().map(|key| Subkeys::derive(key.as_ref())).collect();
        Some(Self { first: Subkeys::derive(first.as_ref()), others })
    }

    /// With a key of its own that nobody else has and that ends with the process.
    pub fn random() -> Self {
        Self { first: Subkeys::derive(&random::<32>()), others: Vec::new() }
    }

    /// Seals `plaintext`; `endpoint` is the endpoint's path. Visible ASCII without white space.
    pub fn seal(&self, purpose: Purpose, endpoint: &str, plaintext: &[u8]) -> String {
        let (keys, nonce) = (&self.first, random::<NONCE>());
        let payload = Payload { msg: plaintext, aad: &context(purpose, endpoint) };
        let sealed = keys.cipher(purpose).encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.expect("only texts beyond 256 GiB cannot be sealed");
        let token = [&keys.id[..], &nonce, &sealed].concat();
        format!("{VERSION}{}", URL_SAFE_NO_PAD.encode(token))
    }

    /// The plaintext; `None` when it was not sealed by one of our keys for this purpose and endpoint,
    /// or anything in it was changed.
    pub fn open(&self, purpose: Purpose, endpoint: &str, token: &str) -> Option<Vec<u8>> {
        let token = URL_SAFE_NO_PAD.decode(token.strip_prefix(VERSION)?).ok()?;
        let (id, rest) = token.split_first_chunk::<ID>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE>()?;
        let aad = context(purpose, endpoint);
        // Ids of two keys may be equal by chance, so each key with that id gets its try.
        std::iter::once(&self.first).chain(&self.others).filter(|keys| keys.id == *id).find_map(|keys| {
            keys.cipher(purpose).decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: &aad }).ok()
        })
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("keys", &(1 + self.others.len())).finish_non_exhaustive()
    }
}

impl Subkeys {
    fn derive(key: &[u8]) -> Self {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"gatehouse sealed token 1");
        let secret = salt.extract(key);
        let cipher = |purpose: Purpose| {
            XChaCha20Poly1305::new(&Key::from(expand::<32>(&secret, &["key:", purpose.as_str()].concat())))
        };
        Self { id: expand(&secret, "id"), ciphers: Purpose::ALL.map(cipher) }
    }

    const fn cipher(&self, purpose: Purpose) -> &XChaCha20Poly1305 {
        &self.ciphers[purpose as usize]
    }
}

/// What a token is bound to without holding it. No purpose has a line break in it: no two contexts agree.
fn context(purpose: Purpose, endpoint: &str) -> Vec<u8> {
    [VERSION, purpose.as_str(), "\n", endpoint].concat().into_bytes()
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand<const N: usize>(secret: &hkdf::Prk, info: &str) -> [u8; N] {
    let mut out = [0; N];
    let done = secret.expand(&[info.as_bytes()], Length(N)).and_then(|okm| okm.fill(&mut out));
    done.expect("HKDF-SHA256 gives up to 8160 bytes");
    out
}

fn random<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    rand::fill(&mut out).expect("the system's random source does not fail once it is up");
    out
}

#[cfg(test)]
mod tests;
