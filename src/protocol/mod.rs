//! MCP as data: no I/O, no runtime, no configuration. Everything here borrows from or splices bytes.

pub mod code;
pub mod edit;
pub mod envelope;
pub mod header;
pub mod input;
pub mod items;
pub mod message;
pub mod meta;
pub mod method;
pub mod number;
pub mod object;
mod scan;
pub mod shape;
pub mod sse;
pub mod version;

#[cfg(test)]
mod tests;
