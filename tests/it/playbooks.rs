//! Playbooks through the process: as tools, as prompts, found by the search, read anew, and only for those they are for.

use std::path::Path;

use serde_json::Value;

use crate::support::cast::{ask, caller};
use crate::support::client::Reply;
use crate::support::feed::Stream;
use crate::support::gateway::{Gateway, Setup};
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::{eventually, json as raw};

fn write(folder: &Path, name: &str, text: &str) {
    // As editors and volumes do it: never half a file.
    let new = folder.join(format!(".{name}.new"));
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, folder.join(name)).unwrap();
}

fn library() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        "deploy.md",
        "---\nname: deploy\ndescription: Ship a release to production\ntags: [ops]\ntools: [s_ship, s_gone]\n---\n# Deploy\nCall s_ship, then see [undo](rollback.md).\n## Checks\nLook twice.\n",
    );
    write(
        folder.path(),
        "rollback.md",
        "---\ndescription: Undo a release\ntools: [s_undo]\n---\n# Undo\nBreathe.\n",
    );
    write(
        folder.path(),
        "welcome.md",
        "---\ndescription: For newcomers\nlinks: [deploy, nowhere]\n---\nHello.\n",
    );
    folder
}

fn text(reply: &Reply) -> String {
    reply.result()["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply:?}")).to_owned()
}

fn names(reply: &Reply, key: &str) -> Vec<String> {
    let items = reply.result()[key].clone();
    items.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

async fn tools(gateway: &Gateway) -> Vec<String> {
    names(&gateway.send(mcp("tools/list", "{}")).await, "tools")
}

const ALL: [&str; 3] = ["playbook_deploy", "playbook_rollback", "playbook_welcome"];

fn own(folder: &Path) -> String {
    format!("playbooks = {}", raw::quoted(&folder.display().to_string()))
}

#[tokio::test(flavor = "multi_thread")]
async fn playbooks_are_tools_and_prompts_and_lead_on() {
    let folder = library();
    let mut offer = Offer::tools(&["ship", "undo"]);
    offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
    let server = Server::modern("s", offer).await;
    let gateway = Setup::new().gateway(&own(folder.path())).http("s", &server.url(), "").start().await;
    assert_eq!(tools(&gateway).await, [&["s_ship", "s_undo"][..], &ALL].concat());
    assert_eq!(
        names(&gateway.send(mcp("prompts/list", "{}")).await, "prompts"),
        [&["s_p"][..], &ALL].concat()
    );
    let page = text(&gateway.send(call("playbook_deploy", "{}")).await);
    assert!(page.starts_with("# Deploy\nCall s_ship"), "{page}");
    assert!(
        page.contains("\n- playbook_rollback: Undo a release") && page.contains("Tools it uses: s_ship"),
        "{page}"
    );
    let section = call("playbook_deploy", r#"{"section":"checks"}"#);
    assert!(text(&gateway.send(section).await).starts_with("## Checks\nLook twice."));
    let none = gateway.send(call("playbook_deploy", r#"{"section":"none"}"#)).await;
    assert!(
        text(&none).contains("There are: Deploy; Checks") && none.result()["isError"] == true,
        "{none:?}"
    );
    let prompt = gateway.send(mcp("prompts/get", r#"{"name":"playbook_rollback"}"#)).await.result();
    assert_eq!(
        prompt["messages"][0]["content"]["text"].as_str().map(|t| t.starts_with("# Undo")),
        Some(true),
        "{prompt}"
    );
    assert_eq!(gateway.send(call("playbook_none", "{}")).await.code(), Some(-32602));
    let state = |state: &'static str| [("state", state)];
    gateway.metric_becomes("gatehouse_playbooks", &state("loaded"), 3.0).await;
    gateway.metric_becomes("gatehouse_playbooks", &state("unused"), 1.0).await;
    gateway.metric_becomes("gatehouse_playbooks", &state("dead_link"), 1.0).await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_search_finds_them_and_files_are_read_anew() {
    let folder = library();
    let server = Server::modern("s", Offer::tools(&["ship", "undo"])).await;
    let endpoint = format!(
        "[[endpoint]]\npath = \"/mcp\"\ndiscovery = \"search\"\npinned = [\"playbook_w*\"]\n{}",
        own(folder.path())
    );
    let gateway = Setup::new().toml(&endpoint).http("s", &server.url(), "").start().await;
    assert_eq!(tools(&gateway).await, ["search_tools", "describe_tool", "call_tool", "playbook_welcome"]);
    let search = |query: &str| call("search_tools", format!("{{\"query\":{}}}", raw::quoted(query)));
    let hits = text(&gateway.send(search("release to production")).await);
    assert!(hits.starts_with("playbook_deploy(section?): Playbook: Ship a release to production"), "{hits}");
    let shown = text(&gateway.send(call("describe_tool", r#"{"name":"playbook_deploy"}"#)).await);
    assert!(shown.contains("\"inputSchema\""), "{shown}");
    let through = gateway.send(call("call_tool", r#"{"name":"playbook_rollback","arguments":{}}"#)).await;
    assert!(text(&through).starts_with("# Undo"), "{through:?}");
    let mut stream = Stream::open(&gateway, "1", r#"{"toolsListChanged":true}"#).await;
    write(folder.path(), "zebra.md", "---\ndescription: Feeding zebras\n---\nHay.\n");
    write(folder.path(), "welcome.md", "---\ndescription: For old hands too\n---\nHello again.\n");
    assert_eq!(stream.notice().await, "tools");
    eventually("both are there", async || {
        let zebra = text(&gateway.send(search("zebras")).await).starts_with("playbook_zebra(");
        zebra && text(&gateway.send(call("playbook_welcome", "{}")).await).starts_with("Hello again")
    })
    .await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_for_those_who_may_use_their_tools() {
    let folder = library();
    let server = Server::modern("s", Offer::tools(&["ship", "undo"])).await;
    let people =
        [caller("ann", "team = \"dev\""), caller("bob", "team = \"ops\""), caller("eve", "x = \"y\"")]
            .concat();
    let grants = "[[grant]]\nto = { team = \"dev\" }\nservers = [\"s\"]\ntools = [\"ship\"]\n\
        [[grant]]\nto = { team = \"ops\" }\nservers = [\"s\"]\ntools = [\"*\"]\n";
    let gateway = Setup::new()
        .gateway(&own(folder.path()))
        .toml(&format!("[auth]\n{people}{grants}"))
        .http("s", &server.url(), "")
        .start()
        .await;
    let listed = async |who: &str| names(&ask(&gateway, who, mcp("tools/list", "{}")).await, "tools");
    assert_eq!(listed("ann").await, ["s_ship", "playbook_deploy", "playbook_welcome"]);
    assert_eq!(listed("bob").await, [&["s_ship", "s_undo"][..], &ALL].concat());
    assert_eq!(listed("eve").await, Vec::<String>::new());
    // Not a word of what it leads to, where that is not hers.
    let page = text(&ask(&gateway, "ann", call("playbook_deploy", "{}")).await);
    assert!(!page.contains("Playbooks it leads to") && page.contains("Tools it uses: s_ship"), "{page}");
    assert!(text(&ask(&gateway, "bob", call("playbook_deploy", "{}")).await).contains("- playbook_rollback"));
    for (who, name) in [("ann", "playbook_rollback"), ("eve", "playbook_welcome"), ("eve", "playbook_none")] {
        assert_eq!(ask(&gateway, who, call(name, "{}")).await.code(), Some(-32602), "{who} {name}");
    }
    gateway.stop().await;
}

/// Names that begin as those of playbooks are theirs.
#[tokio::test(flavor = "multi_thread")]
async fn no_server_takes_the_place_of_a_playbook() {
    let folder = library();
    let server = Server::modern("s", Offer::tools(&["playbook_deploy"])).await;
    let gateway =
        Setup::new().gateway(&own(folder.path())).http("s", &server.url(), "prefix = \"\"").start().await;
    let all = tools(&gateway).await;
    assert!(all[0].starts_with("playbook_deploy_") && all[1..] == ALL, "{all:?}");
    assert_eq!(text(&gateway.send(call(&all[0], "{}")).await), "s:playbook_deploy");
    assert!(text(&gateway.send(call("playbook_deploy", "{}")).await).starts_with("# Deploy"));
    let _: Value = gateway.send(mcp("server/discover", "{}")).await.result();
    gateway.stop().await;
}
