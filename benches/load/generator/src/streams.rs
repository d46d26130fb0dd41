//! Listen streams held open: what one costs in memory while nothing happens.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::ask::Asked;
use crate::http::{Connection, Outcome};
use crate::{Options, process};

/// Until memory has settled.
const SETTLE: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(30);

/// Opens `options.connections` streams, one a connection, and looks at the process.
pub async fn hold(options: &Options) -> Outcome<Value> {
    let pid = options.pid.ok_or("--pid is needed")?;
    let asked = Asked::new(options, None);
    let before = process::resident(pid);
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
    sleep(SETTLE).await;
    let (memory, cpu) = (process::resident(pid), process::cpu_seconds(pid));
    sleep(Duration::from_secs_f64(options.seconds)).await;
    let idle = (process::cpu_seconds(pid) - cpu) / options.seconds;
    let grown = memory.saturating_sub(before);
    Ok(json!({
        "streams": open.len(),
        "bytes_per_stream": grown / open.len().max(1) as u64,
        "memory_mb": memory as f64 / 1e6,
        "idle_cpu": idle,
    }))
}
