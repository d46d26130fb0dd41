//! Tests of the door over its router.
