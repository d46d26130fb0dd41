//! `gatehouse check`: what is wrong with a configuration, and with the servers in it, before it is deployed.

use std::io::{IsTerminal as _, Write as _, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::code;
use crate::app::Core;
use crate::config::Config;
use crate::telemetry::logs;

mod endpoints;
mod files;
mod grants;
pub(super) mod live;
pub mod report;
mod servers;
#[cfg(test)]
mod tests;
pub(super) mod text;

use live::Contact;
use report::Report;
use text::Style;

/// Options of `gatehouse check`.
#[derive(Debug, Clone, clap::Args)]
pub struct CheckArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "gatehouse.toml")]
    pub config: PathBuf,
    /// Look at the file only, contact no server
    #[arg(long)]
    pub offline: bool,
    /// Treat warnings as errors
    #[arg(long)]
    pub strict: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// What a server's process says on standard error is often the only hint why it is dead; all else that
/// could be logged is in the report.
const LOG: &str =
    "off,gatehouse::outbound::link::stdio::stderr=info,gatehouse::outbound::link::stdio::child=warn";

/// Prints the report to standard output. Exit codes: 0 no errors, 1 errors, 2 the configuration cannot be
/// used, 3 nothing could be started, 130 interrupted.
pub async fn run(args: CheckArgs) -> ExitCode {
    let mut report = Report::new(args.config.clone(), args.strict, args.offline);
    match Config::load(&args.config) {
        Ok(config) => {
            report.config.warnings = config.warnings();
            let seen = files::look(&config, &args.config);
            report.config.warnings.extend(seen.warnings);
            report.config.problems = seen.problems;
            // With such files nothing can be asked as it will be.
            if args.offline || !report.config.problems.is_empty() {
                fill(&mut report, &config, None);
            } else {
                let guard = logs::init(LOG, Some(false));
                let outcome = ask(&config).await;
                // Before the report: it writes what is queued.
                drop(guard);
                match outcome {
                    Outcome::Asked(contacts) => fill(&mut report, &config, Some(&contacts)),
                    Outcome::Failed(failure) => {
                        fill(&mut report, &config, None);
                        report.failure = Some(failure);
                    }
                    Outcome::Interrupted => return ExitCode::from(code::INTERRUPTED),
                }
            }
        }
        Err(problems) => report.config.problems = problems.iter().cloned().collect(),
    }
    report.close();
    print(&report, args.json);
    ExitCode::from(exit_code(&report))
}

/// What became of asking.
enum Outcome {
    /// What each server answered, in file order.
    Asked(Vec<Contact>),
    /// Nothing could be started.
    Failed(String),
    /// A signal came first.
    Interrupted,
}

/// Asks all servers; whatever happens, their processes are gone afterwards.
async fn ask(config: &Config) -> Outcome {
    let failed = |error: &anyhow::Error| Outcome::Failed(format!("{error:#}"));
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    let (mut term, mut int) = match signals {
        (Ok(term), Ok(int)) => (term, int),
        (Err(error), _) | (_, Err(error)) => return failed(&error.into()),
    };
    let core = match Core::start(config.clone()) {
        Ok(core) => core,
        Err(error) => return failed(&error),
    };
    let outcome = tokio::select! {
        contacts = live::contact_all(&core) => Outcome::Asked(contacts),
        () = either(&mut term, &mut int) => Outcome::Interrupted,
    };
    core.stop().await;
    outcome
}

async fn either(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

/// What there is to say of servers and endpoints; `None`: nobody was asked.
fn fill(report: &mut Report, config: &Config, contacts: Option<&[Contact]>) {
    report
        .config
        .warnings
        .extend(contacts.map(|contacts| grants::doubts(config, contacts)).unwrap_or_default());
    let servers = config.servers.iter().enumerate();
    report.servers = servers
        .map(|(index, server)| match contacts.and_then(|contacts| contacts.get(index)) {
            Some(contact) => servers::asked(server, contact),
            None => servers::unasked(server),
        })
        .collect();
    let endpoints = config.endpoints.iter();
    report.endpoints = endpoints
        .map(|endpoint| match contacts {
            Some(contacts) => endpoints::asked(config, endpoint, contacts),
            None => endpoints::unasked(config, endpoint),
        })
        .collect();
}

fn print(report: &Report, json: bool) {
    let text = if json {
        // The report holds nothing that JSON cannot.
        let document = serde_json::to_string_pretty(report).unwrap_or_default();
        text::harmless_json(&document) + "\n"
    } else {
        let colour = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        text::render(report, Style { colour })
    };
    // When nobody reads, the exit code still tells.
    let _ = stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
}

const fn exit_code(report: &Report) -> u8 {
    if !report.config.problems.is_empty() {
        code::CONFIG
    } else if report.failure.is_some() {
        code::START
    } else if report.summary.errors > 0 {
        code::FINDINGS
    } else {
        0
    }
}
