//! Addresses of a client's file: names, passwords and keys in them go elsewhere.

use super::draft::Credentials;
use super::secrecy::{harmless, random, secretive};
use super::vault::{Place, Vault, is_reference};

/// An address for our configuration.
pub(super) struct Address {
    /// With variables where secrets stood.
    pub(super) url: String,
    /// The name and password that stood in it.
    pub(super) credentials: Option<Credentials>,
    /// Whether something behind `#` was left out.
    pub(super) cut: bool,
}

/// Reads an `http` or `https` address; `None` for any other.
pub(super) fn address(raw: &str, server: &str, vault: &mut Vault) -> Option<Address> {
    let raw = raw.trim();
    let placeholder = raw.starts_with("${");
    let (scheme, rest) = raw.split_once("://").unwrap_or(("", raw));
    if !placeholder && !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
        return None;
    }
    let (rest, cut) = rest.split_once('#').map_or((rest, false), |(before, _)| (before, true));
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(before, query)| (before, Some(query)));
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    let place = Place { server, what: "url" };
    let mut url = if scheme.is_empty() { String::new() } else { format!("{}://", vault.text(scheme, place)) };
    url.push_str(&vault.text(host, place));
    let segments: Vec<String> = path.split('/').map(|part| segment(part, server, vault)).collect();
    url.push_str(&segments.join("/"));
    if let Some(query) = query {
        let pairs: Vec<String> = query.split('&').map(|pair| parameter(pair, server, vault)).collect();
        url.push('?');
        url.push_str(&pairs.join("&"));
    }
    let credentials = user.map(|user| basic(user, server, vault));
    Some(Address { url, credentials, cut })
}

fn segment(part: &str, server: &str, vault: &mut Vault) -> String {
    let place = Place { server, what: "url, a part of its path" };
    if random(part) && !is_reference(part) {
        vault.secret(part, &format!("{server}_url_key"), place)
    } else {
        vault.text(part, place)
    }
}

fn parameter(pair: &str, server: &str, vault: &mut Vault) -> String {
    let Some((key, value)) = pair.split_once('=') else { return segment(pair, server, vault) };
    let what = format!("url, parameter {key}");
    let place = Place { server, what: &what };
    let value = if value.is_empty() || (harmless(value) && !secretive(key)) || is_reference(value) {
        vault.text(value, place)
    } else {
        vault.secret(value, &format!("{server}_{key}"), place)
    };
    format!("{}={value}", vault.text(key, place))
}

fn basic(user: &str, server: &str, vault: &mut Vault) -> Credentials {
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let place = Place { server, what: "url, user name and password" };
    Credentials::Basic {
        user: vault.secret(user, &format!("{server}_user"), place),
        password: vault.secret(password, &format!("{server}_password"), place),
    }
}
