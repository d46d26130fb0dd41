//! The audit log: one line of JSON for every call and denial, written on a thread of its own. What it cannot keep up
//! with is dropped and counted; no call waits for it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prometheus::IntCounter;
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::{mpsc, oneshot};

use super::outcome::Outcome;

mod sink;
#[cfg(test)]
mod tests;

use sink::Sink;

/// Entries that may wait for the writer.
const QUEUE: usize = 8192;
/// Bytes that are written at once.
const BATCH: usize = 64 * 1024;

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// A file, appended to; opened anew once it has been renamed or removed.
    Path(PathBuf),
}

/// What became of one call.
#[derive(Debug, Clone)]
pub struct Entry {
    /// When it ended.
    pub at: SystemTime,
    /// The number of its HTTP request, as `X-Request-Id` says it.
    pub request: u64,
    /// Its client's address.
    pub address: Option<IpAddr>,
    /// Who made it.
    pub caller: Caller,
    /// The path of its endpoint.
    pub endpoint: String,
    /// Its method.
    pub method: &'static str,
    /// Whom it was for.
    pub server: Option<Arc<str>>,
    /// What it was for, by the name the client gave: a key (`tool`, `prompt`, `uri`) and the name.
    pub item: Option<(&'static str, String)>,
    /// The name its server uses, where it is another one.
    pub native: Option<String>,
    /// The grant that allowed it, or that would with scopes: its position in file order, from 0.
    pub grant: Option<usize>,
    /// All scopes it needs, if it was denied for want of them.
    pub scopes: Vec<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// From its arrival to its end.
    pub took: Duration,
    /// Size of the message.
    pub request_bytes: usize,
    /// Size of the result, if there was one.
    pub result_bytes: Option<usize>,
    /// The client's trace id.
    pub trace: Option<String>,
}

/// A definition that differs from the approved one.
#[derive(Debug, Clone)]
pub struct ContractEntry {
    /// When it was seen.
    pub at: SystemTime,
    /// Whose it is.
    pub server: String,
    /// `tool`, `prompt` or `template`.
    pub kind: &'static str,
    /// Its native name.
    pub item: String,
    /// The worst of what is to be said.
    pub class: &'static str,
    /// Whether it was held back.
    pub held: bool,
    /// The rules that say so.
    pub rules: Vec<String>,
}

/// A caller as the audit log names it.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The principal's id.
    pub principal: Arc<str>,
    /// Whose token it was; empty: nobody's.
    pub issuer: Arc<str>,
    /// The token's subject, the key's name, or `anonymous`.
    pub subject: Arc<str>,
    /// The OAuth client.
    pub client: Option<Arc<str>>,
}

/// The way to the writer; cloned freely.
#[derive(Debug, Clone)]
pub struct Audit {
    sender: mpsc::Sender<Message>,
    dropped: IntCounter,
}

#[derive(Debug)]
enum Message {
    Entry(Box<Entry>),
    Contract(Box<ContractEntry>),
    Stop(oneshot::Sender<()>),
}

/// What writes; [`Writer::run`] it on a thread.
#[derive(Debug)]
pub struct Writer {
    receiver: mpsc::Receiver<Message>,
    sink: Sink,
    dropped: IntCounter,
}

impl Audit {
    /// A log and its writer; `dropped` counts lines that are lost.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn open(target: Target, dropped: &IntCounter) -> std::io::Result<(Self, Writer)> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let writer = Writer { receiver, sink: Sink::open(target)?, dropped: dropped.clone() };
        Ok((Self { sender, dropped: dropped.clone() }, writer))
    }

    /// Hands an entry over; never waits.
    pub fn write(&self, entry: Entry) {
        if self.sender.try_send(Message::Entry(Box::new(entry))).is_err() {
            self.dropped.inc();
        }
    }

    /// Hands over that a definition differs; never waits.
    pub fn write_contract(&self, entry: ContractEntry) {
        if self.sender.try_send(Message::Contract(Box::new(entry))).is_err() {
            self.dropped.inc();
        }
    }

    /// Ends the writer; returns when everything handed over before has been written, or nobody writes any more.
    pub async fn close(&self) {
        let (sender, done) = oneshot::channel();
        if self.sender.send(Message::Stop(sender)).await.is_ok() {
            let _ = done.await;
        }
    }
}

impl Writer {
    /// Writes until it is told to stop, or nobody is left who could.
    pub fn run(mut self) {
        let mut stop = None;
        while let Some(message) = self.receiver.blocking_recv() {
            let mut batch = Vec::new();
            let mut lines = 0;
            let mut next = Some(message);
            while let Some(message) = next.take() {
                match message {
                    Message::Entry(entry) => {
                        lines += u64::from(line(&entry, &mut batch));
                    }
                    Message::Contract(entry) => {
                        lines += u64::from(contract_line(&entry, &mut batch));
                    }
                    Message::Stop(done) => {
                        self.receiver.close();
                        stop = Some(done);
                    }
                }
                if batch.len() < BATCH {
                    next = self.receiver.try_recv().ok();
                }
            }
            if !self.sink.write(&batch) {
                self.dropped.inc_by(lines);
            }
        }
        self.sink.finish();
        if let Some(done) = stop {
            let _ = done.send(());
        }
    }
}

/// An entry as it is written.
#[derive(Serialize)]
struct Line<'e> {
    time: &'e str,
    request: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    principal: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    issuer: &'e str,
    subject: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'e str>,
    endpoint: &'e str,
    method: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    native: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grant: Option<usize>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    scopes: &'e [String],
    outcome: &'e str,
    millis: f64,
    request_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'e str>,
}

/// Appends an entry's line; false if it is none, which cannot be.
fn line(entry: &Entry, batch: &mut Vec<u8>) -> bool {
    let named = |key: &str| entry.item.as_ref().filter(|(own, _)| *own == key).map(|(_, name)| name.as_str());
    let time = OffsetDateTime::from(entry.at).format(&Rfc3339).unwrap_or_default();
    let line = Line {
        time: &time,
        request: entry.request,
        address: entry.address,
        principal: &entry.caller.principal,
        issuer: &entry.caller.issuer,
        subject: &entry.caller.subject,
        client: entry.caller.client.as_deref(),
        endpoint: &entry.endpoint,
        method: entry.method,
        server: entry.server.as_deref(),
        tool: named("tool"),
        prompt: named("prompt"),
        uri: named("uri"),
        native: entry.native.as_deref(),
        grant: entry.grant,
        scopes: &entry.scopes,
        outcome: entry.outcome.as_str(),
        // Whole microseconds.
        millis: entry.took.as_micros() as f64 / 1000.0,
        request_bytes: entry.request_bytes,
        result_bytes: entry.result_bytes,
        trace: entry.trace.as_deref(),
    };
    push(&line, batch)
}

/// An entry of the contract guard as it is written.
#[derive(Serialize)]
struct ContractLine<'e> {
    time: &'e str,
    event: &'static str,
    server: &'e str,
    kind: &'e str,
    item: &'e str,
    class: &'e str,
    held: bool,
    rules: &'e [String],
}

fn contract_line(entry: &ContractEntry, batch: &mut Vec<u8>) -> bool {
    let time = OffsetDateTime::from(entry.at).format(&Rfc3339).unwrap_or_default();
    let line = ContractLine {
        time: &time,
        event: "contract_change",
        server: &entry.server,
        kind: entry.kind,
        item: &entry.item,
        class: entry.class,
        held: entry.held,
        rules: &entry.rules,
    };
    push(&line, batch)
}

fn push(line: &impl Serialize, batch: &mut Vec<u8>) -> bool {
    let begin = batch.len();
    if serde_json::to_writer(&mut *batch, line).is_err() {
        batch.truncate(begin);
        return false;
    }
    batch.push(b'\n');
    true
}
