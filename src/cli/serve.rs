//! `gatehouse serve`: the gateway until a signal ends it.

use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{code, complain};
use crate::app::App;
use crate::config::{Config, LogFormat};
use crate::telemetry::logs;

/// Options of `gatehouse serve`.
#[derive(Debug, Clone, clap::Args)]
pub struct ServeArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "gatehouse.toml")]
    pub config: PathBuf,
}

/// Runs until SIGTERM or SIGINT; a second one ends at once. A changed file, and SIGHUP, are another configuration.
pub async fn run(args: ServeArgs) -> ExitCode {
    let (config, files) = Config::read(&args.config);
    let config = match config {
        Ok(config) => config,
        Err(problems) => return complain(&problems, code::CONFIG),
    };
    let json = config.telemetry.log_format.map(|format| format == LogFormat::Json);
    let logs = match logs::init(&config.telemetry.log, json) {
        Ok(logs) => logs,
        Err(problem) => return complain(&problem, code::CONFIG),
    };
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    // Before anything listens: a signal that came sooner than its handler would end the process undrained.
    let signals =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()));
    let (Ok(mut term), Ok(mut int), Ok(hangup)) = signals else {
        return complain(&"signals cannot be handled", code::START);
    };
    // One for each core: a call that has begun on one stays there.
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let exit = match App::start(config, threads).await {
        Ok(app) => {
            app.follow(args.config, files, hangup, logs.level.clone());
            attend(app, &mut term, &mut int).await
        }
        Err(error) => {
            tracing::error!(error = %format!("{error:#}"), "could not start");
            ExitCode::from(code::START)
        }
    };
    // Dropping it writes what is queued.
    drop(logs);
    exit
}

async fn attend(app: App, term: &mut Signal, int: &mut Signal) -> ExitCode {
    either(term, int).await;
    tokio::select! {
        () = app.stop() => ExitCode::SUCCESS,
        () = either(term, int) => ExitCode::from(code::INTERRUPTED),
    }
}

pub(super) async fn either(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
