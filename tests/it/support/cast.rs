//! Callers with claims of their own: static keys, told to the gateway by their digests.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};

use super::client::Reply;
use super::gateway::Gateway;
use super::request::Request;

/// The key of a caller.
pub(crate) fn key(name: &str) -> String {
    format!("key-of-{name}-0123456789abcdef")
}

/// `[[auth.key]]` of a caller; `claims` are the lines of an inline table.
pub(crate) fn caller(name: &str, claims: &str) -> String {
    let hex = digest(&SHA256, key(name).as_bytes()).as_ref().iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    });
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
