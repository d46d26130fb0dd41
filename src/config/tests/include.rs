//! `include`: one file per team (design §3).

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::super::{Config, Problems};
use super::http;

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn load(dir: &TempDir) -> Result<Config, Problems> {
    Config::load(&dir.path().join("gatehouse.toml"))
}

fn names(config: &Config) -> Vec<&str> {
    config.servers.iter().map(|server| server.name.as_str()).collect()
}

/// The report with the folder's path taken out.
fn report(dir: &TempDir) -> String {
    let report = load(dir).unwrap_err().to_string();
    report.replace(&format!("{}/", dir.path().display()), "")
}

#[test]
fn arrays_add_up_in_the_order_of_names() {
    let dir = folder(&[
        ("gatehouse.toml", &format!("[gateway]\ninclude = [\"conf.d/*.toml\"]\n{}", http("root", ""))),
        ("conf.d/20-b.toml", &http("b", "")),
        ("conf.d/10-z.toml", &format!("{}{}", http("z", ""), http("y", ""))),
        (
            "conf.d/30-c.toml",
            "[[endpoint]]\npath = \"/c\"\nservers = [\"root\"]\n[telemetry]\nlog = \"warn\"",
        ),
        ("conf.d/.hidden.toml", &http("hidden", "")),
        ("conf.d/notes.md", "not TOML at all"),
        ("conf.d/deeper/x.toml", &http("deeper", "")),
    ]);
    let config = load(&dir).unwrap();
    assert_eq!(names(&config), ["root", "z", "y", "b"]);
    assert_eq!(&*config.endpoints[0].path, "/c");
    assert_eq!(config.telemetry.log, "warn");
}

#[test]
fn patterns_keep_their_order_and_a_file_counts_once() {
    let dir = folder(&[
        ("gatehouse.toml", "[gateway]\ninclude = [\"b.toml\", \"*.toml\", \"teams/*/server.toml\"]"),
        ("a.toml", &http("a", "")),
        ("b.toml", &http("b", "")),
        ("teams/two/server.toml", &http("two", "")),
        ("teams/one/server.toml", &http("one", "")),
        ("teams/README", "a file between folders"),
    ]);
    assert_eq!(names(&load(&dir).unwrap()), ["b", "a", "one", "two"]);
}

#[test]
fn parse_includes_from_its_base() {
    let dir = folder(&[("conf.d/a.toml", &http("a", "ca_file = \"ca.pem\""))]);
    let config = Config::parse("[gateway]\ninclude = [\"conf.d/*\"]", dir.path(), &|_| None).unwrap();
    // Relative paths are under the folder of the file that holds them.
    let super::super::Target::Http { ca_file, .. } = &config.servers[0].target else { panic!() };
    assert_eq!(ca_file.as_deref(), Some(dir.path().join("conf.d/ca.pem").as_path()));
}

#[test]
fn a_table_given_twice_names_both_files() {
    let dir = folder(&[
        ("gatehouse.toml", "\n[gateway]\ninclude = [\"*.inc\"]"),
        ("a.inc", "[gateway]\nname = \"other\""),
        ("b.inc", "[telemetry]\nlog = \"info\""),
        ("c.inc", "\n\n[telemetry]\nlog = \"info\""),
    ]);
    let expected = "a.inc:1: gateway: is given twice, first at gatehouse.toml:2 (a table stands in one file)\n\
                    c.inc:3: telemetry: is given twice, first at b.inc:1 (a table stands in one file)";
    assert_eq!(report(&dir), expected);
}

#[test]
fn include_inside_an_included_file_is_an_error() {
    let dir = folder(&[
        ("gatehouse.toml", "gateway.include = [\"a.inc\"]"),
        ("a.inc", "[gateway]\nname = \"x\"\ninclude = []"),
    ]);
    let report = report(&dir);
    assert!(report.contains("a.inc:3: gateway.include: an included file cannot include others"), "{report}");
}

#[test]
fn problems_of_all_files_come_in_one_report() {
    let dir = folder(&[
        (
            "gatehouse.toml",
            &format!("[gateway]\ninclude = [\"conf.d/*\"]\nmax_depth = 0\n{}", http("same", "")),
        ),
        ("conf.d/a.toml", &http("same", "timeout = 5")),
        ("conf.d/b.toml", "[[server]\nname = 3"),
        ("conf.d/c.toml", &http("c", "prefix = \"same\"")),
    ]);
    let report = report(&dir);
    let starts: Vec<&str> = report.lines().map(|line| line.split(": ").next().unwrap()).collect();
    let broken = starts.iter().filter(|start| start.starts_with("conf.d/b.toml:1")).count();
    assert!(broken > 0, "{report}");
    let rest: Vec<&str> = starts.into_iter().filter(|start| !start.starts_with("conf.d/b.toml")).collect();
    // The prefix of the second "same" is not told beside its name.
    let expected = ["gatehouse.toml:3", "conf.d/a.toml:2", "conf.d/a.toml:4", "conf.d/c.toml:4"];
    let mut unique = rest.clone();
    unique.dedup();
    assert_eq!(unique, expected, "{report}");
}

#[test]
fn an_unreadable_file_hides_no_server_that_a_glob_means() {
    let root = "[gateway]\ninclude = [\"a.inc\"]\n[[endpoint]]\npath = \"/x\"\nservers = [\"a\"]";
    let dir = folder(&[("gatehouse.toml", root), ("a.inc", "[[server]]\nname = ")]);
    let report = report(&dir);
    assert!(!report.contains("matches no server"), "{report}");
}

#[test]
fn what_cannot_be_included_is_told_where_it_is_asked_for() {
    for (pattern, says) in [
        ("none.toml", ": none.toml cannot be read: entity not found"),
        ("none/*.toml", "\"none/*.toml\": the folder cannot be listed: entity not found"),
        ("**/*.toml", "`**` is not supported"),
        ("a[.toml", "is not a glob"),
        ("", "is empty"),
    ] {
        let dir = folder(&[("gatehouse.toml", &format!("[gateway]\n\ninclude = [\"{pattern}\"]"))]);
        let report = report(&dir);
        assert!(report.starts_with("gatehouse.toml:3: gateway.include[0]: "), "{report}");
        assert!(report.contains(says), "{report}");
    }
    let dir =
        folder(&[("gatehouse.toml", "[gateway]\ninclude = [\"conf.d/*.toml\"]"), ("conf.d/README", "")]);
    assert!(load(&dir).is_ok(), "a folder may be empty");
}

#[test]
fn absolute_and_parent_patterns_work() {
    let other = folder(&[("x.toml", &http("x", ""))]);
    let pattern = other.path().join("*.toml");
    let dir = folder(&[
        ("sub/gatehouse.toml", &format!("[gateway]\ninclude = [\"{}\", \"../up.toml\"]", pattern.display())),
        ("up.toml", &http("up", "")),
    ]);
    let config = Config::load(&dir.path().join("sub/gatehouse.toml")).unwrap();
    assert_eq!(names(&config), ["x", "up"]);
    assert!(Path::new(&pattern).is_absolute());
}
