//! Order statistics of raw samples.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a set of times comes to, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// How many samples.
    pub n: usize,
    /// The smallest.
    pub least_us: u64,
    /// The middle one, by nearest rank.
    pub median_us: u64,
    /// The largest.
    pub worst_us: u64,
}

impl Summary {
    /// Sums up samples in any order; `None` where there are none.
    ///
    /// ```
    /// use smallwrites::observation::Summary;
    ///
    /// let summary = Summary::of([44_000, 41_000, 30]).unwrap();
    /// assert_eq!((summary.median_us, summary.worst_us, summary.n), (41_000, 44_000, 3));
    /// assert_eq!(Summary::of([]), None);
    /// ```
    #[must_use]
    pub fn of(samples: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut sorted: Vec<u64> = samples.into_iter().collect();
        sorted.sort_unstable();
        let (least_us, worst_us) = (*sorted.first()?, *sorted.last()?);
        Some(Self { n: sorted.len(), least_us, median_us: quantile(&sorted, 0.5), worst_us })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "median {}, n {}, worst {}", milliseconds(self.median_us), self.n, milliseconds(self.worst_us))
    }
}

/// The value at a quantile of sorted samples, by nearest rank.
fn quantile(sorted: &[u64], q: f64) -> u64 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Microseconds as a person reads them: three digits, in milliseconds.
#[must_use]
pub fn milliseconds(us: u64) -> String {
    let ms = us as f64 / 1000.0;
    let decimals = match us {
        0..10_000 => 2,
        10_000..100_000 => 1,
        _ => 0,
    };
    format!("{ms:.decimals$} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_a_sample_and_half_lie_on_either_side() {
        assert_eq!(Summary::of([4, 1, 3, 2]).unwrap().median_us, 2);
        assert_eq!(Summary::of([5]).unwrap().median_us, 5);
    }

    #[test]
    fn times_are_shown_with_three_digits() {
        assert_eq!([28, 9_990, 43_910, 207_920].map(milliseconds), ["0.03 ms", "9.99 ms", "43.9 ms", "208 ms"]);
    }
}
