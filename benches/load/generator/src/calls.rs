//! Calls in a closed loop: each connection asks again as soon as it has its answer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

use crate::http::{Connection, Outcome};
use crate::{Options, ask, process};

/// Before anything is counted.
const WARM_UP: Duration = Duration::from_millis(700);
const DEADLINE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Seen {
    counting: Cell<bool>,
    over: Cell<bool>,
    failures: Cell<u64>,
    error: RefCell<Option<String>>,
    /// Tenths of a microsecond.
    times: RefCell<Vec<u32>>,
}

/// Runs and reports.
pub async fn run(options: &Options) -> Outcome<Value> {
    let seen = Rc::new(Seen::default());
    let mut open = Vec::with_capacity(options.connections);
    for _ in 0..options.connections {
        open.push(timeout(DEADLINE, ask::connect(options)).await.map_err(|_| "no connection".to_owned())??);
    }
    let local = LocalSet::new();
    for (number, (connection, session)) in open.into_iter().enumerate() {
        let asked = ask::Asked::new(options, session.as_deref());
        local.spawn_local(worker(options.clone(), Rc::clone(&seen), number as u64, connection, asked));
    }
    let measured = local.run_until(measure(options, Rc::clone(&seen))).await;
    seen.over.set(true);
    let _ = timeout(DEADLINE, local).await;
    Ok(report(options, &seen, measured))
}

struct Measured {
    seconds: f64,
    cpu: f64,
    own_cpu: f64,
    most_memory: u64,
}

async fn measure(options: &Options, seen: Rc<Seen>) -> Measured {
    sleep(WARM_UP).await;
    let pid = options.pid.unwrap_or(0);
    let own = std::process::id();
    let (began, cpu, own_cpu) = (Instant::now(), process::cpu_seconds(pid), process::cpu_seconds(own));
    seen.counting.set(true);
    let mut most_memory = 0;
    while began.elapsed().as_secs_f64() < options.seconds {
        sleep(Duration::from_millis(100)).await;
        most_memory = most_memory.max(process::resident(pid));
    }
    seen.counting.set(false);
    Measured {
        seconds: began.elapsed().as_secs_f64(),
        cpu: process::cpu_seconds(pid) - cpu,
        own_cpu: process::cpu_seconds(own) - own_cpu,
        most_memory,
    }
}

async fn worker(
    options: Options,
    seen: Rc<Seen>,
    number: u64,
    mut connection: Connection,
    asked: ask::Asked,
) {
    let least = if options.op == "list" { 100 } else { options.size };
    let mut request = Vec::new();
    let mut id = (number + 1) * 100_000_000;
    while !seen.over.get() {
        id += 1;
        asked.write(id, &mut request);
        let began = Instant::now();
        let answer =
            timeout(DEADLINE, connection.round(&request)).await.unwrap_or(Err("no answer".to_owned()));
        match answer.and_then(|head| ask::check(id, least, &head, &connection.body).map(|()| head)) {
            Ok(head) => {
                if seen.counting.get() {
                    let tenths = began.elapsed().as_nanos() / 100;
                    seen.times.borrow_mut().push(u32::try_from(tenths).unwrap_or(u32::MAX));
                }
                if !head.closes {
                    continue;
                }
            }
            Err(error) => {
                seen.failures.set(seen.failures.get() + 1);
                seen.error.borrow_mut().get_or_insert(error);
            }
        }
        match Connection::open(&options.host).await {
            Ok(new) => connection = new,
            Err(_) => return,
        }
    }
}

fn report(options: &Options, seen: &Seen, measured: Measured) -> Value {
    let mut times = seen.times.take();
    times.sort_unstable();
    let count = times.len();
    let quantile =
        |q: f64| times.get((count as f64 * q) as usize).map_or(0.0, |tenths| f64::from(*tenths) / 10.0);
    let mut line = json!({
        "answers": count,
        "per_second": (count as f64 / measured.seconds).round(),
        "p50_us": quantile(0.5),
        "p99_us": quantile(0.99),
        "failures": seen.failures.get(),
        "generator_cpu": measured.own_cpu / measured.seconds,
    });
    if let Some(error) = seen.error.take() {
        line["error"] = error.into();
    }
    if options.pid.is_some() {
        line["cpu_per_10k"] = (measured.cpu / count.max(1) as f64 * 1e4).into();
        line["memory_mb"] = (measured.most_memory as f64 / 1e6).into();
    }
    line
}
