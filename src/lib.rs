//! Gatehouse: an organisation's one MCP endpoint. This page is the map; there is no code on it.
//!
//! # Floors
//!
//! A room imports only rooms with a smaller number; rooms on one floor are strangers. `tests/floors.rs` holds it.
//!
//! | floor | room | what it is for |
//! | --- | --- | --- |
//! | 8 | [`cli`] | one file a command: `serve`, `check`, `explain`, `lock`, `diff`, `approve`, `contract test`, `import`, `demo` |
//! | 7 | [`app`] | owns everything: builds the rooms, binds the sockets, puts another configuration in force, takes it all down |
//! | 6 | [`inbound`] | the door for MCP clients, and for other replicas: layers, one message parsed, JSON or events back |
//! | 6 | [`admin`] | the door for operators: health, metrics, the status page |
//! | 5 | [`gateway`] | the core: one call in, one result or error out; limits and load; knows only modern MCP |
//! | 4 | [`catalogue`] | what the servers offer: walked, checked, published, kept while fresh |
//! | 4 | [`policy`] | may this caller do this? grants in, a verdict out; pure |
//! | 3 | [`auth`] | who is calling: tokens, keys and certificates verified, challenges, the principal |
//! | 3 | [`contract`] | a published tool is an API: what changed, what that means, what was approved, how old callers live on; pure |
//! | 3 | [`playbooks`] | Markdown with front matter: read, linked, faults found |
//! | 3 | [`outbound`] | links to MCP servers: HTTP and child processes, both eras, replicas, breakers, deadlines, cancels |
//! | 2 | [`net`] | sockets: the pooled HTTP client, the listener and the threads it serves on, TLS, the memory budget |
//! | 2 | [`cluster`] | what replicas share by Redis, and the sealed letters between them |
//! | 1 | [`config`] | TOML → every problem in one report → typed values; its files watched |
//! | 1 | [`telemetry`] | metrics declared once, logs, outcomes, the audit log, trace context and spans |
//! | 1 | [`tasks`] | the only place that spawns; single flight |
//! | 1 | [`seal`] | sealed tokens by purpose, with key rotation |
//! | 0 | [`protocol`] | MCP as data: objects as positions in bytes, edits, headers, events |
//!
//! # Life of a `tools/call`
//!
//! `inbound` layers ([`inbound::service`] lists them) → `inbound/endpoint` parses the message once →
//! `inbound/modern` holds headers against the body and builds a [`gateway::Call`] → [`gateway::Gateway::handle`]
//! opens the record and refuses what is too much (`gateway/load`) → `gateway/invoke`: resolve the name in the caller's
//! view, check `Mcp-Param-*`, admit by the grants ([`policy`]), map arguments of former times (`gateway/told`), ask the user
//! where that is wanted (`gateway/confirm`), hold arguments against the schema, prepare the edits, count against the
//! limits (`gateway/limits`) → [`outbound::Server::call`]: permit, then `outbound/dispatch`: peer, a replica whose
//! breaker is closed, dialect, and what may be tried once more → `outbound/link`: bytes out, messages back →
//! [`outbound::Exchange`] keeps the deadlines → `gateway/relay` splices what belongs to the hop → `inbound/respond`
//! writes JSON or events. Dropping any of it cancels the call at its server.
//!
//! # The same of a legacy client
//!
//! `inbound/endpoint` decides the era of each message; `inbound/legacy` finds its session by a sealed id
//! (`legacy/ticket`, `legacy/table`), builds the same [`gateway::Call`] in modern meaning (`legacy/perform`) and runs it
//! as a task of the session: a connection that breaks ends the reading (`legacy/tail`), not the call. What is said goes to
//! a stream that can be taken up again (`legacy/stream`). `input_required` becomes requests to the client
//! (`legacy/ask`), changes of lists come by GET (`legacy/changes`). The core knows neither sessions nor handshakes.
//!
//! # Several replicas
//!
//! What hangs on a socket of another replica (a session, a call that waits for its user) is sent there by
//! `inbound/peers` as a sealed letter ([`cluster::Letter`]) and served there like any request; limits, owners of sessions
//! and changes are shared by Redis ([`cluster::Cluster`]). Without `[cluster]` there is none of it.
//!
//! # Another configuration
//!
//! `app/reload` prepares all of it beside the one in force, then swaps one [`gateway::Snapshot`]: each request keeps the
//! one it began with. Keys that need a restart are named in `app/restart`.
//!
//! # Bytes, not models
//!
//! A message is read as positions ([`protocol::object`]), changed by a list of edits ([`protocol::edit`]) and
//! written as pieces of the body it came in. Arguments and results are never turned into values and back.
//! Where they are held against a schema (`validate`, a tool that is held back) they are read beside, and go on as bytes.

pub mod admin;
pub mod app;
pub mod auth;
pub mod catalogue;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod contract;
pub mod gateway;
pub mod inbound;
pub mod net;
pub mod outbound;
pub mod playbooks;
pub mod policy;
pub mod protocol;
pub mod seal;
pub mod tasks;
pub mod telemetry;
