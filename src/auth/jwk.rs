//! One public key of an issuer's set, and which algorithms it fits.

use jsonwebtoken::{Algorithm as Jwa, DecodingKey, crypto};
use serde_json::{Map, Value};

use crate::config::auth::Algorithm;

/// What a key is, as far as algorithms care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rsa,
    P256,
    P384,
    Ed25519,
}

/// A key that signatures can be checked with.
#[derive(Debug)]
pub(super) struct Key {
    /// `kid`
    pub(super) id: Option<String>,
    /// A digest of what it is: two keys of one `kid` are two keys.
    pub(super) print: [u8; 32],
    kind: Kind,
    /// `alg`: the only one it is for.
    only: Option<Algorithm>,
    decoding: DecodingKey,
}

impl Key {
    /// A member of `keys`; `None` when it is not for signatures, or of a kind that is not checked here. Shared
    /// secrets (`oct`) are never keys.
    pub(super) fn parse(jwk: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let for_signatures = text("use").is_none_or(|usage| usage == "sig")
            && jwk
                .get("key_ops")
                .and_then(Value::as_array)
                .is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !for_signatures {
            return None;
        }
        let only = match text("alg") {
            Some(name) => Some(algorithm(name)?),
            None => None,
        };
        let (kind, decoding, parts) = match text("kty")? {
            "RSA" => {
                let (n, e) = (text("n")?, text("e")?);
                (Kind::Rsa, DecodingKey::from_rsa_components(n, e).ok()?, [n, e])
            }
            "EC" => {
                let kind = match text("crv")? {
                    "P-256" => Kind::P256,
                    "P-384" => Kind::P384,
                    _ => return None,
                };
                let (x, y) = (text("x")?, text("y")?);
                (kind, DecodingKey::from_ec_components(x, y).ok()?, [x, y])
            }
            "OKP" if text("crv")? == "Ed25519" => {
                let x = text("x")?;
                (Kind::Ed25519, DecodingKey::from_ed_components(x).ok()?, [x, ""])
            }
            _ => return None,
        };
        let print = super::sha256(&[&[kind as u8], parts[0].as_bytes(), b".", parts[1].as_bytes()]);
        Some(Self { id: text("kid").map(str::to_owned), print, kind, only, decoding })
    }

    /// Whether signatures of this algorithm can be this key's.
    pub(super) fn fits(&self, algorithm: Algorithm) -> bool {
        let kind = match algorithm {
            Algorithm::Rs256
            | Algorithm::Rs384
            | Algorithm::Rs512
            | Algorithm::Ps256
            | Algorithm::Ps384
            | Algorithm::Ps512 => Kind::Rsa,
            Algorithm::Es256 => Kind::P256,
            Algorithm::Es384 => Kind::P384,
            Algorithm::EdDsa => Kind::Ed25519,
        };
        self.kind == kind && self.only.is_none_or(|only| only == algorithm)
    }

    /// Whether `signature` (base64url) is this key's over `signed`.
    pub(super) fn verifies(&self, algorithm: Algorithm, signed: &str, signature: &str) -> bool {
        self.fits(algorithm)
            && crypto::verify(signature, signed.as_bytes(), &self.decoding, jwa(algorithm)).unwrap_or(false)
    }
}

/// An algorithm by the name in a header or a key; RFC 9864 calls the only EdDSA we have by its curve.
pub(super) fn algorithm(name: &str) -> Option<Algorithm> {
    Algorithm::parse(if name == "Ed25519" { "EdDSA" } else { name })
}

const fn jwa(algorithm: Algorithm) -> Jwa {
    match algorithm {
        Algorithm::Rs256 => Jwa::RS256,
        Algorithm::Rs384 => Jwa::RS384,
        Algorithm::Rs512 => Jwa::RS512,
        Algorithm::Ps256 => Jwa::PS256,
        Algorithm::Ps384 => Jwa::PS384,
        Algorithm::Ps512 => Jwa::PS512,
        Algorithm::Es256 => Jwa::ES256,
        Algorithm::Es384 => Jwa::ES384,
        Algorithm::EdDsa => Jwa::EdDSA,
    }
}
