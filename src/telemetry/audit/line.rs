//! Entries as they are written: one line of JSON each.

use std::net::IpAddr;

use data_encoding::HEXLOWER;
use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::arguments::Told;
use super::{ContractEntry, Entry};

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
    /// As they came.
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'e RawValue>,
    /// Their keys and types.
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<&'e RawValue>,
    /// The values at chosen paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<&'e RawValue>,
    /// Something of them was left out for its size.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    arguments_cut: bool,
}

/// Appends an entry's line; false if it is none, which cannot be.
pub(super) fn push(entry: &Entry, batch: &mut Vec<u8>) -> bool {
    let named = |key: &str| entry.item.as_ref().filter(|(own, _)| *own == key).map(|(_, name)| &**name);
    let time = OffsetDateTime::from(entry.at).format(&Rfc3339).unwrap_or_default();
    let told = entry.arguments.as_ref().map(|(arguments, keep)| arguments.told(keep)).unwrap_or_default();
    let Told { full, shape, shown, cut } = told;
    let [arguments, shape, shown] = [full, shape, shown].map(raw);
    let trace = entry.trace.map(|id| HEXLOWER.encode(&id));
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
        trace: trace.as_deref(),
        arguments: arguments.as_deref(),
        shape: shape.as_deref(),
        shown: shown.as_deref(),
        arguments_cut: cut,
    };
    append(&line, batch)
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

pub(super) fn push_contract(entry: &ContractEntry, batch: &mut Vec<u8>) -> bool {
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
    append(&line, batch)
}

/// Text that is JSON already; what is not, which cannot be, is left out.
fn raw(text: Option<String>) -> Option<Box<RawValue>> {
    RawValue::from_string(text?).ok()
}

fn append(line: &impl Serialize, batch: &mut Vec<u8>) -> bool {
    let begin = batch.len();
    if serde_json::to_writer(&mut *batch, line).is_err() {
        batch.truncate(begin);
        return false;
    }
    batch.push(b'\n');
    true
}
