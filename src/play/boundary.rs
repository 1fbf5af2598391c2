//! What is looked at between two requests.

use super::microseconds;
use crate::exchange::{Sides, Sockets};
use crate::lab::Lab;
use crate::observation::{Listed, PendingTimer, Receiver, RelayRequest, Request, SocketState};
use crate::sys::tcp_info::TcpInfo;
use crate::sys::{clock, diag, options, options::SocketOption};
use socket2::Socket;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// `TCPI_OPT_TIMESTAMPS`.
const TIMESTAMPS: u8 = 1;

/// All sockets and the counters at one moment.
#[derive(Debug, Clone)]
pub(super) struct Boundary {
    pub(super) states: Sockets<SocketState>,
    receivers: Sockets<Receiver>,
    delayed_acks: Option<u64>,
    run_queue: Option<Duration>,
}

/// How long one request took, and what both sockets looked like when neither side could go on.
#[derive(Debug, Clone, Default)]
pub(super) struct Lap {
    pub(super) started: Option<Instant>,
    pub(super) latency: Duration,
    pub(super) blocked: Option<Sides<SocketState>>,
    pub(super) listed: Option<Sides<Listed>>,
    pub(super) longest_step: Option<Duration>,
}

impl Boundary {
    /// Only what costs next to nothing, for threads that run free: a long look between two requests would let the
    /// other thread's CPU fall asleep, and the next request would pay for waking it.
    pub(super) fn glance(client: impl AsFd, server: impl AsFd) -> Self {
        let receiver = |pingpong| Receiver { pingpong, ato_us: None };
        Self {
            states: Sockets::default(),
            receivers: Sides { client: receiver(pingpong(client)), server: receiver(pingpong(server)) }.into(),
            delayed_acks: None,
            run_queue: None,
        }
    }

    pub(super) fn look(lab: &Lab, sockets: &Sockets<&Socket>) -> Self {
        let delayed_acks = lab.counters_named(None, &["TcpExtDelayedACKs"]).and_then(|values| values[0]);
        let states = sockets.map(|name| state(sockets[name]));
        Self {
            states,
            receivers: states.map(|name| Receiver { pingpong: pingpong(sockets[name]), ato_us: states[name].ato_us }),
            delayed_acks,
            run_queue: clock::run_queue_delay().ok(),
        }
    }
}

/// The record of the request between two boundaries; writes and holds are filled in later.
pub(super) fn request(number: u32, before: &Boundary, after: &Boundary, lap: &Lap, origin: Instant) -> Request {
    let bare_acks = before.states.map(|name| {
        let count = SocketState::bare_acks;
        Some(count(after.states.get(name)?)?.saturating_sub(count(&before.states[name])?))
    });
    let segments = before.states.map(|name| data_segments(&before.states[name], after.states.get(name)?));
    let of_relay = before.receivers.relay.zip(segments.relay).zip(bare_acks.relay);
    Request {
        number,
        at_us: lap.started.map_or(0, |started| microseconds(started.saturating_duration_since(origin))),
        latency_us: microseconds(lap.latency),
        receivers: before.receivers.ends(),
        writes: Vec::new(),
        holds: Vec::new(),
        blocked: lap.blocked,
        listed: lap.listed,
        longest_step_us: lap.longest_step.map(microseconds),
        data_segments: segments.ends(),
        bare_acks: bare_acks.ends(),
        delayed_acks: difference(before.delayed_acks, after.delayed_acks),
        run_queue_us: before.run_queue.zip(after.run_queue).map(|(from, to)| microseconds(to.saturating_sub(from))),
        relay: of_relay.map(|((receivers, data_segments), bare_acks)| RelayRequest {
            receivers,
            data_segments,
            bare_acks,
        }),
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

/// What `TCP_INFO` and the sizes of its buffers tell of a socket now; unknown where they cannot be read.
pub(super) fn state(socket: impl AsFd) -> SocketState {
    let told = TcpInfo::read(&socket).map(|info| from_info(&info)).unwrap_or_default();
    let size = |option| options::get(&socket, option).ok().and_then(|bytes| u32::try_from(bytes).ok());
    SocketState {
        send_buffer: size(SocketOption::SendBuffer),
        receive_buffer: size(SocketOption::ReceiveBuffer),
        window_clamp: size(SocketOption::WindowClamp),
        ..told
    }
}

/// What one `sock_diag` dump lists of both sockets; `None` where the kernel has no such dump.
pub(super) fn listed(client: &Socket, server: &Socket) -> Option<Sides<Listed>> {
    let ends = |socket: &Socket| Some((socket.local_addr().ok()?.as_socket()?, socket.peer_addr().ok()?.as_socket()?));
    let wanted = Sides { client: ends(client)?, server: ends(server)? };
    let family = if wanted.client.0.is_ipv6() { diag::Family::V6 } else { diag::Family::V4 };
    let sockets = diag::sockets(family).ok()?;
    let find = |(local, remote)| {
        let socket = sockets.iter().find(|socket| socket.local == local && socket.remote == remote)?;
        let timer = match socket.timer {
            diag::Timer::None => PendingTimer::None,
            diag::Timer::Retransmit => PendingTimer::Retransmit,
            diag::Timer::Persist => PendingTimer::Persist,
            diag::Timer::DelayedAck => PendingTimer::DelayedAck,
            diag::Timer::KeepAlive | diag::Timer::TimeWait | diag::Timer::Other(_) => PendingTimer::Other,
        };
        Some(Listed {
            timer,
            timer_ms: socket.timer_ms,
            receive_queue: socket.receive_queue,
            send_queue: socket.send_queue,
            state: from_info(socket.info.as_ref()?),
        })
    };
    Some(Sides { client: find(wanted.client)?, server: find(wanted.server)? })
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
        window_scale: info.rcv_wscale,
        timestamps: info.options.map(|options| options & TIMESTAMPS != 0),
        send_buffer: None,
        receive_buffer: None,
        window_clamp: None,
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
