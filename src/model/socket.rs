//! One end of a connection: a sender, a receiver, and the lock between a system call and what arrives meanwhile.

use super::env::Env;
use super::facts::Start;
use super::receiver::Receiver;
use super::rules::Rule;
use super::segment::Segment;
use super::sender::Sender;
use crate::exchange::Side;
use std::collections::VecDeque;

/// A page of memory.
const PAGE: u32 = 4096;

/// A socket.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// Whether a system call is using the socket.
    pub(super) owned: bool,
    /// What arrived meanwhile.
    pub(super) backlog: VecDeque<Segment>,
    /// Whether an ACK is to go out at the end of the system call.
    pub(super) ack_deferred: bool,
    /// Whether header prediction is on (`pred_flags` is not 0).
    prediction: bool,
    /// Memory set aside for this socket and not used.
    forward_alloc: u32,
}

impl Socket {
    pub(super) fn new(side: Side, start: &Start, env: &Env) -> Self {
        Self {
            sender: Sender::new(side, start, env),
            receiver: Receiver::new(start),
            owned: false,
            backlog: VecDeque::new(),
            ack_deferred: false,
            // `tcp_finish_connect` leaves it off in a client whose peer scales windows.
            prediction: side == Side::Server || start.wscale == 0,
            forward_alloc: 0,
        }
    }

    /// **Header prediction.** A segment is *predicted* if it is the next one, acknowledges nothing strange, offers
    /// the window known before, and finds memory set aside. It takes a short path which differs in two things that
    /// can be seen: it doesn't push held data unless it acknowledges some, and doesn't restart the persist timer.
    ///
    /// Kernel: `tcp_rcv_established`.
    pub(super) fn is_predicted(&self, segment: &Segment, env: &Env) -> bool {
        self.prediction
            && env.rules.has(Rule::HeaderPrediction)
            && segment.seq == self.receiver.rcv_nxt
            && (self.sender.snd_una..=self.sender.snd_nxt).contains(&segment.ack)
            && segment.window == self.sender.snd_wnd
            && (segment.len == 0 || segment.truesize <= self.forward_alloc || !env.rules.has(Rule::ForwardAlloc))
    }

    /// Header prediction starts over with the window known now.
    ///
    /// Kernel: `tcp_fast_path_check`.
    pub(super) fn predict_again(&mut self) {
        self.prediction = self.receiver.rcv_wnd > 0 && self.receiver.rmem < self.receiver.rcvbuf;
    }

    /// Nothing is predicted while this side offers no window.
    pub(super) fn stop_predicting(&mut self) {
        self.prediction = false;
    }

    /// **Memory** is set aside in whole pages, for both directions together.
    ///
    /// Kernel: `__sk_mem_schedule`.
    pub(super) fn set_aside(&mut self, bytes: u32) {
        if bytes > self.forward_alloc {
            self.forward_alloc += (bytes - self.forward_alloc).next_multiple_of(PAGE);
        }
    }

    /// Uses memory.
    ///
    /// Kernel: `sk_mem_charge`.
    pub(super) fn charge(&mut self, bytes: u32) {
        self.set_aside(bytes);
        self.forward_alloc -= bytes;
    }

    /// Frees memory; whole pages are given back.
    ///
    /// Kernel: `sk_mem_uncharge`.
    pub(super) fn uncharge(&mut self, bytes: u32) {
        self.forward_alloc += bytes;
        if self.forward_alloc >= PAGE {
            self.forward_alloc %= PAGE;
        }
    }
}
