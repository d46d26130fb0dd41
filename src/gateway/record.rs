//! The one place that records how a request ended, in metrics and in the audit log; a record dropped open means it
//! was cancelled.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::along::trace_id;
use super::error::GatewayError;
use super::snapshot::Endpoint;
use super::view::Route;
use super::{Call, Gateway};
use crate::auth::Principal;
use crate::policy::Decision;
use crate::protocol::edit::Parts;
use crate::protocol::method::Method;
use crate::protocol::version::Era;
use crate::telemetry::audit::{Audit, Caller, Entry};
use crate::telemetry::recent::Denial;
use crate::telemetry::{Metrics, Outcome};

/// Bytes of a name or address that the audit log keeps of what a client sent.
const LONGEST: usize = 1024;

/// One request from arrival to end.
#[derive(Debug)]
pub(super) struct Record {
    metrics: Arc<Metrics>,
    method: Method,
    era: Era,
    principal: Arc<Principal>,
    arrived: Instant,
    /// Time spent waiting for servers.
    waited: Duration,
    server: Option<Arc<str>>,
    route: Option<Arc<Route>>,
    /// Set where a successful answer is not simply `ok`.
    outcome: Option<Outcome>,
    /// It was counted against the limits.
    counted: bool,
    /// It was for what this caller may not know of: a denial, whatever was answered.
    concealed: bool,
    /// What the audit log wants besides; `None`: there is no log.
    audit: Option<Box<Draft>>,
    closed: bool,
}

/// What only the audit log wants.
#[derive(Debug)]
struct Draft {
    audit: Audit,
    request: u64,
    endpoint: Arc<Endpoint>,
    request_bytes: usize,
    trace: Option<String>,
    item: Option<String>,
    grant: Option<usize>,
}

impl Gateway {
    /// Records that somebody known was not let in, for want of these scopes. What was asked is not: nobody read it.
    pub fn turned_away(&self, request: u64, endpoint: &Endpoint, principal: &Principal, scopes: &[String]) {
        self.metrics.recent.denial(|| denial(principal, "other", scopes));
        let Some(audit) = &self.audit else { return };
        audit.write(Entry {
            at: SystemTime::now(),
            request,
            caller: named(principal),
            endpoint: endpoint.config.path.clone(),
            method: "other",
            server: None,
            item: None,
            native: None,
            grant: None,
            scopes: scopes.to_vec(),
            outcome: Outcome::Denied,
            took: Duration::ZERO,
            request_bytes: 0,
            result_bytes: None,
            trace: None,
        });
    }
}

/// A caller as the audit log names it.
fn named(principal: &Principal) -> Caller {
    Caller {
        principal: Arc::clone(&principal.id),
        issuer: Arc::clone(&principal.issuer),
        subject: Arc::clone(&principal.subject),
        client: principal.client.clone(),
    }
}

/// That a caller was not let in, without what it was for.
fn denial(principal: &Principal, method: &'static str, scopes: &[String]) -> Denial {
    Denial {
        who: principal.subject.to_string(),
        client: principal.client_label().to_owned(),
        method,
        server: String::new(),
        item: String::new(),
        scopes: scopes.to_vec(),
    }
}

impl Record {
    pub(super) fn open(gateway: &Gateway, call: &Call) -> Self {
        let draft = |audit: &Audit| Draft {
            audit: audit.clone(),
            request: call.request,
            endpoint: Arc::clone(&call.endpoint),
            request_bytes: call.envelope.body().len(),
            trace: trace_id(call),
            item: None,
            grant: None,
        };
        Self {
            metrics: Arc::clone(&gateway.metrics),
            method: call.method,
            era: call.client.era,
            principal: Arc::clone(&call.principal),
            arrived: call.arrived,
            waited: Duration::ZERO,
            server: None,
            route: None,
            outcome: None,
            counted: false,
            concealed: false,
            audit: gateway.audit.as_ref().map(|audit| Box::new(draft(audit))),
            closed: false,
        }
    }

    /// The name or address the client gave.
    pub(super) fn asked(&mut self, item: &str) {
        if let Some(draft) = &mut self.audit {
            draft.item = Some(item[..item.floor_char_boundary(LONGEST)].to_owned());
        }
    }

    /// The server the request went to, and for tools which one.
    pub(super) fn routed(&mut self, server: &Arc<str>, route: Option<&Arc<Route>>) {
        self.server = Some(Arc::clone(server));
        self.route = route.map(Arc::clone);
    }

    /// What the request was for, though the caller is told that there is no such thing.
    pub(super) fn concealed(&mut self, server: &Arc<str>, route: Option<&Arc<Route>>) {
        self.routed(server, route);
        self.concealed = true;
    }

    /// By which grant it is allowed, or would be.
    pub(super) fn decided(&mut self, decision: Decision) {
        let Some(draft) = &mut self.audit else { return };
        draft.grant = match decision {
            Decision::Allowed { grant } => grant,
            Decision::NeedsScopes { grant } => Some(grant),
            Decision::Hidden => None,
        };
    }

    /// Whether it counts against the limits: the first time it is asked.
    pub(super) fn counts(&mut self) -> bool {
        !std::mem::replace(&mut self.counted, true)
    }

    /// Time that was not ours.
    pub(super) fn waited(&mut self, time: Duration) {
        self.waited += time;
    }

    /// How an answer that is no error ended.
    pub(super) fn outcome(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    pub(super) fn close(mut self, result: &Result<Parts, GatewayError>) {
        self.closed = true;
        let (outcome, bytes) = match result {
            Ok(parts) => (self.outcome.unwrap_or(Outcome::Ok), Some(parts.len())),
            Err(error) => (error.outcome(), None),
        };
        let outcome = if self.concealed { Outcome::Denied } else { outcome };
        let scopes = match result {
            Err(GatewayError::Scope(scopes)) => scopes.clone(),
            _ => Vec::new(),
        };
        self.write(outcome, bytes, scopes);
    }

    fn write(&mut self, outcome: Outcome, bytes: Option<usize>, scopes: Vec<String>) {
        let took = self.arrived.elapsed();
        let method = self.method.as_str();
        self.metrics.request(method, self.server.as_deref().unwrap_or_default(), outcome, self.era);
        self.metrics.client_call(self.principal.client_label(), outcome);
        self.metrics.overhead(method, took.saturating_sub(self.waited));
        if let Some(route) = self.route.as_ref().filter(|_| self.method == Method::ToolsCall) {
            route.metrics(&self.metrics).record(outcome, took, bytes);
        }
        tracing::debug!(
            method,
            server = self.server.as_deref(),
            outcome = outcome.as_str(),
            millis = took.as_millis(),
            "request"
        );
        if outcome == Outcome::Denied {
            self.metrics.recent.denial(|| self.denied(&scopes));
        }
        if let Some(draft) = self.audit.take().filter(|_| is_use(self.method) || outcome == Outcome::Denied) {
            self.tell(*draft, (outcome, scopes), took, bytes);
        }
    }

    fn denied(&self, scopes: &[String]) -> Denial {
        let asked = self.audit.as_ref().and_then(|draft| draft.item.as_deref());
        let item = asked.or_else(|| self.route.as_ref().map(|route| &*route.exposed)).unwrap_or_default();
        Denial {
            server: self.server.as_deref().unwrap_or_default().to_owned(),
            item: item.to_owned(),
            ..denial(&self.principal, self.method.as_str(), scopes)
        }
    }

    fn tell(
        &self,
        draft: Draft,
        (outcome, scopes): (Outcome, Vec<String>),
        took: Duration,
        result_bytes: Option<usize>,
    ) {
        let exposed = draft.item.or_else(|| Some(self.route.as_ref()?.exposed.to_string()));
        let native = self.route.as_ref().map(|route| route.native());
        let native = native.filter(|native| exposed.as_deref() != Some(*native)).map(str::to_owned);
        draft.audit.write(Entry {
            at: SystemTime::now(),
            request: draft.request,
            caller: named(&self.principal),
            endpoint: draft.endpoint.config.path.clone(),
            method: self.method.as_str(),
            server: self.server.clone(),
            item: exposed.map(|name| (item_key(self.method, &name), name)),
            native,
            grant: draft.grant,
            scopes,
            outcome,
            took,
            request_bytes: draft.request_bytes,
            result_bytes,
            trace: draft.trace,
        });
    }
}

/// Whether a request uses something of a server. Looking at lists is no use; being denied is told of every method.
const fn is_use(method: Method) -> bool {
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
fn item_key(method: Method, name: &str) -> &'static str {
    match method {
        Method::ToolsCall => "tool",
        Method::PromptsGet => "prompt",
        // A completion is of a prompt's argument or of an address; names of prompts have no scheme.
        Method::Complete if !name.contains(':') => "prompt",
        _ => "uri",
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.closed {
            self.write(Outcome::Cancelled, None, Vec::new());
        }
    }
}
