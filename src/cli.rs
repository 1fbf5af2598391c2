//! Reads the arguments, does what they say, and ends with a documented status.

mod arguments;
mod attempt;
mod compare;
mod explain;
mod facts;
mod help;
mod output;
mod pictures;
mod place;
mod predict;
mod sweep;
mod verify;

use arguments::Command;
use std::fmt;
use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// All as expected.
    Fine = 0,
    /// A claim failed, or the gate tripped.
    Failed = 1,
    /// Nothing could be shown, to the kernel's selftests.
    Skipped = 4,
}

/// Why the program could not do what was asked.
#[derive(Debug)]
enum Trouble {
    /// Unusable arguments or files: status 2.
    Usage(String),
    /// This machine cannot: status 3.
    Machine(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Machine(text)) = self;
        f.write_str(text)
    }
}

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    // First of all, while the process has one thread. Where it is refused, the shared loopback has to do.
    let entered = smallwrites::lab::enter();
    let done = arguments::parse().and_then(|command| {
        if !command.writes_a_file() {
            output::check()?;
        }
        match command {
            Command::Help(topic) => help::print(topic),
            Command::Version => output::print(&format!("smallwrites {}\n", env!("CARGO_PKG_VERSION"))),
            Command::Verify(options) => verify::run(&options, entered),
            Command::Compare(options) => compare::run(&options),
            Command::WhatIf(options) => compare::what_if(&options, entered),
            Command::List(options) => verify::list(&options),
            Command::Try(options) => attempt::run(&options, entered),
            Command::Sweep(options) => sweep::run(&options, entered),
            Command::Explain(options) => explain::run(&options, entered),
            Command::Kernel(format) => facts::run(format),
        }
    });
    match done {
        Ok(status) => ExitCode::from(status as u8),
        Err(trouble) => {
            output::complain(&trouble.to_string());
            ExitCode::from(match trouble {
                Trouble::Usage(_) => 2,
                Trouble::Machine(_) => 3,
            })
        }
    }
}
