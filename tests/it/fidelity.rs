//! Bytes, not models: arguments, results and foreign `_meta` arrive as they left, both ways, over every kind of link:
//! M-09, M-80, F-059, design §2.

use std::sync::{Arc, Mutex};

use crate::support::child::Child;
use crate::support::client::Reply;
use crate::support::exchange::{Answer, Seen};
use crate::support::gateway::{Gateway, Setup};
use crate::support::json;
use crate::support::request::{Request, call, mcp};
use crate::support::server::{Offer, Server};
use crate::support::table::RESULT;

/// JSON that a parser into values and back would change.
fn samples() -> Vec<(&'static str, String)> {
    let fixed = [
        ("key order", r#"{"z":1,"a":2,"m":{"y":1,"b":2},"A":3}"#),
        ("number spellings", r#"[1.0,1e2,1E+2,-0,-0.0,0.10,1.50e-7,100000000000000000000]"#),
        (
            "numbers beyond a double",
            r#"[1e400,-1e-400,1152921504606846977,9007199254740993,18446744073709551616,0.1234567890123456789012345]"#,
        ),
        ("lone surrogates", r#"{"a":"\ud800","\udfff":"x\ud83d","pair":"\ud83d\ude00"}"#),
        ("escapes", r#"["\u0041\/\b\f\n\r\t\"\\","\u0000","\u2028"," "]"#),
        ("unknown keys twice", r#"{"x":1,"x":{"y":1,"y":2},"":0,"":1,"\u0078":3}"#),
        (
            "keys like ours, deeper",
            r#"{"name":"n","name":"m","arguments":{},"_meta":{},"_meta":1,"id":null,"jsonrpc":"1"}"#,
        ),
        ("white space", r#"{ "a" : [ 1 ,	2 ] , "b":{ } }"#),
        ("text", r#"["日本語 ä é é 👩‍👩‍👧 ﷽","data: x","event: y",":","\\n"]"#),
        ("empty", r#"{"a":{},"b":[],"c":"","d":null,"e":false}"#),
    ];
    let mut all: Vec<(&str, String)> = fixed.iter().map(|(what, text)| (*what, (*text).to_owned())).collect();
    all.push(("100 levels", format!("{}1.0{}", "[{\"k\":".repeat(50), "}]".repeat(50))));
    all.push((
        "many members",
        format!("{{{}}}", (0..3000).rev().map(|n| format!("\"k{n}\":{n}.0")).collect::<Vec<_>>().join(",")),
    ));
    all
}

/// A result around a sample, `_meta` at every level, all kinds of content and one nobody knows (F-059).
fn result(sample: &str) -> String {
    format!(
        r#"{{"unknown":{sample},"content":[
{{"_meta":{{"m":{sample}}},"type":"text","text":"t","annotations":{{"priority":0.0,"lastModified":"2026-01-01T00:00:00Z","audience":["user"]}}}},
{{"type":"image","mimeType":"image/png","data":"AA==","_meta":{{"com.example/x":1.0}}}},{{"type":"audio","data":"AA==","mimeType":"audio/wav"}},
{{"type":"resource_link","uri":"ui://x/app.html","name":"l","size":1e2,"_meta":{{"ui":{{"resourceUri":"ui://x"}}}}}},
{{"type":"resource","resource":{{"uri":"x://é","blob":"AA==","mimeType":"a/b","_meta":{{"z":1,"a":2}}}}}},
{{"type":"hologram","rays":[{sample}]}}],"structuredContent":{sample},"isError":false,"_meta":{{"com.example/r":{sample},"plain":null}}}}"#
    )
    .replace('\n', "")
}

/// What of a result must have arrived: every member as it left, in the order they left in.
fn assert_arrived(what: &str, sent: &str, reply: &Reply) {
    assert_eq!(reply.verdict(), (200, Some(RESULT)), "{what}: {reply:?}");
    let got = reply.result_text();
    let keys = json::keys(sent);
    for key in keys.iter().filter(|key| *key != "_meta") {
        assert!(json::raw(sent, &[key]) == json::raw(&got, &[key]), "{what}: {key} changed");
    }
    let kept: Vec<String> = json::keys(&got).into_iter().filter(|key| keys.contains(key)).collect();
    assert_eq!(kept, keys, "{what}: order");
    let meta = json::raw(sent, &["_meta"]).unwrap();
    for key in json::keys(&meta) {
        assert!(
            json::raw(&meta, &[&key]) == json::raw(&got, &["_meta", &key]),
            "{what}: _meta.{key} changed"
        );
    }
    let name = json::raw(&got, &["_meta", "io.modelcontextprotocol/serverInfo", "name"]);
    assert_eq!(name.as_deref(), Some("\"gatehouse\""), "{what}");
    assert_eq!(json::raw(&got, &["resultType"]).as_deref(), Some("\"complete\""), "{what}");
}

/// A server over HTTP whose results are set from outside.
struct Scripted {
    server: Server,
    result: Arc<Mutex<String>>,
}

impl Scripted {
    fn new(server: Server, events: bool) -> Self {
        let result = Arc::new(Mutex::new("{}".to_owned()));
        for method in ["tools/call", "prompts/get", "resources/read"] {
            let result = Arc::clone(&result);
            server.on(method, move |seen: &Seen| {
                let text = result.lock().unwrap().clone();
                if events { Answer::events(&[seen.result(&text)]) } else { Answer::result(seen, &text) }
            });
        }
        Self { server, result }
    }

    fn answers(&self, text: &str) {
        text.clone_into(&mut self.result.lock().unwrap());
    }
}

async fn over_http(gateway: &Gateway, link: &Scripted, prefix: &str, accept: &str) {
    for (what, sample) in samples() {
        let what = format!("{prefix} {what}");
        let sent = result(&sample);
        link.answers(&sent);
        let arguments = format!("{{\"z\":{sample},\"a\":{sample}}}");
        let request = call(&format!("{prefix}_t"), &arguments).meta("com.example/m", &sample).request();
        let reply = gateway.send(request.set("Accept", accept)).await;
        assert_arrived(&what, &sent, &reply);
        let seen = link.server.last_call();
        assert!(seen.raw(&["params", "arguments"]) == Some(arguments), "{what}: arguments changed");
        assert!(seen.raw(&["params", "_meta", "com.example/m"]) == Some(sample), "{what}: _meta changed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m_09_everything_arrives_as_it_left_over_http() {
    let offer = || Offer::tools(&["t"]);
    let json = Scripted::new(Server::modern("m", offer()).await, false);
    let events = Scripted::new(Server::modern("e", offer()).await, true);
    let legacy = Scripted::new(Server::legacy("l", offer()).await, true);
    let gateway = Setup::new()
        .http("m", &json.server.url(), "")
        .http("e", &events.server.url(), "")
        .http("l", &legacy.server.url(), "")
        .start()
        .await;
    for accept in ["application/json", "text/event-stream", "application/json, text/event-stream"] {
        over_http(&gateway, &json, "m", accept).await;
        over_http(&gateway, &events, "e", accept).await;
        over_http(&gateway, &legacy, "l", accept).await;
    }
    gateway.stop().await;
}

/// A child that answers what its folder holds.
fn child() -> Child {
    Child::python(
        r#"
def answer(message, line):
    with open(os.path.join(HERE, "answer"), "rb") as file:
        send(b'{"jsonrpc":"2.0","id":%d,"result":' % message["id"] + file.read() + b'}')
serve({"server/discover": DISCOVER, "initialize": INITIALIZE, "tools/list": tools("t"), "tools/call": answer})
"#,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn m_09_everything_arrives_as_it_left_over_stdio() {
    for protocol in ["modern", "legacy"] {
        let child = child();
        let protocol = format!("protocol = \"{protocol}\"");
        let gateway = Setup::new().stdio("p", &child.argv(), &protocol).start().await;
        for (what, sample) in samples() {
            let sent = result(&sample);
            child.put("answer", &sent);
            let arguments = format!("{{\"z\":{sample},\"a\":{sample}}}");
            let reply = gateway.send(call("p_t", &arguments).meta("com.example/m", &sample)).await;
            assert_arrived(what, &sent, &reply);
            let line = child.requests("tools/call").pop().unwrap();
            assert!(
                json::raw(&line, &["params", "arguments"]) == Some(arguments),
                "{what}: arguments changed"
            );
            assert!(
                json::raw(&line, &["params", "_meta", "com.example/m"]) == Some(sample),
                "{what}: _meta changed"
            );
        }
        gateway.stop().await;
    }
}

/// Covers: M-09 for the other methods that carry foreign content, F-058.
#[tokio::test(flavor = "multi_thread")]
async fn m_09_prompts_and_resources_arrive_as_they_left() {
    let mut offer = Offer::tools(&["t"]);
    offer.prompts = vec![r#"{"name":"p"}"#.to_owned()];
    offer.templates = vec![r#"{"uriTemplate":"x://users/{id}","name":"u"}"#.to_owned()];
    let link = Scripted::new(Server::modern("m", offer).await, false);
    let gateway = Setup::new().http("m", &link.server.url(), "").start().await;
    for (what, sample) in samples() {
        let sent = result(&sample);
        link.answers(&sent);
        let arguments = format!("{{\"who\":{sample}}}");
        let reply =
            gateway.send(mcp("prompts/get", format!("{{\"arguments\":{arguments},\"name\":\"m_p\"}}"))).await;
        assert_arrived(what, &sent, &reply);
        let seen = link.server.requests("prompts/get").pop().unwrap();
        assert!(seen.raw(&["params", "arguments"]) == Some(arguments), "{what}");
        let read = format!("{{\"extra\":{sample},\"uri\":\"x:\\/\\/users/a%2Fb é?\"}}");
        let reply = gateway.send(mcp("resources/read", &read)).await;
        assert_arrived(what, &sent, &reply);
        let seen = link.server.requests("resources/read").pop().unwrap();
        assert_eq!(seen.name().as_deref(), Some("x://users/a%2Fb é?"));
        assert!(seen.raw(&["params", "extra"]) == Some(sample), "{what}");
    }
    gateway.stop().await;
}

/// Covers: M-22, M-23: what a server says of itself is replaced, where it stood; nothing else of its `_meta` moves.
#[tokio::test(flavor = "multi_thread")]
async fn m_22_results_name_the_gateway() {
    let link = Scripted::new(Server::modern("m", Offer::tools(&["t"])).await, false);
    let gateway = Setup::new()
        .gateway("name = \"edge\"\ntitle = \"The \\\"edge\\\"\"")
        .http("m", &link.server.url(), "")
        .start()
        .await;
    let own = "\"io.modelcontextprotocol/serverInfo\"";
    let ours =
        format!(r#"{{"name":"edge","title":"The \"edge\"","version":"{}"}}"#, env!("CARGO_PKG_VERSION"));
    let meta = |info: &str| format!("{{\"a\":1.0,{own}:{info},\"b\":{{\"x\":1,\"x\":2}}}}");
    for (sent, expected) in [
        (meta(r#"{"name":"theirs","version":"7"}"#), meta(&ours)),
        (meta("null"), meta(&ours)),
        ("{}".to_owned(), format!("{{{own}:{ours}}}")),
        ("null".to_owned(), format!("{{{own}:{ours}}}")),
    ] {
        link.answers(&format!("{{\"content\":[],\"resultType\":\"complete\",\"_meta\":{sent}}}"));
        let reply = gateway.send(call("m_t", "{}")).await;
        let expected = format!("{{\"content\":[],\"resultType\":\"complete\",\"_meta\":{expected}}}");
        assert_eq!(reply.result_text(), expected);
    }
    gateway.stop().await;
}

/// Covers: issue "10 MB base64": both ways over HTTP and stdio, with bounds that allow it.
#[tokio::test(flavor = "multi_thread")]
async fn ten_megabytes_each_way() {
    let blob = "QUJD".repeat(2_500_000);
    let link = Scripted::new(Server::modern("m", Offer::tools(&["t"])).await, false);
    let child = child();
    let large = "max_result = \"32MiB\"\ntimeout = \"60s\"";
    let gateway = Setup::new()
        .gateway("max_body = \"32MiB\"")
        .http("m", &link.server.url(), large)
        .stdio("p", &child.argv(), large)
        .start()
        .await;
    let sent = format!(
        r#"{{"content":[{{"type":"image","mimeType":"image/png","data":"{blob}"}}],"_meta":{{"k":1.0}}}}"#
    );
    link.answers(&sent);
    child.put("answer", &sent);
    let arguments = format!("{{\"blob\":\"{blob}\",\"n\":1.0}}");
    for name in ["m_t", "p_t"] {
        let request: Request = call(name, &arguments).into();
        for accept in ["application/json", "text/event-stream"] {
            let reply = gateway.send(request.clone().set("Accept", accept)).await;
            assert_arrived(name, &sent, &reply);
        }
    }
    assert!(link.server.last_call().raw(&["params", "arguments"]).as_ref() == Some(&arguments));
    let line = child.requests("tools/call").pop().unwrap();
    assert!(json::raw(&line, &["params", "arguments"]).as_ref() == Some(&arguments));
    gateway.metric_becomes("gatehouse_buffered_bytes", &[], 0.0).await;
    gateway.stop().await;
}
