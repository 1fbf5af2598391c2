//! Scenes that several claims share.

use super::{Scene, Stage, Twist};
use crate::exchange::{Exchange, Step};
use crate::expect::{Failure, Kind};
use crate::lab::Conditions;
use crate::play::Play;

/// Write-write-read: the pattern that the whole chapter is about.
pub(super) const WWR: &str = "C: W10 W10 R20 / S: R20 W20";

/// A request in two small writes, to a server whose ACKs are always delayed.
pub(super) const SPLIT_REQUEST: &str = "C: W10 W10 R20 / S: [quickack=0] R20 W20 quickack=0";

/// A reply in two small writes, to a client whose ACKs are always delayed.
pub(super) const SPLIT_REPLY: &str = "C: [quickack=0] W10 R20 quickack=0 / S: R10 W10 W10";

/// A receiver that acknowledges whatever it reads: nothing is left to wait for.
pub(super) const QUICKACK_EVERY_READ: Twist = Twist::Instead("C: W10 W10 R20 / S: quickack R20 W20");

/// What a client does, with a server that reads all of it and answers.
///
/// The server is put into pingpong mode before every request, so that it delays its ACKs from the first one on: whatever
/// the kernel's threshold, and whether or not the reply before came late.
pub(super) fn primed(client: &str) -> Scene {
    let script = format!("C: {client} / S:").parse::<Exchange>().unwrap_or_default().client;
    let (request, reply) = (script.written(), script.read());
    Scene::of(format!("C: {client} / S: [quickack=0] R{request} W{reply} quickack=0"))
}

/// Bytes that a full segment carries where `mss=1000` pins it: less by the TCP options that every segment has.
pub(super) fn full_segment(stage: &Stage<'_>) -> Result<u32, Failure> {
    full_segment_under(stage, |base| base)
}

/// The same under a change of the conditions that the stage offers.
pub(super) fn full_segment_under(stage: &Stage<'_>, change: fn(Conditions) -> Conditions) -> Result<u32, Failure> {
    let broken = |saw: String| Failure::plain(Kind::Play, "a segment size", "tcpi_snd_mss of an open connection", saw);
    let exchange = "C: [mss=1000] / S:".parse().map_err(|error| broken(format!("{error}")))?;
    let seen = stage.lab(change, |lab| Play::new(exchange).run(lab))?;
    let seen = seen.map_err(|error| broken(error.to_string()))?;
    seen.sockets.client.before.mss.ok_or_else(|| broken("unknown".to_owned()))
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
