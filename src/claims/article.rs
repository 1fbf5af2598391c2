//! The article's claims: how Nagle works, what people get wrong, and what they ask.

mod latency;
mod mistakes;
mod questions;

pub(super) use mistakes::refusal;

use super::Claim;
use super::stage::Judged;
use super::{Evidence, Scene, Stage};
use crate::expect::{Failure, Kind, expect};
use crate::verdict::Pattern;

pub(super) fn claims() -> Vec<&'static Claim> {
    let parts = [latency::CLAIMS, super::wire::ARTICLE, mistakes::CLAIMS, questions::CLAIMS, super::tls::ARTICLE];
    parts.into_iter().flatten().collect()
}

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
