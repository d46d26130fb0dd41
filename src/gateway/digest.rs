//! A digest of what a request asks for, the same however its JSON is written (R-28).

use aws_lc_rs::digest::{Context, SHA256};

use crate::protocol::object::{Object, Span, array, string};

/// SHA-256 over method, exposed name and canonical arguments.
pub(super) fn request_digest(method: &str, name: &str, arguments: Option<&str>) -> Vec<u8> {
    let mut hash = Context::new(&SHA256);
    field(&mut hash, method.as_bytes());
    field(&mut hash, name.as_bytes());
    if let Some(text) = arguments {
        value(&mut hash, text, Span::new(0, text.len()));
    }
    hash.finish().as_ref().to_vec()
}

/// Length first, so that no two sequences of fields run into the same bytes.
fn field(hash: &mut Context, bytes: &[u8]) {
    hash.update(&(bytes.len() as u64).to_be_bytes());
    hash.update(bytes);
}

/// Depth is bounded by `max_depth`, checked when the message was read.
fn value(hash: &mut Context, text: &str, span: Span) {
    let raw = span.of(text).trim();
    match raw.as_bytes().first() {
        Some(b'{') => {
            let Ok(object) = Object::parse(text, span) else { return };
            hash.update(b"{");
            let mut members: Vec<_> = object.members.iter().map(|m| (m.name(text), m.value)).collect();
            members.sort_by(|a, b| a.0.cmp(b.0));
            field(hash, &(members.len() as u64).to_be_bytes());
            for (name, child) in members {
                field(hash, name.as_bytes());
                value(hash, text, child);
            }
        }
        Some(b'[') => {
            let Ok(items) = array(text, span) else { return };
            hash.update(b"[");
            field(hash, &(items.len() as u64).to_be_bytes());
            for child in items {
                value(hash, text, child);
            }
        }
        Some(b'"') => {
            hash.update(b"\"");
            // A lone surrogate has no text; then its spelling counts.
            field(hash, string(raw).as_deref().unwrap_or(raw).as_bytes());
        }
        _ => {
            hash.update(b"#");
            field(hash, raw.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::request_digest;

    fn digest(arguments: &str) -> Vec<u8> {
        request_digest("tools/call", "t", Some(arguments))
    }

    #[test]
    fn r_28_order_white_space_and_escapes_do_not_matter() {
        assert_eq!(
            digest(r#"{"a":1,"b":[true,"x"]}"#),
            digest("{ \"b\" : [ true , \"\\u0078\" ],\n\"a\":1 }")
        );
    }

    #[test]
    fn r_28_every_difference_in_meaning_matters() {
        let base = digest(r#"{"a":1,"b":["x","y"]}"#);
        for other in [
            r#"{"a":2,"b":["x","y"]}"#,
            r#"{"a":1,"b":["y","x"]}"#,
            r#"{"a":1,"b":["xy"]}"#,
            r#"{"a":"1","b":["x","y"]}"#,
            r#"{"a":1}"#,
            r#"{"a":1,"b":["x","y"],"c":null}"#,
            "{}",
        ] {
            assert_ne!(digest(other), base, "{other}");
        }
        assert_ne!(request_digest("prompts/get", "t", None), request_digest("tools/call", "t", None));
        assert_ne!(request_digest("m", "ab", None), request_digest("m", "a", None));
    }
}
