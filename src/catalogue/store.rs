//! The last known catalogue on disk: written whole and renamed into place, used after a restart while its
//! server is down, ignored when damaged (design §5). Service contexts only; readable by the owner only.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::walk::{PageHints, Walked};
use crate::config::{Server, Target};
use crate::protocol::items::Item;
use crate::protocol::method::Kind;

/// Raised when the layout changes; others are ignored.
const VERSION: u32 = 1;

/// Where one server's catalogues are kept.
#[derive(Debug, Clone)]
pub(super) struct Store {
    folder: PathBuf,
    server: String,
    /// Which server it was: another address under the same name is another server.
    target: String,
}

/// One list as it was walked.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    version: u32,
    target: String,
    /// Seconds since 1970.
    walked: u64,
    modern: bool,
    hints: Vec<PageHints>,
    items: Vec<(Box<str>, Box<RawValue>)>,
}

/// What was found on disk, and how old it is.
#[derive(Debug)]
pub(super) struct Restored {
    pub(super) walked: Walked,
    pub(super) age: Duration,
}

impl Store {
    /// The store of one server under `state_dir`.
    pub(super) fn new(state_dir: &Path, server: &Server) -> Self {
        let target = match &server.target {
            // Of several replicas the first: they are one server.
            Target::Http { url, .. } => url.to_string(),
            Target::Stdio(command) => command.argv.join("\0"),
        };
        let hash = digest(&SHA256, target.as_bytes());
        let target = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { folder: state_dir.join("catalogue"), server: server.name.clone(), target }
    }

    fn path(&self, kind: Kind) -> PathBuf {
        self.folder.join(format!("{}.{}.json", self.server, kind.as_str()))
    }

    /// The last known list; what is damaged, of another version or of another server is not used.
    pub(super) fn load(&self, kind: Kind) -> Option<Restored> {
        let path = self.path(kind);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => return self.ignore(kind, &error.kind().to_string()),
        };
        let saved: Saved = match serde_json::from_slice(&text) {
            Ok(saved) => saved,
            Err(_) => return self.ignore(kind, "damaged"),
        };
        if saved.version != VERSION || saved.target != self.target {
            return self.ignore(kind, "of another version or server");
        }
        let items = saved
            .items
            .into_iter()
            .map(|(native, json)| Item { native, json: Bytes::from(String::from(Box::<str>::from(json))) });
        let walked =
            Walked { items: items.collect(), hints: saved.hints, modern: saved.modern, ..Walked::default() };
        let age = Duration::from_secs(now().saturating_sub(saved.walked));
        Some(Restored { walked, age })
    }

    fn ignore(&self, kind: Kind, reason: &str) -> Option<Restored> {
        tracing::warn!(server = %self.server, kind = kind.as_str(), reason, "saved catalogue ignored");
        None
    }

    /// The file's content for a walk; made where the walk is, written where it may block.
    pub(super) fn encode(&self, walked: &Walked) -> Option<Vec<u8>> {
        let raw = |item: &Item| {
            let json = std::str::from_utf8(&item.json).ok()?.to_owned();
            Some((item.native.clone(), RawValue::from_string(json).ok()?))
        };
        let saved = Saved {
            version: VERSION,
            target: self.target.clone(),
            walked: now(),
            modern: walked.modern,
            hints: walked.hints.clone(),
            items: walked.items.iter().map(raw).collect::<Option<_>>()?,
        };
        serde_json::to_vec(&saved).ok()
    }

    /// Writes a list beside the old one and renames it into its place.
    pub(super) fn save(&self, kind: Kind, content: &[u8]) {
        if let Err(error) = self.write(kind, content) {
            let reason = error.kind().to_string();
            tracing::warn!(server = %self.server, kind = kind.as_str(), reason, "catalogue not saved");
        }
    }

    fn write(&self, kind: Kind, content: &[u8]) -> io::Result<()> {
        replace(&self.path(kind), content)
    }
}

/// Puts a file of `state_dir` in place, whole or not at all: written beside the old one and renamed. For the owner only,
/// as is its folder. May block.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    // Another one may be on its way to the same place, from this process or from another.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_extension(format!("{}-{number}.new", std::process::id()));
    let write = || {
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    // What is left of one that failed is of no use.
    write().inspect_err(|_| drop(std::fs::remove_file(&beside)))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use bytes::Bytes;

    use super::{Store, Walked};
    use crate::config::{Config, Server};
    use crate::protocol::items::Item;
    use crate::protocol::method::Kind;

    fn server(url: &str) -> Server {
        let text = format!("[[server]]\nname = \"a\"\nurl = \"{url}\"\n");
        Config::parse(&text, Path::new("."), &|_| None).unwrap().servers.remove(0)
    }

    fn walked(json: &'static str) -> Walked {
        let item = Item { native: "n".into(), json: Bytes::from_static(json.as_bytes()) };
        Walked { items: vec![item], hints: vec![(Some("5".into()), None)], modern: true, ..Walked::default() }
    }

    #[test]
    fn what_was_saved_comes_back_byte_for_byte_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path(), &server("http://127.0.0.1:1/mcp"));
        let json = r#"{"name":"n", "x":1.0,"big":1152921504606846977,"s":"\ud800"}"#;
        store.save(Kind::Tools, &store.encode(&walked(json)).unwrap());
        let back = store.load(Kind::Tools).unwrap();
        assert_eq!(back.walked.items[0].json, json.as_bytes());
        assert_eq!(&*back.walked.items[0].native, "n");
        assert_eq!(back.walked.hints, [(Some("5".into()), None)]);
        assert!(back.walked.modern);
        assert!(back.age.as_secs() < 60);
        let mode = std::fs::metadata(store.path(Kind::Tools)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(store.load(Kind::Prompts).is_none());
    }

    #[test]
    fn damaged_files_and_files_of_another_server_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path(), &server("http://127.0.0.1:1/mcp"));
        let content = store.encode(&walked(r#"{"name":"n"}"#)).unwrap();
        store.save(Kind::Tools, &content[..content.len() / 2]);
        assert!(store.load(Kind::Tools).is_none(), "cut short");
        let newer = String::from_utf8(content.clone()).unwrap().replace("\"version\":1", "\"version\":2");
        store.save(Kind::Tools, newer.as_bytes());
        assert!(store.load(Kind::Tools).is_none(), "another version");
        store.save(Kind::Tools, &content);
        assert!(store.load(Kind::Tools).is_some());
        let other = Store::new(folder.path(), &server("http://127.0.0.1:2/mcp"));
        assert!(other.load(Kind::Tools).is_none(), "another server");
    }
}
