//! What the model says will be seen.

use super::close_call::CloseCall;
use super::timeline::Timeline;
use crate::exchange::{Opt, Sides, Socket, Sockets};

/// What will be seen of an exchange, request by request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prediction {
    /// One entry for each request that both sides finish.
    pub requests: Vec<Request>,
    /// Where the exchange stops for ever, if it does.
    pub stuck: Option<Stuck>,
    /// Everything that happens, in order.
    pub timeline: Timeline,
    /// What a tick decided: the kernel may have decided otherwise.
    pub close_calls: Vec<CloseCall>,
}

/// What will be seen of one request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// The times at which nobody could go on, in order.
    pub waits: Vec<Wait>,
    /// Bytes still in the writer's socket when each write returned (`SIOCOUTQNSD`), in order.
    pub held: Sockets<Vec<u64>>,
    /// Delayed-ACK timers that had to send an ACK, by the socket that sent it.
    pub delayed_acks: Sockets<u32>,
    /// Segments with data sent (`tcpi_data_segs_out`).
    pub data_segments: Sockets<u32>,
    /// Segments without data sent.
    pub bare_acks: Sockets<u32>,
    /// Whether each socket was in pingpong mode before the request (`getsockopt(TCP_QUICKACK)` gives 0).
    pub pingpong_before: Sockets<bool>,
    /// Whether each socket is in pingpong mode after the request.
    pub pingpong_after: Sockets<bool>,
    /// Quick ACKs left after the request.
    pub quick_acks: Sockets<u32>,
}

/// A time at which neither side could go on, nor a relay between them.
///
/// Of two timers that end it in the same tick, each at a hold of its own, the second is a wait of no ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wait {
    /// How long, in ticks.
    pub ticks: u64,
    /// What ended it.
    pub ended_by: Ended,
}

/// What ended a [`Wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// This socket's delayed ACK let its peer send what it held: a stall of one quantum.
    DelayedAck(Socket),
    /// This socket's persist timer sent what it held: the 200 ms of a forgotten cork.
    PersistTimer(Socket),
    /// A pause of a script was over.
    Pause,
}

/// Where an exchange stops for ever: both sides read what never comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stuck {
    /// The request, from 0.
    pub request: u32,
    /// The step at which each side is, repetitions written out, from 0; past the last one if it has finished.
    pub steps: Sides<usize>,
}

/// What the model has no rules for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Unpredictable {
    /// A long file is sent pipe by pipe, and kernels part over what is asked for past its end.
    #[error("the model has no rules for a sendfile (F) of more than 65536 bytes, or past the end of its file")]
    SendFile,
    /// What a buffer takes of the program's memory, and what is merged with it, is a matter of the kernel's configuration.
    #[error("the model has no rules for MSG_ZEROCOPY (Z)")]
    ZeroCopy,
    /// The model's connections are never closed.
    #[error("the model has no rules for shutdown")]
    Shutdown,
    /// An option that the model has no rules for.
    #[error("the model has no rules for the option {}", .0.word())]
    Option(Opt),
}

impl Request {
    /// A request of which nothing has happened yet.
    pub(super) fn of(sockets: Sockets<()>) -> Self {
        Self {
            waits: Vec::new(),
            held: sockets.map(|_| Vec::new()),
            delayed_acks: sockets.map(|_| 0),
            data_segments: sockets.map(|_| 0),
            bare_acks: sockets.map(|_| 0),
            pingpong_before: sockets.map(|_| false),
            pingpong_after: sockets.map(|_| false),
            quick_acks: sockets.map(|_| 0),
        }
    }

    /// Delayed-ACK timers that had to send an ACK, at whichever socket.
    #[must_use]
    pub fn delayed_acks(&self) -> u32 {
        self.delayed_acks.names().map(|at| self.delayed_acks[at]).sum()
    }

    /// How many times the request waits for a delayed ACK: its *quanta* of 40 ms.
    #[must_use]
    pub fn quanta(&self) -> usize {
        self.waits.iter().filter(|wait| matches!(wait.ended_by, Ended::DelayedAck(_))).count()
    }

    /// How many times the request waits for the persist timer, 200 ms each.
    #[must_use]
    pub fn holds(&self) -> usize {
        self.waits.iter().filter(|wait| matches!(wait.ended_by, Ended::PersistTimer(_))).count()
    }

    /// Ticks spent waiting, pauses included.
    #[must_use]
    pub fn waited(&self) -> u64 {
        self.waits.iter().map(|wait| wait.ticks).sum()
    }
}
