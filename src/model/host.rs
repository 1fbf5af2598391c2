//! The host that all sockets are on, and the path between them: the kernel's order of events at an arrival, when a timer
//! fires and when something is sent. The rules themselves are methods of [`Sender`](super::sender::Sender) and
//! [`Receiver`](super::receiver::Receiver); here is only who calls them when.

use super::close_call::CloseCalls;
use super::delayed_ack::AckDecision;
use super::env::Env;
use super::facts::Facts;
use super::prediction::Ended;
use super::rules::{Rule, Rules};
use super::segment::Segment;
use super::sender::{PUSH, Piece, Retransmit};
use super::socket::Socket;
use super::timeline::{Event, Timeline};
use crate::exchange::{Socket as Name, Sockets};
use std::collections::VecDeque;

/// The memory that a waiting bare ACK counts for (`skb_set_tcp_pure_ack`).
const BARE_ACK_TRUESIZE: u32 = 2;

/// What one socket has done since its connection began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) data_segments: u32,
    pub(super) bare_acks: u32,
    pub(super) delayed_acks: u32,
}

/// The sockets of one connection or of several, and a path on which nothing takes time, is lost or overtakes.
///
/// It is one path for all of them, as the loopback device is: what is sent first arrives first, whichever connection it
/// belongs to.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) env: Env,
    pub(super) sockets: Sockets<Socket>,
    pub(super) counts: Sockets<Counts>,
    pub(super) timeline: Timeline,
    pub(super) close_calls: CloseCalls,
    path: VecDeque<(Name, Segment)>,
    /// Whether a segment or a timer is being handled: what is sent then is delivered afterwards.
    pub(super) in_softirq: bool,
}

impl Host {
    pub(super) fn new(sockets: Sockets<()>, facts: &Facts, rules: Rules, close_calls: &[bool]) -> Self {
        let env = Env::new(facts, rules);
        Self {
            counts: sockets.map(|_| Counts::default()),
            sockets: sockets.map(|name| Socket::new(name.side(), facts.start_of(name), &env)),
            env,
            timeline: Timeline::default(),
            close_calls: CloseCalls::new(close_calls),
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
            let to = self.sockets.peer(from);
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
    fn add_to_backlog(&mut self, at: Name, segment: Segment) {
        let socket = &mut self.sockets[at];
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
    pub(super) fn receive(&mut self, at: Name, segment: &Segment) {
        let socket = &mut self.sockets[at];
        let predicted = socket.is_predicted(segment, &self.env);
        if predicted && segment.len > 0 {
            self.queue_data(at, segment);
            let sender = &mut self.sockets[at].sender;
            if segment.ack == sender.snd_una {
                sender.snd_wl1 = segment.seq;
            } else {
                self.acknowledge(at, segment, true);
                self.data_snd_check(at);
                if !self.sockets[at].receiver.pending.scheduled {
                    return;
                }
            }
            self.ack_snd_check(at);
            return;
        }
        self.acknowledge(at, segment, predicted);
        if segment.len > 0 {
            self.sockets[at].set_aside(segment.truesize);
            self.queue_data(at, segment);
            self.sockets[at].predict_again();
        }
        self.data_snd_check(at);
        if !predicted && self.sockets[at].receiver.pending.scheduled {
            self.ack_snd_check(at);
        }
    }

    /// Kernel: `tcp_data_snd_check`.
    fn data_snd_check(&mut self, at: Name) {
        self.push_pending(at);
        self.sockets[at].sender.check_space(&self.env);
    }

    fn acknowledge(&mut self, at: Name, segment: &Segment, predicted: bool) {
        let socket = &mut self.sockets[at];
        let changed = socket.sender.acknowledge(segment, predicted, &self.env);
        if changed.window_changed {
            socket.predict_again();
        }
        if changed.freed > 0 {
            socket.uncharge(changed.freed);
        }
    }

    fn queue_data(&mut self, at: Name, segment: &Segment) {
        let freed_to = self.sockets[self.sockets.peer(at)].sender.snd_una;
        let socket = &mut self.sockets[at];
        let cost = socket.receiver.queue(segment, freed_to, &self.env);
        socket.charge(cost);
        let rto = socket.sender.round_trip.rto;
        let gap = socket.receiver.since_data(&self.env);
        let after_rto = self.close_calls.is_longer(self.timeline.request(), gap, rto);
        socket.receiver.data_received(segment, rto, after_rto, &self.env);
    }

    /// Kernel: `__tcp_ack_snd_check`.
    fn ack_snd_check(&mut self, at: Name) {
        let socket = &mut self.sockets[at];
        let srtt = socket.sender.round_trip.srtt_us();
        match socket.receiver.ack_snd_check(srtt, &self.env) {
            AckDecision::Delayed => {}
            AckDecision::Now if socket.owned && self.env.backlog_ack_defer && self.env.rules.has(Rule::Backlog) => {
                socket.ack_deferred = true;
            }
            AckDecision::Now | AckDecision::Overdue => self.send_ack(at),
        }
    }

    // What timers do --------------------------------------------------------------------------------------------

    /// The earliest tick at which a timer fires.
    pub(super) fn next_timer(&self) -> Option<u64> {
        let ticks = self.sockets.names().flat_map(|at| {
            let socket = &self.sockets[at];
            let probe = match socket.sender.retransmit {
                Retransmit::Probe0(tick) => Some(tick),
                Retransmit::None | Retransmit::Rto => None,
            };
            [socket.receiver.delack_fires(), probe]
        });
        ticks.flatten().min()
    }

    /// Runs the timers that are due, and only then delivers what they sent. Returns those that let go of held bytes
    /// or made room for a write: a delayed ACK of its peer's, the persist timer of its own socket's.
    pub(super) fn run_timers(&mut self) -> Vec<Ended> {
        let sent_before = self.sockets.map(|at| self.sockets[at].sender.snd_nxt);
        let mut fired = Vec::new();
        self.in_softirq = true;
        for at in self.sockets.names() {
            let socket = &mut self.sockets[at];
            if socket.receiver.delack_fires().is_some_and(|tick| tick <= self.env.now) {
                let rto = socket.sender.round_trip.rto;
                if socket.receiver.delack_timer(rto, &self.env) {
                    self.counts[at].delayed_acks += 1;
                    self.note(at, Event::DelayedAckTimer);
                    self.send_ack(at);
                    fired.push((self.sockets.peer(at), Ended::DelayedAck(at)));
                }
            }
            if let Retransmit::Probe0(tick) = self.sockets[at].sender.retransmit
                && tick <= self.env.now
            {
                self.note(at, Event::PersistTimer);
                if let Some(piece) = self.sockets[at].sender.write_wakeup(&self.env) {
                    self.transmit(at, piece);
                    fired.push((at, Ended::PersistTimer(at)));
                }
            }
        }
        self.in_softirq = false;
        self.deliver_all();
        let let_go = |holder: Name| {
            let sender = &self.sockets[holder].sender;
            sender.snd_nxt > sent_before[holder] || (sender.is_refused() && sender.has_room(&self.env))
        };
        fired.into_iter().filter(|(holder, _)| let_go(*holder)).map(|(_, ended)| ended).collect()
    }

    // What is sent ----------------------------------------------------------------------------------------------

    /// Kernel: `tcp_push_pending_frames`.
    pub(super) fn push_pending(&mut self, at: Name) {
        if !self.sockets[at].sender.queue.is_empty() {
            let nonagle = self.sockets[at].sender.nonagle;
            self.push(at, nonagle);
        }
    }

    /// Sends what may leave, piece by piece.
    ///
    /// Kernel: `__tcp_push_pending_frames`, `tcp_write_xmit`.
    pub(super) fn push(&mut self, at: Name, nonagle: u8) {
        let mut sent = false;
        while let Some(piece) = self.next_piece(at, nonagle) {
            sent = true;
            self.split_cost(at, &piece);
            self.transmit(at, piece);
        }
        let sender = &mut self.sockets[at].sender;
        sender.cwnd_validate(sent);
        if !sent {
            sender.check_probe_timer(&self.env);
        }
    }

    /// Sends one piece of a buffer that a long write has just filled.
    ///
    /// Kernel: `tcp_push_one`.
    pub(super) fn push_one(&mut self, at: Name) {
        if let Some(piece) = self.next_piece(at, PUSH) {
            self.split_cost(at, &piece);
            self.transmit(at, piece);
            self.sockets[at].sender.cwnd_validate(true);
        }
    }

    fn next_piece(&mut self, at: Name, nonagle: u8) -> Option<Piece> {
        let socket = &mut self.sockets[at];
        let freed = socket.sender.grow_head(&self.env);
        if freed > 0 {
            socket.uncharge(freed);
        }
        socket.sender.next_piece(nonagle, &self.env)
    }

    /// A buffer that was cut needs a second header's memory.
    fn split_cost(&mut self, at: Name, piece: &Piece) {
        let socket = &mut self.sockets[at];
        if piece.cut {
            socket.charge(self.env.overhead);
        }
    }

    pub(super) fn send_ack(&mut self, at: Name) {
        self.counts[at].bare_acks += 1;
        let (seq, len, count, mss) = (self.sockets[at].sender.snd_nxt, 0, 1, 0);
        self.transmit(at, Piece { seq, len, count, mss, psh: false, cut: false });
    }

    /// A segment goes on the path. Inside a system call it is delivered at once, and so is what the peer answers.
    ///
    /// Kernel: `__tcp_transmit_skb`.
    fn transmit(&mut self, at: Name, piece: Piece) {
        let socket = &mut self.sockets[at];
        let window = socket.receiver.offer_window(&self.env);
        if window == 0 {
            socket.stop_predicting();
        }
        socket.receiver.ack_sent(&self.env);
        let ack = socket.receiver.rcv_nxt;
        let data = piece.len > 0;
        if data {
            socket.receiver.data_sent(&self.env);
            self.counts[at].data_segments += piece.count;
            self.note(at, Event::Data { from: piece.seq - 1, bytes: piece.len, segments: piece.count });
        } else {
            self.note(at, Event::BareAck);
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
        if segment.is_too_large(&self.env) {
            self.path.extend(segment.cut().map(|segment| (at, segment)));
        } else {
            self.path.push_back((at, segment));
        }
        self.deliver_all();
    }

    pub(super) fn note(&mut self, at: Name, event: Event) {
        self.timeline.push(self.env.now, at, event);
    }
}
