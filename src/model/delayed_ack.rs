//! When the receiver acknowledges: at arrival, on a read, with its own data, or after 40 ms.

use super::env::Env;
use super::receiver::{Pending, Receiver};
use super::rules::Rule;

/// What an arrival leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AckDecision {
    /// An ACK goes out now (or at the end of the system call).
    Now,
    /// An ACK goes out though the system call is not over: the timer was about to fire.
    Overdue,
    /// The delayed-ACK timer runs.
    Delayed,
}

impl Receiver {
    /// **Pingpong mode.** A connection on which this side answers soon after it received is *interactive*: an ACK
    /// can wait for the answer that will carry it. One such answer is enough with the default threshold.
    ///
    /// Kernel: `inet_csk_in_pingpong_mode`. RFC 1122 section 4.2.3.2; RFC 9293 section 3.8.6.3.
    pub(super) fn in_pingpong_mode(&self, env: &Env) -> bool {
        self.pingpong >= env.pingpong_threshold
    }

    /// **Quick-ACK mode.** Every segment is acknowledged at once while credits are left and this side isn't in
    /// pingpong mode, or always if the route says so.
    ///
    /// Kernel: `tcp_in_quickack_mode`. RFC 5681 section 4.2.
    fn in_quickack_mode(&self, env: &Env) -> bool {
        env.quickack_route || (self.quick > 0 && !self.in_pingpong_mode(env))
    }

    /// **Acknowledge now or later?** Now if more than a segment is unacknowledged and the window may move on (a read
    /// will do it otherwise), or in quick-ACK mode. Later is the rule for everything else.
    ///
    /// Kernel: `__tcp_ack_snd_check`. RFC 1122 section 4.2.3.2 and RFC 5681 section 4.2: at least every second full
    /// segment. Linux counts bytes, not segments.
    pub(super) fn ack_snd_check(&mut self, srtt_us: u64, env: &Env) -> AckDecision {
        let two_segments = env.rules.has(Rule::AckAboveRcvMss)
            && self.unacked() > u64::from(self.rcv_mss)
            && (self.unread() == 0 || self.select_window(env) >= self.rcv_wnd);
        if two_segments || self.in_quickack_mode(env) {
            return AckDecision::Now;
        }
        self.delay_ack(srtt_us, env)
    }

    /// **The delayed ACK** is set for `ato` ticks from now, 40 ms unless segments come slowly; a round-trip estimate
    /// bounds it, but never below 40 ms. An earlier timer stays, and if it has less than a quarter of the delay to
    /// go the ACK leaves at once.
    ///
    /// Kernel: `tcp_send_delayed_ack`. RFC 1122 section 4.2.3.2: less than 0.5 s.
    fn delay_ack(&mut self, srtt_us: u64, env: &Env) -> AckDecision {
        let mut delay = self.ato;
        if delay > env.delack_min {
            let mut most = env.hz / 2;
            if self.in_pingpong_mode(env) || self.pending.pushed {
                most = env.rto_min;
            }
            if srtt_us > 0 {
                most = most.min(env.ticks(srtt_us).max(env.delack_min));
            }
            delay = delay.min(most);
        }
        delay = delay.min(env.delack_max);
        let mut deadline = env.now + delay;
        if let Some(earlier) = self.pending.timer {
            if earlier <= env.now + delay / 4 {
                return AckDecision::Overdue;
            }
            deadline = deadline.min(earlier);
        }
        self.pending.scheduled = true;
        self.pending.timer = Some(deadline);
        AckDecision::Delayed
    }

    /// The tick at which the delayed-ACK timer fires: the one after its deadline.
    pub(super) fn delack_fires(&self) -> Option<u64> {
        self.pending.timer.map(|deadline| deadline + 1)
    }

    /// **The delayed-ACK timer fires.** An answer was expected to carry the ACK and didn't come, so this side leaves
    /// pingpong mode: that is why one late answer makes the next request fast. Outside pingpong mode the delay
    /// doubles instead. Returns whether an ACK goes out.
    ///
    /// Kernel: `tcp_delack_timer_handler`. RFC 1122 section 4.2.3.2.
    pub(super) fn delack_timer(&mut self, rto: u64, env: &Env) -> bool {
        self.pending.timer = None;
        if !self.pending.scheduled {
            return false;
        }
        if !self.in_pingpong_mode(env) {
            self.ato = (self.ato * 2).min(rto).min(env.rto_min);
        } else if env.rules.has(Rule::TimerLeavesPingpong) {
            self.pingpong = 0;
            self.ato = env.delack_min;
        }
        true
    }

    /// **The ACK on a read.** A read acknowledges if more than a segment is unacknowledged, or if it emptied the
    /// queue and small segments had arrived: two of them (PUSHED2), or one (PUSHED) outside pingpong mode. So a
    /// reader that keeps up acknowledges every second small segment even where ACKs are delayed. A read that at
    /// least doubles the window acknowledges too.
    ///
    /// Kernel: `__tcp_cleanup_rbuf`. RFC 9293 sections 3.8.6.2.2 and 3.8.6.3.
    pub(super) fn cleanup_rbuf(&mut self, copied: bool, env: &Env) -> bool {
        if !env.rules.has(Rule::AckOnRead) {
            return false;
        }
        let pending = self.pending;
        let emptied = copied && self.rmem == 0;
        if pending.scheduled
            && (self.unacked() > u64::from(self.rcv_mss)
                || (emptied && (pending.pushed2 || (pending.pushed && !self.in_pingpong_mode(env)))))
        {
            return true;
        }
        let current = self.receive_window();
        if copied && 2 * u64::from(current) <= u64::from(self.window_clamp) {
            let window = self.select_window(env);
            return window > 0 && u64::from(window) >= 2 * u64::from(current);
        }
        false
    }

    /// **A segment leaves**, and whatever it carries it acknowledges all that arrived: nothing is pending any more.
    /// It uses up a quick ACK if an ACK was owed.
    ///
    /// Kernel: `tcp_event_ack_sent`, `tcp_dec_quickack_mode`.
    pub(super) fn ack_sent(&mut self, env: &Env) {
        if self.quick > 0 {
            let used = u32::from(self.pending.scheduled);
            if used >= self.quick {
                self.quick = 0;
                self.ato = env.delack_min;
            } else {
                self.quick -= used;
            }
        }
        self.pending = Pending::default();
    }

    /// **Data leaves**: soon after data arrived it is an answer, and counts towards pingpong mode.
    ///
    /// Kernel: `tcp_event_data_sent`.
    pub(super) fn data_sent(&mut self, env: &Env) {
        if self.since_data(env) < self.ato {
            self.pingpong = self.pingpong.saturating_add(1);
        }
    }

    /// **`TCP_QUICKACK`** is a moment's wish. 0 enters pingpong mode. Any other value leaves it and lets an ACK that
    /// is owed leave as if a read had just happened, so not before the queue is empty; an even one then enters
    /// pingpong mode again. No credits are granted. Returns whether an ACK goes out; the caller then
    /// [re-enters](Self::enter_pingpong_mode) pingpong mode for an even value.
    ///
    /// Kernel: `__tcp_sock_set_quickack`.
    pub(super) fn set_quickack(&mut self, value: i32, env: &Env) -> bool {
        if value == 0 {
            self.enter_pingpong_mode(env);
            return false;
        }
        self.pingpong = 0;
        if !self.pending.scheduled {
            return false;
        }
        self.pending.pushed = true;
        self.cleanup_rbuf(true, env)
    }

    pub(super) fn enter_pingpong_mode(&mut self, env: &Env) {
        self.pingpong = env.pingpong_threshold;
    }
}
