//! The far end of the audit log: standard output, or a file that others may rename under us.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Target;

/// How often it is looked whether the file is still the one at its path.
const LOOK: Duration = Duration::from_secs(1);

/// Where bytes go.
#[derive(Debug)]
pub(super) struct Sink {
    place: Place,
    /// A write failed: a part of a line may stand at the end.
    torn: bool,
    /// The last one failed, and it was said.
    failing: bool,
}

#[derive(Debug)]
enum Place {
    Stdout,
    File { path: PathBuf, file: Option<File>, looked: Instant },
}

impl Sink {
    pub(super) fn open(target: Target) -> io::Result<Self> {
        Ok(Self { place: Place::open(target)?, torn: false, failing: false })
    }

    /// Writes whole lines; false when some of them may be lost.
    pub(super) fn write(&mut self, lines: &[u8]) -> bool {
        self.write_after(lines, LOOK)
    }

    /// The same, looking after the file if that was last done so long ago.
    pub(super) fn write_after(&mut self, lines: &[u8], look: Duration) -> bool {
        if lines.is_empty() {
            return true;
        }
        let written = self.put(lines, look);
        match &written {
            // Once, not for every line.
            Err(error) if !self.failing => tracing::error!(%error, "the audit log cannot be written"),
            Ok(()) if self.failing => tracing::info!("the audit log is written again"),
            _ => {}
        }
        self.failing = written.is_err();
        written.is_ok()
    }

    fn put(&mut self, lines: &[u8], look: Duration) -> io::Result<()> {
        if self.place.attend(look)? {
            // Of what was written before nothing is in this one.
            self.torn = false;
        }
        if std::mem::replace(&mut self.torn, true) {
            self.place.put(b"\n")?;
        }
        self.place.put(lines)?;
        self.torn = false;
        Ok(())
    }

    /// Everything is written: to the disk with it.
    pub(super) fn finish(&self) {
        if let Place::File { file: Some(file), .. } = &self.place {
            // A pipe or a device cannot be synced, and need not be.
            let _ = file.sync_data();
        }
    }
}

impl Place {
    fn open(target: Target) -> io::Result<Self> {
        Ok(match target {
            Target::Stdout => Self::Stdout,
            Target::Path(path) => {
                let file = Some(open(&path)?);
                Self::File { path, file, looked: Instant::now() }
            }
        })
    }

    /// Opens the file anew if another one, or none, stands at its path; whether it did.
    fn attend(&mut self, look: Duration) -> io::Result<bool> {
        let Self::File { path, file, looked } = self else { return Ok(false) };
        if file.is_some() && looked.elapsed() < look {
            return Ok(false);
        }
        *looked = Instant::now();
        let same = file.as_ref().is_some_and(|file| is_at(file, path));
        if !same {
            *file = None;
            *file = Some(open(path)?);
        }
        Ok(!same)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(bytes)?;
                out.flush()
            }
            Self::File { file: Some(file), .. } => file.write_all(bytes),
            Self::File { file: None, .. } => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(own), Ok(there)) => own.dev() == there.dev() && own.ino() == there.ino(),
        _ => false,
    }
}
