//! The launcher with real processes: this test binary, wrapped, plays the `gatehouse` executable.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::config::{self, Rlimit};
use crate::outbound::link::stdio::{LAUNCHER, LinkError, StdioLink, StdioOptions};
use crate::protocol::message::ReceivedKind;
use crate::tasks::Tasks;

/// Names the file with the words after `gatehouse`, each ended by NUL.
const WORDS: &str = "GATEHOUSE_TEST_WORDS";

#[derive(clap::Parser)]
struct Cli {
    #[command(subcommand)]
    command: Commands,
}

#[derive(clap::Subcommand)]
enum Commands {
    #[command(name = LAUNCHER, hide = true)]
    Exec(ExecArgs),
}

/// No test of its own: becomes what the wrapper of [`executable`] was asked for.
#[test]
fn plays_the_executable() {
    let Some(words) = std::env::var_os(WORDS) else {
        return;
    };
    let words = std::fs::read_to_string(words).unwrap();
    let words = ["gatehouse"].into_iter().chain(words.split_terminator('\0'));
    let Commands::Exec(args) = <Cli as clap::Parser>::parse_from(words).command;
    let failure = become_program(&args);
    let _ = writeln!(io::stderr(), "gatehouse: {failure}");
    std::process::exit(failure.code().into());
}

/// A script that hands its words to the test above; as root with groups that a change of user must leave behind.
fn executable() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let words = dir.path().join("words").display().to_string();
    let tests = std::env::current_exe().unwrap().display().to_string();
    let groups = if Uid::effective().is_root() { "setpriv --groups=7,8" } else { "" };
    let script = format!(
        "#!/bin/sh\nprintf '%s\\0' \"$@\" > '{words}'\n\
         {WORDS}='{words}' exec {groups} '{tests}' -q --exact cli::exec::tests::plays_the_executable --nocapture\n"
    );
    let path = dir.path().join("gatehouse");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    (dir, path)
}

fn launch(words: &[&str]) -> Output {
    let (_dir, path) = executable();
    Command::new(path).arg(LAUNCHER).args(words).output().unwrap()
}

/// The answer of a shell child to its first request, through the link and its launcher.
async fn asked(body: &str, user: Option<&str>, rlimit: Rlimit) -> Result<String, LinkError> {
    let (_dir, path) = executable();
    let body = format!(
        "read -r line; {body}; printf '\\n{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"%s\"}}\\n' \"$r\"; read -r line"
    );
    let argv = ["/bin/sh", "-c", &body].map(str::to_owned).to_vec();
    let user = user.map(str::to_owned);
    let spec = config::Command { argv, env: BTreeMap::new(), cwd: Some("/".into()), user, rlimit };
    let options = StdioOptions { executable: Some(path), ..StdioOptions::new("launched", 1 << 20) };
    let link = StdioLink::new(spec, options, Tasks::new());
    let work = async {
        let connection = link.connect().await?;
        let mut inbox = connection.open(1);
        connection.send(&r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#.into()).await?;
        let answer = inbox.recv().await?;
        link.stop().await;
        let ReceivedKind::Result { result, .. } = answer.kind else { panic!("{answer:?}") };
        Ok(result.of(answer.text()).trim_matches('"').to_owned())
    };
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("within a minute")
}

/// The limits of the process that asks, soft and hard: processes, files, address space.
const LIMITS: &str =
    "r=$(grep -E '^Max (processes|open files|address space)' /proc/self/limits | tr -s ' '); r=$(echo $r)";

/// The same as this process has them, where a limit is not given.
fn limits(rlimit: Rlimit) -> String {
    let line = |name: &str, unit: &str, resource, limit: Option<u64>| {
        let (soft, hard) = limit.map_or_else(|| getrlimit(resource).unwrap(), |limit| (limit, limit));
        let shown = |limit: u64| if limit == u64::MAX { "unlimited".to_owned() } else { limit.to_string() };
        format!("Max {name} {} {} {unit}", shown(soft), shown(hard))
    };
    [
        line("processes", "processes", Resource::RLIMIT_NPROC, rlimit.processes),
        line("open files", "files", Resource::RLIMIT_NOFILE, rlimit.files),
        line("address space", "bytes", Resource::RLIMIT_AS, rlimit.memory),
    ]
    .join(" ")
}

/// The limits hold in the child, soft and hard; those not given, and ours, stay as they were.
#[tokio::test]
async fn limits_are_set_before_the_child_runs() {
    let before = limits(Rlimit::default());
    let all = Rlimit { memory: Some(3 << 30), files: Some(77), processes: Some(12_345) };
    for rlimit in [all, Rlimit { files: Some(78), ..Rlimit::default() }] {
        assert_eq!(asked(LIMITS, None, rlimit).await.unwrap(), limits(rlimit));
    }
    assert_eq!(limits(Rlimit::default()), before);
}

/// The child is one process with the launcher: it leads its group, and learns of the gateway's death.
#[tokio::test]
async fn the_launcher_becomes_the_child() {
    let rlimit = Rlimit { files: Some(64), ..Rlimit::default() };
    let leads = asked("r=$(cut -d' ' -f5 /proc/$$/stat); [ $r = $$ ] && r=leads", None, rlimit).await;
    assert_eq!(leads.unwrap(), "leads");
    let asks_prctl =
        "import ctypes; s = ctypes.c_int(); ctypes.CDLL(None).prctl(2, ctypes.byref(s)); print(s.value)";
    let output = launch(&["--", "python3", "-c", asks_prctl]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        said.lines().last(),
        Some("15"),
        "SIGTERM when the gateway dies; {output:?}",
        output = output.stderr
    );
}

/// `user`: all ids, no group left over, a home of its own. Only root can become another.
#[tokio::test]
async fn a_user_is_taken_on_for_good() {
    let body = "r=$(id -u; id -ru; id -g; id -G; stat -c '%u %g %a' \"$HOME\"; touch \"$HOME/x\" && echo writes); r=$(echo $r)";
    let me = Account::find(&Uid::current().to_string()).unwrap();
    if !Uid::effective().is_root() {
        let answer = asked(body, Some(&me.uid.to_string()), Rlimit::default()).await.unwrap();
        assert!(answer.starts_with(&format!("{0} {0} {1} ", me.uid, me.gid)), "{answer}");
        let other = asked(body, Some("12345"), Rlimit::default()).await.unwrap_err();
        assert!(matches!(other, LinkError::Spawn { what: "home directory", .. }), "{other}");
        return;
    }
    let number = asked(body, Some("54321"), Rlimit::default()).await.unwrap();
    assert_eq!(number, "54321 54321 54321 54321 54321 54321 700 writes");
    let Ok(nobody) = Account::find("nobody") else {
        return;
    };
    let named = asked(body, Some("nobody"), Rlimit { files: Some(99), ..Rlimit::default() }).await.unwrap();
    let (uid, gid) = (nobody.uid, nobody.gid);
    assert_eq!(named, format!("{uid} {uid} {gid} {gid} {uid} {gid} 700 writes"));
    let back =
        launch(&["--user=nobody", "--", "/bin/sh", "-c", "setpriv --reuid=0 true 2>/dev/null || echo stuck"]);
    assert!(String::from_utf8(back.stdout).unwrap().ends_with("stuck\n"));
}

/// Each failure has its exit code and one plain sentence.
#[test]
fn failures_say_why() {
    let cases: [(&[&str], i32, &str); 5] = [
        (&["--", "/no/such/program"], 127, "the command cannot be started: No such file"),
        (&["--", "/etc/passwd"], 126, "the command cannot be started: Permission denied"),
        (&["--user=no-such-user", "--", "true"], 126, "there is no such user"),
        (&["--parent=1", "--", "true"], 126, "the gateway is gone"),
        (&["--files=1"], 2, "required arguments"),
    ];
    for (words, code, sentence) in cases {
        let output = launch(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(sentence), "{words:?}: {said}");
    }
}

/// A hard limit that we may not raise stays: it is the stricter one.
#[test]
fn a_stricter_hard_limit_stays() {
    let (_dir, path) = executable();
    let powerless = if Uid::effective().is_root() { "setpriv --bounding-set=-sys_resource" } else { "" };
    let wrapped = format!(
        "{powerless} '{}' {LAUNCHER} --files=200 -- /bin/sh -c 'ulimit -n; ulimit -H -n'",
        path.display()
    );
    let output =
        Command::new("/bin/sh").args(["-c", &format!("ulimit -n 100; exec {wrapped}")]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.ends_with("100\n100\n"), "{said} {:?}", String::from_utf8(output.stderr));
}
