//! Resources, prompts and completions through the process: whose URI it is, every byte of it, names mapped back:
//! design §4, M-44, M-72, M-73, M-84, F-058, F-096.

use serde_json::{Value, json};

use crate::support::client::Reply;
use crate::support::exchange::Answer;
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::request::{call, encoded, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{PARAMS, RESULT};

fn owning(uris: &[&str], templates: &[&str]) -> Offer {
    let item = |key: &str, uri: &str| format!("{{\"{key}\":{},\"name\":\"n\"}}", json::quoted(uri));
    Offer {
        resources: uris.iter().map(|uri| item("uri", uri)).collect(),
        templates: templates.iter().map(|uri| item("uriTemplate", uri)).collect(),
        // Declared also where the lists are empty.
        capabilities: vec!["\"resources\":{}".to_owned()],
        ..Offer::default()
    }
    .fresh()
}

/// Reads a URI, given as JSON text.
async fn read(gateway: &Gateway, raw: &str) -> Reply {
    let uri = json::value(raw).as_str().unwrap().to_owned();
    let request = mcp("resources/read", format!("{{\"uri\":{raw}}}")).request();
    gateway.send(request.set("Mcp-Name", encoded(&uri))).await
}

/// Who answered.
async fn owner(gateway: &Gateway, uri: &str) -> String {
    let reply = read(gateway, &json::quoted(uri)).await;
    assert_eq!(reply.verdict(), (200, Some(RESULT)), "{uri}: {reply:?}");
    let text = reply.result()["contents"][0]["text"].as_str().unwrap().to_owned();
    text.split(':').next().unwrap().to_owned()
}

async fn refused(gateway: &Gateway, uri: &str) {
    let reply = read(gateway, &json::quoted(uri)).await;
    assert_eq!(reply.verdict(), (200, Some(PARAMS)), "{uri}: {reply:?}");
    assert_eq!(reply.message()["error"]["data"], json!({ "uri": uri }), "{reply:?}");
}

/// Covers: F-058, M-72: every expanded URI reaches the owner of its template byte for byte, and what it holds comes back so.
#[tokio::test(flavor = "multi_thread")]
async fn f_058_uris_of_templates() {
    let one = Server::modern("one", owning(&["x://both"], &["y://users/{id}"])).await;
    let templates = ["x://users/{id}", "x://f{?a,b}", "x://p/{path*}", "x://odd/{+rest}"];
    let two = Server::modern("two", owning(&["x://both", "x://odd"], &templates)).await;
    let contents = |uri: &str| {
        format!(
            r#"[{{"uri":{uri},"mimeType":"image/png","blob":"AAEC/w==","_meta":{{"k":1.0,"k2":[1e400]}}}},{{"text":"{{\"a\":1.0}}","uri":"x://other","mimeType":"application/json","zzz":null}}]"#
        )
    };
    two.on("resources/read", move |seen| {
        let uri = seen.raw(&["params", "uri"]).unwrap();
        Answer::result(seen, &format!(r#"{{"_meta":{{"own":1.0}},"contents":{}}}"#, contents(&uri)))
    });
    let gateway = Setup::new().http("one", &one.url(), "").http("two", &two.url(), "").start().await;
    for raw in [
        r#""x://odd""#,
        r#""x://users/1""#,
        r#""x://users/a%2Fb""#,
        r#""x://users/a b""#,
        r#""x://users/ä日本""#,
        r#""x://users/\u00e4\u65e5""#,
        r#""x:\/\/users\/1""#,
        r#""x://users/?x=1#y""#,
        r#""x://users/""#,
        r#""x://users/../../etc/passwd""#,
        r#""x://users/%00\t\n""#,
        r#""x://users/\"\\""#,
        r#""x://f?a=1&b=%20""#,
        r#""x://f?b=2""#,
        r#""x://p/a/b/c//d/""#,
        r#""x://odd/http://elsewhere/?q={id}""#,
    ] {
        let reply = read(&gateway, raw).await;
        assert_eq!(reply.verdict(), (200, Some(RESULT)), "{raw}: {reply:?}");
        let text = reply.result_text();
        assert_eq!(json::raw(&text, &["contents"]), Some(contents(raw)), "{raw}");
        assert_eq!(json::raw(&text, &["_meta", "own"]).as_deref(), Some("1.0"), "{raw}");
        let seen = two.requests("resources/read").pop().unwrap();
        assert_eq!(seen.raw(&["params", "uri"]).as_deref(), Some(raw));
        let uri = json::value(raw);
        assert_eq!(seen.header("mcp-name"), Some(encoded(uri.as_str().unwrap())), "{raw}");
    }
    assert!(one.requests("resources/read").is_empty());
    assert_eq!(owner(&gateway, "x://both").await, "one", "the first in file order");
    assert_eq!(owner(&gateway, "y://users/a%2Fb").await, "one");
    let list = gateway.send(mcp("resources/list", "{}")).await.result();
    let uris: Vec<&Value> = list["resources"].as_array().unwrap().iter().map(|r| &r["uri"]).collect();
    assert_eq!(uris, ["x://both", "x://odd"], "each URI once");
    gateway.stop().await;
}

/// Covers: design §4: the operator's globs, then exact entries, then the longest literal start of a template; who
/// says that it owns everything owns nothing; nobody is asked around.
#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_a_uri() {
    let wide = ["{+all}", "{scheme}://x", "g://{host}/a", "g:{rest}", "x://no{stop}/{id}", "file:///{path}"];
    let greedy = Server::modern("greedy", owning(&[], &wide)).await;
    let one = Server::modern("one", owning(&["g://both"], &["w://x/{id}", "v://x/{id}"])).await;
    let two = Server::modern("two", owning(&["g://both", "g://mine", "w://x/1"], &["v://x/y/{id}"])).await;
    let gateway = Setup::new()
        .http("greedy", &greedy.url(), "")
        .http("one", &one.url(), "resources.uris = [\"g://m*\", \"o://*\"]")
        .http("two", &two.url(), "resources.uris = [\"o://*\"]")
        .start()
        .await;
    for (uri, expected) in [
        ("g://mine", "one"),
        ("o://anything", "one"),
        ("g://both", "one"),
        ("w://x/1", "two"),
        ("w://x/2", "one"),
        ("v://x/y/1", "two"),
        ("v://x/z", "one"),
        ("v://x/", "one"),
    ] {
        assert_eq!(owner(&gateway, uri).await, expected, "{uri}");
    }
    let unknown =
        ["g://other", "g://host/a", "g:rest", "x://nox/1", "file:///etc/passwd", "w://xx/1", "W://x/1", ""];
    for uri in unknown {
        refused(&gateway, uri).await;
    }
    assert!(greedy.requests("resources/read").is_empty());
    for server in [&one, &two] {
        let asked: Vec<_> = server.requests("resources/read").iter().filter_map(|s| s.name()).collect();
        assert!(!asked.iter().any(|uri| unknown.contains(&&**uri)), "{asked:?}");
    }
    gateway.stop().await;
}

/// Covers: M-44, M-45: "not found" of both eras has one form; other refusals keep theirs.
#[tokio::test(flavor = "multi_thread")]
async fn not_found_has_one_form() {
    let server = Server::modern("s", owning(&["x://a"], &["x://t/{id}"])).await;
    let legacy = Server::legacy("l", owning(&["l://a"], &["l://t/{id}"])).await;
    legacy.on("resources/read", |seen| Answer::error(seen, 200, -32002, "Resource not found"));
    server.on("resources/read", |seen| {
        let uri = seen.raw(&["params", "uri"]).unwrap();
        let data = format!("{{\"uri\":{uri},\"more\":1.0}}");
        Answer::new(200, "application/json", seen.error(-32602, "nothing there", Some(&data)))
    });
    let gateway = Setup::new().http("s", &server.url(), "").http("l", &legacy.url(), "").start().await;
    refused(&gateway, "l://t/1").await;
    refused(&gateway, "n://nobody").await;
    let reply = read(&gateway, "\"x://t/1\"").await;
    assert_eq!(reply.verdict(), (200, Some(PARAMS)));
    let error = json::raw(reply.text(), &["error"]).unwrap();
    assert_eq!(json::raw(&error, &["message"]).as_deref(), Some("\"nothing there\""));
    assert_eq!(json::raw(&error, &["data"]).as_deref(), Some(r#"{"uri":"x://t/1","more":1.0}"#));
    gateway.stop().await;
}

/// Covers: F-096: the resource that shows a tool is read by the URI in the list, listed itself or not; who mirrors
/// a server calls by bare names, who merges refuses them.
#[tokio::test(flavor = "multi_thread")]
async fn f_096_resources_of_mcp_apps() {
    let tool = |name: &str, uri: &str| {
        format!(
            r#"{{"name":"{name}","inputSchema":{{"type":"object"}},"_meta":{{"ui":{{"resourceUri":"{uri}"}}}}}}"#
        )
    };
    let with = |tools: &[String], offer: Offer| Offer { tools: tools.to_vec(), ..offer };
    let shown =
        [tool("show", "ui://x/app.html"), tool("secret", "ui://x/secret.html"), tool("odd", "https://x/")];
    let one = Server::modern("one", with(&shown, owning(&["ui://x/listed.html"], &[]))).await;
    let two = Server::modern("two", with(&[tool("show", "ui://y/app.html")], owning(&[], &[]))).await;
    let raw =
        "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/raw\"\nprefix = false\nservers = [\"one\"]";
    let gateway = Setup::new()
        .toml(raw)
        .http("one", &one.url(), "tools.deny = [\"secret\"]")
        .http("two", &two.url(), "")
        .start()
        .await;
    for (uri, expected) in
        [("ui://x/listed.html", "one"), ("ui://x/app.html", "one"), ("ui://y/app.html", "two")]
    {
        assert_eq!(owner(&gateway, uri).await, expected, "{uri}");
    }
    for uri in ["ui://x/secret.html", "ui://x/none.html", "https://x/"] {
        refused(&gateway, uri).await;
    }
    let list = gateway.send(mcp("tools/list", "{}")).await.result();
    assert_eq!(list["tools"][0]["_meta"]["ui"]["resourceUri"], "ui://x/app.html");
    let bare = gateway.send(call("show", "{}").request().at("/raw")).await;
    assert_eq!(bare.result()["content"][0]["text"], "one:show");
    for _ in 0..5 {
        assert_eq!(gateway.send(call("show", "{}")).await.verdict(), (200, Some(PARAMS)), "never a pick");
    }
    gateway.stop().await;
}

/// Covers: F-096, design §5: the first request of a new gateway already knows.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_read_waits_for_the_lists() {
    let tool = r#"{"name":"t","inputSchema":{},"_meta":{"ui":{"resourceUri":"ui://x/app"}}}"#;
    let offer = Offer { tools: vec![tool.to_owned()], ..owning(&["x://a"], &["x://t/{id}"]) };
    let server = Server::modern("s", offer).await;
    for uri in ["x://a", "x://t/1", "ui://x/app"] {
        let gateway = Setup::new().http("s", &server.url(), "").launch().await;
        assert_eq!(owner(&gateway, uri).await, "s", "{uri}");
        gateway.stop().await;
    }
}

/// Covers: M-73: prompts are got by the names of the list, whatever their servers call them.
#[tokio::test(flavor = "multi_thread")]
async fn m_73_prompts_by_their_exposed_names() {
    let natives = ["plain", "with space", "日本", "a.b/c"];
    let prompts = natives.map(|name| format!("{{\"name\":{}}}", json::quoted(name)));
    let server = Server::modern("s", Offer { prompts: prompts.to_vec(), ..Offer::default() }.fresh()).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let list = gateway.send(mcp("prompts/list", "{}")).await.result();
    let exposed: Vec<&str> =
        list["prompts"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!((exposed.len(), exposed[0]), (4, "s_plain"));
    for (name, native) in exposed.iter().zip(natives) {
        let params = format!(r#"{{"arguments":{{"a":"1.0"}},"name":{}}}"#, json::quoted(name));
        let reply = gateway.send(mcp("prompts/get", params)).await;
        assert_eq!(reply.result()["description"], format!("s:{native}"));
        let seen = server.requests("prompts/get").pop().unwrap();
        assert_eq!(seen.header("mcp-name"), Some(encoded(native)));
        assert_eq!(seen.raw(&["params", "arguments"]).as_deref(), Some(r#"{"a":"1.0"}"#));
    }
    for name in ["plain", "s_", "s_none"] {
        let reply = gateway.send(mcp("prompts/get", json!({ "name": name }))).await;
        assert_eq!(reply.verdict(), (200, Some(PARAMS)), "{name}");
    }
    gateway.stop().await;
}
