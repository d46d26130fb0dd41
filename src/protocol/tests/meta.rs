//! `_meta`: what is ours, what travels on.

use crate::protocol::meta::{Meta, is_hop_key, level_rank};
use crate::protocol::object::{ObjectError, Span};

fn parse(text: &str) -> Result<Meta, ObjectError> {
    Meta::parse(text, Span::new(0, text.len()))
}

#[test]
fn m23_hop_keys_stay_and_foreign_ones_travel_as_they_are() {
    let text = r#"{ "io.modelcontextprotocol/protocolVersion" : "2026-07-28","com.example/a" : {"x":1.0},
        "io.modelcontextprotocol/clientCapabilities":{},"progressToken":3,"plain":[ 1 ],"traceparent":"t",
        "tracestate":"s","baggage":"b","io.modelcontextprotocol\/unknown":1,"pl\u0061in":2,
        "io.modelcontextprotocol/logLevel":"info","io.modelcontextprotocol/clientInfo":{}}"#;
    let meta = parse(text).unwrap();
    let foreign: Vec<_> = meta.foreign(text).collect();
    assert_eq!(foreign, [r#""com.example/a" : {"x":1.0}"#, r#""plain":[ 1 ]"#, r#""pl\u0061in":2"#]);
    assert_eq!(meta.version(text).as_deref(), Some("2026-07-28"));
    let of = |span: Option<Span>| span.map(|span| span.of(text));
    assert_eq!(of(meta.progress_token), Some("3"));
    assert_eq!(of(meta.client_capabilities), Some("{}"));
    assert_eq!(of(meta.client_info), Some("{}"));
    assert_eq!(of(meta.log_level), Some("\"info\""));
    assert_eq!((of(meta.traceparent), of(meta.tracestate)), (Some("\"t\""), Some("\"s\"")));
}

#[test]
fn design2_each_of_our_keys_once() {
    for key in [
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/clientCapabilities",
        "io.modelcontextprotocol/clientInfo",
        "io.modelcontextprotocol/logLevel",
        "progressToken",
        "traceparent",
        "tracestate",
    ] {
        assert!(is_hop_key(key));
        let text = format!("{{\"{key}\":1,\"other\":1,\"{key}\":1}}");
        assert_eq!(parse(&text).err(), Some(ObjectError::Duplicate), "{key}");
    }
    assert!(parse("{\"com.example/a\":1,\"com.example/a\":2}").is_ok(), "not ours to judge (M-25)");
    assert_eq!(parse("null").err(), Some(ObjectError::NotObject));
}

#[test]
fn m20_a_version_of_another_type_is_none() {
    let text = r#"{"io.modelcontextprotocol/protocolVersion":5}"#;
    let meta = parse(text).unwrap();
    assert!(meta.protocol_version.is_some());
    assert_eq!(meta.version(text), None);
}

#[test]
fn m61_levels_have_an_order() {
    assert!(level_rank("debug") < level_rank("info") && level_rank("alert") < level_rank("emergency"));
    assert_eq!(level_rank("INFO"), None);
}
