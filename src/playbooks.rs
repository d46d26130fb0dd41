//! Playbooks: Markdown files with front matter, linked to each other and to tools. Files in, a library out; knows no MCP.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

mod parse;
#[cfg(test)]
mod tests;

use parse::parse;

/// Larger files are no playbooks.
const LARGEST: u64 = 256 * 1024;
/// More files of one folder are not read.
const MOST: usize = 1000;

/// One playbook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Book {
    /// `name`, or that of the file.
    pub name: String,
    /// `description`: what it is for.
    pub description: String,
    /// `tags`
    pub tags: Vec<String>,
    /// Playbooks it leads to: `links`, and Markdown links to files beside it.
    pub links: Vec<String>,
    /// `tools`: exposed names of tools it uses.
    pub tools: Vec<String>,
    /// The Markdown behind the front matter.
    pub body: String,
    /// Where it stands.
    pub file: PathBuf,
}

/// What is wrong with a file, or worth a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which sort.
    pub kind: FaultKind,
    /// The file.
    pub file: PathBuf,
    /// One sentence.
    pub message: String,
}

/// Sorts of faults, as metrics and reports name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// It cannot be read, or is no playbook; it is left out.
    Unreadable,
    /// Another has its name; the first stays.
    Duplicate,
    /// It leads to a playbook that is not there.
    DeadLink,
    /// It leads to itself, over others.
    Cycle,
    /// No other playbook leads to it.
    Unlinked,
}

impl FaultKind {
    /// Every sort.
    pub const ALL: [Self; 5] =
        [Self::Unreadable, Self::Duplicate, Self::DeadLink, Self::Cycle, Self::Unlinked];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Duplicate => "duplicate",
            Self::DeadLink => "dead_link",
            Self::Cycle => "cycle",
            Self::Unlinked => "unlinked",
        }
    }
}

/// All playbooks of some folders, by name.
#[derive(Debug, Default)]
pub struct Library {
    /// Distinguishes libraries; never reused.
    pub id: u64,
    /// In order of their names.
    pub books: Vec<Book>,
    /// In order of files.
    pub faults: Vec<Fault>,
    prints: Vec<Print>,
}

/// By which a file is known to be the same.
type Print = (PathBuf, Option<SystemTime>, u64);

static LIBRARIES: AtomicU64 = AtomicU64::new(1);

impl Library {
    /// Reads all folders; a file that cannot be read costs itself only. Blocks.
    pub fn read(folders: &[PathBuf]) -> Self {
        let mut library = Self { id: LIBRARIES.fetch_add(1, Ordering::Relaxed), ..Self::default() };
        library.prints = prints(folders, &mut library.faults);
        let mut books: BTreeMap<String, Book> = BTreeMap::new();
        for (path, _, size) in &library.prints {
            let read = if *size > LARGEST {
                Err("is larger than 256 KiB".to_owned())
            } else {
                fs::read_to_string(path).map_err(|error| format!("cannot be read: {}", error.kind()))
            };
            let book = read.and_then(|text| parse(path, &text));
            let fault = |kind, message| Fault { kind, file: path.clone(), message };
            match book {
                Err(why) => library.faults.push(fault(FaultKind::Unreadable, why)),
                Ok(book) => match books.get(&book.name) {
                    Some(first) => {
                        let message =
                            format!("{:?} is the name of {} already", book.name, first.file.display());
                        library.faults.push(fault(FaultKind::Duplicate, message));
                    }
                    None => drop(books.insert(book.name.clone(), book)),
                },
            }
        }
        library.books = books.into_values().collect();
        library.link();
        library.faults.sort_by(|a, b| (&a.file, a.kind).cmp(&(&b.file, b.kind)));
        library
    }

    /// Whether the files are others than when this was read. Blocks.
    pub fn is_old(&self, folders: &[PathBuf]) -> bool {
        prints(folders, &mut Vec::new()) != self.prints
    }

    /// A playbook by its name.
    pub fn book(&self, name: &str) -> Option<(usize, &Book)> {
        let at = self.books.binary_search_by(|book| book.name.as_str().cmp(name)).ok()?;
        Some((at, &self.books[at]))
    }

    /// Drops links that lead nowhere and finds what is worth a look.
    fn link(&mut self) {
        let names: BTreeSet<String> = self.books.iter().map(|book| book.name.clone()).collect();
        let mut faults = Vec::new();
        for book in &mut self.books {
            book.links.retain(|link| {
                let there = names.contains(link);
                if !there {
                    let message = format!("leads to {link:?}, which is not there");
                    faults.push(Fault { kind: FaultKind::DeadLink, file: book.file.clone(), message });
                }
                there
            });
        }
        let linked: BTreeSet<&String> = self.books.iter().flat_map(|book| &book.links).collect();
        for book in &self.books {
            let fault = |kind, message: String| Fault { kind, file: book.file.clone(), message };
            if self.books.len() > 1 && !linked.contains(&book.name) {
                faults.push(fault(FaultKind::Unlinked, "no other playbook leads to it".to_owned()));
            }
            if self.reaches(book, &book.name) {
                faults.push(fault(FaultKind::Cycle, "leads back to itself".to_owned()));
            }
        }
        self.faults.extend(faults);
    }

    /// Whether following links from a playbook comes to this name.
    fn reaches(&self, from: &Book, name: &str) -> bool {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut next: Vec<&str> = from.links.iter().map(String::as_str).collect();
        while let Some(link) = next.pop() {
            if link == name {
                return true;
            }
            if seen.insert(link) {
                next.extend(
                    self.book(link).into_iter().flat_map(|(_, book)| &book.links).map(String::as_str),
                );
            }
        }
        false
    }
}

/// The Markdown files of these folders, folder by folder, in order of their names.
fn prints(folders: &[PathBuf], faults: &mut Vec<Fault>) -> Vec<Print> {
    let mut all = Vec::new();
    for folder in folders {
        let fault = |message| Fault { kind: FaultKind::Unreadable, file: folder.clone(), message };
        match files(folder) {
            Ok(files) => all.extend(files),
            Err(error) => faults.push(fault(format!("cannot be read: {}", error.kind()))),
        }
    }
    all
}

fn files(folder: &Path) -> std::io::Result<Vec<Print>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            // Follows links: folders that are mounted from elsewhere are made of them.
            let about = fs::metadata(&path).ok();
            let size = about.as_ref().map_or(0, fs::Metadata::len);
            found.push((path, about.and_then(|about| about.modified().ok()), size));
        }
    }
    found.sort();
    found.truncate(MOST);
    Ok(found)
}
