//! Grants through the process: what a caller is not given is not there, whatever it asks and however it spells it:
//! A-11, A-12, A-15, A-16, A-57, L-41, M-43, F-055, F-092, design §7.

use serde_json::{Value, json};

use crate::support::cast::{ask, by, caller};
use crate::support::client::Reply;
use crate::support::eventually;
use crate::support::exchange::Answer;
use crate::support::feed::{Feed, Stream, TELLS, declare, listen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server, tool};
use crate::support::table::{METHOD, PARAMS, RESULT};

/// Internal error: what a refusal for want of scopes says in its body; its status says the rest.
const INTERNAL: i64 = -32603;

const GRANTS: &str = r#"
[[endpoint]]
path = "/mcp"
[[endpoint]]
path = "/git"
servers = ["git"]
prefix = false
[[grant]]
to = { team = "dev" }
servers = ["git"]
tools = ["*"]
prompts = ["review"]
resources = ["git://a", "git://doc/*"]
[[grant]]
servers = ["wiki"]
tools = ["find"]
[[grant]]
servers = ["wiki"]
tools = ["edit"]
resources = ["wiki://draft"]
scopes = ["wiki:write", "wiki:read"]
[[grant]]
servers = ["wiki"]
tools = ["drop"]
scopes = ["wiki:admin"]
hide_without_scopes = true
[[grant]]
to = { team = "old" }
servers = ["git"]
tools = ["*"]
valid_until = 2020-01-01T00:00:00Z
"#;

fn cast() -> String {
    let people = [
        caller("dev", "team = [\"dev\", \"other\"]"),
        caller("hr", "team = \"hr\""),
        caller("old", "team = \"old\""),
        caller("writer", "scope = \"wiki:write wiki:read\""),
        caller("half", "scope = \"wiki:read\""),
        caller("boss", "scope = \"all\""),
    ];
    format!("[auth]\nscope_implies = {{ all = [\"wiki:admin\"] }}\n{}", people.concat())
}

fn git() -> Offer {
    let mut offer = Offer::tools(&["push", "pull"]);
    offer.prompts = vec![r#"{"name":"review"}"#.to_owned(), r#"{"name":"secret"}"#.to_owned()];
    offer.resources = ["git://a", "git://b", "git://locked"]
        .map(|uri| format!("{{\"uri\":\"{uri}\",\"name\":\"n\"}}"))
        .to_vec();
    offer.templates = vec![r#"{"uriTemplate":"git://doc/{id}","name":"n"}"#.to_owned()];
    offer.capabilities = vec![r#""completions":{}"#.to_owned()];
    offer
}

fn wiki() -> Offer {
    let mut offer = Offer::tools(&["find", "edit", "drop"]);
    offer.resources = vec![r#"{"uri":"wiki://draft","name":"n"}"#.to_owned()];
    offer
}

struct Bench {
    git: Server,
    wiki: Server,
    gateway: Gateway,
}

async fn bench() -> Bench {
    let git = Server::modern("git", git()).await;
    let wiki = Server::modern("wiki", wiki()).await;
    git.on("completion/complete", |seen| Answer::result(seen, r#"{"completion":{"values":["x"]}}"#));
    let gateway = Setup::new()
        .toml(&cast())
        .toml(GRANTS)
        .http("git", &git.url(), "")
        .http("wiki", &wiki.url(), "")
        .start()
        .await;
    Bench { git, wiki, gateway }
}

fn items(reply: &Reply, key: &str) -> Vec<String> {
    let list = reply.result()[key].clone();
    let name = |item: &Value| {
        let id = ["name", "uri", "uriTemplate"].into_iter().rev().find_map(|key| item[key].as_str());
        id.unwrap().to_owned()
    };
    list.as_array().unwrap_or_else(|| panic!("{reply:?}")).iter().map(name).collect()
}

impl Bench {
    async fn names(&self, who: &str, method: &str, key: &str) -> Vec<String> {
        items(&ask(&self.gateway, who, mcp(method, "{}")).await, key)
    }

    async fn calls(&self) -> usize {
        let used = ["tools/call", "prompts/get", "resources/read", "completion/complete"];
        [&self.git, &self.wiki]
            .iter()
            .flat_map(|server| used.map(|method| server.requests(method).len()))
            .sum()
    }
}

/// Covers: F-055, L-41, L-53: each its own list, private; the same again from memory.
#[tokio::test(flavor = "multi_thread")]
async fn f_055_everyone_sees_their_own() {
    let bench = bench().await;
    for _ in 0..2 {
        for (who, tools) in [
            ("dev", &["git_push", "git_pull", "wiki_find", "wiki_edit"][..]),
            ("hr", &["wiki_find", "wiki_edit"]),
            ("old", &["wiki_find", "wiki_edit"]),
            ("half", &["wiki_find", "wiki_edit"]),
            ("boss", &["wiki_find", "wiki_edit", "wiki_drop"]),
        ] {
            let reply = ask(&bench.gateway, who, mcp("tools/list", "{}")).await;
            assert_eq!(items(&reply, "tools"), tools, "{who}");
            assert_eq!(reply.result()["cacheScope"], "private", "{who}");
        }
    }
    assert_eq!(bench.names("dev", "prompts/list", "prompts").await, ["git_review"]);
    assert_eq!(bench.names("hr", "prompts/list", "prompts").await, [""; 0]);
    assert_eq!(bench.names("dev", "resources/list", "resources").await, ["git://a", "wiki://draft"]);
    assert_eq!(bench.names("hr", "resources/list", "resources").await, ["wiki://draft"]);
    assert_eq!(bench.names("dev", "resources/templates/list", "resourceTemplates").await, ["git://doc/{id}"]);
    assert_eq!(bench.names("hr", "resources/templates/list", "resourceTemplates").await, [""; 0]);
    assert_eq!(bench.git.requests("tools/list").len(), 1, "the views differ, what they are made of does not");
    bench.gateway.stop().await;
}

/// Covers: M-43, A-15, A-57: what is hidden is as if it were not there, in every spelling; nobody behind hears of it.
#[tokio::test(flavor = "multi_thread")]
async fn m_43_what_is_hidden_cannot_be_called() {
    let bench = bench().await;
    let nothing = ask(&bench.gateway, "hr", call("git_nothing", "{}")).await;
    assert_eq!(nothing.verdict(), (200, Some(PARAMS)));
    for name in ["git_push", "push", "git/push", "GIT_PUSH", "git_push ", "git__push", "wiki_drop", "drop"] {
        for path in ["/mcp", "/git"] {
            let reply = ask(&bench.gateway, "hr", call(name, "{}").request().at(path)).await;
            // An endpoint that mirrors a server of which nothing is granted has no tools at all.
            let code = if path == "/git" { METHOD } else { PARAMS };
            assert_eq!(reply.code(), Some(code), "{name} at {path}: {reply:?}");
            if path == "/mcp" {
                assert_eq!(reply.text(), nothing.text(), "{name}: not told from what does not exist");
            }
            assert_eq!(reply.header("www-authenticate"), None, "{name}");
        }
    }
    // The same bytes written otherwise.
    let escaped = call("git_push", "{}").text().replace("\"git_push\"", "\"git\\u005fpu\\u0073h\"");
    let mut request = call("git_push", "{}").request();
    request.body = escaped.into_bytes();
    assert_eq!(ask(&bench.gateway, "hr", request).await.text(), nothing.text());
    for (method, params) in [
        ("prompts/get", r#"{"name":"git_review"}"#),
        ("resources/read", r#"{"uri":"git://a"}"#),
        ("resources/read", r#"{"uri":"git://doc/7"}"#),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"git_review"},"argument":{"name":"a","value":""}}"#,
        ),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/resource","uri":"git://doc/{id}"},"argument":{"name":"a","value":""}}"#,
        ),
    ] {
        let reply = ask(&bench.gateway, "hr", mcp(method, params)).await;
        assert_eq!(reply.verdict(), (200, Some(PARAMS)), "{method} {params}: {reply:?}");
        assert_eq!(
            ask(&bench.gateway, "dev", mcp(method, params)).await.verdict(),
            (200, Some(RESULT)),
            "{params}"
        );
    }
    for params in [r#"{"name":"git_secret"}"#] {
        assert_eq!(ask(&bench.gateway, "dev", mcp("prompts/get", params)).await.code(), Some(PARAMS));
    }
    assert_eq!(
        ask(&bench.gateway, "dev", mcp("resources/read", r#"{"uri":"git://b"}"#)).await.code(),
        Some(PARAMS)
    );
    assert_eq!(
        ask(&bench.gateway, "old", call("git_push", "{}")).await.code(),
        Some(PARAMS),
        "its time is over"
    );
    assert_eq!(bench.calls().await, 5, "only those of dev came through");
    assert!(
        bench
            .gateway
            .metric("gatehouse_requests_total", &[("outcome", "denied"), ("method", "tools/call")])
            .await
            >= 3.0
    );
    bench.gateway.stop().await;
}

/// Covers: A-11, A-12, A-14, A-16, F-092: a missing scope is 403 with all scopes and the id, before any byte of a stream.
#[tokio::test(flavor = "multi_thread")]
async fn a_11_a_missing_scope_is_asked_for() {
    let bench = bench().await;
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"wiki:write wiki:read\"";
    for who in ["hr", "half"] {
        for accept in ["application/json, text/event-stream", "text/event-stream", "application/json"] {
            for message in [
                call("wiki_edit", "{}").id("\"x\""),
                mcp("resources/read", r#"{"uri":"wiki://draft"}"#).id("\"x\""),
            ] {
                let reply = ask(&bench.gateway, who, message.request().set("Accept", accept)).await;
                assert_eq!(reply.verdict(), (403, Some(INTERNAL)), "{who} {accept}: {reply:?}");
                assert_eq!(reply.head.all("www-authenticate"), [challenge]);
                assert_eq!(reply.header("content-type").as_deref(), Some("application/json"));
                assert_eq!(reply.message()["id"], "x");
                let scopes = &reply.message()["error"]["data"]["dev.gatehouse/scopes"];
                assert_eq!(scopes, &json!(["wiki:write", "wiki:read"]));
            }
        }
    }
    assert_eq!(bench.calls().await, 0);
    for (who, name) in [("writer", "wiki_edit"), ("boss", "wiki_drop"), ("hr", "wiki_find")] {
        assert_eq!(
            ask(&bench.gateway, who, call(name, "{}")).await.verdict(),
            (200, Some(RESULT)),
            "{who} {name}"
        );
    }
    let denied = [("outcome", "denied"), ("tool", "wiki_edit")];
    assert_eq!(bench.gateway.metric("gatehouse_tool_calls_total", &denied).await, 6.0);
    bench.gateway.stop().await;
}

/// Covers: A-16, H-16: while it is not known what the name is, nothing is begun that could not become a 403.
#[tokio::test(flavor = "multi_thread")]
async fn a_16_no_stream_before_the_decision() {
    let wiki = Server::modern("wiki", wiki()).await;
    let mut walks = wiki.hold("tools/list");
    let gateway = Setup::new()
        .toml(&cast())
        .toml("[[grant]]\nservers = [\"*\"]\ntools = [\"*\"]\nscopes = [\"no\"]")
        .http("wiki", &wiki.url(), "list_timeout = \"60s\"")
        .launch()
        .await;
    let walk = walks.next().await;
    let connection = gateway.connect().await;
    let asking = tokio::spawn(connection.begin(by("hr", call("wiki_find", "{}"))));
    // Longer than an answer may take before a stream is opened for it: the walk is all that is waited for.
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    walk.result(&format!("{{\"tools\":[{}]}}", tool("find")));
    assert_eq!(asking.await.unwrap().status(), 403);
    gateway.stop().await;
}

/// Covers: L-33, design §5: only servers of which a caller has something are asked and named.
#[tokio::test(flavor = "multi_thread")]
async fn missing_servers_are_named_to_those_who_know_them() {
    let wiki = Server::modern("wiki", wiki()).await;
    let gateway = Setup::new()
        .toml(&cast())
        .toml(GRANTS)
        .http("git", "http://127.0.0.1:1/mcp", "")
        .http("wiki", &wiki.url(), "")
        .launch()
        .await;
    let missing = async |who: &str| {
        let reply = ask(&gateway, who, mcp("tools/list", "{}")).await;
        (reply.result()["_meta"]["dev.gatehouse/missing"].clone(), reply.text().contains("git"))
    };
    assert_eq!(missing("hr").await, (Value::Null, false));
    assert_eq!(missing("dev").await, (json!(["git"]), true));
    assert_eq!(ask(&gateway, "hr", call("git_push", "{}")).await.code(), Some(PARAMS), "not: it is down");
    let reply = ask(&gateway, "dev", call("git_push", "{}")).await;
    assert_eq!(reply.result()["isError"], true, "{reply:?}");
    gateway.stop().await;
}

/// Covers: L-41: discover tells each caller what it can use, and nothing of the other servers.
#[tokio::test(flavor = "multi_thread")]
async fn discover_is_each_callers_own() {
    let bench = bench().await;
    let hello = |text: &'static str| {
        move |seen: &crate::support::exchange::Seen| {
            Answer::result(
                seen,
                &format!(
                    r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"instructions":"{text}","capabilities":{{"tools":{{}},"prompts":{{}},"resources":{{}},"completions":{{}}}}}}"#
                ),
            )
        }
    };
    drop(bench);
    let (git, wiki) = (Server::modern("git", git()).await, Server::modern("wiki", wiki()).await);
    git.on("server/discover", hello("git-words"));
    wiki.on("server/discover", hello("wiki-words"));
    let grants = format!("{GRANTS}[[endpoint]]\npath = \"/wiki\"\nservers = [\"wiki\"]\nprefix = false\n");
    let gateway = Setup::new()
        .toml(&cast())
        .toml(&grants)
        .http("git", &git.url(), "")
        .http("wiki", &wiki.url(), "")
        .start()
        .await;
    let told = async |who: &str, path: &str| {
        let reply = ask(&gateway, who, mcp("server/discover", "{}").request().at(path)).await;
        let result = reply.result();
        assert_eq!(result["cacheScope"], "private");
        let capabilities: Vec<String> = result["capabilities"].as_object().unwrap().keys().cloned().collect();
        (capabilities.join(" "), result["instructions"].as_str().unwrap_or_default().to_owned())
    };
    let (capabilities, words) = told("dev", "/mcp").await;
    assert_eq!(capabilities, "completions logging prompts resources tools");
    assert!(words.contains("git-words") && words.contains("wiki-words"), "{words}");
    let (capabilities, words) = told("hr", "/mcp").await;
    assert_eq!(capabilities, "completions logging resources tools");
    assert!(!words.contains("git") && words.contains("wiki-words"), "{words}");
    assert_eq!(told("hr", "/git").await, (String::new(), String::new()));
    assert_eq!(told("dev", "/git").await.1, "git-words");
    assert_eq!(told("hr", "/wiki").await.0, "completions resources tools");
    gateway.stop().await;
}

/// Covers: A-57, S-30: notices of a caller's own view only.
#[tokio::test(flavor = "multi_thread")]
async fn notices_tell_each_caller_of_its_own_view() {
    let git = Server::modern("git", git()).await;
    declare(&git, TELLS);
    let mut feeds = git.hold("subscriptions/listen");
    let grants = "[[grant]]\nto = { team = \"dev\" }\nservers = [\"git\"]\ntools = [\"dev_*\"]\nresources = [\"git://a\"]\n\
                  [[grant]]\nto = { team = \"hr\" }\nservers = [\"git\"]\ntools = [\"hr_*\"]\nresources = [\"git://b\"]\n\
                  [[grant]]\nto = { team = \"hr\" }\nservers = [\"git\"]\nresources = [\"git://locked\"]\nscopes = [\"s2\", \"s1\"]";
    let gateway = Setup::new().toml(&cast()).toml(grants).http("git", &git.url(), "").launch().await;
    let feed = Feed::accept(feeds.next().await);
    let names = async |who: &str| items(&ask(&gateway, who, mcp("tools/list", "{}")).await, "tools");
    eventually("the first walk", async || {
        git.requests("tools/list").len() == 1 && names("dev").await.is_empty()
    })
    .await;
    let open = async |who: &'static str| {
        let request = by(who, listen("1", r#"{"toolsListChanged":true}"#));
        Stream::ask(gateway.connect().await, request, "1").await
    };
    let (mut dev, mut hr) = (open("dev").await, open("hr").await);
    let offer = |names: &[&str]| {
        let tools: Vec<String> = names.iter().map(|name| tool(name)).collect();
        git.offer(Offer { tools, ..git_rest() }.fresh());
        feed.changed("tools");
    };
    offer(&["hr_one", "nobodys"]);
    assert_eq!(hr.notice().await, "tools");
    assert_eq!(names("hr").await, ["git_hr_one"]);
    offer(&["hr_one", "dev_one"]);
    assert_eq!(dev.notice().await, "tools");
    assert_eq!(names("dev").await, ["git_dev_one"]);
    offer(&["hr_one", "dev_one", "nobodys", "nor_this"]);
    // Two more of the other's: whatever was to be told of those before has been told by then.
    for more in [&["hr_two", "dev_one"][..], &["hr_three", "dev_one"]] {
        offer(more);
        assert_eq!(hr.notice().await, "tools");
    }
    // A resource of another caller is not listened to, and one behind a scope says which.
    let request = by("hr", listen("2", r#"{"resourceSubscriptions":["git://a","git://locked"]}"#));
    let reply = gateway.send(request).await;
    assert_eq!(reply.status(), 403, "{reply:?}");
    assert_eq!(reply.head.all("www-authenticate"), ["Bearer error=\"insufficient_scope\", scope=\"s1 s2\""]);
    let request = by("hr", listen("2", r#"{"resourceSubscriptions":["git://a"]}"#));
    let stream = Stream::ask(gateway.connect().await, request, "2").await;
    assert_eq!(stream.honoured, json!({}));
    let metrics = gateway
        .metric("gatehouse_requests_total", &[("method", "subscriptions/listen"), ("outcome", "denied")]);
    assert_eq!(metrics.await, 1.0);
    // Each was told of its own, and is told nothing more.
    let log = tokio::spawn(gateway.stop());
    dev.end_without_notice().await;
    hr.end_without_notice().await;
    log.await.unwrap();
}

fn git_rest() -> Offer {
    Offer { tools: Vec::new(), ..git() }
}

/// Covers: L-41, L-44: a read is told as private, and what one caller read is another's from memory only if it may.
#[tokio::test(flavor = "multi_thread")]
async fn l_44_reads_under_grants() {
    let bench = bench().await;
    bench.git.on("resources/read", |seen| {
        Answer::result(seen, r#"{"contents":[],"ttlMs":3600000,"cacheScope":"public"}"#)
    });
    let read =
        async |who: &str| ask(&bench.gateway, who, mcp("resources/read", r#"{"uri":"git://a"}"#)).await;
    for _ in 0..2 {
        let reply = read("dev").await;
        assert_eq!(reply.result()["cacheScope"], "private");
        assert_eq!(read("hr").await.code(), Some(PARAMS));
    }
    assert_eq!(bench.git.requests("resources/read").len(), 1);
    bench.gateway.stop().await;
}

/// Covers: F-058: of a URI that two servers list, a caller has the one it may ask.
#[tokio::test(flavor = "multi_thread")]
async fn f_058_the_same_uri_of_two_servers() {
    let same = |name: &str| {
        let resources = vec![format!("{{\"uri\":\"x://same\",\"name\":\"{name}\"}}")];
        Offer { resources, ..Offer::default() }.fresh()
    };
    let (one, two) = (Server::modern("one", same("one")).await, Server::modern("two", same("two")).await);
    let grants = "[[grant]]\nto = { team = \"hr\" }\nservers = [\"two\"]\nresources = [\"*\"]\n\
                  [[grant]]\nto = { team = \"dev\" }\nservers = [\"*\"]\nresources = [\"*\"]";
    let setup = Setup::new().toml(&cast()).toml(grants);
    let gateway = setup.http("one", &one.url(), "").http("two", &two.url(), "").start().await;
    for (who, server) in [("hr", "two"), ("dev", "one"), ("hr", "two")] {
        let list = ask(&gateway, who, mcp("resources/list", "{}")).await;
        let listed = list.result()["resources"].clone();
        assert_eq!((listed.as_array().unwrap().len(), &listed[0]["name"]), (1, &json!(server)), "{who}");
        let reply = ask(&gateway, who, mcp("resources/read", r#"{"uri":"x://same"}"#)).await;
        assert_eq!(reply.result()["contents"][0]["text"], format!("{server}:x://same"), "{who}");
    }
    gateway.stop().await;
}
