//! `gatehouse demo`: a small, correct MCP server of our own for the quick start and the tests.

mod call;
mod checks;
mod http;
mod methods;
mod offer;
mod session;
mod stdio;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::protocol::envelope::Limits;
use crate::protocol::version;
use crate::tasks::Tasks;

/// What one message may hold; generous, since tests send odd things.
const LIMITS: Limits = Limits { max_depth: 64, max_elements: 1_000_000 };
/// The largest body or line that is read, in bytes.
const MAX_BODY: usize = 64 << 20;
/// How long requests in flight may take after the order to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Options of `gatehouse demo`.
#[derive(Debug, Clone, clap::Args)]
pub struct DemoArgs {
    /// Serve Streamable HTTP on this address, path /mcp; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", conflicts_with = "stdio")]
    pub listen: SocketAddr,
    /// Serve standard input and output instead
    #[arg(long)]
    pub stdio: bool,
    /// Which generations of the protocol to speak
    #[arg(long, value_enum, default_value = "both")]
    pub era: Eras,
    /// The name in serverInfo
    #[arg(long, default_value = "gatehouse-demo")]
    pub name: String,
    /// So many generated tools more: extra_0001, extra_0002, …
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub tools: usize,
    /// Items a page of every list; 0 puts all on one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub page: usize,
    /// How long lists and reads may be cached, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 60_000)]
    pub ttl_ms: u64,
    /// Who may share what is cached
    #[arg(long, value_enum, default_value = "public")]
    pub cache_scope: CacheScope,
    /// Pad the input schema of generated tools to about this size
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub schema_bytes: usize,
}

/// The generations a demo server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Eras {
    /// Both, told apart request by request (H-20).
    Both,
    /// 2026-07-28 only.
    Modern,
    /// Sessions only, up to 2025-11-25.
    Legacy,
}

impl Eras {
    const fn modern(self) -> bool {
        matches!(self, Self::Both | Self::Modern)
    }

    const fn legacy(self) -> bool {
        matches!(self, Self::Both | Self::Legacy)
    }

    /// Every version served, newest first (L-03).
    fn versions(self) -> Vec<&'static str> {
        let mut versions = Vec::new();
        if self.modern() {
            versions.push(version::MODERN);
        }
        if self.legacy() {
            versions.extend(session::VERSIONS);
        }
        versions
    }
}

/// The `cacheScope` of lists and reads (L-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CacheScope {
    /// May be shared.
    Public,
    /// Belongs to the caller.
    Private,
}

/// The server: its offer, and what all requests of the process share.
struct Demo {
    args: DemoArgs,
    offer: offer::Offer,
    tasks: Tasks,
    /// Cancelled when no more is to be begun: streams that wait end gracefully (S-09).
    stop: CancellationToken,
    /// Grows with every change of the tool list; `hidden_gem` is there while it is odd.
    changes: watch::Sender<u64>,
    /// Tool calls begun.
    calls: AtomicU64,
    /// Runs of `slow` that were cancelled.
    cancelled: AtomicU64,
    /// Calls of `counter` outside sessions.
    counter: AtomicU64,
    sessions: Mutex<HashMap<String, Arc<session::Session>>>,
    /// Authenticates `requestState`.
    key: hmac::Key,
}

impl Demo {
    fn new(args: DemoArgs, tasks: Tasks) -> anyhow::Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| anyhow::anyhow!("the system gives no random numbers"))?;
        Ok(Self {
            offer: offer::Offer::new(args.tools, args.schema_bytes)?,
            stop: tasks.stop_token().child_token(),
            changes: watch::Sender::new(0),
            calls: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            counter: AtomicU64::new(0),
            sessions: Mutex::default(),
            args,
            tasks,
            key,
        })
    }

    fn info(&self) -> Value {
        json!({"name": self.args.name, "version": env!("CARGO_PKG_VERSION")})
    }
}

/// Serves until SIGTERM, SIGINT, the end of standard input (`--stdio`) or the stop of `tasks`.
///
/// # Errors
/// When the address cannot be bound, or standard input cannot be read.
pub async fn run(args: DemoArgs, tasks: Tasks) -> anyhow::Result<()> {
    let demo = Arc::new(Demo::new(args, tasks)?);
    stop_on_signals(&demo)?;
    if demo.args.stdio {
        return stdio::serve(demo).await;
    }
    let address = demo.args.listen;
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))?;
    let line = json!({"message": "listening", "listen": listener.local_addr()?.to_string()});
    writeln!(std::io::stderr(), "{line}").context("cannot write to standard error")?;
    http::serve(demo, listener).await;
    Ok(())
}

fn stop_on_signals(demo: &Demo) -> anyhow::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = demo.stop.clone();
    demo.tasks.spawn("demo signals", async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            () = stop.cancelled() => {}
        }
        stop.cancel();
    });
    Ok(())
}

/// Locks; what a panicked holder left behind is still whole here, as every holder changes one thing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
