//! `[auth]`: its keys and the rules among them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};
use url::Url;

use super::super::auth::{Algorithm, ApiKey, Auth, Introspection, Issuer, is_loopback_literal};
use super::super::problem::Place;
use super::super::tree::{Node, Table};
use super::super::units::Wrong;
use super::super::values::{basic_part, boolean, choice, duration, each, http_url, line};
use super::{rows, words};

/// Clocks that are further apart are wrong, and a token would live that much longer.
const MOST_SKEW: Duration = Duration::from_secs(60);
const ALGORITHMS: [Algorithm; 4] = [Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::EdDsa];

/// Reads `[auth]`.
pub(super) fn auth(table: &Table<'_>) -> Auth {
    let required = table.or("required_scopes", |node| words(node, scope), []);
    let supported = table.get("scopes_supported", |node| words(node, scope));
    let auth = Auth {
        scopes_supported: supported.unwrap_or_else(|| required.clone()),
        required_scopes: required,
        scope_implies: table.or("scope_implies", implied, []),
        skew: table.or("skew", duration, Duration::from_secs(30)),
        allow_insecure_http: table.or("allow_insecure_http", boolean, false),
        issuers: Vec::new(),
        keys: Vec::new(),
    };
    let issuers = table.get("issuer", |node| rows(node, "issuer", issuer)).unwrap_or_default();
    let keys = table.get("key", |node| rows(node, "name", key)).unwrap_or_default();
    rules(table, auth.allow_insecure_http, &issuers, &keys);
    if auth.skew > MOST_SKEW {
        table.report("skew", "must be at most \"60s\"", "keep the clocks in time");
    }
    Auth {
        issuers: issuers.into_iter().filter_map(|entry| entry.issuer).collect(),
        keys: keys.into_iter().filter_map(|entry| entry.key).collect(),
        ..auth
    }
}

/// `[[auth.issuer]]` and where its parts are.
struct IssuerEntry {
    issuer: Option<Issuer>,
    issuer_at: Place,
    jwks_at: Place,
    introspection_at: Place,
}

/// `[[auth.key]]` and where its parts are.
struct KeyEntry {
    key: Option<ApiKey>,
    name_at: Place,
    digest_at: Place,
}

/// Rules among issuers and keys.
fn rules(table: &Table<'_>, insecure: bool, issuers: &[IssuerEntry], keys: &[KeyEntry]) {
    let mut asked = None;
    for (at, entry) in issuers.iter().enumerate() {
        let Some(issuer) = &entry.issuer else { continue };
        let known = |other: &IssuerEntry| other.issuer.as_ref().is_some_and(|o| o.issuer == issuer.issuer);
        if issuers[..at].iter().any(known) {
            table.report_at(&entry.issuer_at, "the same issuer is already there", "");
        }
        let own = Url::parse(&issuer.issuer).ok();
        let introspection = issuer.introspection.as_ref().map(|one| &one.url);
        let urls = [
            (own.as_ref(), &entry.issuer_at),
            (issuer.jwks_url.as_ref(), &entry.jwks_at),
            (introspection, &entry.introspection_at),
        ];
        for (_, place) in urls.iter().filter(|(url, _)| !insecure && url.is_some_and(is_insecure)) {
            let help = "https, or http to 127.0.0.1 or [::1]; else `allow_insecure_http = true`";
            table.report_at(place, "whoever is on the way could replace keys and answers", help);
        }
        if introspection.is_some() && asked.replace(&entry.introspection_at).is_some() {
            let help = "an opaque token does not say whose it is, and goes to no stranger";
            table.report_at(&entry.introspection_at, "another issuer has `introspection` already", help);
        }
    }
    for (at, entry) in keys.iter().enumerate() {
        let Some(key) = &entry.key else { continue };
        let earlier = || keys[..at].iter().filter_map(|other| other.key.as_ref());
        if earlier().any(|other| other.name == key.name) {
            table.report_at(&entry.name_at, "the same name is already taken", "");
        }
        if earlier().any(|other| other.sha256 == key.sha256) {
            table.report_at(&entry.digest_at, "another key has the same digest", "");
        }
    }
}

/// Plain http to anything but a literal loopback address.
pub(in crate::config) fn is_insecure(url: &Url) -> bool {
    url.scheme() == "http" && !is_loopback_literal(url)
}

fn issuer(table: &Table<'_>) -> IssuerEntry {
    IssuerEntry {
        issuer: issuer_of(table),
        issuer_at: table.place("issuer"),
        jwks_at: table.place("jwks_url"),
        introspection_at: table.place("introspection"),
    }
}

fn issuer_of(table: &Table<'_>) -> Option<Issuer> {
    let issuer = table.need("issuer", issuer_id);
    let audiences = table.or("audiences", |node| words(node, line), []);
    let other_audiences = table.or("other_audiences", |node| words(node, line), []);
    let algorithms = table.or("algorithms", |node| each(node, "an array of strings", algorithm), ALGORITHMS);
    if algorithms.is_empty() && table.has("algorithms") {
        table.report("algorithms", "is empty: no token could be verified", "");
    }
    let jwks_url = table.get("jwks_url", http_url);
    let require_at_jwt = table.or("require_at_jwt", boolean, true);
    let introspection = table.get("introspection", |node| node.open(introspection)?);
    let issuer = issuer?;
    Some(Issuer { issuer, audiences, other_audiences, algorithms, jwks_url, require_at_jwt, introspection })
}

fn introspection(table: &Table<'_>) -> Option<Introspection> {
    let url = table.need("url", http_url);
    let client_id = table.need("client_id", line);
    let client_secret = table.need("client_secret", basic_part);
    Some(Introspection { url: url?, client_id: client_id?, client_secret: client_secret? })
}

fn key(table: &Table<'_>) -> KeyEntry {
    KeyEntry { key: key_of(table), name_at: table.place("name"), digest_at: table.place("sha256") }
}

fn key_of(table: &Table<'_>) -> Option<ApiKey> {
    let name = table.need("name", key_name);
    let sha256 = table.need("sha256", digest);
    let claims = table.get("claims", claims);
    // Claims that could not be read have been reported.
    Some(ApiKey { name: name?, sha256: sha256?, claims: claims.unwrap_or_default() })
}

/// A URL as the tokens and the metadata spell it, kept letter by letter.
pub(super) fn issuer_id(node: &Node<'_>) -> Option<String> {
    let url: Url = http_url(node)?;
    if url.query().is_some() {
        return node.fail("must not have a query", "");
    }
    node.text().map(|text| text.value)
}

fn algorithm(node: &Node<'_>) -> Option<Algorithm> {
    let text = node.text()?;
    if text.value.starts_with("HS") || text.value.eq_ignore_ascii_case("none") {
        let help = "with a shared secret, or none, whoever checks tokens can make them";
        return node.fail("is not an algorithm with a public key", help);
    }
    choice(&Algorithm::ALL)(node)
}

/// A scope of RFC 6749: printable, without space, quote and backslash.
pub(super) fn scope(node: &Node<'_>) -> Option<String> {
    node.parsed(|text| {
        scope_of(text)?;
        Ok(text.to_owned())
    })
}

fn scope_of(text: &str) -> Result<(), Wrong> {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    if text.is_empty() || !text.bytes().all(plain) {
        return Err(Wrong::new("is not a scope", "one word without quotes, as \"mcp:use\""));
    }
    if text == "offline_access" {
        return Err(Wrong::new("is between a client and its authorization server", "leave it out"));
    }
    Ok(())
}

fn implied(node: &Node<'_>) -> Option<BTreeMap<String, Vec<String>>> {
    let read = |(broad, value): &(&str, Node<'_>)| {
        let narrow = words(value, scope);
        match scope_of(broad) {
            Ok(()) => Some(((*broad).to_owned(), narrow?)),
            Err(wrong) => value.fail(format!("{broad:?} {}", wrong.what), wrong.help),
        }
    };
    let read: Vec<_> = node.entries()?.iter().map(read).collect();
    read.into_iter().collect()
}

/// A name that can be a label and a principal.
fn key_name(node: &Node<'_>) -> Option<String> {
    node.parsed(|text| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if (1..=64).contains(&text.len()) && text.bytes().all(plain) {
            return Ok(text.to_owned());
        }
        Err(Wrong::new("is not a key's name", "1 to 64 letters, digits and `-_.`, as \"nightly-build\""))
    })
}

/// 64 hexadecimal digits. Not shown: who mistook it may have written the key itself.
fn digest(node: &Node<'_>) -> Option<[u8; 32]> {
    node.parsed_secret(|text| {
        let help = "64 hexadecimal digits: `printf %s \"$KEY\" | sha256sum`";
        let wrong = || Wrong::new("is not a SHA-256 digest", help);
        if text.len() != 64 || !text.is_ascii() {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            let pair = &text[at..at + 2];
            if !pair.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(bytes)
    })
}

fn claims(node: &Node<'_>) -> Option<Map<String, Value>> {
    let read: Vec<Option<(String, Value)>> =
        node.entries()?.iter().map(|(name, value)| Some(((*name).to_owned(), value.json()?))).collect();
    read.into_iter().collect()
}
