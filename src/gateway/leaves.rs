//! The plain values in arguments, each with where it stands; read as positions, never turned into values.

use std::fmt::Write as _;

use crate::protocol::object::{Object, Span, array, string};

/// Longest key that a path says.
const LONGEST_KEY: usize = 60;

/// Shows every string, number and word in JSON text: the path to it, and its text. `visit` says whether to go on.
pub(super) fn each(text: &str, visit: &mut dyn FnMut(&str, &str) -> bool) {
    walk(text, Span::new(0, text.len()), &mut String::new(), visit);
}

/// Depth is bounded by `max_depth`, checked when the message was read.
fn walk(text: &str, span: Span, path: &mut String, visit: &mut dyn FnMut(&str, &str) -> bool) -> bool {
    let raw = span.of(text).trim();
    let length = path.len();
    match raw.as_bytes().first() {
        Some(b'{') => {
            let Ok(object) = Object::parse(text, span) else { return true };
            for member in &object.members {
                let key: String = member.name(text).chars().take(LONGEST_KEY).map(harmless).collect();
                path.push_str(if path.is_empty() { "" } else { "." });
                path.push_str(&key);
                let on = walk(text, member.value, path, visit);
                path.truncate(length);
                if !on {
                    return false;
                }
            }
            true
        }
        Some(b'[') => {
            for (number, item) in array(text, span).unwrap_or_default().into_iter().enumerate() {
                let _ = write!(path, "[{number}]");
                let on = walk(text, item, path, visit);
                path.truncate(length);
                if !on {
                    return false;
                }
            }
            true
        }
        Some(b'"') => visit(path, &string(raw).unwrap_or(raw.into())),
        _ => visit(path, raw),
    }
}

/// Whether a key of an object anywhere in JSON text is one of these.
pub(super) fn any_key(text: &str, is: &dyn Fn(&str) -> bool) -> bool {
    key_within(text, Span::new(0, text.len()), is)
}

fn key_within(text: &str, span: Span, is: &dyn Fn(&str) -> bool) -> bool {
    match span.of(text).trim_start().as_bytes().first() {
        Some(b'{') => Object::parse(text, span).is_ok_and(|object| {
            let mut members = object.members.iter();
            members.any(|member| is(member.name(text)) || key_within(text, member.value, is))
        }),
        Some(b'[') => {
            array(text, span).unwrap_or_default().into_iter().any(|item| key_within(text, item, is))
        }
        _ => false,
    }
}

/// Characters that would break a line or hide something stand for themselves no more.
pub(super) fn harmless(c: char) -> char {
    let hides = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    if c.is_control() || hides { '·' } else { c }
}

#[cfg(test)]
mod tests {
    use super::each;

    #[test]
    fn every_value_is_shown_with_its_place() {
        let mut seen = Vec::new();
        each(r#"{"a":{"b c":["x",{"d":1.0}]},"e":null,"\u0066":"\u0041\n"}"#, &mut |path, value| {
            seen.push(format!("{path}={value}"));
            true
        });
        assert_eq!(seen, ["a.b c[0]=x", "a.b c[1].d=1.0", "e=null", "f=A\n"]);
        let mut count = 0;
        each(r#"[1,[2,3],4]"#, &mut |_, value| {
            count += 1;
            value != "2"
        });
        assert_eq!(count, 2, "it ends when told so");
    }
}
