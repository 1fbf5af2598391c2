//! KTAP, the kernel's own form of the Test Anything Protocol.
//!
//! Source: `Documentation/dev-tools/ktap.rst`. Skips carry their reason, failures their evidence as diagnostic lines,
//! and the totals are those of `tools/testing/selftests/kselftest.h`.

use super::{Record, Report, Word};
use std::fmt::Write;

pub(super) fn render(report: &Report<'_>) -> String {
    let record = Record::of(report);
    let mut out = format!("KTAP version 1\n1..{}\n", record.claims.len());
    let _ = writeln!(out, "# Linux {}, in {}; settings: {}", record.kernel.release, record.place, report.under());
    for (number, entry) in (1..).zip(&record.claims) {
        if let Some(failure) = &entry.failure {
            for line in failure.to_string().lines() {
                let _ = writeln!(out, "# {line}");
            }
        }
        let _ = match entry.outcome {
            Word::Passed => writeln!(out, "ok {number} {}", entry.id),
            Word::Failed => writeln!(out, "not ok {number} {}", entry.id),
            Word::Ignored => {
                let reason = entry.reason.as_deref().unwrap_or_default().replace(['\n', '#'], " ");
                writeln!(out, "ok {number} {} # SKIP {reason}", entry.id)
            }
        };
    }
    let counts = record.counts;
    let _ = writeln!(
        out,
        "# Totals: pass:{} fail:{} xfail:0 xpass:0 skip:{} error:0",
        counts.passed, counts.failed, counts.ignored
    );
    out
}
