//! The two sockets and the path between them: the kernel's order of events at an arrival, when a timer fires and when
//! something is sent. The rules themselves are methods of [`Sender`](super::sender::Sender) and
//! [`Receiver`](super::receiver::Receiver); here is only who calls them when.

use super::delayed_ack::AckDecision;
use super::env::Env;
use super::facts::Facts;
use super::rules::{Rule, Rules};
use super::segment::Segment;
use super::sender::{PUSH, Piece, Retransmit};
use super::socket::Socket;
use super::timeline::{Event, Timeline};
use crate::exchange::{Side, Sides};
use std::collections::VecDeque;

/// The memory that a waiting bare ACK counts for (`skb_set_tcp_pure_ack`).
const BARE_ACK_TRUESIZE: u32 = 2;

/// What one side has done since the connection began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) data_segments: u32,
    pub(super) bare_acks: u32,
    pub(super) delayed_acks: u32,
}

/// Two sockets, and between them a path on which nothing takes time, is lost or overtakes.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) env: Env,
    pub(super) sockets: Sides<Socket>,
    pub(super) counts: Sides<Counts>,
    pub(super) timeline: Timeline,
    path: VecDeque<(Side, Segment)>,
    /// Whether a segment or a timer is being handled: what is sent then is delivered afterwards.
    pub(super) in_softirq: bool,
}

impl Connection {
    pub(super) fn new(facts: &Facts, rules: Rules) -> Self {
        let env = Env::new(facts, rules);
        Self {
            sockets: Sides::from_fn(|side| Socket::new(side, &facts.start[side], &env)),
            env,
            counts: Sides::default(),
            timeline: Timeline::default(),
            path: VecDeque::with_capacity(8),
            in_softirq: false,
        }
    }

    // What the path brings --------------------------------------------------------------------------------------

    /// Delivers everything on the path, in order, and what is sent because of it.
    pub(super) fn deliver_all(&mut self) {
        if self.in_softirq {
            return;
        }
        self.in_softirq = true;
        while let Some((from, segment)) = self.path.pop_front() {
            let to = from.peer();
            if self.sockets[to].owned && self.env.rules.has(Rule::Backlog) {
                self.add_to_backlog(to, segment);
            } else {
                self.receive(to, &segment);
            }
        }
        self.in_softirq = false;
    }

    /// A segment for a socket that a system call is using waits. It joins the one before it if that began as a bare
    /// ACK: memory that its sender still shares can't be joined to.
    ///
    /// Kernel: `tcp_add_backlog`.
    fn add_to_backlog(&mut self, side: Side, segment: Segment) {
        let socket = &mut self.sockets[side];
        match socket.backlog.back_mut() {
            Some(last) if !last.shared && last.end() == segment.seq => {
                socket.receiver.backlog_len += segment.len;
                last.merge(&segment);
            }
            _ => {
                socket.receiver.backlog_len += segment.truesize;
                socket.backlog.push_back(segment);
            }
        }
    }

    /// **A segment is handled.** A predicted bare ACK is an acknowledgement and nothing else. Predicted data pushes
    /// what it releases. An unpredicted segment always pushes: it can release this side's own `MSG_MORE` bytes.
    ///
    /// Kernel: `tcp_rcv_established`. RFC 9293 section 3.10.7.4.
    pub(super) fn receive(&mut self, side: Side, segment: &Segment) {
        let socket = &mut self.sockets[side];
        let predicted = socket.is_predicted(segment, &self.env);
        if predicted && segment.len > 0 {
            self.queue_data(side, segment);
            let sender = &mut self.sockets[side].sender;
            if segment.ack == sender.snd_una {
                sender.snd_wl1 = segment.seq;
            } else {
                self.acknowledge(side, segment, true);
                self.push_pending(side);
                if !self.sockets[side].receiver.pending.scheduled {
                    return;
                }
            }
            self.ack_snd_check(side);
            return;
        }
        self.acknowledge(side, segment, predicted);
        if segment.len > 0 {
            self.sockets[side].set_aside(segment.truesize);
            self.queue_data(side, segment);
            self.sockets[side].predict_again();
        }
        self.push_pending(side);
        if !predicted && self.sockets[side].receiver.pending.scheduled {
            self.ack_snd_check(side);
        }
    }

    fn acknowledge(&mut self, side: Side, segment: &Segment, predicted: bool) {
        let socket = &mut self.sockets[side];
        let changed = socket.sender.acknowledge(segment, predicted, &self.env);
        if changed.window_changed {
            socket.predict_again();
        }
        if changed.freed > 0 {
            socket.uncharge(changed.freed);
        }
    }

    fn queue_data(&mut self, side: Side, segment: &Segment) {
        let freed_to = self.sockets[side.peer()].sender.snd_una;
        let socket = &mut self.sockets[side];
        let cost = socket.receiver.queue(segment, freed_to, &self.env);
        socket.charge(cost);
        let rto = socket.sender.round_trip.rto;
        socket.receiver.data_received(segment, rto, &self.env);
    }

    /// Kernel: `__tcp_ack_snd_check`.
    fn ack_snd_check(&mut self, side: Side) {
        let socket = &mut self.sockets[side];
        let srtt = socket.sender.round_trip.srtt_us();
        match socket.receiver.ack_snd_check(srtt, &self.env) {
            AckDecision::Delayed => {}
            AckDecision::Now if socket.owned && self.env.backlog_ack_defer && self.env.rules.has(Rule::Backlog) => {
                socket.ack_deferred = true;
            }
            AckDecision::Now | AckDecision::Overdue => self.send_ack(side),
        }
    }

    // What timers do --------------------------------------------------------------------------------------------

    /// The earliest tick at which a timer fires.
    pub(super) fn next_timer(&self) -> Option<u64> {
        let sockets = [&self.sockets.client, &self.sockets.server];
        let ticks = sockets.into_iter().flat_map(|socket| {
            let probe = match socket.sender.retransmit {
                Retransmit::Probe0(tick) => Some(tick),
                Retransmit::None | Retransmit::Rto => None,
            };
            [socket.receiver.delack_fires(), probe]
        });
        ticks.flatten().min()
    }

    /// Runs the timers that are due and delivers what they sent. Returns the timer that let go of held bytes: its
    /// side, and whether it was the persist timer.
    pub(super) fn run_timers(&mut self) -> Option<(Side, bool)> {
        let sent_before = self.sent();
        let mut fired = None;
        self.in_softirq = true;
        for side in Side::BOTH {
            let socket = &mut self.sockets[side];
            if socket.receiver.delack_fires().is_some_and(|tick| tick <= self.env.now) {
                let rto = socket.sender.round_trip.rto;
                if socket.receiver.delack_timer(rto, &self.env) {
                    self.counts[side].delayed_acks += 1;
                    self.note(side, Event::DelayedAckTimer);
                    self.send_ack(side);
                    fired = Some((side, false));
                }
            }
            if let Retransmit::Probe0(tick) = self.sockets[side].sender.retransmit
                && tick <= self.env.now
            {
                self.note(side, Event::PersistTimer);
                if let Some(piece) = self.sockets[side].sender.write_wakeup(&self.env) {
                    self.transmit(side, piece);
                    fired = Some((side, true));
                }
            }
        }
        self.in_softirq = false;
        self.deliver_all();
        fired.filter(|_| self.sent() > sent_before)
    }

    fn sent(&self) -> u64 {
        self.sockets.client.sender.snd_nxt + self.sockets.server.sender.snd_nxt
    }

    // What is sent ----------------------------------------------------------------------------------------------

    /// Kernel: `tcp_push_pending_frames`.
    pub(super) fn push_pending(&mut self, side: Side) {
        if !self.sockets[side].sender.queue.is_empty() {
            let nonagle = self.sockets[side].sender.nonagle;
            self.push(side, nonagle);
        }
    }

    /// Sends what may leave, piece by piece.
    ///
    /// Kernel: `__tcp_push_pending_frames`, `tcp_write_xmit`.
    pub(super) fn push(&mut self, side: Side, nonagle: u8) {
        let mut sent = false;
        while let Some(piece) = self.sockets[side].sender.next_piece(nonagle, &self.env) {
            sent = true;
            self.split_cost(side, &piece);
            self.transmit(side, piece);
        }
        let sender = &mut self.sockets[side].sender;
        sender.cwnd_validate(sent);
        if !sent {
            sender.check_probe_timer(&self.env);
        }
    }

    /// Sends one piece of a buffer that a long write has just filled.
    ///
    /// Kernel: `tcp_push_one`.
    pub(super) fn push_one(&mut self, side: Side) {
        if let Some(piece) = self.sockets[side].sender.next_piece(PUSH, &self.env) {
            self.split_cost(side, &piece);
            self.transmit(side, piece);
            self.sockets[side].sender.cwnd_validate(true);
        }
    }

    /// A buffer that was cut needs a second header's memory.
    fn split_cost(&mut self, side: Side, piece: &Piece) {
        let socket = &mut self.sockets[side];
        if piece.cut {
            socket.charge(self.env.overhead);
        }
    }

    pub(super) fn send_ack(&mut self, side: Side) {
        self.counts[side].bare_acks += 1;
        let (seq, len, count, mss) = (self.sockets[side].sender.snd_nxt, 0, 1, 0);
        self.transmit(side, Piece { seq, len, count, mss, psh: false, cut: false });
    }

    /// A segment goes on the path. Inside a system call it is delivered at once, and so is what the peer answers.
    ///
    /// Kernel: `__tcp_transmit_skb`.
    fn transmit(&mut self, side: Side, piece: Piece) {
        let socket = &mut self.sockets[side];
        let window = socket.receiver.offer_window(&self.env);
        if window == 0 {
            socket.stop_predicting();
        }
        socket.receiver.ack_sent(&self.env);
        let ack = socket.receiver.rcv_nxt;
        let data = piece.len > 0;
        if data {
            socket.receiver.data_sent(&self.env);
            self.counts[side].data_segments += piece.count;
            self.note(side, Event::Data { from: piece.seq - 1, bytes: piece.len, segments: piece.count });
        } else {
            self.note(side, Event::BareAck);
        }
        let segment = Segment {
            seq: piece.seq,
            len: piece.len,
            ack,
            window,
            count: piece.count,
            mss: piece.mss,
            psh: piece.psh,
            truesize: if data { piece.len + self.env.overhead } else { BARE_ACK_TRUESIZE },
            shared: data,
        };
        self.path.push_back((side, segment));
        self.deliver_all();
    }

    pub(super) fn note(&mut self, side: Side, event: Event) {
        self.timeline.push(self.env.now, side, event);
    }
}
