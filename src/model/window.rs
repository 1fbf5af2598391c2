//! The window that a receiver offers, and how it grows.

use super::env::Env;
use super::receiver::Receiver;
use super::rules::Rule;
use super::segment::Segment;

impl Receiver {
    /// The part of so much buffer memory that counts as window: the rest is for what segments cost beyond payload.
    ///
    /// Kernel: `tcp_win_from_space`.
    fn window_from_space(&self, space: i64) -> i64 {
        (space * i64::from(self.scaling_ratio)) >> 8
    }

    /// **Free space**: the receive buffer less what is unread and less what waits for the end of a system call.
    ///
    /// Kernel: `tcp_space`.
    fn free_space(&self, env: &Env) -> i64 {
        let backlog = if env.rules.has(Rule::BacklogBytes) { self.backlog_len } else { 0 };
        self.window_from_space(i64::from(self.rcvbuf) - i64::from(backlog) - i64::from(self.rmem))
    }

    /// **The window to offer**: the free space, but no more than the slowly growing `rcv_ssthresh`, and nothing if
    /// not even a segment would fit. Where less than half of the buffer is free, quick ACKs end.
    ///
    /// Kernel: `__tcp_select_window`. RFC 9293 section 3.8.6.2.2 (silly window syndrome); RFC 1122 section 4.2.3.3.
    pub(super) fn select_window(&mut self, env: &Env) -> u32 {
        let allowed = self.window_from_space(i64::from(self.rcvbuf));
        let full = allowed.min(i64::from(self.window_clamp));
        let segment = i64::from(self.rcv_mss).min(full);
        if segment <= 0 {
            return 0;
        }
        let mut free = self.free_space(env);
        if free < full / 2 {
            self.quick = 0;
            free = (free >> self.wscale) << self.wscale;
            if free < allowed >> 4 || free < segment {
                return 0;
            }
        }
        let free = u32::try_from(free).unwrap_or(0).min(self.rcv_ssthresh);
        if self.wscale > 0 {
            return free.next_multiple_of(1 << self.wscale);
        }
        // Without scaling the window moves by whole segments.
        let (offered, segment) = (self.rcv_wnd, u32::try_from(segment).unwrap_or(u32::MAX));
        if offered > free || free - offered >= segment {
            free / segment * segment
        } else if i64::from(segment) == full && i64::from(free) > i64::from(offered) + full / 2 {
            free
        } else {
            offered
        }
    }

    /// What is left of the window offered last.
    ///
    /// Kernel: `tcp_receive_window`.
    pub(super) fn receive_window(&self) -> u32 {
        let end = self.rcv_wup + u64::from(self.rcv_wnd);
        u32::try_from(end.saturating_sub(self.rcv_nxt)).unwrap_or(u32::MAX)
    }

    /// **Offers a window** with a segment about to leave. What was once offered is never taken back.
    ///
    /// Kernel: `tcp_select_window`. RFC 9293 section 3.8.6 (shrinking the window is discouraged).
    pub(super) fn offer_window(&mut self, env: &Env) -> u32 {
        let current = self.receive_window();
        let mut window = self.select_window(env);
        if window < current {
            window = current.next_multiple_of(1 << self.wscale);
        }
        self.rcv_wnd = window;
        self.rcv_wup = self.rcv_nxt;
        (window.min(65_535 << self.wscale) >> self.wscale) << self.wscale
    }

    /// **Re-weighs the buffer** when a segment of a new size arrives: the part of it that counts as window becomes
    /// the part of this segment's memory that is payload.
    ///
    /// Kernel: `tcp_measure_rcv_mss`, `tcp_set_window_clamp`.
    pub(super) fn scale_window(&mut self, segment: &Segment) {
        let share = u64::from(segment.len) * 256 / u64::from(segment.truesize.max(1));
        let ratio = u32::try_from(share).unwrap_or(255).clamp(1, 255);
        if ratio == self.scaling_ratio {
            return;
        }
        self.scaling_ratio = ratio;
        let clamp = u32::try_from(self.window_from_space(i64::from(self.rcvbuf))).unwrap_or(0);
        let before = std::mem::replace(&mut self.window_clamp, clamp);
        if clamp < before {
            self.rcv_ssthresh = self.rcv_ssthresh.min(clamp);
        } else if clamp > before {
            self.rcv_ssthresh = self.rcv_ssthresh.max(self.rcv_wnd.min(clamp));
        }
    }

    /// **The window grows** by two segments for each segment of 128 bytes or more that arrives, as long as there is
    /// room, and each time grants a quick ACK so that the sender hears of it.
    ///
    /// The kernel grows more slowly where a segment's payload is small beside the memory that holds it. It leaves
    /// out the buffer's header there, so that over loopback, where payload lies in pages of its own, that is never
    /// so.
    ///
    /// Kernel: `tcp_grow_window`, `truesize_adjust`.
    pub(super) fn grow_window(&mut self, len: u32, env: &Env) {
        let room = i64::from(self.window_clamp).min(self.free_space(env)) - i64::from(self.rcv_ssthresh);
        let Ok(room) = u32::try_from(room) else { return };
        if room == 0 {
            return;
        }
        self.rcv_ssthresh += room.min((2 * self.advmss).max(2 * len));
        if env.rules.has(Rule::GrowthCredit) {
            self.quick |= 1;
        }
    }
}
