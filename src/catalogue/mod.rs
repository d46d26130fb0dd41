//! What the servers offer.

pub mod bindings;
pub mod hints;
