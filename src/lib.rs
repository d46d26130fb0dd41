//! map
#![allow(missing_docs)]
pub mod config;
pub mod net;
pub mod protocol;
pub mod tasks;
