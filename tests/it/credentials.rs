//! What servers get to see of who is asking: tokens obtained for them, renewed, exchanged; never the caller's own:
//! A-30..A-37, A-40, A-41, A-44, A-46, F-067, F-068.

use aws_lc_rs::signature::{ED25519 as ED25519_VERIFY, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use serde_json::json;

use crate::support::client::Reply;
use crate::support::eventually;
use crate::support::exchange::{Answer, Seen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::people::{PUBLIC, People, claims_of, now, with};
use crate::support::request::{Request, call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::RESULT;
use crate::support::token_server::{TokenServer, token};

fn call_t() -> Request {
    call("s_t", "{}").request()
}

/// Lines of a server's table with a client of `issuer`.
fn client(issuer: &str, more: &str) -> String {
    format!(
        "[server.credentials]\nkind = \"client_credentials\"\nissuer = \"{issuer}\"\nclient_id = \"g:w\"\n{more}"
    )
}

const SECRET: &str = "client_secret = \"pass/word\"";

async fn gateway(server: &Server, credentials: &str) -> Gateway {
    Setup::new().http("s", &server.url(), credentials).start().await
}

/// A result that says `isError` in words that name the server; nothing that sends the client to an issuer.
#[track_caller]
fn failed(reply: &Reply) {
    assert_eq!(reply.verdict(), (200, Some(RESULT)), "{reply:?}");
    assert_eq!(reply.header("www-authenticate"), None);
    let result = reply.result();
    assert_eq!(result["isError"], true, "{result}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("\"s\""), "{result}");
}

/// Covers: A-25, A-36, A-37, A-40, F-068: fifty callers at once, one question, the token everywhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_40_fifty_calls_one_token() {
    let issuer = TokenServer::start(|number, _| token(&format!("t{number}"))).await;
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = gateway(&server, &client(&issuer.url, &format!("{SECRET}\nscopes = [\"a\", \"b\"]"))).await;
    let replies = join_all((0..50).map(|_| gateway.send(call_t()))).await;
    assert!(replies.iter().all(|reply| reply.verdict() == (200, Some(RESULT))));
    let asked = issuer.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let form = [
        ("grant_type", "client_credentials".to_owned()),
        ("resource", server.url()),
        ("scope", "a b".to_owned()),
    ];
    let form = form.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    assert_eq!(asked[0].form, form);
    // RFC 6749 §2.3.1: both halves are form-encoded first.
    let basic = base64::engine::general_purpose::STANDARD.encode("g%3Aw:pass%2Fword");
    assert_eq!(asked[0].authorization, Some(format!("Basic {basic}")));
    for seen in server.seen() {
        assert_eq!(seen.header("authorization").as_deref(), Some("Bearer t1"), "{}", seen.method());
    }
    let log = gateway.stop().await;
    assert!(!log.text().contains("Bearer t1") && !log.text().contains("pass/word"));
}

/// Covers: A-40: the ways to prove who the gateway is.
#[tokio::test(flavor = "multi_thread")]
async fn a_40_client_authentication() {
    let issuer = TokenServer::start(|_, _| token("t")).await;
    issuer.methods(&["client_secret_post"]);
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let posting = gateway(&server, &client(&issuer.url, SECRET)).await;
    assert_eq!(posting.send(call_t()).await.verdict(), (200, Some(RESULT)));
    let asked = issuer.asked().remove(0);
    assert_eq!((asked.get("client_id"), asked.get("client_secret")), ("g:w", "pass/word"));
    assert_eq!(asked.authorization, None);

    let der = base64::engine::general_purpose::STANDARD.decode(ED25519).unwrap();
    let pem =
        format!("private_key = '''-----BEGIN PRIVATE KEY-----\n{ED25519}\n-----END PRIVATE KEY-----'''");
    let signing = gateway(&server, &client(&issuer.url, &pem)).await;
    assert_eq!(signing.send(call_t()).await.verdict(), (200, Some(RESULT)));
    let asked = issuer.asked().remove(1);
    assert_eq!(asked.authorization, None);
    let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    assert_eq!((asked.get("client_assertion_type"), asked.get("client_id")), (kind, "g:w"));
    let (signed, signature) = asked.get("client_assertion").rsplit_once('.').unwrap();
    let public = Ed25519KeyPair::from_pkcs8(&der).unwrap();
    let public = UnparsedPublicKey::new(&ED25519_VERIFY, public.public_key().as_ref());
    public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
    let claims = claims_of(signed);
    assert_eq!(claims["iss"], "g:w");
    assert_eq!(claims["sub"], "g:w");
    assert_eq!(claims["aud"], issuer.url.as_str());
    assert!(claims["jti"].as_str().unwrap().len() >= 16);
    let life = claims["exp"].as_u64().unwrap() - now();
    assert!(life <= 60, "{life}");
}

/// The example key of RFC 8410.
const ED25519: &str = "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC";

/// Calls with this credential are refused as an authorization server's client would be, the rest answered.
fn refuses(seen: &Seen, refused: impl Fn(&str) -> bool) -> Answer {
    if refused(&seen.header("authorization").unwrap_or_default()) {
        let challenge = "Bearer resource_metadata=\"https://evil.example/prm\"";
        return Answer::new(401, "text/plain", "no").with("WWW-Authenticate", challenge);
    }
    Answer::result(seen, r#"{"resultType":"complete","content":[]}"#)
}

/// Covers: A-32, A-33, F-067: one renewal, one repeat, and then it is the server's failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_32_a_refused_token_is_renewed_once() {
    let issuer = TokenServer::start(|number, _| token(&format!("t{number}"))).await;
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    server.on("tools/call", |seen| refuses(seen, |shown| shown == "Bearer t1"));
    let gateway = gateway(&server, &client(&issuer.url, SECRET)).await;
    assert_eq!(gateway.send(call_t()).await.result()["content"], json!([]));
    let shown = |server: &Server| -> Vec<String> {
        server.requests("tools/call").iter().filter_map(|seen| seen.header("authorization")).collect()
    };
    assert_eq!(shown(&server), ["Bearer t1", "Bearer t2"]);
    assert_eq!(issuer.asked().len(), 2);
    assert_eq!(gateway.send(call_t()).await.result()["content"], json!([]));
    assert_eq!((shown(&server).len(), issuer.asked().len()), (3, 2), "the new one is kept");
    // Where nothing is good enough: one more token, one repeat.
    server.on("tools/call", |seen| refuses(seen, |_| true));
    let gateway = self::gateway(&server, &client(&issuer.url, SECRET)).await;
    failed(&gateway.send(call_t()).await);
    assert_eq!(shown(&server)[3..], ["Bearer t3", "Bearer t4"]);
    assert_eq!(issuer.asked().len(), 4);
    // Fixed credentials cannot be renewed, so nothing is repeated.
    let fixed = "[server.credentials]\nkind = \"bearer\"\ntoken = \"fixed\"";
    let gateway = self::gateway(&server, fixed).await;
    failed(&gateway.send(call_t()).await);
    assert_eq!(shown(&server)[5..], ["Bearer fixed"]);
}

/// Covers: F-067, F-068: whatever the token endpoint answers, calls end in words, and it is asked again later.
#[tokio::test(flavor = "multi_thread")]
async fn f_068_a_token_endpoint_out_of_order() {
    let issuer = TokenServer::start(|number, _| match number {
        1 => (500, "application/json", r#"{"error":"server_error"}"#.to_owned()),
        2 => (200, "text/html", "<html>log in</html>".to_owned()),
        3 => (400, "application/json", r#"{"error":"invalid_client"}"#.to_owned()),
        4 => (200, "application/json", r#"{"access_token":"x","token_type":"mac"}"#.to_owned()),
        _ => token("good"),
    })
    .await;
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), &client(&issuer.url, SECRET)).launch().await;
    eventually("the call succeeds", async || {
        let reply = gateway.send(call_t()).await;
        let done = reply.result()["isError"] != true;
        if !done {
            failed(&reply);
        }
        done
    })
    .await;
    assert_eq!(issuer.asked().len(), 5);
    assert!(server.seen().iter().all(|seen| seen.header("authorization").as_deref() == Some("Bearer good")));
}

/// Covers: A-44, A-46: each caller as himself, his token to its issuer only, nothing shared.
#[tokio::test(flavor = "multi_thread")]
async fn a_46_exchanged_tokens_are_never_shared() {
    let bench = People::new().await;
    let mut offer = Offer::tools(&["t"]);
    offer.resources = vec![r#"{"uri":"a://one","name":"one"}"#.to_owned()];
    let server = Server::modern("s", offer).await;
    server.on("resources/read", |seen| {
        let shown = seen.header("authorization").unwrap();
        Answer::result(seen, &format!(
            r#"{{"resultType":"complete","contents":[{{"uri":"a://one","text":"{shown}"}}],"ttlMs":3600000,"cacheScope":"public"}}"#
        ))
    });
    let gateway =
        bench.setup().http("s", &server.url(), &bench.exchange("scopes = [\"narrow\"]")).start().await;
    let people = ["alice", "bob"].map(|name| (name, bench.token(name)));
    let marked = |name: &str, token: &str| with(call("s_t", json!({ "who": name }).to_string()), token);
    let calls = people.iter().cycle().take(40).map(|(name, token)| gateway.send(marked(name, token)));
    assert!(join_all(calls).await.iter().all(|reply| reply.verdict() == (200, Some(RESULT))));
    let calls = server.requests("tools/call");
    assert_eq!(calls.len(), 40);
    for seen in calls {
        let who = seen.raw(&["params", "arguments", "who"]).unwrap();
        let shown = seen.header("authorization").unwrap();
        assert!(shown.starts_with(&format!("Bearer for-{}-", who.trim_matches('"'))), "{who}: {shown}");
    }
    let exchanges = bench.exchanges();
    assert_eq!(exchanges.len(), 2, "once for each");
    for (name, own) in &people {
        let asked = exchanges.iter().find(|asked| asked.get("subject_token") == own).unwrap();
        let access = "urn:ietf:params:oauth:token-type:access_token";
        for (field, value) in [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token_type", access),
            ("requested_token_type", access),
            ("audience", "downstream"),
            ("resource", &server.url()),
            ("scope", "narrow"),
        ] {
            assert_eq!(asked.get(field), value, "{name}: {field}");
        }
    }
    // What one has read is not told the other, though the server calls it public.
    let read = || mcp("resources/read", r#"{"uri":"a://one"}"#);
    for (name, token) in &people {
        for _ in 0..2 {
            let text = gateway.send(with(read(), token)).await.result()["contents"][0]["text"].clone();
            assert!(text.as_str().unwrap().contains(&format!("for-{name}-")), "{name}: {text}");
        }
    }
    assert_eq!(server.requests("resources/read").len(), 2);
    // Nobody without a token of that issuer is presented as anybody.
    failed(&gateway.send(with(call_t(), "a-long-and-random-key")).await);
    assert_eq!(server.requests("tools/call").len(), 40);
    let sent: Vec<u8> = server.seen().iter().flat_map(whole).collect();
    let sent = String::from_utf8_lossy(&sent).into_owned();
    assert!(sent.contains("Bearer own"), "lists belong to nobody");
    let log = gateway.stop().await;
    for (_, token) in &people {
        assert!(!sent.contains(token) && !log.text().contains(token));
    }
}

/// Covers: A-32, A-46: a refused token of one caller costs one renewal, and nothing of the other's.
#[tokio::test(flavor = "multi_thread")]
async fn a_46_a_refusal_is_one_callers_own() {
    let bench = People::new().await;
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    server.on("tools/call", |seen| refuses(seen, |shown| shown.contains("alice")));
    let gateway =
        bench.setup().http("s", &server.url(), &bench.exchange("scopes = [\"narrow\"]")).start().await;
    let (alice, bob) = (bench.token("alice"), bench.token("bob"));
    assert_eq!(gateway.send(with(call_t(), &bob)).await.result()["content"], json!([]));
    failed(&gateway.send(with(call_t(), &alice)).await);
    // F-067: the client's own token is another matter, with the gateway's own words.
    let expired = bench.token_of("bob", json!({ "exp": now() - 60 }));
    let reply = gateway.send(with(call_t(), &expired)).await;
    let place = format!("{PUBLIC}/.well-known/oauth-protected-resource/mcp");
    let challenge = format!("Bearer error=\"invalid_token\", resource_metadata=\"{place}\"");
    assert_eq!((reply.status(), reply.head.all("www-authenticate")), (401, vec![challenge]));
    assert_eq!(gateway.metric("gatehouse_auth_rejections_total", &[]).await, 1.0);
    let labels = [("server", "s"), ("outcome", "unavailable")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 1.0);
    assert_eq!(bench.exchanges().len(), 3);
    assert_eq!(server.requests("tools/call").len(), 3);
    let before = server.requests("server/discover").len();
    assert_eq!(gateway.send(with(call_t(), &bob)).await.result()["content"], json!([]));
    assert_eq!(bench.exchanges().len(), 3);
    assert_eq!(server.requests("server/discover").len(), before, "one refusal is no reason to agree anew");
}

/// Every byte of a request.
fn whole(seen: &Seen) -> Vec<u8> {
    let fields =
        seen.head.fields.iter().flat_map(|(name, value)| [name.as_bytes(), b": ", value, b"\n"].concat());
    seen.head.first.bytes().chain(fields).chain(seen.body.iter().copied()).collect()
}

/// A server whose tokens this issuer gives, and which says so.
fn refuses_strangers(resource: String, issuer: String) -> impl Fn(&Seen) -> Option<Answer> + Send + Sync {
    move |seen| {
        if seen.head.first.starts_with("GET /.well-known/") {
            let document = json!({ "resource": resource, "authorization_servers": [issuer] });
            return Some(Answer::new(200, "application/json", document.to_string()));
        }
        let known = seen.header("authorization").is_some();
        (!known).then(|| Answer::new(401, "", "").with("WWW-Authenticate", "Bearer"))
    }
}

/// Covers: A-30, A-31: in every mode a server sees what its own `credentials` say, and headers that were let through.
#[tokio::test(flavor = "multi_thread")]
async fn a_30_servers_see_only_their_own_credentials() {
    let bench = People::new().await;
    let own = |kind: &str| format!("[server.credentials]\nkind = \"{kind}\"\n");
    let modes = [
        ("none", own("none"), None),
        ("bearer", own("bearer") + "token = \"abc\"", Some(("authorization", "Bearer abc"))),
        ("header", own("header") + "headers = { X-Api-Key = \"k\" }", Some(("x-api-key", "k"))),
        // The example of RFC 7617.
        (
            "basic",
            own("basic") + "user = \"Aladdin\"\npassword = \"open sesame\"",
            Some(("authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")),
        ),
        ("client", client(&bench.id.url, SECRET), Some(("authorization", "Bearer own"))),
        ("exchange", bench.exchange(""), Some(("authorization", "Bearer for-alice-"))),
        // Its first request has no credential at all.
        ("found", client("", SECRET).replace("issuer = \"\"\n", ""), Some(("authorization", "Bearer own"))),
    ];
    let mut servers = Vec::new();
    let mut setup = bench.setup();
    for (name, lines, _) in &modes {
        let server = Server::modern(name, Offer::tools(&["t"])).await;
        if *name == "found" {
            server.guard(refuses_strangers(server.url(), bench.id.url.clone()));
        }
        let lines = format!("forward_headers = [\"X-Request-Id\", \"Accept-Language\"]\n{lines}");
        setup = setup.http(name, &server.url(), &lines);
        servers.push(server);
    }
    let gateway = setup.start().await;
    let alice = bench.token("alice");
    for ((name, _, expected), server) in modes.iter().zip(&servers) {
        let request = with(call(&format!("{name}_t"), "{}"), &alice)
            .with("Cookie", "session=of-the-client")
            .with("X-Forwarded-User", "of-the-client")
            .with("X-Forwarded-For", "10.9.9.9")
            .with("X-Api-Key", "of-the-client")
            .with("Remote-User", "of-the-client")
            .with("X-Other", "of-the-client")
            .with("X-Request-Id", "r-1")
            .with("Accept-Language", "sv");
        let reply = gateway.send(request).await;
        assert_eq!(reply.verdict(), (200, Some(RESULT)), "{name}: {reply:?}");
        let seen = server.last_call();
        assert_eq!(seen.header("x-request-id").as_deref(), Some("r-1"), "{name}");
        assert_eq!(seen.header("accept-language").as_deref(), Some("sv"), "{name}");
        for header in ["authorization", "x-api-key"] {
            let wanted = expected.filter(|(of, _)| *of == header).map(|(_, value)| value);
            match (seen.header(header), wanted) {
                (Some(shown), Some(wanted)) => assert!(shown.starts_with(wanted), "{name}: {shown}"),
                (shown, wanted) => assert_eq!(shown.as_deref(), wanted, "{name}: {header}"),
            }
        }
        for seen in server.seen() {
            let text = String::from_utf8_lossy(&whole(&seen)).to_ascii_lowercase();
            for foreign in ["of-the-client", "10.9.9.9", "cookie", "x-forwarded", "remote-user", "x-other"] {
                assert!(!text.contains(foreign), "{name}: {foreign} in {text}");
            }
            assert!(!text.contains(&alice.to_ascii_lowercase()), "{name}: the caller's token in {text}");
        }
    }
}
