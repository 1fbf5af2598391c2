//! JUnit XML, as Jenkins and GitLab read it: a suite for each document, a case for each claim.

use super::{Entry, Record, Report, Word};
use crate::claims::Document;
use std::fmt::Write;

pub(super) fn render(report: &Report<'_>) -> String {
    let record = Record::of(report);
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        out,
        "<testsuites name=\"smallwrites\" {} time=\"{}\">",
        tally(&record.claims.iter().collect::<Vec<_>>()),
        seconds(record.took_ms)
    );
    for document in Document::ALL {
        let entries: Vec<&Entry> = record.claims.iter().filter(|entry| entry.document == document).collect();
        if entries.is_empty() {
            continue;
        }
        let took = entries.iter().map(|entry| entry.took_ms).sum();
        let skipped = entries.iter().filter(|entry| entry.outcome == Word::Ignored).count();
        let _ = writeln!(
            out,
            "  <testsuite name=\"{document}\" {} skipped=\"{skipped}\" time=\"{}\">",
            tally(&entries),
            seconds(took)
        );
        properties(&mut out, &record);
        for entry in entries {
            case(&mut out, entry);
        }
        out += "  </testsuite>\n";
    }
    out + "</testsuites>\n"
}

fn tally(entries: &[&Entry]) -> String {
    let failed = entries.iter().filter(|entry| entry.outcome == Word::Failed).count();
    format!("tests=\"{}\" failures=\"{failed}\" errors=\"0\"", entries.len())
}

fn properties(out: &mut String, record: &Record) {
    out.push_str("    <properties>\n");
    let mut property = |name: &str, value: &str| {
        let _ = writeln!(out, "      <property name=\"{}\" value=\"{}\"/>", escape(name), escape(value));
    };
    property("kernel", &record.kernel.release);
    property("place", &record.place);
    property("program", &record.program.version);
    for setting in record.settings.changed() {
        property(&setting.name, &setting.value);
    }
    out.push_str("    </properties>\n");
}

fn case(out: &mut String, entry: &Entry) {
    let _ = write!(
        out,
        "    <testcase classname=\"smallwrites.{}\" name=\"{}\" time=\"{}\"",
        entry.document,
        escape(&entry.id),
        seconds(entry.took_ms)
    );
    let reason = escape(entry.reason.as_deref().unwrap_or_default());
    let _ = match (&entry.outcome, &entry.failure) {
        (Word::Failed, failure) => {
            let text = failure.as_ref().map(ToString::to_string).unwrap_or_default();
            writeln!(
                out,
                ">\n      <failure message=\"{reason}\" type=\"claim\">{}</failure>\n    </testcase>",
                escape(&text)
            )
        }
        (Word::Ignored, _) => writeln!(out, ">\n      <skipped message=\"{reason}\"/>\n    </testcase>"),
        (Word::Passed, _) => {
            let shown = entry.evidence.canonical.as_deref().unwrap_or_default();
            writeln!(out, ">\n      <system-out>{}</system-out>\n    </testcase>", escape(shown))
        }
    };
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}

/// Text that is safe in an element and between quotes; what XML 1.0 cannot say at all becomes a replacement character.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\t' | '\n' => out.push(character),
            control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_ends_its_element() {
        assert_eq!(escape("a < b & \"c\" > d\u{1}"), "a &lt; b &amp; &quot;c&quot; &gt; d\u{fffd}");
        assert_eq!(seconds(12_034), "12.034");
    }
}
