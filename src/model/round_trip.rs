//! Round-trip times and the retransmission timeout, which also times the persist timer.

use super::env::Env;
use super::facts::Start;

/// A sender's round-trip estimate. Scaled as in the kernel: `srtt` by 8, `mdev` by 4, in microseconds.
#[derive(Debug)]
pub(super) struct RoundTrip {
    srtt: u64,
    mdev: u64,
    mdev_max: u64,
    rttvar: u64,
    /// The variance may fall once data up to here is acknowledged.
    seq: u64,
    /// Retransmission timeout in ticks.
    pub(super) rto: u64,
}

impl RoundTrip {
    pub(super) fn new(start: &Start, env: &Env) -> Self {
        Self {
            srtt: u64::from(start.rtt_us) * 8,
            mdev: u64::from(start.rttvar_us) * 4,
            mdev_max: env.rto_min_us,
            rttvar: env.rto_min_us,
            seq: 1,
            rto: env.ticks(u64::from(start.rto_us)),
        }
    }

    /// The smoothed round-trip time in microseconds.
    pub(super) fn srtt_us(&self) -> u64 {
        self.srtt / 8
    }

    /// **Retransmission timeout.** Every acknowledged piece is a sample: a delayed ACK makes the path look 40 ms
    /// long. The variance counts as at least 200 ms, so the timeout stays above that.
    ///
    /// Kernel: `tcp_rtt_estimator`, `tcp_set_rto`. RFC 6298 section 2 (whose minimum is one second).
    pub(super) fn sample(&mut self, rtt_us: u64, snd_una: u64, snd_nxt: u64, env: &Env) {
        let smoothed = self.srtt / 8;
        let late = rtt_us >= smoothed;
        let error = rtt_us.abs_diff(smoothed);
        self.srtt = if late { self.srtt + error } else { self.srtt - error }.max(1);
        // A falling round-trip time moves the deviation eight times slower, so that it doesn't raise the timeout.
        let deviation = self.mdev / 4;
        self.mdev = match (error >= deviation, late) {
            (true, true) => self.mdev + (error - deviation),
            (true, false) => self.mdev + (error - deviation) / 8,
            (false, _) => self.mdev - (deviation - error),
        };
        self.mdev_max = self.mdev_max.max(self.mdev);
        self.rttvar = self.rttvar.max(self.mdev_max);
        if snd_una > self.seq {
            self.rttvar -= self.rttvar.saturating_sub(self.mdev_max) / 4;
            self.seq = snd_nxt;
            self.mdev_max = env.rto_min_us;
        }
        self.rto = env.ticks(self.srtt / 8 + self.rttvar);
    }
}
