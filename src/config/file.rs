//! From files to a checked configuration: every problem of every file in one report.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::expand::Outside;
use super::problem::{Place, Problems};
use super::read::{File, Reading, Text};
use super::tables::{self, Sections};
use super::tree::Table;
use super::{Config, Files, Server, check, include, read};

/// The name of a configuration that is not a file, for messages.
const UNNAMED: &str = "gatehouse.toml";

impl Config {
    /// Reads a file and what it includes. The error holds every problem of all of them.
    pub fn load(path: &Path) -> Result<Self, Problems> {
        Self::read(path).0
    }

    /// The same, and which files were looked at for it, whether they are good or not.
    pub fn read(path: &Path) -> (Result<Self, Problems>, Files) {
        let var = |name: &str| std::env::var(name).ok();
        let secrets = RefCell::new(Vec::new());
        let file = |path: &Path, most: usize| {
            let content = read_start(path, most);
            secrets.borrow_mut().push((path.to_path_buf(), content.as_ref().ok().cloned()));
            content
        };
        let reading = Reading::new(Outside { var: &var, file: &file });
        let config = match read_text(&reading, path) {
            Ok(text) => whole(&reading, Source::new(path.to_path_buf(), text)),
            Err(why) => {
                reading.report(&file_place(path), why, "");
                Err(Problems::new(reading.take_problems(), &[]))
            }
        };
        let mut files = reading.files.take();
        for (path, content) in secrets.take() {
            files.note(&path, content.as_deref());
        }
        for path in config.iter().flat_map(|config| &config.servers).flat_map(Server::materials) {
            files.note(path, fs::read(path).ok().as_deref());
        }
        (config, files)
    }

    /// Reads a text as if it were the file `gatehouse.toml` in the folder `base`, with this environment.
    pub fn parse(text: &str, base: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Problems> {
        let reading = Reading::new(Outside { var: env, file: &read_start });
        parse_in(&reading, text, base)
    }
}

/// [`Config::parse`] with a reading of one's own.
pub(super) fn parse_in(reading: &Reading<'_>, text: &str, base: &Path) -> Result<Config, Problems> {
    whole(reading, Source::new(base.join(UNNAMED), text.to_owned()))
}

/// One file's text.
struct Source {
    file: File,
    text: String,
}

impl Source {
    fn new(path: PathBuf, text: String) -> Self {
        Self { file: File::new(path, &text), text }
    }
}

fn whole(reading: &Reading<'_>, root: Source) -> Result<Config, Problems> {
    let mut all = one(reading, &root);
    let included = included(reading, &root, &all);
    for source in &included {
        add(reading, &mut all, one(reading, source));
    }
    let gateway = stands(reading, &root, all.gateway.take(), ("gateway", tables::gateway));
    let (gateway, listen_at) = (gateway.gateway, gateway.listen_at);
    let telemetry = stands(reading, &root, all.telemetry.take(), ("telemetry", tables::telemetry));
    let admin = stands(reading, &root, all.admin.take(), ("admin", tables::admin));
    let audit = stands(reading, &root, all.audit.take(), ("audit", tables::audit));
    let contract = stands(reading, &root, all.contract.take(), ("contract", tables::contract));
    check::across(reading, &all, &gateway);
    check::grants(reading, &all);
    check::callers(reading, &all);
    check::cluster(reading, all.cluster.as_ref(), &gateway);
    check::doors(reading, &all, &gateway, &listen_at);
    let problems = reading.take_problems();
    if !problems.is_empty() {
        let files: Vec<PathBuf> =
            std::iter::once(root).chain(included).map(|source| source.file.path).collect();
        return Err(Problems::new(problems, &files));
    }
    // Without problems every entry has its typed part.
    let mut endpoints: Vec<_> = all.endpoints.into_iter().filter_map(|entry| entry.endpoint).collect();
    if endpoints.is_empty() {
        endpoints.push(tables::default_endpoint());
    }
    let mut servers: Vec<Server> =
        all.servers.into_iter().filter(|entry| entry.enabled).filter_map(|entry| entry.server).collect();
    let grants = all.grants.into_iter().filter_map(|entry| entry.grant).collect();
    let limits = all.limits.into_iter().flatten().collect();
    let auth = all.auth.map(|(auth, _)| auth);
    if auth.as_ref().is_some_and(|auth| auth.allow_insecure_http) {
        servers.iter_mut().for_each(|server| server.credentials.unguard());
    }
    let tls = all.tls.and_then(|(tls, _)| tls);
    let cluster = all.cluster.and_then(|(cluster, _)| cluster);
    Ok(Config {
        gateway,
        endpoints,
        servers,
        auth,
        grants,
        limits,
        admin,
        cluster,
        audit,
        contract,
        telemetry,
        tls,
    })
}

/// A table as it stands in one of the files, or as if the first one had it without any key.
fn stands<T>(
    reading: &Reading<'_>,
    root: &Source,
    found: Option<(T, Place)>,
    (key, read): (&str, fn(&Table<'_>) -> T),
) -> T {
    match found {
        Some((table, _)) => table,
        None => Table::absent(reading, &root.file, key, read),
    }
}

/// Reads one file's tables; a file that is not TOML has only that problem.
fn one(reading: &Reading<'_>, source: &Source) -> Sections {
    let (tree, errors) = DeTable::parse_recoverable(&source.text);
    if errors.is_empty() {
        return Table::root(reading, &source.file, tree.get_ref(), tables::sections);
    }
    for error in errors {
        let span = error.span().unwrap_or_default();
        // Of a key written twice the span is the key; nothing else of a broken file is safe to show.
        let key = if error.message() == "duplicate key" { source.text.get(span.clone()) } else { None };
        let key = key.map(|key| read::join("", key)).unwrap_or_default();
        let place = Place { file: source.file.path.clone(), line: source.file.line(span.start), key };
        // The message names what was expected, and never quotes the file.
        reading.report(&place, format!("is not TOML: {}", error.message()), "");
    }
    reading.set_incomplete();
    Sections::default()
}

/// The files that the root's `include` means, each once, never the root itself.
fn included(reading: &Reading<'_>, root: &Source, sections: &Sections) -> Vec<Source> {
    let Some((entry, _)) = &sections.gateway else { return Vec::new() };
    let mut seen: Vec<PathBuf> = fs::canonicalize(&root.file.path).into_iter().collect();
    let mut sources = Vec::new();
    for (pattern, place) in &entry.include {
        for path in pattern_files(reading, &root.file.dir, pattern, place) {
            let canonical = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
            if seen.contains(&canonical) {
                continue;
            }
            seen.push(canonical);
            sources.extend(source(reading, path, place));
        }
    }
    sources
}

fn pattern_files(reading: &Reading<'_>, dir: &Path, pattern: &Text, place: &Place) -> Vec<PathBuf> {
    match include::matches(dir, &pattern.value, &mut |folder| reading.files.borrow_mut().note_folder(folder))
    {
        Ok(paths) => paths,
        Err(error) => {
            reading.report(place, format!("{}: {error}", pattern.shown()), "");
            reading.set_incomplete();
            Vec::new()
        }
    }
}

fn source(reading: &Reading<'_>, path: PathBuf, place: &Place) -> Option<Source> {
    match read_text(reading, &path) {
        Ok(text) => Some(Source::new(path, text)),
        Err(why) => {
            reading.report(place, format!("{} {why}", path.display()), "");
            reading.set_incomplete();
            None
        }
    }
}

/// Adds what an included file holds: arrays add up, tables stand once.
fn add(reading: &Reading<'_>, all: &mut Sections, more: Sections) {
    if let Some(at) = more.gateway.as_ref().and_then(|(entry, _)| entry.include_at.as_ref()) {
        reading.report(at, "an included file cannot include others", "list all files in the first one");
    }
    once(reading, &mut all.gateway, more.gateway);
    once(reading, &mut all.auth, more.auth);
    once(reading, &mut all.cluster, more.cluster);
    once(reading, &mut all.admin, more.admin);
    all.nobody = all.nobody.take().or(more.nobody);
    once(reading, &mut all.audit, more.audit);
    once(reading, &mut all.contract, more.contract);
    once(reading, &mut all.telemetry, more.telemetry);
    once(reading, &mut all.tls, more.tls);
    all.endpoints.extend(more.endpoints);
    all.servers.extend(more.servers);
    all.grants.extend(more.grants);
    all.limits.extend(more.limits);
}

fn once<T>(reading: &Reading<'_>, slot: &mut Option<(T, Place)>, more: Option<(T, Place)>) {
    match (&slot, more) {
        (Some((_, first)), Some((_, second))) => {
            reading.report(
                &second,
                format!("is given twice, first at {first}"),
                "a table stands in one file",
            );
        }
        (None, Some(entry)) => *slot = Some(entry),
        (_, None) => {}
    }
}

fn file_place(path: &Path) -> Place {
    Place { file: path.to_path_buf(), line: 0, key: String::new() }
}

/// A file's text, or why there is none.
fn read_text(reading: &Reading<'_>, path: &Path) -> Result<String, String> {
    let read = fs::read(path);
    reading.files.borrow_mut().note(path, read.as_deref().ok());
    let bytes = read.map_err(|error| format!("cannot be read: {}", error.kind()))?;
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        format!("is not UTF-8 in line {}", 1 + memchr::memchr_iter(b'\n', before).count())
    })
}

/// The first `most` bytes of a file.
fn read_start(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
