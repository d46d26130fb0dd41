//! Load on an MCP server: calls in a closed loop, or listen streams held open. Prints one JSON line.
//!
//! ```text
//! generator --url http://127.0.0.1:9100/mcp [--mode modern|legacy] [--op echo|size|list|listen] [--size BYTES]
//!           [--tool NAME] [--connections N] [--seconds S] [--pid PID] [--label TEXT]
//! ```
//!
//! With `--pid`, the CPU time of that process per 10,000 answers and its memory are part of the line.

mod ask;
mod calls;
mod http;
mod process;
mod streams;

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
        connections: number("--connections", "16") as usize,
        seconds: number("--seconds", "3"),
        pid: Some(number("--pid", "0") as u32).filter(|pid| *pid > 0),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let outcome = match options.op.as_str() {
        "listen" => runtime.block_on(streams::hold(&options)),
        _ => runtime.block_on(calls::run(&options)),
    };
    let mut line = outcome.unwrap_or_else(|error| json!({ "error": error }));
    line["label"] = argument("--label", "").into();
    println!("{line}");
    std::process::exit(i32::from(line.get("error").is_some()));
}
