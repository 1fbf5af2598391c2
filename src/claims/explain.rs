//! Checks one claim with every segment captured, to show what happens.

use super::run::on_stage;
use super::{Claim, Outcome, Setting, Stage};
use crate::observation::Observation;
use std::time::{Duration, Instant};

/// What came of a claim, and an exchange that shows it.
#[derive(Debug)]
pub struct Explained {
    /// What was found.
    pub outcome: Outcome,
    /// An exchange that the check played, captured, and the request that tells most: one that held bytes, if any did.
    /// `None` where the check plays none, or where nothing can be captured.
    pub shown: Option<(Observation, u32)>,
}

/// Checks a claim and keeps what shows it.
#[must_use]
pub fn explain(claim: &'static Claim, setting: &Setting) -> Explained {
    if let Some(missing) = setting.missing(claim) {
        let finding = super::Finding::Ignored(missing);
        return Explained {
            outcome: Outcome { claim, finding, took: Duration::ZERO, samples: Vec::new() },
            shown: None,
        };
    }
    let started = Instant::now();
    let mut stage = Stage::new(&setting.kernel, &setting.base, None).capturing();
    let finding = on_stage(claim, &stage);
    let shown = telling(stage.take_captured());
    let outcome = Outcome { claim, finding, took: started.elapsed(), samples: stage.into_samples() };
    Explained { outcome, shown }
}

/// The first exchange and request in which a socket held bytes for a while; any, where none did.
fn telling(played: Vec<Observation>) -> Option<(Observation, u32)> {
    let holds = |seen: &Observation| {
        let mut numbers = seen.requests.iter().map(|request| request.number);
        numbers.find(|number| !seen.stories(*number).is_empty())
    };
    let told = played.iter().position(|seen| holds(seen).is_some());
    let shows = |seen: &Observation| seen.frames.as_ref().is_some_and(|frames| !frames.is_empty());
    let index = told.or_else(|| played.iter().position(shows))?;
    let seen = played.into_iter().nth(index)?;
    let number = holds(&seen).or_else(|| seen.requests.last().map(|request| request.number.min(2)))?;
    Some((seen, number))
}
