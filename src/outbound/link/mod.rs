//! A message out, a stream of messages back; knows no MCP meaning.

pub mod http;
pub mod stdio;
