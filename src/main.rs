//! A stand-in until the command line is wired.

use clap::Parser;

#[derive(Parser)]
enum Command {
    Demo(gatehouse::cli::demo::DemoArgs),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Command::Demo(args) = Command::parse();
    let ended = gatehouse::cli::demo::run(args, gatehouse::tasks::Tasks::new()).await;
    // A read of standard input in flight would hold the runtime back.
    match ended {
        Ok(()) => std::process::exit(0),
        failed => failed,
    }
}
