//! map
#![allow(missing_docs)]
pub mod catalogue;
pub mod config;
pub mod gateway;
pub mod protocol;
pub mod seal;
pub mod tasks;
