//! The tasks extension: ids that only their owner's gateway can read, routed to the server whose task it is:
//! R-60..R-63, M-12, M-91, S-12.

use base64::Engine as _;
use serde_json::json;

use crate::support::eventually;
use crate::support::exchange::{Answer, Seen};
use crate::support::feed::{Feed, SUBSCRIPTION, listen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::people::{People, with};
use crate::support::request::{Mcp, call, encoded, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{CAPABILITY, HEADER, METHOD, PARAMS, RESULT, judge, row};

const TASKS: &str = "io.modelcontextprotocol/tasks";
const DECLARED: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
/// A server may call its tasks what it likes.
const NATIVE: &str = "tâsk/1 \"x\"";

fn offer() -> Offer {
    let capabilities = vec![format!("\"extensions\":{{\"{TASKS}\":{{}}}}")];
    Offer { capabilities, prompts: vec![r#"{"name":"p"}"#.to_owned()], ..Offer::tools(&["t"]) }
}

async fn tasking(name: &str) -> Server {
    let server = Server::modern(name, offer()).await;
    server.on("tools/call", |seen| Answer::result(seen, &task("task", "working")));
    server.on("tasks/get", |seen| Answer::result(seen, &task("complete", "completed")));
    for method in ["tasks/update", "tasks/cancel"] {
        server.on(method, |seen| Answer::result(seen, r#"{"resultType":"complete"}"#));
    }
    server
}

fn task(kind: &str, status: &str) -> String {
    let id = json::quoted(NATIVE);
    format!(
        r#"{{"resultType":"{kind}","taskId":{id},"status":"{status}","createdAt":"2026-07-28T00:00:00Z","ttlMs":6e4,"x":[1.0,{id}]}}"#
    )
}

fn about(method: &str, id: &str, more: &str) -> Mcp {
    mcp(method, format!("{{\"taskId\":{}{more}}}", json::quoted(id))).capabilities(DECLARED)
}

/// Calls the tool and gives the id of its task.
async fn begin(gateway: &Gateway, path: &str, tool: &str) -> String {
    let reply = gateway.send(call(tool, "{}").capabilities(DECLARED).request().at(path)).await;
    assert_eq!(reply.verdict(), (200, Some(RESULT)), "{reply:?}");
    assert_eq!(reply.result()["resultType"], "task");
    reply.result()["taskId"].as_str().unwrap().to_owned()
}

fn task_id(seen: &Seen) -> String {
    json::value(&seen.raw(&["params", "taskId"]).unwrap()).as_str().unwrap().to_owned()
}

/// Covers: R-60..R-63, M-33, H-33: one task from its call to its end, between two servers with equal ids.
#[tokio::test(flavor = "multi_thread")]
async fn r_61_a_task_is_found_by_its_id() {
    let (one, two) = (tasking("one").await, tasking("two").await);
    let gateway = Setup::new().http("one", &one.url(), "").http("two", &two.url(), "").start().await;
    let discover = gateway.send(mcp("server/discover", "{}")).await.result();
    assert!(discover["capabilities"]["extensions"][TASKS].is_object(), "{discover}");
    for (tool, server, other) in [("one_t", &one, &two), ("two_t", &two, &one)] {
        let elsewhere = other.seen().len();
        let reply = gateway.send(call(tool, "{}").capabilities(DECLARED)).await;
        let text = reply.result_text();
        assert_eq!(json::raw(&text, &["ttlMs"]).as_deref(), Some("6e4"), "nothing else is touched");
        assert_eq!(json::raw(&text, &["x"]), json::raw(&task("task", ""), &["x"]));
        let id = reply.result()["taskId"].as_str().unwrap().to_owned();
        assert!(id != NATIVE && id.bytes().all(|b| b.is_ascii_graphic()), "{id}");
        let declared =
            server.last_call().raw(&["params", "_meta", "io.modelcontextprotocol/clientCapabilities"]);
        assert_eq!(declared.as_deref(), Some(DECLARED));

        let answers = r#","inputResponses":{"k":{"action":"accept","content":{"n":1.0}}}"#;
        for (method, more) in [("tasks/get", ""), ("tasks/update", answers), ("tasks/cancel", "")] {
            let reply = gateway.send(about(method, &id, more)).await;
            assert_eq!(reply.verdict(), (200, Some(RESULT)), "{method}: {reply:?}");
            assert_eq!(reply.result()["resultType"], "complete");
            let seen = server.requests(method).pop().unwrap();
            assert_eq!(task_id(&seen), NATIVE);
            assert_eq!(
                seen.header("mcp-name").as_deref(),
                Some(&*encoded(NATIVE)),
                "each hop has its own name"
            );
            assert_eq!(seen.header("mcp-method").as_deref(), Some(method));
            if method == "tasks/update" {
                let sent = seen.raw(&["params", "inputResponses"]).unwrap();
                assert_eq!(sent, r#"{"k":{"action":"accept","content":{"n":1.0}}}"#);
            }
            if method == "tasks/get" {
                assert_eq!(reply.result()["taskId"], *id, "the id the client knows");
                assert_eq!(reply.result()["status"], "completed");
            }
        }
        assert_eq!(other.seen().len(), elsewhere, "nobody else is asked");
    }
    gateway.stop().await;
}

/// Covers: R-60, R-61, H-34, S-12: who may not, and ids that are nobody's, another endpoint's or another gateway's.
#[tokio::test(flavor = "multi_thread")]
async fn r_60_refusals() {
    let server = tasking("s").await;
    let both =
        "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/raw\"\nprefix = false\nservers = [\"s\"]";
    let gateway = Setup::new().toml(both).http("s", &server.url(), "").start().await;
    let id = begin(&gateway, "/mcp", "s_t").await;
    let raw = begin(&gateway, "/raw", "t").await;
    let other = Setup::new().http("s", &server.url(), "").start().await;
    let foreign = begin(&other, "/mcp", "s_t").await;
    let without = Server::modern("w", Offer::tools(&["t"])).await;
    let none = Setup::new().http("w", &without.url(), "").start().await;

    let before = server.seen().len();
    let mut rows = Vec::new();
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let undeclared = about(method, &id, "").capabilities("{}");
        let strange = about(method, &id, "").capabilities(r#"{"tasks":{},"extensions":{}}"#);
        rows.push(row(format!("{method} undeclared"), undeclared, 400, CAPABILITY));
        rows.push(row(format!("{method} declared otherwise"), strange, 400, CAPABILITY));
        let cut = &id[..id.len() - 1];
        for (what, wrong) in
            [("native", NATIVE), ("empty", ""), ("cut", cut), ("endpoint", &*raw), ("gateway", &*foreign)]
        {
            rows.push(row(format!("{method} of {what}"), about(method, wrong, ""), 200, PARAMS));
        }
        let mismatch = about(method, &id, "").request().set("Mcp-Name", "other");
        rows.push(row(format!("{method} under another name"), mismatch, 400, HEADER));
        let nameless = about(method, &id, "").request().without("Mcp-Name");
        rows.push(row(format!("{method} without its name"), nameless, 400, HEADER));
    }
    judge(&gateway, rows).await;
    let rows = ["tasks/get", "tasks/update", "tasks/cancel"]
        .map(|method| row(method, about(method, &id, ""), 404, METHOD));
    judge(&none, rows.into()).await;
    assert_eq!(server.seen().len(), before, "no refusal reaches the server");
    let data = gateway.send(about("tasks/get", &id, "").capabilities("{}")).await.message();
    let required = &data["error"]["data"]["requiredCapabilities"];
    assert_eq!(*required, json!({"extensions": {TASKS: {}}}));
    for gateway in [gateway, other, none] {
        gateway.stop().await;
    }
}

/// Covers: R-61: a task outlives its gateway: any process with the keys finds it.
#[tokio::test(flavor = "multi_thread")]
async fn r_61_tasks_at_another_replica() {
    let server = tasking("s").await;
    let key = base64::engine::general_purpose::STANDARD.encode([7; 32]);
    let replica =
        || Setup::new().gateway(&format!("keys = [\"{key}\"]")).http("s", &server.url(), "").start();
    let one = replica().await;
    let id = begin(&one, "/mcp", "s_t").await;
    one.stop().await;
    let two = replica().await;
    assert_eq!(two.send(about("tasks/get", &id, "")).await.result()["taskId"], *id);
    assert_eq!(task_id(&server.requests("tasks/get")[0]), NATIVE);
    two.stop().await;
}

/// Covers: R-60, M-12: a task nobody asked for, or nobody could ask about, is no result.
#[tokio::test(flavor = "multi_thread")]
async fn r_60_tasks_only_for_who_declared() {
    let server = tasking("s").await;
    server.on("prompts/get", |seen| Answer::result(seen, &task("task", "working")));
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    for capabilities in ["{}", r#"{"extensions":{}}"#, r#"{"tasks":{}}"#] {
        let reply = gateway.send(call("s_t", "{}").capabilities(capabilities)).await;
        assert_eq!(reply.code(), Some(-32603), "{capabilities}: {reply:?}");
    }
    let prompt = mcp("prompts/get", r#"{"name":"s_p"}"#).capabilities(DECLARED);
    assert_eq!(gateway.send(prompt).await.code(), Some(-32603), "prompts have no tasks");
    for broken in [r#"{"resultType":"task"}"#, r#"{"resultType":"task","taskId":1}"#] {
        server.on("tools/call", move |seen| Answer::result(seen, broken));
        let reply = gateway.send(call("s_t", "{}").capabilities(DECLARED)).await;
        assert_eq!(reply.code(), Some(-32603), "{broken}: {reply:?}");
    }
    gateway.stop().await;
}

/// Covers: S-01, S-02, S-04, S-12, S-25: the state of a task, told under the id that the client has.
#[tokio::test(flavor = "multi_thread")]
async fn s_12_a_task_is_told_of() {
    let server = tasking("s").await;
    let mut feeds = server.hold("subscriptions/listen");
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let id = begin(&gateway, "/mcp", "s_t").await;
    let filter = json!({"taskIds": [id, "nobody's"], "toolsListChanged": false}).to_string();
    let open = async |name: &str| {
        let request = listen(name, &filter).capabilities(DECLARED);
        let mut answer = gateway.connect().await.begin(request).await;
        assert_eq!(answer.status(), 200);
        let ack = answer.message().await.unwrap();
        assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
        (answer, ack["params"]["notifications"].clone())
    };
    let feed = async {
        let exchange = feeds.next().await;
        let declared = exchange.seen.raw(&["params", "_meta", "io.modelcontextprotocol/clientCapabilities"]);
        assert_eq!(declared.as_deref(), Some(DECLARED), "S-25");
        Feed::accept(exchange)
    };
    let ((_keep, _), feed) = tokio::join!(open("\"keep\""), feed);
    assert_eq!(feed.asked(), json!({"taskIds": [NATIVE]}));
    let honoured = json!({"taskIds": [id]});
    eventually("the server's word is known", async || open("0").await.1 == honoured).await;
    let (mut answer, _) = open("0").await;
    let native = json::quoted(NATIVE);
    for status in ["working", "input_required", "completed"] {
        feed.notify("tasks", &format!(r#""taskId":"other","status":"{status}""#));
        feed.notify(
            "tasks",
            &format!(r#""taskId":{native},"status":"{status}","result":{{"content":[],"x":{native}}}"#),
        );
        let notice = answer.message().await.unwrap();
        assert_eq!(notice["method"], "notifications/tasks", "{notice}");
        let params = &notice["params"];
        assert_eq!((&params["taskId"], &params["status"]), (&json!(id), &json!(status)), "{notice}");
        assert_eq!(params["_meta"], json!({ SUBSCRIPTION: 0 }));
        assert_eq!(params["result"], json!({"content": [], "x": NATIVE}), "the whole task, as it was told");
    }
    assert!(feeds.is_empty());
    gateway.stop().await;
}

/// Covers: A-57, R-60: a task is its owner's as long as its tool is: who loses the grant has lost the task, and its notices;
/// who gets it back has it back.
#[tokio::test(flavor = "multi_thread")]
async fn a_57_a_task_under_a_lost_grant() {
    let people = People::new().await;
    let server = tasking("s").await;
    let grants = "[[grant]]\nto = { team = \"dev\" }\nservers = [\"s\"]\ntools = [\"t\"]\n\
                  [[grant]]\nservers = [\"s\"]\ntools = [\"other\"]\n\
                  [[grant]]\nto = { team = \"half\" }\nservers = [\"s\"]\ntools = [\"t\"]\nscopes = [\"b\", \"a\"]";
    let gateway = people.setup().toml(grants).http("s", &server.url(), "").start().await;
    server.offer(Offer { tools: [offer().tools, Offer::tools(&["other"]).tools].concat(), ..offer() });
    let of = |subject: &str, team: &str| people.token_of(subject, json!({ "team": team }));
    // The same person, by tokens of different days.
    let (then, now) = (of("alice", "dev"), of("alice", "sales"));
    let begun = gateway.send(with(call("s_t", "{}").capabilities(DECLARED), &then)).await;
    let id = begun.result()["taskId"].as_str().unwrap_or_else(|| panic!("{begun:?}")).to_owned();
    let methods = ["tasks/get", "tasks/update", "tasks/cancel"];
    let asked = || methods.map(|method| server.requests(method).len()).iter().sum::<usize>();
    let ask = async |method: &str, token: &str| {
        gateway.send(with(about(method, &id, r#","inputResponses":{}"#), token)).await
    };
    for method in methods {
        assert_eq!(ask(method, &then).await.verdict(), (200, Some(RESULT)), "{method}");
        for stranger in [&now, &of("bob", "dev"), &of("bob", "sales")] {
            let reply = ask(method, stranger).await;
            assert_eq!(reply.verdict(), (200, Some(PARAMS)), "{method}: {reply:?}");
            assert_eq!(reply.header("www-authenticate"), None);
        }
        // Where only scopes are missing, it is said which.
        let reply = ask(method, &of("alice", "half")).await;
        assert_eq!(reply.status(), 403, "{method}: {reply:?}");
        assert!(reply.header("www-authenticate").unwrap().contains("scope=\"b a\""));
    }
    assert_eq!(asked(), methods.len(), "nobody behind hears of the others");
    assert_eq!(ask("tasks/get", &then).await.verdict(), (200, Some(RESULT)));
    gateway.stop().await;
}
