//! Which rules are in force: all of them, unless a test takes one out to see what it is worth.

use std::fmt;

/// A rule of the model that can be taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rule {
    /// Only an unacknowledged *small* segment holds the next one; without it any unacknowledged data does.
    Minshall,
    /// A read can send an ACK; without it only arrivals and timers do.
    AckOnRead,
    /// A second small segment makes the emptying read acknowledge, even in pingpong mode.
    Pushed2,
    /// A delayed ACK that has to be sent ends pingpong mode.
    TimerLeavesPingpong,
    /// Segments that arrive for a socket inside a system call wait for its end; without it they act at once.
    Backlog,
    /// The receiver learns the peer's segment size; without it it stays what it was at the start.
    RcvMssEstimate,
    /// Two segments of the same smaller size in a row lower that estimate.
    LastSegSize,
    /// More than a segment unacknowledged is acknowledged at arrival if the window may advance.
    AckAboveRcvMss,
    /// The offered window grows with the data that arrives.
    WindowGrowth,
    /// A grown window grants one quick ACK.
    GrowthCredit,
    /// Quick ACKs are granted for half the window; without it always sixteen.
    CreditFormula,
    /// A segment costs more memory than its payload.
    Truesize,
    /// A segment joins the buffer before it in the receive queue.
    Coalescing,
    /// Segments that wait for the end of a system call count against the window.
    BacklogBytes,
    /// The congestion window limits what is in flight.
    Cwnd,
    /// The send buffer limits what is written and not acknowledged.
    SendBuffer,
    /// Header prediction: an expected segment takes the short path; without it none does.
    HeaderPrediction,
    /// A segment can be expected only if memory for it is already set aside.
    ForwardAlloc,
    /// The segment size follows the largest window offered by the peer.
    MssFollowsWindow,
    /// Round-trip times are measured, and the retransmission timeout follows them.
    RoundTrip,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 20] = [
        Self::Minshall,
        Self::AckOnRead,
        Self::Pushed2,
        Self::TimerLeavesPingpong,
        Self::Backlog,
        Self::RcvMssEstimate,
        Self::LastSegSize,
        Self::AckAboveRcvMss,
        Self::WindowGrowth,
        Self::GrowthCredit,
        Self::CreditFormula,
        Self::Truesize,
        Self::Coalescing,
        Self::BacklogBytes,
        Self::Cwnd,
        Self::SendBuffer,
        Self::HeaderPrediction,
        Self::ForwardAlloc,
        Self::MssFollowsWindow,
        Self::RoundTrip,
    ];

    /// The rule's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minshall => "Minshall",
            Self::AckOnRead => "ACK on read",
            Self::Pushed2 => "PUSHED2",
            Self::TimerLeavesPingpong => "timer leaves pingpong",
            Self::Backlog => "backlog",
            Self::RcvMssEstimate => "rcv_mss estimate",
            Self::LastSegSize => "last_seg_size",
            Self::AckAboveRcvMss => "more than rcv_mss is ACKed at arrival",
            Self::WindowGrowth => "window growth",
            Self::GrowthCredit => "growth grants a credit",
            Self::CreditFormula => "credit formula",
            Self::Truesize => "truesize",
            Self::Coalescing => "coalescing of the receive queue",
            Self::BacklogBytes => "backlog bytes in free space",
            Self::Cwnd => "cwnd",
            Self::SendBuffer => "send buffer",
            Self::HeaderPrediction => "header prediction",
            Self::ForwardAlloc => "forward_alloc",
            Self::MssFollowsWindow => "MSS follows the window",
            Self::RoundTrip => "RTT and RTO estimate",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The rules in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules(u32);

impl Default for Rules {
    fn default() -> Self {
        Self::all()
    }
}

impl Rules {
    /// Every rule.
    #[must_use]
    pub const fn all() -> Self {
        Self((1 << Rule::ALL.len()) - 1)
    }

    /// These rules but one.
    #[must_use]
    pub const fn without(self, rule: Rule) -> Self {
        Self(self.0 & !(1 << rule as u32))
    }

    /// Whether the rule is in force.
    #[must_use]
    pub const fn has(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u32) != 0
    }
}
