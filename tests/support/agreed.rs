//! Exchanges played beside the model's prediction.

use super::labs::lab_or_skip;
use smallwrites::agreement::{self, differences};
use smallwrites::lab::Conditions;
use smallwrites::model::{Facts, Prediction};
use smallwrites::observation::Observation;
use smallwrites::play::Play;

/// Longer than this without a CPU, and timers may overtake the script, microseconds.
const LATE_US: u64 = 3_000;

/// Plays an exchange with everything pinned that the model leaves out: what its connections began with, what the model
/// says and what was seen.
///
/// Once more, so many times at most, where the two part and it was not for the rules alone to say: the player waited for
/// a CPU, or two timers of a relay may have raced.
pub(crate) fn beside_the_model(
    conditions: &Conditions,
    play: &Play,
    repeats: u32,
) -> Option<(Facts, Prediction, Observation)> {
    let conditions = conditions.clone().pinned_for_model();
    let mut repeats = 0..repeats;
    loop {
        let (facts, predicted, seen) = lab_or_skip(&conditions, |lab| {
            let seen = play.run(lab).unwrap_or_else(|error| panic!("{error}"));
            let predicted = agreement::predicted(lab.kernel(), &seen).expect("rules for every step");
            (agreement::facts(lab.kernel(), &seen), predicted, seen)
        })?;
        let late = seen.requests.iter().any(|request| request.run_queue_us.is_some_and(|us| us > LATE_US));
        let open = late || seen.exchange.relay.is_some();
        if differences(&predicted, &seen).is_empty() || !open || repeats.next().is_none() {
            return Some((facts, predicted, seen));
        }
    }
}

/// A prediction is what was seen.
#[track_caller]
pub(crate) fn assert_agree(predicted: &Prediction, seen: &Observation) {
    assert_eq!(differences(predicted, seen), [], "{}", agreement::side_by_side(predicted, seen));
}
