//! Reports: what a run of the catalogue came to, for people and for programs.
//!
//! One [`Report`] holds the facts; each [`Format`] is a renderer in a file of its own, a pure function from the facts
//! to text.

mod canonical;
mod json;
mod markdown;
pub mod sequence;
mod text;

pub use text::Style;

use crate::claims::{Document, Finding, Outcome};
use crate::kernel::Kernel;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Version of the written forms.
pub const SCHEMA: u32 = 1;

/// What a run of the catalogue came to.
#[derive(Debug)]
pub struct Report<'a> {
    /// Facts of the kernel that it ran on.
    pub kernel: &'a Kernel,
    /// Why no private namespace could be had, if none could.
    pub shared: Option<String>,
    /// What came of each claim, in the catalogue's order.
    pub outcomes: &'a [Outcome],
    /// How long the run took.
    pub took: Duration,
}

/// A form of report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// For a person at a terminal.
    #[default]
    Text,
    /// For programs, with every raw sample.
    Json,
    /// For a page.
    Markdown,
    /// What is the same in every run on a kernel, and nothing else.
    Canonical,
}

/// How many claims came to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// The kernel does what the catalogue expects.
    pub passed: usize,
    /// It does not.
    pub failed: usize,
    /// This place could not show it.
    pub ignored: usize,
}

impl Report<'_> {
    /// The report as text.
    #[must_use]
    pub fn render(&self, format: Format, style: Style) -> String {
        match format {
            Format::Text => text::render(self, style),
            Format::Json => json::render(self),
            Format::Markdown => markdown::render(self),
            Format::Canonical => canonical::render(self.outcomes),
        }
    }

    /// How many claims came to what.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for outcome in self.outcomes {
            match outcome.finding {
                Finding::Passed(_) => counts.passed += 1,
                Finding::Failed(_) => counts.failed += 1,
                Finding::Ignored(_) => counts.ignored += 1,
            }
        }
        counts
    }

    /// Where the claims were checked.
    fn place(&self) -> &'static str {
        if self.shared.is_some() { "shared loopback" } else { "private namespaces" }
    }

    /// The outcomes of one document, section by section.
    fn sections(&self, document: Document) -> Vec<(&'static str, Vec<&Outcome>)> {
        let mut sections: Vec<(&'static str, Vec<&Outcome>)> = Vec::new();
        for outcome in self.outcomes.iter().filter(|outcome| outcome.claim.document == document) {
            match sections.last_mut() {
                Some((section, outcomes)) if *section == outcome.claim.section => outcomes.push(outcome),
                _ => sections.push((outcome.claim.section, vec![outcome])),
            }
        }
        sections
    }
}

/// One claim's outcome in words that are the same in every run on a kernel.
#[must_use]
pub fn canonical(outcome: &Outcome) -> String {
    canonical::line(outcome)
}

impl Format {
    /// Every format with its name.
    pub const NAMES: [(Self, &'static str); 4] =
        [(Self::Text, "text"), (Self::Json, "json"), (Self::Markdown, "markdown"), (Self::Canonical, "canonical")];
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(_, name)| *name == text).map(|(format, _)| *format);
        let names: Vec<&str> = Self::NAMES.iter().map(|(_, name)| *name).collect();
        found.ok_or_else(|| format!("met \"{text}\", expected one of {}", names.join(", ")))
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} ignored", self.passed, self.failed, self.ignored)
    }
}
