//! Results that are too long: refused with their size and what to do, or cut with a mark (`max_result`, `truncate`).

use serde_json::{Value, json};

use crate::support::child::Child;
use crate::support::client::Reply;
use crate::support::exchange::Answer;
use crate::support::gateway::{Gateway, Setup};
use crate::support::legacy::Session;
use crate::support::request::{Mcp, call, mcp};
use crate::support::server::{Offer, Server};

const SHORT: &str = "max_result = \"4KiB\"";
const CUT: &str = "max_result = \"4KiB\"\ntruncate = true";

fn offer() -> Offer {
    let promising = r#"{"name":"promises","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}"#;
    let mut offer = Offer::defined(&[r#"{"name":"t","inputSchema":{"type":"object"}}"#, promising]);
    offer.resources = vec![r#"{"uri":"s://r","name":"r"}"#.to_owned()];
    offer
}

/// As many bytes of text as the call asks for, with structured content if it asks for that.
fn script(server: &Server) {
    server.on("tools/call", |seen| {
        let asked: Value = serde_json::from_str(&seen.raw(&["params", "arguments"]).unwrap()).unwrap();
        let bytes = usize::try_from(asked["bytes"].as_u64().unwrap()).unwrap();
        let mut result =
            json!({"content": [{"type": "text", "text": "é\"".repeat(bytes / 3)}], "isError": true});
        if asked["structured"] == true {
            result["structuredContent"] = json!({"rows": vec![1; bytes]});
        }
        let result = result.to_string();
        if asked["stream"] == true {
            Answer::events(&[seen.result(&result)])
        } else {
            Answer::result(seen, &result)
        }
    });
    server.on("resources/read", |seen| {
        let text = "x".repeat(8000);
        Answer::result(seen, &json!({"contents": [{"uri": "s://r", "text": text}]}).to_string())
    });
}

async fn gateway(more: &str) -> (Server, Server, Gateway) {
    let (modern, legacy) = (Server::modern("m", offer()).await, Server::legacy("l", offer()).await);
    [&modern, &legacy].into_iter().for_each(script);
    let gateway = Setup::new().http("m", &modern.url(), more).http("l", &legacy.url(), more).start().await;
    (modern, legacy, gateway)
}

fn long(name: &str, more: &str) -> Mcp {
    call(name, format!("{{\"bytes\":8000{more}}}"))
}

fn too_large(reply: &Reply, server: &str) {
    assert_eq!((reply.verdict(), &reply.result()["isError"]), ((200, Some(0)), &json!(true)), "{reply:?}");
    let text = reply.result()["content"][0]["text"].as_str().unwrap().to_owned();
    for part in [&format!("\"{server}\""), "too large", "4 KiB (4096 bytes)", "narrow the query"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// The promise: an error result that says the size and how to narrow it, from whatever server.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_too_long_says_its_bound_and_what_to_do() {
    let (_modern, _legacy, gateway) = gateway(SHORT).await;
    for name in ["m", "l"] {
        too_large(&gateway.send(long(&format!("{name}_t"), "")).await, name);
        too_large(&gateway.send(long(&format!("{name}_t"), ",\"stream\":true")).await, name);
        let outcome = [("server", name), ("outcome", "too_large")];
        assert_eq!(gateway.metric("gatehouse_tool_calls_total", &outcome).await, 2.0);
    }
    gateway.stop().await;
}

/// The same from a child process, whose line cannot be read to its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_too_long_says_it_too() {
    let child = Child::python(
        r#"
def called(m, line):
    result(m, json.dumps({"content": [{"type": "text", "text": "x" * 8000}]}))
serve({"server/discover": DISCOVER, "tools/list": tools("t"), "tools/call": called})"#,
    );
    let gateway = Setup::new().stdio("c", &child.argv(), SHORT).start().await;
    too_large(&gateway.send(call("c_t", "{}")).await, "c");
    gateway.stop().await;
}

/// The promise: text is cut with a visible mark and the result stays valid, for both eras on both sides.
#[tokio::test(flavor = "multi_thread")]
async fn text_is_cut_with_a_mark_in_both_eras() {
    let (_modern, _legacy, gateway) = gateway(CUT).await;
    let session = Session::open(&gateway, "2025-06-18", "{}").await;
    for (name, stream) in [("m_t", false), ("m_t", true), ("l_t", false), ("l_t", true)] {
        let arguments = format!("{{\"bytes\":8000,\"stream\":{stream}}}");
        let replies = [
            gateway.send(call(name, &arguments)).await,
            gateway.send(session.call("1", name, &arguments)).await,
        ];
        for reply in replies {
            let text = reply.result_text();
            assert!(text.len() <= 4096 + 400, "{} bytes", text.len());
            let result = reply.result();
            assert_eq!(result["isError"], true, "what its server said of it stays");
            let text = result["content"][0]["text"].as_str().unwrap();
            let (kept, mark) =
                text.split_once("\n[Cut here by the gateway").unwrap_or_else(|| panic!("{text}"));
            assert!(kept.len() > 1500 && "é\"".repeat(3000).starts_with(kept), "{kept}");
            assert!(mark.contains("4096 may pass"), "{mark}");
        }
    }
    assert_eq!(gateway.metric("gatehouse_limited_total", &[("limit", "truncate")]).await, 8.0);
    // What fits is not touched.
    let small = gateway.send(call("m_t", "{\"bytes\":300}")).await;
    assert_eq!(small.result()["content"][0]["text"], "é\"".repeat(100));
    gateway.stop().await;
}

/// Structured content is never cut: it goes, or where the tool promises it the result is too large. Neither is
/// anything but a call cut, nor what is longer than a bound of its own.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_cut_is_too_large() {
    let (_modern, _legacy, gateway) = gateway(CUT).await;
    let cut = gateway.send(long("m_t", ",\"structured\":true")).await.result();
    assert!(
        cut.get("structuredContent").is_none() && cut["content"][0]["text"].to_string().contains("[Cut here")
    );
    too_large(&gateway.send(long("m_promises", ",\"structured\":true")).await, "m");
    let read = gateway.send(mcp("resources/read", r#"{"uri":"s://r"}"#)).await;
    assert_eq!(read.code(), Some(-32603), "{read:?}");
    let endless = gateway.send(call("m_t", "{\"bytes\":80000}")).await.result();
    let text = endless["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("64 KiB (65536 bytes)") && !text.contains("[Cut here"), "{text}");
    gateway.stop().await;
}
