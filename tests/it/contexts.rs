//! Whose session at a legacy server a call uses, what is declared there, and when it ends: `session_scope`, G-42,
//! G-46, G-48, G-49, R-34, design §7.

use std::time::Duration;

use futures_util::future::join_all;

use crate::support::counter::Counter;
use crate::support::direct::{Direct, Who, modern, session};
use crate::support::eventually;
use crate::support::gateway::Setup;
use crate::support::inside::later;
use crate::support::request::{Mcp, call, mcp};

fn setup(counter: &Counter, more: &str) -> Setup {
    Setup::new().http("c", &counter.server.url(), more)
}

fn count() -> Mcp {
    call("c_count", "{}")
}

async fn counted(core: &Direct, who: Who) -> u64 {
    let result = core.ask(who, &count(), "{}").await;
    result["structuredContent"]["count"].as_u64().unwrap_or_else(|| panic!("{result}"))
}

/// Two people, one of whom has two sessions, and two whose clients have none.
const PEOPLE: [Who; 5] =
    [session("alice", "a1"), session("alice", "a2"), session("bob", "b1"), modern("alice"), modern("carol")];

/// Covers: G-49, design §7: a stateful counter counts as configured, for clients with and without sessions.
#[tokio::test(flavor = "multi_thread")]
async fn g_49_session_scope_decides_who_shares_a_session() {
    // What each of them is counted at the first and at the second round.
    let cases = [
        ("", [1, 1, 1, 1, 1], [2, 2, 2, 2, 2], 5),
        ("session_scope = \"session\"", [1, 1, 1, 1, 1], [2, 2, 2, 2, 2], 5),
        ("session_scope = \"principal\"", [1, 2, 1, 3, 1], [4, 5, 2, 6, 2], 3),
        ("session_scope = \"shared\"", [1, 2, 3, 4, 5], [6, 7, 8, 9, 10], 1),
    ];
    for (scope, first, second, sessions) in cases {
        let counter = Counter::start().await;
        let core = Direct::start(&setup(&counter, scope));
        for round in [first, second] {
            for (who, count) in PEOPLE.iter().zip(round) {
                assert_eq!(counted(&core, *who).await, count, "{scope}: {who:?}");
            }
        }
        assert_eq!(counter.counting(), sessions, "{scope}");
        // Lists use the gateway's own session, which is that of all where all share one.
        let own = usize::from(scope != "session_scope = \"shared\"");
        assert_eq!(counter.server.requests("initialize").len(), sessions + own, "{scope}");
        let service = &counter.server.requests("tools/list")[0];
        let service = service.header("mcp-session-id").unwrap();
        assert_eq!(counter.sessions().contains(&service), own == 0, "{scope}");
        // What a client asks for in lists opens nothing.
        for who in PEOPLE {
            core.ask(who, &mcp("tools/list", "{}"), "{}").await;
        }
        assert_eq!(counter.server.requests("initialize").len(), sessions + own, "{scope}");
        core.stop().await;
        // Each session is ended (G-46).
        assert_eq!(counter.ended().len(), sessions + own, "{scope}");
    }
}

/// Covers: G-49, A-61: a session's id is its principal's: another one with the same id gets another session.
#[tokio::test(flavor = "multi_thread")]
async fn g_49_sessions_are_never_shared_across_principals() {
    let counter = Counter::start().await;
    let core = Direct::start(&setup(&counter, ""));
    let people = [session("alice", "same"), session("bob", "same"), session("carol", "same")];
    let calls = people.iter().cycle().take(60).map(|who| counted(&core, *who));
    let mut counts = join_all(calls).await;
    counts.sort_unstable();
    let each: Vec<u64> = (1..=20).flat_map(|count| [count; 3]).collect();
    assert_eq!(counts, each);
    assert_eq!(counter.counting(), 3);
    // At once or not: one handshake for each, and one of the gateway's own.
    assert_eq!(counter.server.requests("initialize").len(), 4);
    core.stop().await;
}

/// Covers: R-34, G-48, G-49: a session declares exactly what its client can be asked for; the gateway's own nothing.
#[tokio::test(flavor = "multi_thread")]
async fn r_34_sessions_declare_what_their_client_declared() {
    const FORM: &str = r#"{"elicitation":{}}"#;
    const BOTH: &str = r#"{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}"#;
    const SAMPLING: &str = r#"{"sampling":{"tools":{}},"experimental":{"x":{}}}"#;
    for (scope, principals) in [("", 2), ("session_scope = \"shared\"", 1)] {
        let counter = Counter::start().await;
        let core = Direct::start(&setup(&counter, scope));
        for capabilities in ["{}", FORM, BOTH, SAMPLING, "{}", FORM, r#"{"elicitation":{"form":{}}}"#] {
            for who in [modern("alice"), modern("bob")] {
                core.ask(who, &count(), capabilities).await;
            }
        }
        let each = [
            r#"{"elicitation":{"form":{},"url":{}},"roots":{}}"#,
            r#"{"elicitation":{}}"#,
            r#"{"sampling":{"tools":{}}}"#,
        ];
        let mut wanted: Vec<&str> = each.iter().flat_map(|one| vec![*one; principals]).collect();
        // Shared, those who can be asked for nothing use the gateway's own.
        let nothing = if principals == 1 { 1 } else { principals + 1 };
        wanted.extend(vec!["{}"; nothing]);
        wanted.sort_unstable();
        assert_eq!(counter.declared(), wanted, "{scope}");
        core.stop().await;
    }
}

/// Covers: G-46, G-24: sessions that nobody uses end, those in use do not; so do those whose client's session ended.
#[tokio::test]
async fn g_46_idle_sessions_are_ended_and_those_in_use_are_not() {
    let counter = Counter::start().await;
    let core = Direct::start(&setup(&counter, "timeout = \"3h\"\nmax_timeout = \"3h\""));
    counted(&core, session("alice", "idle")).await;
    counted(&core, session("alice", "gone")).await;
    let [idle, gone] = &counter.sessions()[..] else { panic!() };
    let mut held = counter.server.hold("tools/call");
    let (long, request) = (session("bob", "long"), count());
    let long = core.ask(long, &request, "{}");
    let check = async {
        let exchange = held.next().await;
        let busy = exchange.seen.header("mcp-session-id").unwrap();
        counter.server.release("tools/call");
        core.end_session("gone");
        core.end_session("long");
        eventually("the session of a client that left is ended", async || counter.ended() == [gone.clone()])
            .await;
        later(Duration::from_secs(40 * 60)).await;
        eventually("the idle session is ended", async || counter.ended().len() == 2).await;
        assert_eq!(counter.ended()[1], *idle);
        exchange.result(r#"{"content":[],"structuredContent":{"count":7}}"#);
        busy
    };
    let (result, busy) = tokio::join!(long, check);
    assert_eq!(result["structuredContent"]["count"], 7, "a session in use is not taken away");
    eventually("and then it is ended", async || counter.ended().contains(&busy)).await;
    core.stop().await;
}

/// Covers: G-42: sessions that are lost are opened again, each once however many calls find out.
#[tokio::test(flavor = "multi_thread")]
async fn g_42_each_context_opens_its_lost_session_once() {
    let counter = Counter::start().await;
    // The usual answers know which sessions there are.
    counter.server.release("tools/call");
    let core = Direct::start(&setup(&counter, ""));
    let people = [modern("alice"), modern("bob")];
    let storm = async || {
        let calls = (0..20).map(|index| {
            let (core, who) = (&core, people[index % 2]);
            async move { core.ask(who, &count(), "{}").await }
        });
        let results = join_all(calls).await;
        assert!(results.iter().all(|result| result["isError"] != true), "{results:?}");
    };
    storm().await;
    assert_eq!(counter.server.requests("initialize").len(), 3);
    counter.server.wipe_sessions();
    storm().await;
    assert_eq!(counter.server.requests("initialize").len(), 5, "one for each, and none of the gateway's own");
    core.stop().await;
}
