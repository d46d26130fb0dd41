//! The audit log: lines whole and in order, rotation, loss that is counted.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::*;
use crate::protocol::object::Span;

fn entry(request: u64) -> Entry {
    Entry {
        at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_785_000_000_250),
        request,
        address: Some("203.0.113.9".parse().unwrap()),
        caller: Caller {
            principal: Arc::from("sub:abc"),
            issuer: Arc::from("https://id.example"),
            subject: Arc::from("alice"),
            client: Some(Arc::from("app")),
        },
        endpoint: Arc::from("/mcp"),
        method: "tools/call",
        server: Some(Arc::from("git")),
        item: Some(("tool", Arc::from("git_get"))),
        native: Some("get".to_owned()),
        grant: Some(2),
        scopes: Vec::new(),
        outcome: Outcome::Ok,
        took: Duration::from_micros(1500),
        request_bytes: 100,
        result_bytes: Some(7),
        trace: None,
        arguments: None,
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn counter() -> IntCounter {
    IntCounter::new("dropped", "for a test").unwrap()
}

fn opened(path: &Path) -> Opened {
    Opened::new(Target::Path(path.to_path_buf())).unwrap()
}

fn log(path: &Path, dropped: &IntCounter) -> (Audit, Writer) {
    Audit::new(opened(path), dropped)
}

#[test]
fn a_line_says_who_what_and_how_it_ended() {
    let mut batch = Vec::new();
    let mut denied = entry(8);
    denied.outcome = Outcome::Denied;
    denied.scopes = vec!["w".to_owned()];
    denied.item = Some(("uri", Arc::from("x://\"\n")));
    (denied.native, denied.result_bytes, denied.trace) = (None, None, Some([0xab; 16]));
    (denied.caller.client, denied.address) = (None, None);
    assert!(line::push(&entry(7), &mut batch) && line::push(&denied, &mut batch));
    let text = String::from_utf8(batch).unwrap();
    let values: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let first = json!({
        "time": "2026-07-25T17:20:00.25Z", "request": 7, "address": "203.0.113.9", "principal": "sub:abc", "issuer": "https://id.example",
        "subject": "alice", "client": "app", "endpoint": "/mcp", "method": "tools/call", "server": "git",
        "tool": "git_get", "native": "get", "grant": 2, "outcome": "ok", "millis": 1.5,
        "request_bytes": 100, "result_bytes": 7,
    });
    let second = json!({
        "time": "2026-07-25T17:20:00.25Z", "request": 8, "principal": "sub:abc", "issuer": "https://id.example",
        "subject": "alice", "endpoint": "/mcp", "method": "tools/call", "server": "git", "uri": "x://\"\n",
        "grant": 2, "scopes": ["w"], "outcome": "denied", "millis": 1.5, "request_bytes": 100, "trace": "abababababababababababababababab",
    });
    assert_eq!(values, [first, second]);
}

#[tokio::test]
async fn closing_writes_everything_handed_over_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    fs::write(&path, "{\"old\":1}\n").unwrap();
    let dropped = counter();
    let (audit, writer) = log(&path, &dropped);
    for request in 0..1000 {
        audit.write(entry(request));
    }
    #[allow(clippy::disallowed_methods, reason = "tests own their threads")]
    let thread = std::thread::spawn(move || writer.run());
    audit.close().await;
    thread.join().unwrap();
    let lines = lines(&path);
    assert_eq!(lines[0], json!({ "old": 1 }), "it is appended to");
    let requests: Vec<u64> = lines[1..].iter().map(|line| line["request"].as_u64().unwrap()).collect();
    assert_eq!(requests, (0..1000).collect::<Vec<_>>());
    assert_eq!(dropped.get(), 0);
    // Whoever comes too late is counted.
    audit.write(entry(1));
    assert_eq!(dropped.get(), 1);
    audit.close().await;
}

/// Large bodies are held until their lines are written: then there is no time to wait for more of them.
#[tokio::test]
async fn half_of_what_may_be_held_is_written_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let (audit, writer) = log(&path, &counter());
    let writer = Writer { linger: Duration::from_secs(24 * 3600), ..writer };
    #[allow(clippy::disallowed_methods, reason = "tests own their threads")]
    let thread = std::thread::spawn(move || writer.run());
    // A line alone waits for others.
    audit.write(entry(0));
    let large = Bytes::from(vec![b' '; HELD / 2]);
    let arguments = Arguments { body: large, span: Span::new(0, 0) };
    audit.write(Entry { arguments: Some((arguments, Arc::new(Keep::Full))), ..entry(1) });
    while lines(&path).len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    audit.close().await;
    thread.join().unwrap();
}

#[test]
fn what_does_not_fit_is_dropped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let dropped = counter();
    let (audit, writer) = log(&path, &dropped);
    for request in 0..QUEUE as u64 + 5 {
        audit.write(entry(request));
    }
    assert_eq!(dropped.get(), 5);
    drop(audit);
    writer.run();
    assert_eq!(lines(&path).len(), QUEUE);
}

#[test]
fn a_renamed_or_removed_file_is_opened_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (path, old) = (folder.path().join("audit.jsonl"), folder.path().join("audit.jsonl.1"));
    let mut sink = Sink::open(Target::Path(path.clone())).unwrap();
    assert!(sink.write_after(b"1\n", Duration::ZERO));
    fs::rename(&path, &old).unwrap();
    // Not looked at yet: the line is in the old file, not lost.
    assert!(sink.write_after(b"2\n", Duration::from_secs(3600)));
    assert!(sink.write_after(b"3\n", Duration::ZERO));
    assert_eq!(fs::read_to_string(&old).unwrap(), "1\n2\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "3\n");
    fs::remove_file(&path).unwrap();
    assert!(sink.write_after(b"4\n", Duration::ZERO));
    assert_eq!(fs::read_to_string(&path).unwrap(), "4\n");
}

#[test]
fn a_file_that_cannot_be_opened_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let path = inner.join("audit.jsonl");
    let mut sink = Sink::open(Target::Path(path.clone())).unwrap();
    fs::remove_dir_all(&inner).unwrap();
    assert!(!sink.write_after(b"1\n", Duration::ZERO));
    assert!(!sink.write_after(b"2\n", Duration::from_secs(3600)), "without a file it is looked for at once");
    fs::create_dir(&inner).unwrap();
    assert!(sink.write_after(b"3\n", Duration::from_secs(3600)));
    assert!(fs::read_to_string(&path).unwrap().ends_with("3\n"));
    assert!(Opened::new(Target::Path(folder.path().join("none/audit"))).is_err());
}

#[test]
fn only_its_owner_may_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let _log = log(&path, &counter());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A log whose writer runs.
fn running(path: &Path, dropped: &IntCounter) -> (Audit, std::thread::JoinHandle<()>) {
    let (audit, writer) = log(path, dropped);
    #[allow(clippy::disallowed_methods, reason = "tests own their threads")]
    let thread = std::thread::spawn(move || writer.run());
    (audit, thread)
}

#[tokio::test]
async fn it_can_be_moved_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
    let dropped = counter();
    let (audit, thread) = running(&first, &dropped);
    let told =
        |path: &Path| lines(path).iter().map(|line| line["request"].as_u64().unwrap()).collect::<Vec<_>>();
    (0..3).for_each(|request| audit.write(entry(request)));
    audit.move_to(opened(&second)).await;
    (3..6).for_each(|request| audit.write(entry(request)));
    assert!(audit.write_surely(entry(6)).await);
    assert_eq!((told(&first), told(&second)), (vec![0, 1, 2], vec![3, 4, 5, 6]));
    audit.close().await;
    thread.join().unwrap();
    // Nobody writes any more.
    audit.move_to(opened(&first)).await;
    assert!(!audit.write_surely(entry(7)).await);
    assert_eq!(dropped.get(), 1);
}

#[tokio::test]
async fn who_waits_is_told_whether_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let path = inner.join("audit.jsonl");
    let dropped = counter();
    let (audit, thread) = running(&path, &dropped);
    assert!(audit.write_surely(entry(1)).await && !audit.is_broken());
    assert_eq!(lines(&path).len(), 1);
    audit.move_to(opened(Path::new("/dev/full"))).await;
    assert!(!audit.write_surely(entry(2)).await && audit.is_broken());
    assert_eq!(dropped.get(), 1);
    audit.move_to(opened(&path)).await;
    assert!(audit.write_surely(entry(3)).await && !audit.is_broken());
    audit.close().await;
    thread.join().unwrap();
    assert_eq!(lines(&path).len(), 2);
}

/// Arguments that wait for the writer are bounded in bytes, whatever the number of lines; one always fits.
#[test]
fn arguments_that_wait_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let dropped = counter();
    let (audit, writer) = log(&path, &dropped);
    let body = bytes::Bytes::from(format!("{{\"x\":\"{}\"}}", "y".repeat(HELD / 4)));
    let span = crate::protocol::object::Span::new(0, body.len());
    let keep = Arc::new(Keep::Masked(Vec::new()));
    let mut large = entry(1);
    large.arguments = Some((Arguments { body, span }, keep));
    for _ in 0..6 {
        audit.write(large.clone());
    }
    assert_eq!(dropped.get(), 3);
    // Lines without any still fit.
    audit.write(entry(2));
    assert_eq!(dropped.get(), 3);
    let state = Arc::clone(&audit.state);
    drop(audit);
    writer.run();
    assert_eq!(state.held.load(Ordering::Relaxed), 0);
    let lines = lines(&path);
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["shape"], json!({ "x": "string" }));
}

/// Whoever waits for room and goes away leaves no line, which is counted, and takes no room.
#[tokio::test]
async fn who_gives_up_waiting_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let dropped = counter();
    let (audit, writer) = log(&folder.path().join("a.jsonl"), &dropped);
    (0..QUEUE as u64).for_each(|request| audit.write(entry(request)));
    let held = audit.state.held.load(Ordering::Relaxed);
    assert!(audit.write_surely(entry(9)).now_or_never().is_none(), "nobody writes, so it waits");
    assert_eq!((dropped.get(), audit.state.held.load(Ordering::Relaxed)), (1, held));
    drop(writer);
    assert!(!audit.write_surely(entry(9)).await);
    assert_eq!((dropped.get(), audit.state.held.load(Ordering::Relaxed)), (2, held));
}
