//! What happened, event by event, in a form that two runs can be laid side by side in.

use crate::exchange::{Opt, Setting, Side};
use std::fmt;

/// Something that happened on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The program wrote; `more` is `MSG_MORE`.
    Write {
        /// Bytes written.
        bytes: u32,
        /// Whether the write had `MSG_MORE`.
        more: bool,
    },
    /// Bytes stayed in the socket when the write returned.
    Holds {
        /// Bytes written and not sent.
        bytes: u64,
    },
    /// The program read bytes.
    Read {
        /// Bytes taken.
        bytes: u64,
    },
    /// The program set an option.
    Set(Setting),
    /// The program began to pause.
    Pause {
        /// For so many microseconds.
        us: u64,
    },
    /// Data left.
    Data {
        /// Position of the first byte in the side's stream, from 0.
        from: u64,
        /// Bytes of payload.
        bytes: u32,
        /// In so many segments.
        segments: u32,
    },
    /// A segment without data left.
    BareAck,
    /// The delayed-ACK timer fired with an ACK owed.
    DelayedAckTimer,
    /// The persist timer fired.
    PersistTimer,
}

/// An [`Event`] with its time and side; printed as one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Moment {
    /// The request that it belongs to, from 0.
    pub request: u32,
    /// Ticks since the first request began.
    pub tick: u64,
    /// On which side.
    pub side: Side,
    /// What happened.
    pub event: Event,
}

/// The events of a run in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    request: u32,
    moments: Vec<Moment>,
}

impl Timeline {
    /// The events in order.
    #[must_use]
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    pub(super) fn begin(&mut self, request: u32) {
        self.request = request;
        if self.moments.capacity() == 0 {
            self.moments.reserve(128);
        }
    }

    pub(super) fn push(&mut self, tick: u64, side: Side, event: Event) {
        self.moments.push(Moment { request: self.request, tick, side, event });
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.moments.iter().try_for_each(|moment| writeln!(f, "{moment}"))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>3} {:>5} {:<6} {}", self.request + 1, self.tick, self.side, self.event)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { bytes, more: false } => write!(f, "writes {bytes}"),
            Self::Write { bytes, more: true } => write!(f, "writes {bytes} with MSG_MORE"),
            Self::Holds { bytes } => write!(f, "holds {bytes}"),
            Self::Read { bytes } => write!(f, "reads {bytes}"),
            Self::Set(Setting { option: Opt::Cork, value: 0 }) => f.write_str("sets uncork"),
            Self::Set(setting) => write!(f, "sets {}={}", setting.option.word(), setting.value),
            Self::Pause { us } => write!(f, "pauses {us} µs"),
            Self::Data { bytes, segments: 1, .. } => write!(f, "sends {bytes}"),
            Self::Data { bytes, segments, .. } => write!(f, "sends {bytes} in {segments} segments"),
            Self::BareAck => f.write_str("sends ACK"),
            Self::DelayedAckTimer => f.write_str("delayed-ACK timer"),
            Self::PersistTimer => f.write_str("persist timer"),
        }
    }
}
