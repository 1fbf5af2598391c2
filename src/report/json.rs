//! The report for programs, with every raw sample.

use super::{Counts, Report, SCHEMA, canonical};
use crate::claims::{Evidence, Finding, Outcome, Sample};
use crate::expect::Failure;
use crate::kernel::Kernel;
use serde::Serialize;

#[derive(Serialize)]
struct Written<'a> {
    schema: u32,
    program: Program,
    kernel: &'a Kernel,
    place: &'a str,
    counts: Counts,
    took_ms: u128,
    claims: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Program {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    document: String,
    section: &'a str,
    says: &'a str,
    expected: &'a str,
    detail: Option<&'a str>,
    source: &'a str,
    outcome: &'a str,
    reason: Option<String>,
    remedy: Option<&'a str>,
    canonical: String,
    evidence: Shown<'a>,
    failure: Option<&'a Failure>,
    took_ms: u128,
}

#[derive(Serialize)]
struct Shown<'a> {
    canonical: Option<&'a str>,
    measured: Option<&'a str>,
    samples: &'a [Sample],
}

pub(super) fn render(report: &Report<'_>) -> String {
    let written = Written {
        schema: SCHEMA,
        program: Program { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") },
        kernel: report.kernel,
        place: report.place(),
        counts: report.counts(),
        took_ms: report.took.as_millis(),
        claims: report.outcomes.iter().map(entry).collect(),
    };
    // Plain data with string keys: there is nothing in it that JSON cannot say.
    serde_json::to_string_pretty(&written).unwrap_or_default() + "\n"
}

fn entry(outcome: &Outcome) -> Entry<'_> {
    let claim = outcome.claim;
    let (evidence, failure, reason, remedy) = match &outcome.finding {
        Finding::Passed(evidence) => (Some(evidence), None, None, None),
        Finding::Failed(failure) => {
            let reason = format!("expected {}, saw {}", failure.expected, failure.saw);
            (None, Some(failure), Some(reason), failure.remedy.as_deref())
        }
        Finding::Ignored(missing) => (None, None, Some(missing.reason.clone()), Some(missing.remedy.as_str())),
    };
    let text = |part: fn(&Evidence) -> &String| evidence.map(|evidence| part(evidence).as_str());
    Entry {
        id: claim.id,
        document: claim.document.to_string(),
        section: claim.section,
        says: claim.says,
        expected: claim.expected.word(),
        detail: claim.expected.detail(),
        source: claim.source,
        outcome: outcome.finding.word(),
        reason,
        remedy,
        canonical: canonical::line(outcome),
        evidence: Shown {
            canonical: text(|evidence| &evidence.canonical),
            measured: text(|evidence| &evidence.measured),
            samples: &outcome.samples,
        },
        failure,
        took_ms: outcome.took.as_millis(),
    }
}
