//! A private key that signs what the gateway asserts of itself, whatever kind of key the PEM holds.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    RSA_PKCS1_SHA256,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use super::Secret;
use super::auth::Algorithm;

/// A key and the algorithm that fits it. `Debug` shows the algorithm only.
#[derive(Clone)]
pub struct SigningKey {
    pem: Secret,
    pair: Arc<Pair>,
}

enum Pair {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl SigningKey {
    /// Reads PEM: PKCS#8, PKCS#1 or SEC1; RSA, P-256, P-384 or Ed25519. `None`: it is not that.
    pub fn parse(pem: &str) -> Option<Self> {
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).ok()?;
        let bytes = der.secret_der();
        let pair = match &der {
            PrivateKeyDer::Pkcs1(_) => RsaKeyPair::from_der(bytes).ok().map(Pair::Rsa),
            _ => RsaKeyPair::from_pkcs8(bytes).ok().map(Pair::Rsa),
        };
        let elliptic = |algorithm| EcdsaKeyPair::from_private_key_der(algorithm, bytes).ok();
        let pair = pair
            .or_else(|| elliptic(&ECDSA_P256_SHA256_FIXED_SIGNING).map(Pair::P256))
            .or_else(|| elliptic(&ECDSA_P384_SHA384_FIXED_SIGNING).map(Pair::P384))
            .or_else(|| Ed25519KeyPair::from_pkcs8(bytes).ok().map(Pair::Ed))?;
        Some(Self { pem: Secret::new(pem), pair: Arc::new(pair) })
    }

    /// What a JWT's header calls this key's signatures.
    pub fn algorithm(&self) -> Algorithm {
        match *self.pair {
            Pair::Rsa(_) => Algorithm::Rs256,
            Pair::P256(_) => Algorithm::Es256,
            Pair::P384(_) => Algorithm::Es384,
            Pair::Ed(_) => Algorithm::EdDsa,
        }
    }

    /// The signature of `message` as a JWS has it. `None` when the machine has no randomness.
    pub fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &*self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).ok()?;
                Some(signature)
            }
            Pair::P256(pair) | Pair::P384(pair) => Some(pair.sign(&random, message).ok()?.as_ref().to_vec()),
            Pair::Ed(pair) => Some(pair.sign(message).as_ref().to_vec()),
        }
    }
}

impl PartialEq for SigningKey {
    fn eq(&self, other: &Self) -> bool {
        self.pem == other.pem
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.algorithm()).finish()
    }
}
