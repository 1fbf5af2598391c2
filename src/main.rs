//! The command line of smallwrites.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
