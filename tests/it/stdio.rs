//! Children: crashes and restarts, noise, endless output, the way they are stopped, what they are given:
//! G-50..G-58, F-036..F-041, F-079, design §3.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::child::Child;
use crate::support::client::Reply;
use crate::support::eventually;
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::measure::measured;
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};

/// Every life notes its process id; calls of `hold` are kept, others answered with the number of the life.
const LIVES: &str = r#"
note("pids", "%d\n" % os.getpid())
life = len(open(os.path.join(HERE, "pids")).readlines())
def called(m, line):
    note("calls", line)
    if m["params"]["name"] != "hold":
        result(m, '{"content":[{"type":"text","text":"%d"}]}' % life)
serve({"server/discover": DISCOVER, "tools/list": tools("hold", "life"), "tools/call": called})"#;

fn pids(child: &Child) -> Vec<Pid> {
    child.read("pids").lines().map(|line| Pid::from_raw(line.parse().unwrap())).collect()
}

/// Gone and reaped.
fn is_gone(pid: Pid) -> bool {
    kill(pid, None) == Err(Errno::ESRCH)
}

fn said(reply: &Reply) -> String {
    assert_eq!(reply.verdict(), (200, Some(0)), "{reply:?}");
    reply.result()["content"][0]["text"].as_str().unwrap().to_owned()
}

fn failed(reply: &Reply) -> bool {
    reply.result()["isError"] == true
}

/// Covers: F-037 (i), G-56: a child killed while idle is one restart, which nobody notices.
#[tokio::test(flavor = "multi_thread")]
async fn f_037_a_child_killed_while_idle() {
    let child = Child::python(LIVES);
    let gateway = Setup::new().stdio("p", &child.argv(), "").start().await;
    assert_eq!(said(&gateway.send(call("p_life", "{}")).await), "1");
    kill(pids(&child)[0], Signal::SIGKILL).unwrap();
    eventually("it is reaped", async || is_gone(pids(&child)[0])).await;
    eventually("the next call works", async || {
        let reply = gateway.send(call("p_life", "{}")).await;
        !failed(&reply) && said(&reply) == "2"
    })
    .await;
    assert_eq!(pids(&child).len(), 2);
    assert_eq!(gateway.metric("gatehouse_child_restarts_total", &[("server", "p")]).await, 1.0);
    assert_eq!(gateway.metric("gatehouse_server_up", &[("server", "p")]).await, 1.0);
    let list = gateway.send(mcp("tools/list", "{}")).await;
    assert_eq!(list.result()["tools"].as_array().unwrap().len(), 2, "what it offers is still known");
}

/// Covers: F-037 (ii), G-56: a call in flight fails at once, and is not made again behind the caller's back.
#[tokio::test(flavor = "multi_thread")]
async fn f_037_a_child_killed_during_a_call() {
    let child = Child::python(LIVES);
    // Nothing here may be ended by a time-out.
    let gateway =
        Setup::new().stdio("p", &child.argv(), "timeout = \"10m\"\nmax_timeout = \"10m\"").start().await;
    let running = gateway.connect().await;
    let running = tokio::spawn(running.begin(call("p_hold", "{}")));
    child.wrote("calls").await;
    let killed = Instant::now();
    kill(pids(&child)[0], Signal::SIGKILL).unwrap();
    let reply = running.await.unwrap().rest().await;
    measured("a call failed after its child was killed", killed.elapsed());
    assert!(
        failed(&reply) && said(&reply).contains("\"p\"") && said(&reply).contains("effects"),
        "{reply:?}"
    );
    eventually("the next call works", async || !failed(&gateway.send(call("p_life", "{}")).await)).await;
    let held = child.read("calls").lines().filter(|line| line.contains("\"hold\"")).count();
    assert_eq!(held, 1, "never sent twice");
    let labels = [("server", "p"), ("tool", "p_hold"), ("outcome", "unavailable")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 1.0);
    assert_eq!(gateway.metric("gatehouse_inflight", &[]).await, 0.0);
}

/// Covers: F-037 (iii, iv): starts are held back, others do not notice, and it recovers by itself.
#[tokio::test(flavor = "multi_thread")]
async fn f_037_a_child_that_dies_at_every_start() {
    let child = Child::python(&format!(
        r#"
if not os.path.exists(os.path.join(HERE, "healthy")):
    note("deaths", "x")
    sys.exit(3)
{LIVES}"#
    ));
    let good = Child::python(LIVES);
    let gateway = Setup::new()
        .stdio("bad", &child.argv(), "list_timeout = \"1s\"")
        .stdio("good", &good.argv(), "")
        .launch()
        .await;
    let deaths = || child.read("deaths").len();
    let began = Instant::now();
    // Asked all the time, it is started at growing distances all the same.
    while deaths() < 4 {
        assert!(failed(&gateway.send(call("bad_life", "{}")).await));
        assert!(!failed(&gateway.send(call("good_life", "{}")).await));
        assert!(began.elapsed() < Duration::from_secs(60), "{} starts", deaths());
    }
    // 0, 1 and 2 s between them, at least.
    assert!(began.elapsed() > Duration::from_secs(2), "{:?}", began.elapsed());
    gateway.metric_becomes("gatehouse_server_up", &[("server", "bad")], 0.0).await;
    assert!(gateway.metric("gatehouse_child_restarts_total", &[("server", "bad")]).await >= 3.0);
    child.put("healthy", "yes");
    gateway.metric_becomes("gatehouse_server_up", &[("server", "bad")], 1.0).await;
    eventually("its tools", async || {
        let list = gateway.send(mcp("tools/list", "{}")).await;
        list.result()["tools"].as_array().unwrap().len() == 4
    })
    .await;
    assert_eq!(said(&gateway.send(call("bad_life", "{}")).await), "1");
    assert_eq!(pids(&good).len(), 1);
}

/// Covers: F-038: a child that never answers is killed and reaped with every attempt; nothing piles up.
#[tokio::test(flavor = "multi_thread")]
async fn f_038_a_child_that_never_answers() {
    let child = Child::shell("echo $$ >> \"$(dirname \"$0\")/pids\"\nexec sleep 1000000\n");
    let good = Server::modern("good", Offer::tools(&["t"])).await;
    let gateway = Setup::new()
        .stdio("mute", &child.argv(), "probe_timeout = \"500ms\"\nlist_timeout = \"500ms\"")
        .http("good", &good.url(), "")
        .start()
        .await;
    eventually("three attempts", async || pids(&child).len() >= 3).await;
    let files = gateway.metric("process_open_fds", &[]).await;
    let tasks = gateway.metric("gatehouse_tasks", &[]).await;
    eventually("four attempts", async || pids(&child).len() >= 4).await;
    eventually("at most one is alive", async || {
        let all = pids(&child);
        all[..all.len() - 1].iter().all(|pid| is_gone(*pid))
    })
    .await;
    eventually("no more files and tasks than before", async || {
        gateway.metric("process_open_fds", &[]).await <= files
            && gateway.metric("gatehouse_tasks", &[]).await <= tasks
    })
    .await;
    assert!(!failed(&gateway.send(call("good_t", "{}")).await));
    gateway.stop().await;
    assert!(pids(&child).iter().all(|pid| is_gone(*pid)));
}

async fn memory(gateway: &Gateway) -> f64 {
    gateway.metric("process_resident_memory_bytes", &[]).await
}

/// Covers: F-040: output without end is bounded: the child is stopped, said and counted; standard error is cut.
#[tokio::test(flavor = "multi_thread")]
async fn f_040_output_without_end() {
    let endless = |fd: &str| {
        format!(
            r#"
def called(m, line):
    if {fd} == 2:
        result(m, '{{"content":[]}}')
    for _ in range(256):
        os.write({fd}, b"x" * (1 << 20))
    note("wrote", "all")
serve({{"server/discover": DISCOVER, "tools/list": tools("t"), "tools/call": called}})"#
        )
    };
    let (out, err) = (Child::python(&endless("1")), Child::python(&endless("2")));
    let flood = Child::python(
        r#"
def called(m, line):
    for n in range(100000):
        OUT.write(b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n')
    result(m, '{"content":[]}')
serve({"server/discover": DISCOVER, "tools/list": tools("t"), "tools/call": called})"#,
    );
    let good = Server::modern("good", Offer::tools(&["t"])).await;
    let gateway = Setup::new()
        .stdio("out", &out.argv(), "")
        .stdio("err", &err.argv(), "")
        .stdio("flood", &flood.argv(), "")
        .http("good", &good.url(), "")
        .start()
        .await;
    let before = memory(&gateway).await;
    let reply = gateway.send(call("out_t", "{}")).await;
    assert!(failed(&reply) && said(&reply).contains("too large"), "{reply:?}");
    assert!(!failed(&gateway.send(call("err_t", "{}")).await));
    err.wrote("wrote").await;
    assert!(!failed(&gateway.send(call("flood_t", "{}")).await));
    assert!(!failed(&gateway.send(call("good_t", "{}")).await));
    let grown = memory(&gateway).await - before;
    measured("memory grew by bytes after 256 MiB of output each", grown);
    assert!(grown < f64::from(64 << 20), "{grown} bytes");
    let labels = [("server", "out"), ("outcome", "too_large")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 1.0);
    let labels = [("server", "out"), ("kind", "overflow")];
    assert_eq!(gateway.metric("gatehouse_server_violations_total", &labels).await, 1.0);
    gateway
        .log
        .wait("the reason", |line| line.contains("\"out\"") && line.contains("longer than allowed"))
        .await;
    let longest = gateway.log.find(|line| line.contains("stderr")).iter().map(String::len).max().unwrap();
    assert!(longest < 20_000, "a line of {longest} bytes in the log");
}

/// Covers: F-041, G-50: what is no message is skipped; messages are read in every framing servers write.
#[tokio::test(flavor = "multi_thread")]
async fn f_041_noise_on_standard_output() {
    let child = Child::python(
        r#"
print("Listening on stdio...", flush=True)
send(b"")
send(b"\xff\xfe no UTF-8")
send('{"log":"JSON, and no message"}')
def listed(m, line):
    OUT.write(b"  0%\r 50%\r100%\r")
    OUT.write(b"\xef\xbb\xbf" + ('{"jsonrpc":"2.0","id":%d,"result":%s}' % (m["id"], tools("crlf", "last"))).encode() + b"\r\n\r\n")
    OUT.flush()
def called(m, line):
    text = json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"content": [{"type": "text", "text": "a\nb\u2028c"}]}})
    if m["params"]["name"] == "crlf":
        send("\x1b[32mcalled\x1b[0m")
        send(" \t" + text + "\r")
        return
    OUT.write(text.encode())
    OUT.flush()
    sys.exit(0)
serve({"server/discover": DISCOVER, "tools/list": listed, "tools/call": called})"#,
    );
    let gateway = Setup::new().stdio("p", &child.argv(), "").start().await;
    for name in ["p_crlf", "p_last"] {
        let reply = gateway.send(call(name, r#"{"text":"x\ny\r\u2028z"}"#)).await;
        assert_eq!(said(&reply), "a\nb\u{2028}c", "{name}");
    }
    let labels = [("server", "p"), ("kind", "line")];
    assert!(gateway.metric("gatehouse_server_violations_total", &labels).await >= 4.0);
    let warned = gateway.log.find(|line| line.contains("no JSON-RPC message"));
    assert_eq!(warned.len(), 1, "once a life: {warned:?}");
    for line in child.received() {
        json::value(&line);
    }
}

/// Covers: F-036, G-55: input closed, then SIGTERM, then SIGKILL, to the whole group; the gateway ends in order.
#[tokio::test(flavor = "multi_thread")]
async fn f_036_children_are_stopped_step_by_step() {
    let good = Child::python(&format!("{LIVES}\nnote('end', 'input ended')"));
    let deaf = Child::python(&format!(
        "import signal\nsignal.signal(signal.SIGTERM, lambda *_: (note('end', 'SIGTERM'), os._exit(0)))\n{LIVES}\ntime.sleep(1000)"
    ));
    let stubborn = Child::python(&format!(
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{LIVES}\ntime.sleep(1000)"
    ));
    let wrapped = Child::python(&format!(
        "import subprocess\nnote('grandchild', str(subprocess.Popen(['sleep', '1000000']).pid))\n{LIVES}"
    ));
    let gateway = Setup::new()
        .stdio("good", &good.argv(), "")
        .stdio("deaf", &deaf.argv(), "")
        .stdio("stubborn", &stubborn.argv(), "")
        .stdio("wrapped", &wrapped.argv(), "")
        .start()
        .await;
    for name in ["good_life", "deaf_life", "stubborn_life", "wrapped_life"] {
        assert_eq!(said(&gateway.send(call(name, "{}")).await), "1");
    }
    let grandchild = Pid::from_raw(wrapped.read("grandchild").parse().unwrap());
    assert!(!is_gone(grandchild));
    let began = Instant::now();
    gateway.stop().await;
    measured("a gateway with stubborn children ended after", began.elapsed());
    assert_eq!(good.read("end"), "input ended");
    assert_eq!(deaf.read("end"), "SIGTERM");
    for child in [&good, &deaf, &stubborn, &wrapped] {
        assert!(is_gone(pids(child)[0]));
    }
    // Its new parent reaps it.
    eventually("the grandchild is gone", async || is_gone(grandchild)).await;
}

/// Covers: design §3, G-58: a minimal environment, a private home, no shell, nothing of the gateway's secrets.
#[tokio::test(flavor = "multi_thread")]
async fn children_get_what_they_are_given_and_nothing_else() {
    // As it was given, before any interpreter adds to it.
    let bare = Child::shell("cat /proc/$$/environ > \"$(dirname \"$0\")/environ\"\nexec cat > /dev/null\n");
    let child = Child::python(
        r#"
note("argv", json.dumps(sys.argv[1:]))
note("home", oct(os.stat(os.environ["HOME"]).st_mode & 0o777))
note("group", json.dumps(os.getpgid(0) == os.getpid()))
def link(fd):
    try:
        return os.readlink("/proc/self/fd/" + fd)
    except OSError:
        return "the list itself"
note("files", json.dumps([link(fd) for fd in os.listdir("/proc/self/fd") if int(fd) > 2]))
print("token=" + os.environ["TOKEN"], file=sys.stderr, flush=True)
serve({"server/discover": DISCOVER, "tools/list": tools("t")})"#,
    );
    let mut argv = child.argv();
    argv.extend([
        "$HOME".replace('$', "$$"),
        "a b".into(),
        "; touch pwned".into(),
        "${ARG}".into(),
        "*".into(),
    ]);
    let env = "env = { TOKEN = \"${TOKEN_VALUE}\", EMPTY = \"\" }";
    let gateway = Setup::new()
        .env("SECRET_OF_THE_GATEWAY", "hunter2-gateway")
        .env("TOKEN_VALUE", "hunter2-token")
        .env("ARG", "from the environment")
        .stdio("bare", &bare.argv(), env)
        .stdio("p", &argv, env)
        .launch()
        .await;
    child.wrote("files").await;
    bare.wrote("environ").await;
    let environ = bare.read("environ");
    let pairs: Vec<(&str, &str)> =
        environ.split_terminator('\0').filter_map(|pair| pair.split_once('=')).collect();
    let known = ["EMPTY", "HOME", "LANG", "PATH", "TMPDIR", "TOKEN"];
    assert!(pairs.iter().all(|(name, _)| known.contains(name)), "{pairs:?}");
    assert!(
        pairs.contains(&("TOKEN", "hunter2-token")) && pairs.contains(&("EMPTY", "")),
        "F-079: {pairs:?}"
    );
    let home = pairs.iter().find(|(name, _)| *name == "HOME").unwrap().1;
    assert_ne!(Some(home), std::env::var("HOME").ok().as_deref());
    assert_eq!(child.read("home"), "0o700");
    assert_eq!(std::fs::metadata(home).unwrap().permissions().mode() & 0o777, 0o700);
    let argv = json::value(&child.read("argv"));
    assert_eq!(argv, serde_json::json!(["$HOME", "a b", "; touch pwned", "from the environment", "*"]));
    assert_eq!(child.read("group"), "true");
    let files = child.read("files");
    assert!(!files.contains("socket") && !files.contains("eventpoll"), "inherited: {files}");
    gateway.log.wait("standard error", |line| line.contains("stderr") && line.contains("token=")).await;
    let home = home.to_owned();
    let log = gateway.stop().await;
    assert!(!log.text().contains("hunter2"), "{}", log.text());
    assert!(!std::path::Path::new(&home).exists(), "a temporary home goes with the gateway");
}

/// Covers: F-079: a variable that is missing is said by its name and key, before anything is started.
#[tokio::test(flavor = "multi_thread")]
async fn f_079_missing_variables_are_configuration_errors() {
    let child = Child::python(LIVES);
    let setup = Setup::new()
        .env("PRESENT", "hunter2-present")
        .stdio("p", &child.argv(), "env = { A = \"${PRESENT}\", B = \"${ABSENT_ONE}\" }")
        .http(
            "h",
            "http://127.0.0.1:1/${ABSENT_TWO}",
            "[server.credentials]\nkind = \"bearer\"\ntoken = \"${ABSENT_THREE}\"",
        );
    let (code, said) = setup.refused().await;
    assert_eq!(code, Some(2), "{said}");
    for part in ["ABSENT_ONE", "env.B", "ABSENT_TWO", "url", "ABSENT_THREE", "token"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    assert!(!said.contains("hunter2"), "{said}");
    assert!(pids(&child).is_empty());
}
