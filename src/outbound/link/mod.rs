//! A message out, a stream of messages back; knows no MCP meaning.

mod backoff;
pub(super) mod connection;
mod error;
pub mod http;
mod mux;
pub mod sse;
pub mod stdio;

pub use connection::{Connection, Put};
pub use error::LinkError;
pub use mux::{Inbox, Unclaimed};
