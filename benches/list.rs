//! Allocations of lists that come from the cache of a gateway of this process, over real sockets.

mod kit;

use std::process::ExitCode;

fn main() -> ExitCode {
    kit::main(kit::whole::lists())
}
