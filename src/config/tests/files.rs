//! The files of `config/`: all parse, and the example cannot fall behind the types.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::super::expand::Outside;
use super::super::file::parse_in;
use super::super::read::{Reading, join};
use super::super::{Config, Credentials, Problems};
use super::credentials::ED25519;

const EXAMPLE: &str = include_str!("../../../config/gatehouse.example.toml");
const PRODUCTION: &str = include_str!("../../../config/production.toml");
const QUICKSTART: &str = include_str!("../../../config/quickstart.toml");

/// Reads with an environment where every variable and file has a value; also every key that was asked for.
fn read(text: &str) -> (Result<Config, Problems>, BTreeSet<String>) {
    let var = |_: &str| Some("c29tZXRoaW5nLWxvbmctZW5vdWdoLXRvLXNlYWwtd2l0aA==".to_owned());
    let file = |_: &Path, _: usize| -> io::Result<Vec<u8>> { Ok(b"from a file\n".to_vec()) };
    let token = |path: &Path, most: usize| {
        let key = path.extension().is_some_and(|extension| extension == "pem");
        file(path, most).map(|_| if key { ED25519.into() } else { b"tok-1\n".to_vec() })
    };
    let reading = Reading::new(Outside { var: &var, file: &token });
    let result = parse_in(&reading, text, Path::new(""));
    (result, reading.declared())
}

fn config(text: &str) -> Config {
    read(text).0.unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn quickstart_needs_nothing_but_the_executable() {
    let nothing = |_: &str| None;
    let config = Config::parse(QUICKSTART, Path::new(""), &nothing).unwrap();
    assert!(config.gateway.listen.ip().is_loopback() && config.gateway.admin_listen.ip().is_loopback());
    for server in &config.servers {
        assert!(server.is_stdio(), "{server:?}");
    }
    assert!(config.servers.iter().any(|server| server.name == "demo"));
    assert_eq!(config.warnings(), []);
}

#[test]
fn production_is_right_and_without_doubts() {
    let config = config(PRODUCTION);
    assert_eq!(config.servers.len(), 4);
    assert_eq!(config.endpoints.len(), 3);
    let github = &config.servers[0];
    assert!(matches!(&github.credentials, Credentials::Bearer(token) if token.expose() == "tok-1"));
    assert_eq!(config.warnings(), []);
}

#[test]
fn example_parses_as_it_is_without_any_environment() {
    let nothing = |_: &str| None;
    Config::parse(EXAMPLE, Path::new(""), &nothing).unwrap();
}

/// A line of the example.
enum Line<'a> {
    /// `#key = value`: the default, or an example when there is none.
    Commented { setting: &'a str, is_default: bool },
    /// Anything else.
    Other(&'a str),
}

/// Settings in a table that is itself commented are no defaults.
fn lines() -> Vec<Line<'static>> {
    let mut in_commented = false;
    let mut lines = Vec::new();
    for line in EXAMPLE.lines() {
        let trimmed = line.trim_start();
        let setting = trimmed
            .strip_prefix('#')
            .filter(|rest| rest.starts_with(|c: char| c == '[' || c.is_ascii_lowercase()));
        in_commented = match setting {
            Some(setting) => in_commented || setting.starts_with('['),
            None => in_commented && !trimmed.starts_with('['),
        };
        lines.push(match setting {
            Some(setting) => {
                Line::Commented { setting, is_default: !in_commented && !setting.contains("# (none) ") }
            }
            None => Line::Other(line),
        });
    }
    lines
}

/// The example with some of its commented settings in force.
fn with(wanted: impl Fn(bool) -> bool) -> String {
    let text = |line: &Line<'static>| match line {
        Line::Commented { setting, is_default } if wanted(*is_default) => (*setting).to_owned(),
        Line::Commented { .. } => String::new(),
        Line::Other(line) => (*line).to_owned(),
    };
    lines().iter().map(text).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_default_in_the_example_is_the_default_of_the_types() {
    let plain = config(EXAMPLE);
    // Each alone as well, so that the failure names the line.
    for (at, line) in lines().iter().enumerate() {
        let Line::Commented { setting, is_default: true } = line else { continue };
        let text: Vec<&str> = EXAMPLE
            .lines()
            .enumerate()
            .map(|(here, line)| if here == at { *setting } else { line })
            .collect();
        let (changed, _) = read(&text.join("\n"));
        let changed = changed.unwrap_or_else(|problems| panic!("{problems}"));
        assert!(changed == plain, "not the default: {setting}");
    }
    assert!(config(&with(|is_default| is_default)) == plain);
}

#[test]
fn a_changed_default_in_the_example_would_be_noticed() {
    let plain = config(EXAMPLE);
    assert!(config(&EXAMPLE.replace("#timeout = \"15s\"", "timeout = \"16s\"")) != plain);
    assert!(config(&EXAMPLE.replace("#prefix = \"example\"", "prefix = \"other\"")) != plain);
}

#[test]
fn example_holds_exactly_the_declared_keys() {
    let text = with(|_| true);
    let (result, declared) = read(&text);
    result.unwrap_or_else(|problems| panic!("{problems}"));
    let mut written = BTreeSet::new();
    walk(DeTable::parse(&text).unwrap().get_ref(), "", &declared, &mut written);
    let missing: Vec<_> = declared.difference(&written).collect();
    assert!(missing.is_empty(), "not in the example: {missing:?}");
    let unknown: Vec<_> = written.difference(&declared).collect();
    assert!(unknown.is_empty(), "in the example only: {unknown:?}");
}

#[test]
fn example_says_why_of_every_key() {
    for line in lines() {
        let Line::Commented { setting, .. } = line else { continue };
        let plain = setting.starts_with(['[', 'n', 'u']) && !setting.contains('#');
        assert!(
            plain || setting.split_once(" # ").is_some_and(|(_, why)| why.len() > 10),
            "no reason: {setting}"
        );
    }
}

/// Collects the keys of a tree as `server.tools.allow`; a name that the operator chooses is `*`.
fn walk(table: &DeTable<'_>, path: &str, declared: &BTreeSet<String>, keys: &mut BTreeSet<String>) {
    for (name, value) in table {
        // A table none of whose keys is ours belongs to the operator.
        let own = join(path, name.get_ref());
        let chosen = join(path, "*");
        let is_ours =
            declared.contains(&own) || !declared.iter().any(|key| key.starts_with(&format!("{chosen}.")));
        let free =
            ["server.env", "server.credentials.headers", "auth.scope_implies", "auth.key.claims", "grant.to"]
                .iter()
                .any(|own| path.starts_with(own));
        let here = if is_ours { own } else { chosen };
        if is_ours && !free {
            keys.insert(here.clone());
        }
        match value.get_ref() {
            DeValue::Table(inner) => walk(inner, &here, declared, keys),
            DeValue::Array(rows) => {
                rows.iter()
                    .filter_map(|row| row.get_ref().as_table())
                    .for_each(|row| walk(row, &here, declared, keys));
            }
            _ => {}
        }
    }
}
