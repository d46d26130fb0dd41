//! Answers as event streams: when, in which order, with what on the way: H-12, H-16, H-66, H-67, H-70..H-74, M-50, M-51,
//! M-60, M-63, F-044, F-054.

use serde_json::{Value, json};

use crate::support::child::Child;
use crate::support::client::Answer as Stream;
use crate::support::exchange::{Answer, Exchange, Seen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::request::call;
use crate::support::server::{Offer, Server};
use crate::support::table::RESULT;

const DONE: &str = r#"{"content":[{"type":"text","text":"done"}]}"#;

async fn one_server(gateway: &str) -> (Server, Gateway) {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().gateway(gateway).http("s", &server.url(), "").start().await;
    (server, gateway)
}

fn notice(method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":{params}}}")
}

/// The token the gateway gave the server, as JSON text.
fn token(seen: &Seen) -> String {
    seen.raw(&["params", "_meta", "progressToken"]).expect("a token of the gateway's")
}

fn progress(token: &str, progress: &str) -> String {
    notice(
        "progress",
        &format!("{{\"progressToken\":{token},\"progress\":{progress},\"total\":1e1,\"x\":1.0}}"),
    )
}

fn assert_event_head(stream: &Stream) {
    let head = &stream.head;
    assert_eq!(stream.status(), 200);
    assert_eq!(head.one("content-type").as_deref(), Some("text/event-stream"));
    assert_eq!(head.one("x-accel-buffering").as_deref(), Some("no"));
    let cache = head.one("cache-control").unwrap_or_default();
    assert!(cache.contains("no-cache") && cache.contains("no-transform"), "{cache}");
    for absent in ["content-length", "content-encoding", "mcp-session-id"] {
        assert_eq!(head.one(absent), None, "{absent}");
    }
}

/// Covers: H-12, H-70..H-72, issue 5: an event is with the client before the server sends the next one.
#[tokio::test(flavor = "multi_thread")]
async fn events_flow_as_they_come() {
    let (server, gateway) = one_server("").await;
    let mut held = server.hold("tools/call");
    let asked = call("s_t", "{}").id("\"i\"").meta("progressToken", "7");
    let (mut stream, exchange) = tokio::join!(async { gateway.connect().await.begin(asked).await }, async {
        let exchange = held.next().await;
        exchange.open_events();
        exchange.event(&progress(&token(&exchange.seen), "1"));
        exchange
    });
    assert_event_head(&stream);
    for step in 1..=20 {
        let message = stream.message().await.unwrap();
        assert_eq!(message["params"], json!({"progressToken": 7, "progress": step, "total": 10.0, "x": 1.0}));
        if step < 20 {
            exchange.event(&progress(&token(&exchange.seen), &(step + 1).to_string()));
        }
    }
    exchange.finish(DONE);
    let last = stream.message().await.unwrap();
    assert_eq!((&last["id"], &last["result"]["content"][0]["text"]), (&json!("i"), &json!("done")));
    assert_eq!(stream.next().await, None, "the result ends the stream");
    gateway.stop().await;
}

/// The same through a child: it goes on only after the test has seen what came before.
#[tokio::test(flavor = "multi_thread")]
async fn events_flow_as_they_come_from_a_child() {
    let child = Child::python(
        r#"
def work(message, line):
    token = message["params"]["_meta"]["progressToken"]
    for step in (1, 2, 3):
        send(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": step}}))
        while not os.path.exists(os.path.join(HERE, "go%d" % step)):
            time.sleep(0.01)
    result(message, '{"content":[]}')
serve({"server/discover": DISCOVER, "tools/list": tools("t"), "tools/call": work})
"#,
    );
    let gateway = Setup::new().stdio("p", &child.argv(), "").start().await;
    let mut stream = gateway.connect().await.begin(call("p_t", "{}").meta("progressToken", "\"x\"")).await;
    assert_event_head(&stream);
    for step in 1..=3 {
        let message = stream.message().await.unwrap();
        assert_eq!(message["params"], json!({"progressToken": "x", "progress": step}));
        child.put(&format!("go{step}"), "");
    }
    assert!(stream.message().await.unwrap()["result"].is_object());
    assert_eq!(stream.next().await, None);
    gateway.stop().await;
}

/// Covers: M-50, M-51, F-044: the client's own token in its own type, strictly increasing, of this request only.
#[tokio::test(flavor = "multi_thread")]
async fn f_044_progress_bears_the_clients_token() {
    let (server, gateway) = one_server("").await;
    server.on("tools/call", |seen| {
        let Some(own) = seen.raw(&["params", "_meta", "progressToken"]) else {
            let strays =
                [progress("1", "1"), progress("null", "2"), progress("\"g\"", "3"), seen.result(DONE)];
            return Answer::events(&strays);
        };
        let foreign = progress("\"nobody\"", "2");
        let as_text = if own.starts_with('"') { own.clone() } else { format!("\"{own}\"") };
        let mut events = vec![progress(&own, "1"), foreign, progress(&own, "0.5"), progress(&own, "1.0")];
        events.extend([
            progress(&own, "1.5"),
            progress(&as_text, "2"),
            progress(&own, "\"3\""),
            progress(&own, "1e1"),
        ]);
        events.extend([seen.result(DONE), progress(&own, "11")]);
        Answer::events(&events)
    });
    for token in ["7", "\"7\"", "0", "-1", "1152921504606846977", "\"\"", "\"a\\u0062 \\\"x\\\"\""] {
        let reply = gateway.send(call("s_t", "{}").meta("progressToken", token)).await;
        assert_eq!(reply.verdict(), (200, Some(RESULT)), "{token}");
        let texts = reply.texts();
        let (last, notices) = texts.split_last().unwrap();
        assert_eq!(json::raw(last, &["id"]).as_deref(), Some("1"), "the result comes last");
        let part = |text: &String, key: &str| json::raw(text, &["params", key]).unwrap();
        let steps: Vec<String> = notices.iter().map(|text| part(text, "progress")).collect();
        assert_eq!(steps, ["1", "1.5", "2", "1e1"], "{token}");
        assert!(notices.iter().all(|text| part(text, "progressToken") == token), "{token}: {notices:?}");
        assert!(
            notices.iter().all(|text| part(text, "total") == "1e1" && part(text, "x") == "1.0"),
            "{token}"
        );
    }
    let without = gateway.send(call("s_t", "{}")).await;
    assert_eq!((without.texts().len(), without.is_events()), (1, false), "nobody asked for progress");
    let dropped = [("server", "s"), ("kind", "progress_token")];
    assert!(gateway.metric("gatehouse_server_violations_total", &dropped).await >= 10.0);
    gateway.stop().await;
}

fn log(level: &str, logger: &str) -> String {
    notice("message", &format!("{{\"level\":\"{level}\"{logger},\"data\":{{\"n\":1.0}}}}"))
}

fn chatty(seen: &Seen) -> Answer {
    let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    let mut events: Vec<String> = levels.iter().map(|level| log(level, ",\"logger\":\"db\"")).collect();
    events.push(log("emergency", ""));
    events.push(log("loud", ""));
    events.push(notice("tools/list_changed", "{}"));
    events.push(notice("nobody/knows", "{}"));
    events.push(seen.result(DONE));
    Answer::events(&events)
}

/// Covers: M-60, M-61, M-63, M-23; conformance: sep-2575-server-no-log-without-loglevel.
#[tokio::test(flavor = "multi_thread")]
async fn m_60_logs_from_the_level_asked_for() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let paths = "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/raw\"\nprefix = false";
    let gateway = Setup::new().toml(paths).http("s", &server.url(), "").start().await;
    server.on("tools/call", chatty);
    let key = "io.modelcontextprotocol/logLevel";
    let none = gateway.send(call("s_t", "{}").meta("progressToken", "1")).await;
    assert_eq!(none.texts().len(), 1, "{none:?}");
    assert_eq!(server.last_call().raw(&["params", "_meta", key]), None);
    for (level, first) in [("debug", 0), ("warning", 3), ("emergency", 7)] {
        let quoted = json::quoted(level);
        for (path, name, loggers) in [("/mcp", "s_t", ["s/db", "s"]), ("/raw", "t", ["db", ""])] {
            let reply = gateway.send(call(name, "{}").meta(key, &quoted).request().at(path)).await;
            assert_eq!(server.last_call().raw(&["params", "_meta", key]).as_deref(), Some(quoted.as_str()));
            let texts = reply.texts();
            assert_eq!(texts.len(), 8 - first + 1 + 1, "{level}: {reply:?}");
            let logs: Vec<Value> = texts[..texts.len() - 1].iter().map(|text| json::value(text)).collect();
            assert!(
                logs.iter()
                    .all(|log| log["method"] == "notifications/message" && log["params"]["data"]["n"] == 1.0)
            );
            let logger = |log: &Value| log["params"]["logger"].as_str().unwrap_or_default().to_owned();
            assert!(logs[..logs.len() - 1].iter().all(|log| logger(log) == loggers[0]), "{reply:?}");
            assert_eq!(logger(logs.last().unwrap()), loggers[1]);
        }
    }
    gateway.stop().await;
}

/// Covers: H-12: one JSON object where nothing came before the result, or where the client takes nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn h_12_json_where_there_is_nothing_on_the_way() {
    let (server, gateway) = one_server("").await;
    server.on("tools/call", chatty);
    let json_only = call("s_t", "{}")
        .meta("io.modelcontextprotocol/logLevel", "\"debug\"")
        .request()
        .set("Accept", "application/json");
    let reply = gateway.send(json_only).await;
    assert_eq!((reply.verdict(), reply.is_events()), ((200, Some(RESULT)), false));
    assert_eq!(reply.header("content-length"), Some(reply.body.len().to_string()));
    server.on("tools/call", |seen| Answer::events(&[seen.result(DONE)]));
    let json = call("s_t", "{}").request().set("Accept", "application/json");
    assert!(
        !gateway.send(json).await.is_events(),
        "a stream that holds the result only is no reason for one"
    );
    gateway.stop().await;
}

/// Covers: F-054, H-73, H-16: a silent call becomes a stream with comments; an error then is its last event.
#[tokio::test(flavor = "multi_thread")]
async fn f_054_silent_calls_are_kept_alive() {
    let (server, gateway) = one_server("keepalive_interval = \"50ms\"").await;
    let mut held = server.hold("tools/call");
    for ends_well in [true, false] {
        let mut stream = gateway.connect().await.begin(call("s_t", "{}").id("\"k\"")).await;
        assert_event_head(&stream);
        let exchange: Exchange = held.next().await;
        for _ in 0..5 {
            let comment = stream.next().await.unwrap();
            assert_eq!(
                (comment.data, comment.fields),
                (None, vec![String::new()]),
                "no id, no event, a comment"
            );
        }
        if ends_well {
            exchange.result(DONE);
        } else {
            let error =
                exchange.seen.error(-32021, "needs roots", Some(r#"{"requiredCapabilities":{"roots":{}}}"#));
            exchange.reply(400, &error);
        }
        let last = stream.message().await.unwrap();
        assert_eq!(last["id"], "k");
        let expected = if ends_well { Value::Null } else { json!(-32021) };
        assert_eq!(last["error"]["code"], expected, "{last}");
        assert_eq!(stream.next().await, None);
    }
    gateway.stop().await;
}

/// Covers: H-66: however a server cuts and spells its stream, byte by byte.
#[tokio::test(flavor = "multi_thread")]
async fn h_66_streams_in_every_spelling() {
    let (server, gateway) = one_server("").await;
    let mut held = server.hold("tools/call");
    let forms = [
        "data: {}\n\n",
        "data:{}\n\n",
        "\u{feff}event: message\r\nid: 7\r\nretry: 10\r\ndata: {}\r\n\r\n",
        "event: message\rdata: {}\r\r",
        ": a comment\n\ndata: \n\n:\ndata: {}\nid: ä\n\n",
        "id: 1\n\nevent: message\ndata: {}\n\n",
    ];
    for form in forms {
        for split in [1, 3, 4096] {
            let text = call("s_t", "{}").meta("progressToken", "1");
            let asked = tokio::spawn(crate::support::client::send(gateway.listen, text));
            let exchange = held.next().await;
            exchange.open_events();
            let own = token(&exchange.seen);
            let messages = [progress(&own, "1"), exchange.seen.result("{\"content\":[],\"text\":\"日本\"}")];
            let stream: String = messages.iter().map(|message| form.replacen("{}", message, 1)).collect();
            // A byte order mark can stand at the very beginning only.
            let stream = format!("{}{}", &stream[..3], stream[3..].replace('\u{feff}', ""));
            for piece in stream.as_bytes().chunks(split) {
                exchange.chunk(piece);
            }
            exchange.end();
            let reply = asked.await.unwrap();
            assert_eq!(reply.texts().len(), 2, "{form:?} by {split}: {reply:?}");
            assert_eq!(reply.result()["text"], "日本");
        }
    }
    gateway.stop().await;
}

/// Covers: H-67: a request on a modern stream is a violation; it is not answered and the call fails.
#[tokio::test(flavor = "multi_thread")]
async fn h_67_a_modern_server_may_not_ask() {
    let (server, gateway) = one_server("").await;
    server.on("tools/call", |seen| {
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}"#.to_owned();
        Answer::events(&[request, seen.result(DONE)])
    });
    let reply = gateway.send(call("s_t", "{}")).await;
    assert!(reply.code() == Some(-32603) || reply.result()["isError"] == true, "{reply:?}");
    assert_eq!(gateway.metric("gatehouse_server_violations_total", &[("kind", "request")]).await, 1.0);
    assert_eq!(server.seen().iter().filter(|seen| seen.raw(&["result"]).is_some()).count(), 0);
    gateway.stop().await;
}

/// Covers: H-74, M-50: two calls at once with one id and one token; nothing crosses.
#[tokio::test(flavor = "multi_thread")]
async fn h_74_messages_never_cross_streams() {
    let (server, gateway) = one_server("").await;
    let mut held = server.hold("tools/call");
    let mut streams = Vec::new();
    for n in 0..8 {
        let asked = call("s_t", format!("{{\"n\":{n}}}")).meta("progressToken", "1");
        let (stream, exchange) = tokio::join!(async { gateway.connect().await.begin(asked).await }, async {
            let exchange = held.next().await;
            exchange.open_events();
            exchange.event(&notice(
                "progress",
                &format!("{{\"progressToken\":{},\"progress\":{}}}", token(&exchange.seen), n * 100 + 1),
            ));
            exchange
        });
        assert_eq!(exchange.seen.raw(&["params", "arguments", "n"]), Some(n.to_string()));
        streams.push((n, stream, exchange));
    }
    let mut tokens: Vec<String> = streams.iter().map(|(_, _, exchange)| token(&exchange.seen)).collect();
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 8, "each has a token of its own towards the server");
    for (n, mut stream, exchange) in streams.into_iter().rev() {
        assert_eq!(stream.message().await.unwrap()["params"]["progress"], n * 100 + 1);
        exchange.finish(&format!("{{\"content\":[],\"n\":{n}}}"));
        assert_eq!(stream.message().await.unwrap()["result"]["n"], n);
        assert_eq!(stream.next().await, None);
    }
    gateway.stop().await;
}
