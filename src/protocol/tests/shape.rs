//! Items and results as each revision has them.

use crate::protocol::method::{Kind, Method};
use crate::protocol::shape::{item, result};
use crate::protocol::version::Revision::{self, V20250326, V20250618, V20251125, V20260728};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

fn shaped(method: Method, text: &str, revision: Revision) -> String {
    let parts = result(method, &Bytes::copy_from_slice(text.as_bytes()), revision).unwrap();
    String::from_utf8(parts.to_bytes().to_vec()).unwrap()
}

/// Covers: G-81, M-14, M-23: what only modern results have goes, all else stays byte for byte.
#[test]
fn g_81_modern_members_go() {
    for (given, expected) in [
        (r#"{"resultType":"complete"}"#, "{}"),
        (r#"{ "resultType":"complete" , "x": 1.0 }"#, r#"{ "x": 1.0 }"#),
        (r#"{"x":1e2,"ttlMs":0,"cacheScope":"private"}"#, r#"{"x":1e2}"#),
        (r#"{"ttlMs":0,"x":[1, 2],"result\u0054ype":"complete","y":{}}"#, r#"{"x":[1, 2],"y":{}}"#),
        (r#"{"x":1,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n"}}}"#, r#"{"x":1}"#),
        (
            r#"{"_meta":{"a/b":1,"io.modelcontextprotocol/serverInfo":{},"c":2}}"#,
            r#"{"_meta":{"a/b":1,"c":2}}"#,
        ),
        (r#"{"_meta":{},"x":1}"#, r#"{"x":1}"#),
        (r#"{"_meta":7,"x":1}"#, r#"{"_meta":7,"x":1}"#),
        (r#"{"contents":[{"resultType":"theirs"}]}"#, r#"{"contents":[{"resultType":"theirs"}]}"#),
    ] {
        for revision in Revision::LEGACY {
            assert_eq!(shaped(Method::ResourcesRead, given, revision), expected, "{given}");
        }
    }
    for bad in ["[]", "7", r#"{"ttlMs":1,"ttlMs":2}"#, r#"{"_meta":{},"_meta":{}}"#] {
        assert!(
            result(Method::Complete, &Bytes::copy_from_slice(bad.as_bytes()), V20251125).is_err(),
            "{bad}"
        );
    }
}

/// Covers: M-83, M-85: a tool's result always has content; structured content where the revision has it and it is an object.
#[test]
fn m_83_structured_content() {
    let text = |text: &str| format!(r#"{{"type":"text","text":{}}}"#, json!(text));
    for (given, old, new) in [
        (r#"{"resultType":"complete"}"#, r#"{"content":[]}"#.to_owned(), r#"{"content":[]}"#.to_owned()),
        (
            r#"{"isError":true}"#,
            r#"{"content":[],"isError":true}"#.to_owned(),
            r#"{"content":[],"isError":true}"#.to_owned(),
        ),
        (
            r#"{"structuredContent":{"n":1.0}}"#,
            format!(r#"{{"content":[{}]}}"#, text(r#"{"n":1.0}"#)),
            r#"{"content":[],"structuredContent":{"n":1.0}}"#.to_owned(),
        ),
        (
            r#"{"content":[],"structuredContent":"x","y":1}"#,
            format!(r#"{{"content":[{}],"y":1}}"#, text("\"x\"")),
            format!(r#"{{"content":[{}],"y":1}}"#, text("\"x\"")),
        ),
        (
            r#"{"structuredContent":[1.0],"content":[{"type":"text","text":"as text"}]}"#,
            r#"{"content":[{"type":"text","text":"as text"}]}"#.to_owned(),
            r#"{"content":[{"type":"text","text":"as text"}]}"#.to_owned(),
        ),
    ] {
        assert_eq!(shaped(Method::ToolsCall, given, V20250326), old, "{given}");
        for revision in [V20250618, V20251125] {
            assert_eq!(shaped(Method::ToolsCall, given, revision), new, "{given}");
        }
    }
}

/// Covers: M-85: content that 2025-03-26 does not have becomes text, also in prompts.
#[test]
fn m_85_content_of_2025_03_26() {
    let link = r#"{"type":"resource_link","uri":"x://é","name":"N","title":"T"}"#;
    let prompt = format!(
        r#"{{"messages":[{{"role":"user","content":{link}}},{{"role":"user","content":{{"type":"text","text":"t"}}}}]}}"#
    );
    let old: Value = serde_json::from_str(&shaped(Method::PromptsGet, &prompt, V20250326)).unwrap();
    assert_eq!(old["messages"][0]["content"], json!({"type": "text", "text": "T: x://é"}));
    assert_eq!(old["messages"][1]["content"], json!({"type": "text", "text": "t"}));
    assert_eq!(shaped(Method::PromptsGet, &prompt, V20250618), prompt);
    let odd = r#"{"content":[{"type":"hologram","data":"x"},{"type":"audio","data":""},7,{"no":"type"}]}"#;
    let old: Value = serde_json::from_str(&shaped(Method::ToolsCall, odd, V20250326)).unwrap();
    assert!(old["content"][0]["text"].as_str().unwrap().contains("hologram"), "{old}");
    assert_eq!((&old["content"][1]["type"], &old["content"][2]), (&json!("audio"), &json!(7)));
    assert_eq!(shaped(Method::ToolsCall, odd, V20251125), odd);
}

/// Covers: M-83, M-85: items of lists.
#[test]
fn m_85_items() {
    let tool = Bytes::from_static(
        br#"{"title":"T","name":"t","outputSchema":{"type":"object"},"icons":[],"inputSchema":{"title":"stays"},"execution":{}}"#,
    );
    let of = |revision| String::from_utf8(item(Kind::Tools, &tool, revision).to_vec()).unwrap();
    assert_eq!(of(V20250326), r#"{"name":"t","inputSchema":{"title":"stays"}}"#);
    assert_eq!(
        of(V20250618),
        r#"{"title":"T","name":"t","outputSchema":{"type":"object"},"inputSchema":{"title":"stays"}}"#
    );
    assert_eq!(of(V20251125).as_bytes(), &tool[..]);
    assert_eq!(of(V20260728).as_bytes(), &tool[..]);
    for schema in [r#"{"type":"array"}"#, "{}", "true", r#"{"type":["object","null"]}"#] {
        let odd = Bytes::from(format!(r#"{{"name":"t","outputSchema":{schema}}}"#));
        assert_eq!(item(Kind::Tools, &odd, V20251125), r#"{"name":"t"}"#, "{schema}");
        assert_eq!(item(Kind::Tools, &odd, V20260728), odd);
        // Only tools have one.
        assert_eq!(item(Kind::Prompts, &odd, V20251125), odd);
    }
}

proptest! {
    /// Whatever members a result has, in whatever order: those of the modern revision go, the rest is as it was.
    #[test]
    fn g_81_against_values(order in Just(vec!["resultType", "ttlMs", "cacheScope", "a", "b", "_meta", "requestState"]).prop_shuffle(), count in 0_usize..7) {
        let members: Vec<String> = order[..count].iter().map(|key| match *key {
            "_meta" => r#""_meta":{"x":1,"io.modelcontextprotocol/serverInfo":{}}"#.to_owned(),
            key => format!("\"{key}\":[\"{key}\"]"),
        }).collect();
        let text = format!("{{{}}}", members.join(" , "));
        let shaped: Value = serde_json::from_str(&shaped(Method::Complete, &text, V20251125)).unwrap();
        let mut expected: Value = serde_json::from_str(&text).unwrap();
        let object = expected.as_object_mut().unwrap();
        for key in ["resultType", "ttlMs", "cacheScope", "requestState"] {
            object.remove(key);
        }
        if let Some(meta) = object.get_mut("_meta") {
            meta.as_object_mut().unwrap().remove("io.modelcontextprotocol/serverInfo");
        }
        prop_assert_eq!(shaped, expected);
    }
}
