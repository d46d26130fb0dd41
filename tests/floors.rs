//! The plan of the house, enforced: imports go down only, files stay short and say what they are for.

#![allow(clippy::unwrap_used, reason = "a test that cannot read the sources fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Room → floor. A room imports only rooms with a smaller number; rooms on one floor are strangers.
const FLOORS: [(&str, u8); 17] = [
    ("cli", 8),
    ("app", 7),
    ("inbound", 6),
    ("admin", 6),
    ("gateway", 5),
    ("catalogue", 4),
    ("policy", 4),
    ("auth", 3),
    ("contract", 3),
    ("playbooks", 3),
    ("outbound", 3),
    ("net", 2),
    ("cluster", 2),
    ("config", 1),
    ("telemetry", 1),
    ("tasks", 1),
    ("seal", 1),
];
const GROUND: &str = "protocol";
/// Lines a file may have; tests beside the code count as files of their own.
const LONGEST: usize = 400;
/// Rooms and files that may tell eras apart.
const ERA_FACES: [&str; 12] = [
    "inbound/endpoint",
    "inbound/modern",
    "inbound/legacy",
    "outbound/probe",
    "outbound/modern",
    "outbound/legacy",
    "outbound/server",
    "outbound/exchange",
    "outbound/guard",
    "outbound/attend",
    "outbound/listen",
    "outbound/place",
];

fn sources() -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    walk(&root, &mut found);
    let strip = |path: PathBuf| path.strip_prefix(&root).unwrap().to_path_buf();
    let found: Vec<_> = found.into_iter().map(|(path, text)| (strip(path), text)).collect();
    assert!(found.len() > 50, "the walk finds the sources");
    found
}

fn floors() -> BTreeMap<&'static str, u8> {
    FLOORS.into_iter().chain([(GROUND, 0)]).collect()
}

/// The room a path under `src/` belongs to; `None` for `lib.rs` and `main.rs`.
fn room(path: &Path) -> Option<String> {
    let first = path.components().next()?.as_os_str().to_str()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (!matches!(name, "lib" | "main")).then(|| name.to_owned())
}

/// The rooms a source names as `crate::room`; comments aside.
fn imports(text: &str) -> Vec<String> {
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut found = Vec::new();
    for after in code.split("crate::").skip(1) {
        let names: Vec<&str> = match after.strip_prefix('{') {
            Some(list) => list.split(',').map(str::trim).collect(),
            None => vec![after],
        };
        for name in names {
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
            found.push(name[..end].to_owned());
        }
    }
    found
}

#[test]
fn every_room_stands_on_a_floor() {
    let floors = floors();
    for (path, _) in sources() {
        if let Some(room) = room(&path) {
            assert!(floors.contains_key(room.as_str()), "{} is in no planned room", path.display());
        }
    }
}

#[test]
fn imports_go_down_only() {
    let floors = floors();
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let Some(own) = room(&path) else { continue };
        for other in imports(&text) {
            let Some(floor) = floors.get(other.as_str()) else { continue };
            if other != own && *floor >= floors[own.as_str()] {
                wrong.push(format!("{} imports {other}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_door_reaches_servers_only_through_the_core() {
    for (path, text) in sources().iter().filter(|(path, _)| path.starts_with("inbound")) {
        for banned in ["outbound", "catalogue", "policy"] {
            assert!(!imports(text).iter().any(|i| i == banned), "{} imports {banned}", path.display());
        }
    }
}

#[test]
fn every_file_says_what_it_is_for_and_stays_short() {
    for (path, text) in sources() {
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("//! ") && first.len() > 12, "{} has no header line", path.display());
        let lines = text.lines().count();
        assert!(lines <= LONGEST, "{} has {lines} lines", path.display());
    }
}

#[test]
fn eras_are_told_apart_at_the_faces_only() {
    for (path, text) in sources() {
        let own = path.with_extension("").display().to_string();
        let face = ERA_FACES.iter().any(|face| own.starts_with(face));
        let ground = own.starts_with(GROUND) || own.starts_with("telemetry") || own.starts_with("cli");
        if face || ground || own.contains("tests") {
            continue;
        }
        for told in ["Era::Legacy", "== Era::", "!= Era::", "match era"] {
            assert!(!text.contains(told), "{own} tells eras apart: {told}");
        }
    }
}

#[test]
fn spawning_is_done_in_one_place() {
    for (path, text) in sources() {
        let own = path.starts_with("tasks") || path.display().to_string().contains("tests");
        assert!(own || !text.contains("tokio::spawn("), "{} spawns by itself", path.display());
    }
}
