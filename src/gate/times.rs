//! Times of two runs, held against each other with their spread.

use crate::claims::Sample;
use crate::observation::milliseconds;
use serde::Serialize;
use std::fmt;

/// How many spreads of both runs together two medians must be apart: about four standard deviations where times
/// scatter normally, since one median absolute deviation is 0.67 of one.
const SPREADS: u64 = 3;

/// The smallest change of a median that is worth a line, per cent.
const WORTH: f64 = 10.0;

/// The smallest one, microseconds: below lie a CPU's caches and clock, and no timer of TCP.
const WORTH_US: u64 = 50;

/// The middle of some times and how far they lie from it, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// How many.
    pub n: usize,
    /// Their median, by nearest rank.
    pub median_us: u64,
    /// The median of their distances from it.
    pub deviation_us: u64,
}

/// An exchange whose requests take another time than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shift {
    /// The claim that plays it.
    pub claim: String,
    /// The exchange.
    pub exchange: String,
    /// Before.
    pub old: Spread,
    /// Now.
    pub new: Spread,
}

impl Spread {
    /// The spread of some times; `None` where there are none.
    ///
    /// ```
    /// use smallwrites::gate::Spread;
    ///
    /// let spread = Spread::of(&[40_100, 44_000, 43_900, 44_200, 90_000]).unwrap();
    /// assert_eq!((spread.median_us, spread.deviation_us), (44_000, 200));
    /// ```
    #[must_use]
    pub fn of(times_us: &[u64]) -> Option<Self> {
        let median_us = median(times_us.to_vec())?;
        let deviation_us = median(times_us.iter().map(|time| time.abs_diff(median_us)).collect())?;
        Some(Self { n: times_us.len(), median_us, deviation_us })
    }
}

impl Shift {
    /// The shifts between the exchanges that one claim played in two runs, as far as they were the same exchanges.
    pub(super) fn between<'a>(claim: &'a str, old: &'a [Sample], new: &'a [Sample]) -> impl Iterator<Item = Self> + 'a {
        let same = |(old, new): &(&Sample, &Sample)| {
            (&old.exchange, old.order, &old.place) == (&new.exchange, new.order, &new.place)
        };
        let shift = move |(old, new): (&Sample, &Sample)| {
            let (exchange, claim) = (new.exchange.clone(), claim.to_owned());
            let (old, new) = (Spread::of(&old.latencies_us)?, Spread::of(&new.latencies_us)?);
            Some(Self { claim, exchange, old, new })
        };
        old.iter().zip(new).filter(same).filter_map(shift).filter(|shift| shift.is_beyond_spread(WORTH))
    }

    /// By how much the median rose, per cent; negative where it fell.
    #[must_use]
    pub fn percent(&self) -> f64 {
        let (old, new) = (self.old.median_us as f64, self.new.median_us as f64);
        // A time of 0 is one below the clock's resolution.
        (new - old) / old.max(1.0) * 100.0
    }

    /// Whether it became slower by more than this.
    #[must_use]
    pub fn is_slower_by(&self, percent: f64) -> bool {
        self.percent() > percent
    }

    fn is_beyond_spread(&self, percent: f64) -> bool {
        let apart = self.old.median_us.abs_diff(self.new.median_us);
        let spread = self.old.deviation_us.saturating_add(self.new.deviation_us).saturating_mul(SPREADS);
        apart >= WORTH_US && apart > spread && self.percent().abs() >= percent
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ± {}", milliseconds(self.median_us), milliseconds(self.deviation_us))
    }
}

impl fmt::Display for Shift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {} ({:+.0} %)  {}", self.old, self.new, self.percent(), self.exchange)
    }
}

fn median(mut times: Vec<u64>) -> Option<u64> {
    times.sort_unstable();
    times.get(times.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shift(old: [u64; 3], new: [u64; 3]) -> Shift {
        let [old, new] = [old, new].map(|times| Spread::of(&times).unwrap());
        Shift { claim: "c".to_owned(), exchange: "C: / S:".to_owned(), old, new }
    }

    #[test]
    fn a_shift_within_the_spread_is_none() {
        assert!(!shift([40_000, 44_000, 48_000], [44_000, 50_000, 56_000]).is_beyond_spread(WORTH));
        assert!(shift([43_900, 44_000, 44_100], [19_900, 20_000, 20_100]).is_beyond_spread(WORTH));
    }

    #[test]
    fn a_shift_of_microseconds_is_none() {
        assert!(!shift([2; 3], [3; 3]).is_beyond_spread(WORTH));
    }

    #[test]
    fn a_faster_run_is_not_slower() {
        let faster = shift([44_000; 3], [20_000; 3]);
        assert!(faster.is_beyond_spread(WORTH) && !faster.is_slower_by(10.0));
        assert!(shift([20_000; 3], [44_000; 3]).is_slower_by(100.0));
    }

    #[test]
    fn times_below_the_clock_divide_by_nothing() {
        assert!(shift([0; 3], [5; 3]).percent().is_finite());
        assert_eq!(Spread::of(&[]), None);
    }
}
