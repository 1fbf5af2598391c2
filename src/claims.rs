//! The catalogue: every checkable statement about small writes, as an executable claim.
//!
//! A claim knows what its document says, what a Linux kernel is expected to do, how to check it, and a
//! *control*: the same check under a condition that breaks the claim, which must not pass.
//!
//! ```no_run
//! use smallwrites::claims::{self, Finding, Setting};
//!
//! smallwrites::lab::enter()?;
//! let claim = claims::find("default-pattern-stalls").expect("it is in the catalogue");
//! let outcome = claims::check(claim, &Setting::probe()?);
//! assert!(matches!(outcome.finding, Finding::Passed(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Writing a claim
//!
//! Add an entry to the file of its chapter: its words, its source, a function that plays exchanges on a [`Stage`]
//! and asserts what it saw, and the twist that must make the check fail.

mod article;
mod beyond;
mod blame;
mod chapter;
mod echo_lab;
mod evidence;
mod explain;
mod foreign;
mod need;
mod peers;
mod run;
mod scene;
mod scenes;
mod stage;
mod tls;
mod wire;

pub use evidence::{Evidence, Sample};
pub use explain::{Explained, explain};
pub use need::{Missing, Need};
pub use run::{Event, Finding, Outcome, Setting, at_once, check, control, run};
pub use scene::Scene;
pub use stage::Stage;

use crate::exchange::Exchange;
use crate::expect::Failure;
use crate::lab::Conditions;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One checkable statement.
#[derive(Debug)]
pub struct Claim {
    /// Its name in tests, reports and baselines; never changes.
    pub id: &'static str,
    /// Where it is made.
    pub document: Document,
    /// Which part of it.
    pub section: &'static str,
    /// What the document says.
    pub says: &'static str,
    /// What a Linux kernel is expected to do.
    pub expected: Expected,
    /// Kernel function, RFC section or man page.
    pub source: &'static str,
    /// What a place must have for the check.
    pub needs: &'static [Need],
    /// Checks it.
    pub check: fn(&Stage<'_>) -> Result<Evidence, Failure>,
    /// What must make the check fail.
    pub control: Control,
}

/// A document that makes claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Document {
    /// The chapter on small writes with three labs.
    Chapter,
    /// The article on TCP_NODELAY in several languages.
    Article,
    /// The echo lab on localhost with five arms.
    EchoLab,
    /// Claims that the field needs and no document makes.
    Beyond,
}

/// What a Linux kernel is expected to do about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// What the document says.
    Holds,
    /// What the document says, under a condition that it leaves out.
    HoldsWithLimit(&'static str),
    /// Something else.
    Refuted(&'static str),
}

/// A condition that breaks a claim.
#[derive(Debug, Clone, Copy)]
pub struct Control {
    /// The condition, in words.
    pub breaks: &'static str,
    /// How it is brought about.
    pub twist: Twist,
}

/// How a control brings its condition about.
#[derive(Debug, Clone, Copy)]
pub enum Twist {
    /// Every exchange is played under other conditions.
    Conditions(fn(Conditions) -> Conditions),
    /// Another exchange is played, made from the claim's own.
    Exchange(fn(Exchange) -> Exchange),
    /// This exchange is played in place of every one of the claim's.
    Instead(&'static str),
    /// The check asks [`Stage::is_twisted`] and does it itself.
    Check,
}

/// Every claim, document by document, in the documents' order.
#[must_use]
pub fn catalogue() -> Vec<&'static Claim> {
    let documents = [chapter::claims(), article::claims(), echo_lab::claims()];
    let beyond = [beyond::claims(), wire::beyond(), peers::claims(), foreign::beyond(), tls::BEYOND.iter().collect()];
    documents.into_iter().chain(beyond).flatten().collect()
}

/// The claim with this id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Claim> {
    catalogue().into_iter().find(|claim| claim.id == id)
}

impl Document {
    /// Every document, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Chapter, Self::Article, Self::EchoLab, Self::Beyond];

    /// Its title in a report.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Chapter => "The chapter: small writes, Nagle, delayed ACKs and the 40 ms stall",
            Self::Article => "The article: TCP_NODELAY in several languages",
            Self::EchoLab => "The echo lab: five arms on localhost",
            Self::Beyond => "Beyond the documents",
        }
    }
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Chapter => "chapter",
            Self::Article => "article",
            Self::EchoLab => "echo-lab",
            Self::Beyond => "beyond",
        })
    }
}

impl Expected {
    /// The word for it: `holds`, `holds-with-limit` or `refuted`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsWithLimit(_) => "holds-with-limit",
            Self::Refuted(_) => "refuted",
        }
    }

    /// The limit, or what the kernel does instead.
    #[must_use]
    pub fn detail(self) -> Option<&'static str> {
        match self {
            Self::Holds => None,
            Self::HoldsWithLimit(limit) => Some(limit),
            Self::Refuted(instead) => Some(instead),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_id_is_unique_and_made_of_lower_case_words() {
        let mut ids = BTreeSet::new();
        for claim in catalogue() {
            assert!(ids.insert(claim.id), "{} appears twice", claim.id);
            let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
            assert!(claim.id.chars().all(word), "{}", claim.id);
        }
    }

    #[test]
    fn every_claim_has_words_a_source_and_a_control() {
        for claim in catalogue() {
            assert!(claim.says.len() > 10 && claim.source.len() > 3 && claim.control.breaks.len() > 3, "{}", claim.id);
            assert!(!claim.says.ends_with('.'), "{}: statements are fragments", claim.id);
        }
    }
}
