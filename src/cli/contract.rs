//! What `lock`, `diff` and `approve` share: asking every server, the lock file, what is printed.

use std::collections::HashSet;
use std::io::{self, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::check::live;
use super::check::text::{clean, harmless_json};
use super::{code, serve};
use crate::app::Core;
use crate::config::{Config, Guarding, Problems};
use crate::contract::lock::{Change, Entry, Key, Lock, Locked};
use crate::protocol::method::Kind;
use crate::telemetry::logs;

mod user;

/// Options that the three commands have in common.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Common {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "gatehouse.toml")]
    pub(super) config: PathBuf,
    /// A file with a caller's token, - for standard input: whose lists of servers with a token for each caller are meant
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub(super) json: bool,
}

/// Why a command ends before it has done anything.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stop {
    /// The configuration.
    #[error("{0}")]
    Config(#[from] Problems),
    /// The arguments, or files.
    #[error("{0}")]
    Usage(String),
    /// Nothing could be started.
    #[error("could not start: {0}")]
    Start(String),
    /// A signal.
    #[error("interrupted")]
    Interrupted,
}

impl Stop {
    /// Says it, and gives the exit code.
    pub(super) fn exit(&self) -> ExitCode {
        let code = match self {
            Self::Config(_) | Self::Usage(_) => code::CONFIG,
            Self::Start(_) => code::START,
            Self::Interrupted => code::INTERRUPTED,
        };
        super::complain(self, code)
    }
}

/// What the servers offer now.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// Every definition.
    pub(super) now: Lock,
    /// Of what `now` has all there is.
    pub(super) asked: HashSet<(String, Locked)>,
    /// What could not be found out, as (server, why).
    pub(super) silent: Vec<(String, String)>,
    /// Names clients use, and what they lead to.
    pub(super) exposed: Vec<(String, Key)>,
}

impl Walked {
    /// What differs from the approved state; servers that are no longer configured have nothing.
    pub(super) fn changes(&self, lock: &Lock, config: &Config) -> Vec<Change> {
        let configured = |name: &str| config.servers.iter().any(|server| server.name == name);
        lock.diff(&self.now, |key| {
            !configured(&key.server) || self.asked.contains(&(key.server.clone(), key.kind))
        })
    }
}

/// The configuration, and everything its servers offer.
pub(super) async fn walk(common: &Common) -> Result<(Config, Walked), Stop> {
    let config = Config::load(&common.config)?;
    let mut asked = config.clone();
    // What is held back is just what is to be seen.
    asked.servers.iter_mut().for_each(|server| server.contract = Guarding::Off);
    user::become_caller(&mut asked, common.token_file.as_deref()).await?;
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return Err(Stop::Start("signals cannot be handled".to_owned()));
    };
    // What is wrong with servers is in the answer.
    let guard = logs::init("off", Some(false));
    let core = Core::start(asked).map_err(|error| Stop::Start(format!("{error:#}")))?;
    let walked = tokio::select! {
        walked = ask(&core, &config) => Ok(walked),
        () = serve::either(&mut term, &mut int) => Err(Stop::Interrupted),
    };
    core.stop().await;
    drop(guard);
    Ok((config, walked?))
}

async fn ask(core: &Core, config: &Config) -> Walked {
    let contacts = live::contact_all(core).await;
    let mut walked = Walked::default();
    for (server, contact) in config.servers.iter().zip(&contacts) {
        if let Err(reason) = &contact.peer {
            walked.silent.push((server.name.clone(), reason.clone()));
        }
        for kind in Kind::ALL {
            let Some(locked) = Locked::of(kind) else { continue };
            match &contact.lists[kind as usize] {
                live::Listed::Known(published) => {
                    walked.take(&server.name, locked, published);
                }
                live::Listed::Failed(reason) => {
                    let reason = format!("{}: {reason}", kind.as_str());
                    walked.silent.push((server.name.clone(), reason));
                }
                live::Listed::Unasked => {}
            }
        }
    }
    walked.names(core, config).await;
    walked
}

impl Walked {
    fn take(&mut self, server: &str, kind: Locked, published: &crate::catalogue::Published) {
        if published.is_whole() {
            self.asked.insert((server.to_owned(), kind));
        } else {
            self.silent.push((server.to_owned(), format!("the list of {}s was cut", kind.as_str())));
        }
        for item in &published.items {
            let key = Key { server: server.to_owned(), kind, native: item.native.to_string() };
            // Of names that are listed twice the first counts, as everywhere.
            if self.now.get(&key).is_some() {
                continue;
            }
            let entry = std::str::from_utf8(&item.said).ok().and_then(|json| Entry::new(json).ok());
            match entry {
                Some(entry) => self.now.insert(key, entry),
                None => {
                    let reason = format!("{} can be read in several ways", key.said());
                    self.silent.push((server.to_owned(), reason));
                }
            }
        }
    }

    async fn names(&mut self, core: &Core, config: &Config) {
        let snapshot = core.gateway.snapshot();
        for endpoint in &config.endpoints {
            let Some(endpoint) = snapshot.endpoint(&endpoint.path) else { continue };
            for (kind, locked) in [(Kind::Tools, Locked::Tool), (Kind::Prompts, Locked::Prompt)] {
                let (view, _) = core.gateway.everything(&snapshot, endpoint, kind).await;
                self.exposed.extend(view.items.iter().map(|route| {
                    let (server, native) = (route.shelf.server.name.to_string(), route.native().to_owned());
                    (route.exposed.to_string(), Key { server, kind: locked, native })
                }));
            }
        }
    }
}

/// The lock file that a configuration names; `None`: there is none yet.
pub(super) fn read(path: &Path) -> Result<Option<Lock>, Stop> {
    match std::fs::read_to_string(path) {
        Ok(text) => match Lock::parse(&text) {
            Ok(lock) => Ok(Some(lock)),
            Err(error) => Err(Stop::Usage(format!("{} {error}", path.display()))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Stop::Usage(format!("{} cannot be read: {error}", path.display()))),
    }
}

/// Writes the lock file, whole or not at all: a gateway may read it at any moment.
pub(super) fn write(path: &Path, lock: &Lock) -> Result<(), Stop> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = std::fs::write(&beside, lock.render()).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|error| {
        // What is left of it is of no use.
        let _ = std::fs::remove_file(&beside);
        Stop::Usage(format!("{} cannot be written: {error}", path.display()))
    })
}

/// A change for a program.
#[derive(Serialize)]
struct Told<'c> {
    server: &'c str,
    kind: &'static str,
    name: &'c str,
    change: crate::contract::lock::Fate,
    class: crate::contract::Class,
    findings: &'c [crate::contract::Finding],
}

/// Changes and silent servers as one JSON object, with more members.
pub(super) fn document(changes: &[Change], walked: &Walked, lock: &Path, more: &[(&str, Value)]) -> String {
    let told: Vec<Told<'_>> = changes
        .iter()
        .map(|change| Told {
            server: &change.key.server,
            kind: change.key.kind.as_str(),
            name: &change.key.native,
            change: change.fate,
            class: change.class,
            findings: &change.findings,
        })
        .collect();
    let silent: Vec<Value> =
        walked.silent.iter().map(|(server, reason)| json!({ "server": server, "reason": reason })).collect();
    let mut document = json!({ "lock": lock.display().to_string(), "changes": told, "silent": silent });
    for (key, value) in more {
        document[*key] = value.clone();
    }
    harmless_json(&format!("{document:#}")) + "\n"
}

/// Changes and silent servers for people.
pub(super) fn text(changes: &[Change], walked: &Walked) -> String {
    let mut out = String::new();
    for change in changes {
        let fate = match change.fate {
            crate::contract::lock::Fate::Added => "new",
            crate::contract::lock::Fate::Removed => "gone",
            crate::contract::lock::Fate::Changed => "changed",
        };
        out += &format!("{}: {fate}, {}\n", clean(&change.key.said()), change.class);
        for finding in &change.findings {
            let path = if finding.path.is_empty() { "/" } else { &finding.path };
            let message = clean(&finding.message);
            out += &format!(
                "  {:<12} {:<22} {}: {message}\n",
                finding.class.as_str(),
                finding.rule,
                clean(path)
            );
        }
    }
    for (server, reason) in &walked.silent {
        out += &format!("server {server:?} not known: {}\n", clean(reason));
    }
    out
}

/// Prints; when nobody reads, the exit code still tells.
pub(super) fn print(text: &str) {
    let _ = stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
}
