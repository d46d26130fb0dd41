//! Logs to stderr by a thread of their own: nothing writes on a request's thread.

use std::fmt;
use std::io::{IsTerminal as _, stderr};
use std::sync::Arc;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// The log. Keep it until the very end: it writes what is still queued when it is dropped.
#[derive(Debug)]
pub struct Logs {
    _writer: WorkerGuard,
    /// What decides which lines are written.
    pub level: Level,
}

/// Sets another level, or other directives, while the log is written.
#[derive(Clone)]
pub struct Level(Arc<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>);

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Level")
    }
}

impl Level {
    /// From now on lines that fit this are written.
    ///
    /// # Errors
    ///
    /// It is neither a level nor directives.
    pub fn set(&self, filter: &str) -> Result<(), String> {
        (self.0)(parse(filter)?)
    }
}

/// Starts logging. `filter` holds a level or tracing directives; `json` `None` means JSON except on a terminal.
pub fn init(filter: &str, json: Option<bool>) -> Result<Logs, String> {
    let (writer, guard) = NonBlockingBuilder::default().lossy(true).thread_name("logs").finish(stderr());
    let terminal = stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(parse(filter)?).with_writer(writer);
    let (level, done) = if json.unwrap_or(!terminal) {
        let builder = builder.json().flatten_event(true).with_current_span(true).with_span_list(false);
        let builder = builder.with_filter_reloading();
        let handle = builder.reload_handle();
        let set = move |filter| handle.reload(filter).map_err(|error| error.to_string());
        (Level(Arc::new(set)), builder.try_init())
    } else {
        let builder = builder.with_ansi(terminal).with_filter_reloading();
        let handle = builder.reload_handle();
        let set = move |filter| handle.reload(filter).map_err(|error| error.to_string());
        (Level(Arc::new(set)), builder.try_init())
    };
    done.map_err(|error| error.to_string())?;
    Ok(Logs { _writer: guard, level })
}

/// A filter of `telemetry.log`.
///
/// # Errors
///
/// It is neither a level nor directives.
pub fn parse(filter: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(filter).map_err(|error| format!("telemetry.log: {error}"))
}
