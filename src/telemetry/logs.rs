//! Logs to stderr by a thread of their own: nothing writes on a request's thread.

use std::io::{IsTerminal as _, stderr};

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::SubscriberBuilder;

/// Starts logging; keep the guard until the very end, it writes what is still queued.
/// `filter` holds a level or tracing directives; `json` `None` means JSON except on a terminal.
pub fn init(filter: &str, json: Option<bool>) -> Result<WorkerGuard, String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("telemetry.log: {error}"))?;
    let (writer, guard) = NonBlockingBuilder::default().lossy(true).thread_name("logs").finish(stderr());
    let builder: SubscriberBuilder<_, _, EnvFilter, NonBlocking> =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let terminal = stderr().is_terminal();
    let done = if json.unwrap_or(!terminal) {
        builder.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    } else {
        builder.with_ansi(terminal).try_init()
    };
    done.map_err(|error| error.to_string())?;
    Ok(guard)
}
