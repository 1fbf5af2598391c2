//! What a check that passed has shown.

use crate::exchange::Sides;
use crate::expect::Expect;
use crate::observation::{Observation, Order};
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a check has established.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// What holds, the same in every run on a kernel: verdict words, exact counts, lower bounds.
    pub canonical: String,
    /// This run's own figures.
    pub measured: String,
}

/// One exchange that a check played, with the raw times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The exchange, in the notation.
    pub exchange: String,
    /// Who ran when.
    pub order: Order,
    /// Where.
    pub place: String,
    /// What it came to.
    pub verdict: Verdict,
    /// Latency of every request, microseconds.
    pub latencies_us: Vec<u64>,
    /// Data segments of each side.
    pub data_segments: Sides<Option<u32>>,
    /// Data segments of each side in each request.
    pub segments_by_request: Sides<Vec<Option<u32>>>,
    /// Segments without data of each side.
    pub bare_acks: Sides<Option<u32>>,
    /// The namespace's counters that moved.
    pub counters: Option<BTreeMap<String, i64>>,
}

impl Evidence {
    /// What a check established by other means than a chain of assertions.
    #[must_use]
    pub fn says(canonical: impl Into<String>, measured: impl Into<String>) -> Self {
        Self { canonical: canonical.into(), measured: measured.into() }
    }

    /// What several chains established, each under its label.
    #[must_use]
    pub fn of<'a>(parts: impl IntoIterator<Item = (&'a str, Expect<'a>)>) -> Self {
        let mut canonical = Vec::new();
        let mut measured = Vec::new();
        for (label, expect) in parts {
            let label = if label.is_empty() { String::new() } else { format!("{label}: ") };
            let holds: Vec<&str> = expect.facts().iter().map(|fact| fact.holds.as_str()).collect();
            canonical.push(format!("{label}{}", holds.join(", ")));
            if let Some(figures) = expect.facts().iter().find_map(|fact| fact.measured.as_ref()) {
                measured.push(format!("{label}{figures}"));
            }
        }
        Self { canonical: canonical.join("; "), measured: measured.join("; ") }
    }

    /// The same with something more.
    #[must_use]
    pub fn and(mut self, canonical: impl AsRef<str>) -> Self {
        self.canonical = format!("{}; {}", self.canonical, canonical.as_ref());
        self
    }

    /// The same with this run's own figures.
    #[must_use]
    pub fn measuring(mut self, measured: impl Into<String>) -> Self {
        self.measured = measured.into();
        self
    }
}

impl From<Expect<'_>> for Evidence {
    fn from(expect: Expect<'_>) -> Self {
        Self::of([("", expect)])
    }
}

impl Sample {
    pub(super) fn of(seen: &Observation) -> Self {
        let moved = |counters: &BTreeMap<String, i64>| {
            counters.iter().filter(|(_, change)| **change != 0).map(|(name, change)| (name.clone(), *change)).collect()
        };
        Self {
            exchange: seen.exchange.to_string(),
            order: seen.order,
            place: seen.environment.place.clone(),
            verdict: Verdict::of(seen),
            latencies_us: seen.latencies_us(),
            data_segments: Sides::from_fn(|side| seen.sockets[side].data_segments),
            segments_by_request: Sides::from_fn(|side| {
                seen.requests.iter().map(|request| request.data_segments[side]).collect()
            }),
            bare_acks: Sides::from_fn(|side| seen.sockets[side].bare_acks),
            counters: seen.counters.as_ref().map(moved),
        }
    }
}
