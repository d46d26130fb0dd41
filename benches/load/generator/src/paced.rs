//! Calls in an open loop: they fall due at a rate, whatever the answers do.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::LocalSet;
use tokio::time::{sleep_until, timeout};

use crate::http::{Connection, Outcome};
use crate::{Options, ask};

/// Before anything is counted.
const WARM_UP: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Seen {
    /// Microseconds of what was answered, and of what was refused.
    answered: Vec<u32>,
    refused: Vec<u32>,
    late: u64,
    error: Option<String>,
}

/// Runs `options.connections` workers that together send `options.rate` requests a second, and reports.
pub async fn run(options: &Options) -> Outcome<Value> {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let local = LocalSet::new();
    let began = Instant::now();
    for number in 0..options.connections {
        local.spawn_local(worker(options.clone(), Rc::clone(&seen), number, began));
    }
    local.await;
    let mut seen = seen.take();
    if let Some(error) = seen.error {
        return Err(error);
    }
    Ok(json!({
        "answered_per_second": seen.answered.len() as f64 / options.seconds,
        "refused_per_second": seen.refused.len() as f64 / options.seconds,
        "answered_p50_ms": quantile(&mut seen.answered, 0.5),
        "answered_p99_ms": quantile(&mut seen.answered, 0.99),
        "refused_p50_ms": quantile(&mut seen.refused, 0.5),
        "refused_p99_ms": quantile(&mut seen.refused, 0.99),
        "not_sent_in_time": seen.late,
    }))
}

fn quantile(times: &mut [u32], q: f64) -> f64 {
    times.sort_unstable();
    times.get((times.len() as f64 * q) as usize).map_or(0.0, |micros| f64::from(*micros) / 1e3)
}

/// Sends its share; what falls due while its last request is under way is not sent, and counted as late.
async fn worker(options: Options, seen: Rc<RefCell<Seen>>, number: usize, began: Instant) {
    let outcome = share(&options, &seen, number, began).await;
    if let Err(error) = outcome {
        seen.borrow_mut().error.get_or_insert(error);
    }
}

async fn share(options: &Options, seen: &RefCell<Seen>, number: usize, began: Instant) -> Outcome<()> {
    let every = options.connections as f64 / options.rate.unwrap_or(1.0);
    let (first, last) = (began + WARM_UP, began + WARM_UP + Duration::from_secs_f64(options.seconds));
    let (mut connection, session) = ask::connect(options).await?;
    let asked = ask::Asked::new(options, session.as_deref());
    let mut due = began + Duration::from_secs_f64(every * number as f64 / options.connections as f64);
    let mut request = Vec::new();
    let mut id = (number as u64 + 1) * 100_000_000;
    while due < last {
        sleep_until(due.into()).await;
        id += 1;
        asked.write(id, &mut request);
        let sent = Instant::now();
        let head = timeout(DEADLINE, connection.round(&request)).await.map_err(|_| "no answer")??;
        let counts = sent >= first && sent < last;
        let micros = u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX);
        if ask::is_refusal(&head, &connection.body) {
            seen.borrow_mut().refused.extend(counts.then_some(micros));
        } else {
            ask::check(id, 0, &head, &connection.body)?;
            seen.borrow_mut().answered.extend(counts.then_some(micros));
        }
        if head.closes {
            connection = Connection::open(&options.host).await?;
        }
        due += Duration::from_secs_f64(every);
        while due < Instant::now() {
            due += Duration::from_secs_f64(every);
            seen.borrow_mut().late += 1;
        }
    }
    Ok(())
}
