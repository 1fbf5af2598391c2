//! Runs the program as a user or a script would.

use serde_json::Value;
use std::fmt;
use std::process::{Command, Output, Stdio};

/// What a run of the program came to.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The program with these arguments, told nothing by this process's environment.
pub(crate) fn smallwrites<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smallwrites"));
    command.args(arguments).stdin(Stdio::null()).env_remove("NO_COLOR").env_remove("RUST_BACKTRACE");
    command
}

/// Runs it to its end.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Ran {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    ran(&output)
}

pub(crate) fn ran(output: &Output) -> Ran {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("the program writes UTF-8");
    Ran { status: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}

#[allow(dead_code, clippy::allow_attributes, reason = "each test file uses a part of it")]
impl Ran {
    /// Nothing on standard error, status 0: what is on standard output.
    #[track_caller]
    pub(crate) fn fine(&self) -> &str {
        assert!(self.status == 0 && self.err.is_empty(), "{self}");
        &self.out
    }

    /// What is on standard output with status 0, as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.status, 0, "{self}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// One line on standard error, nothing on standard output, and this status: the line.
    #[track_caller]
    pub(crate) fn refused(&self, status: i32) -> &str {
        assert!(self.status == status && self.out.is_empty(), "expected status {status} and no output\n{self}");
        self.one_line()
    }

    /// The one line on standard error.
    #[track_caller]
    pub(crate) fn one_line(&self) -> &str {
        let line = self.err.strip_suffix('\n').unwrap_or_default();
        assert!(!line.is_empty() && line.lines().count() == 1, "expected one line on standard error\n{self}");
        line.strip_prefix("smallwrites: ").unwrap_or_else(|| panic!("the line does not say whose it is\n{self}"))
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}\n--- standard output\n{}\n--- standard error\n{}", self.status, self.out, self.err)
    }
}
