//! Who may come in, through the process: challenges, metadata, CORS, and that nothing else is told: A-01..A-17, A-60..A-66,
//! F-020, F-021, F-022, F-092.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::support::client::Reply;
use crate::support::eventually;
use crate::support::feed::{Stream, listen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::id_server::{IdServer, Signer};
use crate::support::inside::{Inside, later};
use crate::support::json as text;
use crate::support::people::{KEY_DIGEST, PUBLIC, People, now, with};
use crate::support::request::{Request, call, mcp};
use crate::support::server::{Offer, Server};

const PRM: &str = "https://mcp.example.test/.well-known/oauth-protected-resource";

/// A gateway with two endpoints, an authorization server, and a server behind.
struct Bench {
    id: IdServer,
    key: Signer,
    server: Server,
    gateway: Gateway,
}

const ENDPOINTS: &str = "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/team/mcp\"";

async fn bench(endpoints: &str) -> Bench {
    let id = IdServer::start().await;
    let key = Signer::p256("k1");
    id.publish(&[&key]);
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let auth = format!(
        "[auth]\nrequired_scopes = [\"mcp:use\"]\nscope_implies = {{ \"mcp:admin\" = [\"mcp:use\"] }}\n\
         [[auth.issuer]]\nissuer = \"{}\"\n\
         [[auth.key]]\nname = \"ci\"\nsha256 = \"{}\"\nclaims = {{ scope = \"mcp:use\" }}",
        id.url, KEY_DIGEST
    );
    let gateway = Setup::new()
        .gateway(&format!("public_url = \"{PUBLIC}\"\ntitle = \"Tools\""))
        .toml(endpoints)
        .toml(&auth)
        .http("s", &server.url(), "")
        .start()
        .await;
    Bench { id, key, server, gateway }
}

impl Bench {
    /// Claims that are good at `/mcp`, changed.
    fn claims(&self, change: Value) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({
            "iss": self.id.url, "sub": "alice", "aud": format!("{PUBLIC}/mcp"), "client_id": "app",
            "scope": "mcp:use", "iat": now, "exp": now + 600,
        });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }

    fn token(&self, change: Value) -> String {
        self.key.token(&self.claims(change))
    }

    async fn send(&self, request: impl Into<Request>, token: &str) -> Reply {
        self.gateway.send(request.into().with("Authorization", format!("Bearer {token}"))).await
    }
}

/// Refused with an empty body and exactly this challenge.
#[track_caller]
fn refused(what: &str, reply: &Reply, status: u16, challenge: &str) {
    assert_eq!(reply.status(), status, "{what}: {reply:?}");
    assert_eq!(reply.head.all("www-authenticate"), [challenge], "{what}");
    assert!(reply.body.is_empty(), "{what}: {reply:?}");
}

fn plain(path: &str) -> String {
    format!("Bearer resource_metadata=\"{PRM}{path}\", scope=\"mcp:use\"")
}

fn invalid(path: &str) -> String {
    format!("Bearer error=\"invalid_token\", resource_metadata=\"{PRM}{path}\", scope=\"mcp:use\"")
}

fn call_t() -> Request {
    call("s_t", "{}").request()
}

/// Every way to knock: methods of HTTP and MCP, well-formed and not.
fn knocks() -> Vec<(&'static str, Request)> {
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    vec![
        ("call", call_t()),
        ("list", mcp("tools/list", "{}").request()),
        ("discover", mcp("server/discover", "{}").request()),
        ("listen", mcp("subscriptions/listen", r#"{"notifications":{"toolsListChanged":true}}"#).request()),
        ("unknown method", mcp("no/such", "{}").request()),
        ("initialize", Request::post(initialize)),
        ("notification", Request::post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)),
        ("no JSON", Request::post("{")),
        ("no media type", Request::new("POST", "/mcp")),
        ("slash at the end", call_t().at("/mcp/")),
        ("query", call_t().at("/mcp?x=1")),
        ("GET", Request::new("GET", "/mcp").with("Accept", "text/event-stream")),
        ("HEAD", Request::new("HEAD", "/mcp")),
        ("DELETE", Request::new("DELETE", "/mcp").with("Mcp-Session-Id", "x")),
        ("PUT", Request::new("PUT", "/mcp")),
        ("OPTIONS", Request::new("OPTIONS", "/mcp")),
        ("odd", Request::new("BREW", "/mcp")),
    ]
}

/// Covers: A-10, A-14, A-17, A-25, A-66, F-092: every method is guarded, and nobody behind hears of it.
#[tokio::test(flavor = "multi_thread")]
async fn f_092_every_way_in_is_guarded() {
    let bench = bench(ENDPOINTS).await;
    let before = bench.server.seen().len();
    let expired = bench.token(json!({ "exp": 1_700_000_000 }));
    let poor = bench.token(json!({ "scope": "other" }));
    let scope =
        format!("Bearer error=\"insufficient_scope\", scope=\"mcp:use\", resource_metadata=\"{PRM}/mcp\"");
    for (what, knock) in knocks() {
        refused(what, &bench.gateway.send(knock.clone()).await, 401, &plain("/mcp"));
        refused(what, &bench.send(knock.clone(), &expired).await, 401, &invalid("/mcp"));
        refused(what, &bench.send(knock.clone(), "junk").await, 401, &invalid("/mcp"));
        refused(what, &bench.send(knock.clone(), &poor).await, 403, &scope);
    }
    refused("the sibling", &bench.gateway.send(call_t().at("/team/mcp")).await, 401, &plain("/team/mcp"));
    assert_eq!(bench.server.seen().len(), before, "nobody behind hears of them");
    // What is no endpoint is no secret and no door.
    for path in ["/", "/other", "/mcp/x", "/.well-known", "/team"] {
        let reply = bench.gateway.send(call_t().at(path)).await;
        assert_eq!((reply.status(), reply.head.all("www-authenticate").len()), (404, 0), "{path}");
    }
    let rejections = async |reason: &str| {
        bench.gateway.metric("gatehouse_auth_rejections_total", &[("reason", reason)]).await
    };
    let knocks = knocks().len() as f64;
    let counts = (rejections("missing").await, rejections("expired").await, rejections("unknown").await);
    assert_eq!(counts, (knocks + 1.0, knocks, knocks));
    assert_eq!(rejections("scope").await, knocks);
    let log = bench.gateway.stop().await.text();
    assert!(!log.contains(&expired) && !log.contains("eyJ"), "{log}");
}

/// Covers: A-07, A-20, A-21, A-28, A-30, F-092: what is taken, where, and that it stays here.
#[tokio::test(flavor = "multi_thread")]
async fn a_21_tokens_and_keys_that_are_taken() {
    let bench = bench(ENDPOINTS).await;
    let good = bench.token(json!({}));
    let reply = bench.send(call_t(), &good).await;
    assert_eq!(reply.verdict(), (200, Some(0)), "{reply:?}");
    let lower = call_t().with("Authorization", format!("bearer {good}"));
    assert_eq!(bench.gateway.send(lower).await.status(), 200);
    assert_eq!(bench.send(call_t(), &bench.token(json!({ "scope": ["mcp:admin"] }))).await.status(), 200);
    assert_eq!(bench.send(call_t(), "a-long-and-random-key").await.status(), 200);
    refused("a wrong key", &bench.send(call_t(), "a-long-and-random-kez").await, 401, &invalid("/mcp"));
    // One resource an endpoint.
    refused("sibling", &bench.send(call_t().at("/team/mcp"), &good).await, 401, &invalid("/team/mcp"));
    let team = bench.token(json!({ "aud": format!("{PUBLIC}/team/mcp") }));
    assert_eq!(bench.send(call_t().at("/team/mcp"), &team).await.status(), 200);
    refused("sibling", &bench.send(call_t(), &team).await, 401, &invalid("/mcp"));
    // Two credentials, or one in the wrong place.
    let twice = call_t().with("Authorization", format!("Bearer {good}"));
    let request =
        format!("Bearer error=\"invalid_request\", resource_metadata=\"{PRM}/mcp\", scope=\"mcp:use\"");
    refused("twice", &bench.send(twice, &good).await, 400, &request);
    let query = call_t().at(&format!("/mcp?access_token={good}"));
    refused("query", &bench.gateway.send(query.clone()).await, 401, &plain("/mcp"));
    refused("both", &bench.send(query, &good).await, 400, &request);
    refused("16 KiB", &bench.send(call_t(), &"a".repeat(16 * 1024)).await, 401, &invalid("/mcp"));
    // An unauthenticated connection that becomes an authenticated one and the reverse: each request on its own.
    let mut connection = bench.gateway.connect().await;
    for _ in 0..3 {
        refused("alone", &connection.send(call_t()).await, 401, &plain("/mcp"));
        let reply = connection.send(call_t().with("Authorization", format!("Bearer {good}"))).await;
        assert_eq!(reply.status(), 200);
    }
    // Nothing of it went on.
    for seen in bench.server.seen() {
        let shown = format!("{seen:?}").to_ascii_lowercase();
        assert!(!shown.contains("authorization") && !shown.contains(&good.to_ascii_lowercase()), "{shown}");
    }
    assert_eq!(bench.id.fetches(), 1);
    let calls = async |client: &str| {
        bench.gateway.metric("gatehouse_client_calls_total", &[("client", client), ("outcome", "ok")]).await
    };
    let counted =
        async || [calls("app").await, calls("ci").await, calls("anonymous").await] == [7.0, 1.0, 0.0];
    eventually("every call is counted for its client", counted).await;
}

/// Covers: A-23: a new key is taken at once, also while others are asked for that do not exist.
#[tokio::test(flavor = "multi_thread")]
async fn a_23_rotation_through_the_process() {
    let bench = bench(ENDPOINTS).await;
    assert_eq!(bench.send(call_t(), &bench.token(json!({}))).await.status(), 200);
    for round in 0..3 {
        let next = Signer::ed(["a", "b", "c"][round]);
        bench.id.publish(&[&bench.key, &next]);
        for n in 0..20 {
            let token = next.token(&bench.claims(json!({ "jti": n })));
            assert_eq!(bench.send(call_t(), &token).await.status(), 200, "round {round}");
            let old = bench.token(json!({ "jti": n }));
            assert_eq!(bench.send(call_t(), &old).await.status(), 200, "round {round}");
        }
    }
    assert_eq!(bench.id.fetches(), 4);
    for n in 0..50 {
        let junk = bench.key.token_with(&json!({ "kid": format!("junk {n}") }), &bench.claims(json!({})));
        refused("junk", &bench.send(call_t(), &junk).await, 401, &invalid("/mcp"));
    }
    assert_eq!(bench.id.fetches(), 5);
    bench.id.state.broken.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(bench.send(call_t(), &bench.token(json!({ "jti": "last" }))).await.status(), 200);
}

/// Covers: A-01..A-06 (A-02: in the challenge and at its place), F-020, F-021: documents and challenges out of the configuration alone.
#[tokio::test(flavor = "multi_thread")]
async fn f_020_metadata_know_the_public_address_only() {
    let bench = bench(ENDPOINTS).await;
    for path in ["/mcp", "/team/mcp"] {
        let spoofed = |request: Request| {
            request
                .with("X-Forwarded-Host", "evil.test")
                .with("X-Forwarded-Proto", "http")
                .with("Forwarded", "host=evil.test;proto=http")
        };
        let challenge = bench.gateway.send(spoofed(call_t().at(path))).await;
        refused(path, &challenge, 401, &plain(path));
        let place = format!("/.well-known/oauth-protected-resource{path}");
        let reply = bench.gateway.send(spoofed(Request::new("GET", &place))).await;
        assert_eq!(reply.status(), 200, "{reply:?}");
        assert_eq!(reply.header("content-type").as_deref(), Some("application/json"));
        assert!(reply.header("cache-control").unwrap().starts_with("public, max-age="));
        assert!(
            !reply.text().contains("evil") && !reply.text().contains("127.0.0.1:8080"),
            "{}",
            reply.text()
        );
        let document = text::value(reply.text());
        let expected = json!({
            "resource": format!("{PUBLIC}{path}"), "authorization_servers": [bench.id.url],
            "scopes_supported": ["mcp:use"], "bearer_methods_supported": ["header"], "resource_name": "Tools",
        });
        assert_eq!(document, expected);
    }
}

/// Covers: A-01, A-03, F-022: where clients look, by which methods, and who may read.
#[tokio::test(flavor = "multi_thread")]
async fn f_022_places_of_metadata() {
    let several = bench(ENDPOINTS).await;
    let one = bench("").await;
    let root = "/.well-known/oauth-protected-resource";
    let get = async |bench: &Bench, path: &str| bench.gateway.send(Request::new("GET", path)).await;
    assert_eq!(get(&several, root).await.status(), 404, "the root cannot speak for two");
    let (at_root, at_path) = (get(&one, root).await, get(&one, &format!("{root}/mcp")).await);
    assert_eq!((at_root.status(), at_path.status()), (200, 200));
    assert_eq!(at_root.body, at_path.body);
    let place = format!("{root}/mcp");
    let html = one.gateway.send(Request::new("GET", &place).with("Accept", "text/html")).await;
    assert_eq!((html.status(), html.body.clone()), (200, at_path.body.clone()));
    let head = one.gateway.send(Request::new("HEAD", &place)).await;
    assert_eq!(head.status(), 200);
    assert_eq!(head.header("content-length"), at_path.header("content-length"));
    let options = Request::new("OPTIONS", &place)
        .with("Access-Control-Request-Method", "GET")
        .with("Access-Control-Request-Headers", "mcp-protocol-version");
    let options = one.gateway.send(options.with("Origin", PUBLIC)).await;
    assert_eq!((options.status(), options.body.len()), (204, 0));
    assert_eq!(options.header("access-control-allow-headers").as_deref(), Some("*"));
    for reply in [&at_root, &at_path, &html, &head, &options] {
        assert_eq!(reply.head.all("access-control-allow-origin"), ["*"]);
        assert!(reply.header("access-control-allow-credentials").is_none());
    }
    for method in ["POST", "PUT", "DELETE"] {
        let reply = one.gateway.send(Request::new(method, &place)).await;
        assert_eq!((reply.status(), reply.header("allow").as_deref()), (405, Some("GET, HEAD, OPTIONS")));
    }
    for other in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/.well-known/oauth-protected-resource/other",
        "/.well-known/oauth-protected-resourcemcp",
        "/.well-known/mcp.json",
        "/.well-known/",
        "/.well-known/oauth-protected-resource/../mcp",
    ] {
        for method in ["GET", "POST", "OPTIONS"] {
            let reply = one.gateway.send(Request::new(method, other)).await;
            assert_eq!((reply.status(), reply.body.len()), (404, 0), "{method} {other}");
        }
    }
}

/// Covers: A-56: the gateway is no authorization server, and passes nothing on to one.
#[tokio::test(flavor = "multi_thread")]
async fn a_56_no_authorization_server_here() {
    let bench = bench(ENDPOINTS).await;
    let good = bench.token(json!({}));
    // Its keys are there, so nothing is fetched by the gateway itself from now on.
    assert_eq!(bench.send(call_t(), &good).await.status(), 200);
    let before = bench.id.fetches();
    for path in
        ["/authorize", "/token", "/register", "/revoke", "/introspect", "/mcp/authorize", "/oauth/token"]
    {
        for method in ["GET", "POST"] {
            let request = Request::new(method, path).with("Authorization", format!("Bearer {good}"));
            let reply = bench.gateway.send(request).await;
            assert_eq!((reply.status(), reply.body.len()), (404, 0), "{method} {path}");
        }
    }
    assert_eq!(bench.id.fetches(), before);
}

/// Covers: A-63: browsers whose origin is allowed get through and can read refusals; nobody else is told anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_63_cors() {
    let bench = bench(ENDPOINTS).await;
    let preflight = |origin: &str| {
        Request::new("OPTIONS", "/mcp")
            .with("Origin", origin)
            .with("Access-Control-Request-Method", "POST")
            .with("Access-Control-Request-Headers", "authorization,content-type,mcp-method,mcp-param-city")
    };
    let reply = bench.gateway.send(preflight(PUBLIC)).await;
    assert_eq!((reply.status(), reply.body.len()), (204, 0));
    assert_eq!(reply.head.all("access-control-allow-origin"), [PUBLIC]);
    let allowed = reply.header("access-control-allow-headers").unwrap();
    assert!(allowed.contains("authorization") && allowed.contains("mcp-param-city"), "{allowed}");
    assert!(reply.header("access-control-allow-methods").unwrap().contains("DELETE"));
    let refused_origin = bench.gateway.send(preflight("https://evil.test")).await;
    assert_eq!(refused_origin.status(), 403);
    for name in ["access-control-allow-origin", "www-authenticate", "access-control-allow-methods"] {
        assert!(refused_origin.header(name).is_none(), "{name}");
    }
    let from = |origin: &str| call_t().with("Origin", origin);
    let unknown = bench.gateway.send(from(PUBLIC)).await;
    refused("a page without a token", &unknown, 401, &plain("/mcp"));
    let known = bench.send(from(PUBLIC), &bench.token(json!({}))).await;
    assert_eq!(known.status(), 200);
    for reply in [&reply, &unknown, &known] {
        assert_eq!(reply.head.all("access-control-allow-origin"), [PUBLIC]);
        assert!(reply.head.all("vary").iter().any(|field| field.contains("Origin")));
        assert!(reply.header("access-control-allow-credentials").is_none());
        let exposed = reply.header("access-control-expose-headers").unwrap();
        assert!(exposed.contains("WWW-Authenticate") && exposed.contains("Mcp-Session-Id"));
    }
    let evil = bench.send(from("https://evil.test"), &bench.token(json!({}))).await;
    assert_eq!((evil.status(), evil.header("access-control-allow-origin")), (403, None));
    let without = bench.send(call_t(), &bench.token(json!({}))).await;
    assert!(without.header("access-control-allow-origin").is_none());
    // A page's question about what is no endpoint.
    assert_eq!(bench.gateway.send(preflight(PUBLIC).at("/none")).await.status(), 404);
}

/// Covers: A-28: with keys alone there is no authorization server to send anybody to.
#[tokio::test(flavor = "multi_thread")]
async fn a_28_keys_alone() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let key = format!("[[auth.key]]\nname = \"ci\"\nsha256 = \"{KEY_DIGEST}\"");
    let gateway = Setup::new().toml(&key).http("s", &server.url(), "").start().await;
    refused("none", &gateway.send(call_t()).await, 401, "Bearer realm=\"mcp\"");
    let bad = call_t().with("Authorization", "Bearer x");
    refused("bad", &gateway.send(bad).await, 401, "Bearer error=\"invalid_token\"");
    let good = call_t().with("Authorization", "Bearer a-long-and-random-key");
    assert_eq!(gateway.send(good).await.status(), 200);
    let place = "/.well-known/oauth-protected-resource";
    for path in [place.to_owned(), format!("{place}/mcp")] {
        assert_eq!(gateway.send(Request::new("GET", &path)).await.status(), 404);
    }
}

/// Covers: A-64: without `[auth]` everybody is `anonymous`, and there is nothing to find.
#[tokio::test(flavor = "multi_thread")]
async fn a_64_without_auth() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    assert_eq!(gateway.send(call_t()).await.status(), 200);
    assert_eq!(gateway.send(call_t().with("Authorization", "Bearer whatever")).await.status(), 200);
    assert_eq!(
        gateway.send(Request::new("GET", "/.well-known/oauth-protected-resource/mcp")).await.status(),
        404
    );
    let calls = gateway.metric("gatehouse_client_calls_total", &[("client", "anonymous"), ("outcome", "ok")]);
    assert_eq!(calls.await, 2.0);
}

/// Covers: S-09, S-38: a stream ends with its token, in words, whether there are grants or not; others go on.
#[tokio::test]
async fn s_38_a_stream_ends_with_its_token() {
    let grants = "[[grant]]\nservers = [\"s\"]\ntools = [\"*\"]\nvalid_until = 2999-01-01T00:00:00Z";
    for grants in ["", grants] {
        let people = People::new().await;
        let server = Server::modern("s", Offer::tools(&["t"])).await;
        let gateway = Inside::start(people.setup().toml(grants).http("s", &server.url(), "")).await;
        let open = async |token: &str| {
            let request = with(listen("1", r#"{"toolsListChanged":true}"#), token);
            Stream::ask(gateway.connect().await, request, "1").await
        };
        let short = people.token_of("alice", json!({ "exp": now() + 90 }));
        let ending = open(&short).await;
        let lasting = open(&people.token("alice")).await;
        let mut endless = open("a-long-and-random-key").await;
        later(Duration::from_secs(91)).await;
        ending.end_without_notice().await;
        server.offer(Offer::tools(&["t", "u"]));
        later(Duration::from_secs(3700)).await;
        lasting.end().await;
        // A list that is asked for again has changed.
        let asked = gateway.send(with(mcp("tools/list", "{}"), "a-long-and-random-key")).await;
        assert_eq!(asked.status(), 200);
        assert_eq!(endless.notice().await, "tools", "{grants}");
        tokio::join!(gateway.stop(), endless.end());
    }
}
