//! How children start, die, are stopped and restarted.

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::*;

/// A directory, and a script that knows it as `DIR` and writes its process id to `DIR/pid`.
fn marked(body: &str) -> (TempDir, Command) {
    let dir = tempfile::tempdir().unwrap();
    let prelude = "
DIR = os.environ['MARKS'] + '/'
def mark(name, text='x'):
    with open(DIR + name + '.new', 'w') as f: f.write(text)
    os.rename(DIR + name + '.new', DIR + name)
mark('pid', str(os.getpid()))
";
    let command = with_env(script(&format!("{prelude}\n{body}")), &[("MARKS", dir.path())]);
    (dir, command)
}

async fn pid(dir: &TempDir, name: &str) -> u32 {
    let path: PathBuf = dir.path().join(name);
    until(|| path.exists()).await;
    read(&path).parse().unwrap()
}

fn sigkill(pid: u32) {
    kill(Pid::from_raw(pid as i32), Signal::SIGKILL).unwrap();
}

/// All tasks of a link have ended: with them its pipes are closed.
async fn at_rest(tasks: &Tasks) {
    until(|| tasks.running() == 0).await;
}

/// F-036a: a child that ends at the end of its input is let to; no signal is needed.
#[tokio::test]
async fn f036a_a_child_that_obeys_eof_ends_by_itself() {
    let (dir, command) = marked("for m in asks(): answer(m, {})\ntime.sleep(0.1)\nmark('end')");
    let tasks = Tasks::new();
    let link = StdioLink::new(command, patient(), tasks.clone());
    let connection = link.connect().await.unwrap();
    call(&connection, 1, "{}").await.unwrap();
    within(link.stop()).await;
    assert!(dir.path().join("end").exists());
    assert!(reaped(pid(&dir, "pid").await));
    assert_eq!(link.connect().await.unwrap_err(), LinkError::Closed, "a stopped link stays stopped");
    at_rest(&tasks).await;
}

/// F-036b: the end of input is ignored: SIGTERM comes after the grace, and is obeyed.
#[tokio::test]
async fn f036b_sigterm_follows_an_ignored_eof() {
    let (dir, command) = marked(
        "def term(*_):
    mark('term')
signal.signal(signal.SIGTERM, term)
for m in asks(): answer(m, {})
mark('eof')
while not os.path.exists(DIR + 'term'): time.sleep(0.01)",
    );
    let grace = Grace { eof: Duration::from_millis(300), term: NEVER };
    let link = StdioLink::new(command, StdioOptions { grace, ..options() }, Tasks::new());
    call(&link.connect().await.unwrap(), 1, "{}").await.unwrap();
    within(link.stop()).await;
    assert!(dir.path().join("eof").exists(), "its input was closed first");
    assert!(dir.path().join("term").exists());
}

/// F-036c: both ignored: SIGKILL.
#[tokio::test]
async fn f036c_sigkill_follows_an_ignored_sigterm() {
    let (dir, command) = marked(
        "signal.signal(signal.SIGTERM, lambda *_: mark('term'))
for m in asks(): answer(m, {})
while True: time.sleep(1)",
    );
    let grace = Grace { eof: Duration::from_millis(100), term: Duration::from_secs(3) };
    let link = StdioLink::new(command, StdioOptions { grace, ..options() }, Tasks::new());
    call(&link.connect().await.unwrap(), 1, "{}").await.unwrap();
    within(link.stop()).await;
    assert!(dir.path().join("term").exists(), "it was asked first");
    assert!(reaped(pid(&dir, "pid").await));
}

/// F-036d: a wrapper's grandchild goes with it, whether the wrapper obeys, is killed, or dies by itself.
#[tokio::test]
async fn f036d_grandchildren_do_not_survive() {
    let wrapper = "
import subprocess
grandchild = subprocess.Popen([sys.executable, '-c', '''
import signal, time, os
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(os.environ[\"MARKS\"] + \"/ready\", \"w\").close()
time.sleep(100000)
'''])
while not os.path.exists(DIR + 'ready'): time.sleep(0.01)
mark('grandchild', str(grandchild.pid))
for m in asks(): answer(m, {})
";
    for tail in ["", "while True: time.sleep(1)"] {
        let (dir, command) = marked(&format!("{wrapper}\n{tail}"));
        let link = StdioLink::new(command, hasty(), Tasks::new());
        call(&link.connect().await.unwrap(), 1, "{}").await.unwrap();
        let grandchild = pid(&dir, "grandchild").await;
        assert!(alive(grandchild));
        within(link.stop()).await;
        assert!(!alive(grandchild));
    }
    let (dir, command) = marked(wrapper);
    let link = StdioLink::new(command, patient(), Tasks::new());
    let connection = link.connect().await.unwrap();
    let grandchild = pid(&dir, "grandchild").await;
    let mut waiting = connection.open(1);
    sigkill(pid(&dir, "pid").await);
    // The grandchild holds the pipe open and ignores SIGTERM: nobody may wait for it.
    assert_eq!(within(waiting.recv()).await.unwrap_err(), LinkError::Exited);
    within(connection.gone()).await;
    assert!(!alive(grandchild));
    within(link.stop()).await;
}

/// F-036: an answer that comes during the stop is delivered then, not after it.
#[tokio::test]
async fn f036_a_result_is_not_delayed_by_the_stop() {
    let (dir, command) = marked(
        "m = ask()
assert ask() is None
answer(m, 'late')
while not os.path.exists(DIR + 'go'): time.sleep(0.01)",
    );
    let tasks = Tasks::new();
    let link = StdioLink::new(command, patient(), tasks.clone());
    let connection = link.connect().await.unwrap();
    let mut inbox = connection.open(1);
    connection.send(&request(1, "echo", "{}")).await.unwrap();
    let stop = {
        let link = link.clone();
        tasks.spawn("stop", async move { link.stop().await })
    };
    assert_eq!(result(&within(inbox.recv()).await.unwrap()), "\"late\"");
    assert!(!stop.is_finished(), "the child still runs");
    assert_eq!(connection.send(&"{}".into()).await, Err(LinkError::Closed), "and takes no more");
    std::fs::write(dir.path().join("go"), "").unwrap();
    within(stop).await.unwrap();
}

/// F-037 i, ii: a killed child fails what waits, and the next call has a new one.
#[tokio::test]
async fn f037_a_killed_child_is_noticed_and_replaced() {
    let (dir, command) = marked(ECHO);
    let tasks = Tasks::new();
    let link = StdioLink::new(command, options(), tasks.clone());
    let first = link.connect().await.unwrap();
    call(&first, 1, "{}").await.unwrap();
    assert!(link.is_up());
    let (mut waiting, mut unclaimed) = (first.open(2), first.unclaimed().unwrap());
    let child = pid(&dir, "pid").await;
    sigkill(child);
    assert_eq!(within(waiting.recv()).await.unwrap_err(), LinkError::Exited);
    assert_eq!(within(first.closed()).await, LinkError::Exited);
    assert!(within(unclaimed.recv()).await.is_none());
    assert!(!link.is_up() && first.is_closed());
    assert_eq!(first.send(&"{}".into()).await, Err(LinkError::Exited));
    within(first.gone()).await;
    assert!(reaped(child));
    let second = link.connect().await.unwrap();
    assert_eq!((first.generation(), second.generation(), link.restarts()), (1, 2, 1));
    assert_eq!(call(&second, 3, "[3]").await.unwrap(), "[3]");
    within(link.stop()).await;
    at_rest(&tasks).await;
}

/// F-037 iii, iv: after the second failure in a row starts are held back, and no process is started meanwhile.
#[tokio::test]
async fn f037_a_child_that_dies_at_start_is_held_back() {
    let (dir, command) = marked("with open(DIR + 'starts', 'a') as f: f.write('x')");
    let link = StdioLink::new(command, options(), Tasks::new());
    let retry_after = within(async {
        loop {
            match link.connect().await {
                Ok(connection) => assert_eq!(connection.closed().await, LinkError::Exited),
                Err(LinkError::BackedOff { retry_after }) => break retry_after,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await;
    assert!(retry_after <= Duration::from_millis(1250), "{retry_after:?}");
    let starts = 1 + link.restarts();
    assert!(starts >= 2, "one restart is free");
    let mut recovered = None;
    within(async {
        while recovered.is_none() {
            match link.connect().await {
                Ok(connection) => recovered = Some(connection),
                Err(LinkError::BackedOff { retry_after }) => tokio::time::sleep(retry_after).await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await;
    within(recovered.unwrap().gone()).await;
    assert_eq!(read(&dir.path().join("starts")).len() as u64, starts + 1, "no start was hidden");
}

/// F-038: a child that never answers is given up without a trace, each time.
#[tokio::test]
async fn f038_abandoned_children_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    let argv = command(&["/bin/sh", "-c", "echo $$ >> \"$PIDS\"; exec sleep 100000"]);
    let tasks = Tasks::new();
    let link = StdioLink::new(with_env(argv, &[("PIDS", &pids)]), hasty(), tasks.clone());
    let mut attempts = 0;
    while attempts < 3 {
        let connection = match link.connect().await {
            Ok(connection) => connection,
            Err(LinkError::BackedOff { retry_after }) => {
                tokio::time::sleep(retry_after).await;
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        attempts += 1;
        let mut handshake = connection.open(1);
        connection.send(&request(1, "initialize", "{}")).await.unwrap();
        until(|| read(&pids).lines().count() == attempts).await;
        let started: Vec<u32> = read(&pids).lines().map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(started.iter().filter(|pid| alive(**pid)).count(), 1, "one child at a time");
        connection.abandon();
        assert_eq!(within(handshake.recv()).await.unwrap_err(), LinkError::Closed, "at once");
        within(connection.gone()).await;
        assert!(started.iter().all(|pid| reaped(*pid)));
        at_rest(&tasks).await;
    }
    assert!(matches!(link.connect().await, Err(LinkError::BackedOff { .. })), "it counts as a failure");
    within(link.stop()).await;
}

/// One child at a time: a start waits until the one before is gone, however long that takes it.
#[tokio::test]
async fn a_start_waits_for_the_end_of_the_child_before() {
    let (dir, command) = marked(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)
mark('up-' + str(os.getpid()))
while True: time.sleep(1)",
    );
    let link = StdioLink::new(command, hasty(), Tasks::new());
    let first = link.connect().await.unwrap();
    let child = pid(&dir, "pid").await;
    until(|| dir.path().join(format!("up-{child}")).exists()).await;
    first.abandon();
    assert!(alive(child), "it ignores what it can");
    assert_eq!(within(link.connect()).await.unwrap().generation(), 2);
    assert!(!alive(child));
    within(link.stop()).await;
}

/// Many callers at once start one child.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_are_single_flight() {
    let (link, _tasks) = link(script(ECHO));
    let all = futures_util::future::join_all((0..50).map(|_| link.connect())).await;
    assert!(all.into_iter().all(|connection| connection.unwrap().generation() == 1));
    within(link.stop()).await;
}

/// A child that closes its output can answer nobody: it is replaced although it still runs.
#[tokio::test]
async fn a_closed_output_is_an_end() {
    let (dir, command) = marked("m = ask()\nos.close(1)\nwhile True: time.sleep(1)");
    let link = StdioLink::new(command, hasty(), Tasks::new());
    let connection = link.connect().await.unwrap();
    assert_eq!(call(&connection, 1, "{}").await, Err(LinkError::Exited));
    within(connection.gone()).await;
    assert!(reaped(pid(&dir, "pid").await));
    within(link.stop()).await;
}

/// F-040 with a process: the one that writes without end is stopped; the link can start another.
#[tokio::test]
async fn f040_an_endless_line_ends_the_child() {
    let (link, _tasks) = link(script("m = ask()\nwhile True: sys.stdout.write('x' * 65536)"));
    let connection = link.connect().await.unwrap();
    assert_eq!(call(&connection, 1, "{}").await, Err(LinkError::Overflow(MAX_LINE)));
    within(connection.gone()).await;
    assert_eq!(link.counts().overflows, 1);
    assert_eq!(link.connect().await.unwrap().generation(), 2);
    within(link.stop()).await;
}

/// No path leaves a process behind: the link dropped, or all tasks cancelled.
#[tokio::test]
async fn dropped_and_cancelled_links_leave_nothing() {
    let stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nmark('up')\nwhile True: time.sleep(1)";
    let (dir, command) = marked(stubborn);
    let tasks = Tasks::new();
    let link = StdioLink::new(command, hasty(), tasks.clone());
    let connection = link.connect().await.unwrap();
    until(|| dir.path().join("up").exists()).await;
    drop(link);
    within(connection.gone()).await;
    assert!(reaped(pid(&dir, "pid").await));

    let (dir, command) =
        marked(&format!("if os.fork() == 0: mark('grandchild', str(os.getpid()))\n{stubborn}"));
    let link = StdioLink::new(command, patient(), tasks.clone());
    let connection = link.connect().await.unwrap();
    let mut waiting = connection.open(1);
    let (child, grandchild) = (pid(&dir, "pid").await, pid(&dir, "grandchild").await);
    until(|| dir.path().join("up").exists()).await;
    assert!(tasks.shutdown(Duration::from_secs(30)).await);
    assert_eq!(within(waiting.recv()).await.unwrap_err(), LinkError::Closed);
    until(|| !alive(child) && !alive(grandchild)).await;
}

/// What cannot start says why, names no value of the environment, and is held back from the second time on.
#[tokio::test]
async fn failed_starts_say_why() {
    let spawn = |command: Command| async move {
        let (link, _tasks) = link(with_env(command, &[("TOKEN", Path::new("s3cr3t-value"))]));
        let first = link.connect().await.unwrap_err();
        assert_eq!(link.connect().await.unwrap_err(), first);
        assert!(matches!(link.connect().await, Err(LinkError::BackedOff { .. })));
        assert!(!link.is_up());
        assert_eq!(link.restarts(), 0);
        assert!(!format!("{first} {first:?} {link:?}").contains("s3cr3t"));
        match first {
            LinkError::Spawn { what, reason } => (what, reason),
            other => panic!("{other}"),
        }
    };
    let missing = spawn(command(&["/no/such/program"])).await;
    assert_eq!(missing.0, "command");
    assert!(missing.1.contains("No such file"), "{}", missing.1);
    assert_eq!(spawn(command(&[])).await.0, "command");
    let nowhere = Command { cwd: Some("/no/such/dir".into()), ..command(&["/bin/true"]) };
    assert_eq!(spawn(nowhere).await.0, "cwd");
    let nobody = Command { user: Some("no-such-user".into()), ..command(&["/bin/true"]) };
    assert_eq!(spawn(nobody).await.0, "user");
}
