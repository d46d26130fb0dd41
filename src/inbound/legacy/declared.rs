//! What a client said at `initialize` that it can do, as far as its revision has it (G-12, R-55).

use serde_json::{Map, Value};

use crate::protocol::meta::UI;
use crate::protocol::version::Revision;

/// Largest settings of an extension that are kept in a session's id.
const MOST_SETTINGS: usize = 1024;

/// The capabilities of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Declared {
    /// What servers are told, a JSON object.
    pub(super) text: String,
    /// What they are told where the client can read no events: nothing that it would have to answer (R-57).
    pub(super) mute: String,
    pub(super) form: bool,
    pub(super) url: bool,
    pub(super) sampling: bool,
    pub(super) sampling_tools: bool,
    pub(super) roots: bool,
}

impl Declared {
    /// Reads a client's `capabilities`. What is no object was not declared (M-21).
    pub(super) fn read(text: &str, revision: Revision) -> Self {
        let given: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
        let object = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_object).cloned();
        let latest = revision >= Revision::V20251125;
        let mut found = Self::default();
        let mut all = Map::new();
        if object(&given, "roots").is_some() {
            found.roots = true;
            all.insert("roots".to_owned(), Value::Object(Map::new()));
        }
        if let Some(sampling) = object(&given, "sampling") {
            let kept = pick(&sampling, if latest { &["context", "tools"] } else { &[] });
            (found.sampling, found.sampling_tools) = (true, kept.contains_key("tools"));
            all.insert("sampling".to_owned(), kept.into());
        }
        if let Some(elicitation) = object(&given, "elicitation").filter(|_| revision >= Revision::V20250618) {
            let kept = pick(&elicitation, if latest { &["form", "url"] } else { &[] });
            found.url = kept.contains_key("url");
            // Without a word about modes it is forms (M-34).
            found.form = kept.contains_key("form") || !found.url;
            all.insert("elicitation".to_owned(), kept.into());
        }
        let ui = object(&given, "extensions").and_then(|all| object(&all, UI));
        let mut mute = Map::new();
        if let Some(ui) = ui.filter(|ui| Value::Object(ui.clone()).to_string().len() <= MOST_SETTINGS) {
            let extensions = Value::Object(Map::from_iter([(UI.to_owned(), ui.into())]));
            mute.insert("extensions".to_owned(), extensions.clone());
            all.insert("extensions".to_owned(), extensions);
        }
        found.text = Value::Object(all).to_string();
        found.mute = Value::Object(mute).to_string();
        found
    }
}

/// The members of these names that are objects, each empty.
fn pick(map: &Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    let kept = names.iter().filter(|name| map.get(**name).is_some_and(Value::is_object));
    kept.map(|name| ((*name).to_owned(), Value::Object(Map::new()))).collect()
}

#[cfg(test)]
mod tests {
    use super::Declared;
    use crate::protocol::version::Revision::{V20250326, V20250618, V20251125};

    const ALL: &str = r#"{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"tasks":{},"experimental":{"x":{}}}"#;

    /// Covers: R-55, R-64, M-34: what a revision does not have is not declared onwards, nor what is not bridged.
    #[test]
    fn r_55_a_revision_declares_what_it_has() {
        assert_eq!(
            Declared::read(ALL, V20251125).text,
            r#"{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}"#
        );
        assert_eq!(Declared::read(ALL, V20250618).text, r#"{"elicitation":{},"roots":{},"sampling":{}}"#);
        assert_eq!(Declared::read(ALL, V20250326).text, r#"{"roots":{},"sampling":{}}"#);
        for odd in ["", "[]", "{}", r#"{"roots":true,"sampling":null,"elicitation":[]}"#] {
            assert_eq!(Declared::read(odd, V20251125).text, "{}", "{odd}");
        }
    }

    /// Covers: M-34: an empty elicitation is forms; a mode that is named is that one only.
    #[test]
    fn m_34_modes() {
        let modes = |text: &str| {
            let declared = Declared::read(text, V20251125);
            (declared.form, declared.url)
        };
        assert_eq!(modes("{}"), (false, false));
        assert_eq!(modes(r#"{"elicitation":{}}"#), (true, false));
        assert_eq!(modes(r#"{"elicitation":{"url":{}}}"#), (false, true));
        assert_eq!(modes(r#"{"elicitation":{"url":{},"form":{}}}"#), (true, true));
    }

    /// Covers: R-57: what is declared is read again as it was, and a client without events declares no questions.
    #[test]
    fn r_57_no_events_no_questions() {
        let ui = r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["a"]},"other":{}},"roots":{}}"#;
        let declared = Declared::read(ui, V20251125);
        assert_eq!(declared, Declared::read(&declared.text, V20251125));
        assert_eq!(declared.mute, r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["a"]}}}"#);
    }
}
