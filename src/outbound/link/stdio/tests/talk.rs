//! Many calls at once, silence, and noise on standard error.

use std::io;
use std::sync::{Arc, Mutex};

use super::*;

/// F-087: 1000 ids at once, answered in another order, each to its own inbox; a slow call holds up nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f087_a_thousand_calls_at_once_get_their_own_answers() {
    let (link, tasks) = link(script(
        "import random
random.seed(7)
slow, held = ask(), []
for m in asks():
    held.append(m)
    if len(held) == 1000: break
random.shuffle(held)
for m in held: answer(m, m['params'])
while (m := ask()) is not None:
    answer(slow, 'slow')
    answer(m, 'last')",
    ));
    let connection = link.connect().await.unwrap();
    let mut slow = connection.open(7_000_000);
    connection.send(&request(7_000_000, "slow", "{}")).await.unwrap();
    let calls = (0..1000_u64).map(|id| {
        let connection = connection.clone();
        tasks.spawn("call", async move {
            let params = format!(r#"{{"n": {id}}}"#);
            assert_eq!(call(&connection, id, &params).await.unwrap(), params);
        })
    });
    for call in calls.collect::<Vec<_>>() {
        within(call).await.unwrap();
    }
    assert_eq!(tasks.panics(), 0, "a failed assertion in a call is a caught panic");
    assert_eq!(connection.pending(), 1, "only the slow one waits");
    assert_eq!(call(&connection, 1000, "{}").await.unwrap(), "\"last\"");
    assert_eq!(result(&within(slow.recv()).await.unwrap()), "\"slow\"");
    assert_eq!(connection.pending(), 0);
    within(link.stop()).await;
}

/// F-041: an answer without newline right before the exit counts.
#[tokio::test]
async fn f041_the_last_line_needs_no_newline() {
    let (link, _tasks) = link(script(
        "m = ask()
sys.stdout.write('Listening...\\n' + json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': 'x' * 300000}))",
    ));
    let connection = link.connect().await.unwrap();
    assert_eq!(call(&connection, 1, "{}").await.unwrap().len(), 300_002);
    assert_eq!(within(connection.closed()).await, LinkError::Exited);
    assert_eq!(link.counts().skipped_lines, 1);
    within(link.stop()).await;
}

/// Where the log of one test goes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Logs of this thread, as JSON values, until the guard is dropped.
    async fn capture() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().json().with_writer(move || writer.clone()).with_ansi(false).finish();
        let guard = tracing::subscriber::set_default(subscriber);
        // Another thread that meets a log line for the first time just now may note that nobody listens. Meet the
        // lines of these tests once, then have everyone asked again.
        let (link, tasks) = link(script("print('x\\n' * 200, file=sys.stderr)\nprint('x', flush=True)"));
        within(link.connect().await.unwrap().gone()).await;
        until(|| tasks.running() == 0).await;
        tracing::callsite::rebuild_interest_cache();
        log.0.lock().unwrap().clear();
        (log, guard)
    }

    fn lines(&self) -> Vec<serde_json::Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["fields"].clone())
            .collect()
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// G-51, F-040: 100,000 lines and 20 MB without a newline are drained, truncated and rate bound; nothing uncounted.
#[tokio::test]
async fn g51_a_flood_on_stderr_is_drained_and_bounded() {
    let (log, _guard) = Log::capture().await;
    let (link, tasks) = link(with_env(
        script(
            "sys.stderr.write('first ' + os.environ['API_KEY'] + '\\n' + 'y' * 20_000_000 + '\\n')
for n in range(100_000): sys.stderr.write(f'line {n}\\n')
sys.stderr.flush()
for m in asks(): answer(m, 'alive')",
        ),
        &[("API_KEY", Path::new("sk-0123456789"))],
    ));
    let connection = link.connect().await.unwrap();
    assert_eq!(call(&connection, 1, "{}").await.unwrap(), "\"alive\"", "a full pipe did not block it");
    within(link.stop()).await;
    until(|| tasks.running() == 0).await;
    let lines = log.lines();
    let said: Vec<_> = lines.iter().filter(|line| line["message"] == "stderr").collect();
    assert!(said.iter().all(|line| line["server"] == "unit"));
    assert_eq!(said[0]["line"], "first [secret]");
    assert_eq!(said[1]["line"], "y".repeat(8 << 10));
    assert_eq!(said[1]["truncated"], true);
    assert_eq!(said[2]["line"], "line 0");
    let suppressed = link.counts().suppressed;
    assert!(suppressed > 0, "a flood does not go through");
    assert_eq!(said.len() as u64 + suppressed, 100_002, "each line is logged or counted");
    let told: u64 = lines.iter().filter_map(|line| line["lines"].as_u64()).sum();
    assert_eq!(told, suppressed, "and the log says so");
    assert!(!log.text().contains("sk-0123456789"));
}

/// F-041: one warning a child, whatever it writes, and nothing of what it wrote.
#[tokio::test]
async fn f041_one_warning_a_child() {
    let (log, _guard) = Log::capture().await;
    let (link, _tasks) = link(script(
        "print('token sk-987\\n' * 500, flush=True)
for m in asks(): answer(m, {})",
    ));
    let connection = link.connect().await.unwrap();
    call(&connection, 1, "{}").await.unwrap();
    within(link.stop()).await;
    let warnings = log.lines().iter().filter(|line| line["bytes"].is_u64()).count();
    assert_eq!((warnings, link.counts().skipped_lines), (1, 500));
    assert!(!log.text().contains("sk-987"));
}
