//! Arguments → command → exit code.

use std::process::ExitCode;

use clap::Parser as _;
use gatehouse::cli::{self, Cli, Command};
use gatehouse::tasks::Tasks;

/// Measured to cost less than the system's allocator, in time and in memory held.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    match &command {
        Command::Exec(args) => return cli::exec::run(args),
        Command::Import(args) => return cli::import::run(args),
        _ => {}
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(_) => return ExitCode::from(cli::code::START),
    };
    let exit = runtime.block_on(async {
        match command {
            Command::Serve(args) => cli::serve::run(args).await,
            Command::Explain(args) => cli::explain::run(args).await,
            Command::Check(args) => cli::check::run(args).await,
            Command::Lock(args) => cli::lock::run(args).await,
            Command::Diff(args) => cli::diff::run(args).await,
            Command::Approve(args) => cli::approve::run(args).await,
            Command::Contract(args) => cli::trial::run(args).await,
            Command::Demo(args) => match cli::demo::run(args, Tasks::new()).await {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => cli::complain(&format!("{error:#}"), cli::code::START),
            },
            Command::Exec(_) | Command::Import(_) => ExitCode::SUCCESS,
        }
    });
    // A read of standard input in flight would hold the runtime back.
    runtime.shutdown_background();
    exit
}
