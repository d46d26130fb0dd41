//! What only the audit log wants of a request.

use std::net::IpAddr;
use std::sync::Arc;

use super::Call;
use super::snapshot::Endpoint;
use crate::auth::Principal;
use crate::protocol::method::Method;
use crate::telemetry::audit::{Arguments, Audit, Caller, Keep};

/// What only the audit log wants.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) audit: Arc<Audit>,
    /// Whether the answer waits for the line.
    pub(super) strict: bool,
    pub(super) request: u64,
    pub(super) address: Option<IpAddr>,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) request_bytes: usize,
    pub(super) trace: Option<[u8; 16]>,
    pub(super) item: Option<String>,
    pub(super) grant: Option<usize>,
    pub(super) arguments: Option<(Arguments, Arc<Keep>)>,
}

impl Draft {
    pub(super) fn new(audit: Arc<Audit>, call: &Call, trace: Option<[u8; 16]>) -> Self {
        Self {
            audit,
            strict: call.snapshot.config.audit.strict,
            request: call.request,
            address: call.address,
            endpoint: Arc::clone(&call.endpoint),
            request_bytes: call.envelope.body().len(),
            trace,
            item: None,
            grant: None,
            arguments: arguments(call),
        }
    }
}

/// The arguments of a call as the log is handed them, where anything is told of them.
pub(super) fn arguments(call: &Call) -> Option<(Arguments, Arc<Keep>)> {
    let keep = call.snapshot.kept.as_ref()?;
    let span = call.envelope.param("arguments").ok()??;
    Some((Arguments { body: call.envelope.body().clone(), span }, Arc::clone(keep)))
}

/// A caller as the audit log names it.
pub(super) fn named(principal: &Principal) -> Caller {
    Caller {
        principal: Arc::clone(&principal.id),
        issuer: Arc::clone(&principal.issuer),
        subject: Arc::clone(&principal.subject),
        client: principal.client.clone(),
    }
}

/// Whether a request uses something of a server. Looking at lists is no use; being denied is told of every method.
pub(super) const fn is_use(method: Method) -> bool {
    !matches!(
        method,
        Method::Discover
            | Method::Initialize
            | Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::TemplatesList
    )
}

/// What kind of name the audit log has before it.
pub(super) fn item_key(method: Method, name: &str) -> &'static str {
    match method {
        Method::ToolsCall => "tool",
        Method::PromptsGet => "prompt",
        // A completion is of a prompt's argument or of an address; names of prompts have no scheme.
        Method::Complete if !name.contains(':') => "prompt",
        _ => "uri",
    }
}
