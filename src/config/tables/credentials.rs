//! `[server.credentials]`: its keys and which of them belong to which kind.

use std::str::FromStr as _;

use http::HeaderName;

use super::super::problem::Place;
use super::super::secret::Secret;
use super::super::signing::SigningKey;
use super::super::tree::{Node, Table};
use super::super::units::Wrong;
use super::super::values::{basic_part, choice, header_secret, http_url, line, token};
use super::super::{ClientSecret, Credentials, OauthClient};
use super::auth::{issuer_id, scope};
use super::words;

/// `kind`
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    Bearer,
    Header,
    Basic,
    Client,
    Exchange,
}

const KINDS: &[(&str, Kind)] = &[
    ("none", Kind::None),
    ("bearer", Kind::Bearer),
    ("header", Kind::Header),
    ("basic", Kind::Basic),
    ("client_credentials", Kind::Client),
    ("token_exchange", Kind::Exchange),
];

const OAUTH: &[Kind] = &[Kind::Client, Kind::Exchange];

/// Keys and the kinds each belongs to.
const OWNED: &[(&str, &[Kind])] = &[
    ("token", &[Kind::Bearer]),
    ("headers", &[Kind::Header]),
    ("user", &[Kind::Basic]),
    ("password", &[Kind::Basic]),
    ("client_id", OAUTH),
    ("issuer", OAUTH),
    ("token_url", OAUTH),
    ("client_secret", OAUTH),
    ("private_key", OAUTH),
    ("scopes", OAUTH),
    ("resource", OAUTH),
    ("audience", &[Kind::Exchange]),
];

/// Keys that their kind can do without, or that stand for each other.
const OPTIONAL: &[&str] =
    &["issuer", "token_url", "client_secret", "private_key", "scopes", "resource", "audience"];

/// `[server.credentials]` and where its addresses are.
pub(super) struct CredentialsEntry {
    /// `None` only after a problem.
    pub(super) credentials: Option<Credentials>,
    /// Where `issuer` is, or would be.
    pub(super) issuer_at: Place,
    /// Where `token_url` is, or would be.
    pub(super) token_url_at: Place,
}

/// Headers that the HTTP hop or MCP itself owns, beside `mcp-*` and `proxy-*`.
const OURS: &[&str] = &[
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Words in names of headers that are, or may be, credentials of the caller's.
const SECRETIVE: &[&str] =
    &["auth", "cookie", "token", "secret", "password", "api-key", "apikey", "session", "jwt", "credential"];

/// Headers in which proxies say who the caller is or where he comes from, beside `x-forwarded-*`.
const PROXIED: &[&str] =
    &["forwarded", "origin", "referer", "remote-user", "via", "x-real-ip", "x-remote-user"];

/// Reads `[server.credentials]`.
pub(super) fn credentials(table: &Table<'_>) -> CredentialsEntry {
    CredentialsEntry {
        credentials: read(table),
        issuer_at: table.place("issuer"),
        token_url_at: table.place("token_url"),
    }
}

fn read(table: &Table<'_>) -> Option<Credentials> {
    let kind = table.get("kind", choice(KINDS));
    let token = table.get("token", token);
    let headers = table.get("headers", headers);
    let user = table.get("user", user);
    let password = table.get("password", basic_part);
    let client = client(table);
    let audience = table.get("audience", line);
    // Of a misspelt kind nobody knows which keys belong to it.
    if table.has("kind") && kind.is_none() {
        return None;
    }
    let kind = kind.unwrap_or(Kind::None);
    for (key, owners) in OWNED {
        complain(table, key, owners, kind);
    }
    if OAUTH.contains(&kind) {
        client_rules(table, kind);
    }
    match kind {
        Kind::None => Some(Credentials::None),
        Kind::Bearer => token.map(Credentials::Bearer),
        Kind::Header => headers.map(Credentials::Headers),
        Kind::Basic => Some(Credentials::Basic { user: user?, password: password? }),
        Kind::Client => client.map(Credentials::Client),
        Kind::Exchange => Some(Credentials::Exchange { client: client?, audience }),
    }
}

fn client(table: &Table<'_>) -> Option<OauthClient> {
    let issuer = table.get("issuer", issuer_id);
    let token_url = table.get("token_url", http_url);
    let client_id = table.get("client_id", line);
    let secret = table.get("client_secret", basic_part).map(ClientSecret::Secret);
    let key = table.get("private_key", private_key).map(ClientSecret::Key);
    let scopes = table.or("scopes", |node| words(node, scope), []);
    let resource = table.get("resource", resource);
    let (client_id, secret) = (client_id?, secret.or(key)?);
    Some(OauthClient { issuer, token_url, client_id, secret, scopes, resource, unguarded: false })
}

fn client_rules(table: &Table<'_>, kind: Kind) {
    match (table.has("client_secret"), table.has("private_key")) {
        (true, true) => table.report("private_key", "`client_secret` and `private_key` are both given", ""),
        (false, false) => table.report_here("has neither `client_secret` nor `private_key`", ""),
        (true, false) | (false, true) => {}
    }
    if kind == Kind::Exchange && !table.has("issuer") {
        let help = "the one in [[auth.issuer]] whose tokens callers bring; their tokens go nowhere else";
        table.report("issuer", "is missing, `kind = \"token_exchange\"` needs it", help);
    }
}

/// The address that tokens are for, kept letter by letter.
fn resource(node: &Node<'_>) -> Option<String> {
    http_url(node)?;
    node.text().map(|text| text.value)
}

fn private_key(node: &Node<'_>) -> Option<SigningKey> {
    node.parsed_secret(|text| {
        let help = "PEM of an RSA, P-256, P-384 or Ed25519 key, as ${file:/run/secrets/key.pem}";
        SigningKey::parse(text).ok_or_else(|| Wrong::new("is not a private key", help))
    })
}

fn complain(table: &Table<'_>, key: &str, owners: &[Kind], kind: Kind) {
    let word = |kind: Kind| KINDS.iter().find(|(_, known)| *known == kind).map_or("", |(word, _)| *word);
    match (table.has(key), owners.contains(&kind)) {
        (true, false) => {
            let words: Vec<String> =
                owners.iter().map(|owner| format!("`kind = {:?}`", word(*owner))).collect();
            let help = format!("write {} or remove it", words.join(" or "));
            table.report(key, format!("means nothing with `kind = {:?}`", word(kind)), &help);
        }
        (false, true) if !OPTIONAL.contains(&key) => {
            table.report(key, format!("is missing, `kind = {:?}` needs it", word(kind)), "");
        }
        (true, true) | (false, _) => {}
    }
}

/// A header of a client's that may go along to a server.
pub(super) fn forwardable(node: &Node<'_>) -> Option<HeaderName> {
    node.parsed(|text| {
        let name = header_name(text)?;
        let name_text = name.as_str();
        if SECRETIVE.iter().any(|word| name_text.contains(word)) {
            let help = "what a server gets is said by its `credentials`";
            return Err(Wrong::new("is a header that may hold a credential of the caller's", help));
        }
        if PROXIED.contains(&name_text) || name_text.starts_with("x-forwarded-") {
            return Err(Wrong::new("is a header that says who the caller is", ""));
        }
        if matches!(name_text, "traceparent" | "tracestate" | "baggage") {
            return Err(Wrong::new("is a header that the gateway sets itself", ""));
        }
        Ok(name)
    })
}

fn user(node: &Node<'_>) -> Option<String> {
    let user = basic_part(node)?;
    if user.expose().contains(':') {
        return node.fail("the value holds a `:`, which ends the user name of basic credentials", "");
    }
    Some(user.expose().to_owned())
}

fn headers(node: &Node<'_>) -> Option<Vec<(HeaderName, Secret)>> {
    let entries = node.entries()?;
    if entries.is_empty() {
        return node.fail("has no header", "as { \"X-Api-Key\" = \"${API_KEY}\" }");
    }
    let read: Vec<Option<(HeaderName, Secret)>> =
        entries.iter().map(|(name, value)| header(name, value)).collect();
    let headers: Vec<(HeaderName, Secret)> = read.into_iter().collect::<Option<_>>()?;
    for (index, (name, _)) in headers.iter().enumerate() {
        if headers[..index].iter().any(|(earlier, _)| earlier == name) {
            return node
                .fail(format!("names the header `{name}` twice"), "upper and lower case are the same");
        }
    }
    Some(headers)
}

fn header(name: &str, value: &Node<'_>) -> Option<(HeaderName, Secret)> {
    let secret = header_secret(value);
    match header_name(name) {
        Ok(name) => Some((name, secret?)),
        Err(wrong) => value.fail(format!("{name:?} {}", wrong.what), wrong.help),
    }
}

fn header_name(name: &str) -> Result<HeaderName, Wrong> {
    let name = HeaderName::from_str(name)
        .map_err(|_| Wrong::new("is not a header's name", "letters, digits and `-`, as \"X-Api-Key\""))?;
    let text = name.as_str();
    if OURS.contains(&text) || text.starts_with("mcp-") || text.starts_with("proxy-") {
        return Err(Wrong::new("is a header that the gateway sets itself", ""));
    }
    Ok(name)
}
