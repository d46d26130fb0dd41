//! The tools: what each does with its arguments.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use serde_json::{Map, Value, json};

use super::call::{Call, Fault, Reply};
use super::{checks, offer};
use crate::protocol::code;
use crate::protocol::meta::{self, LEVELS};

/// The largest text `big` makes, in bytes.
const MAX_TEXT: u64 = 64 << 20;
/// How long a question may stay open.
const QUESTION_LIFE: Duration = Duration::from_secs(600);

/// Answers `tools/call`.
pub(super) async fn call(call: &Call) -> Result<Reply, Fault> {
    let Some(name) = call.params["name"].as_str() else { return Err(Fault::params("name must be a string")) };
    let arguments = &call.params["arguments"];
    if !arguments.is_object() && !arguments.is_null() {
        return Err(Fault::params("arguments must be an object"));
    }
    let gem = name == "hidden_gem" && offer::shows_hidden(*call.demo.changes.borrow());
    let mirrored = call.demo.offer.mirrored.get(name);
    if mirrored.is_none() && !gem && !call.demo.offer.has_extra(name) {
        return Err(Fault::params("unknown tool"));
    }
    if let (None, Some(headers), Some(mirrored)) = (&call.session, &call.headers, mirrored) {
        checks::mirrored(mirrored, arguments, headers)?;
    }
    call.demo.calls.fetch_add(1, Ordering::Relaxed);
    if let Some(session) = &call.session {
        session.calls.fetch_add(1, Ordering::Relaxed);
    }
    Ok(match name {
        "echo" => echo(call),
        "add" => add(call.argument("a"), call.argument("b")),
        "slow" => slow(call).await,
        "big" => big(call.argument("bytes")),
        "fail" => failure(call.argument("message").as_str().unwrap_or("failed, as asked")),
        "crash" => return Err(crash(call)),
        "weather" => weather(call),
        "toggle" => toggle(call),
        "whoami" => structured(whoami(call)),
        "counter" => counter(call),
        "ask" => return ask(call).await,
        "log" => log(call).await,
        name => text(format!("This is {name}.")),
    })
}

fn text(text: impl Into<String>) -> Reply {
    Reply::of(json!({"content": [{"type": "text", "text": text.into()}]}))
}

/// The tool ran and could not do it (M-43).
fn failure(message: &str) -> Reply {
    let mut reply = text(message);
    reply.add("isError", || true.into());
    reply
}

/// Structured content with its text copy (M-83).
fn structured(value: Value) -> Reply {
    let mut reply = text(value.to_string());
    reply.add("structuredContent", || value);
    reply
}

fn echo(call: &Call) -> Reply {
    match call.argument("text").as_str() {
        Some(said) => text(said).with_raw("structuredContent", call.arguments.as_deref().unwrap_or("{}")),
        None => failure("text must be a string"),
    }
}

/// Integers stay integers as long as they fit.
pub(super) fn add(a: &Value, b: &Value) -> Reply {
    let exact = a.as_i64().zip(b.as_i64()).and_then(|(a, b)| a.checked_add(b)).map(Value::from);
    let sum = exact.or_else(|| {
        let sum = a.as_f64()? + b.as_f64()?;
        sum.is_finite().then(|| sum.into())
    });
    match sum {
        Some(sum) => {
            let mut reply = text(sum.to_string());
            reply.add("structuredContent", || json!({"sum": sum}));
            reply
        }
        None => failure("a and b must be numbers with a finite sum"),
    }
}

/// Counts a run that was dropped before its end.
struct Unfinished<'a>(Option<&'a AtomicU64>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(cancelled) = self.0 {
            cancelled.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn slow(call: &Call) -> Reply {
    let number = |name, or: u64| match call.argument(name) {
        Value::Null => Some(or as f64),
        value => value.as_f64(),
    };
    let (Some(seconds), Some(steps)) = (number("seconds", 1), number("steps", 5)) else {
        return failure("seconds and steps must be numbers");
    };
    if !(0.0..=3600.0).contains(&seconds) || !(1.0..=10_000.0).contains(&steps) {
        return failure("seconds must be 0 to 3600, steps 1 to 10000");
    }
    let steps = steps as u64;
    let mut unfinished = Unfinished(Some(&call.demo.cancelled));
    for step in 1..=steps {
        tokio::time::sleep(Duration::from_secs_f64(seconds / steps as f64)).await;
        call.progress(step, steps).await;
    }
    unfinished.0 = None;
    text(format!("done in {steps} steps"))
}

fn big(bytes: &Value) -> Reply {
    match bytes.as_u64().filter(|bytes| *bytes <= MAX_TEXT) {
        Some(bytes) => text("x".repeat(bytes as usize)),
        None => failure("bytes must be an integer from 0 to 67108864"),
    }
}

fn crash(call: &Call) -> Fault {
    if call.demo.args.stdio && *call.argument("exit") == true {
        std::process::exit(1);
    }
    Fault::new(code::INTERNAL_ERROR, "crashed, as asked")
}

fn weather(call: &Call) -> Reply {
    let Some(region) = call.argument("region").as_str() else { return failure("region must be a string") };
    let days = call.argument("days").as_f64().unwrap_or(1.0);
    let warm = if *call.argument("metric") == false { "68 °F" } else { "20 °C" };
    text(format!("{region}: {warm} and dry for {days} days"))
}

fn toggle(call: &Call) -> Reply {
    let mut state = 0;
    call.demo.changes.send_modify(|change| {
        *change += 1;
        state = *change;
    });
    text(if offer::shows_hidden(state) { "hidden_gem is there" } else { "hidden_gem is gone" })
}

fn whoami(call: &Call) -> Value {
    let session = call.session.as_deref();
    json!({
        "server": call.demo.args.name,
        "pid": std::process::id(),
        "era": call.era().as_str(),
        "headers": call.headers.as_ref().map(seen),
        "meta": call.params["_meta"],
        "session": session.and_then(|session| session.id.as_deref()),
        "initialize": session.map(|session| &session.initialize),
        "calls": {
            "process": call.demo.calls.load(Ordering::Relaxed),
            "session": session.map(|session| session.calls.load(Ordering::Relaxed)),
        },
        "cancelled": call.demo.cancelled.load(Ordering::Relaxed),
    })
}

/// Headers by name: a string, or an array where one came more than once.
fn seen(headers: &HeaderMap) -> Value {
    let value = |name| {
        let mut values: Vec<Value> =
            headers.get_all(name).iter().map(|v| String::from_utf8_lossy(v.as_bytes()).into()).collect();
        if values.len() == 1 { values.remove(0) } else { Value::Array(values) }
    };
    headers.keys().map(|name| (name.to_string(), value(name))).collect::<Map<_, _>>().into()
}

fn counter(call: &Call) -> Reply {
    let counter = call.session.as_ref().map_or(&call.demo.counter, |session| &session.counter);
    structured(json!({"count": counter.fetch_add(1, Ordering::Relaxed) + 1}))
}

/// Modern: only for callers that named a level (M-60); legacy: from the session's level on (G-15).
async fn log(call: &Call) -> Reply {
    let least = match (&call.session, call.meta(meta::LOG_LEVEL)) {
        (Some(session), _) => session.level.load(Ordering::Relaxed),
        (None, Value::String(level)) => meta::level_rank(level).unwrap_or(LEVELS.len()),
        (None, _) => LEVELS.len(),
    };
    for level in LEVELS.iter().skip(least) {
        let params = json!({"level": level, "logger": "demo", "data": format!("a message at {level}")});
        call.send("notifications/message", &params.to_string()).await;
    }
    text(format!("{} messages", LEVELS.len() - least))
}

async fn ask(call: &Call) -> Result<Reply, Fault> {
    let form = json!({"mode": "form", "message": "What is your name?", "requestedSchema": {
        "type": "object", "properties": {"name": {"type": "string", "title": "Name"}}, "required": ["name"]}});
    let able = asks_forms(call.capabilities());
    if let Some(session) = &call.session {
        if !able {
            return Ok(failure("the client cannot ask its user"));
        }
        let mut form = form;
        if session.version < "2025-11-25" {
            form.as_object_mut().map(|form| form.remove("mode"));
        }
        let answer = session.ask("elicitation/create", &form, &call.out).await;
        return Ok(greeting(call, &answer).unwrap_or_else(|| failure("the client gave no usable answer")));
    }
    if !able {
        let missing = json!({"requiredCapabilities": {"elicitation": {"form": {}}}});
        return Err(Fault::new(code::MISSING_CAPABILITY, "elicitation (form) is required").with_data(missing));
    }
    let answers = match &call.params["requestState"] {
        Value::Null => &Value::Null,
        state if is_ours(call, state) => &call.params["inputResponses"],
        _ => return Err(Fault::params("requestState is not valid here")),
    };
    // No answer, or one that makes no sense: ask again.
    Ok(greeting(call, &answers["name"]).unwrap_or_else(|| {
        let mut reply = Reply::of(json!({"resultType": "input_required", "requestState": state(call)}));
        reply.add("inputRequests", || json!({"name": {"method": "elicitation/create", "params": form}}));
        reply
    }))
}

/// `elicitation: {}` means forms, as does `elicitation.form` (M-34).
pub(super) fn asks_forms(capabilities: &Value) -> bool {
    capabilities["elicitation"]
        .as_object()
        .is_some_and(|modes| modes.is_empty() || modes.contains_key("form"))
}

/// The tool's answer to the user's; `None` when it has no shape of ours.
fn greeting(call: &Call, answer: &Value) -> Option<Reply> {
    match answer["action"].as_str()? {
        "accept" => {
            let greeting = call.argument("greeting").as_str().unwrap_or("Hello");
            answer["content"]["name"].as_str().map(|name| text(format!("{greeting}, {name}!")))
        }
        "decline" | "cancel" => Some(text("Nobody to greet.")),
        _ => None,
    }
}

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(u64::MAX, |age| age.as_secs())
}

/// What a state vouches for: this tool, these arguments. The map sorts its keys.
fn bound(call: &Call, expiry: &str) -> String {
    format!("{expiry} tools/call ask {}", call.params["arguments"])
}

fn state(call: &Call) -> String {
    let expiry = now().saturating_add(QUESTION_LIFE.as_secs()).to_string();
    let tag = hmac::sign(&call.demo.key, bound(call, &expiry).as_bytes());
    format!("{expiry}.{}", URL_SAFE_NO_PAD.encode(tag))
}

fn is_ours(call: &Call, state: &Value) -> bool {
    let Some((expiry, tag)) = state.as_str().and_then(|state| state.split_once('.')) else { return false };
    let Ok(tag) = URL_SAFE_NO_PAD.decode(tag) else { return false };
    hmac::verify(&call.demo.key, bound(call, expiry).as_bytes(), &tag).is_ok()
        && expiry.parse::<u64>().is_ok_and(|expiry| now() < expiry)
}
