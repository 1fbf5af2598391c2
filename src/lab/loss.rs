//! Which frames a wire loses, as plain data, so that it can be part of a record.

use super::segment::{Segment, after};
use crate::exchange::Side;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// Frames that a wire loses on purpose.
///
/// Counting and the clock begin with a request, the first unless [`Loss::from_request`] says another, so the
/// handshake of a connection that was open by then is never hit.
///
/// ```
/// use smallwrites::exchange::Side;
/// use smallwrites::lab::{Extent, Loss};
/// use std::time::Duration;
///
/// let starving = Loss::bare_acks(Side::Server, Extent::For(Duration::from_secs(2)));
/// assert_eq!(starving.to_string(), "bare ACKs of the server for 2s from request 1");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Loss {
    /// Whose frames.
    pub from: Side,
    /// Which of them.
    pub frames: Lost,
    /// How many of those, or for how long.
    pub extent: Extent,
    /// The request that it begins with; the first is 1.
    pub request: u32,
}

/// Which frames of one side are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lost {
    /// Segments that do nothing but acknowledge.
    BareAcks,
    /// Segments with payload.
    Data,
    /// Every frame.
    Everything,
}

/// How many frames are lost, or for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// The nth alone, the first being 1. Of data, segments sent again are not counted and pass.
    Nth(u32),
    /// The first so many, those sent again included.
    First(u32),
    /// All that come within so long.
    For(Duration),
}

impl Loss {
    /// Pure ACKs of one side are lost.
    #[must_use]
    pub const fn bare_acks(from: Side, extent: Extent) -> Self {
        Self { from, frames: Lost::BareAcks, extent, request: 1 }
    }

    /// Segments with payload are lost.
    #[must_use]
    pub const fn data(from: Side, extent: Extent) -> Self {
        Self { from, frames: Lost::Data, extent, request: 1 }
    }

    /// All frames of one side are lost.
    #[must_use]
    pub const fn everything(from: Side, extent: Extent) -> Self {
        Self { from, frames: Lost::Everything, extent, request: 1 }
    }

    /// The same, from the start of a later request on.
    #[must_use]
    pub const fn from_request(mut self, number: u32) -> Self {
        self.request = number;
        self
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, frames, extent, request } = self;
        let frames = match frames {
            Lost::BareAcks => "bare ACKs",
            Lost::Data => "data segments",
            Lost::Everything => "all frames",
        };
        match extent {
            Extent::Nth(n) => write!(f, "number {n} of the {frames} of the {from} from request {request}"),
            Extent::First(n) => write!(f, "the first {n} {frames} of the {from} from request {request}"),
            Extent::For(time) => write!(f, "{frames} of the {from} for {time:?} from request {request}"),
        }
    }
}

/// Decides frame by frame.
#[derive(Debug)]
pub(super) struct Filter {
    /// Each with the number of frames it met so far.
    losses: Vec<(Loss, u32)>,
    /// The end of what was sent, by source and destination port.
    sent: HashMap<(u16, u16), u32>,
}

impl Filter {
    pub(super) fn new(losses: &[Loss]) -> Self {
        Self { losses: losses.iter().map(|loss| (*loss, 0)).collect(), sent: HashMap::new() }
    }

    /// Whether a frame is to be lost that passed at `stamp`; `armed` has for each loss the moment at which it began.
    pub(super) fn loses(&mut self, from: Side, frame: &[u8], stamp: Duration, armed: &[Option<Duration>]) -> bool {
        if self.losses.is_empty() {
            return false;
        }
        let segment = Segment::parse(frame);
        let new = segment.is_some_and(|segment| self.is_new(&segment));
        let mut lost = false;
        for ((loss, met), armed) in self.losses.iter_mut().zip(armed) {
            let matches = loss.from == from
                && match (loss.frames, segment) {
                    (Lost::Everything, _) => true,
                    (Lost::BareAcks, Some(segment)) => segment.is_bare_ack(),
                    (Lost::Data, Some(segment)) => segment.payload > 0,
                    (_, None) => false,
                };
            let Some(since) = armed.and_then(|armed| stamp.checked_sub(armed)).filter(|_| matches) else { continue };
            lost |= match loss.extent {
                // By sequence and not by count: what was sent again may have been merged.
                Extent::Nth(_) if loss.frames == Lost::Data && !new => false,
                Extent::Nth(n) => {
                    *met += 1;
                    *met == n
                }
                Extent::First(n) => {
                    *met += 1;
                    *met <= n
                }
                Extent::For(time) => since < time,
            };
        }
        lost
    }

    /// Whether the segment carries something never sent before on its connection.
    fn is_new(&mut self, segment: &Segment) -> bool {
        let flow = (segment.source_port, segment.destination_port);
        let end = segment.end();
        let new = segment.syn || self.sent.get(&flow).is_none_or(|sent| after(end, *sent));
        if new {
            self.sent.insert(flow, end);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::tests::frame;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn lost(loss: Loss, frames: &[(u32, &[u8])]) -> Vec<bool> {
        let mut filter = Filter::new(&[loss]);
        let mut at = SECOND;
        frames
            .iter()
            .map(|(seq, payload)| {
                at += Duration::from_millis(100);
                filter.loses(Side::Client, &frame((1, 2), *seq, Some(1), payload), at, &[Some(SECOND)])
            })
            .collect()
    }

    #[test]
    fn the_nth_data_segment_is_lost_once_however_often_it_is_sent() {
        let frames: [(u32, &[u8]); 5] = [(1, b"aa"), (3, b""), (3, b"bb"), (3, b"bb"), (1, b"aabbcc")];
        assert_eq!(lost(Loss::data(Side::Client, Extent::Nth(2)), &frames), [false, false, true, false, false]);
        assert_eq!(lost(Loss::data(Side::Client, Extent::First(2)), &frames), [true, false, true, false, false]);
        assert_eq!(lost(Loss::data(Side::Server, Extent::First(2)), &frames), [false; 5]);
        assert_eq!(lost(Loss::bare_acks(Side::Client, Extent::First(9)), &frames), [false, true, false, false, false]);
    }

    #[test]
    fn a_span_begins_when_it_is_armed() {
        let loss = Loss::everything(Side::Client, Extent::For(Duration::from_millis(250)));
        assert_eq!(lost(loss, &[(1, b"a"), (2, b"b"), (3, b"c")]), [true, true, false]);
        let mut filter = Filter::new(&[loss]);
        let bytes = frame((1, 2), 1, Some(1), b"a");
        assert!(!filter.loses(Side::Client, &bytes, SECOND, &[None]), "not armed");
        assert!(!filter.loses(Side::Client, &bytes, SECOND, &[Some(2 * SECOND)]), "passed before");
        assert!(filter.loses(Side::Client, &bytes, 2 * SECOND, &[Some(2 * SECOND)]));
    }
}
