//! Streams of legacy sessions: a disconnect is no cancel, what was lost is taken up again, `notifications/cancelled`
//! cancels exactly one request, what is told apart from requests is told once (G-32..G-38, G-75, S-50..S-55).

use serde_json::json;
use tokio::task::JoinHandle;

use crate::support::cast::{caller, key};
use crate::support::client::{self, Reply};
use crate::support::exchange::Exchange;
use crate::support::feed::{Feed, TELLS, declare, names};
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::{Session, event, id_of};
use crate::support::request::Request;
use crate::support::server::{Held, Offer, Server};
use crate::support::table::RESULT;
use crate::support::{eventually, json, within};

const RESULT_TEXT: &str = r#"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#;

async fn one() -> (Server, Gateway) {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway =
        Setup::new().gateway("keepalive_interval = \"100ms\"").http("s", &server.url(), "").start().await;
    (server, gateway)
}

/// Sends a request and does not wait.
fn sent(gateway: &Gateway, request: Request) -> JoinHandle<Reply> {
    tokio::spawn(client::send(gateway.listen, request))
}

/// A call that wants progress under this token (JSON text).
fn with_progress(session: &Session, id: &str, token: &str) -> Request {
    let params = format!("{{\"name\":\"s_t\",\"_meta\":{{\"progressToken\":{token}}}}}");
    session.request(id, "tools/call", &params)
}

fn progress(exchange: &Exchange, count: u32) {
    let token = exchange.seen.raw(&["params", "_meta", "progressToken"]).expect("a token of the hop");
    exchange.event(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{count}}}}}"#
    ));
}

/// Covers: G-35, G-36, G-37, F-044, F-085: the call goes on without its client, who takes up its stream, that one only,
/// as often as need be; who names an event of another session or none gets nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn g_36_what_was_lost_is_taken_up_again() {
    let (server, gateway) = one().await;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut held = server.hold("tools/call");
        let session = Session::open(&gateway, version, "{}").await;
        let other = Session::open(&gateway, version, "{}").await;
        let request = with_progress(&session, "\"x\"", "\"7\"");
        let serving = async {
            let exchange = held.next().await;
            exchange.open_events();
            progress(&exchange, 1);
            exchange
        };
        let (mut answer, mut exchange) = tokio::join!(session.stream(&gateway, request), serving);
        let first = answer.next().await.unwrap();
        let primed = version == "2025-11-25";
        assert_eq!(first.data.as_deref() == Some(""), primed, "G-37: {version}: {first:?}");
        let start = id_of(&first);
        let message = if primed {
            event(&mut answer).await.unwrap()
        } else {
            (start.clone(), json::value(&first.data.unwrap()))
        };
        assert_eq!(message.1["params"], json!({"progressToken": "7", "progress": 1}), "F-044");
        drop(answer);
        gateway.metric_becomes("gatehouse_connections", &[], 0.0).await;
        assert!(!exchange.is_gone(), "G-35");
        progress(&exchange, 2);
        exchange.finish(RESULT_TEXT);

        for behind in [&message.0, &message.0] {
            let mut again = session.stream(&gateway, session.resume(behind)).await;
            assert_eq!(event(&mut again).await.unwrap().1["params"]["progress"], 2);
            let (last, result) = event(&mut again).await.unwrap();
            assert_eq!(
                (&result["id"], &result["result"]["content"][0]["text"]),
                (&json!("x"), &json!("done"))
            );
            assert_eq!(event(&mut again).await, None, "G-38: it ends with the response");
            let done = gateway.send(session.resume(&last)).await;
            assert_eq!(done.verdict(), (405, None), "nothing is left of it, and nothing else is given");
        }
        let from_start = if primed { start } else { message.0.replace("-1", "-0") };
        let mut whole = session.stream(&gateway, session.resume(&from_start)).await;
        assert_eq!(event(&mut whole).await.unwrap().1["params"]["progress"], 1, "{from_start}");

        let junk = "9".repeat(10 << 10);
        for (who, unknown) in [
            (&other, &*message.0),
            (&session, "0"),
            (&session, "x-y-1"),
            (&session, &junk),
            (&session, "a-99999999999999999999999"),
        ] {
            let mut fresh = who.stream(&gateway, who.resume(unknown)).await;
            for _ in 0..3 {
                let event = fresh.next().await.unwrap();
                assert_eq!(event.data.unwrap_or_default(), "", "F-085: {unknown:.40}");
            }
        }
    }
    gateway.stop().await;
}

/// Covers: G-75, G-47, M-04, F-019, F-042: cancels one request: of this session, of this id, of this type; no response comes.
#[tokio::test(flavor = "multi_thread")]
async fn g_75_a_cancel_is_for_one_request() {
    let (server, gateway) = one().await;
    let mut held = server.hold("tools/call");
    let session = Session::open(&gateway, "2025-06-18", "{}").await;
    let other = Session::open(&gateway, "2025-06-18", "{}").await;
    let mut running = Vec::new();
    for (who, id) in [(&session, "1"), (&session, "\"1\""), (&other, "\"1\""), (&session, "\"\\u0061\"")] {
        let reply = sent(&gateway, who.call(id, "s_t", "{}"));
        running.push((reply, held.next().await));
    }
    let cancel = |id: &str| {
        session.notification("notifications/cancelled", &format!("{{\"requestId\":{id},\"reason\":\"r\"}}"))
    };
    for unknown in ["2", "\"2\"", "null", "[\"1\"]"] {
        assert_eq!(gateway.send(cancel(unknown)).await.verdict(), (202, None), "{unknown}");
    }
    for (id, at) in [("\"1\"", 1), ("\"a\"", 3)] {
        assert_eq!(gateway.send(cancel(id)).await.verdict(), (202, None));
        running[at].1.gone().await;
    }
    gateway.metric_becomes("gatehouse_tool_calls_total", &[("outcome", "cancelled")], 2.0).await;
    for (at, (reply, mut exchange)) in running.into_iter().enumerate() {
        if at % 2 == 1 {
            let reply = reply.await.unwrap();
            assert_eq!(
                (reply.status(), reply.texts().len()),
                (200, 0),
                "no response to what was cancelled: {reply:?}"
            );
            continue;
        }
        assert!(!exchange.is_gone(), "{at}");
        exchange.result(RESULT_TEXT);
        assert_eq!(reply.await.unwrap().verdict(), (200, Some(RESULT)));
    }
    gateway.metric_becomes("gatehouse_inflight", &[], 0.0).await;
    gateway.stop().await;
}

/// Covers: G-24, F-028: the end of a session is the end of what runs in it.
#[tokio::test(flavor = "multi_thread")]
async fn g_24_delete_cancels_what_runs() {
    let (server, gateway) = one().await;
    let mut held = server.hold("tools/call");
    let session = Session::open(&gateway, "2025-11-25", "{}").await;
    let mut stream = session.stream(&gateway, session.get()).await;
    let reply = sent(&gateway, session.call("1", "s_t", "{}"));
    let mut exchange = held.next().await;
    assert_eq!(gateway.send(session.delete()).await.status(), 200);
    exchange.gone().await;
    let reply = reply.await.unwrap();
    assert_eq!((reply.status(), reply.code()), (200, Some(-32603)), "{reply:?}");
    while stream.next().await.is_some() {}
    gateway.metric_becomes("gatehouse_inflight", &[], 0.0).await;
    gateway.stop().await;
}

/// A server that tells of everything, and a gateway that knows its lists.
async fn told() -> (Server, Held, Gateway, Feed) {
    let server = Server::modern("s", changing("zero")).await;
    declare(&server, TELLS);
    let mut feeds = server.hold("subscriptions/listen");
    let gateway =
        Setup::new().gateway("keepalive_interval = \"100ms\"").http("s", &server.url(), "").launch().await;
    let feed = Feed::accept(feeds.next().await);
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        server.asked(method, 1).await;
        names(&mut gateway.connect().await, method).await;
    }
    (server, feeds, gateway, feed)
}

fn changing(name: &str) -> Offer {
    Offer {
        resources: ["x://a", "x://b"].map(|uri| format!("{{\"uri\":\"{uri}\",\"name\":\"n\"}}")).to_vec(),
        ..Offer::tools(&[name])
    }
}

/// Covers: G-32, G-33, S-50, S-51, S-54, F-030: each change is told once, on the stream opened last; the one before stays
/// open and is heard again; what changes while there is none is told when there is.
#[tokio::test(flavor = "multi_thread")]
async fn s_50_a_change_is_told_on_one_stream() {
    let (server, _feeds, gateway, feed) = told().await;
    let session = Session::open(&gateway, "2025-06-18", "{}").await;
    let changed = |name: &str| {
        server.offer(changing(name));
        feed.changed("tools");
    };
    let tools = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let mut first = session.stream(&gateway, session.get()).await;
    changed("one");
    let (at_one, message) = event(&mut first).await.unwrap();
    assert_eq!(message, tools, "no subscription has an id here");
    let mut second = session.stream(&gateway, session.get()).await;
    changed("two");
    assert_eq!(event(&mut second).await.unwrap().1, tools);
    for _ in 0..3 {
        assert_eq!(first.next().await.unwrap().data, None, "comments only on the other");
    }
    drop(second);
    eventually("the second stream is gone", async || {
        gateway.metric("gatehouse_connections", &[]).await == 1.0
    })
    .await;
    changed("three");
    let (at_three, message) = event(&mut first).await.unwrap();
    assert_eq!(message, tools, "the first is heard again");
    drop(first);
    gateway.metric_becomes("gatehouse_connections", &[], 0.0).await;
    changed("four");
    // The catalogue knows before the session tells.
    eventually("the new list", async || session.tools(&gateway).await == ["s_four"]).await;
    let mut third = session.stream(&gateway, session.get()).await;
    assert_eq!(event(&mut third).await.unwrap().1, tools, "S-51: told once there is a stream");
    let mut replayed = session.stream(&gateway, session.resume(&at_one)).await;
    let (at_two, _) = event(&mut replayed).await.unwrap();
    assert_ne!(at_two, at_three);
    assert_eq!(event(&mut replayed).await.unwrap().0, at_three, "G-36: what came behind it, in order");
    gateway.stop().await;
}

/// Covers: S-51: a caller with grants has its lists watched anew with each stream; what changes until the new watch stands,
/// which a slow server delays, is told by the one before.
#[tokio::test(flavor = "multi_thread")]
async fn s_51_nothing_is_missed_while_a_stream_is_opened_anew() {
    let server = Server::modern("s", changing("zero")).await;
    let slow = Server::modern("h", Offer::tools(&["u"])).await;
    declare(&server, TELLS);
    declare(&slow, TELLS);
    let mut feeds = server.hold("subscriptions/listen");
    // It never says that it listens.
    let _silent = slow.hold("subscriptions/listen");
    let grant = "[[grant]]\nservers = [\"*\"]\ntools = [\"*\"]\n";
    let gateway = Setup::new()
        .gateway("keepalive_interval = \"100ms\"")
        .http("s", &server.url(), "")
        .http("h", &slow.url(), "")
        .toml(&caller("bot", ""))
        .toml(grant)
        .launch()
        .await;
    let feed = Feed::accept(feeds.next().await);
    let own = vec![("Authorization".to_owned(), format!("Bearer {}", key("bot")))];
    let session = Session::with(&gateway, "2025-11-25", "{}", own).await;
    eventually("all lists", async || session.tools(&gateway).await == ["s_zero", "h_u"]).await;
    let mut last = session.stream(&gateway, session.get()).await;
    for name in ["one", "two", "three"] {
        drop(last);
        gateway.metric_becomes("gatehouse_listen_streams", &[], 0.0).await;
        let opening = tokio::spawn({
            let (session, listen) = (session.clone(), gateway.listen);
            async move { client::Connection::open(listen).await.begin(session.get()).await }
        });
        // It has its place, so it is being opened.
        gateway.metric_becomes("gatehouse_listen_streams", &[], 1.0).await;
        server.offer(changing(name));
        feed.changed("tools");
        last = opening.await.unwrap();
        let (_, message) = within("a notice", event(&mut last)).await.unwrap();
        assert_eq!(message["method"], "notifications/tools/list_changed");
    }
    gateway.stop().await;
}

/// Covers: S-55, S-54, S-02, M-42: single resources: told to the session that subscribed, until it unsubscribes.
#[tokio::test(flavor = "multi_thread")]
async fn s_55_resources_are_subscribed_by_session() {
    let (server, _feeds, gateway, _feed) = told().await;
    server.on("subscriptions/listen", |seen| {
        let (exchange, answer) = Exchange::new(seen.clone());
        let feed = Feed::accept(exchange);
        // Kept open for as long as the test runs.
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                feed.updated("x://a");
                feed.updated("x://b");
            }
        });
        answer
    });
    let session = Session::open(&gateway, "2025-11-25", "{}").await;
    assert_eq!(session.hello["capabilities"]["resources"], json!({"listChanged": true, "subscribe": true}));
    let ask = async |method: &str, uri: &str| {
        session.ask(&gateway, method, &format!("{{\"uri\":\"{uri}\"}}")).await
    };
    let unknown = ask("resources/subscribe", "y://none").await;
    assert_eq!(
        (unknown.verdict(), unknown.message()["error"]["data"].clone()),
        ((200, Some(-32002)), json!({"uri": "y://none"}))
    );
    assert_eq!(session.ask(&gateway, "resources/subscribe", "{}").await.code(), Some(-32602));
    for _ in 0..2 {
        assert_eq!(ask("resources/subscribe", "x://a").await.result_text(), "{}", "also again");
    }
    let other = Session::open(&gateway, "2025-11-25", "{}").await;
    let (mut mine, mut theirs) =
        (session.stream(&gateway, session.get()).await, other.stream(&gateway, other.get()).await);
    for _ in 0..3 {
        let (_, message) = event(&mut mine).await.unwrap();
        assert_eq!(
            message,
            json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "x://a"}})
        );
    }
    for _ in 0..3 {
        assert_eq!(theirs.next().await.unwrap().data.unwrap_or_default(), "", "nothing of another session's");
    }
    assert_eq!(ask("resources/unsubscribe", "x://a").await.result_text(), "{}");
    assert_eq!(ask("resources/unsubscribe", "x://a").await.result_text(), "{}");
    eventually("silence", async || {
        let quiet = [mine.next().await.unwrap(), mine.next().await.unwrap(), mine.next().await.unwrap()];
        quiet.iter().all(|event| event.data.is_none())
    })
    .await;
    let labels = [("method", "resources/subscribe"), ("era", "legacy"), ("outcome", "ok")];
    assert!(gateway.metric("gatehouse_requests_total", &labels).await >= 1.0);
    assert_eq!(
        gateway.metric("gatehouse_listen_streams", &[]).await,
        2.0,
        "what clients hold open, not what sessions watch"
    );
    gateway.stop().await;
}

/// Covers: S-41, F-052: open streams of sessions do not hold up a stop.
#[tokio::test(flavor = "multi_thread")]
async fn s_41_a_stop_ends_the_streams_of_sessions() {
    let (_server, gateway) = one().await;
    let mut streams = Vec::new();
    for _ in 0..10 {
        let session = Session::open(&gateway, "2025-11-25", "{}").await;
        streams.push(session.stream(&gateway, session.get()).await);
    }
    let ends = tokio::spawn(async move {
        for mut stream in streams {
            while stream.next().await.is_some() {}
        }
    });
    gateway.stop().await;
    ends.await.unwrap();
}

/// Covers: F-087, M-04: in one session a slow call and an open stream hold up nothing; any number of requests have one id.
#[tokio::test(flavor = "multi_thread")]
async fn f_087_requests_of_a_session_run_side_by_side() {
    let (server, gateway) = one().await;
    let session = Session::open(&gateway, "2025-06-18", "{}").await;
    let _stream = session.stream(&gateway, session.get()).await;
    let mut held = server.hold("tools/call");
    let mut slow = Vec::new();
    for _ in 0..3 {
        slow.push((sent(&gateway, session.call("1", "s_t", "{}")), held.next().await));
    }
    server.release("tools/call");
    for _ in 0..20 {
        assert_eq!(gateway.send(session.call("1", "s_t", "{}")).await.verdict(), (200, Some(RESULT)));
    }
    assert_eq!(session.ask(&gateway, "ping", "{}").await.status(), 200);
    for (at, (reply, exchange)) in slow.into_iter().enumerate().rev() {
        exchange.result(&format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"{at}\"}}]}}"));
        assert_eq!(reply.await.unwrap().result()["content"][0]["text"], at.to_string());
    }
    gateway.stop().await;
}
