//! `_meta` of a request: the keys that belong to the hop, and the foreign ones that travel on (M-20..M-28).

use std::borrow::Cow;

use super::object::{Object, ObjectError, Span, string};

/// `_meta` key of the protocol version (M-20).
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// `_meta` key of the client's capabilities (M-20).
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// `_meta` key of the client's name and version (H-26: optional).
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// `_meta` key of the least severe log level wanted (M-60).
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// `_meta` key that names the server in every result (M-22).
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// `_meta` key that ties a message to its listen request (S-04).
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// `_meta` key that ties a message to a task of 2025-11-25: of no other hop (G-80).
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// The tasks extension.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";
/// The MCP Apps extension.
pub const UI: &str = "io.modelcontextprotocol/ui";
/// `_meta` key of when to ask again, in milliseconds: of the gateway's own (design §6).
pub const RETRY_AFTER: &str = "dev.gatehouse/retryAfterMs";
/// `_meta` key under which progress is asked for (M-50).
pub const PROGRESS_TOKEN: &str = "progressToken";

/// Everything under this prefix is the hop's own (M-23).
const RESERVED: &str = "io.modelcontextprotocol/";
/// W3C keys, unprefixed; rewritten per hop (M-28).
const TRACE: [&str; 3] = [TRACEPARENT, TRACESTATE, BAGGAGE];
const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";
const BAGGAGE: &str = "baggage";

/// The parsed `_meta` of one request.
#[derive(Debug, Clone, Default)]
pub struct Meta {
    /// The object, with every member's position.
    pub object: Object,
    /// `protocolVersion`, as it stands (any JSON type).
    pub protocol_version: Option<Span>,
    /// `clientCapabilities`, as it stands.
    pub client_capabilities: Option<Span>,
    /// `clientInfo`, as it stands.
    pub client_info: Option<Span>,
    /// `logLevel`, as it stands.
    pub log_level: Option<Span>,
    /// `progressToken`, as it stands: relayed back with the same JSON type.
    pub progress_token: Option<Span>,
    /// `traceparent`, as it stands.
    pub traceparent: Option<Span>,
    /// `tracestate`, as it stands.
    pub tracestate: Option<Span>,
    /// `baggage`, as it stands.
    pub baggage: Option<Span>,
}

impl Meta {
    /// Reads `_meta`; any of our keys twice is an error (design §2).
    pub fn parse(text: &str, span: Span) -> Result<Self, ObjectError> {
        Self::of(text, Object::parse(text, span)?)
    }

    /// The same of an object that was read already.
    pub(super) fn of(text: &str, object: Object) -> Result<Self, ObjectError> {
        let mut meta = Self::default();
        for member in &object.members {
            let place = match member.name(text) {
                PROTOCOL_VERSION => &mut meta.protocol_version,
                CLIENT_CAPABILITIES => &mut meta.client_capabilities,
                CLIENT_INFO => &mut meta.client_info,
                LOG_LEVEL => &mut meta.log_level,
                PROGRESS_TOKEN => &mut meta.progress_token,
                TRACEPARENT => &mut meta.traceparent,
                TRACESTATE => &mut meta.tracestate,
                BAGGAGE => &mut meta.baggage,
                _ => continue,
            };
            if place.replace(member.value).is_some() {
                return Err(ObjectError::Duplicate);
            }
        }
        Ok(Self { object, ..meta })
    }

    /// The version, if it is a string.
    pub fn version<'t>(&self, text: &'t str) -> Option<Cow<'t, str>> {
        self.protocol_version.and_then(|span| string(span.of(text)))
    }

    /// Members of others, copied verbatim to the next hop: `"key":value` each.
    pub fn foreign<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a str> {
        self.object
            .members
            .iter()
            .filter(|m| !is_hop_key(m.name(text)))
            .map(|m| Span { start: m.key.start, end: m.value.end }.of(text))
    }
}

/// Whether a `_meta` key of a request belongs to one hop and is never copied (M-23).
pub fn is_hop_key(key: &str) -> bool {
    key.starts_with(RESERVED) || key == PROGRESS_TOKEN || TRACE.contains(&key)
}

/// Whether a `_meta` key of a result is the protocol's own (M-23).
pub fn is_reserved(key: &str) -> bool {
    key.starts_with(RESERVED)
}

/// Log levels from least to most severe (M-61).
pub const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The rank of a log level, `None` for an unknown one.
pub fn level_rank(level: &str) -> Option<usize> {
    LEVELS.iter().position(|l| *l == level)
}
