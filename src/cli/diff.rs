//! `gatehouse diff`: what servers offer now that differs from the approved state, classified.

use std::process::ExitCode;

use serde_json::json;

use super::code;
use super::contract::{self, Common, Stop};

mod usage;

/// Options of `gatehouse diff`.
#[derive(Debug, Clone, clap::Args)]
pub struct DiffArgs {
    #[command(flatten)]
    common: Common,
    /// Say who still uses what is on its way out, and whether it can go, instead
    #[arg(long)]
    usage: bool,
    /// Where the uses are counted, one for each replica: an address (http://127.0.0.1:9090/usage) or a file (state_dir's
    /// usage.json); without any: the running gateway, else its state_dir
    #[arg(long, value_name = "URL|FILE", requires = "usage")]
    from: Vec<String>,
    /// Uses that are older do not count
    #[arg(long, value_name = "DAYS", requires = "usage")]
    days: Option<u32>,
}

/// Prints what differs, or who uses what is on its way out. Exit codes: 0 nothing does, 1 something does or could not be
/// asked, or is still used; 2 usage, configuration, no lock file or nothing counted, 3 nothing could be started, 130 interrupted.
pub async fn run(args: DiffArgs) -> ExitCode {
    let answer = if args.usage {
        usage::run(&args.common, &args.from, args.days).await
    } else {
        diff(&args.common).await
    };
    match answer {
        Ok(same) => ExitCode::from(if same { 0 } else { code::FINDINGS }),
        Err(stop) => stop.exit(),
    }
}

async fn diff(common: &Common) -> Result<bool, Stop> {
    let (config, walked) = contract::walk(common).await?;
    let path = &config.contract.lock;
    let missing = || Stop::Usage(format!("{} does not exist: `gatehouse lock` writes it", path.display()));
    let lock = contract::read(path)?.ok_or_else(missing)?;
    let changes = walked.changes(&lock, &config);
    let worst = changes.iter().map(|change| change.class).max();
    if common.json {
        contract::print(&contract::document(&changes, &walked, path, &[("worst", json!(worst))]));
    } else {
        let total = match worst {
            Some(worst) => format!(
                "{} definitions differ from {}, the worst is {worst}\n",
                changes.len(),
                path.display()
            ),
            None => format!("nothing differs from {}\n", path.display()),
        };
        contract::print(&(contract::text(&changes, &walked) + &total));
    }
    Ok(changes.is_empty() && walked.silent.is_empty())
}
