//! map
#![allow(missing_docs)]
pub mod admin;
pub mod app;
pub mod catalogue;
pub mod cli;
pub mod config;
pub mod gateway;
pub mod inbound;
pub mod net;
pub mod outbound;
pub mod protocol;
pub mod seal;
pub mod tasks;
pub mod telemetry;
