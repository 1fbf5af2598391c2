//! The report for programs, with every raw sample.

use super::{Record, Report};

pub(super) fn render(report: &Report<'_>) -> String {
    Record::of(report).to_string()
}
