//! `tools/call`, `prompts/get`, `completion/complete`, from top to bottom: resolve → check → converse → return.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::along::{baggage, context, forwarded, join, relayable, trace};
use super::confirm::Gate;
use super::discovery;
use super::record::Record;
use super::relay;
use super::results;
use super::state::Bound;
use super::view::Route;
use super::{Call, Gateway, GatewayError, Outlet, told};
use crate::catalogue::Shelf;
use crate::catalogue::bindings::ParamError;
use crate::contract::checker::Checks;
use crate::outbound::{Failure, Hop, Request, Retry, Server};
use crate::policy::Decision;
use crate::protocol::edit::{Edits, Parts};
use crate::protocol::items::json_string;
use crate::protocol::meta::LEVELS;
use crate::protocol::method::{Kind, Method};
use crate::protocol::object::{Object, Span, string};
use crate::telemetry::Outcome;

/// One request prepared for one server.
pub(super) struct Errand<'a> {
    pub(super) server: &'a Arc<Server>,
    /// The name or URI its server knows.
    pub(super) native: &'a str,
    pub(super) request: Request,
    pub(super) timeout: Option<Duration>,
    /// Where a read is kept, and the epoch it began in.
    pub(super) keep: Option<(&'a Shelf, u64)>,
    /// Whether its result has structured content by the tool's own word (`outputSchema`); known where results are cut.
    pub(super) promises: bool,
    /// What its structured result is held against.
    pub(super) checks: Option<&'a Checks>,
}

impl<'a> Errand<'a> {
    /// One of which nothing is kept or checked.
    pub(super) const fn new(server: &'a Arc<Server>, native: &'a str, request: Request) -> Self {
        Self { server, native, request, timeout: None, keep: None, promises: false, checks: None }
    }
}

impl Gateway {
    pub(super) async fn invoke(
        &self,
        call: &Call,
        outlet: &Outlet,
        record: &mut Record,
    ) -> Result<Parts, GatewayError> {
        let kind = invoked(call);
        if !self.offers(call, kind.capability()).await {
            return Err(GatewayError::UnknownMethod);
        }
        let (_, name) = text_param(call, "name")?;
        object_or_null(call, "arguments")?;
        record.asked(&name);
        if let Some(own) = discovery::own(call, &name) {
            return Box::pin(self.serve_own(call, own, outlet, record)).await;
        }
        if let Some(page) = self.playbook(call, &name, outlet, record)? {
            return Ok(page);
        }
        let done = match self.resolve(call, kind, &name, record).await {
            Ok(route) => self.follow(call, route, outlet, record).await,
            Err(error) => Err(error),
        };
        match done {
            // What the model can act on is a result (design §6).
            Err(error) if kind == Kind::Tools && error.is_for_the_model() => {
                record.outcome(error.outcome());
                Ok(relay::tool_error(&error.to_string(), call.snapshot.server_info.as_bytes()))
            }
            Err(GatewayError::Limited(mut limited)) if kind == Kind::Tools => {
                limited.result = Some(results::limited(&limited, call.snapshot.server_info.as_bytes()));
                Err(GatewayError::Limited(limited))
            }
            Err(GatewayError::Held(why, outcome)) if kind == Kind::Tools => {
                record.outcome(outcome);
                Ok(relay::tool_error(&why, call.snapshot.server_info.as_bytes()))
            }
            other => other,
        }
    }

    async fn follow(
        &self,
        call: &Call,
        mut route: Arc<Route>,
        outlet: &Outlet,
        record: &mut Record,
    ) -> Result<Parts, GatewayError> {
        let kind = invoked(call);
        record.routed(&route.shelf.server.name, Some(&route));
        // For who does not mirror arguments, headers that look like it mean nothing (F-082).
        let mirrored = call.client.revision.mirrors_arguments() && !call.steps.unwrapped;
        if kind == Kind::Tools && mirrored {
            route = self.checked(call, route, record).await.inspect_err(|error| {
                if matches!(error, GatewayError::ParamHeader(_)) {
                    self.metrics.header_rejection("param");
                }
            })?;
        }
        match self.attempt(call, &route, outlet, record).await {
            Err(GatewayError::Server(error)) if error.failure == Failure::HeaderMismatch => {
                // It describes our hop: our view of its schemas is old (H-63).
                Box::pin(async {
                    let _ = route.shelf.refresh(kind).await;
                    let route = self.resolve(call, kind, &route.exposed, record).await?;
                    self.attempt(call, &route, outlet, record).await
                })
                .await
            }
            other => other,
        }
    }

    /// `Mcp-Param-*` against the arguments; before refusing by a schema that is not recent, it is fetched
    /// anew once (H-52).
    async fn checked(
        &self,
        call: &Call,
        route: Arc<Route>,
        record: &mut Record,
    ) -> Result<Arc<Route>, GatewayError> {
        match check_params(call, &route) {
            Ok(()) => Ok(route),
            Err(GatewayError::ParamHeader(_)) => {
                let seen = Some(route.published.id);
                if !Box::pin(route.shelf.refresh_if_older(Kind::Tools, seen)).await {
                    return check_params(call, &route).map(|()| route);
                }
                let route = self.resolve(call, Kind::Tools, &route.exposed, record).await?;
                check_params(call, &route).map(|()| route)
            }
            Err(error) => Err(error),
        }
    }

    async fn attempt(
        &self,
        call: &Call,
        route: &Arc<Route>,
        outlet: &Outlet,
        record: &mut Record,
    ) -> Result<Parts, GatewayError> {
        self.admit(call, call.rights.decide(&route.givers), outlet, record)?;
        let given = call.envelope.param("arguments")?;
        let arguments = given.map(|span| span.of(call.envelope.text()));
        let mapped = told::mapped(route, arguments)?;
        let sent = mapped.text().or(arguments);
        match self.gate(call, route, sent, record)? {
            Gate::Open => {}
            Gate::Confirmed(call) => return Box::pin(self.attempt(&call, route, outlet, record)).await,
            Gate::Closed(answer) => return Ok(answer),
        }
        let kind = invoked(call);
        let (name_span, _) = text_param(call, "name")?;
        let mut edits = Edits::new();
        if *route.exposed != *route.native() {
            edits.replace(name_span, route.native_json.clone());
        }
        honoured(route, sent)?;
        told::fits(route, sent)?;
        mapped.splice(call, given, &mut edits)?;
        mapped.count(&self.metrics, call, route);
        let bound = Bound { call, server: &route.shelf.server.config, name: &route.exposed, arguments };
        let mut request = self.request(call, edits, &bound)?;
        request.name.clone_from(&route.native_header);
        request.param_headers = route.item().bindings.headers_for(sent).map_err(param_error)?;
        let errand = Errand {
            timeout: route.item().timeout,
            promises: route.shelf.server.config.truncate && promises(&route.item().json),
            checks: told::of_results(route),
            ..Errand::new(&route.shelf.server, route.native(), request)
        };
        let tool = Some(&route.native_json).filter(|_| kind == Kind::Tools);
        self.count(call, &errand, tool, record).await?;
        self.converse(errand, &bound, outlet, record).await
    }

    /// The request for the next hop: `_meta` of this hop replaced, foreign keys kept (M-23).
    pub(super) fn request(
        &self,
        call: &Call,
        edits: Edits,
        bound: &Bound<'_>,
    ) -> Result<Request, GatewayError> {
        let envelope = &call.envelope;
        let text = envelope.text();
        let params = envelope.params.clone().ok_or(GatewayError::InvalidParams("params are missing"))?;
        let state_at = params.position(text, "requestState")?;
        let state = match state_at {
            Some(at) => bound.open(&self.sealer, params.members[at].value.of(text))?,
            None => None,
        };
        let answers_at = params.position(text, "inputResponses")?;
        let meta = envelope.meta.as_ref();
        let hop = Hop {
            foreign: meta.map(|m| join(m.foreign(text))).unwrap_or_default(),
            capabilities: relayable(&call.client.capabilities, &bound.server.extensions),
            log_level: call.client.log_level.map(|rank| LEVELS[rank]),
            progress: call.client.progress_token.is_some(),
            trace: trace(call),
            baggage: baggage(call),
        };
        Ok(Request {
            method: call.method,
            body: envelope.body().clone(),
            meta: params.get(text, "_meta")?,
            params,
            edits,
            retry: Retry { state_at, state, answers_at },
            hop,
            name: None,
            param_headers: Vec::new(),
            forwarded: forwarded(call, bound.server),
            context: Some(Arc::new(context(call, bound.server))),
        })
    }

    /// `completion/complete`: the reference is mapped back to the native name (M-73, M-84).
    pub(super) async fn complete(
        &self,
        call: &Call,
        outlet: &Outlet,
        record: &mut Record,
    ) -> Result<Parts, GatewayError> {
        if !self.offers(call, "completions").await {
            return Err(GatewayError::UnknownMethod);
        }
        let text = call.envelope.text();
        let reference = call.envelope.param("ref")?.ok_or(GatewayError::InvalidParams("ref is missing"))?;
        let reference = Object::parse(text, reference)?;
        let kind = reference.get(text, "type")?.and_then(|span| string(span.of(text)));
        let mut edits = Edits::new();
        let (shelf, native, decision): (Arc<Shelf>, String, Decision) = match kind.as_deref() {
            Some("ref/prompt") => {
                let span = reference.get(text, "name")?;
                let (span, name) =
                    named(text, span).ok_or(GatewayError::InvalidParams("ref.name is missing"))?;
                record.asked(&name);
                let route = self.resolve(call, Kind::Prompts, &name, record).await?;
                edits.replace(span, json_string(route.native()));
                let decision = call.rights.decide(&route.givers);
                (Arc::clone(&route.shelf), route.native().to_owned(), decision)
            }
            Some("ref/resource") => {
                let (_, uri) = named(text, reference.get(text, "uri")?)
                    .ok_or(GatewayError::InvalidParams("ref.uri is missing"))?;
                let shelf = self.recorded_owner(call, &uri, record).await?;
                let decision = call.snapshot.decide_uri(&call.rights, &shelf, &uri);
                (shelf, uri.into_owned(), decision)
            }
            _ => return Err(GatewayError::InvalidParams("ref.type is unknown")),
        };
        let server = &shelf.server;
        record.routed(&server.name, None);
        self.admit(call, decision, outlet, record)?;
        if shelf.known_peer().is_some_and(|peer| !peer.offer.has("completions")) {
            return Ok(relay::no_completion(call.snapshot.server_info.as_bytes()));
        }
        let bound = Bound { call, server: &server.config, name: &native, arguments: None };
        let request = self.request(call, edits, &bound)?;
        let errand = Errand::new(server, &native, request);
        self.count(call, &errand, None, record).await?;
        self.converse(errand, &bound, outlet, record).await
    }
}

/// What a call or a get names.
fn invoked(call: &Call) -> Kind {
    if call.method == Method::ToolsCall { Kind::Tools } else { Kind::Prompts }
}

/// Whether a tool's definition says what its structured content is.
fn promises(definition: &[u8]) -> bool {
    let text = std::str::from_utf8(definition).unwrap_or_default();
    let tool = Object::parse(text, Span::new(0, text.len()));
    tool.is_ok_and(|tool| !matches!(tool.get(text, "outputSchema"), Ok(None)))
}

/// Whether a call of a tool that is held back can be made as it was approved.
fn honoured(route: &Route, arguments: Option<&str>) -> Result<(), GatewayError> {
    let Some(held) = &route.item().held else { return Ok(()) };
    let (tool, server) = (&route.exposed, &route.shelf.server.name);
    if let Some(why) = &held.withdrawn {
        let said = format!(
            "The tool \"{tool}\" is withdrawn: {why}. Do without it; the operator of the gateway can approve \
             what the server \"{server}\" offers now."
        );
        return Err(GatewayError::Held(said, Outcome::Unavailable));
    }
    match held.checker.fault(arguments) {
        None => Ok(()),
        Some(fault) => {
            let said =
                format!("The tool \"{tool}\" was not called: {fault}. Call it again as its schema says.");
            Err(GatewayError::Held(said, Outcome::BadRequest))
        }
    }
}

fn check_params(call: &Call, route: &Route) -> Result<(), GatewayError> {
    let arguments = call.envelope.param("arguments")?.map(|span| span.of(call.envelope.text()));
    let headers = || call.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let bindings = &route.item().bindings;
    match (bindings.check(arguments, headers()), &route.item().aids) {
        // Who knows the former schema mirrors the former argument, which is another one by now.
        (Err(ParamError::Mismatch(header)), Some(aids)) => {
            let mapped = aids.apply(arguments).ok().and_then(|mapped| mapped.arguments);
            let goes = mapped.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
            let Some(goes) = goes else { return Err(GatewayError::ParamHeader(header.to_string())) };
            bindings.check_mapped(arguments, Some(goes), headers()).map_err(param_error)
        }
        (checked, _) => checked.map_err(param_error),
    }
}

fn param_error(error: ParamError) -> GatewayError {
    match error {
        ParamError::Mismatch(header) => GatewayError::ParamHeader(header.to_string()),
        ParamError::Arguments(error) => error.into(),
    }
}

/// A string parameter that must be there, with its position.
pub(super) fn text_param<'c>(call: &'c Call, key: &str) -> Result<(Span, Cow<'c, str>), GatewayError> {
    let text = call.envelope.text();
    named(text, call.envelope.param(key)?).ok_or(match key {
        "uri" => GatewayError::InvalidParams("params.uri must be a string"),
        _ => GatewayError::InvalidParams("params.name must be a string"),
    })
}

/// F-088: an object where there is one; `null` is passed on as it came (F-048).
fn object_or_null(call: &Call, key: &str) -> Result<(), GatewayError> {
    let value = call.envelope.param(key)?.map(|span| span.of(call.envelope.text()));
    match value.and_then(|text| text.bytes().next()) {
        None | Some(b'{' | b'n') => Ok(()),
        Some(_) => Err(GatewayError::InvalidParams("params.arguments must be an object")),
    }
}

fn named(text: &str, span: Option<Span>) -> Option<(Span, Cow<'_, str>)> {
    let span = span?;
    Some((span, string(span.of(text))?))
}
