//! Bytes that a write left in its socket: under which rule, and what let them go.

use super::Socket;
use crate::exchange::Step;
use serde::{Deserialize, Serialize};

/// Bytes that stayed in a socket after a write, and how they left; or, under [`Rule::SendBuffer`], that a write had to keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// When the write returned, microseconds from the start of the first request.
    #[serde(default)]
    pub at_us: i64,
    /// Whose socket held them.
    pub socket: Socket,
    /// The step that left them there.
    #[serde(with = "step_text")]
    pub step: Step,
    /// The most bytes that were held, or that there was no room for.
    pub bytes: u32,
    /// Segments in flight when the hold began.
    pub unacked: Option<u32>,
    /// The congestion window then, in segments.
    pub cwnd: Option<u32>,
    /// The rule that held them.
    pub rule: Rule,
    /// What let them go.
    pub released_by: Release,
    /// Whether neither side could go on meanwhile.
    pub waited: bool,
    /// From the write's return until the release was noticed, microseconds.
    pub lasted_us: u64,
}

/// The rule under which a socket kept bytes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// A small segment waits while an earlier small segment is unacknowledged (`tcp_nagle_check`).
    Nagle,
    /// `TCP_CORK` is set.
    Cork,
    /// The last write carried `MSG_MORE`.
    More,
    /// The send buffer is full, so that the write itself waits: the bytes are still the program's.
    SendBuffer,
    /// The peer's receive window has no room for the next segment.
    ReceiveWindow,
    /// The congestion window is full.
    CongestionWindow,
    /// Something else: pacing, a queue below.
    Other,
}

impl Rule {
    /// The rule in a word or two.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Nagle => "Nagle",
            Self::Cork => "TCP_CORK",
            Self::More => "MSG_MORE",
            Self::SendBuffer => "a full send buffer",
            Self::ReceiveWindow => "the peer's full receive window",
            Self::CongestionWindow => "congestion window full",
            Self::Other => "no rule for small writes",
        }
    }

    /// What a socket does with bytes under this rule, in words that follow its name.
    pub(crate) fn kept(self, bytes: u32) -> String {
        let plural = if bytes == 1 { "" } else { "s" };
        match self {
            Self::SendBuffer => format!("had no room for {bytes} byte{plural}"),
            _ => format!("held {bytes} byte{plural}"),
        }
    }
}

impl Hold {
    /// What the socket did with how many bytes, in words that follow its name.
    #[must_use]
    pub fn kept(&self) -> String {
        self.rule.kept(self.bytes)
    }
}

/// What let held bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// The peer's delayed-ACK timer fired.
    DelayedAck,
    /// An ACK that the peer sent without waiting for the timer.
    Ack,
    /// The peer's own data carried the ACK.
    Reply,
    /// The persist timer: `TCP_CORK` and `MSG_MORE` have no other end.
    PersistTimer,
    /// The tail loss probe.
    LossProbe,
    /// A later step of the same side: a write, an option, a shutdown.
    OwnStep,
    /// Still held when the exchange ended.
    Never,
}

impl Release {
    /// What let them go, in words that follow "until" and "released by".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::DelayedAck => "the peer's delayed ACK",
            Self::Ack => "an ACK sent at once",
            Self::Reply => "the peer's reply",
            Self::PersistTimer => "the persist timer",
            Self::LossProbe => "a tail loss probe",
            Self::OwnStep => "a later step of its own side",
            Self::Never => "nothing",
        }
    }
}

/// Steps are written in the notation.
mod step_text {
    use crate::exchange::{Exchange, Step};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(step: &Step, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(step)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Step, D::Error> {
        use serde::de::Error;
        let text = String::deserialize(deserializer)?;
        let exchange: Exchange = format!("C: {text} / S:").parse().map_err(D::Error::custom)?;
        exchange.client.steps.into_iter().next().ok_or_else(|| D::Error::custom("a step is missing"))
    }
}
