//! Links to the MCP servers behind us.

pub mod link;
