//! map
#![allow(missing_docs)]
pub mod cli;
pub mod config;
pub mod protocol;
pub mod tasks;
