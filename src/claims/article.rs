//! The article's claims: how Nagle works, what people get wrong, and what they ask.

mod latency;
mod mistakes;
mod questions;

pub(super) use mistakes::refusal;

use super::Claim;
use super::stage::Judged;
use super::{Evidence, Scene, Stage};
use crate::exchange::{Exchange, Step};
use crate::expect::{Failure, Kind, expect};
use crate::verdict::Pattern;

pub(super) fn claims() -> Vec<&'static Claim> {
    [latency::CLAIMS, mistakes::CLAIMS, questions::CLAIMS].into_iter().flatten().collect()
}

/// A request in two small writes, to a server whose ACKs are always delayed.
pub(super) const SPLIT_REQUEST: &str = "C: W10 W10 R20 / S: [quickack=0] R20 W20 quickack=0";

/// A reply in two small writes, to a client whose ACKs are always delayed.
pub(super) const SPLIT_REPLY: &str = "C: [quickack=0] W10 R20 quickack=0 / S: R10 W10 W10";

/// An answer of the kernel that is not the one expected.
pub(super) fn answer(expected: impl Into<String>, because: &str, saw: impl Into<String>) -> Failure {
    Failure::plain(Kind::Answer, expected, because, saw)
}

/// Exchanges in which every request stalls, and others in which none does, each under its label.
pub(super) fn stall_or_not<const N: usize>(stage: &Stage<'_>, scenes: [(&str, Scene, bool); N]) -> Judged {
    let labels = scenes.each_ref().map(|(label, _, stalls)| (*label, *stalls));
    let seen = stage.play_all(scenes.map(|(_, scene, _)| scene))?;
    let mut parts = Vec::new();
    for ((label, stalls), seen) in labels.iter().zip(&seen) {
        let seen = expect(seen);
        let seen = if *stalls {
            seen.try_stalls(Pattern::Every)?.try_delayed_acks_per_stall(1)?
        } else {
            seen.try_no_stall()?
        };
        parts.push((*label, seen));
    }
    Ok(Evidence::of(parts))
}

/// The exchange with every long write and read a byte shorter.
pub(super) fn one_byte_less(mut exchange: Exchange) -> Exchange {
    for script in [&mut exchange.client, &mut exchange.server] {
        for step in &mut script.steps {
            if let Step::Write(n @ 100..) | Step::Read(n @ 100..) = step {
                *n -= 1;
            }
        }
    }
    exchange
}
