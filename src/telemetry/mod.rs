//! What the gateway tells its operators: metrics, logs, trace context.

pub mod audit;
mod clients;
mod declare;
pub mod logs;
pub mod metrics;
pub mod outcome;
pub mod trace;
pub mod usage;

pub use metrics::Metrics;
pub use outcome::Outcome;
