//! The facts of the running kernel, probed and never derived from a version number.
//!
//! Distributions carry backports, so a version says little about behaviour. What a probe could not find
//! out is `None`.

use crate::sys::{clock, counters, options, options::SocketOption, tcp_info::TcpInfo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::time::Duration;

/// `TCP_DELACK_MIN`: the shortest delayed ACK, HZ/25 (`include/net/tcp.h`).
pub const DELACK_MIN: Duration = Duration::from_millis(40);

/// `TCP_DELACK_MAX` and `TCP_RTO_MIN`: HZ/5 (`include/net/tcp.h`).
pub const DELACK_MAX: Duration = Duration::from_millis(200);

/// `TCP_MAX_QUICKACKS`: the most ACKs that a connection sends at once when it starts (`include/net/tcp.h`).
pub const MAX_QUICKACKS: u32 = 16;

/// Facts of the running kernel, as the calling thread's network namespace shows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// Release, as `uname -r` prints it: context, never a reason.
    pub release: String,
    /// One jiffy in microseconds: the resolution of `CLOCK_MONOTONIC_COARSE`.
    pub jiffy_us: u64,
    /// Bytes that the kernel fills of `struct tcp_info`.
    pub tcp_info_bytes: usize,
    /// `net.ipv4.tcp_pingpong_thresh`: replies in a row that put a receiver into pingpong mode. `None` where the
    /// sysctl does not exist: the number is then a constant of the kernel, 1 or 3.
    pub pingpong_threshold: Option<u32>,
    /// Longest delayed ACK that a socket reports through `TCP_DELACK_MAX_US`, microseconds; `None` without the option.
    pub delack_max_us: Option<u32>,
    /// `net.ipv4.tcp_rto_min_us`; a value below 40 ms shortens the delayed ACK with it.
    pub rto_min_us: Option<u64>,
    /// Whether a lone data segment left to itself is repeated by a tail loss probe (`net.ipv4.tcp_early_retrans` 3 or 4).
    pub loss_probe: Option<bool>,
    /// `net.ipv4.tcp_autocorking`.
    pub autocorking: Option<bool>,
    /// `net.ipv4.tcp_backlog_ack_defer`: ACKs decided while the socket is in use wait for its release.
    pub backlog_ack_defer: Option<bool>,
    /// Congestion control of a new socket.
    pub congestion_control: Option<String>,
    /// Every `net.ipv4.tcp_*` setting that the namespace shows.
    pub sysctls: BTreeMap<String, String>,
}

impl Kernel {
    /// Probes the running kernel from the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// Where not even a TCP socket or the clock can be had. A fact that is merely absent is `None`.
    ///
    /// ```
    /// let kernel = smallwrites::kernel::Kernel::probe()?;
    /// assert!(kernel.jiffy_us >= 1_000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn probe() -> io::Result<Self> {
        let socket = TcpListener::bind("127.0.0.1:0").or_else(|_| TcpListener::bind("[::1]:0"))?;
        let sysctls = counters::tcp_sysctls().unwrap_or_default();
        let number = |name: &str| sysctls.get(name).and_then(|text| text.trim().parse::<u64>().ok());
        Ok(Self {
            release: clock::kernel_release()?,
            jiffy_us: u64::try_from(clock::jiffy()?.as_micros()).unwrap_or(u64::MAX),
            tcp_info_bytes: TcpInfo::read(&socket)?.length,
            pingpong_threshold: number("net.ipv4.tcp_pingpong_thresh").and_then(|n| u32::try_from(n).ok()),
            delack_max_us: options::get(&socket, SocketOption::DelackMaxUs).ok().and_then(|us| u32::try_from(us).ok()),
            rto_min_us: number("net.ipv4.tcp_rto_min_us"),
            loss_probe: number("net.ipv4.tcp_early_retrans").map(|n| n == 3 || n == 4),
            autocorking: number("net.ipv4.tcp_autocorking").map(|n| n != 0),
            backlog_ack_defer: number("net.ipv4.tcp_backlog_ack_defer").map(|n| n != 0),
            congestion_control: options::congestion_control(&socket).ok(),
            sysctls,
        })
    }

    /// One jiffy: no timer of TCP is finer.
    #[must_use]
    pub fn jiffy(&self) -> Duration {
        Duration::from_micros(self.jiffy_us)
    }

    /// The shortest delayed ACK that this kernel can send: 40 ms, or less where a setting says so.
    ///
    /// Source: `tcp_send_delayed_ack`, `tcp_delack_max` (`net/ipv4/tcp_output.c`). A delayed ACK never waits longer than
    /// `TCP_DELACK_MAX_US`, nor than one jiffy below the smallest RTO where the kernel ties the two.
    #[must_use]
    pub fn delayed_ack(&self) -> Duration {
        let option = self.delack_max_us.map(|us| Duration::from_micros(u64::from(us)));
        let rto = self.rto_min_us.map(|us| Duration::from_micros(us).saturating_sub(self.jiffy()));
        [option, rto].into_iter().flatten().fold(DELACK_MIN, Duration::min)
    }

    /// What a measured delayed ACK cannot undercut: [`Kernel::delayed_ack`] less one jiffy, since a timer is set in whole
    /// jiffies and its first one has already begun.
    #[must_use]
    pub fn delayed_ack_floor(&self) -> Duration {
        self.delayed_ack().saturating_sub(self.jiffy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(delack_max_us: Option<u32>, rto_min_us: Option<u64>) -> Kernel {
        Kernel { jiffy_us: 4_000, delack_max_us, rto_min_us, ..Kernel::probe().unwrap() }
    }

    #[test]
    fn the_delayed_ack_is_40_ms_unless_a_setting_shortens_it() {
        assert_eq!(kernel(None, None).delayed_ack(), DELACK_MIN);
        assert_eq!(kernel(Some(200_000), Some(200_000)).delayed_ack(), DELACK_MIN);
        assert_eq!(kernel(Some(20_000), Some(200_000)).delayed_ack(), Duration::from_millis(20));
        assert_eq!(kernel(Some(200_000), Some(20_000)).delayed_ack(), Duration::from_millis(16));
        assert_eq!(kernel(None, None).delayed_ack_floor(), Duration::from_millis(36));
    }
}
