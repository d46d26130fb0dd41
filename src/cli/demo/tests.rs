//! Tests of parsing and of the tools.
