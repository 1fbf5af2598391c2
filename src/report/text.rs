//! The report for a person at a terminal.

use super::Report;
use crate::claims::{Document, Evidence, Finding, Outcome};
use std::fmt::Write;

/// How a terminal wants its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Whether it shows colour.
    pub colour: bool,
    /// Columns to keep a line of evidence within; no limit where `None`.
    pub width: Option<usize>,
}

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("{code}{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Cuts a line to the width, from the column where it begins.
    fn cut(self, text: &str, column: usize) -> String {
        let room = self.width.map(|width| width.saturating_sub(column).max(24));
        match room {
            Some(room) if text.chars().count() > room => {
                text.chars().take(room - 1).chain(std::iter::once('…')).collect()
            }
            _ => text.to_owned(),
        }
    }
}

pub(super) fn render(report: &Report<'_>, style: Style) -> String {
    let kernel = report.kernel;
    let mut out = format!(
        "smallwrites {} on Linux {}: jiffy {} ms, pingpong threshold {}, {}\n",
        env!("CARGO_PKG_VERSION"),
        kernel.release,
        kernel.jiffy_us as f64 / 1000.0,
        kernel.pingpong_threshold.map_or_else(|| "a constant".to_owned(), |threshold| threshold.to_string()),
        report.place(),
    );
    let _ = writeln!(out, "settings: {}", report.under());
    let names = report.outcomes.iter().map(|outcome| outcome.claim.id.len()).max().unwrap_or(0);
    for document in Document::ALL {
        let sections = report.sections(document);
        if !sections.is_empty() {
            let _ = writeln!(out, "\n{}", style.paint(BOLD, document.title()));
        }
        for (section, outcomes) in sections {
            let _ = writeln!(out, "  {}", style.paint(DIM, section));
            for outcome in outcomes {
                line(&mut out, outcome, names, style);
            }
        }
    }
    let _ = write!(out, "\n{}", closing(report, style));
    out
}

fn line(out: &mut String, outcome: &Outcome, names: usize, style: Style) {
    let claim = outcome.claim;
    let (mark, colour, verdict) = match &outcome.finding {
        Finding::Passed(_) => ("ok", GREEN, claim.expected.word()),
        Finding::Failed(_) => ("FAILED", RED, claim.expected.word()),
        Finding::Ignored(_) => ("ignored", YELLOW, claim.expected.word()),
    };
    let evidence = match &outcome.finding {
        Finding::Passed(evidence) => one_line(evidence),
        Finding::Failed(failure) => failure.saw.replace('\n', " "),
        Finding::Ignored(missing) => missing.reason.clone(),
    };
    let column = 4 + 8 + 17 + names + 2;
    let _ = writeln!(
        out,
        "    {} {verdict:<16} {:<names$}  {}",
        style.paint(colour, &format!("{mark:<7}")),
        claim.id,
        style.cut(&evidence, column)
    );
    if let Finding::Failed(failure) = &outcome.finding {
        for line in failure.to_string().lines() {
            let _ = writeln!(out, "        {line}");
        }
    }
}

/// This run's figures where there are any, then what holds in every run.
fn one_line(evidence: &Evidence) -> String {
    match (evidence.measured.as_str(), evidence.canonical.as_str()) {
        ("", canonical) => canonical.to_owned(),
        (measured, canonical) => format!("{canonical} ({measured})"),
    }
}

fn closing(report: &Report<'_>, style: Style) -> String {
    let counts = report.counts();
    let words: Vec<String> = ["holds", "holds-with-limit", "refuted"]
        .iter()
        .filter_map(|word| {
            let passed = |outcome: &&Outcome| {
                matches!(outcome.finding, Finding::Passed(_)) && outcome.claim.expected.word() == *word
            };
            let count = report.outcomes.iter().filter(passed).count();
            (count > 0).then(|| format!("{count} {word}"))
        })
        .collect();
    let total = report.outcomes.len();
    let seconds = report.took.as_secs_f64();
    let colour = if counts.failed > 0 { RED } else { GREEN };
    let passed = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
    let mut out = style.paint(
        colour,
        &format!(
            "{total} claims: {} as expected{passed}, {} failed, {} ignored in {seconds:.1} s",
            counts.passed, counts.failed, counts.ignored
        ),
    );
    out.push('\n');
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for outcome in report.outcomes {
        if let Finding::Ignored(missing) = &outcome.finding {
            let reason = format!("{}; {}", missing.reason, missing.remedy);
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => reasons.push((reason, 1)),
            }
        }
    }
    for (reason, count) in reasons {
        let _ = writeln!(out, "  {count} ignored: {reason}");
    }
    out
}
