//! What is looked at between two requests.

use super::microseconds;
use crate::exchange::{Side, Sides};
use crate::lab::Lab;
use crate::observation::{Receiver, Request, SocketState};
use crate::sys::tcp_info::TcpInfo;
use crate::sys::{clock, options, options::SocketOption};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Both sockets and the counters at one moment.
#[derive(Debug, Clone)]
pub(super) struct Boundary {
    pub(super) states: Sides<SocketState>,
    receivers: Sides<Receiver>,
    delayed_acks: Option<u64>,
    run_queue: Option<Duration>,
}

/// How long one request took, and what both sockets looked like when neither side could go on.
#[derive(Debug, Clone)]
pub(super) struct Lap {
    pub(super) started: Instant,
    pub(super) latency: Duration,
    pub(super) blocked: Option<Sides<SocketState>>,
}

impl Boundary {
    /// Only what costs next to nothing, for threads that run free: a long look between two requests would let the
    /// other thread's CPU fall asleep, and the next request would pay for waking it.
    pub(super) fn glance(client: impl AsFd, server: impl AsFd) -> Self {
        let receiver = |pingpong| Receiver { pingpong, ato_us: None };
        Self {
            states: Sides::default(),
            receivers: Sides { client: receiver(pingpong(client)), server: receiver(pingpong(server)) },
            delayed_acks: None,
            run_queue: None,
        }
    }

    pub(super) fn look(lab: &Lab, client: impl AsFd, server: impl AsFd) -> Self {
        let ends = Sides { client: client.as_fd(), server: server.as_fd() };
        let delayed_acks = lab.counters_named(None, &["TcpExtDelayedACKs"]).and_then(|values| values[0]);
        let states = Sides::from_fn(|side| state(ends[side]));
        Self {
            states,
            receivers: Sides::from_fn(|side| Receiver { pingpong: pingpong(ends[side]), ato_us: states[side].ato_us }),
            delayed_acks,
            run_queue: clock::run_queue_delay().ok(),
        }
    }
}

/// The record of the request between two boundaries; writes and holds are filled in later.
pub(super) fn request(number: u32, before: &Boundary, after: &Boundary, lap: &Lap, origin: Instant) -> Request {
    let grown = |count: fn(&SocketState) -> Option<u32>, side: Side| {
        Some(count(&after.states[side])?.saturating_sub(count(&before.states[side])?))
    };
    Request {
        number,
        at_us: microseconds(lap.started.saturating_duration_since(origin)),
        latency_us: microseconds(lap.latency),
        receivers: before.receivers,
        writes: Vec::new(),
        holds: Vec::new(),
        blocked: lap.blocked,
        data_segments: Sides::from_fn(|side| data_segments(&before.states[side], &after.states[side])),
        bare_acks: Sides::from_fn(|side| grown(SocketState::bare_acks, side)),
        delayed_acks: difference(before.delayed_acks, after.delayed_acks),
        run_queue_us: before.run_queue.zip(after.run_queue).map(|(from, to)| microseconds(to.saturating_sub(from))),
    }
}

/// Data segments sent between two moments, retransmissions left out. Each count's own growth: a SYN that was sent again is
/// a retransmission and no data segment.
pub(super) fn data_segments(from: &SocketState, to: &SocketState) -> Option<u32> {
    let sent = to.data_segments_sent?.saturating_sub(from.data_segments_sent?);
    Some(sent.saturating_sub(to.retransmitted?.saturating_sub(from.retransmitted?)))
}

/// Whether a socket is in pingpong mode: `getsockopt(TCP_QUICKACK)` is its negation.
pub(super) fn pingpong(socket: impl AsFd) -> Option<bool> {
    options::get(socket, SocketOption::QuickAck).ok().map(|quick| quick == 0)
}

/// What `TCP_INFO` tells of a socket now; all unknown where it cannot be read.
pub(super) fn state(socket: impl AsFd) -> SocketState {
    TcpInfo::read(socket).map(|info| from_info(&info)).unwrap_or_default()
}

pub(super) fn from_info(info: &TcpInfo) -> SocketState {
    SocketState {
        mss: info.snd_mss,
        advertised_mss: info.advmss,
        receive_mss: info.rcv_mss,
        cwnd: info.snd_cwnd,
        rto_us: info.rto,
        ato_us: info.ato,
        rtt_us: info.rtt,
        min_rtt_us: info.min_rtt,
        unacked: info.unacked,
        not_sent: info.notsent_bytes,
        data_segments_sent: info.data_segs_out,
        segments_sent: info.segs_out,
        retransmitted: info.total_retrans,
        bytes_sent: info.bytes_sent,
        bytes_retransmitted: info.bytes_retrans,
        bytes_received: info.bytes_received,
        receive_ssthresh: info.rcv_ssthresh,
        receive_window: info.rcv_wnd,
        send_window: info.snd_wnd,
    }
}

fn difference(before: Option<u64>, after: Option<u64>) -> Option<i64> {
    Some(after? as i64 - before? as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syn_sent_again_takes_no_data_segment_away() {
        let state = |data, again| SocketState {
            data_segments_sent: Some(data),
            retransmitted: Some(again),
            ..SocketState::default()
        };
        assert_eq!(data_segments(&state(0, 1), &state(4, 1)), Some(4));
        assert_eq!(data_segments(&state(0, 1), &state(5, 2)), Some(4));
        assert_eq!(data_segments(&SocketState::default(), &state(5, 2)), None);
    }
}
