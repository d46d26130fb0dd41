//! Tests of the library: files as people write them, and every sort of fault.

use std::path::PathBuf;

use super::{FaultKind, Library};

fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let folders = vec![folder.path().to_path_buf()];
    (folder, folders)
}

fn faults(library: &Library) -> Vec<(FaultKind, String)> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    library.faults.iter().map(|fault| (fault.kind, name(&fault.file))).collect()
}

#[test]
fn yaml_and_toml_front_matter_are_read() {
    let yaml = "---\nname: deploy\ndescription: >\n  How to deploy\n  a service\ntags: [ops, release]\nlinks:\n  - rollback\n\
                tools: [k8s_scale]\n---\n\n# Deploy\n\nSee [undo](rollback.md) and [docs](https://x.md).\n";
    let toml = "+++\ndescription = \"Undo\"\n+++\nText\n---\nmore";
    let (_kept, folders) = folder(&[("a.md", yaml), ("Rollback.md", toml), ("notes.txt", "no")]);
    let library = Library::read(&folders);
    let [deploy, rollback] = &library.books[..] else { panic!("{library:?}") };
    assert_eq!((deploy.name.as_str(), deploy.description.as_str()), ("deploy", "How to deploy a service"));
    assert_eq!(
        (&deploy.tags[..], &deploy.links[..]),
        (&["ops".to_owned(), "release".to_owned()][..], &["rollback".to_owned()][..])
    );
    assert_eq!((deploy.tools.join(","), rollback.name.as_str()), ("k8s_scale".to_owned(), "rollback"));
    assert!(deploy.body.starts_with("# Deploy") && rollback.body == "Text\n---\nmore");
    assert_eq!(faults(&library), [(FaultKind::Unlinked, "a.md".to_owned())]);
}

#[test]
fn every_fault_is_found_and_costs_its_file_only() {
    let book =
        |name: &str, links: &str| format!("---\nname: {name}\ndescription: d\nlinks: [{links}]\n---\nx");
    let (_kept, folders) = folder(&[
        ("a.md", &book("one", "two, gone")),
        ("b.md", &book("two", "three")),
        ("c.md", &book("three", "one")),
        ("d.md", &book("one", "")),
        ("e.md", "no front matter"),
        ("f.md", "---\ndescription: d\ncolour: red\n---\nx"),
        ("g.md", "---\nname: Bad Name\ndescription: d\n---\nx"),
        ("h.md", "---\ndescription: ''\n---\nx"),
        ("i.md", "---\ndescription: [\n---\nx"),
    ]);
    let library = Library::read(&folders);
    assert_eq!(
        library.books.iter().map(|book| book.name.as_str()).collect::<Vec<_>>(),
        ["one", "three", "two"]
    );
    let file = |name: &str| name.to_owned();
    assert_eq!(
        faults(&library),
        [
            (FaultKind::DeadLink, file("a.md")),
            (FaultKind::Cycle, file("a.md")),
            (FaultKind::Cycle, file("b.md")),
            (FaultKind::Cycle, file("c.md")),
            (FaultKind::Duplicate, file("d.md")),
            (FaultKind::Unreadable, file("e.md")),
            (FaultKind::Unreadable, file("f.md")),
            (FaultKind::Unreadable, file("g.md")),
            (FaultKind::Unreadable, file("h.md")),
            (FaultKind::Unreadable, file("i.md")),
        ]
    );
    assert_eq!(library.books[0].links, ["two"], "a dead link is not followed");
}

#[test]
fn a_change_is_seen_and_a_missing_folder_is_said() {
    let (kept, folders) = folder(&[("a.md", "---\ndescription: d\n---\nx")]);
    let library = Library::read(&folders);
    assert!(!library.is_old(&folders));
    std::fs::write(kept.path().join("a.md"), "---\ndescription: longer\n---\nx").unwrap();
    assert!(library.is_old(&folders));
    let gone = vec![kept.path().join("gone")];
    assert_eq!(faults(&Library::read(&gone)), [(FaultKind::Unreadable, "gone".to_owned())]);
}
