//! Whole-process tests: a real `gatehouse serve`, scripted servers behind it, raw clients in front of it.
//! One module a capability; what they stand on is in `support`.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]
#![allow(clippy::disallowed_methods, reason = "tests own their tasks and threads")]
#![allow(clippy::too_many_lines, reason = "a table of cases is as long as it is")]

mod allowed;
mod auth;
mod bounds;
mod capabilities;
mod check;
mod credentials;
mod door;
mod downstream;
mod errors;
mod fidelity;
mod headers;
mod hostile;
mod lists;
mod many;
mod names;
mod params;
mod probing;
mod rounds;
mod smoke;
mod streams;
mod support;
