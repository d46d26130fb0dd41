//! Sockets for HTTP: the client with its own pool over hyper's `SendRequest`, the listener, the threads that
//! serve, and the bytes they may hold.

pub mod body;
pub mod budget;
pub mod client;
pub mod client_identity;
mod clock;
mod connect;
mod error;
pub mod fetch;
mod gate;
mod h1;
mod h2;
pub mod identity;
pub mod lanes;
mod lease;
pub mod listener;
pub mod oauth;
mod pool;
mod proxied;
mod proxy;
pub mod reach;
pub mod resource;
mod serve;
mod stream;
pub mod tls;

pub use body::Body;
pub use budget::Budget;
pub use client::{Client, ClientOptions};
pub use client_identity::ClientIdentity;
pub use error::{ClientError, Stage};
pub use fetch::{FetchError, Fetched, Remote};
pub use identity::{Identity, IdentityError, IdentityFiles, PeerCertificate};
pub use lanes::Lanes;
pub use listener::{Handler, ListenOptions, ListenStats, Peer, listen, routed, serve};
pub use reach::Reach;

#[cfg(test)]
mod tests;
