//! Logs to stderr by a thread of their own: nothing writes on a request's thread.

use std::io::{IsTerminal as _, stderr};
use std::sync::OnceLock;

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::SubscriberBuilder;
use tracing_subscriber::reload::Error;

type Refilter = Box<dyn Fn(EnvFilter) -> Result<(), Error> + Send + Sync>;

/// What changes the filter; a process has one log.
static REFILTER: OnceLock<Refilter> = OnceLock::new();

/// Starts logging; keep the guard until the very end, it writes what is still queued.
/// `filter` holds a level or tracing directives; `json` `None` means JSON except on a terminal.
pub fn init(filter: &str, json: Option<bool>) -> Result<WorkerGuard, String> {
    let (writer, guard) = NonBlockingBuilder::default().lossy(true).thread_name("logs").finish(stderr());
    let builder: SubscriberBuilder<_, _, EnvFilter, NonBlocking> =
        tracing_subscriber::fmt().with_env_filter(parse(filter)?).with_writer(writer);
    let terminal = stderr().is_terminal();
    let done = if json.unwrap_or(!terminal) {
        let builder = builder.json().flatten_event(true).with_current_span(true).with_span_list(false);
        let builder = builder.with_filter_reloading();
        let handle = builder.reload_handle();
        let _ = REFILTER.set(Box::new(move |filter| handle.reload(filter)));
        builder.try_init()
    } else {
        let builder = builder.with_ansi(terminal).with_filter_reloading();
        let handle = builder.reload_handle();
        let _ = REFILTER.set(Box::new(move |filter| handle.reload(filter)));
        builder.try_init()
    };
    done.map_err(|error| error.to_string())?;
    Ok(guard)
}

/// Logs by another filter from now on. Without a log of this process's own nothing happens.
pub fn refilter(filter: &str) -> Result<(), String> {
    let filter = parse(filter)?;
    REFILTER.get().map_or(Ok(()), |refilter| refilter(filter).map_err(|error| error.to_string()))
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(filter).map_err(|error| format!("telemetry.log: {error}"))
}
