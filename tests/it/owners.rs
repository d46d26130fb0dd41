//! Whose a URI is, and that it arrives as it was written: design §4, M-42, M-72, F-058, F-096.

use serde_json::{Value, json};

use crate::support::exchange::Answer;
use crate::support::gateway::{Gateway, Setup};
use crate::support::json as text;
use crate::support::request::{call, mcp};
use crate::support::server::{Offer, Server};

fn with(resources: &[&str], templates: &[&str]) -> Offer {
    let named = |key: &str, uris: &[&str]| {
        uris.iter().map(|uri| format!("{{\"{key}\":{},\"name\":\"n\"}}", text::quoted(uri))).collect()
    };
    Offer {
        resources: named("uri", resources),
        templates: named("uriTemplate", templates),
        ..Offer::default()
    }
    .fresh()
}

/// Reads a URI: who answered, and for which URI.
async fn read(gateway: &Gateway, uri: &str) -> Result<String, i64> {
    let params = format!("{{\"uri\":{}}}", text::quoted(uri));
    let reply = gateway.send(mcp("resources/read", params)).await;
    assert_eq!(reply.status(), 200, "{uri}: {reply:?}");
    if let Some(code) = reply.code() {
        return Err(code);
    }
    let contents = reply.result()["contents"].clone();
    assert_eq!(contents[0]["uri"], uri, "{reply:?}");
    Ok(contents[0]["text"].as_str().unwrap().to_owned())
}

/// Covers: F-058, M-72: every expansion of a template reaches its owner exactly as it was written.
#[tokio::test(flavor = "multi_thread")]
async fn f_058_expanded_uris_reach_their_owner_as_they_are() {
    let one =
        Server::modern("one", with(&["x://r"], &["x://users/{id}", "x://f{?a,b}", "x://p/{path*}"])).await;
    let two = Server::legacy(
        "two",
        with(&["x://r2"], &["x://users/{id}/notes{/n}", "x://other/{+rest}", "y://h/{id}"]),
    )
    .await;
    let gateway = Setup::new().http("one", &one.url(), "").http("two", &two.url(), "").start().await;
    let rows = [
        ("one", "x://r"),
        ("one", "x://users/7"),
        ("one", "x://users/a%2Fb"),
        ("one", "x://users/a b"),
        ("one", "x://users/ä日本🙂"),
        ("one", "x://users/a?b#c"),
        ("one", "x://users/"),
        ("one", "x://f?a=1&b=%20"),
        ("one", "x://p/a/b/c.txt"),
        ("one", "x://p/../..//%00"),
        ("two", "x://r2"),
        ("two", "x://other/a/b?c={d}"),
        ("two", "y://h/\u{e9}\u{301}\"\\"),
    ];
    for (server, uri) in rows {
        assert_eq!(read(&gateway, uri).await, Ok(format!("{server}:{uri}")), "{uri}");
    }
    for (server, wanted) in [(&one, "one"), (&two, "two")] {
        let asked: Vec<String> =
            server.requests("resources/read").iter().map(|seen| seen.name().unwrap()).collect();
        let own: Vec<&str> = rows.iter().filter(|(name, _)| *name == wanted).map(|(_, uri)| *uri).collect();
        assert_eq!(asked, own, "{wanted}");
    }
    for unknown in ["x://no", "z://users/7", "X://r", "x://r/", "x:r", "", "users/7", "x://user"] {
        assert_eq!(read(&gateway, unknown).await, Err(-32602), "{unknown}");
    }
    let reply = gateway.send(mcp("resources/read", r#"{"uri":"x://no?\u00e4"}"#)).await;
    assert_eq!(reply.message()["error"]["data"]["uri"], "x://no?ä");
}

/// Covers: design §4: the operator's word, then what is listed, in file order; nobody takes a URI by a template alone.
#[tokio::test(flavor = "multi_thread")]
async fn design_4_who_owns_a_uri() {
    let greedy =
        Server::modern("greedy", with(&["x://both"], &["{+everything}", "x://{host}/a", "x:{rest}"])).await;
    let owner =
        Server::modern("owner", with(&["x://both", "x://listed/1", "x://a/a"], &["x://listed/{id}"])).await;
    let named = Server::modern("named", with(&[], &[])).await;
    named.on("server/discover", |seen| {
        Answer::result(
            seen,
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"resources":{}}}"#,
        )
    });
    let gateway = Setup::new()
        .http("greedy", &greedy.url(), "")
        .http("owner", &owner.url(), "resources.deny = [\"x://listed/secret*\"]")
        .http("named", &named.url(), "resources.uris = [\"x://listed/9*\", \"n://*\"]")
        .start()
        .await;
    for (uri, server) in [
        ("x://both", "greedy"),
        ("x://listed/1", "owner"),
        ("x://listed/2", "owner"),
        ("x://a/a", "owner"),
        ("x://listed/9", "named"),
        ("n://anything", "named"),
    ] {
        assert_eq!(read(&gateway, uri).await, Ok(format!("{server}:{uri}")), "{uri}");
    }
    for uri in ["x://elsewhere", "x:y", "anything", "x://listed/secret", "x://listed/secret/2"] {
        assert_eq!(read(&gateway, uri).await, Err(-32602), "{uri}");
    }
    let asked: Vec<String> =
        greedy.requests("resources/read").iter().map(|seen| seen.name().unwrap()).collect();
    assert_eq!(asked, ["x://both"]);
}

/// Covers: F-058, F-059, M-09: contents come back as they were: types, blobs, `_meta`, what nobody knows yet.
#[tokio::test(flavor = "multi_thread")]
async fn f_058_contents_are_not_remodelled() {
    let server = Server::modern("s", with(&["x://r"], &[])).await;
    let contents = format!(
        r#"[{{"uri":"x://r#part","mimeType":"image/png","blob":"{}","_meta":{{"a":1.0,"b":9007199254740993}}}},{{"uri":"x://r","mimeType":"application/json","text":"{{}}","unknown":[null,1e2]}},{{"later":true}}]"#,
        "QUJD".repeat(50_000)
    );
    let result = format!(
        r#"{{"resultType":"complete","ttlMs":0,"cacheScope":"public","contents":{contents},"extra":{{"z":1,"a":2}}}}"#
    );
    server.on("resources/read", move |seen| Answer::result(seen, &result));
    let gateway = Setup::new().http("s", &server.url(), "").start().await;
    let reply = gateway.send(mcp("resources/read", r#"{"uri":"x://r"}"#)).await;
    let got = reply.result_text();
    assert_eq!(text::raw(&got, &["contents"]).unwrap(), contents);
    assert_eq!(text::raw(&got, &["extra"]).unwrap(), r#"{"z":1,"a":2}"#);
}

/// Covers: F-096: pages of MCP Apps: their URIs stay, their calls by bare name work where there is no prefix.
#[tokio::test(flavor = "multi_thread")]
async fn f_096_apps_find_their_resources_and_tools() {
    let app =
        r#"{"name":"show","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://x/app.html"}}}"#;
    let mut offer = with(&["ui://x/app.html"], &[]);
    offer.tools = vec![app.to_owned(), r#"{"name":"data","inputSchema":{"type":"object"}}"#.to_owned()];
    let server = Server::modern("x", offer).await;
    server.on("tools/call", |seen| match seen.name().as_deref() {
        Some("show") => Answer::result(
            seen,
            r#"{"resultType":"complete","content":[],"_meta":{"ui":{"resourceUri":"ui://x/app.html"}}}"#,
        ),
        _ => Answer::result(seen, r#"{"resultType":"complete","content":[{"type":"text","text":"data"}]}"#),
    });
    let other = Server::modern("y", Offer::tools(&["data"])).await;
    let gateway = Setup::new()
        .http("x", &server.url(), "")
        .http("y", &other.url(), "")
        .toml("[[endpoint]]\npath = \"/mcp\"\n[[endpoint]]\npath = \"/mcp/x\"\nservers = [\"x\"]\nprefix = false")
        .start()
        .await;
    for (path, name, bare) in [("/mcp", "x_show", Err(-32602)), ("/mcp/x", "show", Ok(json!("data")))] {
        let send =
            async |request: crate::support::request::Mcp| gateway.send(request.request().at(path)).await;
        let list = send(mcp("tools/list", "{}")).await.result();
        let shown = list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
        let uri = shown["_meta"]["ui"]["resourceUri"].as_str().unwrap();
        assert_eq!(uri, "ui://x/app.html", "{path}");
        let page = send(mcp("resources/read", format!("{{\"uri\":\"{uri}\"}}"))).await.result();
        assert_eq!(page["contents"][0]["text"], "x:ui://x/app.html", "{path}");
        let result = send(call(name, "{}")).await.result();
        assert_eq!(result["_meta"]["ui"]["resourceUri"], "ui://x/app.html", "{path}");
        let reply = send(call("data", "{}")).await;
        let got: Result<Value, i64> = match reply.code() {
            Some(code) => Err(code),
            None => Ok(reply.result()["content"][0]["text"].clone()),
        };
        assert_eq!(got, bare, "{path}: the bare name, never a random pick");
    }
    assert!(other.requests("tools/call").is_empty());
}
