//! Reports: what a run of the catalogue came to, for people and for programs.
//!
//! One [`Report`] holds the facts; each [`Format`] is a renderer in a file of its own, a pure function from the facts
//! to text.

mod canonical;
mod github;
pub mod html;
mod json;
mod junit;
mod ktap;
pub mod lines;
mod markdown;
mod record;
pub mod sequence;
mod text;

pub use record::{Entry, Program, Record, RecordError, SCHEMA, Shown, Word};
pub use text::Style;

pub(crate) use github::annotation;
pub(crate) use junit::escape;
pub(crate) use markdown::cell;

use crate::claims::{Claim, Document, Finding, Outcome};
use crate::kernel::Kernel;
use crate::lab::Settings;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What a run of the catalogue came to.
#[derive(Debug)]
pub struct Report<'a> {
    /// Facts of the kernel that it ran on.
    pub kernel: &'a Kernel,
    /// The settings that the labs had, as far as they are not the kernel's defaults.
    pub settings: &'a Settings,
    /// Why no private namespace could be had, if none could.
    pub shared: Option<String>,
    /// What came of each claim, in the catalogue's order.
    pub outcomes: &'a [Outcome],
    /// How long the run took.
    pub took: Duration,
    /// Requests that were recorded segment by segment, to be drawn.
    pub sequences: &'a [sequence::Sequence],
}

/// A form of report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// For a person at a terminal.
    #[default]
    Text,
    /// For programs, with every raw sample; also a baseline.
    Json,
    /// For programs, a line for each claim as it ends.
    JsonLines,
    /// For a page.
    Markdown,
    /// What is the same in every run on a kernel, and nothing else.
    Canonical,
    /// The kernel's Test Anything Protocol.
    Ktap,
    /// JUnit XML.
    Junit,
    /// Annotations on a run of GitHub Actions.
    Github,
    /// A page with pictures.
    Html,
}

/// How many claims came to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
            Format::JsonLines => lines::render(self),
            Format::Ktap => ktap::render(self),
            Format::Junit => junit::render(self),
            Format::Github => github::render(self),
            Format::Html => html::render(self),
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
    #[must_use]
    pub fn place(&self) -> &'static str {
        if self.shared.is_some() { "shared loopback" } else { "private namespaces" }
    }

    /// The settings in words.
    fn under(&self) -> String {
        match self.settings.changed() {
            // Without a namespace nobody can tell the defaults.
            [] if self.shared.is_some() => "the host's".to_owned(),
            [] => "the kernel's defaults".to_owned(),
            changed => changed.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        }
    }

    /// The outcomes of one document, section by section.
    fn sections(&self, document: Document) -> Vec<(&'static str, Vec<&Outcome>)> {
        let mut sections: Vec<(&'static str, Vec<&Outcome>)> = Vec::new();
        for outcome in self.outcomes.iter().filter(|outcome| outcome.claim.document == document) {
            // One heading for a section, wherever in the catalogue its claims stand.
            match sections.iter_mut().find(|(section, _)| *section == outcome.claim.section) {
                Some((_, outcomes)) => outcomes.push(outcome),
                None => sections.push((outcome.claim.section, vec![outcome])),
            }
        }
        sections
    }
}

/// The catalogue as a table for each document, in Markdown.
#[must_use]
pub fn catalogue(claims: &[&Claim]) -> String {
    markdown::catalogue(claims)
}

/// One claim's outcome in words that are the same in every run on a kernel.
#[must_use]
pub fn canonical(outcome: &Outcome) -> String {
    canonical::line(outcome)
}

impl Format {
    /// Every format with its name.
    pub const NAMES: [(Self, &'static str); 9] = [
        (Self::Text, "text"),
        (Self::Json, "json"),
        (Self::JsonLines, "jsonl"),
        (Self::Markdown, "markdown"),
        (Self::Canonical, "canonical"),
        (Self::Ktap, "ktap"),
        (Self::Junit, "junit"),
        (Self::Github, "github"),
        (Self::Html, "html"),
    ];
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
