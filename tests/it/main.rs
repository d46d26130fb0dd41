//! Whole-process tests: a real `gatehouse serve`, scripted servers behind it, raw clients in front of it.
//! One module a capability; what they stand on is in `support`.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]
#![allow(clippy::disallowed_methods, reason = "tests own their tasks and threads")]
#![allow(clippy::too_many_lines, reason = "a table of cases is as long as it is")]

mod allowed;
mod answers;
mod audit;
mod auth;
mod bounds;
mod caching;
mod caching_reads;
mod caching_walks;
mod cancel;
mod capabilities;
mod changes;
mod changes_legacy;
mod changes_topics;
mod check;
mod completion;
mod confirm;
mod contexts;
mod contexts_stdio;
mod contract;
mod credentials;
mod crowd;
mod discovery;
mod door;
mod downstream;
mod errors;
mod explain;
mod fidelity;
mod grants;
mod headers;
mod hostile;
mod isolation;
mod legacy_door;
mod legacy_door_ask;
mod legacy_door_batch;
mod legacy_door_many;
mod legacy_door_streams;
mod legacy_http;
mod links;
mod lists;
mod many;
mod names;
mod network;
mod own_lists;
mod own_watch;
mod owners;
mod pages;
mod paging_out;
mod params;
mod parked;
mod parked_ends;
mod parked_kinds;
mod parked_stdio;
mod parked_storm;
mod playbooks;
mod principals;
mod probing;
mod processes;
mod resources;
mod resumption;
mod rotation;
mod rounds;
mod smoke;
mod sse_link;
mod sse_loss;
mod stdio;
mod streams;
mod support;
mod tasks_ext;
mod timeouts;
mod tool_search;
mod watch;
