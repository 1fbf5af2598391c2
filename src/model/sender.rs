//! The sender: what a write leaves in the queue, and what may leave the queue for the path.

use super::env::Env;
use super::facts::Start;
use super::round_trip::RoundTrip;
use super::rules::Rule;
use super::segment::{Buffer, Sent};
use super::send_buffer::SendBuffer;
use crate::exchange::Side;
use std::collections::VecDeque;

/// `TCP_NAGLE_OFF`: the socket has `TCP_NODELAY`.
pub(super) const OFF: u8 = 1;
/// `TCP_NAGLE_CORK`: the socket has `TCP_CORK`, or this one write has `MSG_MORE`.
pub(super) const CORK: u8 = 2;
/// `TCP_NAGLE_PUSH`: what is queued now leaves, whatever else is set; gone with the next new buffer.
pub(super) const PUSH: u8 = 4;

/// The most that one buffer takes (`sk_gso_max_size`, less room for headers).
const BUFFER_MAX: u32 = 65_000;

/// What the one timer for sending is set for (`icsk_pending`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retransmit {
    /// No timer.
    None,
    /// Retransmission (`ICSK_TIME_RETRANS`). It never fires here: nothing is lost on this path.
    Rto,
    /// The persist timer (`ICSK_TIME_PROBE0`), and the tick at which it fires.
    Probe0(u64),
}

/// A piece of the stream that the sender has decided to send now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) seq: u64,
    pub(super) len: u32,
    pub(super) count: u32,
    pub(super) mss: u32,
    pub(super) psh: bool,
    /// Whether a buffer was cut to make it.
    pub(super) cut: bool,
}

/// The sending half of a socket.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) write_seq: u64,
    pub(super) snd_nxt: u64,
    pub(super) snd_una: u64,
    /// End of the last small segment sent.
    pub(super) snd_sml: u64,
    pub(super) queue: VecDeque<Buffer>,
    pub(super) flight: VecDeque<Sent>,
    pub(super) packets_out: u32,
    pub(super) nonagle: u8,
    pub(super) mss: u32,
    pub(super) full_mss: u32,
    pub(super) snd_wnd: u32,
    /// Position of the segment that last changed `snd_wnd`.
    pub(super) snd_wl1: u64,
    pub(super) max_window: u32,
    /// How far the stream was when PSH was last set.
    pushed_seq: u64,
    pub(super) cwnd: u32,
    pub(super) max_packets_out: u32,
    cwnd_usage_seq: u64,
    pub(super) is_cwnd_limited: bool,
    pub(super) retransmit: Retransmit,
    pub(super) round_trip: RoundTrip,
    pub(super) send_buffer: SendBuffer,
}

impl Sender {
    pub(super) fn new(side: Side, start: &Start, env: &Env) -> Self {
        Self {
            write_seq: 1,
            snd_nxt: 1,
            snd_una: 1,
            snd_sml: 1,
            queue: VecDeque::with_capacity(4),
            flight: VecDeque::with_capacity(8),
            packets_out: 0,
            nonagle: 0,
            mss: start.mss,
            full_mss: start.full_mss,
            snd_wnd: start.snd_wnd,
            // The client took the window from the SYN-ACK, before the first byte; the server from the client's ACK.
            snd_wl1: if side == Side::Client { 0 } else { 1 },
            max_window: start.snd_wnd,
            pushed_seq: 1,
            cwnd: start.cwnd,
            max_packets_out: 0,
            cwnd_usage_seq: 0,
            is_cwnd_limited: false,
            retransmit: Retransmit::None,
            round_trip: RoundTrip::new(start, env),
            send_buffer: SendBuffer::new(start.send_buffer, start.cwnd),
        }
    }

    /// Bytes written and not yet sent (`SIOCOUTQNSD`).
    pub(super) fn held(&self) -> u64 {
        self.write_seq - self.snd_nxt
    }

    /// The position after the last byte that the peer's window takes.
    pub(super) fn window_end(&self) -> u64 {
        self.snd_una + u64::from(self.snd_wnd)
    }

    /// **Nagle's algorithm with Minshall's change.** May this small segment, the last of the queue, not leave yet?
    ///
    /// Under `TCP_CORK` (or `MSG_MORE`, for that write) it may not. Otherwise it is held if Nagle's algorithm is on
    /// and an earlier *small* segment is still unacknowledged. John Nagle asked for more: that a small segment wait
    /// for *any* unacknowledged data. Minshall's change spares writes just over a whole number of segments.
    ///
    /// Kernel: `tcp_nagle_check`, `tcp_minshall_check`. RFC 896; RFC 1122 section 4.2.3.4; RFC 9293 section 3.7.4;
    /// draft-minshall-nagle-01.
    pub(super) fn nagle_holds(&self, partial: bool, nonagle: u8, env: &Env) -> bool {
        let small_in_flight = self.snd_sml > self.snd_una && self.snd_sml <= self.snd_nxt;
        partial
            && (nonagle & CORK != 0
                || (nonagle == 0 && self.packets_out > 0 && (small_in_flight || !env.rules.has(Rule::Minshall))))
    }

    /// **Congestion window.** How many segments may leave in one piece now: what the window has left, but at most
    /// half of it, so that two pieces are under way.
    ///
    /// Kernel: `tcp_cwnd_test`, `tcp_tso_segs`. RFC 5681 section 3.1.
    fn cwnd_quota(&self, env: &Env) -> u32 {
        let one_piece = (BUFFER_MAX / self.mss).max(2);
        if !env.rules.has(Rule::Cwnd) {
            return one_piece;
        }
        (self.cwnd / 2).max(1).min(self.cwnd.saturating_sub(self.packets_out)).min(one_piece)
    }

    /// **Where to cut.** How much of a buffer of more than one segment leaves in one piece: what the windows allow,
    /// less a small tail that Nagle's algorithm holds back.
    ///
    /// Kernel: `tcp_mss_split_point`. RFC 9293 section 3.8.6.2.1.
    fn split_point(&self, quota: u32, nonagle: u8, env: &Env) -> u32 {
        let window = u32::try_from(self.window_end().saturating_sub(self.snd_nxt)).unwrap_or(u32::MAX);
        let most = quota * self.mss;
        if most <= window && self.queue.len() > 1 {
            return most;
        }
        let needed = self.queue[0].len.min(window);
        if most <= needed {
            return most;
        }
        let partial = needed % self.mss;
        if self.nagle_holds(partial != 0, nonagle, env) { needed - partial } else { needed }
    }

    /// **What leaves next**, if anything may: the head of the queue, or the part of it that the windows and
    /// [`nagle_holds`](Self::nagle_holds) let go. Only the last buffer is ever held: one with another behind it can
    /// take no more bytes, so waiting would win nothing.
    ///
    /// Kernel: one turn of the loop in `tcp_write_xmit`, with `tcp_nagle_test`, `tcp_snd_wnd_test`, `tso_fragment`.
    pub(super) fn next_piece(&mut self, nonagle: u8, env: &Env) -> Option<Piece> {
        self.queue.front()?;
        let quota = self.cwnd_quota(env);
        if quota == 0 {
            return None;
        }
        let head = self.queue[0];
        if self.snd_nxt + u64::from(head.len.min(self.mss)) > self.window_end() {
            return None;
        }
        let len = if head.len <= self.mss {
            let last = self.queue.len() == 1;
            if last && nonagle & PUSH == 0 && self.nagle_holds(head.len < self.mss, nonagle, env) {
                return None;
            }
            head.len
        } else {
            self.split_point(quota, nonagle, env).min(head.len)
        };
        if len == 0 { None } else { Some(self.take(len, true, env)) }
    }

    /// Fills the head of the queue from the buffer behind it, up to what may leave in one piece. Returns the memory
    /// that this frees.
    ///
    /// Kernel: `tcp_grow_skb` (6.11 and later).
    pub(super) fn grow_head(&mut self, env: &Env) -> u32 {
        if self.queue.len() < 2 || self.queue[0].closed {
            return 0;
        }
        let missing = (self.cwnd_quota(env) * self.mss).saturating_sub(self.queue[0].len);
        let next = self.queue[1];
        let moved = missing.min(next.len);
        self.queue[0].len += moved;
        self.queue[1].len -= moved;
        if self.queue[1].len > 0 {
            return 0;
        }
        self.queue[0].psh |= next.psh;
        self.queue[0].closed |= next.closed;
        self.queue.remove(1);
        env.overhead
    }

    /// Takes `len` bytes off the head of the queue and counts them as sent.
    ///
    /// A head that is cut loses PSH, which belongs to the last byte of a write; a piece of several segments always
    /// carries it. `snd_sml` remembers the last small segment for Minshall's rule, but the persist timer's does
    /// not count (`minshall_update` is false).
    ///
    /// Kernel: `tso_fragment`, `tcp_event_new_data_sent`, `tcp_minshall_update`.
    pub(super) fn take(&mut self, len: u32, minshall_update: bool, env: &Env) -> Piece {
        let head = &mut self.queue[0];
        let whole = len == head.len;
        let psh = whole && head.psh;
        if whole {
            self.queue.pop_front();
        } else {
            head.len -= len;
        }
        let count = len.div_ceil(self.mss);
        let seq = self.snd_nxt;
        self.snd_nxt += u64::from(len);
        if self.packets_out == 0 {
            self.retransmit = Retransmit::Rto;
        }
        self.packets_out += count;
        self.flight.push_back(Sent { end: self.snd_nxt, len, count, at_us: env.now_us });
        if minshall_update && !len.is_multiple_of(self.mss) {
            self.snd_sml = self.snd_nxt;
        }
        Piece { seq, len, count, mss: self.mss, psh: psh || count > 1, cut: !whole }
    }

    /// Notes, after something was sent, how full the congestion window got: it grows only while it is used.
    ///
    /// Kernel: `tcp_cwnd_validate`. RFC 7661.
    pub(super) fn cwnd_validate(&mut self, sent: bool) {
        let limited = self.packets_out >= self.cwnd;
        if !sent && !limited {
            return;
        }
        if self.snd_una >= self.cwnd_usage_seq
            || limited
            || (!self.is_cwnd_limited && self.packets_out > self.max_packets_out)
        {
            self.is_cwnd_limited = limited;
            self.max_packets_out = self.packets_out;
            self.cwnd_usage_seq = self.snd_nxt;
        }
    }

    /// **The 200 ms of a forgotten cork.** If bytes are held and nothing is in flight, no ACK will ever come to
    /// release them. The persist timer, meant for a peer that has closed its window, then sends them: after the
    /// retransmission timeout, at least 200 ms.
    ///
    /// Kernel: `tcp_check_probe_timer`, `tcp_probe0_base`. RFC 9293 section 3.8.6.1; RFC 1122 section 4.2.2.17.
    pub(super) fn check_probe_timer(&mut self, env: &Env) {
        if self.packets_out == 0 && !self.queue.is_empty() && self.retransmit == Retransmit::None {
            self.arm_probe0(env);
        }
    }

    pub(super) fn arm_probe0(&mut self, env: &Env) {
        self.retransmit = Retransmit::Probe0(env.fires(self.round_trip.rto.max(env.rto_min)));
    }

    /// **The persist timer fires**: one segment leaves whatever Nagle's algorithm or the cork say, and Minshall's
    /// rule doesn't hear of it, so that the next small write leaves too.
    ///
    /// Kernel: `tcp_probe_timer`, `tcp_write_wakeup`.
    pub(super) fn write_wakeup(&mut self, env: &Env) -> Option<Piece> {
        self.retransmit = Retransmit::None;
        let head = *self.queue.front()?;
        if self.packets_out > 0 || self.snd_nxt >= self.window_end() {
            return None;
        }
        self.pushed_seq = self.pushed_seq.max(self.snd_nxt + u64::from(head.len));
        let window = u32::try_from(self.window_end().saturating_sub(self.snd_nxt)).unwrap_or(u32::MAX);
        let piece = self.take(head.len.min(window).min(self.mss), false, env);
        Some(Piece { psh: true, ..piece })
    }

    /// The size up to which a write fills one buffer: whole segments, at most half of the peer's largest window.
    ///
    /// Kernel: `tcp_xmit_size_goal`.
    pub(super) fn size_goal(&self) -> u32 {
        let most = BUFFER_MAX.min(half_window(self.max_window));
        (most / self.mss * self.mss).max(self.mss)
    }

    /// Whether the next byte written begins a new buffer.
    pub(super) fn needs_buffer(&self, goal: u32) -> bool {
        self.queue.back().is_none_or(|tail| tail.closed || tail.len >= goal)
    }

    /// **A write joins what is held.** Bytes go to the end of the last buffer while it has room; a new buffer ends
    /// the one-shot PUSH that `TCP_NODELAY` or an uncork had set. Returns what was taken and whether a buffer is new.
    ///
    /// Kernel: the loop of `tcp_sendmsg_locked`, `tcp_skb_entail`.
    pub(super) fn append(&mut self, bytes: u32, goal: u32, first: bool) -> (u32, bool) {
        let new = self.needs_buffer(goal);
        if new {
            self.queue.push_back(Buffer { len: 0, psh: false, closed: false });
            self.nonagle &= !PUSH;
        }
        let tail = self.queue.back_mut().expect("a buffer was just made");
        if first {
            tail.psh = false;
        }
        let taken = bytes.min(goal - tail.len);
        tail.len += taken;
        self.write_seq += u64::from(taken);
        (taken, new)
    }

    /// Whether so much was written since the last PSH that one is due: half of the peer's largest window.
    ///
    /// Kernel: `forced_push`.
    pub(super) fn forced_push(&self) -> bool {
        self.write_seq > self.pushed_seq + u64::from(self.max_window / 2)
    }

    /// Sets PSH on the last buffer: an application's write ends here.
    ///
    /// Kernel: `tcp_mark_push`. RFC 9293 section 3.9.1.2.
    pub(super) fn mark_push(&mut self) {
        if let Some(tail) = self.queue.back_mut() {
            tail.psh = true;
        }
        self.pushed_seq = self.write_seq;
    }

    /// **`TCP_NODELAY`** switches Nagle's algorithm off and pushes what is queued, a cork's bytes too. Setting it
    /// to 0 only switches Nagle's algorithm on again. Returns whether to push.
    ///
    /// Kernel: `__tcp_sock_set_nodelay`. RFC 1122 section 4.2.3.4.
    pub(super) fn set_nodelay(&mut self, on: bool) -> bool {
        if on {
            self.nonagle |= OFF | PUSH;
        } else {
            self.nonagle &= !OFF;
        }
        on
    }

    /// **`TCP_CORK`** holds back the last small segment. Clearing it pushes, but under Nagle's algorithm, so a
    /// small segment stays held while another is unacknowledged. Returns whether to push.
    ///
    /// Kernel: `__tcp_sock_set_cork`.
    pub(super) fn set_cork(&mut self, on: bool) -> bool {
        if on {
            self.nonagle |= CORK;
        } else {
            self.nonagle &= !CORK;
            if self.nonagle & OFF != 0 {
                self.nonagle |= PUSH;
            }
        }
        !on
    }
}

/// Half of a window that is large enough to halve.
///
/// Kernel: `tcp_bound_to_half_wnd`.
pub(super) fn half_window(window: u32) -> u32 {
    if window > super::facts::MSS_DEFAULT { window / 2 } else { window.max(1) }
}
