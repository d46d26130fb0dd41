//! The link against real children and against memory: shared pieces, then a file per subject.

mod framing;
mod life;
mod lines;
mod routing;
mod sandbox;
mod talk;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use super::{Connection, Grace, LinkError, StdioLink, StdioOptions};
use crate::config::{Command, Rlimit, Secret};
use crate::protocol::message::{Received, ReceivedKind};
use crate::tasks::Tasks;

const MAX_LINE: usize = 1 << 20;
/// So long that a test which needs it to pass is a test that fails.
const NEVER: Duration = Duration::from_secs(3600);

/// Fails a test that hangs.
async fn within<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("within a minute")
}

/// Waits for something another process does.
async fn until(mut condition: impl FnMut() -> bool) {
    within(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A Python interpreter that needs nothing of its environment (wrappers look for files in HOME).
fn python() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let found = std::process::Command::new("python3")
            .args(["-c", "import sys; print(sys.executable)"])
            .output()
            .expect("the tests need python3");
        String::from_utf8(found.stdout).unwrap().trim().to_owned()
    })
}

fn command(argv: &[&str]) -> Command {
    Command {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        env: BTreeMap::new(),
        cwd: None,
        user: None,
        rlimit: Rlimit::default(),
    }
}

/// What the scripts share: `say` writes one message, `ask` reads one (`None` at the end of input).
const PRELUDE: &str = r#"
import sys, os, json, time, signal
sys.stdin.reconfigure(encoding="utf-8", newline="\n")
def say(m):
    sys.stdout.write((m if isinstance(m, str) else json.dumps(m)) + "\n")
    sys.stdout.flush()
def ask():
    line = sys.stdin.readline()
    return json.loads(line) if line else None
def answer(m, result):
    say({"jsonrpc": "2.0", "id": m["id"], "result": result})
def asks():
    while (m := ask()) is not None:
        yield m
"#;

/// Answers every request with its own params.
const ECHO: &str = "for m in asks(): answer(m, m.get('params'))";

fn script(body: &str) -> Command {
    command(&[python(), "-c", &format!("{PRELUDE}\n{body}")])
}

fn with_env(mut command: Command, env: &[(&str, &Path)]) -> Command {
    for (name, value) in env {
        command.env.insert((*name).to_owned(), Secret::new(value.to_str().unwrap()));
    }
    command
}

fn options() -> StdioOptions {
    StdioOptions::new("unit", MAX_LINE)
}

fn patient() -> StdioOptions {
    StdioOptions { grace: Grace { eof: NEVER, term: NEVER }, ..options() }
}

fn hasty() -> StdioOptions {
    let short = Duration::from_millis(200);
    StdioOptions { grace: Grace { eof: short, term: short }, ..options() }
}

fn link(command: Command) -> (StdioLink, Tasks) {
    let tasks = Tasks::new();
    (StdioLink::new(command, options(), tasks.clone()), tasks)
}

fn request(id: u64, method: &str, params: &str) -> crate::protocol::edit::Parts {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#).into()
}

/// One request and its answer.
async fn call(connection: &Connection, id: u64, params: &str) -> Result<String, LinkError> {
    within(async {
        let mut inbox = connection.open(id);
        connection.send(&request(id, "echo", params)).await?;
        inbox.recv().await.map(|message| result(&message))
    })
    .await
}

/// The result's text.
fn result(message: &Received) -> String {
    match &message.kind {
        ReceivedKind::Result { result, .. } => result.of(message.text()).to_owned(),
        other => panic!("no result: {other:?}"),
    }
}

/// Whether a process exists and is no zombie.
fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Whether nothing is left of a process, not even a zombie.
fn reaped(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
