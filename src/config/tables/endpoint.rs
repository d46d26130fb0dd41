//! `[[endpoint]]`: its keys.

use super::super::tree::{Node, Table};
use super::super::units::Wrong;
use super::super::values::{boolean, choice, globs, globs_with_place, path, text};
use super::super::{Discovery, Endpoint, Globs};
use super::EndpointEntry;

/// The path of the endpoint that is there when none is written.
const DEFAULT_PATH: &str = "/mcp";

/// The endpoint that is there when none is written.
pub(in super::super) fn default_endpoint() -> Endpoint {
    Endpoint {
        path: DEFAULT_PATH.into(),
        servers: Globs::any(),
        prefix: true,
        instructions: None,
        playbooks: None,
        discovery: Discovery::List,
        pinned: Globs::none(),
    }
}

/// Reads one `[[endpoint]]`.
pub(super) fn endpoint(table: &Table<'_>) -> EndpointEntry {
    let own = table.need("path", endpoint_path).unwrap_or_default();
    let servers = table.get("servers", globs_with_place);
    let prefix = table.get("prefix", boolean);
    let instructions = table.get("instructions", text);
    let discovery = choice(&[("list", Discovery::List), ("search", Discovery::Search)]);
    let discovery = table.or("discovery", discovery, Discovery::List);
    let pinned = table.or("pinned", globs, Globs::none());
    if !pinned.patterns().is_empty() && discovery == Discovery::List {
        let help = "remove it, or write `discovery = \"search\"`";
        table.report("pinned", "means nothing with `discovery = \"list\"`, which lists every tool", help);
    }
    let playbooks = table.get("playbooks", path);
    if table.has("playbooks") && prefix == Some(false) {
        let help = "an endpoint with `prefix = false` shows its server as it is";
        table.report("playbooks", "means nothing with `prefix = false`", help);
    }
    let unread = table.has("servers") && servers.is_none() || table.has("prefix") && prefix.is_none();
    let (servers, patterns) = servers.unwrap_or_else(|| (Globs::any(), Vec::new()));
    let endpoint = Endpoint {
        path: own.into(),
        servers,
        prefix: prefix.unwrap_or(true),
        instructions,
        playbooks,
        discovery,
        pinned,
    };
    EndpointEntry {
        endpoint: (!unread).then_some(endpoint),
        label: table.at().key.clone(),
        path_at: table.place("path"),
        prefix_at: table.place("prefix"),
        patterns,
    }
}

/// A path that means itself to every router and proxy: no escapes, no empty or dotted segments.
fn endpoint_path(node: &Node<'_>) -> Option<String> {
    node.parsed(|text| {
        let Some(inside) = text.strip_prefix('/') else {
            return Err(Wrong::new("does not begin with `/`", ""));
        };
        if text.ends_with('/') {
            return Err(Wrong::new("ends with `/`", "as \"/mcp\""));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let segment = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(plain);
        if !inside.split('/').all(segment) {
            return Err(Wrong::new(
                "is not a plain path",
                "letters, digits and `-._~` between single slashes",
            ));
        }
        if inside.split('/').next() == Some(".well-known") {
            return Err(Wrong::new("is under /.well-known, which is for metadata", ""));
        }
        Ok(text.to_owned())
    })
}
