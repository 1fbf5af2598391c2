//! From raw frames to the segments of an exchange.

use super::microseconds;
use crate::exchange::{Side, Sides};
use crate::lab::{Passage, Passed, Segment};
use crate::observation::{Bytes, Direction, Flags, Frame, Frames, Summary};
use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

/// Brings the kernel's stamps, which are of the wall clock, and the player's own times together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    pub(super) here: Instant,
    wall: Duration,
}

impl Clocks {
    pub(super) fn now() -> Self {
        // The thread may lose its CPU between the two readings: the closest of a few pairs is taken.
        let pair = || {
            let before = Instant::now();
            let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let apart = before.elapsed();
            (apart, Self { here: before + apart / 2, wall })
        };
        let pairs = std::iter::repeat_with(pair).take(5);
        pairs.min_by_key(|(apart, _)| *apart).map_or_else(|| pair().1, |(_, clocks)| clocks)
    }

    /// Microseconds from `origin` to a stamp.
    fn since(self, origin: Instant, stamp: Duration) -> i64 {
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        let origin = self.wall + origin.saturating_duration_since(self.here);
        match stamp.checked_sub(origin) {
            Some(after) => micros(after),
            None => -micros(origin - stamp),
        }
    }
}

/// The time of one request: its start and, behind the last of a connection, the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) request: u32,
    pub(super) from: Instant,
}

/// What is known of one connection's sequence numbers.
#[derive(Debug, Default)]
struct Flow {
    number: u32,
    first: Sides<u32>,
    scale: Sides<Option<u8>>,
}

/// The segments between clients and the listeners of these ports, in the order in which they left. `spans` are in order of
/// time, and the first begins with the first request.
pub(super) fn frames(mut passed: Vec<Passed>, ports: &[u16], clocks: Clocks, spans: &[Span]) -> Frames {
    passed.sort_by_key(|passed| passed.frame.stamp);
    let Some(origin) = spans.first().map(|span| span.from) else { return Frames::default() };
    let starts: Vec<(i64, u32)> = spans.iter().map(|span| (offset(origin, span.from), span.request)).collect();
    let mut flows: HashMap<(u16, u16), Flow> = HashMap::new();
    let mut frames = Vec::with_capacity(passed.len());
    for Passed { frame: raw, dropped, sent_at } in passed {
        let Some(segment) = Segment::parse(&raw.bytes) else { continue };
        let from = if ports.contains(&segment.source_port) {
            Side::Server
        } else if ports.contains(&segment.destination_port) {
            Side::Client
        } else {
            continue;
        };
        let key = match from {
            Side::Client => (segment.source_port, segment.destination_port),
            Side::Server => (segment.destination_port, segment.source_port),
        };
        let number = u32::try_from(flows.len()).unwrap_or(u32::MAX);
        let flow = flows.entry(key).or_insert_with(|| Flow { number, ..Flow::default() });
        if segment.syn {
            flow.first[from] = segment.seq;
            flow.scale[from] = segment.scale;
        }
        let at_us = clocks.since(origin, raw.stamp);
        let begun = starts.partition_point(|(start, _)| *start <= at_us);
        let request = begun.checked_sub(1).map_or(0, |span| starts[span].1);
        let frame = Frame {
            at_us,
            arrived_us: sent_at.map(|sent| clocks.since(origin, sent)),
            request,
            connection: flow.number,
            from,
            flags: Flags {
                syn: segment.syn,
                ack: segment.ack.is_some(),
                psh: segment.psh,
                fin: segment.fin,
                rst: segment.rst,
            },
            seq: segment.seq.wrapping_sub(flow.first[from]),
            ack: segment.ack.map(|ack| ack.wrapping_sub(flow.first[from.peer()])),
            window: window(&segment, flow, from),
            headers: segment.headers,
            payload: segment.payload,
            dropped,
        };
        frames.push((frame, Bytes { stamp: raw.stamp, bytes: raw.bytes }));
    }
    Frames::new(frames)
}

/// What a wire did, per direction.
pub(super) fn directions(passage: &Passage, asked: Sides<Duration>) -> Sides<Direction> {
    Sides::from_fn(|side| Direction {
        asked_us: microseconds(asked[side]),
        transit: Summary::of(passage.transit_us[side].iter().copied()),
        late: Summary::of(passage.late_us[side].iter().copied()),
        dropped: passage.dropped[side],
    })
}

/// The scale holds where both ends offered one, and not in the SYNs themselves (RFC 7323, 2.2).
fn window(segment: &Segment, flow: &Flow, from: Side) -> u32 {
    let window = u32::from(segment.window);
    match (flow.scale.client, flow.scale.server, flow.scale[from]) {
        (Some(_), Some(_), Some(scale)) if !segment.syn => window << scale.min(14),
        _ => window,
    }
}

/// Microseconds from one moment to another.
pub(super) fn offset(origin: Instant, moment: Instant) -> i64 {
    let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    match moment.checked_duration_since(origin) {
        Some(after) => micros(after),
        None => -micros(origin.saturating_duration_since(moment)),
    }
}
