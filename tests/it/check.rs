//! `gatehouse check` as a process: each exit code, offline and live, against real servers.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

const GATEHOUSE: &str = env!("CARGO_BIN_EXE_gatehouse");

/// Nothing listens there: only root could, and `tcpmux` is long dead.
const NOBODY: &str = "http://127.0.0.1:1/mcp";

/// A folder with a configuration in it.
struct Folder(TempDir);

impl Folder {
    fn new(config: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("gatehouse.toml", config);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(GATEHOUSE);
        command.arg("check").args(options).arg("--config").arg(self.path("gatehouse.toml"));
        command.env("CHECK_TEST_TOKEN", "s3cr3t-t0ken");
        command
    }

    /// Exit code, standard output. Neither output may hold a secret or a colour.
    fn check(&self, options: &[&str]) -> (i32, String) {
        let Output { status, stdout, stderr } = self.command(options).output().unwrap();
        let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8_lossy(&stderr));
        for text in [&*out, &*err] {
            assert!(!text.contains("s3cr3t") && !text.contains('\u{1b}'), "{text}");
        }
        (status.code().unwrap_or_else(|| panic!("ended by a signal: {err}")), out)
    }

    /// Exit code, the document.
    fn json(&self, options: &[&str]) -> (i32, Value) {
        let options: Vec<&str> = options.iter().copied().chain(["--json"]).collect();
        let (code, out) = self.check(&options);
        (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}")))
    }
}

/// `gatehouse demo` over HTTP, ended with this value.
struct Demo {
    child: Child,
    url: String,
}

impl Demo {
    fn start(options: &[&str]) -> Self {
        let mut child =
            Command::new(GATEHOUSE).arg("demo").args(options).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Self { child, url: format!("http://{}/mcp", said["listen"].as_str().unwrap()) }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// No test here is about being fast.
const PATIENT: &str = "list_timeout = \"60s\"\n";

fn http(name: &str, url: &str) -> String {
    format!("[[server]]\nname = \"{name}\"\nurl = \"{url}\"\n{PATIENT}")
}

fn stdio(name: &str, argv: &[&str]) -> String {
    format!("[[server]]\nname = \"{name}\"\ncommand = {argv:?}\n{PATIENT}")
}

/// (severity, code) of the findings of a part.
fn codes(part: &Value) -> Vec<(&str, &str)> {
    let findings = part["findings"].as_array().unwrap().iter();
    findings.map(|f| (f["severity"].as_str().unwrap(), f["code"].as_str().unwrap())).collect()
}

fn names<'a>(endpoint: &'a Value, kind: &str) -> Vec<&'a str> {
    endpoint[kind].as_array().unwrap().iter().map(|name| name["name"].as_str().unwrap()).collect()
}

fn is_gone(pid: &str) -> bool {
    !Path::new("/proc").join(pid.trim()).exists()
}

#[test]
fn live_servers_of_both_eras_and_links_are_described() {
    let demo = Demo::start(&["--era", "modern", "--name", "over-http"]);
    let folder = Folder::new(&format!(
        "{}connect_timeout = \"60s\"\nprobe_timeout = \"60s\"\nrequired = true\ntools.allow = [\"echo\", \"add\"]\n{}{}",
        http("web", &demo.url),
        "[server.credentials]\nkind = \"bearer\"\ntoken = \"${CHECK_TEST_TOKEN}\"\n",
        stdio("proc", &["gatehouse", "demo", "--stdio", "--era", "legacy"]) + "resources.allow = []\n",
    ));
    let (code, document) = folder.json(&[]);
    assert_eq!(code, 0, "{document}");
    assert_eq!(document["summary"]["errors"], 0);
    let [web, process] = [&document["servers"][0], &document["servers"][1]];
    for (server, era, version, name) in
        [(web, "modern", "2026-07-28", "over-http"), (process, "legacy", "2025-11-25", "gatehouse-demo")]
    {
        assert_eq!(server["state"], "up");
        assert_eq!(
            (&server["era"], &server["version"], &server["info"]["name"]),
            (&era.into(), &version.into(), &name.into())
        );
        assert!(server["capabilities"]["tools"].is_object(), "{server}");
    }
    assert_eq!((&web["tools"]["allowed"], &web["tools"]["denied"]), (&2.into(), &10.into()));
    assert_eq!(
        (&web["prompts"]["listed"], &web["resources"]["listed"], &web["templates"]["listed"]),
        (&2.into(), &2.into(), &1.into())
    );
    assert_eq!(process["tools"]["listed"], 12);
    let endpoint = &document["endpoints"][0];
    let tools = names(endpoint, "tools");
    assert_eq!((tools.len(), &tools[..3]), (14, &["web_echo", "web_add", "proc_echo"][..]));
    assert_eq!(endpoint["tools"][2]["length"], 9);
    assert_eq!(
        (&endpoint["tools"][2]["server"], &endpoint["tools"][2]["native"]),
        (&"proc".into(), &"echo".into())
    );
    assert_eq!(names(endpoint, "prompts").len(), 4);

    let (code, text) = folder.check(&[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("server web: up, modern 2026-07-28, over-http"), "{text}");
    assert!(text.contains("proc_counter"), "{text}");
}

#[test]
fn a_dead_server_is_a_warning_unless_required_or_strict() {
    let alive = stdio("alive", &["gatehouse", "demo", "--stdio"]);
    let folder = Folder::new(&format!("{alive}{}", http("gone", NOBODY)));
    let (code, document) = folder.json(&[]);
    assert_eq!(code, 0, "{document}");
    assert_eq!(document["servers"][1]["state"], "dead");
    assert!(document["servers"][1]["reason"].as_str().unwrap().contains("refused"), "{document}");
    assert_eq!(codes(&document["servers"][1]), [("warning", "dead")]);
    assert_eq!(document["endpoints"][0]["missing"], serde_json::json!(["gone"]));
    assert_eq!(names(&document["endpoints"][0], "tools").len(), 12, "the others are shown");

    let (code, document) = folder.json(&["--strict"]);
    assert_eq!((code, codes(&document["servers"][1])), (1, vec![("error", "dead")]));

    let folder = Folder::new(&format!("{alive}{}required = true\n", http("gone", NOBODY)));
    let (code, document) = folder.json(&[]);
    assert_eq!((code, codes(&document["servers"][1])), (1, vec![("error", "dead")]));
}

#[test]
fn offline_nobody_is_asked_and_unpinned_packages_are_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let folder = Folder::new("");
    let marker = folder.path("started");
    let config = [
        http("quiet", &format!("http://{}/mcp", listener.local_addr().unwrap())),
        "required = true\n".to_owned(),
        stdio("child", &["touch", marker.to_str().unwrap()]),
        stdio("npm", &["npx", "-y", "@scope/server"]),
        stdio("py", &["uvx", "mcp-server-time"]),
        stdio("pinned", &["npx", "-y", "@scope/server@1.2.3"]),
    ];
    folder.write("gatehouse.toml", &config.concat());
    let (code, document) = folder.json(&["--offline"]);
    assert_eq!(code, 0, "{document}");
    let keys: Vec<&str> = document["config"]["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["server \"npm\".command", "server \"py\".command"]);
    assert_eq!(
        (&document["summary"]["warnings"], &document["summary"]["offline"]),
        (&2.into(), &true.into())
    );
    assert!(document["servers"].as_array().unwrap().iter().all(|server| server["state"] == "unasked"));
    assert_eq!(document["endpoints"][0]["servers"].as_array().unwrap().len(), 5);
    assert!(!marker.exists(), "no process is started");
    assert!(listener.accept().is_err(), "no connection is made");

    let (code, text) = folder.check(&["--offline", "--strict"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("error: server \"npm\".command: `npx` runs a package"), "{text}");
}

#[test]
fn every_problem_of_the_file_is_told_and_the_exit_code_is_2() {
    let folder = Folder::new("[gateway]\nlistn = \"127.0.0.1:0\"\nmax_depth = \"deep\"\n");
    for options in [&[][..], &["--offline"], &["--strict"]] {
        let (code, document) = folder.json(options);
        let problems = document["config"]["problems"].as_array().unwrap();
        assert_eq!((code, problems.len()), (2, 2), "{document}");
        assert_eq!((&problems[0]["line"], &problems[1]["key"]), (&2.into(), &"gateway.max_depth".into()));
        assert_eq!(document["summary"]["errors"], 2);
    }
    let (code, text) = folder.check(&[]);
    assert_eq!(code, 2);
    assert!(text.contains("gateway.listn") && text.contains("gateway.max_depth"), "{text}");

    std::fs::remove_file(folder.path("gatehouse.toml")).unwrap();
    assert_eq!(folder.json(&[]).0, 2, "no such file");
    assert_eq!(folder.check(&["--no-such-option"]).0, 2, "usage");
}

#[test]
fn what_serve_could_not_start_with_is_exit_code_3() {
    let folder = Folder::new(&format!("{}contract = \"hold\"\n", http("held", "https://127.0.0.1:1/mcp")));
    let (code, document) = folder.json(&[]);
    assert_eq!(code, 3, "{document}");
    assert!(document["failure"].as_str().unwrap().contains("held"), "{document}");
    assert_eq!(document["summary"]["errors"], 1);
    assert_eq!(folder.json(&["--offline"]).0, 0);
}

/// Files of certificates are looked at also where nobody is asked: all of them, each named by its key.
#[test]
fn files_that_tls_needs_are_looked_at() {
    let folder = Folder::new("");
    let empty = folder.write("ca.pem", "");
    let server = http("a", "https://127.0.0.1:1/mcp");
    let tls = "[tls]\ncert = \"none.pem\"\nkey = \"none.key\"\n";
    folder.write("gatehouse.toml", &format!("{tls}{server}ca_file = {empty:?}\n"));
    for options in [&[][..], &["--offline"]] {
        let (code, document) = folder.json(options);
        assert_eq!(code, 2, "{document}");
        let problems = document["config"]["problems"].as_array().unwrap();
        let keys: Vec<&str> = problems.iter().map(|problem| problem["key"].as_str().unwrap()).collect();
        assert_eq!(keys, ["tls", "server \"a\".ca_file"], "{document}");
        assert!(problems[0]["message"].as_str().unwrap().contains("none.pem"), "{document}");
    }
}

/// A server in a shell: a legacy handshake, and lists with everything wrong that can be wrong.
const SLOPPY: &str = r#"
echo $$ >"$PIDFILE"
echo "hello from sloppy, $SECRET" >&2
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
tool() { printf '{"name":"%s","inputSchema":{"type":"object","properties":{"x":{"type":"string"%s}}}}' "$1" "$2"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"?"}}\n' "$id" ;;
    *'"initialize"'*) say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"sloppy","version":"0"}}' ;;
    *'"tools/list"'*) say "{\"nextCursor\":\"again\",\"tools\":[$(tool twice ''),$(tool twice ''),$(tool bad ',"x-mcp-header":"a b"'),{\"no\":\"name\"},$(tool dotted.name '')]}" ;;
    *'"resources/list"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no"}}\n' "$id" ;;
    *'"resources/templates/list"'*) say '{"resourceTemplates":[]}' ;;
  esac
done
"#;

fn sloppy(folder: &Folder, more: &str) -> String {
    let script = folder.write("sloppy.sh", SLOPPY);
    let command = stdio("sloppy", &["sh", script.to_str().unwrap()]);
    let pid = folder.path("pid");
    format!("{command}env = {{ PIDFILE = {pid:?}, SECRET = \"${{CHECK_TEST_TOKEN}}\" }}\n{more}")
}

#[test]
fn faults_of_lists_are_told_and_the_process_is_reaped() {
    let folder = Folder::new("");
    let config = sloppy(&folder, "tools.allow = [\"*\", \"twise\"]\ntools.override.lost.name = \"x\"\n");
    folder.write("gatehouse.toml", &config);
    let (code, document) = folder.json(&[]);
    let server = &document["servers"][0];
    assert_eq!((code, &server["state"], &server["era"]), (0, &"up".into(), &"legacy".into()), "{document}");
    let found: Vec<&str> = codes(server).into_iter().map(|(_, code)| code).collect();
    for code in ["annotation_stripped", "item_nameless", "list_cut", "list_failed"] {
        assert!(found.contains(&code), "{code} in {document}");
    }
    assert!(!found.contains(&"pattern_unused"), "a list that is cut proves nothing: {document}");
    let told = server["findings"].to_string();
    for needle in ["/properties/x", "a cursor came twice", "resources:"] {
        assert!(told.contains(needle), "{needle} in {told}");
    }
    assert_eq!(server["prompts"]["state"], "none");
    let endpoint = &document["endpoints"][0];
    assert_eq!(endpoint["missing"], serde_json::json!(["sloppy"]));
    assert_eq!(names(endpoint, "tools")[..2], ["sloppy_twice", "sloppy_bad"]);
    let dotted = &endpoint["tools"][2];
    assert_eq!((&dotted["native"], &dotted["changed"]), (&"dotted.name".into(), &"characters".into()));
    assert!(codes(endpoint).contains(&("warning", "name_duplicate")), "{endpoint}");
    let pid = std::fs::read_to_string(folder.path("pid")).unwrap();
    assert!(is_gone(&pid), "process {pid} is left");
}

#[test]
fn what_a_process_says_on_standard_error_is_passed_on_without_its_secrets() {
    let folder = Folder::new("");
    folder.write("gatehouse.toml", &sloppy(&folder, ""));
    let output = folder.command(&[]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("hello from sloppy, [secret]") && !said.contains("s3cr3t"), "{said}");
}

#[test]
fn a_server_that_accepts_and_says_nothing_costs_its_own_deadline_only() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let config = [
        http("silent", &url) + "probe_timeout = \"300ms\"\n",
        stdio("mute", &["sleep", "3600"]) + "probe_timeout = \"300ms\"\n",
        stdio("alive", &["gatehouse", "demo", "--stdio"]),
        stdio("missing", &["/no/such/program"]),
    ];
    let (code, document) = Folder::new(&config.concat()).json(&[]);
    assert_eq!(code, 0, "{document}");
    let states: Vec<&str> =
        document["servers"].as_array().unwrap().iter().map(|s| s["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["dead", "dead", "up", "dead"]);
    for (server, reason) in [(0, "300ms"), (1, "300ms"), (3, "cannot be started")] {
        let said = document["servers"][server]["reason"].as_str().unwrap();
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn g64_a_process_that_ends_itself_on_the_modern_greeting_gets_the_handshake_as_the_gateway_does_it() {
    let folder = Folder::new("");
    let script = SLOPPY.replace(
        r#"printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"?"}}\n' "$id""#,
        "exit 1",
    );
    assert_ne!(script, SLOPPY);
    let config = sloppy(&folder, "");
    folder.write("sloppy.sh", &script);
    folder.write("gatehouse.toml", &config);
    let (_, document) = folder.json(&[]);
    let server = &document["servers"][0];
    assert_eq!((&server["state"], &server["era"]), (&"up".into(), &"legacy".into()), "{document}");
}

#[test]
fn more_than_thirty_tools_are_a_hint_that_fails_nobody() {
    let config = stdio("many", &["gatehouse", "demo", "--stdio", "--tools", "19", "--page", "7"]);
    let (code, document) = Folder::new(&config).json(&["--strict"]);
    assert_eq!((code, codes(&document["endpoints"][0])), (0, vec![("hint", "many_tools")]), "{document}");
    assert_eq!(names(&document["endpoints"][0], "tools").len(), 31);
}

#[test]
fn interrupted_it_leaves_no_process_behind() {
    let folder = Folder::new("");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let hold = http("silent", &url) + "probe_timeout = \"1h\"\n";
    folder.write("gatehouse.toml", &(sloppy(&folder, "") + &hold));
    let mut child =
        folder.command(&["--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("hello from sloppy")), "the process runs");
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(out, "", "half a document is none");
    let pid = std::fs::read_to_string(folder.path("pid")).unwrap();
    assert!(is_gone(&pid), "process {pid} is left");
}

#[test]
fn grants_are_held_against_what_servers_offer() {
    let grants = "[auth]\n[[auth.issuer]]\nissuer = \"https://id.example\"\n\
                  [[grant]]\nto = { a = \"b\" }\nservers = [\"proc\"]\ntools = [\"echo\", \"gone_*\"]\n\
                  [[grant]]\nto = { a = \"b\" }\nservers = [\"dead\"]\ntools = [\"anything\"]\n";
    let folder = Folder::new(&format!(
        "{}session_scope = \"shared\"\ntools.allow = [\"echo\", \"add\"]\n{}{grants}",
        stdio("proc", &["gatehouse", "demo", "--stdio"]),
        http("dead", NOBODY)
    ));
    let said = |document: &Value| -> Vec<String> {
        let all = document["config"]["warnings"].as_array().unwrap().iter();
        all.map(|w| format!("{}: {}", w["key"].as_str().unwrap(), w["message"].as_str().unwrap())).collect()
    };
    let (_, document) = folder.json(&[]);
    let [pattern, unused] = &said(&document)[..] else { panic!("{document:#}") };
    assert!(pattern.starts_with("grant[0].tools: \"gone_*\" matches nothing"), "{pattern}");
    assert!(
        unused.starts_with("server \"proc\": nobody may use") && unused.ends_with(": \"add\""),
        "{unused}"
    );
    let (_, document) = folder.json(&["--offline"]);
    assert_eq!(said(&document), [""; 0]);
}
