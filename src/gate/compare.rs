//! What changed between two records.

use super::times::Shift;
use crate::observation::milliseconds;
use crate::report::{Entry, Record, Word};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What changed from one record to another.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Comparison {
    /// What was compared, in words: release and settings of each.
    pub runs: [String; 2],
    /// Claims whose verdict is another.
    pub flips: Vec<Flip>,
    /// Claims with the same verdict whose counts, patterns or bounds are others.
    pub counts: Vec<Flip>,
    /// Claims that only the old record has.
    pub vanished: Vec<String>,
    /// Claims that only the new record has.
    pub appeared: Vec<String>,
    /// Exchanges that take another time.
    pub shifts: Vec<Shift>,
    /// Settings and facts of the kernel that differ.
    pub settings: Vec<Difference>,
    /// How many claims are the same in verdict and counts.
    pub unchanged: usize,
}

/// A claim that came to something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flip {
    /// The claim.
    pub claim: String,
    /// Before.
    pub old: Other,
    /// Now.
    pub new: Other,
    /// The settings to blame, where they are known.
    pub setting: Option<String>,
}

/// One side of a [`Flip`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Other {
    /// `passed (holds)`: whether the check passed, and what is expected of the claim.
    pub verdict: String,
    /// What was shown, or why not.
    pub evidence: String,
}

/// A setting or a fact with two values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its name.
    pub name: String,
    /// Before; `None` where it did not exist.
    pub old: Option<String>,
    /// Now.
    pub new: Option<String>,
}

impl Comparison {
    /// Holds two records against each other.
    #[must_use]
    pub fn of(old: &Record, new: &Record) -> Self {
        let mut changed = Self {
            runs: [old, new].map(describe),
            settings: differences(old, new),
            vanished: absent(old, new),
            appeared: absent(new, old),
            ..Self::default()
        };
        for now in &new.claims {
            let Some(before) = old.claim(&now.id) else { continue };
            if (before.outcome, &before.expected) != (now.outcome, &now.expected) {
                changed.flips.push(flip(before, now));
            } else if before.outcome != Word::Ignored && before.canonical != now.canonical {
                // Why a claim was ignored is the place's to say, and nothing was counted.
                changed.counts.push(flip(before, now));
            } else {
                changed.unchanged += 1;
            }
            changed.shifts.extend(Shift::between(&now.id, &before.evidence.samples, &now.evidence.samples));
        }
        changed
    }

    /// Whether a verdict or a count changed or a claim vanished, or where a limit is given, a median rose by more than
    /// so many per cent and beyond its spread.
    #[must_use]
    pub fn trips(&self, times_percent: Option<f64>) -> bool {
        let slower = |limit| self.shifts.iter().any(|shift| shift.is_slower_by(limit));
        !(self.flips.is_empty() && self.counts.is_empty() && self.vanished.is_empty())
            || times_percent.is_some_and(slower)
    }

    /// Whether nothing at all differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.trips(None) && self.appeared.is_empty() && self.shifts.is_empty() && self.settings.is_empty()
    }
}

fn describe(record: &Record) -> String {
    let settings = record.settings.changed();
    let under = match settings {
        [] => "the kernel's default settings".to_owned(),
        _ => settings.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    format!("Linux {}, {} claims in {}, {under}", record.kernel.release, record.claims.len(), record.place)
}

fn absent(from: &Record, there: &Record) -> Vec<String> {
    let ids: BTreeSet<&str> = there.claims.iter().map(|entry| entry.id.as_str()).collect();
    from.claims.iter().filter(|entry| !ids.contains(entry.id.as_str())).map(|entry| entry.id.clone()).collect()
}

fn flip(old: &Entry, new: &Entry) -> Flip {
    let setting = |entry: &Entry| entry.failure.as_ref().and_then(|failure| failure.setting.clone());
    Flip { claim: new.id.clone(), old: other(old), new: other(new), setting: setting(new).or_else(|| setting(old)) }
}

fn other(entry: &Entry) -> Other {
    let evidence = entry.evidence.canonical.clone().or_else(|| entry.reason.clone());
    Other {
        verdict: format!("{} ({})", entry.outcome, entry.expected),
        evidence: evidence.unwrap_or_else(|| entry.canonical.clone()),
    }
}

/// Facts and settings by name, as far as they differ.
fn differences(old: &Record, new: &Record) -> Vec<Difference> {
    let [old, new] = [old, new].map(facts);
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differs = names.into_iter().filter(|name| old.get(*name) != new.get(*name)).map(|name| Difference {
        name: name.clone(),
        old: old.get(name).cloned(),
        new: new.get(name).cloned(),
    });
    differs.collect()
}

fn facts(record: &Record) -> BTreeMap<String, String> {
    let kernel = &record.kernel;
    let mut facts = kernel.sysctls.clone();
    let set = record.settings.changed().iter().filter(|setting| setting.refused.is_none());
    facts.extend(set.map(|setting| (setting.name.clone(), setting.value.clone())));
    let of_kernel = [
        ("kernel release", Some(kernel.release.clone())),
        ("jiffy", Some(milliseconds(kernel.jiffy_us))),
        ("struct tcp_info, bytes", Some(kernel.tcp_info_bytes.to_string())),
        ("TCP_DELACK_MAX_US", kernel.delack_max_us.map(|us| us.to_string())),
        ("place", Some(record.place.clone())),
        ("program version", Some(record.program.version.clone())),
    ];
    facts.extend(of_kernel.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    facts
}
