//! What the audit log tells of a call's arguments: nothing, their shape with chosen values, or all of them. Read as
//! positions in the bytes they came in; what is told of one call is bounded.

use std::borrow::Cow;

use bytes::Bytes;

use crate::protocol::items::json_string;
use crate::protocol::object::{Object, Span, array};

/// Bytes of a shape, of the values shown with it, and of arguments told in full; one value more may be begun.
const SHAPE: usize = 8 * 1024;
const SHOWN: usize = 16 * 1024;
const FULL: usize = 64 * 1024;
/// How deep a shape goes; deeper down it says only what stands there.
const DEEP: usize = 16;
/// Elements of an array that a shape tells.
const ELEMENTS: usize = 8;
/// Bytes of a key that a shape tells.
const KEY: usize = 64;
/// Bytes of one value that is shown.
const VALUE: usize = 4 * 1024;

/// What is kept of arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Keep {
    /// Nothing.
    #[default]
    Nothing,
    /// Keys and types, and the values at these paths.
    Masked(Vec<Path>),
    /// All, as it came.
    Full,
}

/// Keys that lead to a value; elements of arrays are where their array is, `*` is any key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(Vec<String>);

impl Path {
    /// A path with dots between its keys.
    pub fn new(text: &str) -> Self {
        Self(text.split('.').map(str::to_owned).collect())
    }

    fn leads_to(&self, keys: &[String]) -> bool {
        let fits = |(own, key): (&String, &String)| own == "*" || own == key;
        self.0.len() == keys.len() && self.0.iter().zip(keys).all(fits)
    }
}

/// Arguments on their way to the log: the message they stand in, and where.
#[derive(Debug, Clone)]
pub struct Arguments {
    /// The message.
    pub body: Bytes,
    /// Where in it they are.
    pub span: Span,
}

/// What a line tells of arguments; each is JSON text without line breaks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// All of them.
    pub(super) full: Option<String>,
    /// Their keys and types.
    pub(super) shape: Option<String>,
    /// The values at chosen paths, by where they stand.
    pub(super) shown: Option<String>,
    /// Something was left out for its size.
    pub(super) cut: bool,
}

impl Arguments {
    /// What there is to tell.
    pub(super) fn told(&self, keep: &Keep) -> Told {
        let Ok(text) = std::str::from_utf8(&self.body) else { return Told::default() };
        let raw = self.span.of(text);
        match keep {
            Keep::Nothing => Told::default(),
            Keep::Full if raw.len() <= FULL => Told { full: Some(one_line(raw)), ..Told::default() },
            // Cut in the middle it would be no JSON: then its shape.
            Keep::Full => Told { cut: true, ..masked(text, self.span, &[]) },
            Keep::Masked(show) => masked(text, self.span, show),
        }
    }
}

/// A line break in JSON is white space between tokens, never a part of one.
fn one_line(raw: &str) -> String {
    raw.replace(['\n', '\r'], " ")
}

fn masked(text: &str, span: Span, show: &[Path]) -> Told {
    let mut mask =
        Mask { text, show, keys: Vec::new(), place: String::new(), shown: String::new(), cut: false };
    let mut shape = String::new();
    mask.value(span, &mut shape);
    let shown = (!mask.shown.is_empty()).then(|| format!("{{{}}}", mask.shown));
    Told { full: None, shape: Some(shape), shown, cut: mask.cut }
}

/// One walk over arguments.
struct Mask<'a> {
    text: &'a str,
    show: &'a [Path],
    /// The keys that lead here.
    keys: Vec<String>,
    /// The same with the numbers of elements, as it is told.
    place: String,
    /// Members of what is shown.
    shown: String,
    cut: bool,
}

impl Mask<'_> {
    fn value(&mut self, span: Span, shape: &mut String) {
        let raw = span.of(self.text).trim();
        if !self.keys.is_empty() && self.show.iter().any(|path| path.leads_to(&self.keys)) {
            self.tell(raw);
        }
        let deep = self.keys.len() >= DEEP || self.place.len() > SHAPE;
        match raw.as_bytes().first() {
            Some(b'{') if !deep => self.object(span, shape),
            Some(b'[') if !deep => self.array(span, shape),
            Some(b'{') => shape.push_str("\"object\""),
            Some(b'[') => shape.push_str("\"array\""),
            Some(b'"') => shape.push_str("\"string\""),
            Some(b't' | b'f') => shape.push_str("\"boolean\""),
            Some(b'n') | None => shape.push_str("\"null\""),
            Some(_) => shape.push_str("\"number\""),
        }
    }

    fn object(&mut self, span: Span, shape: &mut String) {
        let Ok(object) = Object::parse(self.text, span) else {
            return shape.push_str("\"object\"");
        };
        shape.push('{');
        for (number, member) in object.members.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            if shape.len() > SHAPE {
                self.cut = true;
                shape.extend([comma, "\"…\":\"…\""]);
                break;
            }
            let name = member.name(self.text);
            let short = key(name);
            shape.extend([comma, &json_string(&short), ":"]);
            let length = self.place.len();
            self.place.extend([if length == 0 { "" } else { "." }, &short]);
            self.keys.push(name.to_owned());
            self.value(member.value, shape);
            self.keys.pop();
            self.place.truncate(length);
        }
        shape.push('}');
    }

    fn array(&mut self, span: Span, shape: &mut String) {
        let items = array(self.text, span).unwrap_or_default();
        shape.push('[');
        for (number, item) in items.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            if number == ELEMENTS || shape.len() > SHAPE {
                shape.push_str(&format!("{comma}\"… {} more\"", items.len() - number));
                break;
            }
            shape.push_str(comma);
            let length = self.place.len();
            self.place.push_str(&format!("[{number}]"));
            self.value(*item, shape);
            self.place.truncate(length);
        }
        shape.push(']');
    }

    /// Shows one value.
    fn tell(&mut self, raw: &str) {
        if raw.len() > VALUE || self.shown.len() > SHOWN {
            self.cut = true;
            return;
        }
        let comma = if self.shown.is_empty() { "" } else { "," };
        self.shown.extend([comma, &json_string(&self.place), ":", &one_line(raw)]);
    }
}

/// A key, cut where it is longer than keys are.
fn key(name: &str) -> Cow<'_, str> {
    if name.len() <= KEY {
        return name.into();
    }
    format!("{}…", &name[..name.floor_char_boundary(KEY)]).into()
}

#[cfg(test)]
mod tests {
    use super::{Arguments, FULL, Keep, Path, SHAPE, SHOWN, Told, VALUE};
    use crate::protocol::object::Span;
    use serde_json::{Value, json};

    fn told(text: &str, keep: &Keep) -> Told {
        // As in a message: something before and behind.
        let body = format!("{{\"a\":{text}}}");
        Arguments { span: Span::new(5, 5 + text.len()), body: body.into() }.told(keep)
    }

    fn masked(text: &str, show: &[&str]) -> (Value, Value, bool) {
        let Told { full, shape, shown, cut } =
            told(text, &Keep::Masked(show.iter().map(|path| Path::new(path)).collect()));
        assert_eq!(full, None);
        let shown = shown.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
        (serde_json::from_str(&shape.unwrap()).unwrap(), shown, cut)
    }

    #[test]
    fn masked_tells_keys_and_types_and_no_value() {
        let text = r#" {"s":"hidden","n":-1.50,"t":true,"f":false,"z":null,"o":{"k\u0065y":"hidden"},
                       "l":["hidden",7,{"x":"hidden"}],"e":{},"v":[]} "#;
        let (shape, shown, cut) = masked(text, &[]);
        let expected = json!({
            "s": "string", "n": "number", "t": "boolean", "f": "boolean", "z": "null", "o": { "key": "string" },
            "l": ["string", "number", { "x": "string" }], "e": {}, "v": [],
        });
        assert_eq!((shape, shown, cut), (expected, Value::Null, false));
    }

    #[test]
    fn values_are_shown_at_their_paths_and_nowhere_else() {
        let text = r#"{"path":"/etc","query":{"text":"select 1.0","limit":9007199254740993},"text":"hidden",
                      "items":[{"id":1,"s":"hidden"},{"id":"b"}],"rows":[[1],[2]],"deep":{"a":{"id":7}}}"#;
        let show = ["path", "query.text", "query.limit", "items.id", "rows", "deep.*.id", "none", "path.x"];
        let Told { shown, .. } = told(text, &Keep::Masked(show.map(Path::new).to_vec()));
        // Numbers as they were spelt.
        assert_eq!(
            shown.unwrap(),
            "{\"path\":\"/etc\",\"query.text\":\"select 1.0\",\"query.limit\":9007199254740993,\
             \"items[0].id\":1,\"items[1].id\":\"b\",\"rows\":[[1],[2]],\"rows[0]\":[1],\"rows[0][0]\":1,\
             \"rows[1]\":[2],\"rows[1][0]\":2,\"deep.a.id\":7}"
        );
        assert_eq!(masked(r#"{"a":{"b":{"c":1}}}"#, &["*.b.*"]).1, json!({ "a.b.c": 1 }));
        // A key with a dot in it is no way in.
        assert_eq!(masked(r#"{"a.b":1}"#, &["a.b"]).1, Value::Null);
    }

    #[test]
    fn full_is_what_came_in_one_line() {
        let text = "{\"n\" : 1.0,\n\t\"big\":1152921504606846977,\r\n\"s\":\"a\\nb\",\"dup\":1,\"dup\":2}";
        let full = told(text, &Keep::Full).full.unwrap();
        assert_eq!(full, text.replace(['\n', '\r'], " "));
        assert!(!full.contains('\n'));
        let large = format!("{{\"s\":\"{}\"}}", "x".repeat(FULL));
        let Told { full, shape, cut, .. } = told(&large, &Keep::Full);
        assert_eq!((full, shape.as_deref(), cut), (None, Some("{\"s\":\"string\"}"), true));
        assert_eq!(told(text, &Keep::Nothing), Told::default());
    }

    #[test]
    fn whatever_is_sent_a_line_stays_small() {
        let many: Vec<String> = (0..10_000).map(|n| format!("\"key{n}\":{n}")).collect();
        let wide = format!("{{{}}}", many.join(","));
        let deep = format!("{}1{}", "{\"k\":".repeat(100), "}".repeat(100));
        let tall = format!("[{}]", vec!["[1,2,3,4,5,6,7,8,9,10]"; 1000].join(","));
        let long = format!("{{\"{}\":1}}", "k".repeat(100_000));
        let big = format!("{{\"v\":\"{}\"}}", "x".repeat(VALUE));
        for text in [&wide, &deep, &tall, &long, &big] {
            let keep = Keep::Masked(vec![Path::new("*"), Path::new("*.*")]);
            let told = told(text, &keep);
            assert!(told.shape.as_ref().unwrap().len() < 2 * SHAPE, "{told:?}");
            assert!(told.shown.as_ref().is_none_or(|shown| shown.len() < 2 * SHOWN), "{told:?}");
            serde_json::from_str::<Value>(&told.shape.unwrap()).unwrap();
        }
        assert!(masked(&wide, &[]).2 && masked(&big, &["v"]).2);
        assert_eq!(masked("[1,2,3,4,5,6,7,8,9,10]", &[]).0[8], "… 2 more");
        assert!(!masked(&big, &[]).2);
    }
}
