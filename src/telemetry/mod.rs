//! What the gateway tells its operators: metrics, logs, trace context.

pub mod audit;
mod clients;
mod declare;
pub mod export;
mod labels;
pub mod logs;
pub mod metrics;
pub mod outcome;
pub mod spans;
pub mod trace;

pub use metrics::Metrics;
pub use outcome::Outcome;
pub use spans::Spans;
