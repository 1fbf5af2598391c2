//! JSON lines: what happened, as it happens, an object a line.
//!
//! The first line says where (`"event":"started"`), one follows for each claim in the order of their ends
//! (`"event":"claim"`), and the last one counts (`"event":"ended"`). A run that was cut off lacks the last.

use super::{Entry, Record, Report, SCHEMA};
use crate::claims::Outcome;
use crate::kernel::Kernel;
use crate::lab::Settings;
use serde_json::{Value, json};

/// The first line, before any claim is checked.
#[must_use]
pub fn started(kernel: &Kernel, settings: &Settings, place: &str, claims: usize) -> String {
    line(json!({
        "event": "started",
        "schema": SCHEMA,
        "program": { "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION") },
        "kernel": kernel,
        "settings": settings,
        "place": place,
        "claims": claims,
    }))
}

/// The line of one claim that came to its end.
#[must_use]
pub fn ended(outcome: &Outcome) -> String {
    claim(&Entry::of(outcome))
}

/// The last line.
#[must_use]
pub fn closing(report: &Report<'_>) -> String {
    line(json!({ "event": "ended", "counts": report.counts(), "took_ms": report.took.as_millis() as u64 }))
}

pub(super) fn render(report: &Report<'_>) -> String {
    let record = Record::of(report);
    let first = started(report.kernel, report.settings, report.place(), record.claims.len());
    first + &record.claims.iter().map(claim).collect::<String>() + &closing(report)
}

fn claim(entry: &Entry) -> String {
    let mut value = serde_json::to_value(entry).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert("event".to_owned(), "claim".into());
    }
    line(value)
}

fn line(value: Value) -> String {
    value.to_string() + "\n"
}
