//! Scenes that several claims share, and what is asked of them.

use super::{Scene, Stage, Twist};
use crate::exchange::{Exchange, Side, Step};
use crate::expect::{Expect, Failure, Kind, expect};
use crate::lab::Conditions;
use crate::observation::{Frame, Observation, Release, Request, Rule};
use crate::verdict::Pattern;

/// Write-write-read: the pattern that the whole chapter is about.
pub(super) const WWR: &str = "C: W10 W10 R20 / S: R20 W20";

/// A request in two small writes, to a server whose ACKs are always delayed.
pub(super) const SPLIT_REQUEST: &str = "C: W10 W10 R20 / S: [quickack=0] R20 W20 quickack=0";

/// A reply in two small writes, to a client whose ACKs are always delayed.
pub(super) const SPLIT_REPLY: &str = "C: [quickack=0] W10 R20 quickack=0 / S: R10 W10 W10";

/// Write-write-read to a receiver that acknowledges whatever it reads: nothing is left to wait for.
pub(super) const PROMPT: &str = "C: W10 W10 R20 / S: quickack R20 W20";

/// That receiver in a claim's own place.
pub(super) const QUICKACK_EVERY_READ: Twist = Twist::Instead(PROMPT);

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
    let seen = stage.measure(Scene::of("C: [mss=1000] / S:").under(change))?;
    let unknown = || Failure::plain(Kind::Play, "a segment size", "tcpi_snd_mss of an open connection", "unknown");
    seen.sockets.client.before.mss.ok_or_else(unknown)
}

/// A connection that is kept open stalls: in every request but the first where one prompt reply puts the receiver into
/// pingpong mode, and on kernels that want more of them exactly where it is in that mode.
pub(super) fn stalls_when_kept<'a>(stage: &Stage<'_>, seen: &'a Observation) -> Result<Expect<'a>, Failure> {
    let seen = expect(seen);
    let seen = match stage.pingpong_threshold()? {
        1 => seen.try_stalls(Pattern::AllButFirst)?,
        _ => seen.try_follows_pingpong(Side::Server)?,
    };
    seen.try_held(Side::Client, 10)
}

/// Every request stalls: the client's second write is held by Nagle until the server's delayed ACK.
pub(super) fn held_until_delayed_ack(seen: &Observation) -> Result<Expect<'_>, Failure> {
    let seen = expect(seen).try_stalls(Pattern::Every)?.try_held(Side::Client, 10)?;
    seen.try_cause(Side::Client, Rule::Nagle, Release::DelayedAck)
}

/// Segments without data that the server had sent when a request began.
pub(super) fn acks_before(seen: &Observation, request: &Request) -> Option<u32> {
    let earlier = seen.requests.iter().take_while(|other| other.number < request.number);
    earlier.fold(seen.sockets.server.before.bare_acks(), |acks, other| Some(acks? + other.bare_acks.server?))
}

/// The captured segments with data that the client sent in a request, without those that it sent again because the machine
/// was too late to acknowledge them.
pub(super) fn client_data(seen: &Observation, request: u32) -> Vec<&Frame> {
    let Some(frames) = &seen.frames else { return Vec::new() };
    let range = frames.range_of(request);
    let data = |frame: &&Frame| frame.from == Side::Client && frame.is_data();
    let connection = frames[range.clone()].first().map(|frame| frame.connection);
    let before = frames[..range.start].iter().filter(data).filter(|frame| Some(frame.connection) == connection);
    let mut sent = before.map(Frame::end).max().unwrap_or(0);
    let mut first = Vec::new();
    for frame in frames[range].iter().filter(data) {
        if frame.end() > sent {
            sent = frame.end();
            first.push(frame);
        }
    }
    first
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

/// The exchange with plain writes where its client has `MSG_MORE`.
pub(super) fn without_more(mut exchange: Exchange) -> Exchange {
    for step in &mut exchange.client.steps {
        if let Step::More(n) = *step {
            *step = Step::Write(n);
        }
    }
    exchange
}

/// Whether every write of the server's in a request left well before a delayed ACK was due: only such a reply carries the ACK
/// and counts towards pingpong mode.
pub(super) fn replied_promptly(seen: &Observation, request: &Request) -> bool {
    let due = seen.environment.delayed_ack_us.saturating_sub(2 * seen.environment.jiffy_us);
    let mut replies = request.writes.iter().filter(|write| write.socket.side() == Side::Server);
    replies.all(|write| write.since_received_ms.is_some_and(|ms| u64::from(ms) * 1000 < due))
}
