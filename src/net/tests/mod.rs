//! Tests of this room over real sockets.
