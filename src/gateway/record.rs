//! The one place that records how a request ended: in metrics, in the audit log, in spans. A record dropped open means
//! that it was cancelled.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::along::told_trace;
use super::draft::{self, Draft};
use super::error::GatewayError;
use super::invoke::Errand;
use super::snapshot::Endpoint;
use super::traced::{Ended, Traced};
use super::view::Route;
use super::{Call, Gateway};
use crate::auth::Principal;
use crate::policy::Decision;
use crate::protocol::edit::Parts;
use crate::protocol::method::Method;
use crate::protocol::version::Era;
use crate::telemetry::audit::{Audit, Entry};
use crate::telemetry::recent::Denial;
use crate::telemetry::{Metrics, Outcome};

/// Bytes of a name or address that the audit log keeps of what a client sent.
const LONGEST: usize = 1024;
/// What tools are called in metrics that are in no catalogue: a client can invent any.
const NO_TOOL: &str = "other";

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
    /// A tool or prompt of the gateway's own that it is for.
    own: Option<Arc<str>>,
    /// Set where a successful answer is not simply `ok`.
    outcome: Option<Outcome>,
    /// It was counted against the limits.
    counted: bool,
    /// It was for what this caller may not know of: a denial, whatever was answered.
    concealed: bool,
    /// What the audit log wants besides; `None`: there is no log.
    audit: Option<Box<Draft>>,
    /// Its spans; `None`: nobody wants them.
    traced: Option<Box<Traced>>,
    closed: bool,
}

/// How a request ended.
struct End {
    outcome: Outcome,
    /// Size of the result, if there is one.
    bytes: Option<usize>,
    /// The code of a JSON-RPC error.
    code: Option<i32>,
    /// All scopes it needs, if it was denied for want of them.
    scopes: Vec<String>,
}

/// The call is done, but nobody would know.
const UNTOLD: GatewayError =
    GatewayError::Internal("the audit log cannot be written; the request may have had effects");

impl Gateway {
    /// Records that somebody known was not let in, for want of these scopes. What was asked is not: nobody read it.
    /// `request`: its number and its client's address.
    pub fn turned_away(
        &self,
        request: (u64, Option<IpAddr>),
        endpoint: &Endpoint,
        principal: &Principal,
        scopes: &[String],
    ) {
        self.metrics.recent.denial(|| denial(principal, "other", scopes));
        let Some(audit) = self.audit() else { return };
        audit.write(Entry {
            at: SystemTime::now(),
            request: request.0,
            address: request.1,
            caller: draft::named(principal),
            endpoint: Arc::clone(&endpoint.config.path),
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
            arguments: None,
        });
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
        let traced = gateway.spans.as_ref().and_then(|spans| Traced::open(spans, call));
        let trace = || match &traced {
            Some(traced) => Some(traced.trace_id()),
            None => told_trace(call).map(|told| told.trace_id),
        };
        let audit = gateway.audit().map(|audit| Box::new(Draft::new(audit, call, trace())));
        Self {
            metrics: Arc::clone(&gateway.metrics),
            method: call.method,
            era: call.client.era,
            principal: Arc::clone(&call.principal),
            arrived: call.arrived,
            waited: Duration::ZERO,
            server: None,
            route: None,
            own: None,
            outcome: None,
            counted: false,
            concealed: false,
            audit,
            traced,
            closed: false,
        }
    }

    /// Whether the answer waits until the log has its line (`audit.strict`).
    pub(super) fn is_strict(&self) -> bool {
        self.audit.as_ref().is_some_and(|draft| draft.strict)
    }

    /// Whether nothing may be done since it could not be told.
    pub(super) fn is_silenced(&self) -> bool {
        self.audit.as_ref().is_some_and(|draft| draft.strict && draft.audit.is_broken())
    }

    /// The name or address the client gave.
    pub(super) fn asked(&mut self, item: &str) {
        if let Some(draft) = &mut self.audit {
            draft.item = Some(item[..item.floor_char_boundary(LONGEST)].to_owned());
        }
        if let Some(traced) = &mut self.traced {
            traced.asked(item);
        }
    }

    /// The call is this one, which came inside another.
    pub(super) fn arguments(&mut self, inner: &Call) {
        if let Some(draft) = &mut self.audit {
            draft.arguments = draft::arguments(inner);
        }
    }

    /// It is for a tool or a prompt of the gateway's own.
    pub(super) fn own(&mut self, name: &str) {
        self.own = Some(name.into());
    }

    /// Its request is about to go to a server, in the trace that it is a part of.
    pub(super) fn leaves(&mut self, errand: &mut Errand<'_>) {
        if let Some(traced) = &mut self.traced {
            traced.leaves(&mut errand.request, errand.native, errand.server);
        }
    }

    /// The revision that its server speaks.
    pub(super) fn spoke(&mut self, version: &str) {
        if let Some(traced) = &mut self.traced {
            traced.spoke(version);
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
        let end = self.end(result);
        self.write(end);
    }

    /// The same, with the answer held back until the log has its line. Without one there is no answer.
    pub(super) async fn close_surely(
        mut self,
        result: Result<Parts, GatewayError>,
    ) -> Result<Parts, GatewayError> {
        let mut end = self.end(&result);
        let mut result = result;
        if let Some((audit, entry)) = self.entry(&end, self.arrived.elapsed())
            && !audit.write_surely(entry).await
        {
            result = Err(UNTOLD);
            end = self.end(&result);
        }
        self.closed = true;
        self.write(end);
        result
    }

    fn end(&self, result: &Result<Parts, GatewayError>) -> End {
        let (outcome, bytes) = match result {
            Ok(parts) => (self.outcome.unwrap_or(Outcome::Ok), Some(parts.len())),
            Err(error) => (error.outcome(), None),
        };
        let outcome = if self.concealed { Outcome::Denied } else { outcome };
        let scopes = match result {
            Err(GatewayError::Scope(scopes)) => scopes.clone(),
            _ => Vec::new(),
        };
        End { outcome, bytes, code: result.as_ref().err().map(GatewayError::code), scopes }
    }

    fn write(&mut self, end: End) {
        let took = self.arrived.elapsed();
        let (method, outcome) = (self.method.as_str(), end.outcome);
        self.metrics.request(method, self.server.as_deref().unwrap_or_default(), outcome, self.era);
        self.metrics.client_call(self.principal.client_label(), outcome);
        self.metrics.overhead(method, took.saturating_sub(self.waited));
        if self.method == Method::ToolsCall {
            match (&self.route, &self.own) {
                (Some(route), _) => route.metrics(&self.metrics).record(outcome, took, end.bytes),
                (None, own) => {
                    let name = own.as_deref().unwrap_or(NO_TOOL);
                    self.metrics.tool("", name).record(outcome, took, end.bytes);
                }
            }
        }
        tracing::debug!(
            method,
            server = self.server.as_deref(),
            outcome = outcome.as_str(),
            millis = took.as_millis(),
            "request"
        );
        if outcome == Outcome::Denied {
            self.metrics.recent.denial(|| self.denied(&end.scopes));
        }
        if let Some(traced) = self.traced.take() {
            let target = self.route.as_ref().map(|route| &route.exposed).or(self.own.as_ref());
            traced.close(Ended { outcome, code: end.code }, self.server.as_ref(), target);
        }
        if let Some((audit, entry)) = self.entry(&end, took) {
            audit.write(entry);
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

    /// The line for the log, where it wants one and has none yet.
    fn entry(&mut self, end: &End, took: Duration) -> Option<(Arc<Audit>, Entry)> {
        let kept =
            *self.audit.take().filter(|_| draft::is_use(self.method) || end.outcome == Outcome::Denied)?;
        // What was asked for is a name of the catalogue, mostly: one text for both.
        let exposed = match (kept.item, self.route.as_ref().map(|route| &route.exposed)) {
            (Some(asked), Some(exposed)) if *asked != **exposed => Some(asked.into()),
            (_, Some(exposed)) => Some(Arc::clone(exposed)),
            (asked, None) => asked.map(Arc::from),
        };
        let native = self.route.as_ref().map(|route| route.native());
        let native = native.filter(|native| exposed.as_deref() != Some(*native)).map(str::to_owned);
        let entry = Entry {
            at: SystemTime::now(),
            request: kept.request,
            address: kept.address,
            caller: draft::named(&self.principal),
            endpoint: Arc::clone(&kept.endpoint.config.path),
            method: self.method.as_str(),
            server: self.server.clone(),
            item: exposed.map(|name| (draft::item_key(self.method, &name), name)),
            native,
            grant: kept.grant,
            scopes: end.scopes.clone(),
            outcome: end.outcome,
            took,
            request_bytes: kept.request_bytes,
            result_bytes: end.bytes,
            trace: kept.trace,
            arguments: kept.arguments,
        };
        Some((kept.audit, entry))
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.closed {
            self.write(End { outcome: Outcome::Cancelled, bytes: None, code: None, scopes: Vec::new() });
        }
    }
}
