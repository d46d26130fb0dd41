//! What servers answer when something stands in the way: error pages, odd types, broken JSON, refused credentials, too
//! much of it: F-067, F-073, H-61..H-63, H-66, H-68, design §6. The client gets valid MCP, and learns no address.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::child::Child;
use crate::support::client::{Reply, ok};
use crate::support::exchange::{Answer, Exchange, Seen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};

const JSON: &str = "application/json";
const GOOD: &str = r#"{"resultType":"complete","content":[{"type":"text","text":"good"}],"messages":[]}"#;

/// What the client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The result.
    Good,
    /// The server's own error.
    Code(i64),
    /// Words of the gateway, and this outcome.
    Said(&'static str),
}

use Verdict::{Code, Good, Said};

type Row = (&'static str, Verdict, fn(&Seen) -> Answer);

fn error(seen: &Seen, status: u16, code: i64) -> Answer {
    Answer::new(status, JSON, seen.error(code, "says t", Some(r#"{"k":[1.0]}"#)))
}

fn good(seen: &Seen) -> String {
    seen.result(GOOD)
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

const ROWS: &[Row] = &[
    ("5 MB of HTML", Said("unavailable"), |_| {
        Answer::new(502, "text/html", "<!DOCTYPE html>".repeat(350_000))
    }),
    ("HTML with 200", Said("internal"), |_| {
        Answer::new(200, "text/html", "<!DOCTYPE html><h1>http://10.0.0.7/")
    }),
    ("text with 200", Said("internal"), |_| Answer::new(200, "text/plain", "OK")),
    ("429", Said("unavailable"), |_| Answer::new(429, "text/plain", "slow down").with("Retry-After", "60")),
    ("413", Said("unavailable"), |_| Answer::new(413, "", "")),
    ("431", Said("unavailable"), |_| Answer::new(431, "", "")),
    ("404", Said("unavailable"), |_| Answer::new(404, "text/html", "<!DOCTYPE html>")),
    ("500", Said("unavailable"), |_| Answer::new(500, JSON, r#"{"error":"panic at http://10.0.0.7/"}"#)),
    ("redirect", Said("unavailable"), |_| Answer::new(308, "", "").with("Location", "http://10.0.0.7/")),
    ("202", Said("unavailable"), |_| Answer::new(202, "", "")),
    ("nothing", Said("unavailable"), |_| Answer::new(200, JSON, "")),
    ("nothing in events", Said("unavailable"), |_| Answer::new(200, "text/event-stream", ": nothing\n\n")),
    ("503 and an error", Code(-32001), |s| error(s, 503, -32001)),
    ("400 and an error", Code(-32602), |s| error(s, 400, -32602)),
    ("404 and an error", Code(-32005), |s| error(s, 404, -32005)),
    ("an error in events", Code(-32602), |s| {
        Answer::events(&[s.error(-32602, "says t", Some(r#"{"k":[1.0]}"#))])
    }),
    ("500 and a result", Said("unavailable"), |s| Answer::new(500, JSON, good(s))),
    ("parameters", Good, |s| Answer::new(200, "application/json; charset=utf-8", good(s))),
    ("case", Good, |s| Answer::new(200, "Application/JSON", good(s))),
    ("events in case", Good, |s| Answer::new(200, "Text/Event-Stream;x=y", format!("data: {}\r\r", good(s)))),
    ("no type", Good, |s| Answer::new(200, "", good(s))),
    ("a BOM", Good, |s| Answer::new(200, JSON, format!("\u{feff}{}", good(s)))),
    ("white space", Good, |s| Answer::new(200, JSON, format!("\r\n\t {}\n\n", good(s)))),
    ("an array", Good, |s| Answer::new(200, JSON, format!("[{}]", good(s)))),
    ("201", Good, |s| Answer::new(201, JSON, good(s))),
    ("UTF-16", Said("internal"), |s| Answer::new(200, "application/json; charset=utf-16", utf16(&good(s)))),
    ("Latin-1", Said("internal"), |s| {
        let body = s.result(r#"{"content":[{"type":"text","text":"@"}]}"#);
        Answer::new(200, JSON, body.bytes().map(|b| if b == b'@' { 0xe4 } else { b }).collect::<Vec<u8>>())
    }),
    ("gzip", Said("internal"), |_| {
        Answer::new(200, JSON, b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec()).with("Content-Encoding", "gzip")
    }),
    ("brotli", Said("internal"), |s| Answer::new(200, JSON, good(s)).with("Content-Encoding", "br")),
    ("cut short", Said("internal"), |s| Answer::new(200, JSON, &good(s)[..good(s).len() - 1])),
    ("something behind", Said("internal"), |s| Answer::new(200, JSON, format!("{}x", good(s)))),
    ("another's id", Said("unavailable"), |s| {
        Answer::new(200, JSON, good(s).replacen("\"id\":", "\"id\":9", 1))
    }),
    ("no version", Said("internal"), |s| Answer::new(200, JSON, good(s).replace("\"jsonrpc\":\"2.0\",", ""))),
    ("both", Said("internal"), |s| {
        Answer::new(
            200,
            JSON,
            good(s).replacen("\"result\"", "\"error\":{\"code\":1,\"message\":\"\"},\"result\"", 1),
        )
    }),
    ("two results", Said("internal"), |s| {
        Answer::new(200, JSON, good(s).replacen("\"result\"", "\"result\":{},\"result\"", 1))
    }),
    ("two isError", Said("internal"), |s| {
        Answer::result(s, r#"{"isError":false,"isError":true,"content":[],"resultType":"complete"}"#)
    }),
    ("a result that is none", Said("internal"), |s| Answer::result(s, "[]")),
    ("an unknown resultType", Said("internal"), |s| Answer::result(s, r#"{"resultType":"later"}"#)),
    ("junk in events", Said("internal"), |_| {
        Answer::new(200, "text/event-stream", "data: <!DOCTYPE html>\n\n")
    }),
];

/// Covers: F-073, H-61, H-66, H-68: each answer, to a call and to another request; then the server is used as before.
#[tokio::test(flavor = "multi_thread")]
async fn f_073_every_odd_answer_becomes_valid_mcp() {
    let mut offer = Offer::tools(&["t"]);
    offer.prompts = vec![r#"{"name":"t"}"#.to_owned()];
    let server = Server::modern("s", offer).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let mut wrong = Vec::new();
    for (what, verdict, answer) in ROWS {
        for (method, request) in [
            ("tools/call", call("s_t", "{}").id("\"own\"")),
            ("prompts/get", mcp("prompts/get", r#"{"name":"s_t"}"#).id("\"own\"")),
        ] {
            server.on(method, answer);
            let labels = |outcome| [("method", method), ("outcome", outcome)];
            let outcome = match verdict {
                Good => "ok",
                Code(_) => "rpc_error",
                Said(outcome) => outcome,
            };
            let before = gateway.metric("gatehouse_requests_total", &labels(outcome)).await;
            let reply = gateway.send(request).await;
            let counted = gateway.metric("gatehouse_requests_total", &labels(outcome)).await - before;
            if let Some(fault) = fault(&reply, *verdict, method) {
                wrong.push(format!("{what}, {method}: {fault}\n    {reply:?}"));
            } else if counted < 1.0 {
                wrong.push(format!("{what}, {method}: not counted as {outcome}"));
            }
            server.release(method);
        }
        let after = gateway.send(call("s_t", "{}")).await;
        if after.result()["isError"] == true {
            wrong.push(format!("{what}: the next call fails: {after:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(server.requests("initialize").is_empty(), "none of it says that the server is of the other era");
    for seen in server.requests("tools/call") {
        assert_eq!(seen.header("accept-encoding").as_deref(), Some("identity"));
    }
}

fn fault(reply: &Reply, verdict: Verdict, method: &str) -> Option<String> {
    if reply.status() != 200 {
        return Some(format!("status {}", reply.status()));
    }
    let text = reply.text();
    if ["DOCTYPE", "10.0.0.7", "127.0.0.1"].iter().any(|leak| text.contains(leak)) {
        return Some("it shows what it should not".to_owned());
    }
    let last = reply.last();
    if json::raw(&last, &["id"]).as_deref() != Some("\"own\"") {
        return Some("not the request's id".to_owned());
    }
    let fits = match verdict {
        Good => {
            json::raw(&last, &["result", "resultType"]).as_deref() == Some("\"complete\"")
                && !last.contains("isError")
        }
        Code(code) => {
            let data = json::raw(&last, &["error", "data"]);
            reply.code() == Some(code)
                && data.as_deref() == Some(r#"{"k":[1.0]}"#)
                && last.contains("says s_t")
        }
        // Of a call a result, or -32603; of the rest -32603.
        Said(_) => {
            let told = reply.code().is_none() && method == "tools/call" && reply.result()["isError"] == true;
            told || reply.code() == Some(-32603)
        }
    };
    (!fits).then(|| format!("not {verdict:?}"))
}

/// Covers: F-073, H-65: answers that break off on the way.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_break_off() {
    const BREAKS: &[fn(Exchange)] = &[
        |exchange| exchange.close(),
        |exchange| exchange.reset(),
        |exchange| {
            exchange.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"jsonrpc\"");
            exchange.close();
        },
        |exchange| {
            exchange.open_events();
            exchange.chunk(b"data: {\"jsonrpc\":");
            exchange.reset();
        },
        |exchange| {
            exchange.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
            exchange.close();
        },
        |exchange| {
            exchange.write("SSH-2.0-OpenSSH_9.9\r\n");
            exchange.close();
        },
    ];
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), "breaker = { failures = 0 }").start().await;
    let mut held = server.hold("tools/call");
    for (at, breaks) in BREAKS.iter().enumerate() {
        let go = async { breaks(held.next().await) };
        let (reply, ()) = tokio::join!(gateway.send(call("s_t", "{}")), go);
        assert_eq!(reply.verdict(), (200, Some(0)), "{at}: {reply:?}");
        let text = reply.result()["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(reply.result()["isError"] == true && text.contains("\"s\""), "{at}: {text}");
        assert!(text.contains("effects"), "{at}: it may have been carried out: {text}");
    }
    assert!(held.is_empty(), "none was made twice");
    server.release("tools/call");
    assert_ne!(gateway.send(call("s_t", "{}")).await.result()["isError"], true);
    let labels = [("server", "s"), ("outcome", "unavailable")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, BREAKS.len() as f64);
}

/// Covers: F-067: credentials of the gateway that are refused are no fault of the client's, and are told apart.
#[tokio::test(flavor = "multi_thread")]
async fn f_067_refused_credentials_of_ours() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let more = "[server.credentials]\nkind = \"bearer\"\ntoken = \"hunter2-of-the-gateway\"";
    let gateway = Setup::new().http("s", &server.url(), more).start().await;
    let request = || call("s_t", "{}").request().with("Authorization", "Bearer of-the-client");
    for (status, challenge) in [
        (401, "Bearer resource_metadata=\"http://10.0.0.7/m\""),
        (403, "Bearer error=\"insufficient_scope\""),
    ] {
        server.on("tools/call", move |seen| {
            Answer::new(status, JSON, seen.error(-32600, "bad token", None))
                .with("WWW-Authenticate", challenge)
        });
        let reply = gateway.send(request()).await;
        assert_eq!(reply.verdict(), (200, Some(0)), "{reply:?}");
        assert!(reply.header("www-authenticate").is_none());
        let text = reply.result()["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(
            reply.result()["isError"] == true && text.contains("\"s\"") && text.contains("credentials"),
            "{text}"
        );
        assert!(!reply.text().contains("10.0.0.7") && !reply.text().contains("hunter2"));
    }
    let labels = [("server", "s"), ("outcome", "unavailable")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 2.0);
    assert_eq!(gateway.metric("gatehouse_auth_rejections_total", &[]).await, 0.0);
    server.release("tools/call");
    let recovered = gateway.send(request()).await;
    assert_ne!(recovered.result()["isError"], true, "{recovered:?}");
    for seen in server.seen() {
        assert_eq!(
            seen.header("authorization").as_deref(),
            Some("Bearer hunter2-of-the-gateway"),
            "{}",
            seen.method()
        );
    }
    let log = gateway.stop().await;
    assert!(!log.text().contains("hunter2") && !log.text().contains("of-the-client"));
}

async fn holds(gateway: &Gateway, outcome: &str, times: f64) {
    let labels = [("server", "s"), ("outcome", outcome)];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, times, "{outcome}");
}

/// Covers: H-63, M-40: -32020 describes our hop: the list is fetched anew, the call made once more, and never relayed.
#[tokio::test(flavor = "multi_thread")]
async fn h_63_a_header_mismatch_is_ours_to_mend() {
    let with = |annotated: bool| {
        let header = if annotated { r#","x-mcp-header":"Region""# } else { "" };
        Offer::defined(&[&format!(
            r#"{{"name":"t","inputSchema":{{"type":"object","properties":{{"region":{{"type":"string"{header}}}}}}}}}"#
        )])
    };
    let server = Server::modern("s", with(false)).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    // The server wants a header by now, and told nobody.
    server.offer(with(true));
    server.on("tools/call", |seen| match seen.header("mcp-param-region").as_deref() {
        Some("eu") => Answer::result(seen, GOOD),
        _ => error(seen, 400, -32020),
    });
    let reply = gateway.send(call("s_t", r#"{"region":"eu"}"#)).await;
    assert_eq!(reply.result()["content"][0]["text"], "good", "{reply:?}");
    let ids: Vec<Option<String>> = server.requests("tools/call").iter().map(Seen::id).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "once more, under a new id: {ids:?}");
    assert_eq!(server.requests("tools/list").len(), 2);
    // Nothing helps.
    server.on("tools/call", |seen| error(seen, 400, -32020));
    let request = call("s_t", r#"{"region":"eu"}"#).request().with("Mcp-Param-Region", "eu");
    let reply = gateway.send(request).await;
    assert_eq!(reply.status(), 200, "{reply:?}");
    assert!(reply.code() == Some(-32603) || reply.result()["isError"] == true, "{reply:?}");
    assert_eq!(server.requests("tools/call").len(), 4);
    holds(&gateway, "internal", 1.0).await;
    assert!(server.requests("initialize").is_empty());
}

/// Covers: design §3 and §6: `max_result` holds for JSON and for each event; what fits exactly passes.
#[tokio::test(flavor = "multi_thread")]
async fn results_beyond_max_result_are_too_large() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), "max_result = \"64KiB\"").start().await;
    let sized = |seen: &Seen, size: usize| {
        let frame = seen.result(r#"{"content":[{"type":"text","text":""}]}"#);
        let fill = "x".repeat(size - frame.len());
        seen.result(&format!(r#"{{"content":[{{"type":"text","text":"{fill}"}}]}}"#))
    };
    const LIMIT: usize = 64 << 10;
    let count = Arc::new(AtomicUsize::new(0));
    for (size, as_events) in
        [(LIMIT, false), (LIMIT + 1, false), (LIMIT / 2, true), (LIMIT + 1, true), (20 << 20, false)]
    {
        let counted = Arc::clone(&count);
        server.on("tools/call", move |seen| {
            counted.fetch_add(1, Ordering::SeqCst);
            let message = sized(seen, size);
            if as_events { Answer::events(&[message]) } else { Answer::new(200, JSON, message) }
        });
        let reply = gateway.send(call("s_t", "{}")).await;
        assert_eq!(reply.verdict(), (200, Some(0)));
        let failed = reply.result()["isError"] == true;
        assert_eq!(failed, size > LIMIT, "{size} {as_events}");
        if failed {
            let text = reply.result()["content"][0]["text"].as_str().unwrap().to_owned();
            assert!(text.contains("\"s\"") && text.contains("65536"), "{text}");
        }
    }
    holds(&gateway, "too_large", 3.0).await;
    holds(&gateway, "ok", 2.0).await;
    assert_eq!(count.load(Ordering::SeqCst), 5, "none was made twice");
    assert_eq!(gateway.metric("gatehouse_server_up", &[("server", "s")]).await, 1.0);
    gateway.metric_becomes("gatehouse_buffered_bytes", &[], 0.0).await;
}

/// Covers: F-041, M-05, design §2: on every link a broken answer ends its call at once, junk beside it is passed over,
/// and an error without an id is the answer of the only call.
#[tokio::test(flavor = "multi_thread")]
async fn f_041_broken_answers_and_junk_mean_the_same_on_every_link() {
    let modern = Server::modern("m", Offer::tools(&["t"])).await;
    let legacy = Server::legacy("l", Offer::tools(&["t"])).await;
    let child = Child::python(
        r#"
def called(m, line):
    for text in m["params"]["arguments"]["say"]:
        send(text.replace("ID", json.dumps(m["id"])))
serve({"server/discover": DISCOVER, "tools/list": tools("t"), "tools/call": called})"#,
    );
    let gateway = Setup::new()
        .http("m", &modern.url(), "breaker = { failures = 0 }")
        .http("l", &legacy.url(), "breaker = { failures = 0 }")
        .stdio("c", &child.argv(), "breaker = { failures = 0 }")
        .start()
        .await;
    let script = |seen: &Seen| {
        let said = json::value(seen.text())["params"]["arguments"]["say"].clone();
        let id = seen.id().unwrap();
        let said: Vec<String> =
            said.as_array().unwrap().iter().map(|text| text.as_str().unwrap().replace("ID", &id)).collect();
        Answer::events(&said)
    };
    modern.on("tools/call", script);
    legacy.on("tools/call", script);
    let good = r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[],"resultType":"complete"}}"#;
    let junk = ["<html>", "[1]", "{}", r#"{"jsonrpc":"2.0","method":"a","method":"b"}"#];
    for server in ["m", "l", "c"] {
        let say = async |lines: &[&str]| {
            let arguments = serde_json::json!({"say": lines}).to_string();
            gateway.send(call(&format!("{server}_t"), &arguments)).await
        };
        for junk in junk {
            let reply = say(&[junk, good]).await;
            assert!(ok(&reply), "{server} {junk}: {reply:?}");
        }
        let broken = [
            r#"{"jsonrpc":"2.0","id":ID,"result":{},"result":{}}"#,
            r#"{"id":ID,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":ID}"#,
        ];
        for broken in broken {
            let reply = say(&[broken]).await;
            let said = reply.result()["content"][0]["text"].as_str().unwrap_or_default().to_owned();
            assert!(said.contains("not valid MCP"), "{server} {broken}: {reply:?}");
        }
        for id in ["\"id\":null,", ""] {
            let reply = say(&[&format!(
                "{{\"jsonrpc\":\"2.0\",{id}\"error\":{{\"code\":-32700,\"message\":\"?\"}}}}"
            )])
            .await;
            assert_eq!(reply.verdict(), (200, Some(-32603)), "{server}: {reply:?}");
        }
    }
    let labels = [("outcome", "internal")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 12.0);
    let labels = [("outcome", "rpc_error")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 6.0);
}
