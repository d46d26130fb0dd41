//! A real `gatehouse serve`: its configuration, its life, its log, its metrics.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::sync::watch;

use super::client::{self, Connection, Reply};
use super::request::Request;
use super::{DEADLINE, eventually, json, within};

/// A configuration in the making.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    listen: String,
    gateway: String,
    rest: String,
    env: Vec<(String, String)>,
}

impl Setup {
    /// Both listeners on loopback, no server yet.
    pub(crate) fn new() -> Self {
        let listen = "127.0.0.1:0".to_owned();
        Self { listen, gateway: String::new(), rest: String::new(), env: Vec::new() }
    }

    /// Another address for both listeners.
    pub(crate) fn listen(mut self, address: &str) -> Self {
        address.clone_into(&mut self.listen);
        self
    }

    /// Lines of `[gateway]`.
    pub(crate) fn gateway(mut self, lines: &str) -> Self {
        self.gateway += &format!("{lines}\n");
        self
    }

    /// Any tables.
    pub(crate) fn toml(mut self, text: &str) -> Self {
        self.rest += &format!("{text}\n");
        self
    }

    /// An HTTP server; `more` are lines of its table.
    pub(crate) fn http(self, name: &str, url: &str, more: &str) -> Self {
        self.toml(&format!("[[server]]\nname = \"{name}\"\nurl = \"{url}\"\n{more}"))
    }

    /// A child process; `more` are lines of its table.
    pub(crate) fn stdio(self, name: &str, argv: &[String], more: &str) -> Self {
        // JSON's strings are TOML's.
        let argv = serde_json::to_string(argv).unwrap();
        self.toml(&format!("[[server]]\nname = \"{name}\"\ncommand = {argv}\n{more}"))
    }

    /// A variable of the gateway's environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The file's text.
    pub(crate) fn text(&self) -> String {
        let own = format!("listen = \"{0}\"\nadmin_listen = \"{0}\"", self.listen);
        format!("[gateway]\n{own}\n{}\n{}", self.gateway, self.rest)
    }

    /// Its exit code and what it says, for a configuration that it must refuse.
    pub(crate) async fn refused(self) -> (Option<i32>, String) {
        let (mut child, folder, _) = self.spawn();
        let said = within(
            "a refusal",
            tokio::task::spawn_blocking(move || {
                let mut text = String::new();
                child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
                (child.wait().unwrap().code(), text)
            }),
        );
        let said = said.await.unwrap();
        drop(folder);
        said
    }

    fn spawn(self) -> (Child, TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gatehouse.toml");
        std::fs::write(&file, self.text()).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_gatehouse"))
            .args(["serve", "--config"])
            .arg(&file)
            .envs(self.env)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        (child, folder, file)
    }

    /// Starts it and waits until it is ready.
    pub(crate) async fn start(self) -> Gateway {
        let gateway = self.launch().await;
        eventually("/readyz says yes", async || gateway.admin("/readyz").await.status() == 200).await;
        gateway
    }

    /// Starts it and waits until it listens.
    pub(crate) async fn launch(self) -> Gateway {
        let (mut child, folder, file) = self.spawn();
        let log = Log::follow(child.stderr.take().unwrap());
        let line = log.wait("the gateway listens", |line| line.contains("\"message\":\"listening\"")).await;
        let line = json::value(&line);
        let address = |key: &str| line[key].as_str().unwrap().parse().unwrap();
        Gateway { listen: address("listen"), admin: address("admin"), log, child: Some(child), file, folder }
    }
}

/// A running gateway. Ended by [`Gateway::stop`], or with the value; either way its exit is judged.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// Where clients connect.
    pub(crate) listen: SocketAddr,
    /// Where operators connect.
    pub(crate) admin: SocketAddr,
    /// What it says.
    pub(crate) log: Log,
    /// Its configuration.
    pub(crate) file: PathBuf,
    /// The folder the configuration is in.
    pub(crate) folder: TempDir,
    child: Option<Child>,
}

impl Gateway {
    /// Sends a request on a connection of its own.
    pub(crate) async fn send(&self, request: impl Into<Request>) -> Reply {
        client::send(self.listen, request).await
    }

    /// A connection to keep.
    pub(crate) async fn connect(&self) -> Connection {
        Connection::open(self.listen).await
    }

    /// A GET of the admin listener.
    pub(crate) async fn admin(&self, path: &str) -> Reply {
        client::send(self.admin, Request::new("GET", path)).await
    }

    /// The sum of a metric's series that have these labels; 0 without any.
    pub(crate) async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let page = self.admin("/metrics").await;
        let fits = |series: &str| {
            labels.iter().all(|(key, value)| series.contains(&format!("{key}={}", json::quoted(value))))
        };
        let values = page.text().lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let own = series == name || series.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
            (own && fits(series)).then(|| value.parse::<f64>().unwrap())
        });
        values.sum()
    }

    /// Waits until a metric has a value.
    pub(crate) async fn metric_becomes(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        let what = format!("{name}{labels:?} is {value}");
        eventually(&what, async || self.metric(name, labels).await == value).await;
    }

    /// Replaces its configuration in one step.
    pub(crate) fn put(&self, text: &str) {
        let beside = self.folder.path().join("next");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(beside, &self.file).unwrap();
    }

    /// Readings of a changed configuration so far: those in force, those that were refused.
    pub(crate) async fn reloads(&self) -> (f64, f64) {
        let of = async |result| self.metric("gatehouse_config_reloads_total", &[("result", result)]).await;
        (of("ok").await, of("error").await)
    }

    /// Replaces its configuration by one that it takes.
    pub(crate) async fn reload(&self, setup: &Setup) {
        let (good, bad) = self.reloads().await;
        self.put(&setup.text());
        eventually("the configuration is in force", async || self.reloads().await.0 > good).await;
        assert_eq!(self.reloads().await.1, bad, "{}", self.log.text());
    }

    pub(crate) fn pid(&self) -> Pid {
        let child = self.child.as_ref().expect("it runs until it is stopped");
        Pid::from_raw(i32::try_from(child.id()).unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// SIGTERM; it must end by itself with exit code 0. No panic may have been counted.
    pub(crate) async fn stop(mut self) -> Log {
        assert_eq!(self.metric("gatehouse_panics_total", &[]).await, 0.0, "{}", self.log.text());
        self.signal(Signal::SIGTERM);
        let mut child = self.child.take().unwrap();
        let status = within("exit after SIGTERM", async {
            tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap()
        })
        .await;
        self.judge(status);
        self.log.clone()
    }

    /// Its exit code, once it has ended by itself; nothing about it is judged.
    pub(crate) async fn exit(mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        let status = within("its end", async {
            tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap()
        });
        status.await.code()
    }

    fn judge(&self, status: ExitStatus) {
        assert_eq!(status.code(), Some(0), "{}", self.log.text());
        assert!(!self.log.text().contains("panicked"), "{}", self.log.text());
    }
}

impl Drop for Gateway {
    #[allow(clippy::print_stderr, reason = "the log is what a failed test leaves for its reader")]
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if std::thread::panicking() {
            let _ = child.kill();
            let _ = child.wait();
            eprintln!("--- log of the gateway\n{}---", self.log.text());
            return;
        }
        let _ = kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM);
        let until = Instant::now() + DEADLINE;
        while Instant::now() < until {
            if let Some(status) = child.try_wait().unwrap() {
                return self.judge(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        panic!("the gateway did not end after SIGTERM\n{}", self.log.text());
    }
}

/// What a gateway writes to standard error, as it comes.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    /// Number of lines; its sender is gone when the process has ended.
    grown: watch::Receiver<usize>,
}

impl Log {
    fn follow(from: ChildStderr) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (sender, grown) = watch::channel(0);
        let shared = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines() {
                let mut lines = shared.lock().unwrap();
                lines.push(line.unwrap_or_default());
                sender.send_replace(lines.len());
            }
        });
        Self { lines, grown }
    }

    /// Everything so far.
    pub(crate) fn text(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    /// The lines so far that fit.
    pub(crate) fn find(&self, fits: impl Fn(&str) -> bool) -> Vec<String> {
        self.lines.lock().unwrap().iter().filter(|line| fits(line)).cloned().collect()
    }

    /// The first line that fits, now or later.
    pub(crate) async fn wait(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let mut grown = self.grown.clone();
        within(what, async {
            loop {
                grown.borrow_and_update();
                if let Some(line) = self.find(&fits).into_iter().next() {
                    return line;
                }
                assert!(grown.changed().await.is_ok(), "ended before {what}:\n{}", self.text());
            }
        })
        .await
    }
}
