//! `gatehouse approve`: what differs is taken over into the lock file; a gateway that runs releases it.

use std::process::ExitCode;

use serde_json::json;

use super::contract::{self, Common, Stop, Walked};
use crate::contract::lock::{Change, Key};

/// Options of `gatehouse approve`.
#[derive(Debug, Clone, clap::Args)]
pub struct ApproveArgs {
    /// What to take over: names clients use, or SERVER/NAME by the servers' own names; without any: everything
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// Takes changes over. Exit codes: 0 done, or nothing to do; 2 usage or configuration; 3 nothing could be started; 130
/// interrupted.
pub async fn run(args: ApproveArgs) -> ExitCode {
    match approve(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.exit(),
    }
}

async fn approve(args: &ApproveArgs) -> Result<(), Stop> {
    let (config, walked) = contract::walk(&args.common).await?;
    let path = &config.contract.lock;
    let mut lock = contract::read(path)?.unwrap_or_default();
    let changes = walked.changes(&lock, &config);
    let chosen = chosen(&args.tools, changes, &walked, |key| lock.get(key).is_some())?;
    for change in &chosen {
        match walked.now.get(&change.key) {
            Some(entry) => lock.insert(change.key.clone(), entry.clone()),
            None => lock.remove(&change.key),
        }
    }
    if !chosen.is_empty() {
        contract::write(path, &lock)?;
    }
    if args.common.json {
        let approved = [("approved", json!(chosen.len()))];
        contract::print(&contract::document(&chosen, &walked, path, &approved));
    } else {
        let text = contract::text(&chosen, &walked);
        contract::print(&format!("{text}{}: {} approved\n", path.display(), chosen.len()));
    }
    Ok(())
}

/// The changes that are meant. A name that nothing has is an error, one of something unchanged is none.
fn chosen(
    names: &[String],
    changes: Vec<Change>,
    walked: &Walked,
    locked: impl Fn(&Key) -> bool,
) -> Result<Vec<Change>, Stop> {
    if names.is_empty() {
        return Ok(changes);
    }
    let means = |name: &str, key: &Key| {
        let own =
            name.split_once('/').is_some_and(|(server, native)| key.server == server && key.native == native);
        own || walked.exposed.iter().any(|(exposed, known)| exposed == name && known == key)
    };
    for name in names {
        let known = walked.now.iter().any(|(key, _)| means(name, key))
            || changes.iter().any(|one| means(name, &one.key));
        let unasked = walked.exposed.iter().any(|(exposed, key)| exposed == name && locked(key));
        if !known && !unasked {
            return Err(Stop::Usage(format!("{name:?} is nothing that a server offers or that is locked")));
        }
    }
    let wanted = |change: &Change| names.iter().any(|name| means(name, &change.key));
    Ok(changes.into_iter().filter(wanted).collect())
}
