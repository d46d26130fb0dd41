//! Before a message is looked at: hosts, origins, paths, methods, media types, bounds: H-02..H-07, F-050, F-074, F-090.

use crate::support::client::Connection;
use crate::support::gateway::{Gateway, Setup};
use crate::support::http2::Session;
use crate::support::request::{Request, call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{HEADER, PARAMS, PARSE, RESULT, Row, bare, judge, row};

async fn with(gateway: &str) -> (Server, Gateway) {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().gateway(gateway).http("s", &server.url(), "").start().await;
    (server, gateway)
}

fn good() -> Request {
    call("s_t", "{}").request()
}

fn host(value: &str, served: bool) -> Row {
    let request = good().set("Host", value);
    if served {
        row(format!("host {value}"), request, 200, RESULT)
    } else {
        bare(format!("host {value}"), request, 403)
    }
}

fn origin(value: &str, served: bool) -> Row {
    let request = good().set("Origin", value);
    let what = format!("origin {value}");
    if served { row(what, request, 200, RESULT) } else { bare(what, request, 403) }
}

/// Covers: H-03, H-04, F-050, A-63; conformance: dns-rebinding-protection.
#[tokio::test(flavor = "multi_thread")]
async fn f_050_hosts_and_origins_on_loopback_behind_a_proxy() {
    let (server, gateway) = with("public_url = \"https://mcp.example.test\"").await;
    let port = gateway.listen.port();
    let mut rows = vec![
        host("mcp.example.test", true),
        host("mcp.example.test:443", true),
        host("MCP.EXAMPLE.TEST", true),
        host(&format!("127.0.0.1:{port}"), true),
        host("localhost:1", true),
        host("localhost", true),
        host("[::1]:9", true),
        host("10.0.0.5:8080", false),
        host("evil.test", false),
        host("mcp.example.test.evil.test", false),
        host("localhost.evil.test", false),
        host("evil.test:443", false),
        host("", false),
        host("localhost:notaport", false),
        host("user@localhost", false),
        bare("two hosts", good().with("Host", "localhost").with("Host", "localhost"), 403),
        bare(
            "an absolute target of another host",
            good().at("http://evil.test/mcp").set("Host", "localhost"),
            403,
        ),
        origin("https://mcp.example.test", true),
        origin("https://mcp.example.test:443", true),
        origin("HTTPS://MCP.EXAMPLE.TEST", true),
        origin("http://localhost:5173", true),
        origin(&format!("http://127.0.0.1:{port}"), true),
        origin("http://mcp.example.test", false),
        origin("https://mcp.example.test:444", false),
        origin("https://mcp.example.test.evil.test", false),
        origin("http://localhost.evil.test", false),
        origin("http://evil.test", false),
        origin("null", false),
        origin("", false),
        origin("mcp.example.test", false),
        bare(
            "two origins",
            good().with("Origin", "http://localhost").with("Origin", "http://localhost"),
            403,
        ),
        bare("host and origin alike", good().set("Host", "evil.test").set("Origin", "http://evil.test"), 403),
    ];
    // Whatever the method, the path, the body: the guard comes first.
    for method in ["GET", "DELETE", "OPTIONS", "PUT"] {
        rows.push(bare(
            format!("{method} of another origin"),
            Request::new(method, "/mcp").with("Origin", "http://evil.test"),
            403,
        ));
    }
    rows.push(bare(
        "nowhere, of another origin",
        Request::new("POST", "/none").with("Origin", "http://evil.test"),
        403,
    ));
    rows.push(bare(
        "no JSON, of another origin",
        good().set("Content-Type", "x/y").with("Origin", "http://evil.test"),
        403,
    ));
    let passed = rows.iter().filter(|row| row.passes()).count();
    judge(&gateway, rows).await;
    assert_eq!(server.requests("tools/call").len(), passed);
    gateway.log.wait("the key that lets a host in", |line| line.contains("gateway.allowed_hosts")).await;
    gateway.log.wait("the key that lets an origin in", |line| line.contains("gateway.allowed_origins")).await;
    gateway.stop().await;
}

/// Covers: H-04, F-050: HTTP/1.0 without a host, health checks by whatever name.
#[tokio::test(flavor = "multi_thread")]
async fn f_050_a_request_without_a_host() {
    let (_server, gateway) = with("").await;
    for version in ["1.0", "1.1"] {
        let mut connection = gateway.connect().await;
        let head = format!(
            "POST /mcp HTTP/{version}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"
        );
        connection.write(head.as_bytes()).await;
        let status = connection.reply("POST").await.status();
        assert!((400..500).contains(&status), "HTTP/{version}: {status}");
    }
    let mut admin = Connection::open(gateway.admin).await;
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(admin.send(Request::new("GET", path)).await.status(), 200, "{path}");
        assert_eq!(
            admin.send(Request::new("GET", path).with("Host", "evil.test")).await.status(),
            403,
            "{path}"
        );
    }
    gateway.stop().await;
}

/// Covers: H-04, F-050, H-30: over HTTP/2 the authority is the host, and names are in lower case anyway.
#[tokio::test(flavor = "multi_thread")]
async fn f_050_the_authority_of_http_2() {
    let (_server, gateway) = with("public_url = \"https://mcp.example.test\"").await;
    let session = Session::open(gateway.listen).await;
    for (authority, verdict) in [
        ("mcp.example.test", (200, Some(RESULT))),
        ("localhost:1", (200, Some(RESULT))),
        ("evil.test", (403, None)),
        ("mcp.example.test.evil.test", (403, None)),
    ] {
        assert_eq!(session.send_to(authority, good()).await.verdict(), verdict, "{authority}");
        let both = good().with("host", "localhost");
        assert_eq!(session.send_to(authority, both).await.verdict(), verdict, "{authority} with a good host");
    }
    assert_eq!(session.send_to("localhost", good().with("origin", "http://evil.test")).await.status(), 403);
    gateway.stop().await;
}

/// Covers: H-04, F-050: on a public address only the public name, not localhost; operators come by address.
#[tokio::test(flavor = "multi_thread")]
async fn f_050_hosts_on_a_public_address() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new()
        .listen("0.0.0.0:0")
        .gateway("public_url = \"https://mcp.example.test\"\nallow_unauthenticated = true")
        .http("s", &server.url(), "")
        .start()
        .await;
    let rows = vec![
        host("mcp.example.test", true),
        host("mcp.example.test:443", true),
        host("localhost", false),
        host("127.0.0.1", false),
        host("10.0.0.5:8080", false),
        origin("https://mcp.example.test", false),
        row(
            "both",
            good().set("Host", "mcp.example.test").set("Origin", "https://mcp.example.test"),
            200,
            RESULT,
        ),
        bare("local origin", good().set("Host", "mcp.example.test").set("Origin", "http://localhost:1"), 403),
    ];
    judge(&gateway, rows).await;
    let mut admin = Connection::open(gateway.admin).await;
    let check = Request::new("GET", "/livez").with("Host", "10.0.0.5:8080");
    assert_eq!(admin.send(check).await.status(), 200);
    gateway.stop().await;
}

/// Covers: H-04, F-050: the operator's own lists replace the defaults.
#[tokio::test(flavor = "multi_thread")]
async fn f_050_allowed_hosts_and_origins_are_keys() {
    let lists = "allowed_hosts = [\"a.test\", \"b.test:8443\"]\nallowed_origins = [\"https://app.test\"]";
    let (_server, gateway) = with(lists).await;
    let at = |origin: &str| good().set("Host", "a.test").set("Origin", origin);
    let rows = vec![
        host("a.test", true),
        host("a.test:1", true),
        host("b.test:8443", true),
        host("b.test", false),
        host("localhost", false),
        row("its origin", at("https://app.test"), 200, RESULT),
        bare("no local origin", at("http://localhost:1"), 403),
    ];
    judge(&gateway, rows).await;
    // Operators on the machine itself still come in, strangers do not.
    for (host, status) in [("localhost:9090", 200), ("127.0.0.1", 200), ("a.test", 200), ("evil.test", 403)] {
        let mut admin = Connection::open(gateway.admin).await;
        assert_eq!(
            admin.send(Request::new("GET", "/livez").with("Host", host)).await.status(),
            status,
            "{host}"
        );
    }
    let (_server, any) = with("allowed_hosts = [\"*\"]").await;
    judge(&any, vec![host("anything.test:1", true), origin("http://anything.test", false)]).await;
    gateway.stop().await;
    any.stop().await;
}

/// Covers: H-02, F-090: what is not served says so in `Allow`; streams and ends are of sessions only; a trailing slash is the same place; never a redirect.
#[tokio::test(flavor = "multi_thread")]
async fn f_090_other_methods_and_other_paths() {
    let (_server, gateway) = with("").await;
    for path in ["/mcp", "/mcp/", "/mcp?x=1"] {
        for method in ["GET", "DELETE"] {
            let request = Request::new(method, path).with("Accept", "text/event-stream");
            assert_eq!(gateway.send(request.clone()).await.status(), 400, "no session: {method} {path}");
            let reply = gateway.send(request.with("Mcp-Session-Id", "x")).await;
            assert_eq!(reply.status(), 404, "{method} {path}");
        }
        for method in ["PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "PROPFIND"] {
            let request =
                Request::new(method, path).with("Accept", "text/event-stream").with("Mcp-Session-Id", "x");
            let reply = gateway.send(request).await;
            assert_eq!((reply.status(), reply.body.len()), (405, 0), "{method} {path}");
            assert_eq!(reply.header("allow").as_deref(), Some("POST, GET, DELETE"), "{method} {path}");
        }
    }
    let mut rows = Vec::new();
    for path in ["/mcp", "/mcp/", "/mcp?a=b&c", "/mcp/?a"] {
        rows.push(row(path, good().at(path), 200, RESULT));
    }
    for path in [
        "/",
        "/mcp//",
        "//mcp",
        "/MCP",
        "/mcp/x",
        "/mc",
        "/mcpx",
        "/mcp%2f",
        "/%6dcp",
        "/./mcp",
        "/x/../mcp",
        "*",
    ] {
        rows.push(bare(path, good().at(path), 404));
        rows.push(bare(format!("GET {path}"), Request::new("GET", path), 404));
    }
    judge(&gateway, rows).await;
    gateway.stop().await;
}

/// Covers: H-06, H-07, F-074.
#[tokio::test(flavor = "multi_thread")]
async fn f_074_media_types() {
    let (_server, gateway) = with("").await;
    let accept = |value: &str| mcp("tools/list", "{}").request().set("Accept", value);
    for (value, events) in [
        ("application/json, text/event-stream", false),
        ("text/event-stream, application/json", false),
        ("text/event-stream;q=0.1,application/json;q=0.9", false),
        ("application/json", false),
        ("application/json; charset=utf-8", false),
        ("APPLICATION/JSON", false),
        ("application/*", false),
        ("*/*", false),
        ("text/event-stream", true),
        ("text/*", true),
        ("application/json;q=0, text/event-stream", true),
    ] {
        let reply = gateway.send(accept(value)).await;
        assert_eq!((reply.verdict(), reply.is_events()), ((200, Some(RESULT)), events), "{value}");
    }
    let mut rows = vec![
        row("no Accept", good().without("Accept"), 200, RESULT),
        row(
            "two Accept lines",
            good().set("Accept", "application/json").with("Accept", "text/event-stream"),
            200,
            RESULT,
        ),
        row("charset", good().set("Content-Type", "application/json;charset=UTF-8"), 200, RESULT),
        row("upper case", good().set("Content-Type", "Application/JSON"), 200, RESULT),
        bare("no Content-Type", good().without("Content-Type"), 415),
        bare("two of them", good().with("Content-Type", "application/json"), 415),
        // Refusals of H-14 are JSON whatever was accepted.
        row(
            "a refusal to one who takes events only",
            good().set("Accept", "text/event-stream").without("Mcp-Name"),
            400,
            HEADER,
        ),
        row(
            "no JSON to one who takes events only",
            Request { body: b"{".to_vec(), ..good().set("Accept", "text/event-stream") },
            400,
            PARSE,
        )
        .nameless(),
    ];
    for other in [
        "text/plain",
        "application/jsonp",
        "application/json-rpc",
        "text/json",
        "multipart/form-data",
        "",
        "application/x-www-form-urlencoded",
    ] {
        rows.push(bare(format!("Content-Type {other}"), good().set("Content-Type", other), 415));
    }
    for neither in ["text/html", "image/*", "application/json;q=0", "application/xml, text/plain"] {
        rows.push(bare(format!("Accept {neither}"), good().set("Accept", neither), 406));
    }
    judge(&gateway, rows).await;
    let unknown = call("s_x", "{}").request().set("Accept", "text/event-stream");
    assert_eq!(gateway.send(unknown).await.verdict(), (200, Some(PARAMS)));
    gateway.stop().await;
}
