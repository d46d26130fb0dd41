//! Allocations of whole requests through a gateway of this process, over real sockets.

mod kit;

use std::process::ExitCode;

fn main() -> ExitCode {
    kit::main(kit::whole::requests())
}
