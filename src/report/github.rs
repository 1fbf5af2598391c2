//! Annotations that GitHub Actions puts on a run: workflow commands, a line each.
//!
//! Source: "Workflow commands for GitHub Actions", `::error title={title}::{message}`.

use super::{Record, Report, Word};

pub(super) fn render(report: &Report<'_>) -> String {
    let record = Record::of(report);
    let mut out = String::new();
    for entry in &record.claims {
        let message = match &entry.failure {
            Some(failure) => failure.to_string(),
            None => entry.reason.clone().unwrap_or_default(),
        };
        match entry.outcome {
            Word::Passed => {}
            Word::Failed => out += &annotation("error", &entry.id, &message),
            Word::Ignored => out += &annotation("notice", &format!("{} ignored", entry.id), &message),
        }
    }
    let closing = format!("{} on Linux {}; settings: {}", record.counts, record.kernel.release, report.under());
    out + &annotation("notice", "small writes", &closing)
}

/// One annotation; `level` is `error`, `warning` or `notice`.
#[must_use]
pub(crate) fn annotation(level: &str, title: &str, message: &str) -> String {
    let message = message.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let title = title.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let title = title.replace(':', "%3A").replace(',', "%2C");
    format!("::{level} title={title}::{message}\n")
}

#[cfg(test)]
mod tests {
    use super::annotation;

    #[test]
    fn what_would_end_a_line_or_a_property_is_escaped() {
        let line = annotation("error", "a: b, c", "100 %\nsaw x");
        assert_eq!(line, "::error title=a%3A b%2C c::100 %25%0Asaw x\n");
    }
}
