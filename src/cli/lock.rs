//! `gatehouse lock`: what every server offers becomes the approved state.

use std::process::ExitCode;

use serde_json::json;

use super::code;
use super::contract::{self, Common, Stop};
use crate::contract::Class;
use crate::contract::lock::Lock;

/// Options of `gatehouse lock`.
#[derive(Debug, Clone, clap::Args)]
pub struct LockArgs {
    #[command(flatten)]
    common: Common,
}

/// Writes the lock file. What could not be asked for stays as it was in it. Exit codes: 0 all is locked, 1 a server did
/// not say all it offers, 2 usage or configuration, 3 nothing could be started, 130 interrupted.
pub async fn run(args: LockArgs) -> ExitCode {
    match lock(&args.common).await {
        Ok(whole) => ExitCode::from(if whole { 0 } else { code::FINDINGS }),
        Err(stop) => stop.exit(),
    }
}

async fn lock(common: &Common) -> Result<bool, Stop> {
    let (config, walked) = contract::walk(common).await?;
    let path = &config.contract.lock;
    let before = contract::read(path)?.unwrap_or_default();
    // What descriptions say is for whoever reviews the file: against nothing, all of it is new.
    let mut doubtful = Lock::default().diff(&walked.now, |_| true);
    doubtful.retain(|change| change.class == Class::Suspicious);
    let mut lock = walked.now.clone();
    let kept = before.iter().filter(|(key, _)| {
        let configured = config.servers.iter().any(|server| server.name == key.server);
        configured && !walked.asked.contains(&(key.server.clone(), key.kind)) && lock.get(key).is_none()
    });
    let kept: Vec<_> = kept.map(|(key, entry)| (key.clone(), entry.clone())).collect();
    kept.into_iter().for_each(|(key, entry)| lock.insert(key, entry));
    contract::write(path, &lock)?;
    let items = lock.iter().count();
    if common.json {
        contract::print(&contract::document(&doubtful, &walked, path, &[("items", json!(items))]));
    } else {
        let text = contract::text(&doubtful, &walked);
        contract::print(&format!("{text}{}: {items} definitions locked\n", path.display()));
    }
    Ok(walked.silent.is_empty())
}
