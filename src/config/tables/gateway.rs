//! `[gateway]`: its keys and the rules among them.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use url::Url;

use super::super::Gateway;
use super::super::tree::{Node, Table};
use super::super::units::Wrong;
use super::super::values::{
    address, between, boolean, duration, each, line, lines_with_place, network, number, origin_url, path,
    sealing_key, size, text, time,
};
use super::{GatewayEntry, words};

const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080));
const ADMIN_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9090));
const NAME: &str = "gatehouse";

const MIB: usize = 1 << 20;
const KIB: usize = 1 << 10;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Reads `[gateway]`.
pub(in super::super) fn gateway(table: &Table<'_>) -> GatewayEntry {
    let include = table.or("include", lines_with_place, []);
    let include_at = table.has("include").then(|| table.place("include"));
    let gateway = Gateway {
        listen: table.or("listen", address, LISTEN),
        admin_listen: table.or("admin_listen", address, ADMIN_LISTEN),
        public_url: table.get("public_url", origin_url),
        name: table.or("name", line, NAME),
        title: table.get("title", line),
        instructions: table.get("instructions", text),
        allowed_hosts: table.get("allowed_hosts", |node| words(node, host)),
        allowed_origins: table.get("allowed_origins", |node| words(node, origin)),
        trusted_proxies: table.or("trusted_proxies", |node| each(node, "an array of strings", network), []),
        allow_unauthenticated: table.or("allow_unauthenticated", boolean, false),
        keys: table.or("keys", |node| each(node, "an array of strings", sealing_key), []),
        state_dir: table.get("state_dir", path),
        separator: table.or("separator", text, "_"),
        max_name_length: table.or("max_name_length", between(16, 1024), 64_usize),
        strict_names: table.or("strict_names", boolean, true),
        allow_clashes: table.or("allow_clashes", boolean, false),
        pinned_only: table.or("pinned_only", boolean, false),
        playbooks: table.get("playbooks", path),
        max_ttl: table.or("max_ttl", duration, DAY),
        stale_if_error: table.or("stale_if_error", duration, DAY),
        page_size: table.or("page_size", between(0, 100_000), 0_usize),
        max_body: table.or("max_body", size, 4 * MIB),
        max_header: table.or("max_header", size, 64 * KIB),
        max_depth: table.or("max_depth", between(1, 10_000), 128_usize),
        max_input_elements: table.or("max_input_elements", number, 100_000_usize),
        max_buffered: table.or("max_buffered", size, 256 * MIB),
        max_lag: table.or("max_lag", duration, Duration::from_secs(2)),
        max_connections: table.or("max_connections", number, 20_000_usize),
        header_timeout: table.or("header_timeout", time, Duration::from_secs(10)),
        body_timeout: table.or("body_timeout", time, Duration::from_secs(30)),
        idle_timeout: table.or("idle_timeout", time, Duration::from_secs(75)),
        keepalive_interval: table.or("keepalive_interval", time, Duration::from_secs(15)),
        max_streams: table.or("max_streams", number, 64_usize),
        max_parked: table.or("max_parked", number, 100_usize),
        park_timeout: table.or("park_timeout", time, Duration::from_secs(300)),
        max_sessions: table.or("max_sessions", between(1, 1_000_000), 1000_usize),
        session_idle: table.or("session_idle", time, Duration::from_secs(30 * 60)),
        session_max_age: table.or("session_max_age", time, DAY / 2),
        drain_timeout: table.or("drain_timeout", duration, Duration::from_secs(30)),
    };
    addresses(table, &gateway);
    bounds(table, &gateway);
    separator(table, &gateway);
    GatewayEntry { gateway, include, include_at, listen_at: table.place("listen") }
}

fn addresses(table: &Table<'_>, gateway: &Gateway) {
    let Gateway { listen, admin_listen, .. } = gateway;
    let (here, there) = (listen.ip(), admin_listen.ip());
    let overlap = here == there || here.is_unspecified() || there.is_unspecified();
    if listen.port() != 0 && listen.port() == admin_listen.port() && overlap {
        let key = if table.has("admin_listen") { "admin_listen" } else { "listen" };
        table.report(key, "`listen` and `admin_listen` are the same address", "give them different ports");
    }
}

fn bounds(table: &Table<'_>, gateway: &Gateway) {
    // hyper's read buffer is never smaller.
    if gateway.max_header < 8 * KIB {
        table.report("max_header", "must be at least \"8KiB\"", "");
    }
    if gateway.max_buffered < gateway.max_body {
        let key = if table.has("max_buffered") { "max_buffered" } else { "max_body" };
        table.report(
            key,
            "`max_buffered` must be at least `max_body`, or no such body could ever be read",
            "",
        );
    }
}

fn separator(table: &Table<'_>, gateway: &Gateway) {
    let Gateway { separator, strict_names, .. } = gateway;
    if let Some(help) = name_fault(separator, *strict_names) {
        table.report("separator", "holds a character that names cannot have", help);
    } else if separator.len() > 8 {
        table.report("separator", "must be at most 8 characters long", "");
    }
}

/// What names may hold, if `text` holds anything else.
pub(in super::super) fn name_fault(text: &str, strict: bool) -> Option<&'static str> {
    let more: &[u8] = if strict { b"_-" } else { b"_-./" };
    let fits = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte));
    match (fits, strict) {
        (true, _) => None,
        (false, true) => Some("letters, digits, `_` and `-`, since `strict_names` is on"),
        (false, false) => Some("letters, digits and `_ - . /`"),
    }
}

/// A host as it stands in a `Host` header, with or without a port, or `*`.
fn host(node: &Node<'_>) -> Option<String> {
    node.parsed(|text| {
        let wrong = Wrong::new(
            "is not a host",
            "as \"mcp.example.com\" or \"mcp.example.com:8443\", or \"*\" for any",
        );
        if text == "*" || is_authority(text) { Ok(text.to_owned()) } else { Err(wrong) }
    })
}

/// An origin as it stands in an `Origin` header.
fn origin(node: &Node<'_>) -> Option<String> {
    node.parsed(|text| {
        let wrong = Wrong::new("is not an origin", "scheme, host and port, as \"https://app.example.com\"");
        let Some((scheme, authority)) = text.split_once("://") else { return Err(wrong) };
        let head = scheme.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
        let rest = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        if head && rest && is_authority(authority) { Ok(text.to_owned()) } else { Err(wrong) }
    })
}

fn is_authority(text: &str) -> bool {
    let plain = !text.is_empty()
        && !text.contains(['/', '?', '#', '@', '*', '\\', '%'])
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    plain && Url::parse(&format!("http://{text}/")).is_ok_and(|url| url.host_str().is_some())
}
