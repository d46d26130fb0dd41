//! The command line: one file a command.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod approve;
pub mod check;
mod contract;
pub mod demo;
pub mod diff;
pub mod exec;
pub mod explain;
pub mod import;
pub mod lock;
pub mod serve;
pub mod trial;

/// One MCP endpoint for many MCP servers.
#[derive(Debug, Parser)]
#[command(name = "gatehouse", version, about)]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway
    Serve(serve::ServeArgs),
    /// Say what is wrong with a configuration and with the servers in it
    Check(check::CheckArgs),
    /// Say whether a caller may use a tool, and why
    Explain(explain::ExplainArgs),
    /// Write down what every server offers, as the approved state
    Lock(lock::LockArgs),
    /// Say what servers offer now that differs from what was approved
    Diff(diff::DiffArgs),
    /// Take over what differs
    Approve(approve::ApproveArgs),
    /// Hold fixtures against the configuration
    Contract(trial::ContractArgs),
    /// Turn the servers of an MCP client's file into a configuration
    Import(import::ImportArgs),
    /// Run a small MCP server, to try things with
    Demo(demo::DemoArgs),
    /// Become a server's process with limits and account set
    #[command(name = "__exec", hide = true)]
    Exec(exec::ExecArgs),
}

/// Exit codes (design §9).
pub mod code {
    /// Findings, denied, differences.
    pub const FINDINGS: u8 = 1;
    /// Usage or configuration.
    pub const CONFIG: u8 = 2;
    /// Could not start.
    pub const START: u8 = 3;
    /// Stopped at once by a second signal.
    pub const INTERRUPTED: u8 = 130;
}

/// Says what is wrong, where there is no log, and gives the exit code.
pub fn complain(problem: &impl std::fmt::Display, code: u8) -> ExitCode {
    // If standard error is closed there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{problem}");
    ExitCode::from(code)
}
