//! The kit itself: a gateway starts, shows what stands behind it, passes a call on and ends.

use crate::support::child::{Child, demo};
use crate::support::gateway::Setup;
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_shows_servers_of_every_kind_and_ends() {
    let modern = Server::modern("m", Offer::tools(&["one"])).await;
    let legacy = Server::legacy("l", Offer::tools(&["two"])).await;
    let child = Child::python(
        r#"serve({"server/discover": DISCOVER, "tools/list": tools("three"),
          "tools/call": lambda m, line: result(m, '{"content":[{"type":"text","text":"p"}]}')})"#,
    );
    let gateway = Setup::new()
        .http("m", &modern.url(), "")
        .http("l", &legacy.url(), "")
        .stdio("p", &child.argv(), "")
        .stdio("d", &demo(&[]), "tools.allow = [\"add\"]")
        .start()
        .await;
    let mut connection = gateway.connect().await;
    let list = connection.send(mcp("tools/list", "{}")).await;
    let tools = list.result()["tools"].as_array().unwrap().clone();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["m_one", "l_two", "p_three", "d_add"], "{}", list.text());
    for (name, text) in [("m_one", "m:one"), ("l_two", "l:two"), ("p_three", "p"), ("d_add", "3")] {
        let reply = connection.send(call(name, r#"{"a":1,"b":2}"#)).await;
        assert_eq!(reply.verdict(), (200, Some(0)), "{name}: {reply:?}");
        assert_eq!(reply.result()["content"][0]["text"], text, "{name}");
    }
    assert_eq!(gateway.metric("gatehouse_tool_calls_total", &[("outcome", "ok")]).await, 4.0);
    drop(connection);
    let log = gateway.stop().await;
    log.wait("the last line", |line| line.contains("stopped")).await;
}
