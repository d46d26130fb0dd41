//! `[server.credentials]`: its keys and which of them belong to which kind.

use std::str::FromStr as _;

use http::HeaderName;

use super::super::Credentials;
use super::super::secret::Secret;
use super::super::tree::{Node, Table};
use super::super::units::Wrong;
use super::super::values::{basic_part, choice, header_secret, token};

/// `kind`
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    Bearer,
    Header,
    Basic,
}

const KINDS: &[(&str, Kind)] =
    &[("none", Kind::None), ("bearer", Kind::Bearer), ("header", Kind::Header), ("basic", Kind::Basic)];

/// Keys and the kind each belongs to.
const OWNED: &[(&str, Kind)] =
    &[("token", Kind::Bearer), ("headers", Kind::Header), ("user", Kind::Basic), ("password", Kind::Basic)];

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

/// Reads `[server.credentials]`; `None` only after a problem.
pub(super) fn credentials(table: &Table<'_>) -> Option<Credentials> {
    let kind = table.get("kind", choice(KINDS));
    let token = table.get("token", token);
    let headers = table.get("headers", headers);
    let user = table.get("user", user);
    let password = table.get("password", basic_part);
    // Of a misspelt kind nobody knows which keys belong to it.
    if table.has("kind") && kind.is_none() {
        return None;
    }
    let kind = kind.unwrap_or(Kind::None);
    for (key, owner) in OWNED {
        complain(table, key, *owner, kind);
    }
    match kind {
        Kind::None => Some(Credentials::None),
        Kind::Bearer => token.map(Credentials::Bearer),
        Kind::Header => headers.map(Credentials::Headers),
        Kind::Basic => Some(Credentials::Basic { user: user?, password: password? }),
    }
}

fn complain(table: &Table<'_>, key: &str, owner: Kind, kind: Kind) {
    let word = |kind: Kind| KINDS.iter().find(|(_, known)| *known == kind).map_or("", |(word, _)| *word);
    match (table.has(key), owner == kind) {
        (true, false) => {
            let help = format!("write `kind = {:?}` or remove it", word(owner));
            table.report(key, format!("means nothing with `kind = {:?}`", word(kind)), &help);
        }
        (false, true) => table.report(key, format!("is missing, `kind = {:?}` needs it", word(kind)), ""),
        (true, true) | (false, false) => {}
    }
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
