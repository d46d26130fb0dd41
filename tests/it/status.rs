//! The status page through the process: for whom it exists, and that it says what happened; design §8, issue 6 item 9.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::cast::{ask, caller};
use crate::support::client::{Answer, Connection, Reply, send};
use crate::support::eventually;
use crate::support::exchange::Answer as Said;
use crate::support::feed::{Feed, TELLS, declare, names};
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{Request, call};
use crate::support::server::{Offer, Server, tool};

const PATHS: [&str; 3] = ["/status", "/status/data", "/status/stream"];
const TOKEN: &str = "a-token-for-operators";

fn get(path: &str) -> Request {
    Request::new("GET", path)
}

fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// The status of an answer; of a stream only the beginning is read.
async fn status(gateway: &Gateway, request: Request) -> u16 {
    Connection::open(gateway.admin).await.begin(request).await.status()
}

async fn data(gateway: &Gateway) -> Value {
    gateway.admin("/status/data").await.message()
}

/// Reads the stream and keeps what the page would know.
struct Looker {
    stream: Answer,
    known: Value,
}

impl Looker {
    async fn open(gateway: &Gateway) -> Self {
        let stream = Connection::open(gateway.admin).await.begin(get("/status/stream")).await;
        assert_eq!(stream.status(), 200);
        let mut looker = Self { stream, known: Value::Null };
        looker.look().await;
        assert_eq!(looker.known["whole"], true, "the first is whole");
        looker
    }

    async fn look(&mut self) {
        let mut news = self.stream.message().await.expect("the stream goes on");
        if news["whole"] == true {
            self.known = news;
            return;
        }
        let rows: Vec<Value> = news["tools"].as_array().unwrap().clone();
        let tools = self.known["tools"].as_array_mut().unwrap();
        tools.retain(|old| !rows.iter().any(|row| row["id"] == old["id"]));
        tools.extend(rows);
        news.as_object_mut().unwrap().retain(|key, _| !["tools", "gone", "whole"].contains(&key.as_str()));
        let known = self.known.as_object_mut().unwrap();
        known.extend(news.as_object().unwrap().clone());
    }

    async fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) {
        for _ in 0..60 {
            if fits(&self.known) {
                return;
            }
            self.look().await;
        }
        panic!("not seen: {what} in {}", self.known);
    }
}

fn row<'v>(data: &'v Value, list: &str, key: &str, value: &str) -> &'v Value {
    let rows = data[list].as_array().unwrap();
    rows.iter().find(|row| row[key] == value).unwrap_or_else(|| panic!("no {value} in {}", data[list]))
}

fn policy(page: &Reply) -> String {
    page.header("content-security-policy").unwrap()
}

/// On loopback nobody is asked; whoever came by another name than ours is sent away, and nothing can be written.
#[tokio::test(flavor = "multi_thread")]
async fn on_loopback_it_is_there_for_reading_under_our_names_only() {
    let gateway = Setup::new().start().await;
    for path in PATHS {
        assert_eq!(status(&gateway, get(path)).await, 200, "{path}");
        assert_eq!(status(&gateway, get(path).with("Host", "evil.test")).await, 403, "{path}");
        let head = send(gateway.admin, Request::new("HEAD", path)).await;
        assert_eq!((head.status(), head.body.len()), (200, 0), "{path}");
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let refused = send(gateway.admin, Request::new(method, path)).await;
            assert_eq!(refused.status(), 405, "{method} {path}");
            assert_eq!(refused.header("access-control-allow-origin"), None);
        }
        // A page elsewhere may link to it, and neither read nor embed it.
        for (mode, dest, expected) in [
            ("cors", "empty", 403),
            ("no-cors", "image", 403),
            ("navigate", "iframe", 403),
            ("navigate", "document", 200),
        ] {
            let from = get(path).with("Sec-Fetch-Site", "cross-site").with("Sec-Fetch-Mode", mode);
            assert_eq!(status(&gateway, from.with("Sec-Fetch-Dest", dest)).await, expected, "{mode} {path}");
        }
        let own = get(path).with("Sec-Fetch-Site", "same-origin").with("Sec-Fetch-Mode", "cors");
        assert_eq!(status(&gateway, own).await, 200, "{path}");
    }
    gateway.stop().await;
}

/// The policy lets in what stands in the document, and nothing else; nothing is fetched from elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn its_policy_is_strict_and_fits_the_document() {
    let gateway = Setup::new().start().await;
    let page = gateway.admin("/status").await;
    assert_eq!(page.header("content-type").as_deref(), Some("text/html; charset=utf-8"));
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(page.header(name).as_deref(), Some(value), "{name}");
    }
    let policy = policy(&page);
    let part =
        |name: &str| policy.split("; ").find_map(|part| part.strip_prefix(&format!("{name} "))).unwrap();
    assert_eq!((part("default-src"), part("connect-src"), part("base-uri")), ("'none'", "'self'", "'none'"));
    assert_eq!((part("frame-ancestors"), part("form-action")), ("'none'", "'none'"));
    assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
    for (tag, directive) in [("style", "style-src"), ("script", "script-src")] {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        let inside = page.text().split_once(&open).unwrap().1.split_once(&close).unwrap().0;
        assert!(inside.len() > 100 && !page.text().contains(&format!("<{tag} ")));
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, inside.as_bytes());
        assert_eq!(part(directive), format!("'sha256-{}'", STANDARD.encode(digest)));
    }
    assert!(!page.text().contains("style=") && !page.text().contains("onclick"), "no inline attributes");
    // Where it is mounted by a proxy, it still finds its stream.
    assert!(!page.text().contains("\"/status") && page.text().contains("\"status/stream\""));
    gateway.stop().await;
}

/// With `admin.token` whoever has it may look, wherever the listener is: as a bearer token, or as a browser's password.
#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_only_its_holders_may_look() {
    let admin = format!("[admin]\ntoken = \"{TOKEN}\"");
    let gateway = Setup::new().toml(&admin).start().await;
    for path in PATHS {
        let with = |value: &str| get(path).with("Authorization", value);
        let unknown = send(gateway.admin, get(path)).await;
        assert_eq!(unknown.status(), 401, "{path}");
        let asked = unknown.head.all("www-authenticate");
        assert!(
            asked.len() == 2 && asked[0].starts_with("Basic ") && asked[1].starts_with("Bearer "),
            "{asked:?}"
        );
        assert!(!unknown.text().contains("Gatehouse</h1>"));
        for wrong in [
            "Bearer wrong-token-of-somebody".to_owned(),
            format!("Bearer {TOKEN}x"),
            format!("Bearer {}", &TOKEN[1..]),
            "Bearer ".to_owned(),
            basic(TOKEN, ""),
            basic("operator", "wrong"),
            format!("Digest {TOKEN}"),
        ] {
            assert_eq!(status(&gateway, with(&wrong)).await, 401, "{path} {wrong}");
        }
        let twice = with(&format!("Bearer {TOKEN}")).with("Authorization", format!("Bearer {TOKEN}"));
        assert_eq!(status(&gateway, twice).await, 401, "{path}");
        for right in
            [format!("Bearer {TOKEN}"), format!("bearer {TOKEN}"), basic("operator", TOKEN), basic("", TOKEN)]
        {
            assert_eq!(status(&gateway, with(&right)).await, 200, "{path} {right}");
        }
    }
    let counted = gateway.metric("gatehouse_auth_rejections_total", &[("reason", "status_page")]).await;
    assert_eq!(counted, 15.0, "five wrong ones each; an empty one and another scheme are none");
    // Health and metrics need none.
    for path in ["/livez", "/readyz", "/metrics"] {
        let page = gateway.admin(path).await;
        assert_eq!(page.status(), 200);
        assert!(!page.text().contains(TOKEN));
    }
    let page = send(gateway.admin, get("/status/data").with("Authorization", basic("x", TOKEN))).await;
    assert!(!page.text().contains(TOKEN));
    let log = gateway.stop().await;
    assert!(!log.text().contains(TOKEN));
}

/// Beyond loopback and without a token it is as if there were no such page.
#[tokio::test(flavor = "multi_thread")]
async fn beyond_loopback_it_exists_with_a_token_only() {
    let open = Setup::new().listen("0.0.0.0:0").gateway("allow_unauthenticated = true");
    let gateway = open.start().await;
    for path in PATHS {
        for method in ["GET", "HEAD", "POST", "OPTIONS"] {
            let here =
                send(gateway.admin, Request::new(method, path).with("Authorization", "Bearer x")).await;
            let nowhere = send(gateway.admin, Request::new(method, "/nothing")).await;
            assert_eq!(here.status(), 404, "{method} {path}");
            // A HEAD's length is written by routes only.
            let told = |reply: &Reply| {
                let names = reply.head.fields.iter().map(|(name, _)| name.to_ascii_lowercase());
                let mut names: Vec<String> = names.filter(|name| name != "content-length").collect();
                names.sort();
                (names, reply.body.clone())
            };
            assert_eq!(told(&here), told(&nowhere), "{method} {path}");
        }
    }
    gateway.stop().await;
    let admin = format!("[admin]\ntoken = \"{TOKEN}\"");
    let open = Setup::new().listen("0.0.0.0:0").gateway("allow_unauthenticated = true").toml(&admin);
    let gateway = open.start().await;
    for path in PATHS {
        assert_eq!(status(&gateway, get(path)).await, 401, "{path}");
        let with = get(path).with("Authorization", format!("Bearer {TOKEN}"));
        assert_eq!(status(&gateway, with).await, 200, "{path}");
    }
    gateway.stop().await;
}

/// The page's numbers are the counters', and those are what was called.
#[tokio::test(flavor = "multi_thread")]
async fn what_it_says_is_what_was_called() {
    let server = Server::modern("s", Offer::tools(&["good", "bad", "broken", "idle"])).await;
    let old = Server::legacy("o", Offer::tools(&["t"])).await;
    server.on("tools/call", |seen| match seen.name().as_deref() {
        Some("bad") => Said::result(seen, r#"{"resultType":"complete","isError":true,"content":[]}"#),
        Some("broken") => Said::error(seen, 200, -32000, "no"),
        _ => Said::result(seen, r#"{"resultType":"complete","content":[]}"#),
    });
    let setup =
        Setup::new().http("s", &server.url(), "owner = \"team@example.com\"").http("o", &old.url(), "");
    let gateway = setup.http("gone", "http://127.0.0.1:9/mcp", "").start().await;
    let mut looker = Looker::open(&gateway).await;
    for (name, times) in [("s_good", 7), ("s_bad", 3), ("s_broken", 2), ("o_t", 4)] {
        for _ in 0..times {
            gateway.send(call(name, "{}")).await;
        }
    }
    gateway.send(call("nothing_here", "{}")).await;
    let data = data(&gateway).await;
    for (name, outcome, times) in
        [("s_good", "ok", 7), ("s_bad", "tool_error", 3), ("s_broken", "rpc_error", 2), ("o_t", "ok", 4)]
    {
        let tool = row(&data, "tools", "tool", name);
        assert_eq!(tool["outcomes"], json!({ outcome: times }), "{name}");
        assert_eq!((&tool["calls"], &tool["recent"]), (&json!(times), &json!(times)), "{name}");
        let bars: u64 = tool["bars"].as_array().unwrap().iter().map(|bar| bar.as_u64().unwrap()).sum();
        assert_eq!(bars, times, "{name}");
        assert_eq!(tool["faults"], json!(if outcome == "ok" { 0 } else { times }), "{name}");
        let counted = gateway.metric("gatehouse_tool_calls_total", &[("tool", name)]).await;
        assert_eq!(counted, times as f64, "{name}");
        let (p50, p95) = (tool["p50"].as_f64().unwrap(), tool["p95"].as_f64().unwrap());
        assert!(0.0 < p50 && p50 <= p95, "{name}: {p50} {p95}");
    }
    // A name that no tool has counts for none of them.
    let other = row(&data, "tools", "tool", "other");
    assert_eq!((&other["server"], &other["outcomes"]), (&json!(""), &json!({"bad_request": 1})));
    assert_eq!(data["tools"].as_array().unwrap().len(), 5, "what was never called is not there");
    assert_eq!(data["gateway"]["requests"], 17);
    assert_eq!(
        data["gateway"]["outcomes"],
        json!({"ok": 11, "tool_error": 3, "rpc_error": 2, "bad_request": 1})
    );
    assert_eq!((&data["gateway"]["faults"], &data["gateway"]["eras"]), (&json!(5), &json!({"modern": 17})));
    assert_eq!(data["gateway"]["version"], env!("CARGO_PKG_VERSION"));
    let names: Vec<&str> =
        data["servers"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["s", "o", "gone"]);
    let modern = row(&data, "servers", "name", "s");
    assert_eq!(
        (&modern["state"], &modern["era"], &modern["link"]),
        (&json!("up"), &json!("modern"), &json!("http"))
    );
    assert_eq!((&modern["version"], &modern["owner"]), (&json!("2026-07-28"), &json!("team@example.com")));
    assert_eq!(modern["items"]["tools"], 4);
    assert!(modern["known_since"].as_u64() <= data["gateway"]["now"].as_u64());
    assert_eq!(row(&data, "servers", "name", "o")["era"], "legacy");
    let gone = row(&data, "servers", "name", "gone");
    assert_eq!(
        (&gone["state"], &gone["era"], &gone["known_since"]),
        (&json!("down"), &Value::Null, &Value::Null)
    );
    assert!(gone["error"].as_str().unwrap().contains("unavailable"), "{gone}");
    assert!(gone["error_at"].as_u64() <= data["gateway"]["now"].as_u64());
    // Whoever looks on comes to know the same.
    looker.until("all calls", |known| known["gateway"]["requests"] == 17).await;
    for tool in data["tools"].as_array().unwrap() {
        let seen = looker.known["tools"].as_array().unwrap().iter().find(|row| row["id"] == tool["id"]);
        assert_eq!(seen.unwrap()["outcomes"], tool["outcomes"]);
    }
    drop(looker);
    gateway.stop().await;
}

/// In flight, streams and a server's fall and rise are seen while they last.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_on_is_seen_while_it_does() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let mut looker = Looker::open(&gateway).await;
    let mut held = server.hold("tools/call");
    let mut connection = gateway.connect().await;
    connection.ask(call("s_t", "{}")).await;
    let exchange = held.next().await;
    let of = |known: &Value, key: &str| row(known, "servers", "name", "s")[key].clone();
    looker
        .until("a call in flight", |known| of(known, "inflight") == 1 && known["gateway"]["inflight"] == 1)
        .await;
    exchange.reset();
    connection.reply("POST").await;
    looker.until("a failed server", |known| of(known, "state") == "down" && of(known, "inflight") == 0).await;
    assert!(of(&looker.known, "error").as_str().unwrap().contains("unavailable"));
    server.release("tools/call");
    gateway.send(call("s_t", "{}")).await;
    looker.until("a server that is up", |known| of(known, "state") == "up").await;
    // What went wrong is still told, as something past.
    assert!(of(&looker.known, "error_at").as_u64().is_some());
    gateway.stop().await;
}

/// Denials, changes of lists and of contracts, and what was refused before.
#[tokio::test(flavor = "multi_thread")]
async fn what_happened_lately_is_told() {
    let server = Server::modern("s", Offer::tools(&["one", "two"])).await;
    declare(&server, TELLS);
    let mut feeds = server.hold("subscriptions/listen");
    let grants = "[[grant]]\nto = { team = \"a\" }\nservers = [\"s\"]\ntools = [\"one\"]\n\
                  [[grant]]\nto = { team = \"b\" }\nservers = [\"s\"]\ntools = [\"one\"]\nscopes = [\"s:use\"]\n";
    let cast = format!("[auth]\n{}{}", caller("ann", "team = \"a\""), caller("bob", "team = \"b\""));
    let setup = Setup::new().http("s", &server.url(), "").toml(&cast).toml(grants);
    let gateway = setup.launch().await;
    let feed = Feed::accept(feeds.next().await);
    eventually("its tools are known", async || data(&gateway).await["servers"][0]["items"]["tools"] == 2)
        .await;
    assert_eq!(data(&gateway).await["changes"], json!([]), "the first look is no change");
    for _ in 0..3 {
        ask(&gateway, "ann", call("s_two", "{}")).await;
    }
    assert_eq!(ask(&gateway, "bob", call("s_one", "{}")).await.status(), 403);
    assert_eq!(
        gateway.send(call("s_one", "{}").request().with("Authorization", "Bearer no")).await.status(),
        401
    );
    server.offer(Offer::tools(&["two", "three", "<script>"]));
    feed.changed("tools");
    eventually("the change is told", async || {
        !data(&gateway).await["changes"].as_array().unwrap().is_empty()
    })
    .await;
    let data = data(&gateway).await;
    let change = &data["changes"][0];
    assert_eq!((&change["server"], &change["kind"]), (&json!("s"), &json!("tools")));
    assert_eq!(
        (&change["added"], &change["removed"], &change["changed"], &change["items"]),
        (&json!(2), &json!(1), &json!(0), &json!(3))
    );
    assert_eq!(change["names"], json!(["three", "<script>", "one"]));
    let denials = data["denials"].as_array().unwrap();
    assert_eq!(denials.len(), 2, "{denials:?}");
    let told = |at: usize, key: &str| denials[at][key].clone();
    assert_eq!(
        (told(0, "who"), told(0, "times"), told(0, "scopes")),
        (json!("bob"), json!(1), json!(["s:use"]))
    );
    assert_eq!((told(1, "who"), told(1, "times"), told(1, "scopes")), (json!("ann"), json!(3), json!([])));
    assert_eq!(
        (told(1, "item"), told(1, "server"), told(1, "method")),
        (json!("s_two"), json!("s"), json!("tools/call"))
    );
    let refused: u64 =
        data["refusals"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!((refused, &data["refusals"][0]["by"]), (1, &json!("credential")));
    assert!(!data.to_string().contains("key-of-"), "no credential is told");
    drop(feed);
    gateway.stop().await;
}

/// A definition that nobody approved is told with what became of it.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_contracts_are_told() {
    let server = Server::modern("s", Offer::tools(&["t"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gatehouse.toml");
    std::fs::write(&file, format!("[[server]]\nname = \"s\"\nurl = \"{}\"\n", server.url())).unwrap();
    let mut lock = Command::new(env!("CARGO_BIN_EXE_gatehouse"));
    lock.args(["lock", "--config"]).arg(&file);
    let locked = tokio::task::spawn_blocking(move || lock.output().unwrap()).await.unwrap();
    assert!(locked.status.success(), "{locked:?}");
    server.offer(Offer::defined(&[
        r#"{"name":"t","inputSchema":{"type":"object","properties":{"n":{"type":"string"}},"required":["n"]}}"#,
        &tool("new"),
    ]));
    let path = folder.path().join("gatehouse.lock").display().to_string();
    let setup = Setup::new().toml(&format!("[contract]\nlock = {path:?}"));
    let gateway = setup.http("s", &server.url(), "contract = \"hold\"").start().await;
    names(&mut gateway.connect().await, "tools/list").await;
    let data = data(&gateway).await;
    let told = row(&data, "contracts", "item", "t");
    assert_eq!(
        (&told["server"], &told["held"], &told["class"]),
        (&json!("s"), &json!(true), &json!("breaking"))
    );
    assert!(!told["rules"].as_array().unwrap().is_empty());
    assert_eq!(row(&data, "contracts", "item", "new")["held"], true);
    assert_eq!(data["servers"][0]["contract"], "hold");
    gateway.stop().await;
}

/// What servers say is cut, and what is not seen is written out: JSON, page and memory stay small.
#[tokio::test(flavor = "multi_thread")]
async fn texts_of_servers_are_short_and_seen() {
    let long = "long".repeat(10_000);
    let tools = ["<img src=x onerror=alert(1)>", "\u{202e}gnp.exe", "nul\u{0}\u{200b}", &*long, "a\"b\\c"];
    let server = Server::modern("s", Offer::tools(&tools)).await;
    let setup = Setup::new().http("s", &server.url(), "timeout = \"1s\"");
    let setup = setup.toml("[[endpoint]]\npath = \"/mcp\"\nservers = [\"s\"]\nprefix = false");
    let gateway = setup.start().await;
    for name in tools {
        gateway.send(call(name, "{}")).await;
    }
    let reply = gateway.admin("/status/data").await;
    assert!(reply.body.len() < 20_000, "{} bytes", reply.body.len());
    assert!(!reply.text().contains(['\u{202e}', '\u{200b}', '\u{0}']));
    let data = reply.message();
    row(&data, "tools", "tool", "<img src=x onerror=alert(1)>");
    row(&data, "tools", "tool", "\\u{202e}gnp.exe");
    row(&data, "tools", "tool", "a\"b\\c");
    for tool in data["tools"].as_array().unwrap() {
        assert!(tool["tool"].as_str().unwrap().chars().count() <= 200, "{tool}");
    }
    // The stream is made of lines: none of a server's breaks one.
    let mut looker = Looker::open(&gateway).await;
    looker.until("all tools", |known| known["tools"].as_array().unwrap().len() >= 4).await;
    gateway.stop().await;
}

/// So many may look on, and who leaves makes room; a stop does not wait for them.
#[tokio::test(flavor = "multi_thread")]
async fn so_many_may_look_on() {
    let gateway = Setup::new().start().await;
    let mut lookers = Vec::new();
    for _ in 0..16 {
        lookers.push(Looker::open(&gateway).await);
    }
    let full = gateway.admin("/status/stream").await;
    assert_eq!((full.status(), full.header("retry-after").as_deref()), (503, Some("10")));
    assert_eq!(gateway.admin("/status/data").await.status(), 200, "to look once is always possible");
    drop(lookers.pop());
    eventually("there is room again", async || status(&gateway, get("/status/stream")).await == 200).await;
    for looker in &mut lookers {
        looker.look().await;
    }
    gateway.stop().await;
}

/// After a reload the page shows the servers that there are now, what came of each file, and asks for the new token.
#[tokio::test(flavor = "multi_thread")]
async fn it_follows_another_configuration() {
    let one = Server::modern("one", Offer::tools(&["t"])).await;
    let two = Server::modern("two", Offer::tools(&["t"])).await;
    let gateway = Setup::new().http("one", &one.url(), "").start().await;
    let mut looker = Looker::open(&gateway).await;
    let before = std::fs::read_to_string(&gateway.file).unwrap();
    std::fs::write(&gateway.file, before.replace("name = \"one\"", "name = \"One\"\nsecret = \"hunter2\""))
        .unwrap();
    gateway.signal(Signal::SIGHUP);
    looker.until("a refused file", |known| known["reloads"][0]["taken"] == false).await;
    let told = looker.known["reloads"][0]["told"].as_str().unwrap().to_owned();
    assert!(told.contains("name") && told.contains("1 more") && !told.contains("hunter2"), "{told}");
    std::fs::write(&gateway.file, before.replace(&one.url(), &two.url()).replace("\"one\"", "\"two\""))
        .unwrap();
    gateway.signal(Signal::SIGHUP);
    looker.until("the other server", |known| known["servers"][0]["name"] == "two").await;
    looker.until("a taken file", |known| known["reloads"][0]["taken"] == true).await;
    assert_eq!(looker.known["reloads"][0]["told"], "servers: 1 added, 1 removed, 0 changed");
    assert_eq!(looker.known["servers"].as_array().unwrap().len(), 1);
    let text = std::fs::read_to_string(&gateway.file).unwrap();
    std::fs::write(&gateway.file, format!("{text}\n[admin]\ntoken = \"{TOKEN}\"\n")).unwrap();
    gateway.signal(Signal::SIGHUP);
    eventually("the token is asked for", async || status(&gateway, get("/status")).await == 401).await;
    let with = get("/status").with("Authorization", format!("Bearer {TOKEN}"));
    assert_eq!(status(&gateway, with).await, 200);
    gateway.stop().await;
}
