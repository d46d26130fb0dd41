//! What becomes of an item that differs from what was approved: shown, held back, or withdrawn.

use std::sync::Arc;

use serde_json::Value;

use super::checker::Checker;
use super::lock::{Change, Entry, Fate, Key, Lock};
use super::{Class, Side, classify_schema};

/// An item whose approved definition is in use instead of its server's.
#[derive(Debug)]
pub struct Held {
    /// What its server says now, as a hash; of one that is gone: `-`.
    pub digest: String,
    /// Calls are held against the approved schema.
    pub checker: Checker,
    /// Why its server can no longer do what was approved; then it is in no list.
    pub withdrawn: Option<String>,
}

/// What is to be done.
#[derive(Debug)]
pub enum Verdict {
    /// Nothing differs.
    Same,
    /// It differs, and is shown: it is compatible.
    Shown(Change),
    /// It differs: the approved definition stays.
    Held(Change, Arc<Held>),
    /// Nobody has approved it.
    New(Change),
}

/// Judges one item as its server says it now.
pub fn judge(lock: &Lock, key: &Key, now: &Entry) -> Verdict {
    match (lock.change(key, now), lock.get(key)) {
        (None, _) => Verdict::Same,
        (Some(change), None) => Verdict::New(change),
        (Some(change), Some(_)) if change.class == Class::Compatible => Verdict::Shown(change),
        (Some(change), Some(approved)) => {
            let (before, after) = (value(approved), value(now));
            let withdrawn = impossible(&before, &after);
            let checker = Checker::new(&before);
            let held = Held { digest: now.digest.clone(), checker, withdrawn };
            Verdict::Held(change, Arc::new(held))
        }
    }
}

/// An approved item that its server does not offer any more.
pub fn gone(lock: &Lock, key: &Key) -> Option<(Change, Arc<Held>)> {
    let approved = lock.get(key)?;
    let change = lock.diff(&Lock::default(), |other| other == key).into_iter().next()?;
    debug_assert_eq!(change.fate, Fate::Removed);
    let withdrawn = Some("its server does not offer it any more".to_owned());
    let checker = Checker::new(&value(approved));
    Some((change, Arc::new(Held { digest: "-".to_owned(), checker, withdrawn })))
}

fn value(entry: &Entry) -> Value {
    // Canonical text was JSON before.
    serde_json::from_str(&entry.canonical).unwrap_or_default()
}

/// Why no call by the approved definition can succeed: its server asks for what callers cannot know, or wants another
/// type where something must be given.
fn impossible(approved: &Value, now: &Value) -> Option<String> {
    let (before, after) = (approved.get("inputSchema")?, now.get("inputSchema")?);
    let names = |schema: &Value| -> Vec<String> {
        let all = schema.get("required").and_then(Value::as_array);
        all.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let known = |name: &String| before.get("properties").and_then(|all| all.get(name)).is_some();
    let unknown = names(after).into_iter().find(|name| !known(name) && before.get("properties").is_some());
    if let Some(name) = unknown {
        return Some(format!(
            "its server asks for {name:?} now, which the approved definition does not have"
        ));
    }
    let found = classify_schema(before, after, Side::Input, "");
    let retyped = |name: &String| {
        let path = format!("/properties/{}", name.replace('~', "~0").replace('/', "~1"));
        found.iter().any(|one| one.rule == "type-changed" && one.path == path)
    };
    let name = names(before).into_iter().find(retyped)?;
    Some(format!("its server wants another type for {name:?}, which must be given"))
}
