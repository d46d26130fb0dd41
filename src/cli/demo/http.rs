//! Streamable HTTP on `/mcp`: both eras on one path, told apart message by message.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, Method, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::call::{Call, Exchange, Fault, Out, QUEUE, answer_text};
use super::session::{self, Session};
use super::{DRAIN, Demo, LIMITS, MAX_BODY, checks, lock};
use crate::net::{self, ListenOptions};
use crate::protocol::code;
use crate::protocol::envelope::{Envelope, Id, MessageKind};
use crate::protocol::header;
use crate::protocol::object::{self, Span};
use crate::protocol::sse;
use crate::protocol::version::Era;

/// How often a quiet stream gets a comment (H-73).
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// An answer that ends the request before any work: the error, and the id it belongs to.
struct Refusal(Option<Id>, Fault);

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self(None, fault)
    }
}

/// Serves until the stop of `demo`, then lets requests in flight end.
pub(super) async fn serve(demo: Arc<Demo>, listener: TcpListener) {
    let stop = demo.stop.clone();
    let tasks = demo.tasks.clone();
    let handler = net::routed(Router::new().route("/mcp", any(endpoint)).with_state(demo));
    tokio::select! {
        () = net::serve(listener, handler, ListenOptions::default(), tasks, stop.clone()) => {}
        () = async { stop.cancelled().await; tokio::time::sleep(DRAIN).await } => {}
    }
}

async fn endpoint(State(demo): State<Arc<Demo>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    if !checks::is_local(&head.headers, demo.args.listen.ip().is_loopback()) {
        return empty(StatusCode::FORBIDDEN);
    }
    let answer = match head.method {
        Method::POST => match to_bytes(body, MAX_BODY).await {
            Ok(body) => post(&demo, head.headers, body).await,
            Err(_) => return empty(StatusCode::PAYLOAD_TOO_LARGE),
        },
        Method::GET if demo.args.era.legacy() => changes(&demo, &head.headers),
        Method::DELETE if demo.args.era.legacy() => end_session(&demo, &head.headers),
        _ => {
            let allowed = if demo.args.era.legacy() { "POST, GET, DELETE" } else { "POST" };
            let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, http::HeaderValue::from_static(allowed));
            return response;
        }
    };
    answer.unwrap_or_else(|Refusal(id, fault)| json(fault.status, fault.text(id.as_ref())))
}

async fn post(demo: &Arc<Demo>, headers: HeaderMap, body: Bytes) -> Result<Response, Refusal> {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        return Ok(empty(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let accepts = checks::accepts(&headers);
    if !accepts.json && !accepts.stream {
        return Ok(empty(StatusCode::NOT_ACCEPTABLE));
    }
    if body.trim_ascii_start().starts_with(b"[") && headers.contains_key(header::SESSION_ID) {
        return batch(demo, headers, &body).await;
    }
    let message = Envelope::parse(body, LIMITS)
        .map_err(|error| Refusal(error.id, Fault::new(error.code, error.message)))?;
    let refuse = |fault| Refusal(message.id().cloned(), fault);
    match checks::era(&message, &headers, demo.args.era).map_err(refuse)? {
        Era::Modern => modern(demo, &message, headers).await.map_err(refuse),
        Era::Legacy if message.method() == "initialize" => {
            initialize(demo, &message, &headers).map_err(refuse)
        }
        Era::Legacy => {
            let session = session_of(demo, &headers).map_err(refuse)?;
            match legacy(demo, &session, message.clone(), headers).map_err(refuse)? {
                Some(messages) => Ok(respond(messages.boxed(), accepts).await),
                None => Ok(empty(StatusCode::ACCEPTED)),
            }
        }
    }
}

async fn modern(demo: &Arc<Demo>, message: &Envelope, headers: HeaderMap) -> Result<Response, Fault> {
    match message.kind {
        MessageKind::Response => Err(Fault::new(code::INVALID_REQUEST, "responses are not accepted")),
        // The only one a client may send, `notifications/cancelled`, has no meaning here (H-81).
        MessageKind::Notification => Ok(empty(StatusCode::ACCEPTED)),
        MessageKind::Request(_) => {
            checks::modern(message, Some(&headers), demo.args.era)?;
            let accepts = checks::accepts(&headers);
            let (out, messages) = mpsc::channel(QUEUE);
            let call = Call::new(demo, message, None, Some(headers), out)?;
            // Never cancelled by name: the client drops the response instead (H-80).
            let work = call.run(tokio_util::sync::CancellationToken::new());
            Ok(respond(Exchange::owning(Box::pin(work), messages).boxed(), accepts).await)
        }
    }
}

fn initialize(demo: &Arc<Demo>, message: &Envelope, headers: &HeaderMap) -> Result<Response, Fault> {
    let Some(id) = message.id() else {
        return Err(Fault::new(code::INVALID_REQUEST, "initialize must be a request"));
    };
    if headers.contains_key(header::SESSION_ID) {
        return Err(Fault::new(code::INVALID_REQUEST, "the session is initialized"));
    }
    let name = Session::new_id()?;
    let value = http::HeaderValue::try_from(name.as_str())
        .map_err(|_| Fault::new(code::INTERNAL_ERROR, "the session id is no header value"))?;
    let (_, reply) = Session::open(demo, message, Some(name))?;
    let mut response = json(200, answer_text(id, reply));
    response.headers_mut().insert(header::SESSION_ID, value);
    Ok(response)
}

/// The session that the headers name (G-22, G-23, G-27).
fn session_of(demo: &Demo, headers: &HeaderMap) -> Result<Arc<Session>, Fault> {
    let invalid = |message: &str| Fault::new(code::INVALID_REQUEST, message);
    if let Some(version) = checks::single(headers, header::PROTOCOL_VERSION)?
        && !session::VERSIONS.contains(&version)
    {
        return Err(invalid("the protocol version is not supported"));
    }
    let id = checks::single(headers, header::SESSION_ID)?.ok_or_else(|| invalid("session id required"))?;
    let session = lock(&demo.sessions).get(id).cloned();
    session.ok_or_else(|| Fault { status: 404, ..invalid("the session is unknown or has ended") })
}

/// Takes one legacy message; a request's work goes on whether or not anybody listens (G-35).
fn legacy(
    demo: &Arc<Demo>,
    session: &Arc<Session>,
    message: Envelope,
    headers: HeaderMap,
) -> Result<Option<Exchange>, Fault> {
    match &message.kind {
        MessageKind::Request(id) => {
            let (out, messages) = mpsc::channel(QUEUE);
            let call = Call::new(demo, &message, Some(Arc::clone(session)), Some(headers), out)?;
            let (session, id) = (Arc::clone(session), id.clone());
            let cancel = session.running.begin(&id, &session.end);
            demo.tasks.spawn("demo call", async move {
                call.run(cancel).await;
                session.running.end(&id);
            });
            return Ok(Some(Exchange::of(messages)));
        }
        MessageKind::Response => session.answered(&message),
        MessageKind::Notification if message.method() == "notifications/cancelled" => {
            session.running.cancel(&message);
        }
        MessageKind::Notification => {}
    }
    Ok(None)
}

/// Several messages in one body: 2025-03-26 had that (G-31).
async fn batch(demo: &Arc<Demo>, headers: HeaderMap, body: &Bytes) -> Result<Response, Refusal> {
    let session = session_of(demo, &headers)?;
    if session.version != "2025-03-26" {
        return Err(Fault::new(code::INVALID_REQUEST, "batches are not supported").into());
    }
    let text = std::str::from_utf8(body).unwrap_or_default();
    let items = object::array(text, Span::new(0, text.len()))
        .map_err(|_| Fault::new(code::PARSE_ERROR, "the body is not valid JSON"))?;
    let mut exchanges = Vec::new();
    for item in items {
        let message = Envelope::parse(body.slice(item.range()), LIMITS)
            .map_err(|error| Refusal(error.id, Fault::new(error.code, error.message)))?;
        if message.method() == "initialize" {
            return Err(Fault::new(code::INVALID_REQUEST, "initialize must stand alone").into());
        }
        exchanges.extend(legacy(demo, &session, message, headers.clone())?);
    }
    if exchanges.is_empty() {
        return Ok(empty(StatusCode::ACCEPTED));
    }
    Ok(events(stream::select_all(exchanges).boxed()))
}

/// The legacy stream of change notices (G-32).
fn changes(demo: &Arc<Demo>, headers: &HeaderMap) -> Result<Response, Refusal> {
    let session = session_of(demo, headers)?;
    if !checks::accepts(headers).stream {
        return Ok(empty(StatusCode::NOT_ACCEPTABLE));
    }
    let (out, messages) = mpsc::channel(QUEUE);
    let work = Box::pin(session.tell_changes(Arc::clone(demo), out));
    Ok(events(Exchange::owning(work, messages).boxed()))
}

fn end_session(demo: &Demo, headers: &HeaderMap) -> Result<Response, Refusal> {
    let session = session_of(demo, headers)?;
    if let Some(id) = &session.id {
        lock(&demo.sessions).remove(id);
    }
    session.end.cancel();
    Ok(empty(StatusCode::OK))
}

/// JSON when the answer comes first, a stream from the first other message on (H-12); errors of modern
/// requests keep their status (H-14), those of legacy ones have none.
async fn respond(mut messages: BoxStream<'static, Out>, accepts: checks::Accepts) -> Response {
    if !accepts.stream {
        messages =
            messages.filter(|message| std::future::ready(matches!(message, Out::Answer { .. }))).boxed();
    }
    match messages.next().await {
        Some(Out::Answer { status, text }) if accepts.json || status != 200 => json(status, text),
        Some(first) => events(stream::iter([first]).chain(messages).boxed()),
        // Cancelled by name: the request gets no answer, its stream just ends (H-84).
        None => events(messages),
    }
}

fn events(messages: BoxStream<'static, Out>) -> Response {
    let frames = stream::unfold(messages, |mut messages| async move {
        let frame = match tokio::time::timeout(KEEP_ALIVE, messages.next()).await {
            Err(_) => Bytes::from_static(sse::KEEP_ALIVE),
            // What was echoed may hold line breaks between its tokens, never inside a string.
            Ok(Some(message)) => {
                let text = message.into_text().replace(['\n', '\r'], " ");
                [sse::OPEN, text.as_bytes(), sse::CLOSE].concat().into()
            }
            Ok(None) => return None,
        };
        Some((Ok::<_, Infallible>(frame), messages))
    });
    let mut response = Response::new(Body::from_stream(frames));
    set(&mut response, CONTENT_TYPE.as_str(), "text/event-stream");
    set(&mut response, CACHE_CONTROL.as_str(), "no-cache, no-transform");
    set(&mut response, "x-accel-buffering", "no");
    response
}

fn json(status: u16, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    set(&mut response, CONTENT_TYPE.as_str(), "application/json");
    set(&mut response, CACHE_CONTROL.as_str(), "no-store");
    response
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn set(response: &mut Response, name: &'static str, value: &'static str) {
    let name = http::HeaderName::from_static(name);
    response.headers_mut().insert(name, http::HeaderValue::from_static(value));
}
