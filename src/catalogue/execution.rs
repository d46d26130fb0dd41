//! Tools of 2025-11-25 that say how they run as that revision's tasks, which are not bridged: they are shown as plain
//! tools, and not at all where they run in no other way (R-64, G-80).

use super::fault::Fault;
use crate::protocol::edit::Edits;
use crate::protocol::items::Item;
use crate::protocol::object::{Object, Span, string};

/// The tool without `execution`.
pub(super) fn without_tasks(item: Item) -> Result<Item, Fault> {
    let unreadable = || Fault::Unreadable { item: item.native.clone() };
    let text = std::str::from_utf8(&item.json).map_err(|_| unreadable())?;
    let whole = Span::new(0, text.len());
    let object = Object::parse(text, whole).map_err(|_| unreadable())?;
    let Some(at) = object.position(text, "execution").map_err(|_| unreadable())? else { return Ok(item) };
    let support = || {
        let execution = Object::parse(text, object.members[at].value).ok()?;
        string(execution.get(text, "taskSupport").ok()??.of(text))
    };
    if support().as_deref() == Some("required") {
        return Err(Fault::TasksOnly { item: item.native.clone() });
    }
    let mut edits = Edits::new();
    edits.remove(&object, &[at]);
    Ok(Item { json: edits.apply(&item.json, whole).to_bytes(), native: item.native })
}

#[cfg(test)]
mod tests {
    use super::{Fault, without_tasks};
    use crate::protocol::items::Item;

    fn shown(json: &'static str) -> Result<String, Fault> {
        let item = Item { native: "t".into(), json: json.into() };
        without_tasks(item).map(|item| String::from_utf8(item.json.to_vec()).unwrap())
    }

    #[test]
    fn r_64_tools_are_shown_without_tasks() {
        for (json, seen) in [
            (r#"{"name":"t","description":"execution"}"#, r#"{"name":"t","description":"execution"}"#),
            (r#"{"name":"t","execution":{"taskSupport":"optional"},"x":1}"#, r#"{"name":"t","x":1}"#),
            (r#"{"\u0065xecution":{},"name":"t"}"#, r#"{"name":"t"}"#),
            (r#"{"execution":{},"name":"t"}"#, r#"{"name":"t"}"#),
            (r#"{"name":"t","execution":7}"#, r#"{"name":"t"}"#),
        ] {
            assert_eq!(shown(json).as_deref(), Ok(seen), "{json}");
        }
    }

    #[test]
    fn r_64_tools_that_run_as_tasks_only_are_left_out() {
        let only = r#"{"name":"t","execution":{"taskSupport":"required"}}"#;
        assert_eq!(shown(only), Err(Fault::TasksOnly { item: "t".into() }));
        let twice = r#"{"name":"t","execution":{},"execution":{"taskSupport":"required"}}"#;
        assert_eq!(shown(twice), Err(Fault::Unreadable { item: "t".into() }));
    }
}
