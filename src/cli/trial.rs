//! `gatehouse contract test`: fixtures held against the running configuration, with servers that stand in for the real
//! ones, or with those.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::check::live;
use super::check::text::{clean, harmless_json};
use super::contract::{self, Stop};
use super::{code, serve};
use crate::app::Core;
use crate::config::{Config, Globs};
use crate::telemetry::logs;

mod call;
mod fixture;
mod standin;

use call::Stage;
use fixture::Fixture;
use standin::StandIns;

/// Options of `gatehouse contract`.
#[derive(Debug, Clone, Args)]
pub struct ContractArgs {
    #[command(subcommand)]
    command: ContractCommand,
}

/// What to do with contracts.
#[derive(Debug, Clone, Subcommand)]
enum ContractCommand {
    /// Replay the fixtures of a folder
    Test(TestArgs),
}

/// Options of `gatehouse contract test`.
#[derive(Debug, Clone, Args)]
struct TestArgs {
    /// The folder: a folder for each tool, with a .json file for each call
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "gatehouse.toml")]
    config: PathBuf,
    /// Call the real servers; without it stand-ins offer what the lock file holds
    #[arg(long)]
    real: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// What became of one fixture.
#[derive(Debug)]
pub(super) struct Verdict {
    file: String,
    /// Empty: it is as expected.
    problems: Vec<String>,
}

/// Replays fixtures. Exit codes: 0 all are as expected, 1 some are not, 2 usage, configuration, no lock file or no fixture,
/// 3 nothing could be started, 130 interrupted.
pub async fn run(args: ContractArgs) -> ExitCode {
    let ContractCommand::Test(args) = args.command;
    match test(&args).await {
        Ok(verdicts) => {
            print(&verdicts, args.json);
            let all = verdicts.iter().all(|verdict| verdict.problems.is_empty());
            ExitCode::from(if all { 0 } else { code::FINDINGS })
        }
        Err(stop) => stop.exit(),
    }
}

async fn test(args: &TestArgs) -> Result<Vec<Verdict>, Stop> {
    let mut config = Config::load(&args.config)?;
    let fixtures = fixture::load(&args.folder).map_err(Stop::Usage)?;
    // Who may call what, and how often, is not what fixtures are about; nor is whether a user agrees.
    config.auth = None;
    config.grants.clear();
    config.limits.clear();
    config.servers.iter_mut().for_each(|server| server.confirm = Globs::none());
    let standins = if args.real { None } else { Some(stand_in(&mut config).await?) };
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return Err(Stop::Start("signals cannot be handled".to_owned()));
    };
    let guard = logs::init("off", Some(false));
    let core = Core::start(config).map_err(|error| Stop::Start(format!("{error:#}")))?;
    let judged = tokio::select! {
        judged = replay(&core, standins.as_ref(), fixtures) => Ok(judged),
        () = serve::either(&mut term, &mut int) => Err(Stop::Interrupted),
    };
    core.stop().await;
    if let Some(standins) = standins {
        standins.stop().await;
    }
    drop(guard);
    judged
}

/// Puts servers in place of the real ones that offer what was approved.
async fn stand_in(config: &mut Config) -> Result<StandIns, Stop> {
    let path = config.contract.lock.clone();
    let missing = || {
        let said = format!("{} does not exist: `gatehouse lock` writes it, or use --real", path.display());
        Stop::Usage(said)
    };
    let lock = contract::read(&path)?.ok_or_else(missing)?;
    let standins = StandIns::start(&lock, config).await;
    standins.map_err(|error| Stop::Start(format!("stand-ins cannot listen: {}", error.kind())))
}

async fn replay(core: &Core, standins: Option<&StandIns>, fixtures: Vec<(String, Fixture)>) -> Vec<Verdict> {
    // The lists are there before the first call.
    live::contact_all(core).await;
    let stage = Stage::new(core, standins);
    let mut verdicts = Vec::with_capacity(fixtures.len());
    for (file, fixture) in fixtures {
        let problems = match stage.play(&fixture).await {
            Ok(played) => fixture.judge(&played),
            Err(problem) => vec![problem],
        };
        verdicts.push(Verdict { file, problems });
    }
    verdicts
}

fn print(verdicts: &[Verdict], json: bool) {
    let failed = verdicts.iter().filter(|verdict| !verdict.problems.is_empty()).count();
    let passed = verdicts.len() - failed;
    if json {
        let all: Vec<Value> = verdicts
            .iter()
            .map(|one| json!({ "file": one.file, "ok": one.problems.is_empty(), "problems": one.problems }))
            .collect();
        let document = json!({ "fixtures": all, "passed": passed, "failed": failed });
        contract::print(&(harmless_json(&format!("{document:#}")) + "\n"));
        return;
    }
    let mut out = String::new();
    for verdict in verdicts {
        let word = if verdict.problems.is_empty() { "ok  " } else { "FAIL" };
        out += &format!("{word} {}\n", clean(&verdict.file));
        for problem in &verdict.problems {
            out += &format!("     {}\n", clean(problem));
        }
    }
    contract::print(&(out + &format!("{passed} passed, {failed} failed\n")));
}
