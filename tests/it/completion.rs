//! `completion/complete` through the process: references mapped back, values bounded, empty where none is offered:
//! M-73, M-84.

use serde_json::{Value, json};

use crate::support::exchange::Answer;
use crate::support::gateway::Setup;
use crate::support::json;
use crate::support::request::{Mcp, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::{METHOD, PARAMS, RESULT, judge, row};

fn offer(templates: &[&str], completes: bool) -> Offer {
    let template = |uri: &&str| format!("{{\"uriTemplate\":{},\"name\":\"n\"}}", json::quoted(uri));
    Offer {
        prompts: vec![r#"{"name":"a.b"}"#.to_owned(), r#"{"name":"p"}"#.to_owned()],
        templates: templates.iter().map(template).collect(),
        capabilities: completes.then(|| "\"completions\":{}".to_owned()).into_iter().collect(),
        ..Offer::default()
    }
    .fresh()
}

fn complete(reference: &Value) -> Mcp {
    let argument = r#"{"name":"x","value":"1\u00e4"}"#;
    let context = r#"{"arguments":{"y":"z"}}"#;
    mcp(
        "completion/complete",
        format!("{{\"argument\":{argument},\"context\":{context},\"ref\":{reference}}}"),
    )
}

fn prompt(name: &str) -> Value {
    json!({"type": "ref/prompt", "name": name, "title": "T"})
}

fn template(uri: &str) -> Value {
    json!({"type": "ref/resource", "uri": uri})
}

/// Covers: M-73, M-84: the server is asked about what it knows, in its own words; the rest of the request is as it was.
#[tokio::test(flavor = "multi_thread")]
async fn m_84_references_are_mapped_back() {
    let wide = "x:{rest}";
    let (one, two) = (
        Server::modern("one", offer(&["x://u/{id}/posts"], true)).await,
        Server::modern("two", offer(&["x://u/{id}", wide], true)).await,
    );
    for (server, who) in [(&one, "one"), (&two, "two")] {
        let result = format!(r#"{{"completion":{{"values":["{who}"],"total":1,"hasMore":false,"x":1.0}}}}"#);
        server.on("completion/complete", move |seen| Answer::result(seen, &result));
    }
    let gateway = Setup::new().http("one", &one.url(), "").http("two", &two.url(), "").start().await;
    let list = gateway.send(mcp("prompts/list", "{}")).await.result();
    let hashed = list["prompts"][2]["name"].as_str().unwrap();
    for (reference, server, who, native) in [
        (prompt("one_p"), &one, "one", prompt("p")),
        (prompt("two_p"), &two, "two", prompt("p")),
        (prompt(hashed), &two, "two", prompt("a.b")),
        (template("x://u/{id}/posts"), &one, "one", template("x://u/{id}/posts")),
        (template("x://u/{id}"), &two, "two", template("x://u/{id}")),
        (template(wide), &two, "two", template(wide)),
    ] {
        let reply = gateway.send(complete(&reference)).await;
        assert_eq!(reply.verdict(), (200, Some(RESULT)), "{reference}: {reply:?}");
        let text = json::raw(&reply.result_text(), &["completion"]).unwrap();
        assert_eq!(
            text,
            format!(r#"{{"values":["{who}"],"total":1,"hasMore":false,"x":1.0}}"#),
            "{reference}"
        );
        let seen = server.requests("completion/complete").pop().unwrap();
        assert_eq!(json::value(&seen.raw(&["params", "ref"]).unwrap()), native);
        assert_eq!(seen.raw(&["params", "argument"]).as_deref(), Some(r#"{"name":"x","value":"1\u00e4"}"#));
        assert_eq!(seen.raw(&["params", "context"]).as_deref(), Some(r#"{"arguments":{"y":"z"}}"#));
    }
    let asked = one.requests("completion/complete").len() + two.requests("completion/complete").len();
    let refused = [
        prompt("p"),
        prompt("one_none"),
        template("y://nobody/{id}"),
        json!({"type": "ref/other", "name": "one_p"}),
        json!({"type": "ref/prompt"}),
        json!({"type": "ref/resource", "uri": 1}),
        json!({}),
        json!("one_p"),
    ];
    judge(&gateway, refused.iter().map(|r| row(r, complete(r), 200, PARAMS)).collect()).await;
    assert_eq!(one.requests("completion/complete").len() + two.requests("completion/complete").len(), asked);
    gateway.stop().await;
}

/// Covers: M-84: at most 100 values, and that there are more is said.
#[tokio::test(flavor = "multi_thread")]
async fn m_84_at_most_a_hundred_values() {
    let server = Server::modern("s", offer(&[], true)).await;
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    for (count, more) in [
        (0, None),
        (1, Some("false")),
        (100, None),
        (100, Some("false")),
        (101, None),
        (101, Some("false")),
        (5000, Some("true")),
    ] {
        let values: Vec<String> = (0..count).map(|n| format!("\"v,{n}]\"")).collect();
        let said = more.map(|more| format!("\"hasMore\":{more},")).unwrap_or_default();
        let result = format!(
            r#"{{"completion":{{{said}"values":[ {} ],"total":{count}.0}},"z":1.0}}"#,
            values.join(" , ")
        );
        server.on("completion/complete", move |seen| Answer::result(seen, &result));
        let reply = gateway.send(complete(&prompt("s_p"))).await;
        let completion = &reply.result()["completion"];
        let kept: Vec<String> =
            values.iter().take(100).map(|v| json::value(v).as_str().unwrap().to_owned()).collect();
        assert_eq!(completion["values"], json!(kept), "{count} {more:?}");
        let expected = if count > 100 { Some(true) } else { more.map(|more| more == "true") };
        assert_eq!(completion["hasMore"].as_bool(), expected, "{count} {more:?}");
        assert_eq!(completion["total"].as_f64(), Some(f64::from(count)));
        assert_eq!(json::raw(&reply.result_text(), &["z"]).as_deref(), Some("1.0"));
    }
    gateway.stop().await;
}

/// Covers: M-30, M-84: who offers none has none; a mirror says so as its server would.
#[tokio::test(flavor = "multi_thread")]
async fn m_84_none_where_none_is_offered() {
    let server = Server::modern("s", offer(&["x://u/{id}"], false)).await;
    let both = "[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/raw\"\nprefix = false";
    let gateway = Setup::new().toml(both).http("s", &server.url(), "").start().await;
    for reference in [prompt("s_p"), template("x://u/{id}")] {
        let result = gateway.send(complete(&reference)).await.result();
        assert_eq!(result["completion"], json!({"values": []}), "{result}");
    }
    let raw = gateway.send(complete(&prompt("p")).request().at("/raw")).await;
    assert_eq!(raw.verdict(), (404, Some(METHOD)));
    assert!(server.requests("completion/complete").is_empty());
    gateway.stop().await;
}
