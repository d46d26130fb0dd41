//! What the reader does with each line, without a process: `read` takes any stream.

use std::sync::Arc;

use super::super::connection::Shared;
use super::super::counts::{Counters, Counts};
use super::super::reader;
use super::{Connection, LinkError, MAX_LINE, ReceivedKind, result, within};

/// A connection whose child writes exactly `output`.
struct Memory {
    connection: Connection,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
}

fn memory(max_line: usize) -> Memory {
    let counters = Arc::new(Counters::default());
    let (shared, _queue) = Shared::new("unit".into(), 1, max_line, Arc::clone(&counters));
    Memory { connection: Connection::new(Arc::clone(&shared)), shared, counters }
}

impl Memory {
    async fn read(&self, output: impl AsRef<[u8]>) -> Counts {
        reader::read(output.as_ref(), &self.shared).await;
        self.counters.read()
    }
}

fn ok(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// F-041: banner, CRLF, blank lines, BOM, progress bar, truncated JSON, invalid UTF-8, last line without newline.
#[tokio::test]
async fn f041_garbage_between_messages_is_skipped_and_counted() {
    let m = memory(MAX_LINE);
    let mut inboxes: Vec<_> = (1..=5).map(|id| m.connection.open(id)).collect();
    let mut output = format!("\u{feff}{}\r\n", ok("1", "{\"a\":1}")).into_bytes();
    output
        .extend_from_slice(b"Listening on stdio...\n\r\n\n   \n{\"jsonrpc\":\"2.0\",\n\"text\"\nnull\n17\n");
    output.extend_from_slice(b"\rloading 10%\rloading 100%\n\xff\xfe\x00\n");
    output.extend_from_slice(format!("\rhalf 50%\rdone 100%\r{}\n", ok("2", "{\"b\":2}")).as_bytes());
    output.extend_from_slice(format!("\u{feff}{}\n  {}  \r\n", ok("3", "3"), ok("4", "4")).as_bytes());
    output.extend_from_slice(ok("5", "[5]").as_bytes());
    let counts = m.read(output).await;
    let expected = ["{\"a\":1}", "{\"b\":2}", "3", "4", "[5]"];
    for (inbox, expected) in inboxes.iter_mut().zip(expected) {
        assert_eq!(result(&inbox.recv().await.unwrap()), expected);
    }
    // Banner, cut JSON, "text", null, 17, progress bar, invalid UTF-8.
    assert_eq!(counts, Counts { skipped_lines: 7, ..Counts::default() });
}

/// G-48: an array is its messages.
#[tokio::test]
async fn g48_batches_are_split() {
    let m = memory(MAX_LINE);
    let (mut one, mut two) = (m.connection.open(1), m.connection.open(2));
    let mut unclaimed = m.connection.unclaimed().unwrap();
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
    let counts = m.read(format!("[{}, {log},7,\t{}]\n[]\n", ok("2", "\"b\""), ok("1", "\"a\""))).await;
    assert_eq!(result(&one.recv().await.unwrap()), "\"a\"");
    assert_eq!(result(&two.recv().await.unwrap()), "\"b\"");
    assert_eq!(unclaimed.recv().await.unwrap().text(), log);
    assert_eq!(counts.skipped_lines, 1);
}

/// Progress goes to its token's inbox in order before the answer; everything without an inbox is unclaimed.
#[tokio::test]
async fn messages_reach_the_inbox_they_name() {
    let m = memory(MAX_LINE);
    let (mut one, mut two) = (m.connection.open(1), m.connection.open(2));
    let mut unclaimed = m.connection.unclaimed().unwrap();
    assert!(m.connection.unclaimed().is_none(), "there is one receiver");
    let progress = |token: &str, n: u32| {
        let params = format!(r#"{{"progress":{n},"progressToken":{token}}}"#);
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)
    };
    let others = [
        progress("\"1\"", 9),
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"progressToken":1}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#.to_owned(),
    ];
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;
    let mut output = vec![progress("2", 1), progress("1", 2), progress("2", 3)];
    output.extend(others.iter().cloned());
    output.extend([error.to_owned(), ok("2.0", "{}")]);
    let counts = m.read(output.join("\n")).await;
    assert_eq!(one.recv().await.unwrap().text(), progress("1", 2));
    assert_eq!(one.recv().await.unwrap().text(), error);
    assert_eq!(one.recv().await.unwrap_err(), LinkError::Closed, "after the answer comes nothing");
    assert_eq!(two.recv().await.unwrap().text(), progress("2", 1));
    assert_eq!(two.recv().await.unwrap().text(), progress("2", 3));
    assert_eq!(result(&two.recv().await.unwrap()), "{}");
    let mut rest = Vec::new();
    while let Some(message) = unclaimed.recv().await {
        rest.push(message.text().to_owned());
    }
    // A token of another type than ours names nobody: late, not a notification for all.
    assert_eq!(rest, others[1..]);
    assert_eq!(counts, Counts { late: 1, ..Counts::default() });
}

/// M-05: an error without an id is about the request that the server could not read: surely so where one waits.
#[tokio::test]
async fn m_05_an_error_without_an_id_is_the_only_requests_answer() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#;
    for error in [error, &error.replace("\"id\":null,", "")] {
        let m = memory(MAX_LINE);
        let mut unclaimed = m.connection.unclaimed().unwrap();
        let (mut listen, mut call) = (m.connection.open(1), m.connection.open(2));
        listen.lasts();
        m.read(format!("{error}\n{error}\n{}", ok("1", "1"))).await;
        assert_eq!(call.recv().await.unwrap().text(), error);
        assert_eq!(result(&listen.recv().await.unwrap()), "1", "it was accepted long ago");
        assert_eq!(unclaimed.recv().await.unwrap().text(), error, "nobody else waits");
    }
}

/// H-84: what nobody waits for any more vanishes: dropped inbox, answered id, unknown id, foreign id types (F-019).
#[tokio::test]
async fn h84_late_and_foreign_answers_vanish() {
    let m = memory(MAX_LINE);
    drop(m.connection.open(1));
    let mut two = m.connection.open(2);
    let mut unclaimed = m.connection.unclaimed().unwrap();
    let ids = ["1", "99", "\"2\"", "2.5", "-2", "1e0", "18446744073709551616", "2", "2"];
    let output: Vec<String> = ids.iter().enumerate().map(|(n, id)| ok(id, &n.to_string())).collect();
    let counts = m.read(output.join("\n")).await;
    assert_eq!(result(&two.recv().await.unwrap()), "7");
    assert!(unclaimed.recv().await.is_none());
    assert_eq!(counts, Counts { late: 8, ..Counts::default() });
    assert_eq!(m.connection.pending(), 0);
}

/// Design §2: a key twice, result and error, no version: a malformed answer ends its wait at once.
#[tokio::test]
async fn malformed_answers_fail_the_ids_they_name() {
    let m = memory(MAX_LINE);
    let mut inboxes: Vec<_> = (1..=6).map(|id| m.connection.open(id)).collect();
    let mut good = m.connection.open(7);
    let bad = [
        r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{},"error":{"code":1,"message":""}}"#,
        r#"{"id":3,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":4,"id":5,"result":{}}"#,
        r#"{"jsonrpc":"2.0","\u0069d":6}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"ping","method":"ping"}"#,
    ];
    let counts = m.read(format!("{}\n{}", bad.join("\n"), ok("7", "1"))).await;
    for inbox in &mut inboxes {
        assert_eq!(inbox.recv().await.unwrap_err(), LinkError::Malformed);
    }
    assert_eq!(result(&good.recv().await.unwrap()), "1", "a bad request names no answer");
    assert_eq!(counts.skipped_lines, 1);
}

/// F-040, F-087: a flood fills its own queue only; the answer always fits.
#[tokio::test]
async fn f087_a_full_inbox_loses_progress_but_never_the_answer() {
    let m = memory(MAX_LINE);
    let (mut flooded, mut other) = (m.connection.open(1), m.connection.open(2));
    let mut unclaimed = m.connection.unclaimed().unwrap();
    let line = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}"#;
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
    let output = format!(
        "{}{}{}\n{}\n",
        format!("{line}\n").repeat(10_000),
        format!("{note}\n").repeat(10_000),
        ok("1", "1"),
        ok("2", "2")
    );
    let counts = m.read(output).await;
    assert_eq!(result(&other.recv().await.unwrap()), "2");
    let mut progress = 0_u64;
    let answer = loop {
        let message = flooded.recv().await.unwrap();
        match message.kind {
            ReceivedKind::Notification { .. } => progress += 1,
            _ => break message,
        }
    };
    assert_eq!(result(&answer), "1");
    let mut notes = 0_u64;
    while unclaimed.recv().await.is_some() {
        notes += 1;
    }
    assert_eq!((progress, notes), (64, 256));
    assert_eq!(counts.dropped, 20_000 - progress - notes);
}

/// The bytes of a queue are bounded, too, but one message always fits.
#[tokio::test]
async fn a_queue_is_bounded_in_bytes() {
    let m = memory(1000);
    let mut unclaimed = m.connection.unclaimed().unwrap();
    let note = |n: usize| format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(n));
    let counts = m.read([note(900), note(900), note(10)].join("\n")).await;
    assert_eq!(unclaimed.recv().await.unwrap().text(), note(900));
    assert_eq!(unclaimed.recv().await.unwrap().text(), note(10));
    assert!(unclaimed.recv().await.is_none());
    assert_eq!(counts.dropped, 1);
}

/// F-040: too long a line fails all that wait at once, with the reason.
#[tokio::test]
async fn f040_overflow_fails_all_that_wait() {
    let m = memory(1000);
    let (mut one, mut two) = (m.connection.open(1), m.connection.open(2));
    let counts = m.read(format!("{}\n{}", ok("1", "1"), "x".repeat(1001))).await;
    assert_eq!(result(&one.recv().await.unwrap()), "1");
    assert_eq!(two.recv().await.unwrap_err(), LinkError::Overflow(1000));
    assert_eq!(m.connection.closed().await, LinkError::Overflow(1000));
    assert_eq!(m.connection.send(&"{}".into()).await, Err(LinkError::Overflow(1000)));
    let mut three = m.connection.open(3);
    assert_eq!(within(three.recv()).await.unwrap_err(), LinkError::Overflow(1000), "nobody waits in vain");
    assert_eq!(counts, Counts { overflows: 1, ..Counts::default() });
}
