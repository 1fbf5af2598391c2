//! What is the same in every run on a kernel: no time, no port, no release.

use crate::claims::{Finding, Outcome};

/// A line for each claim, grouped as the catalogue is.
pub(super) fn render(outcomes: &[Outcome]) -> String {
    outcomes.iter().map(|outcome| line(outcome) + "\n").collect()
}

/// One claim: its id, what came of it, and what it has shown.
pub(super) fn line(outcome: &Outcome) -> String {
    let id = outcome.claim.id;
    let expected = outcome.claim.expected.word();
    match &outcome.finding {
        Finding::Passed(evidence) => format!("{id}: passed ({expected}): {}", evidence.canonical),
        Finding::Failed(failure) => format!("{id}: failed ({expected}): expected {}", failure.expected),
        Finding::Ignored(missing) => format!("{id}: ignored ({expected}): {}", missing.reason),
    }
}
