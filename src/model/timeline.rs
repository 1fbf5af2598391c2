//! What happened, event by event, in a form that two runs can be laid side by side in.

use crate::exchange::{Opt, Setting, Socket};
use std::fmt;

/// Something that happened at one socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The program wrote; `more` is `MSG_MORE`.
    Write {
        /// Bytes given to the kernel; what it has no room for is written again.
        bytes: u32,
        /// Whether the write had `MSG_MORE`.
        more: bool,
    },
    /// Bytes stayed in the socket when the write returned.
    Holds {
        /// Bytes written and not sent.
        bytes: u64,
    },
    /// The send buffer had no room for the rest of a write.
    Full {
        /// Bytes that were not taken.
        bytes: u32,
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
        /// Position of the first byte in the socket's stream, from 0.
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

/// An [`Event`] with its time and socket; printed as one line, in which the socket takes the width that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Moment {
    /// The request that it belongs to, from 0.
    pub request: u32,
    /// Ticks since the first request began.
    pub tick: u64,
    /// At which socket.
    pub socket: Socket,
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

    /// Characters that the longest name of a socket takes.
    #[must_use]
    pub fn width(&self) -> usize {
        self.moments.iter().map(|moment| moment.socket.to_string().len()).max().unwrap_or(0)
    }

    /// The request that is under way, from 0.
    pub(super) fn request(&self) -> u32 {
        self.request
    }

    pub(super) fn begin(&mut self, request: u32) {
        self.request = request;
        if self.moments.capacity() == 0 {
            self.moments.reserve(128);
        }
    }

    pub(super) fn push(&mut self, tick: u64, socket: Socket, event: Event) {
        self.moments.push(Moment { request: self.request, tick, socket, event });
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.width();
        self.moments.iter().try_for_each(|moment| writeln!(f, "{moment:width$}"))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = f.width().unwrap_or(0);
        write!(f, "{:>3} {:>5} {:<width$} {}", self.request + 1, self.tick, self.socket, self.event)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { bytes, more: false } => write!(f, "writes {bytes}"),
            Self::Write { bytes, more: true } => write!(f, "writes {bytes} with MSG_MORE"),
            Self::Holds { bytes } => write!(f, "holds {bytes}"),
            Self::Full { bytes } => write!(f, "has no room for {bytes}"),
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
