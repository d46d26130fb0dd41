//! A fast MCP server to measure gateways with: both eras of streamable HTTP on every path.
//!
//! `/t/N/mcp` lists N tools of about a kilobyte (the first is `echo`), `/sse` in a path makes answers event
//! streams. `tools/call` echoes `message`, or gives `size` bytes of text, after `delay_ms`. `subscriptions/listen`
//! is acknowledged and held open. Options: `--port`, `--tools` (elsewhere), `--schema-bytes`.

mod answer;
mod content;

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;

use answer::Answer;
use content::Content;

type Body = BoxBody<Bytes, Infallible>;

async fn handle(content: &Content, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let events = request.uri().path().contains("/sse");
    let tools = request.uri().path().strip_prefix("/t/").and_then(|p| p.split('/').next()?.parse().ok());
    match *request.method() {
        Method::POST => {}
        Method::DELETE => return Ok(plain(StatusCode::OK)),
        _ => return Ok(plain(StatusCode::METHOD_NOT_ALLOWED)),
    }
    let version = request.headers().get("mcp-protocol-version");
    let modern = version.is_some_and(|version| version == answer::MODERN);
    let Ok(body) = request.into_body().collect().await else { return Ok(plain(StatusCode::BAD_REQUEST)) };
    Ok(match answer::answer(content, &body.to_bytes(), modern, tools).await {
        Answer::Accepted => plain(StatusCode::ACCEPTED),
        Answer::Message(status, message) => whole(status, message, events),
        Answer::Session(id, message) => {
            let mut response = whole(StatusCode::OK, message, events);
            response.headers_mut().insert("mcp-session-id", id);
            response
        }
        Answer::Stream(first) => stream(first),
    })
}

fn plain(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Full::default().boxed());
    *response.status_mut() = status;
    response
}

fn whole(status: StatusCode, message: Vec<u8>, events: bool) -> Response<Body> {
    let message = if events { framed(&message) } else { message };
    let mut response = Response::new(Full::from(message).boxed());
    *response.status_mut() = status;
    let media = if events { "text/event-stream" } else { "application/json" };
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media));
    response
}

/// An event, and then silence until the client goes.
fn stream(first: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(answer::Held(Some(framed(&first).into())).boxed());
    let media = header::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

fn framed(message: &[u8]) -> Vec<u8> {
    [b"event: message\ndata: ", message, b"\n\n"].concat()
}

/// The number behind an option, or a default.
fn option(name: &str, default: usize) -> usize {
    let arguments: Vec<String> = std::env::args().collect();
    let given = arguments.windows(2).find(|pair| pair[0] == name);
    given.map_or(default, |pair| pair[1].parse().expect("a number"))
}

fn main() {
    let content: &'static Content =
        Box::leak(Box::new(Content::new(option("--tools", 10), option("--schema-bytes", 1024))));
    let address = SocketAddr::from(([127, 0, 0, 1], option("--port", 9100) as u16));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::bind(address).await.expect("a free port");
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            // Without it a small answer may wait for an acknowledgement.
            let _ = stream.set_nodelay(true);
            tokio::spawn(async move {
                let service = service_fn(move |request| handle(content, request));
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
}
