//! A storm of questions: many users parked on one legacy server, answers late and in any order, some never, some twice,
//! some tampered with: issue 5; R-05, R-32, R-33, R-36, F-043.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::parked_stdio::ASKS;
use crate::support::asking::{ALL, Questions, ask, content, retry, said};
use crate::support::cast::digest;
use crate::support::child::Child;
use crate::support::client::Reply;
use crate::support::exchange::{Answer, Exchange};
use crate::support::gateway::Setup;
use crate::support::inside::{Inside, later};
use crate::support::measure::measured;
use crate::support::request::{Mcp, Request, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::PARAMS;
use crate::support::{eventually, scale};

/// Users in the storm. A debug build takes a few seconds for that many; the number does not grow with `GH_SCALE` beyond
/// the 200 that were asked for, the rounds do.
const USERS: usize = 200;
/// Requests on their way at once.
const AT_ONCE: usize = 32;

/// Who answers how: a tenth never, a twentieth twice, a twentieth with a state that was changed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    Abandons,
    Twice,
    Tampers,
    Answers,
}

fn habit(user: usize) -> Habit {
    match user % 20 {
        3 | 13 => Habit::Abandons,
        7 => Habit::Twice,
        11 => Habit::Tampers,
        _ => Habit::Answers,
    }
}

fn key(user: usize) -> String {
    format!("the-key-of-user-{user}-long-enough")
}

fn params(user: usize) -> String {
    format!("{{\"name\":\"s_t\",\"arguments\":{{\"user\":{user}}}}}")
}

fn by(user: usize, call: Mcp) -> Request {
    call.request().with("Authorization", format!("Bearer {}", key(user)))
}

fn answer(user: usize) -> String {
    format!("{{\"action\":\"accept\",\"content\":{{\"secret\":\"of {user}\"}}}}")
}

/// Answers a call with what its own question is answered; counts those given up.
async fn serve(exchange: Exchange, waiting: Waiting) {
    let user = exchange.seen.raw(&["params", "arguments", "user"]).unwrap();
    let (sender, receiver) = oneshot::channel();
    // Every session counts its own requests from 1, as servers do.
    let session = exchange.seen.header("mcp-session-id").unwrap();
    waiting.lock().unwrap().insert(session, sender);
    exchange.open_events();
    let params = format!(
        "{{\"message\":\"for {user}\",\"requestedSchema\":{{\"type\":\"object\",\"properties\":{{}}}}}}"
    );
    exchange.event(&ask("1", "elicitation/create", &params));
    let answer: String = receiver.await.unwrap();
    if !answer.contains("cancel") {
        exchange.finish(&content(&format!("{user}: {answer}")));
    }
}

type Waiting = Arc<Mutex<HashMap<String, oneshot::Sender<String>>>>;

/// A server on which every call asks.
async fn asking() -> (Server, Arc<Mutex<Vec<String>>>) {
    let server = Server::legacy("s", Offer::tools(&["t"])).await;
    let (waiting, answers) = (Waiting::default(), Arc::new(Mutex::new(Vec::new())));
    let (given, kept) = (Arc::clone(&waiting), Arc::clone(&answers));
    server.on("POST", move |seen| {
        let session = seen.header("mcp-session-id").unwrap();
        kept.lock().unwrap().push(seen.text().to_owned());
        let result = seen.raw(&["result"]).unwrap_or_default();
        if let Some(waiting) = given.lock().unwrap().remove(&session) {
            let _ = waiting.send(result);
        }
        Answer::new(202, "", "")
    });
    server.on("tools/call", move |seen| {
        let (exchange, answer) = Exchange::new(seen.clone());
        tokio::spawn(serve(exchange, Arc::clone(&waiting)));
        answer
    });
    (server, answers)
}

/// One user comes back in his way. Nothing of what he does may touch another's call.
async fn come_back(gateway: &Inside, user: usize, questions: &Questions) {
    let params = params(user);
    let first = ("tools/call", params.as_str());
    let send = async |by_whom: usize, call: Mcp| gateway.send(by(by_whom, call)).await;
    let answered = || questions.answered(first, &[&answer(user)]);
    let done = |reply: &Reply| {
        let text = said(reply);
        let own = text.strip_prefix(&format!("{user}: ")).unwrap_or_else(|| panic!("{reply:?}"));
        let own: Value = serde_json::from_str(own).unwrap();
        assert_eq!(own["content"]["secret"], format!("of {user}"));
    };
    match habit(user) {
        Habit::Abandons => {}
        Habit::Answers => done(&send(user, answered()).await),
        Habit::Twice => {
            let (one, two) = tokio::join!(send(user, answered()), send(user, answered()));
            let (ok, other) = if one.code().is_none() { (one, two) } else { (two, one) };
            done(&ok);
            match other.code() {
                // He came while the first was at it, or after it.
                Some(code) => assert_eq!(code, PARAMS),
                None => done(&other),
            }
        }
        Habit::Tampers => {
            let bare = questions.state.trim_matches('"');
            let at = 20 + user % 40;
            let other = if bare.as_bytes()[at] == b'A' { "B" } else { "A" };
            let changed = format!("\"{}{other}{}\"", &bare[..at], &bare[at + 1..]);
            let responses = format!("{{\"{}\":{}}}", questions.keys[0], answer(user));
            let reply = send(user, retry(first, &changed, Some(&responses))).await;
            assert_eq!(reply.code(), Some(PARAMS), "{reply:?}");
            // A neighbour tries his luck with it.
            let reply = send((user + 1) % USERS, answered()).await;
            assert_eq!(reply.code(), Some(PARAMS), "{reply:?}");
            done(&send(user, answered()).await);
        }
    }
}

/// Covers: issue 5, "Elicitation storm": each answer reaches its own call, tampering is an error, every park ends, and
/// all that counts them is back at zero.
#[tokio::test]
async fn elicitation_storm() {
    let (server, answers) = asking().await;
    let more = format!("max_concurrency = {}\nsession_scope = \"auto\"", USERS + 10);
    let mut setup = Setup::new().http("s", &server.url(), &more);
    for user in 0..USERS {
        setup = setup.toml(&format!("[[auth.key]]\nname = \"u{user}\"\nsha256 = \"{}\"", digest(&key(user))));
    }
    let gateway = Inside::start(setup).await;
    let began = std::time::Instant::now();
    for round in 0..scale() {
        answers.lock().unwrap().clear();
        let asked = stream::iter(0..USERS).map(async |user| {
            let call = mcp("tools/call", params(user)).capabilities(ALL);
            let questions = Questions::of(&gateway.send(by(user, call)).await);
            assert!(questions.text.contains(&format!("\"for {user}\"")), "{}", questions.text);
            (user, questions)
        });
        let mut parked: Vec<(usize, Questions)> = asked.buffer_unordered(AT_ONCE).collect().await;
        assert_eq!(gateway.metric("gatehouse_parked_calls").await, USERS as f64);
        // In an order that has nothing to do with that of the questions.
        parked.sort_by_key(|(user, _)| (user * 7919 + round * 31) % 1009);
        let back =
            stream::iter(&parked).map(async |(user, questions)| come_back(&gateway, *user, questions).await);
        back.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
        let abandoned = (0..USERS).filter(|user| habit(*user) == Habit::Abandons).count();
        let at_rest = async || gateway.metric("gatehouse_parked_calls").await == abandoned as f64;
        eventually("only those that nobody answers are left", at_rest).await;
        assert_eq!(answers.lock().unwrap().len(), USERS - abandoned, "each answer once");
        later(Duration::from_secs(301)).await;
        for gauge in ["gatehouse_parked_calls", "gatehouse_inflight{server=\"s\"}"] {
            eventually(&format!("{gauge} is zero"), async || gateway.metric(gauge).await == 0.0).await;
        }
        server.asked("notifications/cancelled", abandoned * (round + 1)).await;
        let answers = answers.lock().unwrap();
        let cancels = answers.iter().filter(|text| text.contains(r#""result":{"action":"cancel"}"#)).count();
        assert_eq!((cancels, answers.len()), (abandoned, USERS));
        for user in (0..USERS).filter(|user| habit(*user) != Habit::Abandons) {
            let own = format!("\"of {user}\"");
            assert_eq!(answers.iter().filter(|text| text.contains(&own)).count(), 1, "{own}");
        }
    }
    assert_eq!(server.requests("tools/call").len(), USERS * scale(), "never a second execution");
    assert_eq!(server.requests("notifications/cancelled").len(), USERS / 10 * scale());
    measured(&format!("{USERS} users parked, {} times", scale()), began.elapsed());
    gateway.stop().await;
}

/// Covers: issue 5: eight users parked at once on a stdio server with a pool of eight processes: each question and each
/// answer is its own call's, in any order.
#[tokio::test(flavor = "multi_thread")]
async fn eight_on_a_pool_of_eight() {
    let child = Child::python(ASKS);
    let more = "processes = 8\ntimeout = \"60s\"\nmax_timeout = \"10m\"\nprobe_timeout = \"60s\"";
    let gateway = Setup::new().stdio("p", &child.argv(), more).start().await;
    let params = |user: usize| format!("{{\"name\":\"p_ask\",\"arguments\":{{\"user\":{user}}}}}");
    let asked = (0..8).map(async |user| {
        let call = mcp("tools/call", params(user)).capabilities(ALL);
        let questions = Questions::of(&gateway.send(call).await);
        assert!(questions.text.contains(&format!("\"user\\\": {user}}}")), "{}", questions.text);
        questions
    });
    let parked = futures_util::future::join_all(asked).await;
    assert_eq!(gateway.metric("gatehouse_parked_calls", &[]).await, 8.0);
    for user in [5, 2, 7, 0, 3, 6, 1, 4] {
        let params = params(user);
        let reply = gateway.send(parked[user].answered(("tools/call", &params), &[&answer(user)])).await;
        let got: Value = serde_json::from_str(&said(&reply)).unwrap();
        assert_eq!(
            (&got["for"]["user"], &got["got"]["content"]["secret"]),
            (&user.into(), &format!("of {user}").into())
        );
    }
    gateway.metric_becomes("gatehouse_parked_calls", &[], 0.0).await;
    gateway.metric_becomes("gatehouse_inflight", &[("server", "p")], 0.0).await;
}
