//! What the gateway tells its operators: metrics, logs, trace context.

pub mod audit;
mod clients;
mod declare;
pub mod export;
mod labels;
pub mod logs;
pub mod metrics;
pub mod outcome;
mod plain;
pub mod recent;
pub mod reloads;
pub mod spans;
pub mod trace;
pub mod usage;

pub use metrics::Metrics;
pub use outcome::Outcome;
pub use plain::plain;
pub use spans::Spans;
