//! What each method answers.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::Frame;
use hyper::header::HeaderValue;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::content::Content;

pub const MODERN: &str = "2026-07-28";
const LEGACY: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

static SESSIONS: AtomicU64 = AtomicU64::new(1);

/// The answer to one message.
pub enum Answer {
    /// Nothing to say.
    Accepted,
    /// One message.
    Message(StatusCode, Vec<u8>),
    /// The answer to `initialize`, and the session it begins.
    Session(HeaderValue, Vec<u8>),
    /// A stream that stays open, and its first message.
    Stream(Vec<u8>),
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Default, Deserialize)]
struct Params<'a> {
    #[serde(rename = "protocolVersion")]
    version: Option<String>,
    #[serde(borrow)]
    arguments: Option<Arguments<'a>>,
}

#[derive(Default, Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    size: Option<usize>,
    delay_ms: Option<u64>,
}

/// Answers `body`; `tools`: how many the path names.
pub async fn answer(content: &Content, body: &Bytes, modern: bool, tools: Option<usize>) -> Answer {
    let Ok(message) = serde_json::from_slice::<Message<'_>>(body) else {
        return refusal(StatusCode::BAD_REQUEST, "null", -32700);
    };
    let (Some(id), Some(method)) = (message.id.map(RawValue::get), message.method) else {
        return Answer::Accepted;
    };
    let params = message.params.unwrap_or_default();
    let hints = if modern { ",\"ttlMs\":300000,\"cacheScope\":\"public\"" } else { "" };
    let kind = if modern { "\"resultType\":\"complete\"," } else { "" };
    let result = |parts: &[&[u8]]| Answer::Message(StatusCode::OK, written(id, parts));
    match &*method {
        "initialize" => initialize(id, params.version.as_deref()),
        "server/discover" if modern => result(&[
            br#"{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{"listChanged":true}}"#,
            hints.as_bytes(),
            b"}",
        ]),
        "ping" => result(&[b"{}"]),
        "tools/list" => result(&[
            b"{",
            kind.as_bytes(),
            b"\"tools\":",
            &content.list(tools),
            hints.as_bytes(),
            b"}",
        ]),
        "tools/call" => {
            let arguments = params.arguments.unwrap_or_default();
            if let Some(delay) = arguments.delay_ms {
                tokio::time::sleep(Duration::from_millis(delay)).await;
            }
            let sized = arguments.size.map(|size| content.text(size.min(64 << 20)));
            let message = arguments.message.map_or("\"ok\"", RawValue::get);
            let text = sized.as_deref().unwrap_or(message.as_bytes());
            let open = b"\"content\":[{\"type\":\"text\",\"text\":";
            result(&[b"{", kind.as_bytes(), open, text, b"}],\"isError\":false}"])
        }
        "subscriptions/listen" if modern => {
            let head = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":"#;
            Answer::Stream([head.as_bytes(), id.as_bytes(), b"}}}"].concat())
        }
        _ if modern => refusal(StatusCode::NOT_FOUND, id, -32601),
        _ => refusal(StatusCode::OK, id, -32601),
    }
}

fn initialize(id: &str, wanted: Option<&str>) -> Answer {
    let version = LEGACY.into_iter().find(|known| Some(*known) == wanted).unwrap_or(LEGACY[0]);
    let result = format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"echo","version":"0.1.0"}}}}"#
    );
    let session = format!("echo-{:016x}", SESSIONS.fetch_add(1, Ordering::Relaxed));
    match HeaderValue::from_str(&session) {
        Ok(session) => Answer::Session(session, written(id, &[result.as_bytes()])),
        Err(_) => Answer::Accepted,
    }
}

fn refusal(status: StatusCode, id: &str, code: i32) -> Answer {
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"refused"}}}}"#);
    Answer::Message(status, text.into())
}

fn written(id: &str, result: &[&[u8]]) -> Vec<u8> {
    let length: usize = result.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(length + id.len() + 34);
    for part in [b"{\"jsonrpc\":\"2.0\",\"id\":", id.as_bytes(), b",\"result\":"].iter().chain(result) {
        out.extend_from_slice(part);
    }
    out.push(b'}');
    out
}

/// A body that gives one piece and never ends.
pub struct Held(pub Option<Bytes>);

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |piece| Poll::Ready(Some(Ok(Frame::data(piece)))))
    }
}
