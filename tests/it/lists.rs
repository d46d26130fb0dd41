//! Lists and discovery: definitions arrive as their server wrote them, `prefix = false` shows what a direct connection
//! shows: M-30, M-32, M-80, L-01..L-06, L-40, F-014, F-015, F-060, F-096.

use serde_json::json;

use crate::support::child::Child;
use crate::support::client::Reply;
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{METHOD, PARAMS, RESULT};

/// A definition with everything in it that a narrow model would lose. `name` stands where it may.
fn rich(name: &str) -> String {
    let many: Vec<String> =
        (0..300).rev().map(|n| format!("\"p{n}\":{{\"type\":\"number\",\"multipleOf\":1.0}}")).collect();
    format!(
        r##"{{"title":"Rich","x-unknown":{{"z":1.0,"a":1e400,"a":2}},"name":{name},"icons":[{{"src":"https://i.test/a.png","sizes":["48x48"]}}],
"annotations":{{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false,"title":"T"}},
"execution":{{"taskSupport":"forbidden"}},"_meta":{{"ui":{{"resourceUri":"ui://x/app.html"}},"com.example/k":[1152921504606846977,null]}},
"inputSchema":{{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":{{"node":{{"type":"object","properties":{{"next":{{"$ref":"#/$defs/node"}}}},"$anchor":"n"}}}},
"type":"object","anyOf":[{{"required":["a"]}},{{"not":{{"required":["b"]}}}}],"patternProperties":{{"^x-":{{"const":null}}}},
"properties":{{"$ref":{{"type":"string"}},"type":{{"enum":[1,"1",null,1.0,true]}},"name":{{"default":null}},"s":{{"type":"string","x-mcp-header":"S"}},{}}},
"if":{{"properties":{{"a":{{"const":1}}}}}},"then":{{}},"additionalProperties":false,"unevaluatedProperties":false}},
"outputSchema":{{"type":["array","null"],"prefixItems":[{{"minimum":-0.0}}]}},"description":"d \u00e4 \ud800 é"}}"##,
        many.join(",")
    )
    .replace('\n', "")
}

fn items(reply: &Reply, key: &str) -> String {
    assert_eq!(reply.verdict(), (200, Some(RESULT)));
    json::raw(&reply.result_text(), &[key]).unwrap()
}

async fn tools_at(gateway: &Gateway, path: &str) -> String {
    items(&gateway.send(mcp("tools/list", "{}").request().at(path)).await, "tools")
}

const BOTH: &str =
    "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/raw\"\nprefix = false\nservers = [\"s\"]";

/// The setup whose server is of 2025.
const LEGACY: usize = 2;

/// Covers: F-060, G-80, M-80, M-73, H-59: fresh and from memory, of servers of both eras, over HTTP and stdio.
#[tokio::test(flavor = "multi_thread")]
async fn f_060_definitions_are_not_remodelled() {
    let (native, exposed) = (rich("\"n\\u0061me\""), rich("\"s_name\""));
    let offer = Offer::defined(&[&native]);
    let child = Child::python(
        r#"
with open(os.path.join(HERE, "tools"), "rb") as file:
    LIST = b'{"tools":[' + file.read() + b'],"ttlMs":60000}'
def answer(message, line):
    send(b'{"jsonrpc":"2.0","id":%d,"result":' % message["id"] + LIST + b'}')
serve({"server/discover": DISCOVER, "tools/list": answer})
"#,
    );
    child.put("tools", &native);
    let modern = Server::modern("m", offer.clone()).await;
    let stale = Server::modern("m", offer.clone().stale()).await;
    let legacy = Server::legacy("l", Offer { hints: vec![], ..offer }).await;
    let setups = [
        Setup::new().toml(BOTH).http("s", &modern.url(), ""),
        Setup::new().toml(BOTH).http("s", &stale.url(), ""),
        Setup::new().toml(BOTH).http("s", &legacy.url(), ""),
        Setup::new().toml(BOTH).stdio("s", &child.argv(), ""),
    ];
    for (number, setup) in setups.into_iter().enumerate() {
        let gateway = setup.start().await;
        // How a tool runs as a task of 2025-11-25 is not for clients of another revision (G-80).
        let gone = if number == LEGACY { r#""execution":{"taskSupport":"forbidden"},"# } else { "" };
        let [native, exposed] = [&native, &exposed].map(|text| format!("[{}]", text.replace(gone, "")));
        for round in 0..3 {
            assert!(tools_at(&gateway, "/mcp").await == exposed, "setup {number}, round {round}");
            assert!(tools_at(&gateway, "/raw").await == native, "setup {number}, round {round}");
        }
        gateway.stop().await;
    }
    assert_eq!(modern.requests("tools/list").len(), 1, "from memory while it is fresh");
    assert!(stale.requests("tools/list").len() > 4, "asked for anew where nothing may be kept");
}

/// Covers: F-060: an override replaces the description and nothing else; a description there was none of is added.
#[tokio::test(flavor = "multi_thread")]
async fn an_override_touches_its_member_only() {
    let one = r#"{"inputSchema":{"type":"object","x":1.0},"description":"old","name":"one","z":1}"#;
    let two = r#"{"name":"two","inputSchema":{"type":"object"}}"#;
    let server = Server::modern("s", Offer::defined(&[one, two])).await;
    let over = "[server.tools.override.one]\ndescription = \"new\"\nname = \"1\"\n[server.tools.override.two]\ndescription = \"new\"";
    let gateway = Setup::new().http("s", &server.url(), over).start().await;
    let expected = r#"[{"inputSchema":{"type":"object","x":1.0},"description":"new","name":"s_1","z":1},{"name":"s_two","inputSchema":{"type":"object"},"description":"new"}]"#;
    assert_eq!(tools_at(&gateway, "/mcp").await, expected);
    gateway.stop().await;
}

/// Covers: M-72, M-73: prompts take a name, resources and templates take nothing.
#[tokio::test(flavor = "multi_thread")]
async fn other_lists_arrive_as_they_were() {
    let mut offer = Offer::tools(&["t"]);
    let prompt = |name: &str| {
        format!(
            r#"{{"arguments":[{{"name":"a","required":false}}],"name":"{name}","_meta":{{"k":1.0}},"title":"T"}}"#
        )
    };
    let resource = r#"{"size":1e2,"uri":"ui://x/app.html","name":"r","_meta":{"ui":{"csp":{}}},"annotations":{"priority":0.0}}"#;
    let template = r#"{"uriTemplate":"x://f{?a,b}","name":"t","mimeType":"a/b","zzz":null}"#;
    offer.prompts = vec![prompt("p")];
    offer.resources = vec![resource.to_owned()];
    offer.templates = vec![template.to_owned()];
    let server = Server::modern("s", offer).await;
    let gateway = Setup::new().toml(BOTH).http("s", &server.url(), "").start().await;
    for path in ["/mcp", "/raw"] {
        let name = if path == "/mcp" { "s_p" } else { "p" };
        let list = async |method: &str, key: &str| {
            items(&gateway.send(mcp(method, "{}").request().at(path)).await, key)
        };
        assert_eq!(list("prompts/list", "prompts").await, format!("[{}]", prompt(name)));
        assert_eq!(list("resources/list", "resources").await, format!("[{resource}]"));
        assert_eq!(list("resources/templates/list", "resourceTemplates").await, format!("[{template}]"));
    }
    gateway.stop().await;
}

/// Covers: M-30, M-32, L-01..L-04, design §5; conformance: sep-2575-discover-capabilities-match-handlers.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_without_prefix_mirrors_its_server() {
    let mut offer = Offer::tools(&["tool.with strange/name"]);
    offer.capabilities = vec!["\"logging\":{}".to_owned()];
    let server = Server::modern("s", offer).await;
    let other = Server::modern("o", Offer::tools(&["t"])).await;
    let gateway =
        Setup::new().toml(BOTH).http("s", &server.url(), "").http("o", &other.url(), "").start().await;
    let discover =
        async |path: &str| gateway.send(mcp("server/discover", "{}").request().at(path)).await.result();
    let keys = |result: &serde_json::Value| {
        let mut keys: Vec<String> = result["capabilities"].as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&discover("/raw").await), ["logging", "tools"]);
    assert_eq!(keys(&discover("/mcp").await), ["completions", "logging", "prompts", "resources", "tools"]);
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        let raw = gateway.send(mcp(method, "{}").request().at("/raw")).await;
        assert_eq!(raw.verdict(), (404, Some(METHOD)), "{method}");
        let merged = gateway.send(mcp(method, "{}")).await;
        assert_eq!(merged.verdict(), (200, Some(RESULT)), "{method}");
    }
    for (method, params) in [
        ("prompts/get", r#"{"name":"p"}"#),
        ("resources/read", r#"{"uri":"s://x"}"#),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}"#,
        ),
    ] {
        let raw = gateway.send(mcp(method, params).request().at("/raw")).await;
        assert_eq!(raw.verdict(), (404, Some(METHOD)), "{method}");
    }
    let reply = gateway.send(call("tool.with strange/name", "{}").request().at("/raw")).await;
    assert_eq!(reply.result()["content"][0]["text"], "s:tool.with strange/name");
    gateway.stop().await;
}

/// Covers: F-096, M-72: the page of an app is read by the URI its tool names, and calls its tools as the endpoint without
/// prefixes shows them; with prefixes a bare name is refused, never given to somebody.
#[tokio::test(flavor = "multi_thread")]
async fn f_096_apps_find_their_page_and_their_tools() {
    let tool =
        r#"{"name":"open","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://x/app.html"}}}"#;
    let offer = || {
        let mut offer = Offer::defined(&[tool]);
        offer.resources = vec![
            r#"{"uri":"ui://x/app.html","name":"app","mimeType":"text/html;profile=mcp-app"}"#.to_owned(),
        ];
        offer
    };
    let server = Server::modern("s", offer()).await;
    let other = Server::modern("o", Offer::defined(&[tool])).await;
    let gateway =
        Setup::new().toml(BOTH).http("s", &server.url(), "").http("o", &other.url(), "").start().await;
    for (path, name) in [("/mcp", "s_open"), ("/raw", "open")] {
        let list = json::value(&tools_at(&gateway, path).await);
        assert_eq!(
            (&list[0]["name"], &list[0]["_meta"]["ui"]["resourceUri"]),
            (&json!(name), &json!("ui://x/app.html"))
        );
        let read =
            gateway.send(mcp("resources/read", r#"{"uri":"ui://x/app.html"}"#).request().at(path)).await;
        assert_eq!(read.result()["contents"][0]["uri"], "ui://x/app.html");
    }
    let bare = call("open", "{}").request();
    assert_eq!(gateway.send(bare.clone().at("/raw")).await.result()["content"][0]["text"], "s:open");
    assert_eq!(gateway.send(bare).await.verdict(), (200, Some(PARAMS)));
    gateway.stop().await;
}

/// Covers: L-01..L-06, M-22, F-014, F-015.
#[tokio::test(flavor = "multi_thread")]
async fn discover_says_who_answers_and_what_the_servers_ask_for() {
    let one = Server::modern("one", Offer::tools(&["t"])).await;
    let two = Server::modern("two", Offer::tools(&["t"])).await;
    let long = "ä".repeat(10_000);
    for (server, text) in [(&one, "Use one."), (&two, long.as_str())] {
        let text = json::quoted(text);
        server.on("server/discover", move |seen| {
            let result = format!(r#"{{"supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}},"instructions":{text}}}"#);
            crate::support::exchange::Answer::result(seen, &result)
        });
    }
    let own = "name = \"edge\"\ntitle = \"Edge\"\ninstructions = \"Ask first.\"";
    let gateway =
        Setup::new().gateway(own).http("one", &one.url(), "").http("two", &two.url(), "").start().await;
    let result = gateway.send(mcp("server/discover", "{}")).await.result();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    let info = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!((&info["name"], &info["title"]), (&json!("edge"), &json!("Edge")));
    assert!(info["version"].is_string());
    assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string());
    let text = result["instructions"].as_str().unwrap();
    let positions = ["Ask first.", "one", "Use one.", "two", "ää"].map(|part| text.find(part));
    assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{}", &text[..60]);
    assert!(text.len() < 12_000, "bounded: {}", text.len());
    gateway.stop().await;
}

/// Covers: L-40, L-41: the shortest life and the narrowest scope of what is merged; `max_ttl` bounds it.
#[tokio::test(flavor = "multi_thread")]
async fn l_40_hints_of_merged_lists() {
    let hinted = |hints: &[&str]| Offer {
        hints: hints.iter().map(|h| (*h).to_owned()).collect(),
        ..Offer::tools(&["t"])
    };
    let day = Server::modern("day", hinted(&["\"ttlMs\":86400000", "\"cacheScope\":\"public\""])).await;
    let hour = Server::modern("hour", hinted(&["\"ttlMs\":3600000", "\"cacheScope\":\"public\""])).await;
    let private =
        Server::modern("private", hinted(&["\"ttlMs\":3600000", "\"cacheScope\":\"private\""])).await;
    let odd = Server::modern("odd", hinted(&["\"ttlMs\":\"soon\"", "\"cacheScope\":\"everyone\""])).await;
    for (servers, most, least, scope) in [
        (vec![&day], 7_200_000, 7_000_000, "public"),
        (vec![&day, &hour], 3_600_000, 3_500_000, "public"),
        (vec![&hour, &private], 3_600_000, 3_500_000, "private"),
        (vec![&hour, &odd], 0, 0, "private"),
    ] {
        let mut setup = Setup::new().gateway("max_ttl = \"2h\"");
        for (number, server) in servers.iter().enumerate() {
            setup = setup.http(&format!("s{number}"), &server.url(), "");
        }
        let gateway = setup.start().await;
        let result = gateway.send(mcp("tools/list", "{}")).await.result();
        let ttl = result["ttlMs"].as_u64().unwrap();
        assert!((least..=most).contains(&ttl), "{ttl} is not in {least}..={most}");
        assert_eq!(result["cacheScope"], scope);
        gateway.stop().await;
    }
}
