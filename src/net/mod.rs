//! Sockets: the pooled client towards servers, the listener towards clients, and what they may hold in memory.

pub mod budget;
pub mod client;
pub mod body;
