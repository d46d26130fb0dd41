//! Allocations of naming what ten servers offer.

mod kit;

use std::process::ExitCode;

fn main() -> ExitCode {
    kit::main(kit::pure::names())
}
