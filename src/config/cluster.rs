//! `[cluster]`: what several replicas share, and how they reach each other.

use std::net::SocketAddr;

use super::Secret;

/// `[cluster]`
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// `redis`: the address of a server that speaks the Redis protocol; may hold a password.
    pub redis: Secret,
    /// `listen`: where the other replicas connect.
    pub listen: SocketAddr,
    /// `advertise`: host and port by which they find this one; `None`: the address that is bound.
    pub advertise: Option<String>,
}
