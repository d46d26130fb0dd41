//! Who issues a server's tokens, by the server's own word, and what it wants of them: A-33, A-35..A-39, A-50.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::client::Reply;
use crate::support::exchange::{Answer, Seen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::people::{People, claims_of, with};
use crate::support::request::{Request, call};
use crate::support::server::{Offer, Server};
use crate::support::table::RESULT;
use crate::support::tls::Authority;
use crate::support::token_server::{Asked, Said, TokenServer, token};

const CREDENTIALS: &str =
    "[server.credentials]\nkind = \"client_credentials\"\nclient_id = \"g\"\nclient_secret = \"the-secret\"";
const PLACE: &str = "/.well-known/oauth-protected-resource";

fn call_t() -> Request {
    call("s_t", "{}").request()
}

async fn gateway(server: &Server, more: &str) -> Gateway {
    Setup::new().http("s", &server.url(), &format!("{CREDENTIALS}\n{more}")).start().await
}

/// The path that a GET is for.
fn path(seen: &Seen) -> Option<String> {
    let mut words = seen.head.first.split(' ');
    (words.next() == Some("GET")).then(|| words.next().unwrap().to_owned())
}

/// GETs of documents the server had, in order.
fn looked(server: &Server) -> Vec<String> {
    server.seen().iter().filter_map(path).collect()
}

/// A server that takes these tokens only, refuses others with this challenge, and has these documents.
async fn guarded(
    takes: impl Fn(&str) -> bool + Send + Sync + 'static,
    challenge: impl Fn(&str) -> String,
    documents: impl Fn(&str) -> Vec<(String, Value)>,
) -> Server {
    let server = Server::modern("s", Offer::tools(&["t", "u"])).await;
    let origin = format!("http://{}", server.address);
    let (challenge, documents) = (challenge(&origin), documents(&origin));
    server.guard(move |seen| {
        if let Some(path) = path(seen) {
            let found = documents.iter().find(|(own, _)| *own == path);
            return Some(match found {
                Some((_, document)) => Answer::new(200, "application/json", document.to_string()),
                None => Answer::new(404, "", ""),
            });
        }
        let shown = seen.header("authorization").unwrap_or_default();
        let token = shown.strip_prefix("Bearer ").unwrap_or_default();
        (!takes(token)).then(|| Answer::new(401, "text/plain", "no").with("WWW-Authenticate", &challenge))
    });
    server
}

fn prm(resource: &str, issuer: &str) -> Value {
    json!({ "resource": resource, "authorization_servers": [issuer], "scopes_supported": ["listed"] })
}

/// A result that says `isError` and nothing that leads the client elsewhere.
#[track_caller]
fn failed(reply: &Reply) {
    assert_eq!(reply.verdict(), (200, Some(RESULT)), "{reply:?}");
    assert_eq!(reply.header("www-authenticate"), None);
    assert_eq!(reply.result()["isError"], true, "{reply:?}");
}

#[track_caller]
fn done(reply: &Reply) {
    assert_eq!(reply.verdict(), (200, Some(RESULT)), "{reply:?}");
    assert_ne!(reply.result()["isError"], true, "{reply:?}");
}

/// Covers: A-33, A-35, A-37, A-39, A-40: from the refusal to the token, once for all who wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_35_from_a_refusal_to_a_token() {
    let issuer = TokenServer::start(|number, _| token(&format!("t{number}"))).await;
    let url = issuer.url.clone();
    let server = guarded(
        |token| token == "t1",
        |origin| {
            format!(
                "Basic realm=\"a, b\", Bearer error=\"invalid_token\", scope=\"one two\", resource_metadata=\"{origin}/custom/prm.json\""
            )
        },
        |origin| vec![("/custom/prm.json".to_owned(), prm(&format!("{origin}/mcp"), &url))],
    )
    .await;
    let gateway = gateway(&server, "").await;
    let replies = join_all((0..50).map(|_| gateway.send(call_t()))).await;
    replies.iter().for_each(done);
    assert_eq!(looked(&server), ["/custom/prm.json"]);
    assert_eq!(issuer.fetched(), ["/.well-known/oauth-authorization-server"]);
    let asked = issuer.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let told = ["grant_type", "resource", "scope"].map(|name| asked[0].get(name).to_owned());
    assert_eq!(told, ["client_credentials", &server.url(), "one two"]);
    // What was refused had no token; what came later has it.
    let shown: Vec<_> =
        server.requests("tools/call").iter().map(|seen| seen.header("authorization")).collect();
    assert!(shown.iter().all(|shown| shown.as_deref() == Some("Bearer t1")), "{shown:?}");
    let log = gateway.stop().await;
    assert!(!log.text().contains("the-secret") && !log.text().contains("Bearer t1"));
}

/// Covers: A-35, A-39: without an address in the refusal: path-inserted, then the root, which may speak for the origin.
#[tokio::test(flavor = "multi_thread")]
async fn a_35_well_known_places() {
    for (at_root, resource, taken) in [
        (false, "/mcp", true),
        (true, "", true),
        (true, "/mcp", true),
        // Path-inserted it speaks for that path only, and nowhere for another.
        (false, "", false),
        (false, "/other", false),
        (true, "/other", false),
    ] {
        let issuer = TokenServer::start(|_, _| token("good")).await;
        let url = issuer.url.clone();
        let place = if at_root { PLACE.to_owned() } else { format!("{PLACE}/mcp") };
        let server = guarded(
            |token| token == "good",
            |_| "Bearer".to_owned(),
            |origin| vec![(place.clone(), prm(&format!("{origin}{resource}"), &url))],
        )
        .await;
        let gateway = Setup::new().http("s", &server.url(), CREDENTIALS).launch().await;
        let reply = gateway.send(call_t()).await;
        let case = format!("{place} for {resource:?}");
        if !taken {
            failed(&reply);
            assert!(issuer.fetched().is_empty() && issuer.asked().is_empty(), "{case}");
            gateway.log.wait("why", |line| line.contains("those of another resource")).await;
            continue;
        }
        done(&reply);
        let expected: &[&str] = if at_root {
            &["/.well-known/oauth-protected-resource/mcp", PLACE]
        } else {
            &["/.well-known/oauth-protected-resource/mcp"]
        };
        assert_eq!(looked(&server), expected, "{case}");
        let asked = issuer.asked();
        // As it stands in the document, letter by letter.
        assert_eq!(asked[0].get("resource"), format!("http://{}{resource}", server.address), "{case}");
        assert_eq!(asked[0].get("scope"), "listed", "{case}");
    }
}

/// Covers: A-36, A-38: three places in order; what speaks for another issuer gets nothing of ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_36_metadata_of_the_issuer() {
    let places = [
        "/.well-known/oauth-authorization-server/t",
        "/.well-known/openid-configuration/t",
        "/t/.well-known/openid-configuration",
    ];
    for (at, place) in places.iter().enumerate() {
        for honest in [true, false] {
            let issuer = TokenServer::start(|_, _| token("good")).await;
            let tenant = format!("{}/t", issuer.url);
            let says = if honest { tenant.clone() } else { "https://other.example/t".to_owned() };
            let metadata = json!({ "issuer": says, "token_endpoint": format!("{}/token", issuer.url) });
            issuer.documents(&[(place, metadata)]);
            let server = guarded(
                |token| token == "good",
                |_| "Bearer".to_owned(),
                |origin| vec![(format!("{PLACE}/mcp"), prm(&format!("{origin}/mcp"), &tenant))],
            )
            .await;
            let gateway = Setup::new().http("s", &server.url(), CREDENTIALS).launch().await;
            let reply = gateway.send(call_t()).await;
            assert_eq!(issuer.fetched()[..=at], places[..=at]);
            if honest {
                done(&reply);
                assert_eq!(issuer.fetched().len(), at + 1);
            } else {
                failed(&reply);
                assert_eq!(issuer.asked().len(), 0, "the secret stays here");
                gateway.log.wait("why", |line| line.contains("another issuer")).await;
            }
        }
    }
}

/// Covers: A-50: addresses that documents name are not asked where they are inside, whatever they are for.
#[tokio::test(flavor = "multi_thread")]
async fn a_50_documents_lead_nowhere_inside() {
    let inside =
        ["https://10.255.255.1", "https://169.254.169.254", "http://192.168.0.1", "https://[fd00::1]"];
    for address in inside {
        for step in 0..3 {
            let issuer = TokenServer::start(|_, _| token("good")).await;
            let url = issuer.url.clone();
            issuer.documents(&[(
                "/.well-known/oauth-authorization-server",
                json!({ "issuer": url, "token_endpoint": format!("{address}/token") }),
            )]);
            let named = if step == 1 { address } else { &url };
            let server = guarded(
                |token| token == "good",
                |origin| match step {
                    0 => format!("Bearer resource_metadata=\"{address}/prm\""),
                    _ => format!("Bearer resource_metadata=\"{origin}/prm\""),
                },
                |origin| vec![("/prm".to_owned(), prm(&format!("{origin}/mcp"), named))],
            )
            .await;
            let gateway = Setup::new().http("s", &server.url(), CREDENTIALS).launch().await;
            failed(&gateway.send(call_t()).await);
            assert_eq!(issuer.asked().len(), 0);
            let said =
                |line: &str| line.contains("not on the public internet") || line.contains("is not https");
            gateway.log.wait("why", said).await;
        }
    }
}

/// Covers: A-38: credentials belong to the issuer that took them; a server that names another one later gets nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_38_another_issuer_gets_nothing() {
    let first = TokenServer::start(|number, _| token(&format!("t{number}"))).await;
    let second = TokenServer::start(|_, _| token("stolen")).await;
    let moved = Arc::new(AtomicUsize::new(0));
    let (one, other, state) = (first.url.clone(), second.url.clone(), Arc::clone(&moved));
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let resource = server.url();
    server.guard(move |seen| {
        let state = state.load(Ordering::SeqCst);
        if path(seen).is_some() {
            let issuer = if state == 1 { &other } else { &one };
            return Some(Answer::new(200, "application/json", prm(&resource, issuer).to_string()));
        }
        let shown = seen.header("authorization").unwrap_or_default();
        let taken = match state {
            0 => shown == "Bearer t1",
            1 => shown == "Bearer stolen",
            _ => shown == "Bearer t2",
        };
        (!taken).then(|| Answer::new(401, "text/plain", "no").with("WWW-Authenticate", "Bearer"))
    });
    let gateway = gateway(&server, "").await;
    done(&gateway.send(call_t()).await);
    moved.store(1, Ordering::SeqCst);
    for _ in 0..3 {
        failed(&gateway.send(call_t()).await);
    }
    assert!(second.asked().is_empty() && second.fetched().is_empty());
    gateway
        .log
        .wait("why", |line| line.contains("names another issuer now") && line.contains(&second.url))
        .await;
    moved.store(2, Ordering::SeqCst);
    crate::support::eventually("all is as it was", async || {
        gateway.send(call_t()).await.result()["isError"] != true
    })
    .await;
    assert!(second.asked().is_empty());
}

/// Covers: A-38: tokens of the issuer that the operator wrote, at a server that wants those of another: said in the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_38_a_server_of_another_issuer() {
    let ours = TokenServer::start(|_, _| token("ours")).await;
    let theirs = TokenServer::start(|_, _| token("theirs")).await;
    let url = theirs.url.clone();
    let server = guarded(
        |token| token == "theirs",
        |origin| format!("Bearer resource_metadata=\"{origin}/prm\""),
        |origin| vec![("/prm".to_owned(), prm(&format!("{origin}/mcp"), &url))],
    )
    .await;
    let credentials = format!("{CREDENTIALS}\nissuer = \"{}\"", ours.url);
    let gateway = Setup::new().http("s", &server.url(), &credentials).launch().await;
    failed(&gateway.send(call_t()).await);
    gateway
        .log
        .wait("why", |line| line.contains("takes tokens of other issuers") && line.contains(&url))
        .await;
    assert!(theirs.asked().is_empty());
}

/// An issuer that puts the scopes it was asked for into the token, and gives `none` to nobody.
async fn scoped() -> TokenServer {
    TokenServer::start(|_, asked: &Asked| -> Said {
        if asked.get("scope").split(' ').any(|scope| scope == "none") {
            return (400, "application/json", r#"{"error":"invalid_scope"}"#.to_owned());
        }
        token(&format!("for.{}", asked.get("scope").replace(' ', ".")))
    })
    .await
}

/// A server whose tools want the scope of their name in the token, after any one token got in.
async fn choosy(issuer: &TokenServer, tools: &[&str]) -> Server {
    let server = guarded(
        |token| token.starts_with("for."),
        |_| "Bearer scope=\"base\"".to_owned(),
        |origin| vec![(format!("{PLACE}/mcp"), prm(&format!("{origin}/mcp"), &issuer.url))],
    )
    .await;
    server.offer(Offer::tools(tools));
    server.on("tools/call", |seen| {
        let (name, shown) = (seen.name().unwrap(), seen.header("authorization").unwrap());
        if shown.split('.').any(|scope| scope == name) {
            return Answer::result(seen, r#"{"resultType":"complete","content":[]}"#);
        }
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{name}\"");
        Answer::new(403, "text/plain", "no").with("WWW-Authenticate", &challenge)
    });
    server
}

fn asked_for(issuer: &TokenServer) -> Vec<String> {
    issuer.asked().iter().map(|asked| asked.get("scope").to_owned()).collect()
}

/// Covers: A-39: the union of what was asked for and what is wanted, once a request; then it is the server's no.
#[tokio::test(flavor = "multi_thread")]
async fn a_39_step_up() {
    let issuer = scoped().await;
    let server = choosy(&issuer, &["read", "write", "none"]).await;
    let gateway = gateway(&server, "").await;
    let tool = |name: &str| call(&format!("s_{name}"), "{}").request();
    done(&gateway.send(tool("read")).await);
    assert_eq!(asked_for(&issuer), ["base", "base read"]);
    assert_eq!(server.requests("tools/call").len(), 2);
    done(&gateway.send(tool("write")).await);
    assert_eq!(asked_for(&issuer)[2..], ["base read write"]);
    done(&gateway.send(tool("read")).await);
    let calls = server.requests("tools/call").len();
    // What is not to be had costs one question and no other call.
    for _ in 0..3 {
        failed(&gateway.send(tool("none")).await);
    }
    assert_eq!(asked_for(&issuer)[3..], ["base read write none"]);
    assert_eq!(server.requests("tools/call").len(), calls + 3);
    done(&gateway.send(tool("write")).await);
    // Nor does a server that is never content.
    server.on("tools/call", |_| {
        Answer::new(403, "", "")
            .with("WWW-Authenticate", "Bearer error=\"insufficient_scope\", scope=\"more\"")
    });
    for _ in 0..3 {
        failed(&gateway.send(tool("read")).await);
    }
    assert_eq!(asked_for(&issuer)[4..], ["base read write more"]);
    // A plain 403 is no reason at all.
    server.on("tools/call", |_| Answer::new(403, "", ""));
    failed(&gateway.send(tool("read")).await);
    assert_eq!(issuer.asked().len(), 5);
}

/// Covers: A-39, A-41: scopes the operator wrote are not widened by a server.
#[tokio::test(flavor = "multi_thread")]
async fn a_39_written_scopes_are_a_bound() {
    let issuer = scoped().await;
    let server = choosy(&issuer, &["read", "write"]).await;
    let gateway = gateway(&server, "scopes = [\"read\"]").await;
    done(&gateway.send(call("s_read", "{}")).await);
    failed(&gateway.send(call("s_write", "{}")).await);
    assert_eq!(asked_for(&issuer), ["read"]);
    gateway.log.wait("a hint", |line| line.contains("wants more scopes") && line.contains("write")).await;
}

/// Covers: A-35: the handshake of the older revisions is refused and cured like any request.
#[tokio::test(flavor = "multi_thread")]
async fn a_35_at_a_legacy_server() {
    let issuer = TokenServer::start(|_, _| token("good")).await;
    let server = Server::legacy("s", Offer::tools(&["t"])).await;
    let (resource, url) = (server.url(), issuer.url.clone());
    server.guard(move |seen| {
        if path(seen).is_some_and(|path| path.starts_with("/.well-known")) {
            return Some(Answer::new(200, "application/json", prm(&resource, &url).to_string()));
        }
        let taken = seen.header("authorization").as_deref() == Some("Bearer good");
        (!taken).then(|| Answer::new(401, "text/plain", "no").with("WWW-Authenticate", "Bearer"))
    });
    let gateway = gateway(&server, "").await;
    done(&gateway.send(call_t()).await);
    assert_eq!(issuer.asked().len(), 1);
}

/// Covers: A-39, A-44, A-46: what one caller's calls need is asked for that caller only, and what one may not have is no
/// matter of the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_39_step_up_is_each_callers_own() {
    let mut people = People::new().await;
    // Bob may write; whoever else asks for that is refused.
    people.tokens = TokenServer::start(|_, asked: &Asked| -> Said {
        let (subject, scope) = (asked.get("subject_token"), asked.get("scope"));
        if subject.is_empty() {
            return token("own");
        }
        let who = claims_of(subject)["sub"].as_str().unwrap().to_owned();
        if who != "bob" && scope.contains("write") {
            return (400, "application/json", r#"{"error":"invalid_scope"}"#.to_owned());
        }
        token(&format!("for.{who}.{}", scope.replace(' ', ".")))
    })
    .await;
    *people.id.state.metadata.lock().unwrap() = json!({
        "issuer": people.id.url, "jwks_uri": format!("{}/keys", people.id.url),
        "token_endpoint": format!("{}/token", people.tokens.url),
    });
    let server = Server::modern("s", Offer::tools(&["read", "write"])).await;
    server.on("tools/call", |seen| {
        let (name, shown) = (seen.name().unwrap(), seen.header("authorization").unwrap());
        if shown.split('.').any(|scope| scope == name) {
            return Answer::result(seen, r#"{"resultType":"complete","content":[]}"#);
        }
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{name}\"");
        Answer::new(403, "text/plain", "no").with("WWW-Authenticate", &challenge)
    });
    let gateway = people.setup().http("s", &server.url(), &people.exchange("")).start().await;
    let (alice, bob) = (people.token("alice"), people.token("bob"));
    let send = async |token: &str, tool: &str| gateway.send(with(call(tool, "{}"), token)).await;
    done(&send(&bob, "s_write").await);
    done(&send(&alice, "s_read").await);
    for _ in 0..3 {
        failed(&send(&alice, "s_write").await);
    }
    done(&send(&alice, "s_read").await);
    done(&send(&bob, "s_read").await);
    done(&send(&bob, "s_write").await);
    let asked = |who: &str| -> Vec<String> {
        let all = people.exchanges();
        let own = all.iter().filter(|asked| claims_of(asked.get("subject_token"))["sub"] == who);
        own.map(|asked| asked.get("scope").to_owned()).collect()
    };
    assert_eq!(asked("bob"), ["", "write", "write read"]);
    assert_eq!(asked("alice"), ["", "read", "read write"], "and the refusal is remembered");
    let shown: Vec<_> =
        server.requests("tools/call").iter().filter_map(|seen| seen.header("authorization")).collect();
    assert!(shown.iter().all(|shown| shown.starts_with("Bearer for.")), "{shown:?}");
}

/// Covers: F-076: a server's `ca_file` is trusted where its tokens are issued as well, and there only besides the system's roots.
#[tokio::test(flavor = "multi_thread")]
async fn f_076_a_private_authority_of_the_issuer() {
    let (authority, other) = (Authority::new(), Authority::new());
    let issuer = TokenServer::start(|_, _| token("good")).await;
    let folder = tempfile::tempdir().unwrap();
    let plain: std::net::SocketAddr = issuer.url.strip_prefix("http://").unwrap().parse().unwrap();
    let front = authority.front(plain, &["localhost"], true).await;
    let url = format!("https://localhost:{}", front.port());
    issuer.documents(&[(
        "/.well-known/oauth-authorization-server",
        json!({ "issuer": url, "token_endpoint": format!("{url}/token") }),
    )]);
    for (known, trusted) in [(&authority, true), (&other, false)] {
        let file = folder.path().join(format!("{trusted}.pem"));
        known.save(&file);
        let server = Server::modern("s", Offer::tools(&["t"])).await;
        let more = format!("ca_file = \"{}\"\n{CREDENTIALS}\nissuer = \"{url}\"", file.display());
        let gateway = Setup::new().http("s", &server.url(), &more).launch().await;
        let reply = gateway.send(call_t()).await;
        if trusted {
            done(&reply);
            assert_eq!(server.last_call().header("authorization").as_deref(), Some("Bearer good"));
        } else {
            failed(&reply);
            gateway.log.wait("why", |line| line.contains("the server's certificate is")).await;
        }
    }
    assert_eq!(issuer.asked().len(), 1);
}
