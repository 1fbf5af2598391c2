//! The sender hears of the other side: what an arriving segment's acknowledgement and window change.

use super::env::Env;
use super::rules::Rule;
use super::segment::Segment;
use super::sender::{Retransmit, Sender, half_window};

/// What an acknowledgement changed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Acknowledged {
    /// Memory of the pieces that it freed.
    pub(super) freed: u32,
    /// Whether the peer's window changed, or might have: header prediction is set anew.
    pub(super) window_changed: bool,
}

impl Sender {
    /// **An acknowledgement arrives.** What it covers is forgotten, a round trip is measured, the congestion window
    /// may grow. With nothing in flight it can only be about the window, and restarts the persist timer.
    ///
    /// `predicted` segments have the window that the peer offered before, so only the position counts.
    ///
    /// Kernel: `tcp_ack`. RFC 9293 section 3.10.7.4 (fifth, check the ACK field).
    pub(super) fn acknowledge(&mut self, segment: &Segment, predicted: bool, env: &Env) -> Acknowledged {
        let mut changed = Acknowledged::default();
        if segment.ack < self.snd_una || segment.ack > self.snd_nxt {
            return changed;
        }
        let was_in_flight = self.packets_out > 0;
        if predicted && segment.ack > self.snd_una {
            self.snd_wl1 = segment.seq;
        } else {
            changed.window_changed = self.update_window(segment, env);
        }
        self.snd_una = segment.ack;
        if was_in_flight {
            changed.freed = self.forget_acknowledged(env);
        } else {
            self.ack_probe(env);
        }
        changed
    }

    /// **The peer's window** is taken from the newest segment.
    ///
    /// Kernel: `tcp_ack_update_window`, `tcp_may_update_window`. RFC 9293 section 3.10.7.4 (SND.WL1, SND.WL2).
    fn update_window(&mut self, segment: &Segment, env: &Env) -> bool {
        let newer = segment.ack > self.snd_una
            || segment.seq > self.snd_wl1
            || (segment.seq == self.snd_wl1 && (segment.window > self.snd_wnd || segment.window == 0));
        if !newer {
            return false;
        }
        self.snd_wl1 = segment.seq;
        let changed = segment.window != self.snd_wnd;
        self.snd_wnd = segment.window;
        if segment.window > self.max_window {
            self.max_window = segment.window;
            self.mss_follows_window(env);
        }
        changed
    }

    /// **The segment size follows the window**: a segment is at most half of the largest window that the peer ever
    /// offered, so loopback's own segments, as large as the first window, start at half their size.
    ///
    /// Kernel: `tcp_sync_mss`, `tcp_bound_to_half_wnd`.
    fn mss_follows_window(&mut self, env: &Env) {
        if env.rules.has(Rule::MssFollowsWindow) {
            self.mss = self.full_mss.min(half_window(self.max_window));
        }
    }

    /// Forgets the pieces that are acknowledged, takes the round-trip time from the first of them and lets the
    /// congestion window grow. Returns the memory they held.
    ///
    /// Kernel: `tcp_clean_rtx_queue`, `tcp_rearm_rto`.
    fn forget_acknowledged(&mut self, env: &Env) -> u32 {
        let mut freed = 0;
        let mut segments = 0;
        let mut first_sent = None;
        while let Some(piece) = self.flight.front().filter(|piece| piece.end <= self.snd_una) {
            first_sent = first_sent.or(Some(piece.at_us));
            segments += piece.count;
            freed += piece.len + env.overhead;
            self.flight.pop_front();
        }
        if let Some(sent_us) = first_sent {
            self.packets_out -= segments;
            if env.rules.has(Rule::RoundTrip) {
                let rtt = env.now_us - sent_us + env.path_us;
                self.round_trip.sample(rtt, self.snd_una, self.snd_nxt, env);
            }
            self.retransmit = if self.packets_out == 0 { Retransmit::None } else { Retransmit::Rto };
            self.slow_start(segments);
        }
        freed
    }

    /// **Slow start.** The congestion window grows by what is acknowledged, but only if it was in use: it had been
    /// full, or less than twice of what was in flight.
    ///
    /// Kernel: `tcp_reno_cong_avoid`, `tcp_slow_start`, `tcp_is_cwnd_limited`. RFC 5681 section 3.1; RFC 7661.
    fn slow_start(&mut self, segments: u32) {
        if self.is_cwnd_limited || self.cwnd < 2 * self.max_packets_out {
            self.cwnd += segments;
        }
    }

    /// **The persist timer starts anew** when something is heard while nothing is in flight. So a peer that keeps
    /// talking can keep a cork's bytes waiting for longer than 200 ms.
    ///
    /// Kernel: `tcp_ack_probe`.
    fn ack_probe(&mut self, env: &Env) {
        let Some(head) = self.queue.front() else { return };
        if self.snd_nxt + u64::from(head.len) <= self.window_end() {
            self.retransmit = Retransmit::None;
        } else {
            self.arm_probe0(env);
        }
    }
}
