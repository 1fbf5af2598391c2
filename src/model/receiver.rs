//! The receiver: what it learns from the segments that arrive, and what a read takes.

use super::env::Env;
use super::facts::{MSS_DEFAULT, Start};
use super::rules::Rule;
use super::segment::{Segment, Unread};
use std::collections::VecDeque;

/// `TCP_MAX_QUICKACKS`: the most quick ACKs granted at a time.
const MAX_QUICKACKS: u32 = 16;
/// `TCP_MIN_MSS`: below it a segment without PSH says nothing about the sender's segment size.
const MIN_MSS: u32 = 88;
/// The TCP header that `TCP_MSS_DEFAULT` and `TCP_MIN_MSS` leave out.
const BARE_HEADER: u32 = 20;
/// Most pieces of memory in one buffer (`MAX_SKB_FRAGS`).
const MAX_PIECES: u32 = 17;
/// Segments below this size don't grow the window.
const GROWTH_MIN: u32 = 128;

/// The flags of a pending ACK (`icsk_ack.pending`). Every segment that is sent clears them all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pending {
    /// An ACK is owed (`ICSK_ACK_SCHED`).
    pub(super) scheduled: bool,
    /// The delayed-ACK timer runs, until this tick (`ICSK_ACK_TIMER`).
    pub(super) timer: Option<u64>,
    /// A small segment arrived, or a full one with PSH (`ICSK_ACK_PUSHED`).
    pub(super) pushed: bool,
    /// A second one did (`ICSK_ACK_PUSHED2`).
    pub(super) pushed2: bool,
}

/// The receiving half of a socket.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) rcv_nxt: u64,
    /// What had arrived when the last segment went out.
    pub(super) rcv_wup: u64,
    pub(super) copied: u64,
    pub(super) rcv_mss: u32,
    last_seg_size: u32,
    /// The delayed ACK's timeout in ticks (`icsk_ack.ato`); 0 before the first data.
    pub(super) ato: u64,
    /// The tick in which data last arrived.
    lrcvtime: u64,
    /// Quick ACKs left.
    pub(super) quick: u32,
    /// Replies counted towards pingpong mode.
    pub(super) pingpong: u8,
    pub(super) pending: Pending,
    unread: VecDeque<Unread>,
    /// Memory of the receive queue (`sk_rmem_alloc`).
    pub(super) rmem: u32,
    /// Memory of the segments that wait for the end of a system call.
    pub(super) backlog_len: u32,
    pub(super) rcv_wnd: u32,
    pub(super) rcv_ssthresh: u32,
    pub(super) window_clamp: u32,
    pub(super) scaling_ratio: u32,
    pub(super) rcvbuf: u32,
    pub(super) wscale: u8,
    pub(super) advmss: u32,
}

impl Receiver {
    pub(super) fn new(start: &Start) -> Self {
        Self {
            rcv_nxt: 1,
            rcv_wup: 1,
            copied: 1,
            rcv_mss: start.rcv_mss.max(1),
            last_seg_size: 0,
            ato: 0,
            lrcvtime: 0,
            quick: 0,
            pingpong: 0,
            pending: Pending::default(),
            unread: VecDeque::with_capacity(8),
            rmem: 0,
            backlog_len: 0,
            rcv_wnd: start.rcv_wnd,
            rcv_ssthresh: start.rcv_ssthresh,
            window_clamp: start.window_clamp,
            scaling_ratio: start.scaling_ratio,
            rcvbuf: start.rcvbuf,
            wscale: start.wscale,
            advmss: start.advmss,
        }
    }

    /// Bytes that arrived and were not read.
    pub(super) fn unread(&self) -> u64 {
        self.rcv_nxt - self.copied
    }

    /// Bytes that arrived since the last segment went out.
    pub(super) fn unacked(&self) -> u64 {
        self.rcv_nxt - self.rcv_wup
    }

    /// **Queueing and coalescing.** Data goes to the end of the receive queue. It joins the buffer before it, and
    /// then costs only its payload, unless the sender still shares that buffer's memory: over loopback that is,
    /// unless its first segment is still unacknowledged. Returns the memory that it costs.
    ///
    /// Kernel: `tcp_queue_rcv`, `tcp_try_coalesce`, `skb_try_coalesce`.
    pub(super) fn queue(&mut self, segment: &Segment, freed_to: u64, env: &Env) -> u32 {
        self.rcv_nxt = segment.end();
        let joins = env.rules.has(Rule::Coalescing);
        let cost = match self.unread.back_mut() {
            Some(last) if joins && last.first_end <= freed_to && last.pieces + 1 < MAX_PIECES => {
                last.end = segment.end();
                last.truesize += segment.len;
                last.pieces += 1;
                segment.len
            }
            _ => {
                self.unread.push_back(Unread {
                    first_end: if segment.shared { segment.end() } else { 0 },
                    end: segment.end(),
                    truesize: segment.truesize,
                    pieces: 1,
                });
                segment.truesize
            }
        };
        self.rmem += cost;
        cost
    }

    /// Takes up to `bytes` unread bytes. Returns how many there were and the memory of the buffers read to their end.
    ///
    /// Kernel: `tcp_recvmsg_locked`, `tcp_eat_recv_skb`.
    pub(super) fn take(&mut self, bytes: u64) -> (u64, u32) {
        let taken = bytes.min(self.unread());
        self.copied += taken;
        let mut freed = 0;
        while self.unread.front().is_some_and(|buffer| buffer.end <= self.copied) {
            freed += self.unread.pop_front().map_or(0, |buffer| buffer.truesize);
        }
        self.rmem -= freed;
        (taken, freed)
    }

    /// **Data has arrived**: an ACK is owed, and the segment teaches the receiver four things, in this order: the
    /// sender's segment size, how fast segments follow each other, how many quick ACKs are due, how far the window
    /// can grow.
    ///
    /// Kernel: `tcp_event_data_recv`.
    pub(super) fn data_received(&mut self, segment: &Segment, rto: u64, after_rto: bool, env: &Env) {
        self.pending.scheduled = true;
        self.measure_rcv_mss(segment, env);
        self.measure_gap(rto, after_rto, env);
        self.lrcvtime = env.now;
        if segment.len >= GROWTH_MIN && env.rules.has(Rule::WindowGrowth) {
            self.grow_window(segment.len, env);
        }
    }

    /// **The estimate of the sender's segment size**, `rcv_mss`, decides what counts as *more than a segment* and as
    /// *small*. It starts at 536 and is the size of the largest segment seen. A smaller one lowers it only when two
    /// of the same size follow each other, and only if they are as large as 536 bytes or end no write.
    ///
    /// Any other smaller segment, and a full one with PSH, is probably the end of a write: it sets PUSHED, which
    /// lets a read acknowledge it. A second small one sets PUSHED2.
    ///
    /// A change of the estimate also re-weighs how much of the buffer is payload, and with it the window.
    ///
    /// Kernel: `tcp_measure_rcv_mss`. RFC 1122 section 4.2.3.3; RFC 9293 section 3.8.6.2.2 (effective send MSS).
    fn measure_rcv_mss(&mut self, segment: &Segment, env: &Env) {
        let previous = std::mem::take(&mut self.last_seg_size);
        let size = segment.size_shown();
        if size >= self.rcv_mss {
            if size != self.rcv_mss {
                self.scale_window(segment);
            }
            if env.rules.has(Rule::RcvMssEstimate) {
                self.rcv_mss = size.min(self.advmss);
            }
            self.pending.pushed |= segment.psh;
            return;
        }
        let with_header = size + env.header;
        if with_header >= MSS_DEFAULT + BARE_HEADER || (with_header >= MIN_MSS + BARE_HEADER && !segment.psh) {
            self.last_seg_size = size;
            if size == previous && env.rules.has(Rule::LastSegSize) && env.rules.has(Rule::RcvMssEstimate) {
                self.rcv_mss = size;
                return;
            }
        }
        self.pending.pushed2 |= self.pending.pushed && env.rules.has(Rule::Pushed2);
        self.pending.pushed = true;
    }

    /// Ticks since data last arrived.
    pub(super) fn since_data(&self, env: &Env) -> u64 {
        env.now - self.lrcvtime
    }

    /// **The pace of arrivals**, `ato`, is the delayed ACK's timeout: 40 ms while segments follow each other within
    /// 20 ms, more if slower. The first data ever, and data after a pause longer than the retransmission timeout
    /// (when the sender may be probing its way up again), are granted quick ACKs.
    ///
    /// Kernel: `tcp_event_data_recv`. RFC 1122 section 4.2.3.2; RFC 5681 section 4.2.
    fn measure_gap(&mut self, rto: u64, after_rto: bool, env: &Env) {
        if self.ato == 0 {
            self.grant_quick_acks(env);
            self.ato = env.delack_min;
            return;
        }
        let gap = self.since_data(env);
        if gap <= env.delack_min / 2 {
            self.ato = self.ato / 2 + env.delack_min / 2;
        } else if gap < self.ato {
            self.ato = (self.ato / 2 + gap).min(rto).min(env.rto_min);
        } else if after_rto {
            self.grant_quick_acks(env);
        }
    }

    /// **Quick ACKs** are granted for half of the window, at most sixteen, so that a sender in slow start is not
    /// kept waiting for ACKs.
    ///
    /// Kernel: `tcp_incr_quickack`. RFC 5681 section 3.1 (slow start counts ACKs).
    fn grant_quick_acks(&mut self, env: &Env) {
        let granted = if env.rules.has(Rule::CreditFormula) {
            match self.rcv_wnd / (2 * self.rcv_mss) {
                0 => 2,
                segments => segments.min(MAX_QUICKACKS),
            }
        } else {
            MAX_QUICKACKS
        };
        self.quick = self.quick.max(granted);
    }
}
