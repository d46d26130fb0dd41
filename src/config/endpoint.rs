//! `[[endpoint]]`, typed: one face towards clients.

use std::path::PathBuf;
use std::sync::Arc;

use super::Globs;

/// `[[endpoint]]`: one MCP server towards clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// `path`, begins with `/`, no trailing slash.
    pub path: Arc<str>,
    /// `servers`: globs over server names; exactly one match is required when `prefix` is false.
    pub servers: Globs,
    /// `prefix`: false shows one server as it is.
    pub prefix: bool,
    /// `instructions` of this endpoint instead of the gateway's.
    pub instructions: Option<String>,
    /// `playbooks`: a folder of playbooks of this endpoint.
    pub playbooks: Option<PathBuf>,
    /// `discovery`
    pub discovery: Discovery,
    /// `pinned`: globs on exposed names of tools that are listed beside the search.
    pub pinned: Globs,
}

/// `endpoint.discovery`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discovery {
    /// Every tool is listed.
    List,
    /// Tools are searched; listed are three tools for that, and the pinned ones.
    Search,
}
