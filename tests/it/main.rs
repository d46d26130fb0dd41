//! Whole-process tests: a real `gatehouse serve`, scripted servers behind it, raw clients in front of it.
//! One module a capability; what they stand on is in `support`.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]
#![allow(clippy::disallowed_methods, reason = "tests own their tasks and threads")]

mod auth;
mod bounds;
mod capabilities;
mod check;
mod door;
mod downstream;
mod errors;
mod headers;
mod params;
mod smoke;
mod support;
