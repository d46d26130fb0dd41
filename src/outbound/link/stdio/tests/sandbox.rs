//! What a child gets of its surroundings: environment, home, directory, group, descriptors.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// What a child says about itself, as one line of JSON.
const REPORT: &str = "
m = ask()
initial = open('/proc/self/environ', 'rb').read().decode().split('\\0')
home = os.environ.get('HOME', '')
answer(m, {
    'environ': dict(pair.split('=', 1) for pair in initial if pair),
    'mode': oct(os.stat(home).st_mode) if home else '',
    'empty': os.listdir(home) == [] if home else False,
    'cwd': os.getcwd(),
    'leads': os.getpgid(0) == os.getpid(),
    'files': [os.readlink('/proc/self/fd/' + fd) for fd in os.listdir('/proc/self/fd')
              if os.path.exists('/proc/self/fd/' + fd)],
})
ask()";

async fn report(command: Command, options: StdioOptions) -> serde_json::Value {
    let link = StdioLink::new(command, options, Tasks::new());
    let connection = link.connect().await.unwrap();
    let report = call(&connection, 1, "{}").await.unwrap();
    within(link.stop()).await;
    serde_json::from_str(&report).unwrap()
}

fn environment(report: &serde_json::Value) -> BTreeMap<String, String> {
    serde_json::from_value(report["environ"].clone()).unwrap()
}

/// What we have of the three variables a child may see.
fn passed() -> BTreeMap<String, String> {
    let names = ["PATH", "LANG", "TMPDIR"];
    names.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect()
}

/// G-58, design §3: exactly PATH, LANG, TMPDIR, a private HOME and `env`; the temporary home does not stay.
#[tokio::test]
async fn g58_the_environment_is_exactly_what_is_allowed() {
    assert!(std::env::vars().count() > passed().len() + 1, "there is something to keep back");
    let command = with_env(script(REPORT), &[("API_KEY", Path::new("k=1 ${x}"))]);
    let report = report(command, options()).await;
    let environment = environment(&report);
    let home = environment.get("HOME").cloned().unwrap();
    let mut expected = passed();
    expected.insert("API_KEY".to_owned(), "k=1 ${x}".to_owned());
    expected.insert("HOME".to_owned(), home.clone());
    assert_eq!(environment, expected);
    assert_ne!(Some(home.clone()), std::env::var("HOME").ok());
    assert_eq!(report["mode"], "0o40700");
    assert_eq!(report["empty"], true);
    assert!(!Path::new(&home).exists(), "a temporary home is removed at the end");
}

/// `env` wins over what is passed and over the private home.
#[tokio::test]
async fn env_of_the_configuration_wins() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("mine");
    std::fs::create_dir(&home).unwrap();
    let env = [("HOME", home.as_path()), ("LANG", Path::new("tlh")), ("PATH", Path::new("/bin"))];
    let environment = environment(&report(with_env(script(REPORT), &env), options()).await);
    let expected = env.map(|(name, value)| (name.to_owned(), value.to_str().unwrap().to_owned()));
    let mut all = passed();
    all.extend(expected);
    assert_eq!(environment, all);
    assert!(home.exists(), "what is not ours stays");
}

/// Under `state_dir` the home stays, is the same again, and is 0700 whatever it was.
#[tokio::test]
async fn a_home_under_state_dir_lasts() {
    let state = tempfile::tempdir().unwrap();
    let expected = state.path().join("homes").join("unit");
    let options = || StdioOptions { state_dir: Some(state.path().to_owned()), ..options() };
    let first = report(script(REPORT), options()).await;
    assert_eq!(Path::new(&environment(&first)["HOME"]), expected);
    assert_eq!(first["mode"], "0o40700");
    std::fs::write(expected.join("kept"), "").unwrap();
    std::fs::set_permissions(&expected, std::fs::Permissions::from_mode(0o755)).unwrap();
    let second = report(script(REPORT), options()).await;
    assert_eq!(second["mode"], "0o40700");
    assert_eq!(second["empty"], false);
    let link = state.path().join("homes").join("linked");
    std::os::unix::fs::symlink(&expected, &link).unwrap();
    let linked = StdioOptions { server: "linked".into(), ..options() };
    let refused = StdioLink::new(script(REPORT), linked, Tasks::new()).connect().await.unwrap_err();
    assert!(matches!(refused, LinkError::Spawn { what: "home directory", .. }), "{refused}");
}

/// A home that a cleaner of temporary files took is made again for the next child.
#[tokio::test]
async fn a_lost_home_is_made_again() {
    let (link, _tasks) = link(script(
        "for m in asks():
    answer(m, os.environ['HOME'])
    if m['params'] == 0: os._exit(1)",
    ));
    let connection = link.connect().await.unwrap();
    let home = call(&connection, 1, "0").await.unwrap();
    within(connection.gone()).await;
    let path = home.trim_matches('"');
    assert!(Path::new(path).is_dir(), "it lasts from child to child");
    std::fs::remove_dir(path).unwrap();
    let home = call(&link.connect().await.unwrap(), 2, "1").await.unwrap();
    assert!(Path::new(home.trim_matches('"')).is_dir());
    within(link.stop()).await;
}

/// Own group; its `cwd`; of our open files none but its three pipes.
#[tokio::test]
async fn a_child_leads_its_group_and_inherits_no_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let path = std::fs::canonicalize(dir.path()).unwrap().join("open");
    let _file = std::fs::File::create(&path).unwrap();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&socket);
    let socket_name = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap();
    let command = Command { cwd: Some(dir.path().to_owned()), ..script(REPORT) };
    let report = report(command, options()).await;
    assert_eq!(report["leads"], true);
    assert_eq!(Path::new(report["cwd"].as_str().unwrap()), path.parent().unwrap());
    let files: Vec<String> = serde_json::from_value(report["files"].clone()).unwrap();
    assert!(files.iter().filter(|file| file.starts_with("pipe:")).count() >= 3, "{files:?}");
    assert!(!files.iter().any(|file| Path::new(file) == path || Path::new(file) == socket_name), "{files:?}");
}

/// `gatehouse` is the running executable, found without PATH; words reach it as they are, without a shell.
#[tokio::test]
async fn gatehouse_is_ourselves_and_no_shell_reads_the_words() {
    let body = format!("{PRELUDE}\nm = ask()\nanswer(m, sys.argv[1:])\nask()");
    let words = ["$HOME", "a b", "`id`", "*", "", "; exit 1"];
    let argv: Vec<&str> = ["gatehouse", "-c", &body].into_iter().chain(words).collect();
    let options = StdioOptions { executable: Some(python().into()), ..options() };
    let link = StdioLink::new(command(&argv), options, Tasks::new());
    let answer = call(&link.connect().await.unwrap(), 1, "{}").await.unwrap();
    assert_eq!(serde_json::from_str::<Vec<String>>(&answer).unwrap(), words);
    within(link.stop()).await;
}

/// The gateway's own memory and environment are closed to children that run as the same user.
#[test]
fn the_process_can_be_made_non_dumpable() {
    super::super::harden_process().unwrap();
    assert!(!nix::sys::prctl::get_dumpable().unwrap());
}
