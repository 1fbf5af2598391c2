//! Why Linux holds a small segment, and when it lets go.

mod acknowledged;
mod connection;
mod delayed_ack;
mod env;
mod facts;
mod player;
mod prediction;
mod receiver;
mod round_trip;
mod rules;
mod segment;
mod sender;
mod socket;
mod timeline;
mod window;

#[cfg(test)]
mod tests;

pub use facts::{Facts, Start};
pub use prediction::{Ended, Prediction, Request, Stuck, Unpredictable, Wait};
pub use rules::{Rule, Rules};
pub use timeline::{Event, Moment, Timeline};

use crate::exchange::Exchange;

/// Predicts what will be seen of so many requests of an exchange.
///
/// # Errors
///
/// [`Unpredictable`] if the exchange has a step or an option that the model has no rules for.
pub fn predict(exchange: &Exchange, facts: &Facts, requests: u32) -> Result<Prediction, Unpredictable> {
    predict_with(exchange, facts, Rules::all(), requests)
}

/// [`predict`] with some of the rules taken out, to see what they are worth.
///
/// # Errors
///
/// As for [`predict`].
pub fn predict_with(
    exchange: &Exchange,
    facts: &Facts,
    rules: Rules,
    requests: u32,
) -> Result<Prediction, Unpredictable> {
    player::play(exchange, facts, rules, requests)
}
