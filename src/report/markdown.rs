//! The report for a page: a table for each document.

use super::Report;
use crate::claims::{Claim, Document, Finding, Outcome};
use std::fmt::Write;

pub(super) fn render(report: &Report<'_>) -> String {
    let mut out = format!(
        "# Small writes on Linux {}\n\n{}, in {}; jiffy {} ms; settings: {}.\n",
        report.kernel.release,
        report.counts(),
        report.place(),
        report.kernel.jiffy_us as f64 / 1000.0,
        report.under(),
    );
    for document in Document::ALL {
        let sections = report.sections(document);
        if sections.is_empty() {
            continue;
        }
        let _ = write!(out, "\n## {}\n\n| claim | says | verdict | evidence |\n|---|---|---|---|\n", document.title());
        for outcome in sections.iter().flat_map(|(_, outcomes)| outcomes) {
            let _ = writeln!(out, "{}", row(outcome));
        }
    }
    out
}

/// The catalogue itself: what each document says, and what is expected of a Linux kernel.
pub(super) fn catalogue(claims: &[&Claim]) -> String {
    let mut out = String::new();
    for document in Document::ALL {
        let of_document: Vec<_> = claims.iter().filter(|claim| claim.document == document).collect();
        if of_document.is_empty() {
            continue;
        }
        let gap = if out.is_empty() { "" } else { "\n" };
        let _ = write!(out, "{gap}### {}\n\n| claim | says | verdict |\n|---|---|---|\n", document.title());
        for claim in of_document {
            let _ = writeln!(out, "| `{}` | {} | {} |", claim.id, cell(&says(claim)), claim.expected.word());
        }
    }
    out
}

fn says(claim: &Claim) -> String {
    match claim.expected.detail() {
        Some(detail) => format!("{} *({detail})*", claim.says),
        None => claim.says.to_owned(),
    }
}

fn row(outcome: &Outcome) -> String {
    let claim = outcome.claim;
    let says = says(claim);
    let (verdict, evidence) = match &outcome.finding {
        Finding::Passed(evidence) => (claim.expected.word().to_owned(), evidence.canonical.clone()),
        Finding::Failed(failure) => {
            ("**failed**".to_owned(), format!("expected {}; saw {}", failure.expected, failure.saw))
        }
        Finding::Ignored(missing) => ("ignored".to_owned(), format!("{}; {}", missing.reason, missing.remedy)),
    };
    format!("| `{}` | {} | {verdict} | {} |", claim.id, cell(&says), cell(&evidence))
}

/// Text that stays within its cell.
pub(crate) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
