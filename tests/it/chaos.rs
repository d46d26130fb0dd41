//! The chaos run (issue 6): 200 clients of both eras over twelve servers, half of which are killed, hung, slowed, made to
//! send garbage and reset, while the configuration is reloaded and the authorization server is away. Whoever only uses
//! what is healthy notices nothing, and every call is counted once, as its client saw it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::support::child::Child;
use crate::support::client::{Connection, Reply};
use crate::support::exchange::{Answer, Exchange, Seen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::{Session, initialize};
use crate::support::measure::measured;
use crate::support::people::{People, with};
use crate::support::request::{Request, call};
use crate::support::server::{Held, Offer, Server};
use crate::support::tcp::{Gate, Mode};
use crate::support::{eventually, scale};

/// Clients of each era.
const CLIENTS: usize = 100;
/// Readings of the configuration, a quarter of which are of a bad file.
const RELOADS: usize = 20;
const HEALTHY: [&str; 6] = ["h0", "h1", "h2", "h3", "h4", "h5"];
const SICK: [&str; 6] = ["s0", "s1", "s2", "s3", "s4", "s5"];
/// What a client waits between two calls: the machine is to be busy, not stuck.
const THINK: Duration = Duration::from_millis(100);

/// What came of calls, by server and outcome.
type Tally = BTreeMap<(usize, &'static str), usize>;

/// The servers and what makes them sick.
struct Ward {
    healthy: Vec<Server>,
    children: Vec<Child>,
    sick: Vec<Server>,
    /// In front of the ones that are killed, hung, and one of two replicas.
    gates: [Gate; 3],
    turn: Arc<AtomicUsize>,
}

impl Ward {
    async fn new() -> Self {
        let offer = || Offer::tools(&["t"]);
        let healthy = vec![
            Server::modern("h0", offer()).await,
            Server::modern("h1", offer()).await,
            Server::legacy("h2", offer()).await,
            Server::legacy("h3", offer()).await,
        ];
        let program = r#"
def called(m, line):
    result(m, '{"content":[],"resultType":"complete"}')
serve({"server/discover": DISCOVER, "tools/list": tools("t"), "tools/call": called})"#;
        let children = vec![Child::python(program), Child::python(program)];
        let sick = vec![
            Server::modern("s0", offer()).await,
            Server::legacy("s1", offer()).await,
            Server::modern("s2", offer()).await,
            Server::legacy("s3", offer()).await,
            Server::modern("s4", offer()).await,
            Server::modern("s5", offer()).await,
            Server::modern("s5", offer()).await,
        ];
        let gates = [
            Gate::new(Mode::Pass(sick[0].address)).await,
            Gate::new(Mode::Pass(sick[1].address)).await,
            Gate::new(Mode::Pass(sick[5].address)).await,
        ];
        let turn = Arc::new(AtomicUsize::new(0));
        for server in &healthy {
            // What they remember of each request is of no use here.
            server.on("tools/call", |seen| Answer::result(seen, r#"{"content":[],"resultType":"complete"}"#));
        }
        tokio::spawn(slow(sick[2].hold("tools/call")));
        for (at, ways) in [(3, ["garbage", "502", "503"]), (4, ["reset", "cut", "reset"])] {
            let turn = Arc::clone(&turn);
            sick[at].on("tools/call", move |seen| spoil_some(seen, &turn, ways));
        }
        Self { healthy, children, sick, gates, turn }
    }

    fn setup(&self, people: &People) -> Setup {
        // Healthy ones have all the time and room: what is shown is not how fast this machine is.
        let room = "timeout = \"25s\"\nmax_concurrency = 300\nqueue = 300";
        let sick = "timeout = \"1s\"\nprobe_timeout = \"1s\"\nlist_timeout = \"1s\"\nconnect_timeout = \"1s\"\n\
                    breaker = { open = \"1s\" }\nhealth_interval = \"1s\"";
        let mut setup = people.setup().gateway("max_lag = \"0s\"");
        for (name, server) in HEALTHY.iter().zip(&self.healthy) {
            setup = setup.http(name, &server.url(), room);
        }
        for (name, child) in HEALTHY.iter().skip(4).zip(&self.children) {
            setup = setup.stdio(name, &child.argv(), room);
        }
        let urls = [
            self.gates[0].url(),
            self.gates[1].url(),
            self.sick[2].url(),
            self.sick[3].url(),
            self.sick[4].url(),
        ];
        for (name, url) in SICK.iter().zip(&urls) {
            setup = setup.http(name, url, sick);
        }
        let both = [self.gates[2].url(), self.sick[6].url()];
        setup.toml(&format!("[[server]]\nname = \"s5\"\nurls = {both:?}\n{sick}"))
    }

    /// One step of the disaster.
    async fn step(&self, at: usize) {
        let turns = [
            [Mode::Refuse, Mode::Pass(self.sick[0].address), Mode::Refuse, Mode::Pass(self.sick[0].address)],
            [Mode::Silent, Mode::Silent, Mode::Refuse, Mode::Pass(self.sick[1].address)],
            [Mode::Pass(self.sick[5].address), Mode::Freeze, Mode::Refuse, Mode::Pass(self.sick[5].address)],
        ];
        for (gate, turns) in self.gates.iter().zip(turns) {
            gate.set(turns[at % turns.len()]).await;
        }
        self.turn.fetch_add(1, Ordering::SeqCst);
    }
}

/// Every other answer fails in one of these ways, now more and now less.
fn spoil_some(seen: &Seen, turn: &AtomicUsize, ways: [&'static str; 3]) -> Answer {
    let turn = turn.fetch_add(1, Ordering::SeqCst);
    match turn % 5 {
        0 | 2 => Answer::result(seen, r#"{"content":[],"resultType":"complete"}"#),
        one => Exchange::spoilt(seen, ways[one / 2]),
    }
}

/// Answers late; some never.
async fn slow(mut held: Held) {
    let mut waiting = JoinSet::new();
    let mut number = 0;
    while let Some(exchange) = held.later().await {
        number += 1;
        let late = Duration::from_millis(if number % 10 == 0 { 60_000 } else { 200 });
        waiting.spawn(async move {
            tokio::time::sleep(late).await;
            exchange.result(r#"{"content":[],"resultType":"complete"}"#);
        });
    }
}

/// What the client of a call was told, in the words of the metrics.
fn outcome(reply: &Reply) -> &'static str {
    match reply.verdict() {
        (200, Some(0)) => {}
        (200, Some(-32602)) => return "bad_request",
        _ => return "odd",
    }
    let result = reply.result();
    if result["isError"] != true {
        return "ok";
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let words = [
        ("(timeout)", "timeout"),
        ("is unavailable", "unavailable"),
        ("HTTP status", "unavailable"),
        ("not valid MCP", "internal"),
        ("too many calls", "limited"),
    ];
    words.iter().find(|(word, _)| text.contains(word)).map_or("odd", |(_, outcome)| outcome)
}

/// Which server a client calls next.
fn choice(client: usize, number: usize) -> usize {
    (client * 7 + number * 5 + number / 12) % (HEALTHY.len() + SICK.len())
}

fn name(server: usize) -> String {
    format!("{}_t", HEALTHY.iter().chain(&SICK).nth(server).unwrap())
}

/// One client until it is told to stop: a call at a time, each with its answer.
async fn client(
    number: usize,
    mut connection: Connection,
    asked: impl Fn(usize, &str) -> Request,
    stop: Arc<AtomicBool>,
) -> (Tally, Vec<String>) {
    let (mut tally, mut wrong) = (Tally::new(), Vec::new());
    let mut calls = 0;
    while !stop.load(Ordering::SeqCst) {
        let server = choice(number, calls);
        calls += 1;
        let began = Instant::now();
        // Its own deadline is that of the kit: no answer at all fails the test.
        let reply = connection.send(asked(calls, &name(server))).await;
        let outcome = outcome(&reply);
        *tally.entry((server, outcome)).or_default() += 1;
        let late = began.elapsed() > Duration::from_secs(25);
        if outcome == "odd" || (server < HEALTHY.len() && (outcome != "ok" || late)) {
            wrong.push(format!("{} after {:?}: {reply:?}", name(server), began.elapsed()));
        }
        tokio::time::sleep(THINK).await;
    }
    (tally, wrong)
}

/// All clients at work.
struct Crowd {
    clients: JoinSet<(Tally, Vec<String>)>,
    stop: Arc<AtomicBool>,
    sessions: Vec<(Session, String)>,
}

impl Crowd {
    async fn new(gateway: &Gateway, people: &People) -> Self {
        let mut crowd = Self { clients: JoinSet::new(), stop: Arc::default(), sessions: Vec::new() };
        for number in 0..CLIENTS {
            let token = people.token(&format!("modern{}", number % 20));
            let connection = gateway.connect().await;
            let asked = move |_: usize, name: &str| with(call(name, "{}"), &token);
            crowd.clients.spawn(client(number, connection, asked, Arc::clone(&crowd.stop)));
        }
        for number in 0..CLIENTS {
            let token = people.token(&format!("legacy{}", number % 20));
            let mut connection = gateway.connect().await;
            let bearer = vec![("Authorization".to_owned(), format!("Bearer {token}"))];
            let hello = connection.send(with(initialize("2025-11-25", "{}"), &token)).await;
            let session = Session::of(&hello, bearer);
            let own = session.clone();
            let asked = move |id: usize, name: &str| own.call(&id.to_string(), name, "{}");
            crowd.clients.spawn(client(CLIENTS + number, connection, asked, Arc::clone(&crowd.stop)));
            crowd.sessions.push((session, token));
        }
        crowd
    }

    /// Every call has its answer; what came of all.
    async fn finish(mut self, gateway: &Gateway) -> Tally {
        self.stop.store(true, Ordering::SeqCst);
        let (mut tally, mut wrong) = (Tally::new(), Vec::new());
        while let Some(done) = self.clients.join_next().await {
            let (own, complaints) = done.unwrap();
            own.into_iter().for_each(|(key, count)| *tally.entry(key).or_default() += count);
            wrong.extend(complaints);
        }
        assert!(wrong.is_empty(), "{} calls:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
        for (session, _) in &self.sessions {
            assert_eq!(gateway.send(session.delete()).await.status(), 200);
        }
        tally
    }
}

/// Writes another configuration in one step, and waits until it was read.
async fn reload(gateway: &Gateway, text: &str, result: &str) {
    let labels = [("result", result)];
    let before = gateway.metric("gatehouse_config_reloads_total", &labels).await;
    let aside = gateway.folder.path().join("next");
    std::fs::write(&aside, text).unwrap();
    std::fs::rename(&aside, &gateway.file).unwrap();
    gateway.metric_becomes("gatehouse_config_reloads_total", &labels, before + 1.0).await;
}

/// The configuration of a step: every fourth is bad, the others change what is sick, and a server that comes and goes.
fn changed(text: &str, at: usize) -> (String, &'static str) {
    match at % 4 {
        3 => (format!("{text}\n[[server]]\nname = \"h0\"\nurl = 7\n"), "error"),
        1 => (format!("{text}\ndescription = \"step {at}\"\n"), "ok"),
        _ => (format!("{text}\n[[server]]\nname = \"extra\"\nurl = \"http://127.0.0.1:9/{at}\"\n"), "ok"),
    }
}

/// Kilobytes and descriptors that the gateway's process holds.
fn held(gateway: &Gateway) -> (u64, usize) {
    let process = format!("/proc/{}", gateway.pid());
    let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let memory = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    (memory, std::fs::read_dir(format!("{process}/fd")).unwrap().count())
}

/// What the gateway counted is what the clients saw, outcome by outcome and server by server.
async fn compare(gateway: &Gateway, tally: &Tally) {
    let all = ["ok", "timeout", "unavailable", "internal", "limited", "bad_request"];
    for outcome in all {
        let seen: usize = tally.iter().filter(|((_, one), _)| *one == outcome).map(|(_, count)| count).sum();
        let labels = [("method", "tools/call"), ("outcome", outcome)];
        let counted = gateway.metric("gatehouse_requests_total", &labels).await;
        assert_eq!(counted, seen as f64, "{outcome}: {tally:?}");
    }
    let total: usize = tally.values().sum();
    let counted = gateway.metric("gatehouse_requests_total", &[("method", "tools/call")]).await;
    assert_eq!(counted, total as f64, "each has one outcome, and no other");
    for (at, server) in HEALTHY.iter().enumerate() {
        let labels = [("server", *server), ("outcome", "ok")];
        let counted = gateway.metric("gatehouse_tool_calls_total", &labels).await;
        assert_eq!(counted, tally.get(&(at, "ok")).copied().unwrap_or_default() as f64, "{server}");
    }
    measured("calls", total);
}

/// Covers: issue 6, "Must be shown", the chaos run.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_healthy_stays_so_while_all_else_breaks() {
    let people = People::new().await;
    let ward = Ward::new().await;
    let setup = ward.setup(&people);
    let text = setup.text();
    let gateway = setup.start().await;
    let (memory, files) = held(&gateway);
    let crowd = Crowd::new(&gateway, &people).await;
    let reloads = RELOADS * scale();
    for at in 0..reloads {
        ward.step(at).await;
        let away = (reloads / 4..reloads * 3 / 4).contains(&at);
        people.id.state.broken.store(away, Ordering::SeqCst);
        let (text, result) = changed(&text, at);
        reload(&gateway, &text, result).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let (busy, _) = held(&gateway);
    let tally = crowd.finish(&gateway).await;
    compare(&gateway, &tally).await;
    for (at, server) in SICK.iter().enumerate() {
        let of = |(one, _): &(usize, &str)| *one == HEALTHY.len() + at;
        let own: BTreeMap<_, _> =
            tally.iter().filter(|(key, _)| of(key)).map(|((_, o), c)| (*o, *c)).collect();
        measured(server, own);
    }
    for (result, count) in [("ok", reloads - reloads / 4), ("error", reloads / 4)] {
        let counted = gateway.metric("gatehouse_config_reloads_total", &[("result", result)]).await;
        assert_eq!(counted, count as f64, "{result}");
    }
    given_back(&gateway, ward, (memory, files, busy)).await;
    gateway.stop().await;
}

/// Nothing is kept of it.
async fn given_back(gateway: &Gateway, ward: Ward, (memory, files, busy): (u64, usize, u64)) {
    for (gauge, value) in
        [("gatehouse_sessions", 0.0), ("gatehouse_inflight", 0.0), ("gatehouse_buffered_bytes", 0.0)]
    {
        gateway.metric_becomes(gauge, &[], value).await;
    }
    // Connections in the pool end with their servers.
    drop(ward);
    eventually("descriptors are given back", async || held(gateway).1 <= files + 20).await;
    let (after, open) = held(gateway);
    measured("KB before, at work, after", (memory, busy, after));
    measured("descriptors before, after", (files, open));
    assert!(after < memory + 100 * 1024, "{memory} KB, then {after} KB");
}
