//! Legacy clients at legacy servers, through both doors: whose session is used, and who is asked (G-49, R-58).

use serde_json::{Value, json};

use crate::support::asking::{Asking, FORM, content, elicit};
use crate::support::client::Connection;
use crate::support::counter::Counter;
use crate::support::exchange::Answer;
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::{Session, event};
use crate::support::server::{Offer, Server};
use crate::support::{eventually, scale};

async fn counted(gateway: &Gateway, session: &Session) -> Value {
    let reply = gateway.send(session.call("1", "c_count", "{}")).await;
    reply.result()["structuredContent"]["count"].clone()
}

/// Covers: G-49, G-24, G-46, issue 5 "a legacy stateful counter server": each session of a client counts by itself, or all of one
/// caller together, or all; what a session held at the server ends with it.
#[tokio::test(flavor = "multi_thread")]
async fn g_49_a_counter_counts_for_sessions_callers_or_all() {
    let cases = [
        ("", [1, 1, 2, 2], 2),
        ("session_scope = \"session\"", [1, 1, 2, 2], 2),
        ("session_scope = \"principal\"", [1, 2, 3, 4], 1),
        ("session_scope = \"shared\"", [1, 2, 3, 4], 1),
    ];
    for (scope, counts, sessions) in cases {
        let counter = Counter::start().await;
        let gateway = Setup::new().http("c", &counter.server.url(), scope).start().await;
        let first = Session::open(&gateway, "2025-06-18", "{}").await;
        let second = Session::open(&gateway, "2025-11-25", "{}").await;
        for (session, count) in [&first, &second, &first, &second].into_iter().zip(counts) {
            assert_eq!(counted(&gateway, session).await, json!(count), "{scope}");
        }
        assert_eq!(counter.counting(), sessions, "{scope}");
        if sessions == 2 {
            let own = counter.sessions()[0].clone();
            assert_eq!(gateway.send(first.delete()).await.status(), 200);
            eventually("the server's session ends with the client's", async || {
                counter.ended().contains(&own)
            })
            .await;
            assert_eq!(counted(&gateway, &second).await, json!(3), "the other one goes on");
        }
        gateway.stop().await;
    }
}

/// Covers: G-42, F-002, issue 5 "server restarts in between": a server that forgets all sessions costs each of its clients one
/// handshake more and no call.
#[tokio::test(flavor = "multi_thread")]
async fn g_42_clients_do_not_notice_that_a_server_forgot_their_sessions() {
    let counter = Counter::start().await;
    // The usual answers know which sessions there are.
    counter.server.release("tools/call");
    let gateway = Setup::new().http("c", &counter.server.url(), "").start().await;
    let mut sessions = Vec::new();
    for _ in 0..10 * scale() {
        sessions.push(Session::open(&gateway, "2025-11-25", "{}").await);
    }
    let calls = async || {
        for session in &sessions {
            let reply = gateway.send(session.call("7", "c_count", "{}")).await;
            assert_ne!(reply.result()["isError"], json!(true), "{reply:?}");
            assert_eq!(reply.message()["id"], json!(7));
        }
    };
    calls().await;
    let before = counter.server.requests("initialize").len();
    for restarts in 1..=3 {
        counter.server.wipe_sessions();
        calls().await;
        let handshakes = counter.server.requests("initialize").len() - before;
        assert!(
            handshakes <= restarts * (sessions.len() + 1),
            "{handshakes}: one each, and the gateway's own"
        );
    }
    gateway.stop().await;
}

/// Covers: R-58, R-51: what a legacy server asks during a call reaches the client on the stream of its call, untouched, and the
/// answer goes back the same way.
#[tokio::test(flavor = "multi_thread")]
async fn r_58_a_servers_question_is_the_clients() {
    let server = Server::legacy("s", Offer::tools(&["t"])).await;
    let mut asking = Asking::at(&server, "tools/call");
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let session = Session::open(&gateway, "2025-11-25", r#"{"elicitation":{}}"#).await;

    let mut stream = Connection::open(gateway.listen).await.begin(session.call("\"c\"", "s_t", "{}")).await;
    let call = asking.call().await;
    call.event(&elicit("\"q\""));
    let (_, question) = event(&mut stream).await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let form: Value = serde_json::from_str(FORM).unwrap();
    assert_eq!(question["params"]["requestedSchema"], form["requestedSchema"]);
    assert_eq!(question["params"]["message"], form["message"]);

    let accepted: Value = serde_json::from_str(r#"{"action":"accept","content":{"name":"x"}}"#).unwrap();
    assert_eq!(gateway.send(session.answer(&question, &accepted)).await.status(), 202);
    let answer: Value = serde_json::from_str(&asking.answers.result("\"q\"").await).unwrap();
    assert_eq!(answer, accepted);
    call.finish(&content("done"));
    let (_, last) = event(&mut stream).await.unwrap();
    assert_eq!((&last["id"], &last["result"]["content"][0]["text"]), (&json!("c"), &json!("done")));
    assert!(last["result"].get("resultType").is_none(), "G-81");
    assert_eq!(server.requests("tools/call").len(), 1, "never a second execution");
    gateway.metric_becomes("gatehouse_parked_calls", &[], 0.0).await;
    gateway.stop().await;
}

/// Covers: R-36, M-40: calls that wait for a legacy client are bounded as those of modern clients are: `max_parked` of one caller
/// at a time, each round for `park_timeout`.
#[tokio::test(flavor = "multi_thread")]
async fn r_36_waiting_calls_of_a_session_are_bounded() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    server.on("tools/call", |seen| {
        if seen.raw(&["params", "requestState"]).is_some() {
            return Answer::result(seen, r#"{"resultType":"complete","content":[]}"#);
        }
        let form = format!(r#"{{"who":{{"method":"elicitation/create","params":{FORM}}}}}"#);
        let asks = r#"{"resultType":"input_required","inputRequests":"#;
        Answer::result(seen, &format!(r#"{asks}{form},"requestState":"x"}}"#))
    });
    let bounds = "max_parked = 1\npark_timeout = \"2s\"\ndrain_timeout = \"1s\"";
    let gateway = Setup::new().gateway(bounds).http("s", &server.url(), "").start().await;
    let session = Session::open(&gateway, "2025-11-25", r#"{"elicitation":{}}"#).await;

    let mut waiting = Connection::open(gateway.listen).await.begin(session.call("1", "s_t", "{}")).await;
    let (_, question) = event(&mut waiting).await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let answer = gateway.send(session.call("2", "s_t", "{}")).await.message();
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(2), &json!(true)), "{answer}");
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("max_parked"), "{answer}");
    assert_eq!(gateway.metric("gatehouse_limited_total", &[("limit", "max_parked")]).await, 1.0);

    // Nobody answers: the round ends, and with it the place is free again.
    while let Some((_, message)) = event(&mut waiting).await {
        assert!(
            message.get("id").is_none_or(|id| *id == json!(1) || message["method"].is_string()),
            "{message}"
        );
    }
    let mut next = Connection::open(gateway.listen).await.begin(session.call("3", "s_t", "{}")).await;
    let (_, question) = event(&mut next).await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    gateway.stop().await;
}
