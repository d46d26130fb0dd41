//! The metrics as a whole (design §8): each of the table is there with its type and its labels, no other is, they say
//! what happened, and nothing that a client makes up becomes a label. F-082, issue 6.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::support::cast::{ask, by, caller};
use crate::support::eventually;
use crate::support::exchange::Answer;
use crate::support::feed::{Feed, Stream, TELLS, declare};
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::{Session, initialize};
use crate::support::request::{Request, call, mcp};
use crate::support::server::{Held, Offer, Server};

/// Name, type and labels of each.
const TABLE: &[(&str, &str, &[&str])] = &[
    ("gatehouse_requests_total", "counter", &["method", "server", "outcome", "era"]),
    ("gatehouse_tool_calls_total", "counter", &["server", "tool", "outcome"]),
    ("gatehouse_tool_call_duration_seconds", "histogram", &["server", "tool"]),
    ("gatehouse_result_bytes", "histogram", &["server", "tool"]),
    ("gatehouse_overhead_seconds", "histogram", &["method"]),
    ("gatehouse_client_calls_total", "counter", &["client", "outcome"]),
    ("gatehouse_inflight", "gauge", &["server"]),
    ("gatehouse_server_up", "gauge", &["server"]),
    ("gatehouse_catalogue_missing", "gauge", &["server"]),
    ("gatehouse_catalogue_items", "gauge", &["server", "kind"]),
    ("gatehouse_catalogue_age_seconds", "gauge", &["server", "kind"]),
    ("gatehouse_cache_requests_total", "counter", &["kind", "result"]),
    ("gatehouse_list_changed_total", "counter", &["server", "kind", "direction"]),
    ("gatehouse_listen_streams", "gauge", &[]),
    ("gatehouse_sessions", "gauge", &[]),
    ("gatehouse_parked_calls", "gauge", &[]),
    ("gatehouse_auth_rejections_total", "counter", &["reason"]),
    ("gatehouse_header_rejections_total", "counter", &["header"]),
    ("gatehouse_limited_total", "counter", &["limit"]),
    ("gatehouse_child_restarts_total", "counter", &["server"]),
    ("gatehouse_name_clashes", "gauge", &["server"]),
    ("gatehouse_config_last_reload_timestamp_seconds", "gauge", &[]),
    ("gatehouse_audit_dropped_total", "counter", &[]),
    ("gatehouse_panics_total", "counter", &[]),
    ("gatehouse_build_info", "gauge", &["version"]),
    ("process_cpu_seconds_total", "counter", &[]),
    ("process_max_fds", "gauge", &[]),
    ("process_open_fds", "gauge", &[]),
    ("process_resident_memory_bytes", "gauge", &[]),
    ("process_start_time_seconds", "gauge", &[]),
    ("process_threads", "gauge", &[]),
    ("process_virtual_memory_bytes", "gauge", &[]),
    // Beyond the design.
    ("gatehouse_spans_dropped_total", "counter", &[]),
    ("gatehouse_tasks", "gauge", &[]),
    ("gatehouse_connections", "gauge", &[]),
    ("gatehouse_buffered_bytes", "gauge", &[]),
];

/// Those that this load does not make: their parts have tests of their own.
const ELSEWHERE: &[(&str, &str, &[&str])] = &[
    ("gatehouse_breaker_state", "gauge", &["server"]),
    ("gatehouse_config_reloads_total", "counter", &["result"]),
    ("gatehouse_contract_changes_total", "counter", &["server", "class"]),
    ("gatehouse_deprecated_use_total", "counter", &["tool", "path"]),
    ("gatehouse_server_violations_total", "counter", &["server", "kind"]),
    ("gatehouse_playbooks", "gauge", &["state"]),
];

/// What one scrape says: the type of each, and the sets of labels that occur.
#[derive(Debug, Default, PartialEq)]
struct Family {
    kind: String,
    labels: BTreeSet<Vec<String>>,
}

/// The names of the labels of a series, as `name{a="…",b="…"}`; values of ours hold no quotes.
fn label_names(series: &str) -> Vec<String> {
    let Some((_, labels)) = series.split_once('{') else { return Vec::new() };
    let quoted = labels.split('"').step_by(2).filter_map(|part| part.strip_suffix('='));
    let mut names: Vec<String> =
        quoted.map(|name| name.trim_start_matches(',').to_owned()).filter(|name| name != "le").collect();
    names.sort();
    names
}

fn families(text: &str) -> BTreeMap<String, Family> {
    let mut all: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines() {
        if let Some(told) = line.strip_prefix("# TYPE ") {
            let (name, kind) = told.split_once(' ').unwrap();
            all.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if !line.starts_with('#') {
            let series = line.rsplit_once(' ').unwrap().0;
            let name = series.split('{').next().unwrap();
            let own = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
                let base = name.strip_suffix(end)?;
                all.contains_key(base).then_some(base)
            });
            let family = all.get_mut(own.unwrap_or(name)).unwrap_or_else(|| panic!("no type for {name}"));
            family.labels.insert(label_names(series));
        }
    }
    all
}

struct Bench {
    gateway: Gateway,
    feed: Feed,
    _held: Held,
    _servers: [Server; 2],
}

async fn bench() -> Bench {
    let mut offer = Offer::tools(&["t", "bad", "err"]);
    offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
    offer.resources = vec![r#"{"uri":"x://a","name":"a"}"#.to_owned()];
    let modern = Server::modern("m", offer).await;
    declare(&modern, TELLS);
    let mut held = modern.hold("subscriptions/listen");
    modern.on("tools/call", |seen| match seen.name().unwrap_or_default().as_str() {
        "bad" => Answer::result(seen, r#"{"content":[],"isError":true}"#),
        "err" => Answer::error(seen, 200, -32050, "no"),
        _ => Answer::result(seen, r#"{"content":[]}"#),
    });
    let legacy = Server::legacy("l", Offer::tools(&["t"])).await;
    let callers = [caller("ann", ""), caller("bob", "")].concat();
    let gateway = Setup::new()
        .gateway("max_body = \"64KiB\"")
        .toml(&format!("[auth]\n{callers}"))
        .http("m", &modern.url(), "")
        .http("l", &legacy.url(), "")
        .http("gone", "http://127.0.0.1:9/mcp", "")
        .start()
        .await;
    let feed = Feed::accept(held.next().await);
    Bench { gateway, feed, _held: held, _servers: [modern, legacy] }
}

fn stranger(request: impl Into<Request>) -> Request {
    request.into().with("Authorization", "Bearer invented-token-of-nobody-0123456789")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_is_what_the_table_says_and_nothing_made_up_is_a_label() {
    let Bench { gateway, feed, _held, _servers } = bench().await;
    let send = async |request: Request| ask(&gateway, "ann", request).await;
    // What is there to be used, with each outcome.
    for (name, times) in [("m_t", 3), ("m_bad", 2), ("m_err", 1), ("l_t", 4)] {
        for _ in 0..times {
            send(call(name, "{}").request()).await;
        }
    }
    send(mcp("prompts/get", r#"{"name":"m_p"}"#).request()).await;
    for _ in 0..2 {
        send(mcp("resources/read", r#"{"uri":"x://a"}"#).request()).await;
        send(mcp("tools/list", "{}").request()).await;
    }
    let hello = ask(&gateway, "bob", initialize("2025-11-25", "{}")).await;
    let session = Session::of(
        &hello,
        vec![("Authorization".to_owned(), format!("Bearer {}", crate::support::cast::key("bob")))],
    );
    // F-082: what counts is the body, also where no header has to agree with it.
    let misled = session.call("5", "m_t", "{}").with("Mcp-Name", "l_t").with("Mcp-Method", "tools/list");
    assert_eq!(gateway.send(misled).await.status(), 200);
    // What clients make up.
    for n in 0..30 {
        send(call(&format!("invented-{n}"), "{}").request()).await;
        send(mcp(&format!("invented/{n}"), "{}").request()).await;
        send(mcp("prompts/get", format!(r#"{{"name":"invented-{n}"}}"#)).request()).await;
        send(mcp("resources/read", format!(r#"{{"uri":"invented://{n}"}}"#)).request()).await;
        send(call("m_t", "{}").request().set("Mcp-Name", format!("invented-{n}"))).await;
        send(call("m_t", "{}").request().set("Mcp-Method", format!("invented-{n}"))).await;
        send(call("m_t", "{}").request().at(&format!("/invented-{n}"))).await;
        gateway.send(stranger(call("m_t", "{}"))).await;
        gateway.send(session.request("6", &format!("invented/{n}"), "{}")).await;
    }
    send(Request::post(vec![b'x'; 100_000])).await;
    // Changes, in and out.
    let connection = gateway.connect().await;
    let listen = by("ann", crate::support::feed::listen("\"s\"", r#"{"toolsListChanged":true}"#));
    let mut stream = Stream::ask(connection, listen, "\"s\"").await;
    _servers[0].offer(Offer::tools(&["t", "bad", "err", "new"]));
    feed.changed("tools");
    assert_eq!(stream.notice().await, "tools");

    let page = gateway.admin("/metrics").await;
    let found = families(page.text());
    let known: Vec<_> = TABLE.iter().chain(ELSEWHERE).collect();
    for (name, kind, labels) in &known {
        let Some(family) = found.get(*name) else {
            assert!(ELSEWHERE.iter().any(|(other, ..)| other == name), "{name} is missing");
            continue;
        };
        let mut sorted: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        sorted.sort();
        assert_eq!((family.kind.as_str(), &family.labels), (*kind, &BTreeSet::from([sorted])), "{name}");
    }
    for name in found.keys() {
        assert!(known.iter().any(|(own, ..)| own == name), "{name} is in no table");
    }
    assert!(!page.text().contains("invented"), "{}", page.text());

    // And it is true.
    let metric = async |name: &str, labels: &[(&str, &str)]| gateway.metric(name, labels).await;
    let tools = "gatehouse_tool_calls_total";
    for (server, tool, outcome, times) in [
        ("m", "m_t", "ok", 4.0),
        ("m", "m_bad", "tool_error", 2.0),
        ("m", "m_err", "rpc_error", 1.0),
        ("l", "l_t", "ok", 4.0),
        ("", "other", "bad_request", 30.0),
    ] {
        let labels = [("server", server), ("tool", tool), ("outcome", outcome)];
        assert_eq!(metric(tools, &labels).await, times, "{labels:?}");
        let took = metric("gatehouse_tool_call_duration_seconds_count", &labels[..2]).await;
        assert_eq!(took, metric(tools, &labels[..2]).await, "{labels:?}");
    }
    assert_eq!(metric(tools, &[]).await, 41.0);
    assert_eq!(metric("gatehouse_result_bytes_count", &[("tool", "m_t")]).await, 4.0);
    assert_eq!(metric("gatehouse_result_bytes_count", &[("tool", "m_err")]).await, 0.0);
    let requests = "gatehouse_requests_total";
    assert_eq!(metric(requests, &[("method", "other"), ("era", "modern")]).await, 30.0);
    assert_eq!(metric(requests, &[("method", "other"), ("era", "legacy")]).await, 30.0);
    assert_eq!(metric(requests, &[("outcome", "header_mismatch")]).await, 60.0);
    assert_eq!(metric(requests, &[("method", "tools/call"), ("server", "m"), ("era", "legacy")]).await, 1.0);
    let headers = "gatehouse_header_rejections_total";
    assert_eq!(metric(headers, &[("header", "name")]).await, 30.0);
    assert_eq!(metric(headers, &[("header", "method")]).await, 30.0);
    assert_eq!(metric("gatehouse_auth_rejections_total", &[]).await, 30.0);
    assert_eq!(metric("gatehouse_limited_total", &[("limit", "max_body")]).await, 1.0);
    assert_eq!(metric("gatehouse_cache_requests_total", &[("kind", "reads"), ("result", "miss")]).await, 2.0);
    assert!(metric("gatehouse_cache_requests_total", &[("kind", "tools"), ("result", "hit")]).await >= 2.0);
    assert_eq!(metric("gatehouse_list_changed_total", &[("direction", "in"), ("server", "m")]).await, 1.0);
    assert_eq!(metric("gatehouse_list_changed_total", &[("direction", "out")]).await, 1.0);
    assert_eq!(metric("gatehouse_server_up", &[("server", "m")]).await, 1.0);
    assert_eq!(metric("gatehouse_server_up", &[("server", "gone")]).await, 0.0);
    assert_eq!(metric("gatehouse_catalogue_missing", &[("server", "gone")]).await, 1.0);
    eventually("the new tool is counted", async || {
        metric("gatehouse_catalogue_items", &[("server", "m"), ("kind", "tools")]).await == 4.0
    })
    .await;
    assert_eq!(metric("gatehouse_listen_streams", &[]).await, 1.0);
    assert_eq!(metric("gatehouse_sessions", &[]).await, 1.0);
    assert_eq!(metric("gatehouse_inflight", &[("server", "m")]).await, 0.0);
    let clients = "gatehouse_client_calls_total";
    assert_eq!(metric(clients, &[("client", "ann"), ("outcome", "ok")]).await, 3.0 + 4.0 + 1.0 + 4.0 + 1.0);
    assert!(metric(clients, &[("client", "bob")]).await >= 31.0);
    let began = metric("process_start_time_seconds", &[]).await;
    assert!(metric("gatehouse_config_last_reload_timestamp_seconds", &[]).await >= began - 5.0);
    let own = metric("gatehouse_overhead_seconds_sum", &[("method", "tools/call")]).await;
    let whole = metric("gatehouse_tool_call_duration_seconds_sum", &[]).await;
    assert!(own > 0.0 && own < whole, "{own} of {whole}: waiting for servers is not ours");
    drop(stream);
    gateway.metric_becomes("gatehouse_listen_streams", &[], 0.0).await;
    gateway.stop().await;
}

/// Names of ours are labels: those of the search and of its tools.
#[tokio::test(flavor = "multi_thread")]
async fn tools_of_the_gateways_own_are_counted_by_name() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new()
        .toml("[[endpoint]]\npath = \"/mcp\"\ndiscovery = \"search\"")
        .http("s", &server.url(), "")
        .start()
        .await;
    gateway.send(call("search_tools", r#"{"query":"t"}"#)).await;
    gateway.send(call("call_tool", json!({ "name": "s_t" }))).await;
    gateway.send(call("call_tool", json!({ "name": "invented" }))).await;
    gateway.send(call("invented", "{}")).await;
    let counted = async |server: &str, tool: &str, outcome: &str| {
        let labels = [("server", server), ("tool", tool), ("outcome", outcome)];
        gateway.metric("gatehouse_tool_calls_total", &labels).await
    };
    assert_eq!(counted("", "search_tools", "ok").await, 1.0);
    assert_eq!(counted("s", "s_t", "ok").await, 1.0);
    assert_eq!(counted("", "call_tool", "tool_error").await, 1.0);
    assert_eq!(counted("", "other", "bad_request").await, 1.0);
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &[]).await, 4.0);
    assert!(!gateway.admin("/metrics").await.text().contains("invented"));
    gateway.stop().await;
}
