//! Traces through a real collector: one tree from client to server, with the outcome, over both eras; whose trace is
//! continued; a collector that is away costs a call nothing. M-28, F-097, issue 6.

use std::time::{Duration, Instant};

use tokio::net::TcpListener;

use crate::support::child::Child;
use crate::support::collector::{Collector, Got};
use crate::support::eventually;
use crate::support::exchange::{Answer, Seen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::Session;
use crate::support::request::{Request, call, mcp};
use crate::support::server::{Offer, Server};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn parent(trace: &str) -> String {
    format!("00-{trace}-{SPAN}-01")
}

/// A trace id of its own for each case.
fn trace(number: usize) -> String {
    format!("{number:032x}")
}

/// What a server was told: the trace and the span, by `_meta`; the header says the same where there is one.
fn told(seen: &Seen) -> (String, String) {
    let text = seen.raw(&["params", "_meta", "traceparent"]).expect("a trace goes on");
    let text: String = serde_json::from_str(&text).unwrap();
    assert_eq!(seen.header("traceparent").as_deref(), Some(text.as_str()));
    let parts: Vec<&str> = text.split('-').collect();
    assert_eq!((parts[0], parts[3]), ("00", "01"), "{text}");
    (parts[1].to_owned(), parts[2].to_owned())
}

fn one(spans: &[Got], side: &str) -> Got {
    let mut found = spans.iter().filter(|span| span.side == side);
    let span = found.next().unwrap_or_else(|| panic!("a span of a {side} in {spans:?}")).clone();
    assert_eq!(found.next(), None, "one of a {side}");
    span
}

async fn bench(collector: &Collector, more: &str) -> (Server, Server, Gateway) {
    let modern = Server::modern("m", Offer::tools(&["t", "bad", "err"])).await;
    let legacy = Server::legacy("l", Offer::tools(&["t", "bad", "err"])).await;
    for server in [&modern, &legacy] {
        server.on("tools/call", |seen| match seen.name().unwrap_or_default().as_str() {
            "bad" => Answer::result(seen, r#"{"content":[],"isError":true}"#),
            "err" => Answer::error(seen, 200, -32050, "the server's own secret"),
            _ => Answer::result(seen, r#"{"content":[]}"#),
        });
    }
    let gateway = Setup::new()
        .toml(&format!("{}{more}", collector.toml()))
        .http("m", &modern.url(), "")
        .http("l", &legacy.url(), "")
        .start()
        .await;
    (modern, legacy, gateway)
}

/// One call: from a client of which era to which server, and how it ends.
struct Case {
    modern: bool,
    /// `m` or `l`.
    server: &'static str,
    tool: &'static str,
    outcome: &'static str,
    /// `error.type`, empty where nothing fails.
    error: &'static str,
}

fn cases() -> Vec<Case> {
    let ends = [("t", "ok", ""), ("bad", "tool_error", "tool_error"), ("err", "rpc_error", "-32050")];
    let ways = [(true, "m"), (true, "l"), (false, "m"), (false, "l")];
    let every = |(modern, server)| {
        ends.map(|(tool, outcome, error)| Case { modern, server, tool, outcome, error }).into_iter()
    };
    ways.into_iter().flat_map(every).collect()
}

fn revision(modern: bool) -> &'static str {
    if modern { "2026-07-28" } else { "2025-11-25" }
}

impl Case {
    fn name(&self) -> String {
        format!("{}_{}", self.server, self.tool)
    }

    fn request(&self, session: &Session, parent: &str) -> Request {
        if self.modern {
            call(&self.name(), "{}").id("\"q-7\"").meta("traceparent", format!("\"{parent}\"")).request()
        } else {
            session.call("\"q-7\"", &self.name(), "{}").with("traceparent", parent)
        }
    }

    /// What both spans say.
    fn judge(&self, span: &Got, tool: &str) {
        let what = format!("{} {}: {span:?}", self.modern, self.name());
        assert_eq!(span.name, format!("tools/call {tool}"));
        assert_eq!(span.service, "gate");
        assert_eq!(span.get("mcp.method.name"), "tools/call");
        assert_eq!(span.get("gen_ai.operation.name"), "execute_tool");
        assert_eq!(span.get("gen_ai.tool.name"), tool);
        assert_eq!(span.get("network.transport"), "tcp");
        assert_eq!(span.get("gatehouse.server"), self.server);
        assert_eq!(span.get("gatehouse.outcome"), self.outcome, "{what}");
        assert_eq!((span.get("error.type"), span.failed), (self.error, !self.error.is_empty()), "{what}");
        let code = if self.error.starts_with('-') { self.error } else { "" };
        assert_eq!(span.get("rpc.response.status_code"), code, "{what}");
    }
}

/// The issue's own: client → gateway → server as one tree, with the outcome, over both eras.
#[tokio::test(flavor = "multi_thread")]
async fn m_28_one_call_is_one_tree_over_both_eras() {
    let collector = Collector::start().await;
    let (modern, legacy, gateway) = bench(&collector, "service_name = \"gate\"").await;
    let session = Session::open(&gateway, "2025-11-25", "{}").await;
    for (number, case) in cases().iter().enumerate() {
        let (trace, name) = (trace(number + 1), case.name());
        let to_modern = case.server == "m";
        let server = if to_modern { &modern } else { &legacy };
        let reply = gateway.send(case.request(&session, &parent(&trace))).await;
        assert_eq!(reply.status(), 200, "{reply:?}");
        let spans = collector.trace(&trace, 2).await;
        let (own, leg) = (one(&spans, "server"), one(&spans, "client"));
        assert_eq!(own.parent, SPAN, "{name}: the client's span is above ours");
        assert_eq!(leg.parent, own.id, "{name}: ours is above the request's to the server");
        assert_eq!(told(&server.last_call()), (trace, leg.id.clone()), "{name}: that above the server's own");
        case.judge(&own, &name);
        case.judge(&leg, case.tool);
        assert_eq!(own.get("jsonrpc.request.id"), "q-7");
        assert_eq!(own.get("mcp.protocol.version"), revision(case.modern));
        assert_eq!(leg.get("mcp.protocol.version"), revision(to_modern));
        assert_eq!(leg.get("server.port"), server.address.port().to_string());
        assert_eq!(leg.get("server.address"), "127.0.0.1");
        assert_eq!(own.attributes.contains_key("mcp.session.id"), !case.modern);
        assert!(own.nanos >= leg.nanos && leg.nanos > 0, "{name}: one tree in time, too");
        let all = format!("{spans:?}");
        assert!(!all.contains(&session.id) && !all.contains("secret"), "{name}: no secret in a span: {all}");
    }
    assert_eq!(gateway.metric("gatehouse_spans_dropped_total", &[]).await, 0.0);
    gateway.stop().await;
}

/// Prompts, reads and lists; names that a client made up are in no span.
#[tokio::test(flavor = "multi_thread")]
async fn every_use_has_its_span_and_nothing_made_up_names_one() {
    let collector = Collector::start().await;
    let mut offer = Offer::tools(&["t"]);
    offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
    offer.resources = vec![r#"{"uri":"x://a","name":"a"}"#.to_owned()];
    let server = Server::modern("s", offer).await;
    let gateway = Setup::new().toml(&collector.toml()).http("s", &server.url(), "").start().await;
    let traced = |number: usize, request: crate::support::request::Mcp| {
        request.meta("traceparent", format!("\"{}\"", parent(&trace(number))))
    };
    gateway.send(traced(1, mcp("prompts/get", r#"{"name":"s_p"}"#))).await;
    gateway.send(traced(2, mcp("resources/read", r#"{"uri":"x://a"}"#))).await;
    gateway.send(traced(3, mcp("tools/list", "{}"))).await;
    gateway.send(traced(4, call("invented", "{}"))).await;
    let spans = collector.trace(&trace(1), 2).await;
    let (own, leg) = (one(&spans, "server"), one(&spans, "client"));
    assert_eq!((own.name.as_str(), leg.name.as_str()), ("prompts/get s_p", "prompts/get p"));
    assert_eq!((own.get("gen_ai.prompt.name"), leg.get("gen_ai.prompt.name")), ("s_p", "p"));
    assert_eq!(own.get("gen_ai.operation.name"), "");
    let spans = collector.trace(&trace(2), 2).await;
    for span in &spans {
        assert_eq!((span.name.as_str(), span.get("mcp.resource.uri")), ("resources/read", "x://a"));
    }
    let list = one(&collector.trace(&trace(3), 1).await, "server");
    assert_eq!((list.name.as_str(), list.get("gatehouse.outcome")), ("tools/list", "ok"));
    let unknown = one(&collector.trace(&trace(4), 1).await, "server");
    assert_eq!((unknown.name.as_str(), unknown.get("error.type")), ("tools/call", "-32602"));
    assert_eq!(unknown.get("gatehouse.outcome"), "bad_request");
    assert!(!format!("{unknown:?}").contains("invented"));
    gateway.stop().await;
}

/// Covers: M-28: a server behind pipes has no headers, and is told all the same.
#[tokio::test(flavor = "multi_thread")]
async fn m_28_a_child_is_a_part_of_the_tree() {
    let collector = Collector::start().await;
    let child = Child::python(
        r#"
def called(m, line):
    result(m, json.dumps({"content": [], "structuredContent": m["params"]["_meta"]}))
serve({"server/discover": DISCOVER, "tools/list": lambda m, line: result(m, tools("t")), "tools/call": called})"#,
    );
    let gateway = Setup::new().toml(&collector.toml()).stdio("s", &child.argv(), "").start().await;
    let reply = gateway.send(call("s_t", "{}").meta("traceparent", format!("\"{}\"", parent(TRACE)))).await;
    let spans = collector.trace(TRACE, 2).await;
    let (own, leg) = (one(&spans, "server"), one(&spans, "client"));
    assert_eq!((own.parent.as_str(), &leg.parent), (SPAN, &own.id));
    assert_eq!(leg.get("network.transport"), "pipe");
    assert!(!leg.attributes.contains_key("server.address"));
    let told = reply.result()["structuredContent"]["traceparent"].clone();
    assert_eq!(told, format!("00-{TRACE}-{}-01", leg.id));
    gateway.stop().await;
}

/// Covers: M-28: sampling follows the caller; a caller without a trace gets one; what is not trusted is not continued.
#[tokio::test(flavor = "multi_thread")]
async fn m_28_whose_trace_it_is() {
    let collector = Collector::start().await;
    let (modern, legacy, gateway) = bench(&collector, "").await;
    // Not recorded above, not recorded here; it goes on all the same.
    let quiet = format!("00-{}-{SPAN}-00", trace(1));
    gateway.send(call("m_t", "{}").meta("traceparent", format!("\"{quiet}\""))).await;
    let sent = modern.last_call().raw(&["params", "_meta", "traceparent"]).unwrap();
    assert!(sent.contains(&trace(1)) && sent.ends_with("-00\""), "{sent}");
    // `_meta` counts; the trace of the HTTP request is another matter, and is linked.
    let both = call("m_t", "{}")
        .meta("traceparent", format!("\"{}\"", parent(&trace(2))))
        .meta("tracestate", "\"v=1\"")
        .meta("baggage", "\"user=alice\"")
        .request()
        .with("traceparent", format!("00-{TRACE}-b7ad6b7169203331-01"));
    gateway.send(both).await;
    let own = one(&collector.trace(&trace(2), 2).await, "server");
    assert_eq!(own.links, [TRACE]);
    let seen = modern.last_call();
    assert_eq!(seen.header("tracestate").as_deref(), Some("v=1"));
    assert_eq!((seen.header("baggage"), seen.raw(&["params", "_meta", "baggage"])), (None, None));
    // Of who says nothing there is a new trace, at a legacy server as well.
    gateway.send(call("l_t", "{}")).await;
    let (fresh, leg) = told(&legacy.last_call());
    let spans = collector.trace(&fresh, 2).await;
    assert_eq!((one(&spans, "server").parent, one(&spans, "client").id), (String::new(), leg));
    assert!(collector.spans().iter().all(|span| span.trace != trace(1)), "it was not to be recorded");
    gateway.stop().await;
}

/// Covers: M-28: at the border of another organisation nothing is taken from clients; baggage goes on where it may.
#[tokio::test(flavor = "multi_thread")]
async fn m_28_trust_and_baggage_are_the_operators_to_give() {
    let collector = Collector::start().await;
    let (modern, legacy, gateway) = bench(&collector, "trust_trace_context = false\nbaggage = true").await;
    for (server, name) in [(&modern, "m_t"), (&legacy, "l_t")] {
        let request = call(name, "{}")
            .meta("traceparent", format!("\"{}\"", parent(TRACE)))
            .meta("tracestate", "\"v=1\"")
            .meta("baggage", "\"user=alice,n=%20\"");
        gateway.send(request).await;
        let seen = server.last_call();
        let (fresh, _) = told(&seen);
        assert_ne!(fresh, TRACE);
        assert_eq!(one(&collector.trace(&fresh, 2).await, "server").parent, "");
        assert_eq!((seen.header("tracestate"), seen.raw(&["params", "_meta", "tracestate"])), (None, None));
        assert_eq!(seen.header("baggage").as_deref(), Some("user=alice,n=%20"));
        assert_eq!(seen.raw(&["params", "_meta", "baggage"]).as_deref(), Some("\"user=alice,n=%20\""));
    }
    // By the header as well, and never what cannot stand in one.
    gateway.send(call("m_t", "{}").request().with("baggage", "a=1")).await;
    assert_eq!(modern.last_call().header("baggage").as_deref(), Some("a=1"));
    gateway.send(call("m_t", "{}").meta("baggage", r#""a=1\r\nX-Evil: 1""#)).await;
    assert_eq!(modern.last_call().header("baggage"), None);
    gateway.stop().await;
}

/// A call that its client gives up, and one whose server keeps silent.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_come_to_nothing_have_their_spans() {
    let collector = Collector::start().await;
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let setup = Setup::new().toml(&collector.toml());
    let gateway = setup.http("s", &server.url(), "timeout = \"300ms\"").start().await;
    let mut held = server.hold("tools/call");
    let traced =
        |number: usize| call("s_t", "{}").meta("traceparent", format!("\"{}\"", parent(&trace(number))));
    gateway.send(traced(1)).await;
    let late = held.next().await;
    for span in collector.trace(&trace(1), 2).await {
        assert_eq!((span.get("gatehouse.outcome"), span.get("error.type")), ("timeout", "timeout"));
        assert!(span.failed && span.nanos >= 300_000_000, "{span:?}");
    }
    drop(late);
    server.release("tools/call");
    gateway.stop().await;
    let gateway = Setup::new().toml(&collector.toml()).http("s", &server.url(), "").start().await;
    let mut held = server.hold("tools/call");
    let mut connection = gateway.connect().await;
    connection.ask(traced(2)).await;
    let mut exchange = held.next().await;
    drop(connection);
    exchange.gone().await;
    for span in collector.trace(&trace(2), 2).await {
        assert_eq!((span.get("gatehouse.outcome"), span.get("error.type")), ("cancelled", "cancelled"));
    }
    gateway.stop().await;
}

/// What is finished is sent when the gateway ends, without waiting for a whole batch; so is what the end cuts.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_spans_are_sent_at_the_end() {
    let collector = Collector::start().await;
    let server = Server::modern("s", Offer::tools(&["t", "slow"])).await;
    let gateway = Setup::new()
        .gateway("drain_timeout = \"200ms\"")
        .toml(&collector.toml())
        .http("s", &server.url(), "")
        .start()
        .await;
    let mut held = server.hold("tools/call");
    let mut connection = gateway.connect().await;
    connection.ask(call("s_slow", "{}").meta("traceparent", format!("\"{}\"", parent(TRACE)))).await;
    let exchange = held.next().await;
    gateway.send(mcp("tools/list", "{}").meta("traceparent", format!("\"{}\"", parent(&trace(2))))).await;
    gateway.stop().await;
    drop(exchange);
    let spans = collector.spans();
    assert_eq!(spans.iter().filter(|span| span.trace == trace(2)).count(), 1, "{spans:?}");
    let cut: Vec<&Got> = spans.iter().filter(|span| span.trace == TRACE).collect();
    assert_eq!(cut.len(), 2, "{spans:?}");
    assert!(cut.iter().all(|span| span.get("gatehouse.outcome") == "cancelled"), "{cut:?}");
}

/// A collector that is away costs no call anything: spans are dropped and counted, and it is said once.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_is_said_once() {
    // Bound, so that nobody else gets the address; never accepted.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new()
        .toml(&format!("[telemetry]\notlp = \"http://{address}\""))
        .http("s", &server.url(), "")
        .start()
        .await;
    let dropped = async || gateway.metric("gatehouse_spans_dropped_total", &[]).await;
    let send = async |count: usize| {
        for _ in 0..count {
            assert_eq!(gateway.send(call("s_t", "{}")).await.status(), 200);
        }
    };
    // Batches end after a second, so these are several.
    for _ in 0..2 {
        let before = dropped().await;
        send(3).await;
        eventually("spans are dropped", async || dropped().await >= before + 6.0).await;
    }
    assert_eq!(gateway.log.find(|line| line.contains("takes no traces")).len(), 1);
    let collector = Collector::on(TcpListener::bind(address).await.unwrap());
    eventually("spans arrive", async || {
        send(1).await;
        !collector.spans().is_empty()
    })
    .await;
    gateway.log.wait("that it is back", |line| line.contains("takes traces again")).await;
    gateway.stop().await;
}

/// What is refused for good is sent once; what passes is tried again, and arrives.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_refuses_is_asked_again_where_that_helps() {
    let collector = Collector::start().await;
    collector.answer(400);
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().toml(&collector.toml()).http("s", &server.url(), "").start().await;
    gateway.send(call("s_t", "{}")).await;
    gateway.metric_becomes("gatehouse_spans_dropped_total", &[], 2.0).await;
    assert_eq!(collector.asked().len(), 1);
    assert_eq!(collector.asked()[0]["content-type"], "application/x-protobuf");
    collector.answer(503);
    gateway.send(call("s_t", "{}")).await;
    eventually("a try", async || collector.asked().len() >= 2).await;
    collector.answer(200);
    eventually("another, or the next batch", async || {
        gateway.send(call("s_t", "{}")).await;
        !collector.spans().is_empty()
    })
    .await;
    gateway.stop().await;
}

/// Without a collector no trace is begun, and the end does not wait for one.
#[tokio::test(flavor = "multi_thread")]
async fn m_28_without_a_collector_no_trace_is_begun() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    gateway.send(call("s_t", "{}")).await;
    let seen = server.last_call();
    assert_eq!((seen.header("traceparent"), seen.raw(&["params", "_meta", "traceparent"])), (None, None));
    let untrusting = Setup::new()
        .toml("[telemetry]\ntrust_trace_context = false")
        .http("s", &server.url(), "")
        .start()
        .await;
    let request: Request = call("s_t", "{}").meta("traceparent", format!("\"{}\"", parent(TRACE))).into();
    untrusting.send(request.with("traceparent", parent(TRACE))).await;
    let seen = server.last_call();
    assert_eq!((seen.header("traceparent"), seen.raw(&["params", "_meta", "traceparent"])), (None, None));
    untrusting.stop().await;
    let began = Instant::now();
    gateway.stop().await;
    assert!(began.elapsed() < Duration::from_secs(30));
}
