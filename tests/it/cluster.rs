//! Several replicas without Redis: what hangs on a socket of one of them is answered through the others, by sealed
//! letters; a replica that dies takes with it what cannot be saved, and that is said (R-32, R-37, R-51, G-21, design §7).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use nix::sys::signal::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::support::asking::{ACCEPT, ALL, Asking, Questions, content, elicit, said};
use crate::support::cast::digest;
use crate::support::client;
use crate::support::exchange::Exchange;
use crate::support::feed::{Feed, TELLS, declare, names};
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::{Session, event};
use crate::support::request::{Mcp, Request, call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::tcp::{Gate, Mode};
use crate::support::{eventually, json as text, within};

/// Nobody listens on port 1: Redis is away for all of these.
pub(crate) const CLUSTER: &str = "[cluster]\nredis = \"redis://127.0.0.1:1/\"\nlisten = \"127.0.0.1:0\"\n";
const KEYS: &str = "keys = [\"c29tZXRoaW5nLWxvbmctZW5vdWdoLXRvLXNlYWwtd2l0aA==\"]";
const CALL: (&str, &str) = ("tools/call", r#"{"name":"s_t","arguments":{"a":1}}"#);

fn setup(server: &Server) -> Setup {
    Setup::new().gateway(KEYS).toml(CLUSTER).http("s", &server.url(), "")
}

async fn two(server: &Server) -> (Gateway, Gateway) {
    (setup(server).start().await, setup(server).start().await)
}

fn first() -> Mcp {
    mcp(CALL.0, CALL.1).capabilities(ALL)
}

async fn parked(gateway: &Gateway, asking: &mut Asking) -> (Questions, Exchange) {
    let (reply, exchange) = tokio::join!(gateway.send(first()), async {
        let exchange = asking.call().await;
        exchange.event(&elicit("\"e1\""));
        exchange
    });
    (Questions::of(&reply), exchange)
}

async fn kill(gateway: Gateway) {
    gateway.signal(Signal::SIGKILL);
    let address = gateway.listen;
    eventually("it is dead", async || tokio::net::TcpStream::connect(address).await.is_err()).await;
    // It did not end in order, and was not meant to.
    std::mem::forget(gateway);
}

/// Covers: R-32, R-27, M-50: questions go out by one replica, answers come in by the other: the call goes on where it is,
/// its progress and its result come by the other, round after round, once.
#[tokio::test(flavor = "multi_thread")]
async fn r_32_a_parked_call_is_answered_through_another_replica() {
    let server = Server::legacy("s", Offer::tools(&["t"])).await;
    let mut asking = Asking::at(&server, "tools/call");
    let (one, two) = two(&server).await;
    let (questions, exchange) = parked(&one, &mut asking).await;
    // A second round, by way of the other.
    let (reply, ()) = tokio::join!(two.send(questions.answered(CALL, &[ACCEPT])), async {
        assert_eq!(asking.answers.result("\"e1\"").await, ACCEPT);
        exchange.event(&elicit("\"e2\""));
    });
    let questions = Questions::of(&reply);
    assert_eq!(reply.message()["id"], "again");
    let retry = questions.answered(CALL, &[ACCEPT]).meta("progressToken", 5);
    let (reply, ()) = tokio::join!(two.send(retry), async {
        asking.answers.wait("\"e2\"").await;
        exchange.finish(&content("done"));
    });
    assert_eq!(said(&reply), "done");
    assert_eq!(
        said(&two.send(questions.answered(CALL, &[ACCEPT])).await),
        "done",
        "R-33: told again, from there"
    );
    assert_eq!(server.requests("tools/call").len(), 1, "once");
    assert_eq!((one.metric("gatehouse_parked_calls", &[]).await, asking.answers.count()), (0.0, 2));
    let calls = async |gateway: &Gateway, outcome| {
        gateway.metric("gatehouse_tool_calls_total", &[("outcome", outcome)]).await
    };
    assert_eq!((calls(&one, "input_required").await, calls(&one, "ok").await), (2.0, 2.0));
    assert_eq!(calls(&two, "ok").await, 0.0, "each call is counted where it runs");
    for gateway in [one, two] {
        let log = gateway.stop().await;
        assert_eq!(log.find(|line| line.contains("Redis is away")).len(), 1, "said once:\n{}", log.text());
    }
}

/// Covers: R-32, H-80: what a call says comes through as it says it, and who leaves cancels it at its server, one hop
/// further.
#[tokio::test(flavor = "multi_thread")]
async fn r_32_events_come_through_and_leaving_cancels() {
    let server = Server::legacy("s", Offer::tools(&["t"])).await;
    let mut asking = Asking::at(&server, "tools/call");
    let (one, two) = two(&server).await;
    let (questions, mut exchange) = parked(&one, &mut asking).await;
    let retry = questions.answered(CALL, &[ACCEPT]).meta("io.modelcontextprotocol/logLevel", "\"debug\"");
    let (mut answer, ()) = tokio::join!(two.connect().await.begin(retry), async {
        asking.answers.wait("\"e1\"").await;
        exchange.event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"half way"}}"#);
    });
    let told = answer.message().await.expect("a notice, while the call runs");
    assert_eq!(told["params"]["data"], "half way");
    assert!(!exchange.is_gone());
    drop(answer);
    server.asked("notifications/cancelled", 1).await;
    exchange.gone().await;
    one.metric_becomes("gatehouse_parked_calls", &[], 0.0).await;
    one.metric_becomes("gatehouse_tool_calls_total", &[("outcome", "cancelled")], 1.0).await;
}

/// Covers: R-37: the owner is killed: the retry says so and nothing is done again; while it goes on, what it was is said
/// on its stream.
#[tokio::test(flavor = "multi_thread")]
async fn r_37_the_owner_is_killed() {
    let server = Server::legacy("s", Offer::tools(&["t"])).await;
    let mut asking = Asking::at(&server, "tools/call");
    let (one, two) = two(&server).await;
    let (resting, _held) = parked(&one, &mut asking).await;
    let (running, exchange) = parked(&one, &mut asking).await;
    let retry = running.answered(CALL, &[ACCEPT]).meta("io.modelcontextprotocol/logLevel", "\"debug\"");
    let (mut answer, ()) = tokio::join!(two.connect().await.begin(retry), async {
        asking.answers.wait("\"e1\"").await;
        exchange.event(
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}"#,
        );
    });
    assert_eq!(answer.message().await.unwrap()["params"]["data"], "x");
    kill(one).await;
    let last = answer.message().await.expect("a last word");
    assert_eq!((&last["id"], &last["result"]["isError"]), (&json!("again"), &json!(true)), "{last}");
    assert_eq!(last["result"]["resultType"], "complete");
    assert!(last["result"]["content"][0]["text"].as_str().unwrap().contains("may have had effects"));
    assert_eq!(answer.message().await, None);
    let reply = two.send(resting.answered(CALL, &[ACCEPT])).await;
    assert_eq!((reply.status(), &reply.result()["isError"]), (200, &json!(true)), "{reply:?}");
    let text = said(&reply);
    assert!(
        text.contains("\"s\"") && text.contains("lost") && text.contains("check before you repeat"),
        "{text}"
    );
    assert_eq!(server.requests("tools/call").len(), 2, "nothing was done again");
    two.stop().await;
}

/// Covers: G-21, R-51, G-75, G-36: a session begun at one replica is used through the other: one session at the server,
/// questions answered, calls cancelled, streams taken up, and it ends everywhere.
#[tokio::test(flavor = "multi_thread")]
async fn g_21_a_session_is_one_through_both_replicas() {
    let server = Server::legacy("s", Offer::tools(&["t"])).await;
    let mut asking = Asking::at(&server, "tools/call");
    let (one, two) = two(&server).await;
    let session = Session::open(&one, "2025-11-25", ALL).await;
    assert_eq!(session.tools(&two).await, ["s_t"]);
    // A question on the stream by one, its answer by the other.
    let (mut events, exchange) = tokio::join!(session.stream(&two, session.call("1", "s_t", "{}")), async {
        let exchange = asking.call().await;
        exchange.event(&elicit("\"e1\""));
        exchange
    });
    let (place, question) = event(&mut events).await.expect("a question");
    assert_eq!(question["method"], "elicitation/create");
    // Its stream is lost, and taken up by the other; the answer comes by either.
    drop(events);
    let answer = session.answer(&question, &json!({"action": "accept", "content": {"name": "x"}}));
    assert_eq!(two.send(answer).await.verdict(), (202, None));
    asking.answers.wait("\"e1\"").await;
    exchange.finish(&content("done"));
    let mut again = session.stream(&two, session.resume(&place)).await;
    let (_, last) = event(&mut again).await.expect("a last word");
    assert_eq!(last["result"]["content"][0]["text"], "done");
    // A cancel by another way than the call.
    let running = tokio::spawn(client::send(one.listen, session.call("\"c\"", "s_t", "{}")));
    let mut held = asking.call().await;
    let cancel = session.notification("notifications/cancelled", "{\"requestId\":\"c\"}");
    assert_eq!(two.send(cancel).await.verdict(), (202, None));
    held.gone().await;
    assert!(running.await.unwrap().texts().is_empty(), "no response to what was cancelled");
    let calls = server.requests("tools/call");
    let ids: std::collections::BTreeSet<_> = calls.iter().map(|seen| seen.header("mcp-session-id")).collect();
    assert_eq!((calls.len(), ids.len()), (2, 1), "one session at the server");
    assert_eq!(two.metric("gatehouse_sessions", &[]).await, 0.0);
    assert_eq!(two.send(session.delete()).await.verdict(), (200, None));
    for gateway in [&one, &two] {
        assert_eq!(session.ask(gateway, "tools/list", "{}").await.status(), 404, "G-24");
    }
    assert_eq!(one.metric("gatehouse_sessions", &[]).await, 0.0);
}

/// Covers: G-26, G-32, S-50: what changes is told on a stream that was opened by the other replica; where the owner is
/// gone, lists, calls and streams go on here, under the same id.
#[tokio::test(flavor = "multi_thread")]
async fn g_26_a_session_outlives_its_replica() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    declare(&server, TELLS);
    let mut feeds = server.hold("subscriptions/listen");
    let one = setup(&server).launch().await;
    let feed = Feed::accept(feeds.next().await);
    let two = setup(&server).launch().await;
    let _other = Feed::accept(feeds.next().await);
    for gateway in [&one, &two] {
        eventually("the first list", async || {
            names(&mut gateway.connect().await, "tools/list").await == ["s_t"]
        })
        .await;
    }
    let session = Session::open(&one, "2025-06-18", "{}").await;
    let mut stream = session.stream(&two, session.get()).await;
    assert_eq!(
        (one.metric("gatehouse_sessions", &[]).await, two.metric("gatehouse_sessions", &[]).await),
        (1.0, 0.0)
    );
    assert_eq!(session.ask(&two, "logging/setLevel", "{\"level\":\"error\"}").await.status(), 200);
    // Only the owner hears of it.
    server.offer(Offer::tools(&["t", "u"]));
    feed.changed("tools");
    let (_, told) = event(&mut stream).await.expect("a notice");
    assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
    assert_eq!(session.tools(&two).await, ["s_t", "s_u"]);
    one.stop().await;
    within("its stream ends with it", stream.rest()).await;
    assert_eq!(
        session.tools(&two).await.len(),
        1,
        "as far as this replica was told: without Redis that is its own watch"
    );
    let reply = two.send(session.call("7", "s_t", "{}")).await;
    assert_eq!(reply.result()["content"][0]["text"], "s:t", "{reply:?}");
    let _stream = session.stream(&two, session.get()).await;
    two.metric_becomes("gatehouse_sessions", &[], 1.0).await;
}

/// Covers: R-37, H-65: an owner that dies under a call of a session: the client is told, and it is not done again; a
/// list is just asked for again.
#[tokio::test(flavor = "multi_thread")]
async fn r_37_the_owner_of_a_session_is_killed_during_a_call() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let mut calls = server.hold("tools/call");
    let (one, two) = two(&server).await;
    let session = Session::open(&one, "2025-11-25", "{}").await;
    // Without events there is no head to an answer before it is whole.
    let plain = session.call("3", "s_t", "{}").set("Accept", "application/json");
    let running = tokio::spawn(client::send(two.listen, plain));
    let _exchange = calls.next().await;
    kill(one).await;
    let reply = within("an answer", running).await.unwrap();
    assert_eq!((reply.status(), &reply.message()["id"]), (200, &json!(3)), "{reply:?}");
    assert_eq!(reply.result()["isError"], true);
    assert!(reply.text().contains("may have had effects"), "{reply:?}");
    assert_eq!(session.tools(&two).await, ["s_t"], "and the session goes on");
    assert_eq!(server.requests("tools/call").len(), 1);
}

/// The caller goes along, its token does not: neither it nor what it asks of whom stands between replicas in words, and
/// nobody else's session or state is its own there. Covers: A-30, A-61, R-26.
#[tokio::test(flavor = "multi_thread")]
async fn the_caller_goes_along_and_the_token_does_not() {
    let server = Server::legacy("s", Offer::tools(&["t", "u"])).await;
    let mut asking = Asking::at(&server, "tools/call");
    let keys: Vec<String> = ["alice", "bob"]
        .map(|who| {
            let hex = digest(&secret(who));
            format!(
                "[[auth.key]]\nname = \"{who}\"\nsha256 = \"{hex}\"\nclaims = {{ groups = [\"{who}\"] }}\n"
            )
        })
        .into();
    let auth = format!(
        "[auth]\n{}[[grant]]\nto = {{ groups = [\"alice\"] }}\nservers = [\"s\"]\ntools = [\"t\"]\n\
         [[grant]]\nto = {{ groups = [\"bob\"] }}\nservers = [\"s\"]\ntools = [\"*\"]\n",
        keys.join("")
    );
    let gate = Gate::new(Mode::Refuse).await;
    let advertise = format!("{CLUSTER}advertise = \"{}\"", gate.address);
    let with =
        |cluster: &str| Setup::new().gateway(KEYS).toml(cluster).toml(&auth).http("s", &server.url(), "");
    let (one, two) = (with(&advertise).start().await, with(CLUSTER).start().await);
    let wire = Wiretap::between(&gate, listen_of(&one).await).await;
    let as_who =
        |request: Request, who: &str| request.with("Authorization", format!("Bearer {}", secret(who)));

    let fields = vec![("Authorization".to_owned(), format!("Bearer {}", secret("alice")))];
    let session = Session::with(&one, "2025-11-25", ALL, fields).await;
    assert_eq!(session.tools(&two).await, ["s_t"], "her grants, at the other replica");
    let other = Session::with(&two, "2025-11-25", ALL, bobs()).await;
    let stolen = other.request("1", "tools/list", "{}").set("Mcp-Session-Id", &session.id);
    assert_eq!(two.send(stolen).await.status(), 404, "A-61");

    let (reply, exchange) = tokio::join!(one.send(as_who(first().request(), "alice")), async {
        let exchange = asking.call().await;
        exchange.event(&elicit("1"));
        exchange
    });
    let questions = Questions::of(&reply);
    let retry = || questions.answered(CALL, &[ACCEPT]).request();
    let reply = two.send(as_who(retry(), "bob")).await;
    assert!(reply.text().contains("not valid for this request"), "{reply:?}");
    let (reply, ()) = tokio::join!(two.send(as_who(retry(), "alice")), async {
        asking.answers.wait("1").await;
        exchange.finish(&content("done"));
    });
    assert_eq!(said(&reply), "done");
    let told = wire.text();
    assert!(told.contains("POST /letter") && told.contains("requestState"), "it went by this way");
    for (what, word) in [("a token", "s3cret"), ("who calls", "alice"), ("a header", "uthorization")] {
        assert!(!told.contains(word), "{what} is on the wire:\n{told}");
    }
}

/// `cluster.listen` is no door for clients: it takes letters only, and says nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn the_door_for_replicas_takes_letters_only() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let one = setup(&server).start().await;
    let door = listen_of(&one).await;
    for request in [
        call("s_t", "{}").request(),
        Request::new("GET", "/metrics"),
        Request::new("GET", "/mcp"),
        Request::new("GET", "/.well-known/oauth-protected-resource/mcp"),
    ] {
        let target = request.target.clone();
        assert_eq!(client::send(door, request).await.verdict(), (404, None), "{target}");
    }
    let body = call("s_t", "{}").text();
    for seal in ["", "1.AAAA", "1.", "x", &"A".repeat(4096)] {
        let letter =
            Request { body: format!("{seal}\n{body}").into_bytes(), ..Request::new("POST", "/letter") };
        let reply = client::send(door, letter).await;
        assert_eq!(
            (reply.verdict(), reply.header("gatehouse-refused").as_deref()),
            ((421, None), Some("seal"))
        );
    }
    let large = Request { body: vec![b'x'; 6 << 20], ..Request::new("POST", "/letter") };
    assert_eq!(client::send(door, large).await.status(), 413);
    assert!(server.requests("tools/call").is_empty());
    one.stop().await;
}

fn secret(who: &str) -> String {
    format!("s3cret-key-of-{who}-that-is-long")
}

fn bobs() -> Vec<(String, String)> {
    vec![("Authorization".to_owned(), format!("Bearer {}", secret("bob")))]
}

/// Where a gateway listens for other replicas, wherever it says that it does.
async fn listen_of(gateway: &Gateway) -> SocketAddr {
    let line = gateway.log.wait("it listens for others", |line| line.contains("for other replicas")).await;
    text::value(&line)["listen"].as_str().unwrap().parse().unwrap()
}

/// What passes between two replicas, both ways.
struct Wiretap(Arc<Mutex<Vec<u8>>>);

impl Wiretap {
    /// Lets a gate lead to an address by way of this.
    async fn between(gate: &Gate, to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        gate.set(Mode::Pass(listener.local_addr().unwrap())).await;
        let all = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (near_in, near_out) = near.into_split();
                let (far_in, far_out) = TcpStream::connect(to).await.unwrap().into_split();
                tokio::spawn(copy(near_in, far_out, Arc::clone(&all)));
                tokio::spawn(copy(far_in, near_out, Arc::clone(&all)));
            }
        });
        Self(heard)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, heard: Arc<Mutex<Vec<u8>>>) {
    let mut bytes = vec![0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        heard.lock().unwrap().extend(&bytes[..length]);
        if to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}
