//! Allocations of reading and writing single messages.

mod kit;

use std::process::ExitCode;

fn main() -> ExitCode {
    kit::main(kit::pure::messages())
}
