//! Which era does a server speak? The table of verdicts over HTTP and stdio, remembered and revised:
//! G-60..G-67, H-62, F-006.

use crate::support::child::Child;
use crate::support::eventually;
use crate::support::exchange::{Answer, Seen};
use crate::support::feed::names;
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::tcp::{Gate, Mode};

const SHORT: &str = "session_scope = \"shared\"\nprobe_timeout = \"1s\"\nlist_timeout = \"20s\"";

/// What an answer to `server/discover` leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Its tools are there, and it never saw `initialize`.
    Modern,
    /// Its tools are there, after `initialize`.
    Legacy,
    /// Its tools are not there, it was asked again, and it never saw `initialize`.
    Failed,
}

use Verdict::{Failed, Legacy, Modern};

type Row = (&'static str, Verdict, fn(&Seen) -> Answer);

fn error(seen: &Seen, status: u16, code: i64, data: Option<&str>) -> Answer {
    Answer::new(status, "application/json", seen.error(code, "no", data))
}

fn versions(list: &str) -> String {
    format!(
        r#"{{"resultType":"complete","supportedVersions":{list},"capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s"}}}}"#
    )
}

/// Legacy servers refuse what they do not know in every way there is.
const REFUSALS: &[Row] = &[
    ("empty", Legacy, |_| Answer::new(400, "", "")),
    ("text", Legacy, |_| Answer::new(400, "text/plain", "Bad Request: no session")),
    ("html", Legacy, |_| Answer::new(200, "text/html", "<!DOCTYPE html><p>hello")),
    ("norpc", Legacy, |_| Answer::new(400, "application/json", r#"{"error":"unauthorized_client"}"#)),
    ("m32000", Legacy, |s| error(s, 400, -32000, None)),
    ("m32600", Legacy, |s| error(s, 400, -32600, None)),
    ("m32602", Legacy, |s| error(s, 400, -32602, None)),
    ("ok32601", Legacy, |s| error(s, 200, -32601, None)),
    ("ok32602", Legacy, |s| error(s, 200, -32602, None)),
    ("nf32601", Legacy, |s| error(s, 404, -32601, None)),
    ("nf32001", Legacy, |s| error(s, 404, -32001, None)),
    // Codes of a draft with another meaning then: no modern error.
    ("beta32004", Legacy, |s| error(s, 400, -32004, Some(r#"{"supported":["DRAFT"]}"#))),
    ("nf", Legacy, |_| Answer::new(404, "text/plain", "not found")),
    ("mna", Legacy, |_| Answer::new(405, "", "")),
    ("na", Legacy, |_| Answer::new(406, "", "")),
    ("umt", Legacy, |_| Answer::new(415, "", "")),
    ("ue", Legacy, |_| Answer::new(422, "application/json", r#"{"detail":[]}"#)),
    ("accepted", Legacy, |_| Answer::new(202, "", "")),
    ("ended", Legacy, |_| Answer::new(200, "text/event-stream", ": hello\n\n")),
];

/// Answers by which a server shows that it knows the modern revision, and answers that show nothing.
const OTHERS: &[Row] = &[
    ("good", Modern, |s| Answer::result(s, &versions(r#"["2026-07-28","2025-11-25"]"#))),
    ("events", Modern, |s| Answer::events(&[s.result(&versions(r#"["2026-07-28"]"#))])),
    ("old", Legacy, |s| Answer::result(s, &versions(r#"["2025-11-25","2025-06-18"]"#))),
    ("future", Failed, |s| Answer::result(s, &versions(r#"["2027-01-01"]"#))),
    ("m32022", Failed, |s| {
        error(s, 400, -32022, Some(r#"{"supported":["2027-01-01"],"requested":"2026-07-28"}"#))
    }),
    ("m32022old", Legacy, |s| error(s, 400, -32022, Some(r#"{"supported":["2025-11-25"]}"#))),
    ("m32020", Failed, |s| error(s, 400, -32020, None)),
    ("m32021", Failed, |s| error(s, 400, -32021, Some(r#"{"requiredCapabilities":{"roots":{}}}"#))),
    ("c401", Failed, |_| Answer::new(401, "", "").with("WWW-Authenticate", "Bearer realm=\"x\"")),
    ("c403", Failed, |s| {
        error(s, 403, -32600, None).with("WWW-Authenticate", "Bearer error=\"insufficient_scope\"")
    }),
    // Redirects are never followed (design §3), and say nothing of the era.
    ("moved", Failed, |_| Answer::new(307, "", "").with("Location", "/elsewhere")),
    ("broken", Failed, |_| Answer::new(500, "text/plain", "oops")),
    ("slower", Failed, |_| Answer::new(429, "text/plain", "slow down")),
    ("busy", Failed, |s| error(s, 503, -32601, None).with("Retry-After", "1")),
];

/// Covers: G-60, G-61, G-62, G-66, G-67, H-62, F-006: each answer to the probe, each server of its own.
#[tokio::test(flavor = "multi_thread")]
async fn g_61_every_answer_over_http_has_its_verdict() {
    let mut setup = Setup::new();
    let mut servers = Vec::new();
    for (name, verdict, answer) in REFUSALS.iter().chain(OTHERS) {
        let server = Server::legacy(name, Offer::tools(&["t"])).await;
        server.on("server/discover", answer);
        if *verdict == Modern {
            server.on("tools/list", |seen| {
                Answer::result(seen, r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#)
            });
            server.on("tools/call", |seen| Answer::result(seen, r#"{"content":[]}"#));
        }
        setup = setup.http(name, &server.url(), SHORT);
        servers.push((*name, *verdict, server));
    }
    let gateway = setup.start().await;
    let mut connection = gateway.connect().await;
    let mut shown = names(&mut connection, "tools/list").await;
    shown.sort();
    let mut wanted: Vec<String> =
        servers.iter().filter(|s| s.1 != Failed).map(|(name, ..)| format!("{name}_t")).collect();
    wanted.sort();
    assert_eq!(shown, wanted);
    for (name, verdict, server) in &servers {
        judge(name, *verdict, server, &gateway).await;
    }
}

async fn judge(name: &str, verdict: Verdict, server: &Server, gateway: &Gateway) {
    let reply = gateway.send(call(&format!("{name}_t"), "{}")).await;
    assert_eq!(reply.verdict(), (200, Some(0)), "{name}: {reply:?}");
    let failed = reply.result()["isError"] == true;
    assert_eq!(failed, verdict == Failed, "{name}: {reply:?}");
    assert!(reply.header("www-authenticate").is_none() && !reply.last().contains("realm"), "{name}");
    if verdict == Failed {
        assert!(reply.last().contains(name), "{name}: the server is named: {reply:?}");
        server.asked("server/discover", 2).await;
        gateway.metric_becomes("gatehouse_server_up", &[("server", name)], 0.0).await;
    }
    let methods: Vec<String> = server.seen().iter().map(Seen::method).collect();
    assert_eq!(methods[0], "server/discover", "{name}");
    let initialized = methods.iter().filter(|m| *m == "initialize").count();
    assert_eq!(initialized, usize::from(verdict == Legacy), "{name}: {methods:?}");
    let allowed = ["server/discover", "initialize"];
    if verdict == Failed {
        // G-62: nothing with effects is asked before it is known how.
        assert!(methods.iter().all(|m| allowed.contains(&m.as_str())), "{name}: {methods:?}");
    } else {
        assert_eq!(methods.iter().filter(|m| *m == "server/discover").count(), 1, "{name}: {methods:?}");
    }
    let elsewhere = server.seen().iter().filter(|seen| !seen.head.first.contains(" /mcp ")).count();
    assert_eq!(elsewhere, 0, "{name}: redirects are not followed");
}

/// Covers: G-60: an event stream that says nothing is a legacy server's; a silent connection says nothing at all.
#[tokio::test(flavor = "multi_thread")]
async fn g_60_silence_on_a_stream_is_legacy_and_silence_without_one_is_no_verdict() {
    let stream = Server::legacy("stream", Offer::tools(&["t"])).await;
    let mut held = stream.hold("server/discover");
    let mute = Server::legacy("mute", Offer::tools(&["t"])).await;
    let _unanswered = mute.hold("server/discover");
    let brief = "probe_timeout = \"1s\"\nlist_timeout = \"1s\"";
    let gateway =
        Setup::new().http("stream", &stream.url(), brief).http("mute", &mute.url(), brief).launch().await;
    let mut probe = held.next().await;
    probe.open_events();
    probe.chunk(b": still here\n\n");
    stream.asked("initialize", 1).await;
    probe.gone().await;
    let mut connection = gateway.connect().await;
    eventually("the tools", async || names(&mut connection, "tools/list").await == ["stream_t"]).await;
    mute.asked("server/discover", 2).await;
    assert!(mute.requests("initialize").is_empty(), "no verdict, no handshake");
    // When it speaks at last, it is heard.
    mute.release("server/discover");
    eventually("both", async || names(&mut connection, "tools/list").await == ["stream_t", "mute_t"]).await;
}

/// Covers: G-61: trouble is no verdict: the server is asked again, and is then what it says.
#[tokio::test(flavor = "multi_thread")]
async fn g_61_a_server_in_trouble_is_probed_again() {
    let modern = Server::modern("m", Offer::tools(&["t"])).await;
    let legacy = Server::legacy("l", Offer::tools(&["t"])).await;
    modern.on("server/discover", |_| Answer::new(503, "text/html", "<h1>later"));
    let gate = Gate::new(Mode::Refuse).await;
    let gateway = Setup::new().http("m", &modern.url(), "").http("l", &gate.url(), "").start().await;
    let mut connection = gateway.connect().await;
    assert!(names(&mut connection, "tools/list").await.is_empty());
    modern.asked("server/discover", 2).await;
    modern.release("server/discover");
    gate.set(Mode::Pass(legacy.address)).await;
    eventually("both", async || names(&mut connection, "tools/list").await == ["m_t", "l_t"]).await;
    assert!(modern.requests("initialize").is_empty());
}

/// Covers: G-65: one probe serves for the life of the verdict, and the verdict is revised when it fails.
#[tokio::test(flavor = "multi_thread")]
async fn g_65_the_era_is_remembered_and_revised() {
    let modern = Server::modern("m", Offer::tools(&["t"])).await;
    // A modern server as it should be: nothing without its headers.
    for method in ["tools/list", "tools/call"] {
        modern.on(method, move |seen| match seen.header("mcp-method").is_some() {
            true if method == "tools/list" => {
                Answer::result(seen, r#"{"resultType":"complete","tools":[{"name":"t","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"public"}"#)
            }
            true => Answer::result(seen, r#"{"resultType":"complete","content":[]}"#),
            false => error(seen, 400, -32020, None),
        });
    }
    let legacy = Server::legacy("l", Offer::tools(&["t"])).await;
    let gate = Gate::new(Mode::Pass(modern.address)).await;
    let gateway = Setup::new().http("s", &gate.url(), "session_scope = \"shared\"").start().await;
    let works = async || gateway.send(call("s_t", "{}")).await.result()["isError"] != true;
    for _ in 0..20 {
        assert!(works().await);
    }
    assert_eq!(modern.requests("server/discover").len(), 1);
    gate.set(Mode::Pass(legacy.address)).await;
    eventually("a call after the server became legacy", works).await;
    for _ in 0..20 {
        assert!(works().await);
    }
    let probes = legacy.requests("server/discover").len();
    assert_eq!((probes, legacy.requests("initialize").len()), (1, 1));
    gate.set(Mode::Pass(modern.address)).await;
    eventually("a call after the server became modern", works).await;
    for _ in 0..20 {
        assert!(works().await);
    }
    assert_eq!(modern.requests("server/discover").len(), 2);
    assert!(modern.requests("initialize").is_empty());
}

/// Covers: G-65: `protocol` pins the era.
#[tokio::test(flavor = "multi_thread")]
async fn g_65_the_configuration_can_pin_the_era() {
    let legacy = Server::legacy("l", Offer::tools(&["t"])).await;
    let wrong = Server::legacy("w", Offer::tools(&["t"])).await;
    let modern = Server::modern("m", Offer::tools(&["t"])).await;
    let gateway = Setup::new()
        .http("l", &legacy.url(), "protocol = \"legacy\"")
        .http("w", &wrong.url(), "protocol = \"modern\"")
        .http("m", &modern.url(), "protocol = \"modern\"")
        .start()
        .await;
    let mut connection = gateway.connect().await;
    assert_eq!(names(&mut connection, "tools/list").await, ["l_t", "m_t"]);
    assert!(legacy.requests("server/discover").is_empty());
    assert!(wrong.requests("initialize").is_empty());
}

/// Children by how they take the probe: name, whether their tools must show, how often they may be started.
const CHILDREN: &[(&str, Verdict, &str)] = &[
    ("good", Modern, r#"serve({"server/discover": DISCOVER, "tools/list": tools("t")})"#),
    ("unknown", Legacy, r#"serve({"initialize": INITIALIZE, "tools/list": tools("t")})"#),
    (
        "params",
        Legacy,
        r#"serve({"initialize": INITIALIZE, "tools/list": tools("t"),
                  "server/discover": lambda m, line: error(m, -32602, "Invalid request parameters")})"#,
    ),
    (
        "noid",
        Legacy,
        r#"serve({"initialize": INITIALIZE, "tools/list": tools("t"),
                  "server/discover": lambda m, line: send('{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"?"}}')})"#,
    ),
    (
        "garbage",
        Legacy,
        r#"serve({"initialize": INITIALIZE, "tools/list": tools("t"),
                  "server/discover": lambda m, line: send("Traceback (most recent call last):\n  KeyError: 'server/discover'")})"#,
    ),
    (
        "silent",
        Legacy,
        r#"serve({"initialize": INITIALIZE, "tools/list": tools("t"), "server/discover": lambda m, line: None})"#,
    ),
    // G-64: the late answer is nobody's.
    (
        "late",
        Legacy,
        r#"
late = []
def initialize(m, line):
    result(late[0], DISCOVER)
    result(m, INITIALIZE)
serve({"initialize": initialize, "tools/list": tools("t"), "server/discover": lambda m, line: late.append(m)})"#,
    ),
    // G-64: started again, and then begun with the handshake.
    (
        "exits",
        Legacy,
        r#"serve({"initialize": INITIALIZE, "tools/list": tools("t"), "server/discover": lambda m, line: sys.exit(1)})"#,
    ),
    (
        "older",
        Legacy,
        r#"
def refuse(m, line):
    send(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32022, "message": "?", "data": {"supported": ["2025-11-25"]}}}))
serve({"initialize": INITIALIZE, "tools/list": tools("t"), "server/discover": refuse})"#,
    ),
    (
        "newer",
        Failed,
        r#"
def refuse(m, line):
    send(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32022, "message": "?", "data": {"supported": ["2027-01-01"]}}}))
serve({"initialize": INITIALIZE, "tools/list": tools("t"), "server/discover": refuse})"#,
    ),
];

/// Covers: G-63, G-64, G-66: the same for children.
#[tokio::test(flavor = "multi_thread")]
async fn g_63_every_answer_of_a_child_has_its_verdict() {
    let mut setup = Setup::new();
    let mut children = Vec::new();
    for (name, verdict, script) in CHILDREN {
        let child = Child::python(script);
        let mute = ["silent", "garbage", "late", "noid"].contains(name);
        let patience = if mute { "8s" } else { "30s" };
        setup = setup.stdio(name, &child.argv(), &format!("probe_timeout = \"{patience}\""));
        children.push((*name, *verdict, child));
    }
    let gateway = setup.start().await;
    let mut connection = gateway.connect().await;
    let shown = children.iter().filter(|c| c.1 != Failed).map(|(name, ..)| format!("{name}_t"));
    let shown: Vec<String> = shown.collect();
    eventually("all tools", async || names(&mut connection, "tools/list").await == shown).await;
    for (name, verdict, child) in &children {
        let count = |method: &str| child.requests(method).len();
        let first = child.received()[0].clone();
        assert!(first.contains("\"server/discover\""), "{name}: {first}");
        if *verdict == Failed {
            assert_eq!(count("initialize"), 0, "{name}");
            continue;
        }
        let wanted = (1, usize::from(*verdict == Legacy));
        assert_eq!((count("server/discover"), count("initialize")), wanted, "{name}: {:?}", child.received());
    }
    let restarts = gateway.metric("gatehouse_child_restarts_total", &[("server", "exits")]).await;
    assert_eq!(restarts, 1.0);
}

/// Covers: H-61: a discover that is asked of the gateway itself is never a 4xx because of its servers (design §5).
#[tokio::test(flavor = "multi_thread")]
async fn discover_is_answered_while_no_server_is() {
    let gate = Gate::new(Mode::Silent).await;
    let gateway = Setup::new().http("s", &gate.url(), "").launch().await;
    let reply = gateway.send(mcp("server/discover", "{}")).await;
    assert_eq!(reply.verdict(), (200, Some(0)), "{reply:?}");
    assert_eq!(reply.result()["supportedVersions"][0], "2026-07-28");
    assert!(reply.result()["ttlMs"].as_u64().unwrap() <= 5000);
}
