//! The hidden `__exec`: sets limits and account on itself, then becomes a server's process.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::{CommandExt as _, parent_id};
use std::process::{Command, ExitCode};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Uid, setgid, setgroups, setuid};

use crate::outbound::link::stdio::Account;

/// Exit code when the program was found but could not become our process.
const NOT_EXECUTABLE: u8 = 126;
/// Exit code when there is no such program.
const NOT_FOUND: u8 = 127;

/// What the stdio link asks for.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ExecArgs {
    /// The gateway's process id: when it is gone already, nothing is started.
    #[arg(long)]
    pub parent: Option<u32>,
    /// Account to become, by name or number.
    #[arg(long)]
    pub user: Option<String>,
    /// Bytes of address space.
    #[arg(long)]
    pub memory: Option<u64>,
    /// Open files.
    #[arg(long)]
    pub files: Option<u64>,
    /// Processes of the account.
    #[arg(long)]
    pub processes: Option<u64>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    pub argv: Vec<OsString>,
}

/// Becomes the program; returns only when that failed, with the reason on standard error.
pub fn run(args: &ExecArgs) -> ExitCode {
    let failure = become_program(args);
    // Standard error is the gateway's log; if it is closed there is nobody to tell.
    let _ = writeln!(io::stderr(), "gatehouse: {failure}");
    ExitCode::from(failure.code())
}

/// The step that failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the gateway is gone")]
    Orphaned,
    #[error("rlimit.{0} cannot be set: {1}")]
    Limit(&'static str, Errno),
    #[error("there is no such user: {0}")]
    NoUser(io::Error),
    #[error("the user cannot be changed: {0}")]
    User(Errno),
    #[error("the signal for the gateway's death cannot be set: {0}")]
    DeathSignal(Errno),
    #[error("the command cannot be started: {0}")]
    Exec(io::Error),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Exec(error) if error.kind() == io::ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        }
    }
}

fn become_program(args: &ExecArgs) -> Failure {
    match prepare(args) {
        Ok(mut command) => Failure::Exec(command.exec()),
        Err(failure) => failure,
    }
}

/// Everything before the exec, in an order where each step still may do its work.
fn prepare(args: &ExecArgs) -> Result<Command, Failure> {
    let account = args.user.as_deref().map(Account::find).transpose().map_err(Failure::NoUser)?;
    let (program, arguments) =
        args.argv.split_first().ok_or_else(|| Failure::Exec(io::ErrorKind::InvalidInput.into()))?;
    let mut command = Command::new(program);
    command.args(arguments);
    limit("files", Resource::RLIMIT_NOFILE, args.files)?;
    limit("processes", Resource::RLIMIT_NPROC, args.processes)?;
    if let Some(account) = &account {
        switch(account).map_err(Failure::User)?;
    }
    // After the change of user, which clears it; before the check, so that no death goes unseen.
    die_with_parent()?;
    if args.parent.is_some_and(|parent| parent != parent_id()) {
        return Err(Failure::Orphaned);
    }
    // Last: nothing after it may need memory of any size.
    limit("memory", Resource::RLIMIT_AS, args.memory)?;
    Ok(command)
}

/// Sets soft and hard limit. Where the hard limit is lower already and we may not raise it, it stays: stricter.
fn limit(name: &'static str, resource: Resource, value: Option<u64>) -> Result<(), Failure> {
    let Some(value) = value else {
        return Ok(());
    };
    let failure = |error| Failure::Limit(name, error);
    let (_, hard) = getrlimit(resource).map_err(failure)?;
    match setrlimit(resource, value, value) {
        Err(Errno::EPERM) if hard < value => setrlimit(resource, hard, hard).map_err(failure),
        result => result.map_err(failure),
    }
}

/// Becomes the account for good: groups first, then group, then user.
fn switch(account: &Account) -> Result<(), Errno> {
    if account.uid == Uid::effective() && account.uid == Uid::current() {
        return Ok(());
    }
    match &account.name {
        Some(name) => {
            let name = std::ffi::CString::new(name.as_str()).map_err(|_| Errno::EINVAL)?;
            nix::unistd::initgroups(&name, account.gid)?;
        }
        None => setgroups(&[])?,
    }
    setgid(account.gid)?;
    setuid(account.uid)
}

/// SIGTERM when the gateway dies without a stop: wrappers pass it on, which they cannot do with SIGKILL.
///
/// Linux sends it when the *thread* that started us ends. Children are started on runtime threads, which live as
/// long as the process.
fn die_with_parent() -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(Signal::SIGTERM).map_err(Failure::DeathSignal)?;
    Ok(())
}

#[cfg(test)]
mod tests;
