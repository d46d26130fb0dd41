//! Another configuration while calls run: what did not change goes on, what runs ends in order, a bad file changes
//! nothing: F-012, F-013, F-036, issue 6.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::support::asking::{ACCEPT, ALL, Asking, Questions, content, elicit, said};
use crate::support::child::{Child, demo};
use crate::support::client::ok;
use crate::support::feed::names;
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::Session;
use crate::support::request::{Mcp, call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::PARAMS;
use crate::support::{eventually, within};

async fn tools(gateway: &Gateway) -> Vec<String> {
    names(&mut gateway.connect().await, "tools/list").await
}

async fn works(gateway: &Gateway, tool: &str) {
    let reply = gateway.send(call(tool, "{}")).await;
    assert!(ok(&reply), "{tool}: {reply:?}");
}

/// Covers: F-012, F-013: the union of both; names, sessions and connections of the first stay as they are.
#[tokio::test(flavor = "multi_thread")]
async fn f_013_a_second_server_is_added() {
    let (one, two) = (
        Server::modern("one", Offer::tools(&["a"])).await,
        Server::legacy("two", Offer::tools(&["b"])).await,
    );
    let child = Child::python(
        r#"note("pids", "%d\n" % os.getpid())
serve({"server/discover": DISCOVER, "tools/list": tools("t"), "tools/call": lambda m, line: result(m, '{"content":[]}')})"#,
    );
    let before = Setup::new().http("one", &one.url(), "").stdio("kid", &child.argv(), "");
    let gateway = before.clone().start().await;
    let mut connection = gateway.connect().await;
    let session = Session::open(&gateway, "2025-11-25", "{}").await;
    assert_eq!(names(&mut connection, "tools/list").await, ["one_a", "kid_t"]);
    assert!(ok(&connection.send(session.call("1", "one_a", "{}")).await));

    gateway.reload(&before.clone().http("two", &two.url(), "")).await;
    assert_eq!(
        names(&mut connection, "tools/list").await,
        ["one_a", "kid_t", "two_b"],
        "the same connection"
    );
    assert_eq!(session.tools(&gateway).await, ["one_a", "kid_t", "two_b"]);
    for tool in ["one_a", "kid_t", "two_b"] {
        assert!(ok(&connection.send(session.call("2", tool, "{}")).await), "{tool} in the open session");
        works(&gateway, tool).await;
    }
    assert_eq!(one.requests("server/discover").len(), 1, "nothing is agreed anew");
    assert_eq!(one.requests("tools/list").len(), 1, "nor asked again");
    assert_eq!(child.read("pids").lines().count(), 1, "the process is the same");
}

/// Covers: F-036, issue 6: a call of a server that is taken out ends as if nothing were; its process ends after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_taken_out_finishes_its_calls() {
    let child = Child::python(
        r#"note("pids", "%d\n" % os.getpid())
def called(m, line):
    note("called", "x")
    while not os.path.exists(os.path.join(HERE, "go")):
        time.sleep(0.01)
    result(m, '{"content":[{"type":"text","text":"done"}]}')
serve({"server/discover": DISCOVER, "tools/list": tools("slow"), "tools/call": called})
time.sleep(0.1)
note("end", "by itself")"#,
    );
    let server = Server::modern("m", Offer::tools(&["slow", "fast"])).await;
    let mut held = server.hold("tools/call");
    let both = Setup::new().stdio("kid", &child.argv(), "").http("m", &server.url(), "");
    let gateway = both.start().await;
    let ask = async |tool: &str| {
        let (client, asked) = (gateway.connect().await, call(tool, "{}"));
        tokio::spawn(async move { client.begin(asked).await.rest().await })
    };
    let (running, other) = (ask("kid_slow").await, ask("m_slow").await);
    child.wrote("called").await;
    let exchange = held.next().await;

    gateway.reload(&Setup::new().stdio("demo", &demo(&[]), "")).await;
    assert!(tools(&gateway).await.iter().all(|name| name.starts_with("demo_")));
    let refused = gateway.send(call("kid_slow", "{}")).await;
    assert_eq!(refused.verdict(), (200, Some(PARAMS)), "who comes now has never heard of it");
    assert!(!running.is_finished() && !other.is_finished());
    let pid = Pid::from_raw(child.read("pids").trim().parse().unwrap());
    assert!(kill(pid, None).is_ok(), "it runs while a call of it does");

    child.put("go", "");
    exchange.result(r#"{"content":[{"type":"text","text":"done"}]}"#);
    for running in [running, other] {
        assert_eq!(said(&within("the answer", running).await.unwrap()), "done");
    }
    eventually("the process is gone", async || kill(pid, None).is_err()).await;
    assert_eq!(child.read("end"), "by itself", "nobody killed it");
    eventually("no connection is left", async || server.open() == 0).await;
    assert_eq!(gateway.metric("gatehouse_server_up", &[("server", "m")]).await, 0.0);
    assert!(!gateway.admin("/metrics").await.text().contains(r#"gatehouse_server_up{server="kid"}"#));
}

/// Covers: issue 6: a server whose entry changed is another one; calls on the old one end there.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_server_takes_over_call_by_call() {
    let server = Server::legacy("s", Offer::tools(&["t"])).await;
    let setup = |timeout: &str| Setup::new().http("s", &server.url(), &format!("timeout = \"{timeout}\""));
    let gateway = setup("1m").start().await;
    works(&gateway, "s_t").await;
    let mut held = server.hold("tools/call");
    let old = tokio::spawn(gateway.connect().await.begin(call("s_t", "{}")));
    let exchange = held.next().await;
    let session = exchange.seen.header("mcp-session-id");
    server.release("tools/call");

    gateway.reload(&setup("2m")).await;
    works(&gateway, "s_t").await;
    assert_ne!(server.last_call().header("mcp-session-id"), session, "the new one has its own session");
    assert!(server.requests("DELETE").is_empty(), "the old one is in use");
    exchange.result(r#"{"content":[{"type":"text","text":"old"}]}"#);
    assert_eq!(said(&within("the answer", old).await.unwrap().rest().await), "old");
    eventually("and then it ends", async || {
        server.requests("DELETE").iter().any(|seen| seen.header("mcp-session-id") == session)
    })
    .await;
    works(&gateway, "s_t").await;
}

/// Covers: issue 6, R-32: a call that waits for its client's answers goes on under the configuration it began with.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_call_is_answered_after_a_reload() {
    const T: (&str, &str) = ("tools/call", r#"{"name":"s_t","arguments":{}}"#);
    for changed in ["", "timeout = \"1m\""] {
        let (server, other) = (
            Server::legacy("s", Offer::tools(&["t"])).await,
            Server::modern("o", Offer::tools(&["t"])).await,
        );
        let mut asking = Asking::at(&server, "tools/call");
        let gateway = Setup::new().http("s", &server.url(), "").start().await;
        let first: Mcp = mcp(T.0, T.1).capabilities(ALL);
        let (reply, exchange) = tokio::join!(gateway.send(first), async {
            let exchange = asking.call().await;
            exchange.event(&elicit("1"));
            exchange
        });
        let questions = Questions::of(&reply);
        gateway.reload(&Setup::new().http("o", &other.url(), "").http("s", &server.url(), changed)).await;
        let (reply, ()) = tokio::join!(gateway.send(questions.answered(T, &[ACCEPT])), async {
            asking.answers.wait("1").await;
            exchange.finish(&content("after all"));
        });
        assert_eq!(said(&reply), "after all", "{changed:?}");
    }
}

/// Covers: issue 6: each problem of a bad file is logged, it is counted, and everything goes on; so is one that is good in
/// itself and cannot be used.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_changes_nothing() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let good = Setup::new().http("s", &server.url(), "");
    let gateway = good.clone().start().await;
    let since = gateway.metric("gatehouse_config_last_reload_timestamp_seconds", &[]).await;
    assert!(since > 1.7e9, "{since}");
    let bad = [
        ("not TOML", "[gateway\n".to_owned(), vec!["is not TOML"]),
        (
            "two problems",
            good.clone().toml("[[server]]\nname = \"x\"\nurll = \"http://h/\"\n[[server]]\nname = \"s\"\nurl = \"ftp://h/\"").text(),
            vec!["urll", "http:// or https://"],
        ),
        (
            "a file that is not there",
            good.clone().http("tls", "https://127.0.0.1:1/mcp", "ca_file = \"absent.pem\"").text(),
            vec!["absent.pem"],
        ),
    ];
    for (n, (what, text, words)) in bad.into_iter().enumerate() {
        gateway.put(&text);
        let count = (n + 1) as f64;
        eventually(what, async || gateway.reloads().await == (0.0, count)).await;
        for word in words {
            let told = |line: &str| line.contains("nothing has changed") && line.contains(word);
            gateway.log.wait(word, told).await;
        }
        works(&gateway, "s_t").await;
        assert_eq!(tools(&gateway).await, ["s_t"]);
    }
    assert_eq!(server.requests("server/discover").len(), 1);
    assert_eq!(gateway.metric("gatehouse_config_last_reload_timestamp_seconds", &[]).await, since);
    gateway.reload(&good.http("u", &server.url(), "")).await;
    assert_eq!(tools(&gateway).await, ["s_t", "u_t"]);
    assert!(gateway.metric("gatehouse_config_last_reload_timestamp_seconds", &[]).await >= since);
}

/// Covers: issue 6: keys that need a restart are named; what stands beside them is in force.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_need_a_restart_are_named() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let other = Setup::new()
        .listen("[::1]:0")
        .gateway("max_connections = 7\nidle_timeout = \"1s\"\nkeys = [\"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\"]\nmax_body = \"1KiB\"\nname = \"renamed\"")
        .toml("[audit]\nfile = \"-\"\n[telemetry]\nlog = \"gatehouse=debug\"")
        .http("s", &server.url(), "");
    gateway.reload(&other).await;
    let told = gateway.log.wait("what needs a restart", |line| line.contains("needs a restart")).await;
    for key in [
        "gateway.listen",
        "gateway.admin_listen",
        "gateway.max_connections",
        "gateway.idle_timeout",
        "gateway.keys",
    ] {
        assert!(told.contains(key), "{key}: {told}");
    }
    for key in ["max_body", "name", "telemetry.log"] {
        assert!(!told.contains(&format!("{key}\\\"")), "{key}: {told}");
    }
    let reply = gateway.send(mcp("server/discover", "{}")).await;
    assert!(reply.text().contains("renamed"), "{reply:?}");
    let large = gateway.send(call("s_t", json!({"x": "y".repeat(2000)}))).await;
    assert_eq!(large.status(), 413);
    gateway.log.wait("lines of the new level", |line| line.contains("\"level\":\"DEBUG\"")).await;
}

/// Covers: issue 6, design §8: a server that holds readiness back at the start is taken out by a reload.
#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_the_servers_that_are_there() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let dead =
        Setup::new().http("gone", "http://127.0.0.1:9/mcp", "required = true").http("s", &server.url(), "");
    let gateway = dead.launch().await;
    works(&gateway, "s_t").await;
    assert_eq!(gateway.admin("/readyz").await.status(), 503);
    gateway.reload(&Setup::new().http("s", &server.url(), "")).await;
    eventually("it is ready", async || gateway.admin("/readyz").await.status() == 200).await;
    // From then on nobody waits for a server: it was ready.
    gateway.reload(&Setup::new().http("gone", "http://127.0.0.1:9/mcp", "required = true")).await;
    assert_eq!(gateway.admin("/readyz").await.status(), 200);
}

/// Covers: issue 6: keys and grants of callers are those of the file as soon as it is in force.
#[tokio::test(flavor = "multi_thread")]
async fn callers_are_judged_by_the_new_file() {
    // SHA-256 of "one" and of "two".
    const ONE: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    const TWO: &str = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3";
    let server = Server::modern("s", Offer::tools(&["a", "b"])).await;
    let setup = |auth: &str| {
        Setup::new()
            .gateway("public_url = \"http://127.0.0.1\"\nallowed_hosts = [\"*\"]")
            .http("s", &server.url(), "")
            .toml(auth)
    };
    let key = |name: &str, digest: &str| format!("[[auth.key]]\nname = \"{name}\"\nsha256 = \"{digest}\"\n");
    let open = setup("");
    let gateway = open.start().await;
    let ask = async |token: &str| {
        let mut request = call("s_a", "{}").request();
        if !token.is_empty() {
            request = request.with("Authorization", format!("Bearer {token}"));
        }
        gateway.send(request).await.verdict()
    };
    assert_eq!(ask("").await, (200, Some(0)));
    gateway.reload(&setup(&key("one", ONE))).await;
    assert_eq!(ask("").await, (401, None));
    assert_eq!((ask("one").await, ask("two").await), ((200, Some(0)), (401, None)));
    gateway.reload(&setup(&(key("two", TWO) + "[[grant]]\nservers = [\"s\"]\ntools = [\"b\"]"))).await;
    assert_eq!((ask("one").await, ask("two").await), ((401, None), (200, Some(PARAMS))));
    gateway.reload(&setup(&(key("two", TWO) + "[[grant]]\nservers = [\"s\"]\ntools = [\"*\"]"))).await;
    assert_eq!(ask("two").await, (200, Some(0)));
}

/// Covers: issue 6: fifty configurations leave nothing behind: no task, no connection, no descriptor.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_reloads_leave_nothing_behind() {
    let (one, two) = (
        Server::modern("one", Offer::tools(&["a"])).await,
        Server::legacy("two", Offer::tools(&["b"])).await,
    );
    let child = Child::python(
        r#"note("pids", "%d\n" % os.getpid())
serve({"server/discover": DISCOVER, "tools/list": tools("t")})"#,
    );
    let setup = |n: usize| {
        let more = format!("timeout = \"{}s\"", 20 + n);
        let all = Setup::new().http("one", &one.url(), &more).stdio("kid", &child.argv(), &more);
        if n % 2 == 0 { all.http("two", &two.url(), &more) } else { all }
    };
    let gateway = setup(0).start().await;
    let session = Session::open(&gateway, "2025-11-25", "{}").await;
    let _stream = session.stream(&gateway, session.get()).await;
    let mut client = crate::support::feed::Stream::open(&gateway, "1", r#"{"toolsListChanged":true}"#).await;
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).unwrap().count();
    let rest = async || {
        // Asking is a connection of its own.
        (gateway.metric("gatehouse_tasks", &[]).await, descriptors(), one.open(), two.open())
    };
    let calm = async || {
        let mut before = rest().await;
        let began = Instant::now();
        // What a start leaves running for a while is over when nothing has changed for a second.
        while began.elapsed() < Duration::from_secs(20) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = rest().await;
            if now == before {
                break;
            }
            before = now;
        }
        before
    };
    let before = calm().await;
    for n in 1..=50 {
        gateway.reload(&setup(n)).await;
    }
    works(&gateway, "two_b").await;
    let (tasks, fds, ..) = before;
    eventually("as many tasks and descriptors as before", async || {
        let now = rest().await;
        now.0 <= tasks + 4.0 && now.1 <= fds + 6
    })
    .await;
    eventually("one process is left", async || {
        let pids = child.read("pids");
        pids.lines().filter(|pid| kill(Pid::from_raw(pid.parse().unwrap()), None).is_ok()).count() == 1
    })
    .await;
    assert_eq!(client.notice().await, "tools");
    gateway.signal(Signal::SIGHUP);
    eventually("the last one is in force", async || gateway.reloads().await == (51.0, 0.0)).await;
}
