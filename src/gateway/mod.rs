//! The core: one call in, one reply out; knows only modern MCP.

pub mod names;
