//! Allow, deny and override lists: what is not listed cannot be called, got or read, by any spelling (design §4).

use serde_json::Value;

use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{Request, call, encoded, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{PARAMS, RESULT};

fn offer() -> Offer {
    let mut offer = Offer::tools(&["get_one", "get_secret", "put_one", "old", "off", "Get_two"]);
    offer.prompts = vec![r#"{"name":"ask"}"#.to_owned(), r#"{"name":"hidden"}"#.to_owned()];
    offer.resources = vec![
        r#"{"uri":"s://open/1","name":"1"}"#.to_owned(),
        r#"{"uri":"s://shut/1","name":"2"}"#.to_owned(),
    ];
    offer.templates = vec![
        r#"{"uriTemplate":"s://open/{id}","name":"o"}"#.to_owned(),
        r#"{"uriTemplate":"s://shut/{id}","name":"s"}"#.to_owned(),
    ];
    offer
}

const RULES: &str = r#"
[server.tools]
allow = ["get_*", "old", "off"]
deny = ["get_secret"]
[server.tools.override.old]
name = "new"
description = "A \"better\" text"
[server.tools.override.off]
enabled = false
name = "still_off"
[server.prompts]
deny = ["hidden"]
[server.resources]
deny = ["s://shut/*", "s://open/not-this"]
"#;

const ENDPOINTS: &str = "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/raw\"\nprefix = false";

async fn gateway() -> (Server, Gateway) {
    let server = Server::modern("s", offer()).await;
    let gateway = Setup::new().toml(ENDPOINTS).http("a", &server.url(), RULES).start().await;
    (server, gateway)
}

/// What a client may call, by name, at both endpoints.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_allowed_is_listed_and_works() {
    let (_server, gateway) = gateway().await;
    let ids = async |path: &str, method: &str, key: &str, id: &str| {
        let result = gateway.send(mcp(method, "{}").request().at(path)).await.result();
        let items = result[key].as_array().unwrap();
        items.iter().map(|item| item[id].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids("/mcp", "tools/list", "tools", "name").await, ["a_get_one", "a_new"]);
    assert_eq!(ids("/mcp", "prompts/list", "prompts", "name").await, ["a_ask"]);
    for path in ["/mcp", "/raw"] {
        assert_eq!(ids(path, "resources/list", "resources", "uri").await, ["s://open/1"]);
        let templates = ids(path, "resources/templates/list", "resourceTemplates", "uriTemplate").await;
        assert_eq!(templates, ["s://open/{id}"]);
        for uri in ["s://open/1", "s://open/2"] {
            let read = gateway
                .send(mcp("resources/read", format!("{{\"uri\":\"{uri}\"}}")).request().at(path))
                .await;
            assert_eq!(read.verdict(), (200, Some(RESULT)), "{uri} at {path}");
        }
    }
    assert_eq!(ids("/raw", "prompts/list", "prompts", "name").await, ["ask"]);
    let list = gateway.send(mcp("tools/list", "{}")).await.result();
    assert_eq!(list["tools"][1]["description"], "A \"better\" text");
    assert_eq!(gateway.send(call("a_new", "{}")).await.result()["content"][0]["text"], "s:old");
    assert_eq!(gateway.send(call("get_one", "{}").request().at("/raw")).await.verdict(), (200, Some(RESULT)));
    gateway.stop().await;
}

/// Ways to write a name that somebody might take for another.
fn spellings(name: &str) -> Vec<String> {
    let mut all = vec![name.to_owned()];
    for (from, to) in [
        ("_", "-"),
        ("_", "."),
        ("_", "/"),
        ("_", "__"),
        ("_", ":"),
        ("_", " "),
        ("_", ""),
        ("_", "%5f"),
        ("_", "\u{ff3f}"),
    ] {
        all.push(name.replacen(from, to, 1));
        all.push(name.replace(from, to));
    }
    all.push(name.to_uppercase());
    all.push(name[..1].to_uppercase() + &name[1..]);
    for around in [
        "{} ",
        " {}",
        "{}\t",
        "{}\n",
        "{}\u{0}",
        "\u{0}{}",
        "{}\u{200b}",
        "{}*",
        "*{}",
        "./{}",
        "{}/",
        "{}?",
        "{}_",
        "_{}",
        "a_{}",
        "a_a_{}",
        "a.{}",
        "a{}",
        "A_{}",
        "{}_aaaaaaaa",
        "{}#",
        "\u{feff}{}",
    ] {
        all.push(around.replace("{}", name));
    }
    all.push(
        name.chars()
            .map(|c| if c.is_ascii_alphabetic() { char::from_u32(c as u32 + 0xfee0).unwrap() } else { c })
            .collect(),
    );
    all.push(name.replace('e', "\u{435}"));
    all.sort();
    all.dedup();
    all
}

/// The same name with every character escaped.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// Covers: issue 6, M-43: nothing that is not listed is called, whatever the spelling of name or JSON; the answer never
/// tells that it exists; nothing reaches the server.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_listed_cannot_be_called_in_any_spelling() {
    let (server, gateway) = gateway().await;
    let unknown = gateway.send(call("a_nobody", "{}")).await.message();
    let natives = ["get_secret", "put_one", "off", "still_off", "Get_two", "old", "new", "get_one"];
    let names = natives
        .iter()
        .flat_map(|native| spellings(native).into_iter().chain(spellings(&format!("a_{native}"))));
    let mut connection = gateway.connect().await;
    let mut tried = 0;
    for (name, path) in names.flat_map(|name| [(name.clone(), "/mcp"), (name, "/raw")]) {
        let good = if path == "/mcp" { ["a_get_one", "a_new"] } else { ["get_one", "old"] };
        if good.contains(&name.as_str()) {
            continue;
        }
        for text in [serde_json::to_string(&name).unwrap(), format!("\"{}\"", escaped(&name))] {
            let params = format!("{{\"name\":{text},\"arguments\":{{}}}}");
            let request = mcp("tools/call", params).request().at(path).set("Mcp-Name", encoded(&name));
            let reply = connection.send(request).await;
            assert_eq!(reply.verdict(), (200, Some(PARAMS)), "{name:?} at {path}: {reply:?}");
            assert_eq!(reply.message(), unknown, "{name:?} at {path}");
            tried += 1;
        }
    }
    assert!(tried > 500, "{tried}");
    assert!(server.requests("tools/call").is_empty());
    // Nothing a client invents becomes a label.
    let labels = [("outcome", "ok")];
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &labels).await, 0.0);
    let page = gateway.admin("/metrics").await;
    assert!(!page.text().contains("get_secret") && !page.text().contains("still_off"));
    gateway.stop().await;
}

/// The same by other ways in: prompts, resources, templates, completion.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_listed_cannot_be_got_or_read() {
    let (server, gateway) = gateway().await;
    let refused = async |request: Request| {
        let reply = gateway.send(request).await;
        assert_eq!(reply.verdict(), (200, Some(PARAMS)), "{reply:?}");
    };
    for path in ["/mcp", "/raw"] {
        for name in ["hidden", "a_hidden", "a_Ask", "Ask", "a_get_one", "a_a_ask"] {
            refused(mcp("prompts/get", format!("{{\"name\":\"{name}\"}}")).request().at(path)).await;
        }
        for uri in ["s://shut/1", "s://shut/2", "S://SHUT/1x", "s:\\u002f/shut/1", "s://open/not-this"] {
            let request = mcp("resources/read", format!("{{\"uri\":\"{uri}\"}}")).request().at(path);
            let reply = gateway.send(request).await;
            let open = path == "/raw" && uri.starts_with('S');
            assert_eq!(reply.code() == Some(PARAMS), !open, "{uri} at {path}: {reply:?}");
        }
    }
    let calls: Vec<Value> = ["prompts/get", "resources/read"]
        .iter()
        .flat_map(|m| server.requests(m))
        .filter_map(|s| s.name())
        .map(Value::from)
        .collect();
    assert!(
        calls.iter().all(|name| !name.as_str().unwrap().contains("shut") && name != "hidden"),
        "{calls:?}"
    );
    gateway.stop().await;
}

/// Covers: design §3: globs are case-sensitive, deny wins, an empty allow list shows nothing.
#[tokio::test(flavor = "multi_thread")]
async fn globs_over_native_names() {
    let server = Server::modern("s", offer()).await;
    for (rules, expected) in [
        ("tools.allow = [\"*\"]", vec!["get_one", "get_secret", "put_one", "old", "off", "Get_two"]),
        ("tools.allow = [\"?et_*\"]", vec!["get_one", "get_secret", "Get_two"]),
        ("tools.allow = [\"*_one\"]\ntools.deny = [\"put_*\"]", vec!["get_one"]),
        ("tools.deny = [\"*\"]\ntools.allow = [\"get_one\"]", vec![]),
        ("tools.allow = []", vec![]),
        ("tools.allow = [\"a_get_one\", \"GET_ONE\"]", vec![]),
    ] {
        let gateway = Setup::new().http("a", &server.url(), rules).start().await;
        let result = gateway.send(mcp("tools/list", "{}")).await.result();
        let shown: Vec<&str> =
            result["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
        let expected: Vec<String> = expected.iter().map(|name| format!("a_{name}")).collect();
        assert_eq!(shown, expected, "{rules}");
        gateway.stop().await;
    }
}
