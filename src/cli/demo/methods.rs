//! What each method answers: discovery, lists, reads, prompts, completion and the listen stream.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::call::{Call, Fault, Reply};
use super::{CacheScope, Demo, tools};
use crate::protocol::code;
use crate::protocol::meta::{self, SERVER_INFO, SUBSCRIPTION_ID};
use crate::protocol::method::{Kind, Method};
use crate::protocol::version::Era;

/// What a new client is told.
pub(super) const INSTRUCTIONS: &str = "A demonstration server: every tool does one small thing.";
/// The notification of a changed tool list.
pub(super) const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

const NAMES: [&str; 5] = ["Ada", "Alan", "Barbara", "Grace", "Linus"];
const NOTES: [&str; 3] = ["1", "2", "3"];
/// A PNG of one transparent pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

/// Exactly what is honoured (M-30).
pub(super) fn capabilities() -> Value {
    json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {}, "completions": {}, "logging": {}})
}

/// Answers one checked request.
pub(super) async fn answer(call: &Call) -> Result<Reply, Fault> {
    let unknown = || Fault::new(code::METHOD_NOT_FOUND, "no such method");
    let method = Method::parse(&call.method);
    let mut reply = match (method, call.era()) {
        (Some(Method::Discover | Method::Listen), Era::Legacy) => return Err(unknown()),
        (Some(Method::Listen), Era::Modern) => listen(call).await?,
        (Some(Method::ToolsCall), _) => tools::call(call).await?,
        (Some(method), _) => known(call, method)?,
        (None, Era::Legacy) => session_method(call)?,
        (None, Era::Modern) => return Err(unknown()),
    };
    if call.era() == Era::Modern {
        finish(&call.demo, method, &mut reply);
    }
    Ok(reply)
}

/// What every modern result carries (M-10, M-22), and the hints of those that may be cached (L-10, L-11).
fn finish(demo: &Demo, method: Option<Method>, reply: &mut Reply) {
    let complete = !reply.fields.contains_key("resultType");
    reply.add("resultType", || "complete".into());
    reply.add("_meta", || json!({SERVER_INFO: demo.info()}));
    if complete && method.is_some_and(Method::cacheable) {
        let scope = match demo.args.cache_scope {
            CacheScope::Public => "public",
            CacheScope::Private => "private",
        };
        reply.add("ttlMs", || demo.args.ttl_ms.into());
        reply.add("cacheScope", || scope.into());
    }
}

fn known(call: &Call, method: Method) -> Result<Reply, Fault> {
    match method {
        Method::PromptsGet => prompt(call),
        Method::ResourcesRead => read(call),
        Method::Complete => complete(call),
        method => match method.lists() {
            Some(kind) => list(call, kind),
            None => Ok(Reply::of(json!({
                "supportedVersions": call.demo.args.era.versions(),
                "capabilities": capabilities(),
                "instructions": INSTRUCTIONS,
            }))),
        },
    }
}

fn session_method(call: &Call) -> Result<Reply, Fault> {
    match (call.method.as_str(), &call.session) {
        ("ping", _) => {}
        ("logging/setLevel", Some(session)) => {
            let rank = call.params["level"].as_str().and_then(meta::level_rank);
            let rank = rank.ok_or_else(|| Fault::params("unknown log level"))?;
            session.level.store(rank, Ordering::Relaxed);
        }
        ("initialize", _) => return Err(Fault::new(code::INVALID_REQUEST, "the session is initialized")),
        _ => return Err(Fault::new(code::METHOD_NOT_FOUND, "no such method")),
    }
    Ok(Reply::default())
}

/// One page. A cursor is bound to the state of the list: after a change it is refused (L-51).
fn list(call: &Call, kind: Kind) -> Result<Reply, Fault> {
    let change = if kind == Kind::Tools { *call.demo.changes.borrow() } else { 0 };
    let items = call.demo.offer.items(kind, change);
    let from = match &call.params["cursor"] {
        Value::Null => 0,
        Value::String(cursor) => offset(cursor, change, items.len())
            .ok_or_else(|| Fault::params("the cursor is unknown or expired"))?,
        _ => return Err(Fault::params("cursor must be a string")),
    };
    let size = if call.demo.args.page == 0 { items.len() } else { call.demo.args.page };
    let to = from.saturating_add(size).min(items.len());
    let mut reply = Reply::default().with_raw(kind.result_key(), format!("[{}]", items[from..to].join(",")));
    if to < items.len() {
        reply.add("nextCursor", || format!("{change}-{to}").into());
    }
    Ok(reply)
}

/// The position that a cursor of ours stands for.
pub(super) fn offset(cursor: &str, change: u64, len: usize) -> Option<usize> {
    let (state, offset) = cursor.split_once('-')?;
    let offset = offset.parse().ok().filter(|offset| *offset < len)?;
    (state.parse() == Ok(change)).then_some(offset)
}

fn prompt(call: &Call) -> Result<Reply, Fault> {
    let user = |text: String| json!([{"role": "user", "content": {"type": "text", "text": text}}]);
    match call.params["name"].as_str() {
        Some("greet") => {
            let name = call.argument("name").as_str();
            let name = name.ok_or_else(|| Fault::params("the argument \"name\" is required"))?;
            Ok(Reply::of(json!({"description": "A greeting", "messages": user(format!("Greet {name}."))})))
        }
        Some("summary") => {
            let text = "Summarise demo://readme in one sentence.".to_owned();
            Ok(Reply::of(json!({"description": "A summary", "messages": user(text)})))
        }
        _ => Err(Fault::params("unknown prompt")),
    }
}

fn read(call: &Call) -> Result<Reply, Fault> {
    let Some(uri) = call.params["uri"].as_str() else { return Err(Fault::params("uri must be a string")) };
    let note = uri.strip_prefix("demo://note/").filter(|id| !id.is_empty() && !id.contains('/'));
    let content = match (uri, note) {
        ("demo://readme", _) => {
            json!({"uri": uri, "mimeType": "text/plain", "text": format!("This is {}.", call.demo.args.name)})
        }
        ("demo://pixel", _) => json!({"uri": uri, "mimeType": "image/png", "blob": PIXEL}),
        (_, Some(id)) => json!({"uri": uri, "mimeType": "text/plain", "text": format!("Note {id}")}),
        _ => {
            let code = match call.era() {
                Era::Modern => code::INVALID_PARAMS,
                Era::Legacy => code::LEGACY_RESOURCE_NOT_FOUND,
            };
            return Err(Fault::new(code, "unknown resource").with_data(json!({"uri": uri})));
        }
    };
    Ok(Reply::of(json!({"contents": [content]})))
}

fn complete(call: &Call) -> Result<Reply, Fault> {
    let reference = &call.params["ref"];
    let argument = &call.params["argument"];
    let (Some(name), Some(typed)) = (argument["name"].as_str(), argument["value"].as_str()) else {
        return Err(Fault::params("argument needs name and value"));
    };
    let offered: &[&str] = match (reference["type"].as_str(), &reference["name"], &reference["uri"]) {
        (Some("ref/prompt"), Value::String(prompt), _) if prompt == "greet" && name == "name" => &NAMES,
        (Some("ref/prompt"), Value::String(prompt), _) if ["greet", "summary"].contains(&&**prompt) => &[],
        (Some("ref/resource"), _, Value::String(uri)) if uri == "demo://note/{id}" && name == "id" => &NOTES,
        (Some("ref/resource"), _, Value::String(uri)) if uri.starts_with("demo://") => &[],
        _ => return Err(Fault::params("unknown reference")),
    };
    let typed = typed.to_lowercase();
    let values: Vec<_> = offered.iter().filter(|value| value.to_lowercase().starts_with(&typed)).collect();
    Ok(Reply::of(json!({"completion": {"values": values, "total": values.len(), "hasMore": false}})))
}

/// Acknowledges, then tells of changes until the caller goes or the server stops (S-01..S-09).
async fn listen(call: &Call) -> Result<Reply, Fault> {
    let wanted = &call.params["notifications"];
    if !wanted.is_object() {
        return Err(Fault::params("notifications must be an object"));
    }
    let tools = wanted["toolsListChanged"] == true;
    let honoured = if tools { json!({"toolsListChanged": true}) } else { json!({}) };
    // As text: the id comes back with the digits it was written with (S-04).
    let subscription = format!("\"{SUBSCRIPTION_ID}\":{}", call.id.text());
    let mut changes = call.demo.changes.subscribe();
    let ack = format!("{{\"_meta\":{{{subscription}}},\"notifications\":{honoured}}}");
    call.send("notifications/subscriptions/acknowledged", &ack).await;
    loop {
        tokio::select! {
            biased;
            () = call.demo.stop.cancelled() => break,
            changed = changes.changed(), if tools => {
                if changed.is_err() {
                    break;
                }
                call.send(TOOLS_CHANGED, &format!("{{\"_meta\":{{{subscription}}}}}")).await;
            }
        }
    }
    let server = format!("\"{SERVER_INFO}\":{}", call.demo.info());
    Ok(Reply::default().with_raw("_meta", format!("{{{subscription},{server}}}")))
}
