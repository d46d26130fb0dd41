//! Pools of children (`processes`): each call to the one with the fewest, one child's crash is its own calls' affair:
//! design §7, G-57, F-037, F-087.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::support::child::Child;
use crate::support::client::Reply;
use crate::support::feed::names;
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::call;
use crate::support::{eventually, json as text, within};

/// Calls of `hold` wait until the file `go` is there; `who` is answered at once. Both say which process it is.
/// Every message is noted with its process.
const WORKER: &str = r#"
import threading
pid = os.getpid()
note("pids", "%d\n" % pid)
lock = threading.Lock()
def answered(m):
    with lock:
        result(m, '{"content":[{"type":"text","text":"%d"}],"structuredContent":%s}' % (pid, json.dumps(m["params"]["arguments"])))
def held(m):
    while not os.path.exists(os.path.join(HERE, "go")):
        time.sleep(0.01)
    answered(m)
def called(m, line):
    note("calls", "%d %s\n" % (pid, m["params"]["name"]))
    if m["params"]["name"] == "hold":
        threading.Thread(target=held, args=(m,), daemon=True).start()
    else:
        answered(m)
"#;
const MODERN: &str =
    r#"serve({"server/discover": DISCOVER, "tools/list": tools("hold", "who"), "tools/call": called})"#;
const LEGACY: &str =
    r#"serve({"initialize": INITIALIZE, "tools/list": tools("hold", "who"), "tools/call": called})"#;

fn worker(serve: &str) -> Child {
    Child::python(&format!("{WORKER}\n{serve}"))
}

async fn pool(child: &Child, more: &str) -> Gateway {
    let more = format!("timeout = \"5m\"\n{more}");
    let gateway = Setup::new().stdio("p", &child.argv(), &more).start().await;
    assert_eq!(names(&mut gateway.connect().await, "tools/list").await, ["p_hold", "p_who"]);
    gateway
}

fn who(reply: &Reply) -> String {
    assert_eq!(reply.result()["isError"], serde_json::Value::Null, "{reply:?}");
    reply.result()["content"][0]["text"].as_str().unwrap().to_owned()
}

/// The processes of the calls so far, by the tool's name.
fn at_work(child: &Child, tool: &str) -> Vec<String> {
    let calls = child.read("calls");
    let fits = calls.lines().filter_map(|line| line.split_once(' ')).filter(|(_, name)| *name == tool);
    fits.map(|(pid, _)| pid.to_owned()).collect()
}

fn started(child: &Child) -> Vec<String> {
    child.read("pids").lines().map(str::to_owned).collect()
}

fn distinct(mut all: Vec<String>) -> usize {
    all.sort();
    all.dedup();
    all.len()
}

async fn hold(gateway: &Gateway, count: usize) -> Vec<tokio::task::JoinHandle<Reply>> {
    let mut running = Vec::new();
    for n in 0..count {
        let client = gateway.connect().await;
        let asked = call("p_hold", format!(r#"{{"n":{n}}}"#)).id(n);
        running.push(tokio::spawn(async move { client.begin(asked).await.rest().await }));
    }
    running
}

/// Covers: design §7: eight calls, eight processes, one each, in both eras; never more, and none before it is needed.
#[tokio::test(flavor = "multi_thread")]
async fn eight_calls_run_in_eight_processes() {
    for serve in [MODERN, LEGACY] {
        let child = worker(serve);
        let gateway = pool(&child, "processes = 8\nmax_concurrency = 1\nqueue = 64").await;
        for _ in 0..3 {
            who(&gateway.send(call("p_who", "{}")).await);
        }
        assert_eq!(started(&child).len(), 1, "one after the other needs one process");
        let running = hold(&gateway, 8).await;
        eventually("eight at work", async || at_work(&child, "hold").len() == 8).await;
        assert_eq!(distinct(at_work(&child, "hold")), 8, "one each");
        // A ninth waits for one of the eight: nothing runs beside another call.
        let mut ninth = hold(&gateway, 1).await;
        gateway.metric_becomes("gatehouse_inflight", &[("server", "p")], 8.0).await;
        assert!(!ninth[0].is_finished());
        child.put("go", "");
        for (n, reply) in running.into_iter().enumerate() {
            let reply = within("an answer", reply).await.unwrap();
            assert_eq!(reply.result()["structuredContent"], json!({"n": n}), "each its own");
        }
        within("the ninth", ninth.remove(0)).await.unwrap();
        assert_eq!(started(&child).len(), 8);
        assert_eq!(gateway.metric("gatehouse_child_restarts_total", &[("server", "p")]).await, 0.0);
        gateway.stop().await;
        let gone = |pid: &String| kill(Pid::from_raw(pid.parse().unwrap()), None) == Err(Errno::ESRCH);
        assert!(started(&child).iter().all(gone), "all end with the gateway");
    }
}

/// Covers: design §7: calls beyond the number of processes go to the least loaded.
#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_go_to_the_least_loaded() {
    let child = worker(MODERN);
    let gateway = pool(&child, "processes = 3\nmax_concurrency = 4").await;
    let running = hold(&gateway, 12).await;
    eventually("twelve at work", async || at_work(&child, "hold").len() == 12).await;
    let held = at_work(&child, "hold");
    assert_eq!(distinct(held.clone()), 3);
    for pid in started(&child) {
        assert_eq!(held.iter().filter(|at| **at == pid).count(), 4, "four each");
    }
    child.put("go", "");
    for reply in running {
        who(&within("an answer", reply).await.unwrap());
    }
    gateway.stop().await;
}

/// Covers: F-037: a crash costs the calls of that process only; it is started again when it is needed, and counted.
#[tokio::test(flavor = "multi_thread")]
async fn f_037_a_crash_costs_its_own_calls_only() {
    let child = worker(LEGACY);
    let gateway = pool(&child, "processes = 4\nmax_concurrency = 1").await;
    let running = hold(&gateway, 4).await;
    eventually("four at work", async || at_work(&child, "hold").len() == 4).await;
    let victim = at_work(&child, "hold").remove(2);
    kill(Pid::from_raw(victim.parse().unwrap()), Signal::SIGKILL).unwrap();
    eventually("its call fails", async || running.iter().filter(|call| call.is_finished()).count() == 1)
        .await;
    child.put("go", "");
    let mut failed = 0;
    for reply in running {
        let reply = within("an answer", reply).await.unwrap();
        if reply.result()["isError"] == true {
            failed += 1;
        } else {
            assert_ne!(who(&reply), victim);
        }
    }
    assert_eq!(failed, 1);
    // Four again, of which one is new.
    std::fs::remove_file(child.path("go")).unwrap();
    let running = hold(&gateway, 4).await;
    eventually("four at work again", async || at_work(&child, "hold").len() == 8).await;
    assert_eq!(distinct(at_work(&child, "hold").split_off(4)), 4);
    child.put("go", "");
    for reply in running {
        who(&within("an answer", reply).await.unwrap());
    }
    assert_eq!(started(&child).len(), 5);
    gateway.metric_becomes("gatehouse_child_restarts_total", &[("server", "p")], 1.0).await;
    gateway.stop().await;
}

/// Covers: F-037, design §7: a process that may not be started just now is passed over while others can work.
#[tokio::test(flavor = "multi_thread")]
async fn f_037_a_process_that_fails_again_and_again_is_passed_over() {
    // Every process but the first ends as soon as it is greeted.
    let child = worker(&format!(
        "if len(open(os.path.join(HERE, \"pids\")).readlines()) > 1:\n    sys.stdin.readline()\n    sys.exit(1)\n{MODERN}"
    ));
    let gateway = pool(&child, "processes = 2\nmax_concurrency = 2").await;
    let running = hold(&gateway, 1).await;
    eventually("one at work", async || at_work(&child, "hold").len() == 1).await;
    let reply = gateway.send(call("p_who", "{}")).await;
    assert_eq!(reply.result()["isError"], true, "the second process does not live: {reply:?}");
    // The first is busier, and works.
    eventually("it is passed over", async || {
        let reply = gateway.send(call("p_who", "{}")).await;
        reply.result()["isError"] != true && who(&reply) == started(&child)[0]
    })
    .await;
    child.put("go", "");
    for reply in running {
        assert_eq!(who(&within("an answer", reply).await.unwrap()), started(&child)[0]);
    }
    gateway.stop().await;
}

/// Covers: F-087, G-53: cancels reach the process that has the call.
#[tokio::test(flavor = "multi_thread")]
async fn g_53_cancels_reach_the_right_process() {
    let child = Child::python(&format!(
        "{WORKER}\n{}",
        r#"
def noted(m, line):
    if m.get("method") == "notifications/cancelled":
        note("cancelled", "%d %s\n" % (pid, json.dumps(m["params"]["requestId"])))
def kept(m, line):
    note("kept", "%d %s\n" % (pid, json.dumps(m["id"])))
serve({"server/discover": DISCOVER, "tools/list": tools("hold", "who"), "tools/call": kept, "note": noted})"#
    ));
    let gateway = pool(&child, "processes = 3\nmax_concurrency = 1").await;
    let running = hold(&gateway, 3).await;
    eventually("three at work", async || child.read("kept").lines().count() == 3).await;
    running.iter().for_each(tokio::task::JoinHandle::abort);
    eventually("three cancels", async || child.read("cancelled").lines().count() == 3).await;
    let sorted = |name: &str| {
        let mut lines: Vec<String> = child.read(name).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted("cancelled"), sorted("kept"));
    gateway.metric_becomes("gatehouse_inflight", &[("server", "p")], 0.0).await;
    gateway.stop().await;
}

/// Covers: design §3: what a pool shows is what one process shows; arguments are passed byte for byte.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_is_one_server() {
    let child = worker(MODERN);
    let gateway = pool(&child, "processes = 4").await;
    child.put("go", "");
    let calls = (0..40).map(|n| gateway.send(call("p_who", format!(r#"{{"n":{n}}}"#)).id(n)));
    let replies = within("forty answers", futures_util::future::join_all(calls)).await;
    for (n, reply) in replies.iter().enumerate() {
        assert_eq!(
            text::value(&text::raw(&reply.result_text(), &["structuredContent"]).unwrap()),
            json!({"n": n})
        );
    }
    assert!((1..=4).contains(&started(&child).len()));
    assert_eq!(child.requests("tools/list").len(), 1, "lists come from one of them");
    gateway.stop().await;
}
