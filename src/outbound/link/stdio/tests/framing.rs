//! What the child receives: one line per message, whole, in order, with backpressure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::AsyncReadExt as _;

use super::super::connection::{Connection, Shared, Why};
use super::super::writer;
use super::{MAX_LINE, link, script, until, within};
use crate::protocol::edit::Parts;

/// All bytes that these messages become.
async fn written(messages: &[Parts]) -> Vec<u8> {
    let (shared, queue) = Shared::new("unit".into(), 1, MAX_LINE, Arc::default());
    let connection = Connection::new(Arc::clone(&shared));
    let (near, mut far) = tokio::io::duplex(1 << 10);
    let send = async {
        for message in messages {
            connection.send(message).await.unwrap();
        }
        shared.begin_stop(Why::Stop);
    };
    let mut bytes = Vec::new();
    let read = far.read_to_end(&mut bytes);
    let ((), (), read) =
        within(async { tokio::join!(send, writer::write(near, queue, &shared), read) }).await;
    read.unwrap();
    bytes
}

/// F-041, G-50: raw line ends of pretty JSON are white space; escaped ones and U+2028 are content.
#[tokio::test]
async fn f041_each_message_is_one_line() {
    let pretty = "{\r\n  \"jsonrpc\": \"2.0\",\n\t\"method\": \"m\",\r  \"params\": {\"t\": \"a\\nb\\r\u{2028}\u{2029}\u{85}é\"}\n}\n";
    let mut split = Parts::new();
    split.push("{\"a\":\n");
    split.push("1,\"b\":");
    split.push("\r\n2}");
    let large = format!("[\n{}]", "1,\n".repeat(20_000));
    let output = written(&[pretty.into(), split, large.clone().into(), "{}".into()]).await;
    let output = String::from_utf8(output).unwrap();
    let lines: Vec<&str> = output.split('\n').collect();
    assert_eq!(lines.len(), 5, "four messages, four line ends");
    assert_eq!(lines[4], "");
    assert!(!output.contains('\r'));
    assert_eq!(lines[0], pretty.replace(['\r', '\n'], " "));
    assert!(lines[0].contains("a\\nb\\r\u{2028}\u{2029}\u{85}é"));
    assert_eq!(lines[1], "{\"a\": 1,\"b\":  2}");
    assert_eq!(lines[2], large.replace('\n', " "));
    assert_eq!(lines[3], "{}");
}

/// Messages of all sizes from many tasks are never mixed and each sender's order is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_never_interleave() {
    // Answers with what it saw: every line must be JSON, every sender's numbers ascending.
    let (link, tasks) = link(script(
        "seen = {}
for m in asks():
    if 'id' in m:
        answer(m, {'count': sum(seen.values())})
        continue
    sender, n, pad = m['params']['s'], m['params']['n'], m['params']['pad']
    assert seen.get(sender, 0) == n and pad == 'x' * len(pad)
    seen[sender] = n + 1",
    ));
    let connection = link.connect().await.unwrap();
    let senders = (0..20_usize).map(|sender| {
        let connection = connection.clone();
        tasks.spawn("sender", async move {
            for n in 0..50 {
                let pad = "x".repeat([0, 10, 5_000, 20_000][(sender + n) % 4]);
                let params = format!(r#"{{"s":"{sender}","n":{n},"pad":"{pad}"}}"#);
                let text = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{params}}}"#);
                connection.send(&text.into()).await.unwrap();
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        within(sender).await.unwrap();
    }
    assert_eq!(super::call(&connection, 1, "{}").await.unwrap(), r#"{"count": 1000}"#);
    within(link.stop()).await;
}

/// A child that does not read stops the senders, not the gateway's memory; when it reads, all arrives.
#[tokio::test]
async fn a_child_that_does_not_read_stops_its_senders() {
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    let command = super::with_env(
        script(
            "while not os.path.exists(os.environ['GO']): time.sleep(0.01)
for n, m in enumerate(asks()):
    if 'id' in m: answer(m, n)",
        ),
        &[("GO", &go)],
    );
    let (link, tasks) = link(command);
    let connection = link.connect().await.unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let sender = {
        let (connection, sent) = (connection.clone(), Arc::clone(&sent));
        let message: Parts = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(100_000)).into();
        tasks.spawn("sender", async move {
            for _ in 0..300 {
                connection.send(&message).await.unwrap();
                sent.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    // The pipe holds less than one message; a batch of 32 is being written, 64 wait in the queue.
    until(|| sent.load(Ordering::Relaxed) >= 64).await;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
        assert!(sent.load(Ordering::Relaxed) <= 64 + 32, "the queue is bounded");
    }
    std::fs::write(&go, "").unwrap();
    within(sender).await.unwrap();
    assert_eq!(super::call(&connection, 1, "{}").await.unwrap(), "300");
    within(link.stop()).await;
}
