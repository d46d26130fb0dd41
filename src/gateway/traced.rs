//! What a request's spans say: one for the client's request, one under it for the request to its server, named and
//! described by OpenTelemetry's conventions for MCP.

use std::sync::Arc;

use super::Call;
use super::along;
use crate::config::Target;
use crate::outbound::{Request, Server};
use crate::protocol::method::Method;
use crate::protocol::object::string;
use crate::protocol::version::MODERN;
use crate::telemetry::spans::Span;
use crate::telemetry::{Outcome, Spans};

/// Bytes of an id or an address that a span keeps of what a client sent.
const LONGEST: usize = 1024;

/// The spans of one request while it runs.
#[derive(Debug)]
pub(super) struct Traced {
    spans: Spans,
    request: Span,
    method: Method,
    /// The request to a server that is under way, or was the last.
    leg: Option<Span>,
}

/// How a span ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// The code of a JSON-RPC error.
    pub(super) code: Option<i32>,
}

impl Traced {
    /// The spans of a call, if they are wanted: a client that records its own wants ours, one that does not does not,
    /// and of who says nothing there are some.
    pub(super) fn open(spans: &Spans, call: &Call) -> Option<Box<Self>> {
        let told = along::told_trace(call);
        if told.as_ref().is_some_and(|told| !told.is_sampled()) {
            return None;
        }
        let mut request = Span::of_request(told.as_ref(), call.method.as_str());
        // That of the HTTP request is another matter, where the message has one of its own.
        if let Some(other) = told.and_then(|told| along::other_trace(call, &told)) {
            request.link(other);
        }
        request.set("network.transport", "tcp");
        request.set("network.protocol.name", "http");
        request.set("mcp.protocol.version", call.client.revision.as_str());
        if let Some(id) = call.envelope.id() {
            let text = string(id.text()).unwrap_or_else(|| id.text().into());
            request.set("jsonrpc.request.id", cut(&text).to_owned());
        }
        if let Some(session) = &call.client.session {
            // Its name among us: the id that the client sends opens it, and is nobody else's to know.
            request.set("mcp.session.id", session.to_string());
        }
        request.set("gatehouse.endpoint", Arc::clone(&call.endpoint.config.path));
        request.set("gatehouse.request", i64::try_from(call.request).unwrap_or(i64::MAX));
        Some(Box::new(Self { spans: spans.clone(), request, method: call.method, leg: None }))
    }

    /// The trace's id.
    pub(super) const fn trace_id(&self) -> [u8; 16] {
        self.request.context.trace_id
    }

    /// The name or address that was asked for. Only addresses are told: a name is told when it is one of ours.
    pub(super) fn asked(&mut self, item: &str) {
        if self.method == Method::ResourcesRead {
            self.request.set("mcp.resource.uri", cut(item).to_owned());
        }
    }

    /// A request goes to a server, under a span of its own.
    pub(super) fn leaves(&mut self, request: &mut Request, native: &str, server: &Server) {
        // Another one came before: the server refused that.
        self.close_leg(Ended { outcome: Outcome::RpcError, code: None });
        let mut leg = self.request.leg(request.method.as_str());
        match request.method {
            Method::ToolsCall => leg.about("gen_ai.tool.name", native.into()),
            Method::PromptsGet => leg.about("gen_ai.prompt.name", native.into()),
            Method::ResourcesRead => leg.set("mcp.resource.uri", cut(native).to_owned()),
            _ => {}
        }
        operation(&mut leg, request.method);
        match &server.config.target {
            Target::Http { url, .. } => {
                leg.set("network.transport", "tcp");
                leg.set("network.protocol.name", "http");
                leg.set("server.address", url.host_str().unwrap_or_default().to_owned());
                leg.set("server.port", i64::from(url.port_or_known_default().unwrap_or_default()));
            }
            Target::Stdio(_) => leg.set("network.transport", "pipe"),
        }
        leg.set("gatehouse.server", Arc::clone(&server.name));
        request.hop.trace = Some(leg.context.clone());
        self.leg = Some(leg);
    }

    /// The revision its server speaks.
    pub(super) fn spoke(&mut self, version: &str) {
        if let Some(leg) = &mut self.leg {
            match version {
                MODERN => leg.set("mcp.protocol.version", MODERN),
                other => leg.set("mcp.protocol.version", other.to_owned()),
            }
        }
    }

    fn close_leg(&mut self, ended: Ended) {
        if let Some(leg) = self.leg.take() {
            self.spans.send(finished(leg, ended));
        }
    }

    /// Both are over. The target is a name of a catalogue or of ours, never what a client made up.
    pub(super) fn close(mut self, ended: Ended, server: Option<&Arc<str>>, target: Option<&Arc<str>>) {
        self.close_leg(ended);
        let mut request = self.request;
        match (self.method, target) {
            (Method::ToolsCall, Some(tool)) => request.about("gen_ai.tool.name", Arc::clone(tool)),
            (Method::PromptsGet, Some(prompt)) => request.about("gen_ai.prompt.name", Arc::clone(prompt)),
            _ => {}
        }
        operation(&mut request, self.method);
        if let Some(server) = server {
            request.set("gatehouse.server", Arc::clone(server));
        }
        self.spans.send(finished(request, ended));
    }
}

fn operation(span: &mut Span, method: Method) {
    if method == Method::ToolsCall {
        span.set("gen_ai.operation.name", "execute_tool");
    }
}

fn finished(mut span: Span, ended: Ended) -> Span {
    span.set("gatehouse.outcome", ended.outcome.as_str());
    match (ended.code, ended.outcome) {
        (Some(code), _) => {
            span.set("rpc.response.status_code", code.to_string());
            span.fail(code.to_string());
        }
        // Asking the user is no failure.
        (None, Outcome::Ok | Outcome::InputRequired) => {}
        (None, outcome) => span.fail(outcome.as_str()),
    }
    span.end();
    span
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}
