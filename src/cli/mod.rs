//! One file per command.

pub mod exec;
