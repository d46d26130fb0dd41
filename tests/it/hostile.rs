//! Twenty thousand generated bodies on the public port: each is answered, with the right class of error and the id
//! where it can be read; nothing panics, nothing hangs, nothing is left (issue 2; F-088).

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::support::client::{Connection, Reply};
use crate::support::gateway::Setup;
use crate::support::request::{Request, VERSION, call, encoded, mcp};
use crate::support::server::{Offer, Server};
use crate::support::{json, scale, within};

const BODIES: usize = 20_000;
const CONNECTIONS: usize = 8;

/// The same sequence in every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}

/// Values that belong nowhere.
fn odd_value(dice: &mut Dice) -> String {
    let depth = dice.below(400);
    match dice.below(12) {
        0 => "1e400".to_owned(),
        1 => "9".repeat(1 + dice.below(500)),
        2 => format!("-0.{}", "0".repeat(dice.below(300)) + "1"),
        3 => format!("{}{}", "[".repeat(depth), "]".repeat(depth)),
        4 => format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)),
        5 => format!("\"{}\"", "\\ud800".repeat(1 + dice.below(3))),
        6 => format!("\"{}\"", "\u{10ffff}x\\u0000".repeat(dice.below(50))),
        _ => dice
            .of(&["null", "true", "{}", "[]", "\"\"", "7", "-1", "1.5", "\"2.0\"", "{\"\":{}}", "[[],{}]"])
            .to_owned(),
    }
}

fn good(dice: &mut Dice) -> String {
    let id = dice.of(&["1", "\"a\"", "\"日本\"", "-5", "18446744073709551616", "\"\\u0061\""]);
    let arguments = "{\"s\":\"x\",\"n\":1.0,\"deep\":{\"a\":[1,2,{\"b\":null}]}}";
    let message = match dice.below(6) {
        0 => mcp("tools/list", "{}"),
        1 => mcp("server/discover", "{}"),
        2 => mcp("resources/read", "{\"uri\":\"s://x\"}"),
        3 => mcp("prompts/get", "{\"name\":\"s_p\",\"arguments\":{\"a\":\"b\"}}"),
        _ => call("s_t", arguments).meta("progressToken", "7").meta("k", "[1]"),
    };
    message.id(id).text()
}

/// Cuts, flips, doubles, or puts in something else.
fn body(dice: &mut Dice) -> Vec<u8> {
    let mut text = good(dice).into_bytes();
    match dice.below(10) {
        0 => text.truncate(dice.below(text.len())),
        1 => {
            for _ in 0..1 + dice.below(4) {
                let at = dice.below(text.len());
                text[at] = dice.next() as u8;
            }
        }
        2 => {
            let at = dice.below(text.len());
            text.drain(at..(at + 1 + dice.below(10)).min(text.len()));
        }
        3 => {
            let (at, byte) =
                (dice.below(text.len()), dice.of(&["{", "}", "[", "]", "\"", ",", ":", "\\", "\u{0}", "é"]));
            text.splice(at..at, byte.bytes());
        }
        4 => text = (0..dice.below(200)).map(|_| dice.next() as u8).collect(),
        5 => text = odd_value(dice).into_bytes(),
        6 => {
            let end = text.len() - 1;
            let key = dice
                .of(&["id", "method", "params", "jsonrpc", "result", "error", "x", "\\u0069d", "\\ud800"]);
            text.splice(end..end, format!(",\"{key}\":{}", odd_value(dice)).bytes());
        }
        _ => return replaced(dice, &String::from_utf8(text).unwrap()).into_bytes(),
    }
    text
}

/// One member's value replaced by an odd one.
fn replaced(dice: &mut Dice, text: &str) -> String {
    let colons: Vec<usize> = text.match_indices("\":").map(|(at, _)| at + 2).collect();
    let at = colons[dice.below(colons.len())];
    let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<&RawValue>();
    let length = values.next().unwrap().unwrap().get().len();
    format!("{}{}{}", &text[..at], odd_value(dice), &text[at + length..])
}

/// With the headers of a good call, or with such as mirror the body, so that it gets further.
fn request(dice: &mut Dice, body: Vec<u8>) -> Request {
    let mut request = Request { body, ..call("s_t", "{}").request() };
    let text = String::from_utf8_lossy(&request.body).into_owned();
    let read =
        |path: &[&str]| json::raw(&text, path).and_then(|raw| serde_json::from_str::<String>(&raw).ok());
    if dice.below(4) > 0 {
        let visible = |text: &String| text.bytes().all(|b| (0x20..0x7f).contains(&b));
        if let Some(method) = read(&["method"]).filter(visible) {
            request = request.set("Mcp-Method", method);
        }
        request = match read(&["params", "name"]).or_else(|| read(&["params", "uri"])) {
            Some(name) => request.set("Mcp-Name", encoded(&name)),
            None => request.without("Mcp-Name"),
        };
        let version = read(&["params", "_meta", "io.modelcontextprotocol/protocolVersion"]).filter(visible);
        request = request.set("MCP-Protocol-Version", version.unwrap_or_else(|| VERSION.to_owned()));
    }
    request
}

/// What another parser thinks of a body.
#[derive(Debug, PartialEq)]
enum Class {
    /// No JSON, or too deep: -32700 without an id.
    Broken,
    /// JSON, but no message: -32600; with the id, where there is one.
    NoMessage(Option<String>),
    /// No answer at all, or a refusal without an id.
    Notification,
    /// A request of this id.
    Request(String),
}

fn depth(text: &str) -> usize {
    let (mut deepest, mut now, mut quoted, mut escaped) = (0, 0usize, false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => {
                now += 1;
                deepest = deepest.max(now);
            }
            '}' | ']' if !quoted => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The members in order, by serde_json; `None` where a key is no text.
fn members(text: &str) -> Option<Vec<(String, String)>> {
    struct All;
    impl<'de> serde::de::Visitor<'de> for All {
        type Value = Vec<(String, String)>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                all.push((key, value.get().to_owned()));
            }
            Ok(all)
        }
    }
    serde::Deserializer::deserialize_map(&mut serde_json::Deserializer::from_str(text), All).ok()
}

fn classify(body: &[u8]) -> Class {
    let Ok(text) = std::str::from_utf8(body) else { return Class::Broken };
    if serde_json::from_str::<&RawValue>(text).is_err() || depth(text) > 128 {
        return Class::Broken;
    }
    if !text.trim_start().starts_with('{') {
        return Class::NoMessage(None);
    }
    // A key that is no text hides the others from this parser; the gateway may still know the id.
    let Some(all) = members(text) else { return Class::NoMessage(None) };
    let mut by_key: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, value) in &all {
        by_key.entry(key).or_default().push(value);
    }
    let of = |key: &str| by_key.get(key).map_or(&[][..], Vec::as_slice);
    let is_id =
        |raw: &str| raw.starts_with('"') || raw.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit());
    let id = match of("id") {
        [one] if is_id(one) => Some((*one).to_owned()),
        _ => None,
    };
    let twice = ["id", "method", "params", "jsonrpc", "result", "error"].iter().any(|key| of(key).len() > 1);
    let text_of = |key: &str| of(key).first().and_then(|raw| serde_json::from_str::<String>(raw).ok());
    let answer = !of("result").is_empty() || !of("error").is_empty();
    let valid =
        !twice && text_of("jsonrpc").as_deref() == Some("2.0") && text_of("method").is_some() && !answer;
    match (valid, of("id").is_empty(), id) {
        (true, true, _) => Class::Notification,
        (true, false, Some(id)) => Class::Request(id),
        // A response is refused without an id (H-10).
        (_, _, id) => Class::NoMessage(id.filter(|_| twice || !of("method").is_empty() || !answer)),
    }
}

/// Statuses and codes that a request can get here; 0 is a result.
const FATES: [(u16, i64); 9] = [
    (200, 0),
    (200, -32602),
    (200, -32603),
    (400, -32602),
    (400, -32600),
    (400, -32020),
    (400, -32022),
    (404, -32601),
    (400, -32021),
];

fn judge(class: &Class, reply: &Reply) -> Result<(), String> {
    let verdict = reply.verdict();
    let id = (!reply.body.is_empty()).then(|| json::raw(&reply.last(), &["id"])).flatten();
    let fits = match class {
        Class::Broken => verdict == (400, Some(-32700)) && id.is_none(),
        Class::NoMessage(Some(own)) => {
            verdict == (400, Some(-32600)) && id.as_ref().is_none_or(|id| id == own)
        }
        Class::NoMessage(None) => verdict == (400, Some(-32600)),
        Class::Notification => verdict == (202, None) || (verdict == (400, Some(-32600)) && id.is_none()),
        Class::Request(own) => {
            FATES.contains(&(verdict.0, verdict.1.unwrap_or(1))) && id.as_ref() == Some(own)
        }
    };
    if fits { Ok(()) } else { Err(format!("{class:?}: {reply:?}")) }
}

async fn attack(address: std::net::SocketAddr, seed: u64) -> BTreeMap<(u16, i64), usize> {
    let mut dice = Dice(seed);
    let mut connection = Connection::open(address).await;
    let mut fates = BTreeMap::new();
    for _ in 0..BODIES * scale() / CONNECTIONS {
        let body = body(&mut dice);
        let class = classify(&body);
        let request = request(&mut dice, body);
        let reply = connection.send(request.clone()).await;
        if let Err(wrong) = judge(&class, &reply) {
            panic!(
                "{wrong}\nbody: {}\nheaders: {:?}",
                String::from_utf8_lossy(&request.body),
                request.fields
            );
        }
        let (status, code) = reply.verdict();
        *fates.entry((status, code.unwrap_or(1))).or_default() += 1;
    }
    fates
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_generated_bodies() {
    let mut offer = Offer::tools(&["t"]);
    offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
    offer.templates = vec![r#"{"uriTemplate":"s://x{y}","name":"x"}"#.to_owned()];
    let server = Server::modern("s", offer).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let attacks: Vec<_> =
        (1..=CONNECTIONS as u64).map(|seed| tokio::spawn(attack(gateway.listen, seed))).collect();
    let mut fates: BTreeMap<(u16, i64), usize> = BTreeMap::new();
    for attack in attacks {
        for (fate, count) in attack.await.unwrap() {
            *fates.entry(fate).or_default() += count;
        }
    }
    assert_eq!(fates.values().sum::<usize>(), BODIES * scale());
    // The generator reaches every stage of the checks, not only the first.
    for fate in [
        (200, 0),
        (200, -32602),
        (400, -32602),
        (400, -32600),
        (400, -32700),
        (400, -32020),
        (400, -32022),
        (404, -32601),
        (202, 1),
    ] {
        assert!(fates.get(&fate).is_some_and(|count| *count > 20), "{fate:?} of {fates:?}");
    }
    assert_eq!(gateway.send(call("s_t", "{}")).await.verdict(), (200, Some(0)));
    assert_eq!(gateway.admin("/livez").await.status(), 200);
    gateway.metric_becomes("gatehouse_inflight", &[], 0.0).await;
    gateway.metric_becomes("gatehouse_buffered_bytes", &[], 0.0).await;
    gateway.metric_becomes("gatehouse_connections", &[], 0.0).await;
    gateway.stop().await;
}

/// What is no HTTP: an answer of the 400s or the end of the connection, never silence, never harm.
#[tokio::test(flavor = "multi_thread")]
async fn generated_heads() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new()
        .gateway("header_timeout = \"1s\"\nbody_timeout = \"1s\"")
        .http("s", &server.url(), "")
        .start()
        .await;
    let mut dice = Dice(99);
    let whole = call("s_t", "{}").request().bytes("localhost");
    let head = whole.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let mut ended = Vec::new();
    for _ in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..1 + dice.below(3) {
            let at = dice.below(head.min(bytes.len()));
            match dice.below(4) {
                0 => bytes[at] = dice.next() as u8,
                1 => drop(bytes.drain(at..(at + 1 + dice.below(6)).min(bytes.len()))),
                2 => drop(bytes.splice(
                    at..at,
                    dice.of(&["\r\n", "\n", "\0", ":", " ", "Content-Length: 5\r\n", "\u{ff}"]).bytes(),
                )),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let address = gateway.listen;
        ended.push(tokio::spawn(async move {
            let mut connection = Connection::open(address).await;
            connection.write(&bytes).await;
            connection.end().await;
            within("an answer or the end", connection.drain()).await
        }));
    }
    for one in ended {
        let said = one.await.unwrap();
        let ok = said.is_empty()
            || said.starts_with(b"HTTP/1.1 4")
            || said.starts_with(b"HTTP/1.1 2")
            || said.starts_with(b"HTTP/1.0 ");
        assert!(ok, "{}", String::from_utf8_lossy(&said));
    }
    assert_eq!(gateway.send(call("s_t", "{}")).await.verdict(), (200, Some(0)));
    gateway.stop().await;
}
