//! Links: a message out, a stream of messages back; no MCP meaning beyond JSON-RPC ids.

pub mod stdio;
