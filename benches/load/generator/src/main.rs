//! Load on an MCP server: calls in a closed loop, or listen streams held open. Prints one JSON line.
//!
//! ```text
//! generator --url http://127.0.0.1:9100/mcp [--mode modern|legacy] [--op echo|size|list|listen|sessions] [--size BYTES]
//!           [--tool NAME] [--delay MS] [--connections N] [--seconds S] [--rate PER_SECOND] [--tokens FILE] [--pid PID]
//! ```
//!
//! With `--pid`, the CPU time of that process per 10,000 answers and its memory are part of the line. `--rate` makes the
//! loop an open one: requests fall due at that rate, whatever the answers do, and refusals are counted apart.
//! `--tokens`: bearer tokens, one a line, taken in turn. `listen` and `sessions` hold what they opened for S seconds and
//! say `held` on standard error once all of it is there.

mod ask;
mod calls;
mod held;
mod http;
mod paced;
mod process;

use std::sync::Arc;

use serde_json::json;

/// What is to be done.
#[derive(Clone)]
pub struct Options {
    /// Host and port.
    pub host: String,
    /// The endpoint.
    pub path: String,
    /// 2026-07-28, else a session of 2025-11-25.
    pub modern: bool,
    /// What is asked.
    pub op: String,
    /// Bytes there and back, or only back.
    pub size: usize,
    /// The tool that is called.
    pub tool: String,
    /// Milliseconds that the server takes, 0 for none.
    pub delay: usize,
    /// Bearer tokens, taken in turn.
    pub tokens: Arc<[String]>,
    /// Requests a second in all, in an open loop.
    pub rate: Option<f64>,
    /// Connections at once.
    pub connections: usize,
    /// How long.
    pub seconds: f64,
    /// The process to look at.
    pub pid: Option<u32>,
}

fn argument(name: &str, default: &str) -> String {
    let all: Vec<String> = std::env::args().collect();
    all.windows(2).find(|pair| pair[0] == name).map_or(default, |pair| &pair[1]).to_owned()
}

fn number(name: &str, default: &str) -> f64 {
    argument(name, default).parse().unwrap_or_else(|_| panic!("{name} takes a number"))
}

fn tokens(file: &str) -> Arc<[String]> {
    if file.is_empty() {
        return Arc::default();
    }
    let text = std::fs::read_to_string(file).expect("a file of tokens");
    text.lines().map(str::to_owned).collect()
}

fn main() {
    let url = argument("--url", "http://127.0.0.1:9100/mcp");
    let (host, path) = url.trim_start_matches("http://").split_once('/').expect("a url with a path");
    let options = Options {
        host: host.to_owned(),
        path: format!("/{path}"),
        modern: argument("--mode", "modern") == "modern",
        op: argument("--op", "echo"),
        size: number("--size", "1024") as usize,
        tool: argument("--tool", "echo"),
        delay: number("--delay", "0") as usize,
        tokens: tokens(&argument("--tokens", "")),
        rate: Some(number("--rate", "0")).filter(|rate| *rate > 0.0),
        connections: number("--connections", "16") as usize,
        seconds: number("--seconds", "3"),
        pid: Some(number("--pid", "0") as u32).filter(|pid| *pid > 0),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let outcome = match options.op.as_str() {
        "listen" => runtime.block_on(held::streams(&options)),
        "sessions" => runtime.block_on(held::sessions(&options)),
        _ if options.rate.is_some() => runtime.block_on(paced::run(&options)),
        _ => runtime.block_on(calls::run(&options)),
    };
    let line = outcome.unwrap_or_else(|error| json!({ "error": error }));
    println!("{line}");
    std::process::exit(i32::from(line.get("error").is_some()));
}
