//! Immutable view of one configuration: its endpoints, their servers, and the views built of them.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;

use super::names::NameRules;
use super::view::View;
use crate::catalogue::Shelf;
use crate::config::{Config, Endpoint as EndpointConfig};
use crate::protocol::items::json_string;
use crate::protocol::method::Kind;

/// Everything a request needs to know about the configuration; taken once per request.
#[derive(Debug)]
pub struct Snapshot {
    /// The configuration.
    pub config: Arc<Config>,
    /// Its endpoints.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// Our `serverInfo`, as JSON text.
    pub server_info: Bytes,
    /// Naming rules of `[gateway]`.
    pub rules: NameRules,
}

/// One MCP server towards clients.
#[derive(Debug)]
pub struct Endpoint {
    /// Its configuration.
    pub config: EndpointConfig,
    /// Its servers, in file order.
    pub members: Vec<Arc<Shelf>>,
    /// The last view built of each kind. Replaced whole; building twice at once is harmless.
    pub(super) views: [ArcSwapOption<View>; Kind::ALL.len()],
}

impl Snapshot {
    /// A snapshot over the shelves of the same configuration.
    pub fn new(config: Arc<Config>, shelves: &[Arc<Shelf>]) -> Self {
        let endpoints = config.endpoints.iter().map(|endpoint| {
            let chosen = |shelf: &&Arc<Shelf>| endpoint.servers.is_match(&shelf.server.name);
            Arc::new(Endpoint {
                config: endpoint.clone(),
                members: shelves.iter().filter(chosen).map(Arc::clone).collect(),
                views: Default::default(),
            })
        });
        Self {
            endpoints: endpoints.collect(),
            server_info: server_info(&config),
            rules: NameRules::from(&config.gateway),
            config,
        }
    }

    /// The endpoint at exactly this path, a trailing slash aside (F-090).
    pub fn endpoint(&self, path: &str) -> Option<&Arc<Endpoint>> {
        let path = match path.strip_suffix('/') {
            Some(shorter) if !shorter.is_empty() => shorter,
            _ => path,
        };
        self.endpoints.iter().find(|endpoint| endpoint.config.path == path)
    }
}

fn server_info(config: &Config) -> Bytes {
    let gateway = &config.gateway;
    let title = gateway.title.as_ref().map(|t| format!(",\"title\":{}", json_string(t))).unwrap_or_default();
    let (name, version) = (json_string(&gateway.name), json_string(env!("CARGO_PKG_VERSION")));
    format!("{{\"name\":{name}{title},\"version\":{version}}}").into()
}
