//! Private labs for libtest's tests; `namespaces` makes them possible for an ordinary user.

use smallwrites::lab::{Conditions, Lab, LabError};
use std::io::Write;

/// Works in a lab; where namespaces are refused, says so on standard error and returns `None`.
///
/// `SMALLWRITES_REQUIRE_ALL` turns every skipped test into a failure, so that a machine that is meant to show
/// everything cannot look green without it.
pub(crate) fn lab_or_skip<T: Send>(conditions: &Conditions, work: impl FnOnce(&Lab) -> T + Send) -> Option<T> {
    match conditions.run(work) {
        Ok(answer) => Some(answer),
        Err(error @ (LabError::Refused(_) | LabError::Threads(_))) => {
            let required = std::env::var_os("SMALLWRITES_REQUIRE_ALL").is_some_and(|value| !value.is_empty());
            assert!(!required, "{error}");
            // Not eprintln!, which libtest keeps to itself where a test passes.
            let test = std::thread::current();
            let _ = writeln!(std::io::stderr(), "SKIPPED {}: {error}", test.name().unwrap_or("a test"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}
