//! The segments that an exchange put on its path, each once, with the kernel's time.

use crate::exchange::Side;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

/// One TCP segment as it left its sender.
///
/// On loopback the kernel hands over what segmentation offload left together, so a frame may hold more than one
/// segment's worth of payload; on a wire it cannot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// When it left, microseconds from the start of the first request; before that negative.
    pub at_us: i64,
    /// When a wire put it on the far end; `None` on loopback, where it is there at once, for a frame that was dropped
    /// and for one still on its way when the capture ended.
    pub arrived_us: Option<i64>,
    /// The request in whose time it left, the first being 1; 0 before the first and after the last.
    pub request: u32,
    /// Its connection, the first being 0.
    pub connection: u32,
    /// Who sent it: the side of that connection.
    pub from: Side,
    /// Its flags.
    pub flags: Flags,
    /// Sequence number of its first byte, relative to the SYN, which is 0.
    pub seq: u32,
    /// Next byte expected from the peer, relative likewise.
    pub ack: Option<u32>,
    /// The window it offers, bytes, scaled where the handshake was seen.
    pub window: u32,
    /// Bytes of its IP and TCP headers.
    pub headers: u32,
    /// Bytes of payload.
    pub payload: u32,
    /// Whether a wire lost it on purpose.
    pub dropped: bool,
}

/// The flags of a segment that concern small writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "they are the bits of the header")]
pub struct Flags {
    /// Opens.
    pub syn: bool,
    /// Acknowledges.
    pub ack: bool,
    /// The sender had nothing more to send (RFC 9293, 3.8.7).
    pub psh: bool,
    /// Nothing more will come.
    pub fin: bool,
    /// Aborts.
    pub rst: bool,
}

impl Frame {
    /// Whether it does nothing but acknowledge.
    #[must_use]
    pub fn is_bare_ack(&self) -> bool {
        self.payload == 0 && self.flags.ack && !self.flags.syn && !self.flags.fin && !self.flags.rst
    }

    /// Whether it carries payload.
    #[must_use]
    pub fn is_data(&self) -> bool {
        self.payload > 0
    }

    /// The sequence number behind its last byte, relative to the SYN.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.seq.wrapping_add(self.payload).wrapping_add(u32::from(self.flags.syn) + u32::from(self.flags.fin))
    }

    /// When it is at its receiver, microseconds: on loopback at once. `None` where it never was.
    #[must_use]
    pub fn there_us(&self) -> Option<i64> {
        if self.dropped { None } else { Some(self.arrived_us.unwrap_or(self.at_us)) }
    }
}

/// The sender, and the payload or what the segment is without: `C10`, `Sack`, `Cfin`; a dropped one ends in `!`.
impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.from {
            Side::Client => "C",
            Side::Server => "S",
        })?;
        match self.flags {
            _ if self.payload > 0 => write!(f, "{}", self.payload)?,
            Flags { syn: true, .. } => f.write_str("syn")?,
            Flags { rst: true, .. } => f.write_str("rst")?,
            Flags { fin: true, .. } => f.write_str("fin")?,
            _ => f.write_str("ack")?,
        }
        if self.dropped { f.write_str("!") } else { Ok(()) }
    }
}

/// A captured frame's own bytes, which are no part of a written record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes {
    /// When the kernel saw it, since the epoch.
    pub stamp: Duration,
    /// From the Ethernet header on.
    pub bytes: Vec<u8>,
}

/// Every segment of an exchange, in the order in which they left; reads as a slice of [`Frame`].
///
/// Two captures are equal when what was seen is: the raw bytes do not come back from a written record.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Frames {
    list: Vec<Frame>,
    #[serde(skip)]
    raw: Vec<Bytes>,
}

impl Frames {
    /// Frames with their raw bytes, in the order in which they left.
    pub(crate) fn new(frames: Vec<(Frame, Bytes)>) -> Self {
        let (list, raw) = frames.into_iter().unzip();
        Self { list, raw }
    }

    /// The frames that left in the time of one request, the first being 1: without the handshake and without what
    /// closing the connection takes.
    #[must_use]
    pub fn of_request(&self, number: u32) -> &[Frame] {
        &self.list[self.range_of(number)]
    }

    /// Where the frames of one request stand in the whole.
    #[must_use]
    pub fn range_of(&self, number: u32) -> std::ops::Range<usize> {
        let belongs = |frame: &Frame| frame.request == number;
        let first = self.list.iter().position(belongs).unwrap_or(0);
        let count = self.list[first..].iter().take_while(|frame| belongs(frame)).count();
        first..first + count
    }

    /// The raw bytes, in the same order; empty where the record was read back from a file.
    #[must_use]
    pub fn raw(&self) -> &[Bytes] {
        &self.raw
    }
}

impl Deref for Frames {
    type Target = [Frame];

    fn deref(&self) -> &[Frame] {
        &self.list
    }
}

impl PartialEq for Frames {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl Eq for Frames {}

/// The frames in a word each, as [`Frame`] prints: `C10 Sack C10 Sack S20`.
#[must_use]
pub fn shape(frames: &[Frame]) -> String {
    frames.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// A time in which nobody sent anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// The frame that ended it, as an index.
    pub before: usize,
    /// How long nothing left either side, microseconds.
    pub lasted_us: u64,
}

/// The times of at least `least` in which nobody sent anything, between the first of the frames and the last.
#[must_use]
pub fn silences(frames: &[Frame], least: Duration) -> Vec<Silence> {
    let least = u64::try_from(least.as_micros()).unwrap_or(u64::MAX);
    let gap = |pair: &[Frame]| u64::try_from(pair[1].at_us - pair[0].at_us).unwrap_or(0);
    let gaps = frames.windows(2).zip(1..).map(|(pair, before)| Silence { before, lasted_us: gap(pair) });
    gaps.filter(|silence| silence.lasted_us >= least).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A frame of request 1 on a wire of 10 ms.
    pub(crate) fn frame(at_us: i64, from: Side, seq: u32, ack: u32, payload: u32) -> Frame {
        Frame {
            at_us,
            arrived_us: Some(at_us + 10_050),
            request: 1,
            connection: 0,
            from,
            flags: Flags { ack: true, psh: payload > 0, ..Flags::default() },
            seq,
            ack: Some(ack),
            window: 65_536,
            headers: 52,
            payload,
            dropped: false,
        }
    }

    /// A request whose body waits for a delayed ACK, on that wire.
    pub(crate) fn stalled() -> Vec<Frame> {
        vec![
            frame(10, Side::Client, 1, 1, 10),
            frame(53_800, Side::Server, 1, 11, 0),
            frame(63_870, Side::Client, 11, 1, 10),
            frame(73_940, Side::Server, 1, 21, 0),
            frame(73_950, Side::Server, 1, 21, 20),
        ]
    }

    fn raw(frames: &[Frame]) -> Frames {
        Frames::new(
            frames.iter().map(|frame| (frame.clone(), Bytes { stamp: Duration::ZERO, bytes: vec![1] })).collect(),
        )
    }

    #[test]
    fn a_shape_says_who_sent_what_and_a_silence_what_ended_it() {
        let mut frames = stalled();
        assert_eq!(shape(&frames), "C10 Sack C10 Sack S20");
        assert!(frames[1].is_bare_ack() && !frames[0].is_bare_ack());
        let long = silences(&frames, Duration::from_millis(40));
        assert_eq!(long, [Silence { before: 1, lasted_us: 53_790 }]);
        frames[1].dropped = true;
        assert_eq!(shape(&frames[1..2]), "Sack!");
        assert_eq!(frames[1].there_us(), None);
        assert_eq!(frames[0].there_us(), Some(10_060));
    }

    #[test]
    fn requests_are_told_apart_and_raw_bytes_do_not_count() {
        let mut frames = stalled();
        frames[0].request = 0;
        frames[4].request = 2;
        let frames = raw(&frames);
        assert_eq!(frames.range_of(1), 1..4);
        assert_eq!(frames.of_request(2).len(), 1);
        assert!(frames.of_request(3).is_empty());
        let text = serde_json::to_string(&frames).unwrap();
        let back: Frames = serde_json::from_str(&text).unwrap();
        assert_eq!(back, frames);
        assert!(back.raw().is_empty() && frames.raw().len() == 5);
    }
}
