//! Bounds of `[gateway]` on what clients send: refused early, with an empty body where none was read, and counted: H-06,
//! F-086, design §2.

use crate::support::client::Connection;
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::Session;
use crate::support::request::{Request, call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{INVALID, PARAMS, PARSE, RESULT, bare, judge, row};

async fn with(gateway: &str) -> (Server, Gateway) {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().gateway(gateway).http("s", &server.url(), "").start().await;
    (server, gateway)
}

/// A call whose body has exactly so many bytes.
fn sized(bytes: usize) -> Request {
    let empty = call("s_t", "{\"x\":\"\"}").text().len();
    let request = call("s_t", format!("{{\"x\":\"{}\"}}", "y".repeat(bytes - empty))).request();
    assert_eq!(request.body.len(), bytes);
    request
}

fn limited(limit: &str) -> [(&str, &str); 1] {
    [("limit", limit)]
}

/// Covers: H-06: by the declared length before a byte of the body is read, and by what comes where none is declared.
#[tokio::test(flavor = "multi_thread")]
async fn h_06_bodies_beyond_max_body() {
    let (server, gateway) = with("max_body = \"8KiB\"").await;
    judge(
        &gateway,
        vec![row("just fits", sized(8192), 200, RESULT), bare("one byte more", sized(8193), 413)],
    )
    .await;
    // Nothing of the body is sent: the refusal comes all the same, also where the client waits for a 100.
    for field in [("x", "y"), ("Expect", "100-continue")] {
        let mut connection = gateway.connect().await;
        let head = Request::post("").with("Content-Length", "8193").with(field.0, field.1);
        let reply = connection.send(head).await;
        assert_eq!((reply.status(), reply.body.len()), (413, 0));
    }
    let mut connection = gateway.connect().await;
    let chunked = Request::post("").with("Transfer-Encoding", "chunked");
    connection.write(&chunked.bytes("localhost")).await;
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096));
    connection.write(chunk.repeat(3).as_bytes()).await;
    let reply = connection.reply("POST").await;
    assert_eq!((reply.status(), reply.body.len()), (413, 0));
    for length in ["-1", "x", "18446744073709551616"] {
        let reply = gateway.send(Request::post("").with("Content-Length", length)).await;
        assert!((400..500).contains(&reply.status()), "{length}: {}", reply.status());
    }
    assert_eq!(gateway.metric("gatehouse_limited_total", &limited("max_body")).await, 4.0);
    assert_eq!(server.requests("tools/call").len(), 1);
    gateway.stop().await;
}

/// A chunked body is a body like any other. Covers: H-06, H-13.
#[tokio::test(flavor = "multi_thread")]
async fn chunked_bodies_are_read_whole() {
    let (server, gateway) = with("").await;
    let whole = call("s_t", r#"{"x":"日本語"}"#).id("\"c\"").request();
    let mut connection = gateway.connect().await;
    for size in [1, 7, 4096] {
        let mut request = whole.clone().with("Transfer-Encoding", "chunked");
        let mut body = Vec::new();
        for piece in whole.body.chunks(size) {
            body.extend(format!("{:x};ext=1\r\n", piece.len()).into_bytes());
            body.extend(piece);
            body.extend(b"\r\n");
        }
        body.extend(b"0\r\nTrailer: x\r\n\r\n");
        request.body = body;
        let reply = connection.send(request).await;
        assert_eq!(reply.verdict(), (200, Some(RESULT)), "{size}");
        assert_eq!(reply.message()["id"], "c");
        assert_eq!(server.last_call().raw(&["params", "arguments"]).as_deref(), Some(r#"{"x":"日本語"}"#));
    }
    gateway.stop().await;
}

/// Covers: H-06: a long resource URI doubles in `Mcp-Name`; beyond `max_header` it is 431.
#[tokio::test(flavor = "multi_thread")]
async fn h_06_headers_beyond_max_header() {
    let (_server, gateway) = with("max_header = \"16KiB\"").await;
    let uri = |length: usize| mcp("resources/read", format!("{{\"uri\":\"s://{}\"}}", "x".repeat(length)));
    judge(&gateway, vec![row("a long URI", uri(12_000), 200, PARAMS), bare("too long", uri(20_000), 431)])
        .await;
    let many = (0..400).fold(call("s_t", "{}").request(), |r, n| r.with(&format!("X-{n}"), "y".repeat(100)));
    let reply = gateway.send(many).await;
    assert_eq!((reply.status(), reply.body.len()), (431, 0));
    gateway.stop().await;
}

/// Covers: H-06, F-052: who does not send what was announced is told, and lets go.
#[tokio::test(flavor = "multi_thread")]
async fn slow_senders_are_given_up() {
    let (_server, gateway) = with("body_timeout = \"200ms\"\nheader_timeout = \"200ms\"").await;
    let mut connection = gateway.connect().await;
    connection.write(&Request::post("{").with("Content-Length", "10").bytes("localhost")).await;
    let reply = connection.reply("POST").await;
    assert_eq!((reply.status(), reply.body.len()), (408, 0));
    connection.closed().await;
    let mut connection = gateway.connect().await;
    connection.write(b"POST /mcp HTTP/1.1\r\nHost: loc").await;
    connection.closed().await;
    let mut silent = gateway.connect().await;
    silent.closed().await;
    gateway.metric_becomes("gatehouse_limited_total", &limited("body_timeout"), 1.0).await;
    gateway.metric_becomes("gatehouse_connections", &[], 0.0).await;
    gateway.stop().await;
}

/// Covers: design §2 (`max_depth` is -32700 without an id, `max_input_elements` -32602 with it).
#[tokio::test(flavor = "multi_thread")]
async fn nesting_and_elements_are_bounded() {
    let (_server, gateway) = with("max_depth = 10\nmax_input_elements = 50").await;
    // Three levels around the arguments' value: message, params, arguments.
    let deep = |levels: usize| {
        call("s_t", format!("{{\"x\":{}{}}}", "[".repeat(levels - 3), "]".repeat(levels - 3)))
    };
    let wide = |n: usize| call("s_t", format!("{{\"x\":[{}]}}", vec!["0"; n].join(","))).id("\"w\"");
    let rows = vec![
        row("ten levels", deep(10), 200, RESULT),
        row("eleven levels", deep(11), 400, PARSE).nameless(),
        row("some elements", wide(20), 200, RESULT),
        row("many elements", wide(60), 200, PARAMS),
        row(
            "brackets in a string are no levels",
            call("s_t", format!("{{\"x\":\"{}\\\"[[[\"}}", "[{".repeat(50))),
            200,
            RESULT,
        ),
        row("deep and broken", Request { body: vec![b'['; 5000], ..deep(5).request() }, 400, PARSE)
            .nameless(),
        row(
            "ten levels of batch",
            Request { body: b"[[[[[[[[[[]]]]]]]]]]".to_vec(), ..deep(5).request() },
            400,
            INVALID,
        )
        .nameless(),
    ];
    judge(&gateway, rows).await;
    assert_eq!(gateway.metric("gatehouse_limited_total", &limited("max_depth")).await, 2.0);
    assert_eq!(gateway.metric("gatehouse_limited_total", &limited("max_input_elements")).await, 1.0);
    gateway.stop().await;
}

/// Streams that legacy clients open by GET have their places among those of their caller, and give them back.
#[tokio::test(flavor = "multi_thread")]
async fn streams_of_sessions_count_among_those_of_their_caller() {
    let (_server, gateway) = with("max_streams = 2").await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let session = Session::open(&gateway, "2025-11-25", "{}").await;
        open.push(session.stream(&gateway, session.get()).await);
    }
    assert_eq!(gateway.metric("gatehouse_listen_streams", &[]).await, 2.0);
    let third = Session::open(&gateway, "2025-06-18", "{}").await;
    let reply = gateway.send(third.get()).await;
    assert_eq!((reply.status(), reply.body.len()), (429, 0));
    assert!(reply.header("retry-after").is_some());
    // One place for both eras.
    let modern =
        gateway.send(mcp("subscriptions/listen", r#"{"notifications":{"toolsListChanged":true}}"#)).await;
    assert_eq!(modern.code(), Some(-32603), "{modern:?}");
    assert_eq!(gateway.metric("gatehouse_limited_total", &limited("max_streams")).await, 2.0);
    // Calls go on, and a place is free once a client has left.
    assert!(!third.tools(&gateway).await.is_empty());
    open.pop();
    gateway.metric_becomes("gatehouse_listen_streams", &[], 1.0).await;
    let _stream = third.stream(&gateway, third.get()).await;
    gateway.stop().await;
}

/// Covers: F-086: connections beyond the cap get a clean refusal, those within it serve on.
#[tokio::test(flavor = "multi_thread")]
async fn f_086_connections_beyond_the_cap() {
    let (_server, gateway) = with("max_connections = 3").await;
    // Those of the start are gone before we begin to count.
    gateway.metric_becomes("gatehouse_connections", &[], 0.0).await;
    let mut kept = Vec::new();
    for _ in 0..3 {
        let mut connection = gateway.connect().await;
        assert_eq!(connection.send(call("s_t", "{}")).await.status(), 200);
        kept.push(connection);
    }
    let mut one_more = Connection::open(gateway.listen).await;
    let reply = one_more.reply("POST").await;
    assert_eq!((reply.status(), reply.body.len()), (503, 0));
    assert!(reply.header("retry-after").is_some());
    one_more.closed().await;
    for connection in &mut kept {
        assert_eq!(connection.send(call("s_t", "{}")).await.status(), 200);
    }
    drop(kept);
    gateway.metric_becomes("gatehouse_connections", &[], 0.0).await;
    assert_eq!(gateway.send(call("s_t", "{}")).await.status(), 200);
    gateway.stop().await;
}

/// A refusal that came before its body must not cost a client that keeps connections its next request: what was
/// left unread is read away, and where that cannot be, the answer says that the connection ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_refused_before_its_body_stays_usable_or_says_that_it_ends() {
    let (_server, gateway) = with("").await;
    let refused = Request::new("POST", "/mcp").with("Content-Type", "text/plain");
    for kept in [true, false] {
        let mut connection = gateway.connect().await;
        connection.write(&refused.clone().with("Content-Length", "2").bytes("localhost")).await;
        if kept {
            connection.write(b"{}").await;
        }
        let reply = connection.reply("POST").await;
        assert_eq!(reply.status(), 415);
        let ends = reply.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        assert_eq!(ends, !kept, "the body {}", if kept { "came" } else { "never came" });
        if kept {
            let reply = connection.send(call("s_t", "{}")).await;
            assert_eq!(reply.verdict(), (200, Some(RESULT)));
        } else {
            connection.closed().await;
        }
    }
    gateway.stop().await;
}
