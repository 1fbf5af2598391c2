//! The written report: what a run came to, as a file that a later run is held against.
//!
//! One form serves as report for programs and as baseline. It carries a [`SCHEMA`] version, the program that wrote
//! it, and a digest of its own content, so that a file that was cut short or edited is not taken for evidence.

use super::sequence::Sequence;
use super::{Counts, Report, canonical};
use crate::claims::{Document, Evidence, Finding, Outcome, Sample};
use crate::expect::Failure;
use crate::kernel::Kernel;
use crate::lab::Settings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write;

/// Version of the written form.
pub const SCHEMA: u32 = 1;

/// What a run of the catalogue came to, in the form that is written and read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Version of this form.
    pub schema: u32,
    /// What wrote it.
    pub program: Program,
    /// Facts of the kernel that it ran on, under the settings.
    pub kernel: Kernel,
    /// "private namespaces" or "shared loopback".
    pub place: String,
    /// The settings that are not the kernel's defaults.
    pub settings: Settings,
    /// How many claims came to what.
    pub counts: Counts,
    /// How long the run took, milliseconds.
    pub took_ms: u64,
    /// Every claim, in the catalogue's order.
    pub claims: Vec<Entry>,
    /// Requests drawn segment by segment.
    pub sequences: Vec<Sequence>,
    /// FNV-1a of everything above.
    pub digest: String,
}

/// The program that wrote a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// What came of one claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The claim's name.
    pub id: String,
    /// Where it is made.
    pub document: Document,
    /// Which part of it.
    pub section: String,
    /// What the document says.
    pub says: String,
    /// `holds`, `holds-with-limit` or `refuted`.
    pub expected: String,
    /// The limit, or what the kernel does instead.
    pub detail: Option<String>,
    /// Kernel function, RFC section or man page.
    pub source: String,
    /// Whether its check passed.
    pub outcome: Word,
    /// Why it failed or was ignored.
    pub reason: Option<String>,
    /// What to do about that.
    pub remedy: Option<String>,
    /// What is the same in every run on a kernel.
    pub canonical: String,
    /// What the check has shown.
    pub evidence: Shown,
    /// What did not hold.
    pub failure: Option<Failure>,
    /// How long the check took, milliseconds.
    pub took_ms: u64,
}

/// What a check has shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// What holds in every run; nothing where the check did not pass.
    pub canonical: Option<String>,
    /// This run's own figures.
    pub measured: Option<String>,
    /// Every exchange that was played, with the raw times.
    pub samples: Vec<Sample>,
}

/// Whether a check passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    /// The kernel does what the catalogue expects.
    Passed,
    /// It does not.
    Failed,
    /// The place could not show it.
    Ignored,
}

/// Why a text is no record of this program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// It ends before it is complete.
    #[error("cut short at line {line}, column {column}; write it again with smallwrites verify --save")]
    CutShort {
        /// Line of its end.
        line: usize,
        /// Column of its end.
        column: usize,
    },
    /// It is not JSON, or not of this form.
    #[error("not a report of smallwrites: {0}; write one with smallwrites verify --save")]
    Malformed(String),
    /// Another program wrote it.
    #[error("written by {0:?}, not by smallwrites")]
    Foreign(String),
    /// It has another version of the form.
    #[error(
        "schema version {0}, and this program reads {SCHEMA}; write it again with smallwrites verify --save of this program"
    )]
    Schema(u64),
    /// Its content is not what was written.
    #[error("edited after it was written: {0}; write it again with smallwrites verify --save")]
    Edited(String),
}

impl Record {
    /// The record of a run.
    #[must_use]
    pub fn of(report: &Report<'_>) -> Self {
        let mut record = Self {
            schema: SCHEMA,
            program: Program { name: env!("CARGO_PKG_NAME").to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
            kernel: report.kernel.clone(),
            place: report.place().to_owned(),
            settings: report.settings.clone(),
            counts: report.counts(),
            took_ms: millis(report.took),
            claims: report.outcomes.iter().map(Entry::of).collect(),
            sequences: report.sequences.to_vec(),
            digest: String::new(),
        };
        record.seal();
        record
    }

    /// Reads what [`Record`]'s `Display` wrote.
    ///
    /// # Errors
    ///
    /// Where the text is cut short, edited, of another schema version, or of another program: in one line.
    ///
    /// ```
    /// use smallwrites::report::Record;
    ///
    /// let error = Record::read("{\"schema\": 1,").unwrap_err();
    /// assert!(error.to_string().starts_with("cut short at line 1"));
    /// ```
    pub fn read(text: &str) -> Result<Self, RecordError> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(unreadable)?;
        match (value.pointer("/program/name").and_then(serde_json::Value::as_str), value.get("schema")) {
            (Some(name), _) if name != env!("CARGO_PKG_NAME") => return Err(RecordError::Foreign(name.to_owned())),
            (None, _) => return Err(RecordError::Malformed("it names no program".to_owned())),
            (_, Some(schema)) if schema.as_u64() == Some(SCHEMA.into()) => {}
            (_, Some(schema)) if schema.is_u64() => {
                return Err(RecordError::Schema(schema.as_u64().unwrap_or_default()));
            }
            _ => return Err(RecordError::Malformed("it has no schema version".to_owned())),
        }
        // From the text and not from the value, for an error with its place.
        let record: Self = serde_json::from_str(text).map_err(unreadable)?;
        record.check()?;
        Ok(record)
    }

    /// The claim of this name.
    #[must_use]
    pub fn claim(&self, id: &str) -> Option<&Entry> {
        self.claims.iter().find(|entry| entry.id == id)
    }

    /// The same with only the claims that `wanted` names.
    #[must_use]
    pub fn only(mut self, wanted: impl Fn(&str) -> bool) -> Self {
        self.claims.retain(|entry| wanted(&entry.id));
        self.seal();
        self
    }

    /// Brings counts and digest in line with the content.
    pub(crate) fn seal(&mut self) {
        self.counts = self.counted();
        self.digest = self.digested();
    }

    fn counted(&self) -> Counts {
        let count = |word| self.claims.iter().filter(|entry| entry.outcome == word).count();
        Counts { passed: count(Word::Passed), failed: count(Word::Failed), ignored: count(Word::Ignored) }
    }

    fn digested(&self) -> String {
        let fnv = self
            .body()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        format!("{fnv:016x}")
    }

    /// Holds the content against itself. The digest alone would do; the others say what was edited.
    fn check(&self) -> Result<(), RecordError> {
        let edited = |what: String| Err(RecordError::Edited(what));
        let mut ids = BTreeSet::new();
        for entry in &self.claims {
            if !ids.insert(&entry.id) {
                return edited(format!("claim {:?} stands there twice", entry.id));
            }
            if !entry.canonical.starts_with(&format!("{}: {} (", entry.id, entry.outcome)) {
                return edited(format!("claim {:?} does not agree with its canonical line", entry.id));
            }
            if entry.failure.is_some() != (entry.outcome == Word::Failed) {
                return edited(format!("claim {:?} does not agree with its failure", entry.id));
            }
        }
        if self.counts != self.counted() {
            return edited(format!("it counts {}, and its claims are {}", self.counts, self.counted()));
        }
        if self.digest != self.digested() {
            return edited("its digest is that of other content".to_owned());
        }
        Ok(())
    }

    /// Everything but the digest, a line for each claim: easy on diff and grep.
    fn body(&self) -> String {
        let mut out = String::from("{\n");
        let mut field = |name: &str, value: &dyn Fn() -> serde_json::Result<String>| {
            // Plain data with string keys: there is nothing in it that JSON cannot say.
            let _ = writeln!(out, "  \"{name}\": {},", value().unwrap_or_default());
        };
        field("schema", &|| serde_json::to_string(&self.schema));
        field("program", &|| serde_json::to_string(&self.program));
        field("kernel", &|| serde_json::to_string(&self.kernel));
        field("place", &|| serde_json::to_string(&self.place));
        field("settings", &|| serde_json::to_string(&self.settings));
        field("counts", &|| serde_json::to_string(&self.counts));
        field("took_ms", &|| serde_json::to_string(&self.took_ms));
        field("claims", &|| a_line_each(&self.claims));
        field("sequences", &|| a_line_each(&self.sequences));
        out
    }
}

/// The text that [`Record::read`] reads.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  \"digest\": \"{}\"\n}}\n", self.body(), self.digest)
    }
}

impl Entry {
    /// The entry of one outcome.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        let claim = outcome.claim;
        let (evidence, failure, reason, remedy) = match &outcome.finding {
            Finding::Passed(evidence) => (Some(evidence.clone()), None, None, None),
            Finding::Failed(failure) => {
                let reason = format!("expected {}, saw {}", failure.expected, failure.saw);
                (None, Some(failure.clone()), Some(reason), failure.remedy.clone())
            }
            Finding::Ignored(missing) => (None, None, Some(missing.reason.clone()), Some(missing.remedy.clone())),
        };
        let (canonical, measured) = evidence.map(|Evidence { canonical, measured }| (canonical, measured)).unzip();
        Self {
            id: claim.id.to_owned(),
            document: claim.document,
            section: claim.section.to_owned(),
            says: claim.says.to_owned(),
            expected: claim.expected.word().to_owned(),
            detail: claim.expected.detail().map(str::to_owned),
            source: claim.source.to_owned(),
            outcome: Word::of(&outcome.finding),
            reason,
            remedy,
            canonical: canonical::line(outcome),
            evidence: Shown { canonical, measured, samples: outcome.samples.clone() },
            failure,
            took_ms: millis(outcome.took),
        }
    }
}

impl Word {
    fn of(finding: &Finding) -> Self {
        match finding {
            Finding::Passed(_) => Self::Passed,
            Finding::Failed(_) => Self::Failed,
            Finding::Ignored(_) => Self::Ignored,
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Ignored => "ignored",
        })
    }
}

fn a_line_each(items: &[impl Serialize]) -> serde_json::Result<String> {
    let items: Vec<String> = items.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    let lines: Vec<String> = items.into_iter().map(|item| format!("    {item}")).collect();
    Ok(if lines.is_empty() { "[]".to_owned() } else { format!("[\n{}\n  ]", lines.join(",\n")) })
}

fn unreadable(error: serde_json::Error) -> RecordError {
    if error.is_eof() {
        RecordError::CutShort { line: error.line(), column: error.column() }
    } else {
        RecordError::Malformed(error.to_string().replace('\n', " "))
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
