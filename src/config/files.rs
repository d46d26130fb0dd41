//! Which files a configuration was made of: where to watch, and whether anything in them is another by now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};

/// SHA-256 of a file's content; `None`: it could not be read.
type Print = Option<[u8; 32]>;

/// The files that one reading of a configuration looked at: the file itself, what it includes, what `${file:}` names,
/// what links to servers are made of. Equal where nothing in any of them has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    read: BTreeMap<PathBuf, Print>,
    listed: BTreeSet<PathBuf>,
}

impl Files {
    /// A file was looked at.
    pub(super) fn note(&mut self, path: &Path, content: Option<&[u8]>) {
        self.read.insert(path.to_path_buf(), content.map(print));
    }

    /// A folder was listed: another file may appear in it.
    pub(super) fn note_folder(&mut self, path: &Path) {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        self.listed.insert(path.to_path_buf());
    }

    /// Every folder in which something can happen that makes a difference. A file that is a link is watched where the
    /// link is and where it leads: either may be replaced.
    pub fn folders(&self) -> BTreeSet<PathBuf> {
        let mut all = self.listed.clone();
        for path in self.read.keys() {
            all.extend(folder(path));
            all.extend(std::fs::canonicalize(path).ok().as_deref().and_then(folder));
        }
        all
    }
}

/// The folder a file is in.
fn folder(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_path_buf() })
}

fn print(content: &[u8]) -> [u8; 32] {
    let mut print = [0; 32];
    print.copy_from_slice(digest(&SHA256, content).as_ref());
    print
}

/// The print of a file as it is now.
pub(crate) fn print_of(path: &Path) -> Print {
    std::fs::read(path).ok().as_deref().map(print)
}
