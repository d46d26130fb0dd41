//! `[cluster]`: its keys.

use redis::IntoConnectionInfo as _;
use url::Url;

use super::super::cluster::Cluster;
use super::super::secret::Secret;
use super::super::tree::{Node, Table};
use super::super::units::Wrong;
use super::super::values::address;

/// Reads `[cluster]`; `None` only after a problem.
pub(super) fn cluster(table: &Table<'_>) -> Option<Cluster> {
    let (redis, listen) = (table.need("redis", redis), table.need("listen", address));
    let advertise = table.get("advertise", host_and_port);
    let (redis, listen) = (redis?, listen?);
    if listen.ip().is_unspecified() && !table.has("advertise") {
        table.report(
            "listen",
            "is every address of this machine, and the other replicas need one of them",
            "set `advertise`, as \"10.0.0.7:7600\" or \"${POD_IP}:7600\"",
        );
    }
    Some(Cluster { redis, listen, advertise })
}

/// It may hold a password: messages never show it.
fn redis(node: &Node<'_>) -> Option<Secret> {
    node.parsed_secret(|text| {
        let wrong = Wrong::new(
            "is not the address of a Redis server",
            "as \"redis://redis:6379\", \"rediss://…\" for TLS, with user and password before an `@`",
        );
        let known = text.starts_with("redis://") || text.starts_with("rediss://");
        if known && text.into_connection_info().is_ok() { Ok(Secret::new(text)) } else { Err(wrong) }
    })
}

fn host_and_port(node: &Node<'_>) -> Option<String> {
    node.parsed(|text| {
        let url = Url::parse(&format!("http://{text}/"));
        let plain = !text.contains(['/', '?', '#', '@', '\\', '%']) && !text.starts_with(':');
        // A URL's own port is not told apart from none.
        let port =
            text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0));
        if plain && port && url.is_ok_and(|url| url.has_host()) {
            Ok(text.to_owned())
        } else {
            Err(Wrong::new("is not a host and a port", "as \"10.0.0.7:7600\" or \"[fd00::7]:7600\""))
        }
    })
}
