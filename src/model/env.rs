//! What every rule may look at: the clock, the kernel's constants, the rules in force.

use super::facts::Facts;
use super::rules::{Rule, Rules};

/// Ticks up to which the kernel's timer wheel is exact to one tick.
const FIRST_LEVEL: u64 = 63;
/// Ticks to which a longer timer is rounded.
const SECOND_LEVEL: u64 = 8;

/// The clock and the constants, in ticks.
#[derive(Debug)]
pub(super) struct Env {
    pub(super) rules: Rules,
    /// Now, in microseconds and in ticks, from the first request.
    pub(super) now_us: u64,
    pub(super) now: u64,
    jiffy_us: u64,
    pub(super) pingpong_threshold: u8,
    pub(super) backlog_ack_defer: bool,
    pub(super) quickack_route: bool,
    pub(super) header: u32,
    pub(super) overhead: u32,
    pub(super) hz: u64,
    pub(super) delack_min: u64,
    pub(super) delack_max: u64,
    pub(super) rto_min: u64,
    pub(super) rto_min_us: u64,
    /// What a round trip takes without any wait.
    pub(super) path_us: u64,
}

impl Env {
    pub(super) fn new(facts: &Facts, rules: Rules) -> Self {
        let rto_min = facts.rto_min();
        Self {
            rules,
            now_us: 0,
            now: 0,
            jiffy_us: u64::from(facts.jiffy_us.max(1)),
            pingpong_threshold: facts.pingpong_threshold.max(1),
            backlog_ack_defer: facts.backlog_ack_defer,
            quickack_route: facts.quickack_route,
            header: facts.header(),
            overhead: if rules.has(Rule::Truesize) { facts.overhead } else { 0 },
            hz: facts.hz(),
            delack_min: facts.delack_min(),
            // `tcp_delack_max`: an ACK leaves a tick before the peer's shortest retransmission timeout.
            delack_max: rto_min.max(2) - 1,
            rto_min,
            rto_min_us: 200_000,
            path_us: u64::from(facts.start.client.rtt_us),
        }
    }

    /// Microseconds in ticks, rounded up.
    pub(super) fn ticks(&self, us: u64) -> u64 {
        us.div_ceil(self.jiffy_us)
    }

    /// When a tick begins, in microseconds.
    pub(super) fn tick_us(&self, tick: u64) -> u64 {
        tick * self.jiffy_us
    }

    /// Moves the clock.
    pub(super) fn advance(&mut self, to_us: u64) {
        self.now_us = self.now_us.max(to_us);
        self.now = self.now_us / self.jiffy_us;
    }

    /// **The timer wheel.** The tick at which a timer set for `delay` ticks fires: never early, so in the tick after
    /// its own, and for delays of 63 ticks or more rounded up to the next multiple of eight.
    ///
    /// Kernel: `calc_index` in `kernel/time/timer.c`.
    pub(super) fn fires(&self, delay: u64) -> u64 {
        let due = self.now + delay;
        if delay < FIRST_LEVEL { due + 1 } else { (due / SECOND_LEVEL + 1) * SECOND_LEVEL }
    }
}
