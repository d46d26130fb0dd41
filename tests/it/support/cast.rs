//! Callers with claims of their own: static keys, told to the gateway by their digests.

use aws_lc_rs::digest::SHA256;

use super::client::Reply;
use super::gateway::Gateway;
use super::request::Request;

/// The key of a caller.
pub(crate) fn key(name: &str) -> String {
    format!("key-of-{name}-0123456789abcdef")
}

/// SHA-256 of a key, as the configuration has it.
pub(crate) fn digest(key: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&SHA256, key.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `[[auth.key]]` of a caller; `claims` are the lines of an inline table.
pub(crate) fn caller(name: &str, claims: &str) -> String {
    let hex = digest(&key(name));
    format!("[[auth.key]]\nname = \"{name}\"\nsha256 = \"{hex}\"\nclaims = {{ {claims} }}\n")
}

/// A request by a caller.
pub(crate) fn by(name: &str, request: impl Into<Request>) -> Request {
    request.into().with("Authorization", format!("Bearer {}", key(name)))
}

/// Sends a request of a caller on a connection of its own.
pub(crate) async fn ask(gateway: &Gateway, name: &str, request: impl Into<Request>) -> Reply {
    gateway.send(by(name, request)).await
}
