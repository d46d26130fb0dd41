//! How a child is started: argv without a shell, a cleared environment, its own process group (G-58).

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::config;
use crate::outbound::link::error::LinkError;

/// The hidden command of our own executable that sets `user` and `rlimit`, then becomes the child.
pub const LAUNCHER: &str = "__exec";
/// All that a child inherits of our environment.
const PASSED: [&str; 3] = ["PATH", "LANG", "TMPDIR"];
/// `command[0]` that stands for the running executable.
const OURSELVES: &str = "gatehouse";

/// Starts the child with three pipes.
pub(super) fn spawn(
    spec: &config::Command,
    executable: Option<&Path>,
    home: Option<&Path>,
) -> Result<Child, LinkError> {
    if let Some(cwd) = &spec.cwd
        && !cwd.is_dir()
    {
        return Err(LinkError::spawn("cwd", &io::ErrorKind::NotADirectory.into()));
    }
    let mut command = command(&argv(spec, executable)?)?;
    command.env_clear();
    for name in PASSED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    if let Some(home) = home {
        command.env("HOME", home);
    }
    command.envs(spec.env.iter().map(|(name, value)| (name, value.expose())));
    if let Some(cwd) = &spec.cwd {
        command.current_dir(cwd);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    command.spawn().map_err(|error| LinkError::spawn("command", &error))
}

fn command(argv: &[OsString]) -> Result<Command, LinkError> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(LinkError::spawn("command", &io::ErrorKind::InvalidInput.into()));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// The words to start: those of the configuration, behind the launcher where `user` or `rlimit` ask for it.
fn argv(spec: &config::Command, executable: Option<&Path>) -> Result<Vec<OsString>, LinkError> {
    let mut argv: Vec<OsString> = spec.argv.iter().map(Into::into).collect();
    let launched = spec.user.is_some() || spec.rlimit != config::Rlimit::default();
    if argv.first().is_some_and(|word| word == OURSELVES) {
        argv[0] = ourselves(executable)?.into();
    }
    if launched && !argv.is_empty() {
        let mut launcher = vec![ourselves(executable)?.into()];
        launcher.append(&mut launcher_arguments(spec));
        launcher.append(&mut argv);
        argv = launcher;
    }
    Ok(argv)
}

fn ourselves(executable: Option<&Path>) -> Result<PathBuf, LinkError> {
    match executable {
        Some(path) => Ok(path.to_owned()),
        None => std::env::current_exe().map_err(|error| LinkError::spawn("own executable", &error)),
    }
}

/// What `cli::exec` reads.
fn launcher_arguments(spec: &config::Command) -> Vec<OsString> {
    let mut arguments = vec![LAUNCHER.into(), format!("--parent={}", std::process::id()).into()];
    if let Some(user) = &spec.user {
        arguments.push(format!("--user={user}").into());
    }
    let limits =
        [("memory", spec.rlimit.memory), ("files", spec.rlimit.files), ("processes", spec.rlimit.processes)];
    for (name, limit) in limits {
        if let Some(limit) = limit {
            arguments.push(format!("--{name}={limit}").into());
        }
    }
    arguments.push("--".into());
    arguments
}

/// Makes this process non-dumpable: no core file with tokens in it, and no reading of our memory or environment
/// through `/proc` by children that run as the same user. Call it first thing; a child's `exec` undoes it for the child.
pub fn harden_process() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}
