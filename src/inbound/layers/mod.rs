//! One concern a file; their order stands in `inbound/mod.rs`.

pub(super) mod address;
pub(super) mod authn;
pub(super) mod bounds;
pub(super) mod cors;
pub(super) mod observe;
pub(super) mod origin;
pub(super) mod panic;
pub(super) mod unread;
