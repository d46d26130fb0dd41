//! Listen streams or sessions held open: what one costs in memory while nothing happens.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::ask::{self, Asked};
use crate::http::{Connection, Outcome};
use crate::{Options, process};

/// Until memory has settled.
const SETTLE: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(30);

/// Opens `options.connections` streams, one a connection, and looks at the process.
pub async fn streams(options: &Options) -> Outcome<Value> {
    let before = process::resident(options.pid.unwrap_or(0));
    let asked = Asked::new(options, None);
    let mut open = Vec::with_capacity(options.connections);
    let mut request = Vec::new();
    for id in 0..options.connections {
        let mut connection = Connection::open(&options.host).await?;
        asked.write(id as u64 + 1, &mut request);
        let acknowledged = async {
            let head = connection.begin(&request).await?;
            if head.status != 200 {
                return Err(format!("status {}", head.status));
            }
            connection.read_until(b"acknowledged").await
        };
        timeout(DEADLINE, acknowledged).await.map_err(|_| format!("no acknowledgement of {id}"))??;
        open.push(connection);
    }
    look(options, before, open.len()).await
}

/// Opens `options.connections` legacy sessions, each on a connection that is closed again: a session outlives it.
pub async fn sessions(options: &Options) -> Outcome<Value> {
    let before = process::resident(options.pid.unwrap_or(0));
    for number in 0..options.connections {
        let opened = timeout(DEADLINE, ask::connect(options)).await;
        opened.map_err(|_| format!("no session {number}"))??;
    }
    look(options, before, options.connections).await
}

#[allow(clippy::print_stderr, reason = "who started this waits for the line")]
async fn look(options: &Options, before: u64, held: usize) -> Outcome<Value> {
    let pid = options.pid.ok_or("--pid is needed")?;
    sleep(SETTLE).await;
    eprintln!("held");
    let (memory, cpu) = (process::resident(pid), process::cpu_seconds(pid));
    sleep(Duration::from_secs_f64(options.seconds)).await;
    let idle = (process::cpu_seconds(pid) - cpu) / options.seconds;
    Ok(json!({
        "held": held,
        "bytes_each": memory.saturating_sub(before) / held.max(1) as u64,
        "memory_mb": memory as f64 / 1e6,
        "idle_cpu": idle,
    }))
}
