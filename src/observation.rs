//! What was seen while an exchange was played: plain data with the raw samples, nothing judged.
//!
//! Everything here is serialisable and carries a [`SCHEMA`] version. A field that the kernel or the place
//! could not tell is `None`, never 0.

mod capture;
mod hold;
mod path;
mod pcapng;
mod stats;
mod story;

pub use capture::{Bytes, Flags, Frame, Frames, Silence, shape, silences};
pub use hold::{Hold, Release, Rule};
pub use path::Direction;
pub use stats::{Summary, milliseconds};
pub use story::{Story, release};

#[cfg(test)]
pub(crate) use story::tests as story_tests;

pub use crate::exchange::Socket;
use crate::exchange::{Exchange, Side, Sides, Sockets};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Version of the written form of an [`Observation`].
pub const SCHEMA: u32 = 1;

/// What was seen while one exchange was played.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Version of this form.
    pub schema: u32,
    /// What was played.
    pub exchange: Exchange,
    /// Who ran when.
    pub order: Order,
    /// Whether each request had a connection of its own.
    pub fresh: bool,
    /// Where it was played.
    pub environment: Environment,
    /// One entry per request, in order.
    pub requests: Vec<Request>,
    /// Both sockets, before the first request and after the last; the last connection's where each request had its own.
    pub sockets: Sides<SocketSeen>,
    /// The relay's two sockets, towards the client and towards the server.
    pub relay: Option<Sides<SocketSeen>>,
    /// Microseconds from `connect` to the accepted socket, one per connection.
    pub opened_us: Vec<u64>,
    /// Changes of the namespace's counters over the whole play, by nstat's names; `None` where others share them.
    pub counters: Option<BTreeMap<String, i64>>,
    /// CPU time of the playing threads, microseconds.
    pub cpu_us: Option<u64>,
    /// Time from the first request's start to the last one's end, microseconds.
    pub elapsed_us: u64,
    /// What a wire did to the frames that each side sent; `None` on loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<Sides<Direction>>,
    /// Every segment; `None` where no capture was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<Frames>,
}

/// Who runs when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// One thread owns both sockets and runs each side until it blocks.
    #[default]
    Ordered,
    /// Two threads that hand over when the next read needs bytes not yet written, or a write finds no room.
    Turns,
    /// Two threads, as real programs run.
    Free,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ordered => "ordered",
            Self::Turns => "turns",
            Self::Free => "free",
        })
    }
}

/// Where an exchange was played.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Environment {
    /// "private namespace", "shared loopback" or "wire".
    pub place: String,
    /// "IPv4" or "IPv6".
    pub family: String,
    /// Kernel release.
    pub kernel: String,
    /// One jiffy in microseconds.
    pub jiffy_us: u64,
    /// The shortest delayed ACK that the kernel sends under its settings, microseconds.
    pub delayed_ack_us: u64,
    /// Replies in a row that put a receiver into pingpong mode.
    pub pingpong_threshold: Option<u32>,
    /// What was pinned for the run and to what, sysctls by name.
    pub pinned: BTreeMap<String, String>,
}

/// One request as it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The first is 1.
    pub number: u32,
    /// When it began, microseconds from the start of the first.
    #[serde(default)]
    pub at_us: u64,
    /// From the client's first step that is no pause to the end of its script, microseconds.
    pub latency_us: u64,
    /// Both receivers just before it.
    pub receivers: Sides<Receiver>,
    /// Every write, in the order in which they returned.
    pub writes: Vec<Write>,
    /// Every time that bytes stayed in a socket after a write returned.
    pub holds: Vec<Hold>,
    /// Both sockets at the first moment when neither side could go on.
    pub blocked: Option<Sides<SocketState>>,
    /// What `sock_diag` listed of both sockets at that moment, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<Sides<Listed>>,
    /// Data segments that each side sent, retransmissions left out.
    pub data_segments: Sides<Option<u32>>,
    /// Segments without data that each side sent.
    pub bare_acks: Sides<Option<u32>>,
    /// Delayed-ACK timers that fired in the namespace.
    pub delayed_acks: Option<i64>,
    /// How long the playing thread waited for a CPU, microseconds.
    pub run_queue_us: Option<u64>,
    /// The longest time that one step took, or passed before the next one while nobody waited, microseconds; `None` where
    /// two threads played.
    #[serde(default)]
    pub longest_step_us: Option<u64>,
    /// The same of a relay's two sockets, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayRequest>,
}

/// What one request was at a relay's two sockets, towards the client and towards the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RelayRequest {
    /// Both receivers just before it.
    pub receivers: Sides<Receiver>,
    /// Data segments that each socket sent, retransmissions left out.
    pub data_segments: Sides<Option<u32>>,
    /// Segments without data that each socket sent.
    pub bare_acks: Sides<Option<u32>>,
}

/// A socket's state as a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Receiver {
    /// Whether it is in pingpong mode (delays its ACKs): `getsockopt(TCP_QUICKACK)` is 0.
    pub pingpong: Option<bool>,
    /// The delayed-ACK timeout that it would use, microseconds; 0 before any data came.
    pub ato_us: Option<u32>,
}

/// One write as it returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// When the call returned, microseconds from the start of the first request.
    #[serde(default)]
    pub at_us: i64,
    /// Who wrote.
    pub socket: Socket,
    /// Bytes written.
    pub bytes: u32,
    /// Bytes that the kernel had not sent when the call returned (`SIOCOUTQNSD`).
    pub held: Option<u32>,
    /// Data segments that the socket has sent since the connection opened.
    pub data_segments: Option<u32>,
    /// Milliseconds since the socket last received data (`tcpi_last_data_recv`, which counts jiffies).
    pub since_received_ms: Option<u32>,
}

/// A socket before the first request and after the last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SocketSeen {
    /// `TCP_NODELAY` as the kernel reported it on the open connection, before any option was set on it.
    pub nodelay: Option<bool>,
    /// `TCP_CORK` likewise.
    pub cork: Option<bool>,
    /// `TCP_QUICKACK` likewise: false means pingpong mode.
    pub quickack: Option<bool>,
    /// Before the first request.
    pub before: SocketState,
    /// After the last request.
    pub after: SocketState,
    /// Data segments sent over all requests and connections, retransmissions left out.
    pub data_segments: Option<u32>,
    /// Segments without data sent over all requests and connections.
    pub bare_acks: Option<u32>,
    /// Segments sent again.
    pub retransmitted: Option<u32>,
}

/// What `TCP_INFO` tells of a socket at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SocketState {
    /// Largest segment that it sends now, bytes (`tcpi_snd_mss`).
    pub mss: Option<u32>,
    /// Largest segment that it may be sent, bytes (`tcpi_advmss`).
    pub advertised_mss: Option<u32>,
    /// Its estimate of the peer's segment size, bytes (`tcpi_rcv_mss`).
    pub receive_mss: Option<u32>,
    /// Congestion window, segments.
    pub cwnd: Option<u32>,
    /// Retransmission timeout, microseconds.
    pub rto_us: Option<u32>,
    /// Delayed-ACK timeout, microseconds.
    pub ato_us: Option<u32>,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: Option<u32>,
    /// Smallest round-trip time, microseconds.
    pub min_rtt_us: Option<u32>,
    /// Segments in flight.
    pub unacked: Option<u32>,
    /// Bytes written and never sent (`tcpi_notsent_bytes`).
    pub not_sent: Option<u32>,
    /// Segments with data sent, retransmissions included (`tcpi_data_segs_out`).
    pub data_segments_sent: Option<u32>,
    /// All segments sent (`tcpi_segs_out`).
    pub segments_sent: Option<u32>,
    /// Segments sent again (`tcpi_total_retrans`).
    pub retransmitted: Option<u32>,
    /// Payload bytes sent, retransmissions included (`tcpi_bytes_sent`).
    pub bytes_sent: Option<u64>,
    /// Payload bytes sent again (`tcpi_bytes_retrans`).
    pub bytes_retransmitted: Option<u64>,
    /// Payload bytes received (`tcpi_bytes_received`).
    pub bytes_received: Option<u64>,
    /// The receiver's window target, bytes (`tcpi_rcv_ssthresh`).
    pub receive_ssthresh: Option<u32>,
    /// The window that it offers, bytes (`tcpi_rcv_wnd`).
    pub receive_window: Option<u32>,
    /// The window that the peer offers, bytes (`tcpi_snd_wnd`).
    pub send_window: Option<u32>,
    /// The send buffer, bytes (`SO_SNDBUF`).
    #[serde(default)]
    pub send_buffer: Option<u32>,
    /// The receive buffer, bytes (`SO_RCVBUF`).
    #[serde(default)]
    pub receive_buffer: Option<u32>,
    /// The most that it will offer as its window, bytes (`TCP_WINDOW_CLAMP`).
    #[serde(default)]
    pub window_clamp: Option<u32>,
    /// The shift that it applies to the windows it offers (`tcpi_rcv_wscale`).
    #[serde(default)]
    pub window_scale: Option<u8>,
    /// Whether its segments carry timestamps (`tcpi_options`).
    #[serde(default)]
    pub timestamps: Option<bool>,
}

/// A socket as `sock_diag` lists it: what `ss -tnoi` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The pending timer.
    pub timer: PendingTimer,
    /// Until it fires, milliseconds.
    pub timer_ms: u32,
    /// Bytes received and not read.
    pub receive_queue: u32,
    /// Bytes written and not acknowledged, sent or not.
    pub send_queue: u32,
    /// The `TCP_INFO` that came with it.
    pub state: SocketState,
}

/// The timer that a socket has pending, as `sock_diag` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PendingTimer {
    /// None, or one that this kernel does not list.
    None,
    /// Retransmission or tail loss probe.
    Retransmit,
    /// The window probe, which also ends a cork.
    Persist,
    /// A delayed ACK; kernels before 7.1 list it as none.
    DelayedAck,
    /// Any other.
    Other,
}

impl SocketState {
    /// Segments with data sent, retransmissions left out.
    #[must_use]
    pub fn data_segments(&self) -> Option<u32> {
        Some(self.data_segments_sent?.saturating_sub(self.retransmitted?))
    }

    /// Segments without data sent; the handshake's own count too.
    #[must_use]
    pub fn bare_acks(&self) -> Option<u32> {
        Some(self.segments_sent?.saturating_sub(self.data_segments_sent?))
    }
}

impl Request {
    /// The sockets that it was played on.
    #[must_use]
    pub fn sockets(&self) -> Sockets<()> {
        Sockets { client: (), server: (), relay: self.relay.map(|_| Sides::default()) }
    }

    /// Whether a socket was in pingpong mode before the request.
    #[must_use]
    pub fn pingpong_of(&self, socket: Socket) -> Option<bool> {
        let relay = self.relay.map(|relay| relay.receivers);
        Sockets { client: self.receivers.client, server: self.receivers.server, relay }.get(socket)?.pingpong
    }

    /// Data segments that a socket sent, retransmissions left out.
    #[must_use]
    pub fn data_segments_of(&self, socket: Socket) -> Option<u32> {
        let Sides { client, server } = self.data_segments;
        *Sockets { client, server, relay: self.relay.map(|relay| relay.data_segments) }.get(socket)?
    }

    /// Segments without data that a socket sent.
    #[must_use]
    pub fn bare_acks_of(&self, socket: Socket) -> Option<u32> {
        let Sides { client, server } = self.bare_acks;
        *Sockets { client, server, relay: self.relay.map(|relay| relay.bare_acks) }.get(socket)?
    }
}

impl Observation {
    /// What was seen of a socket; `None` for one that the exchange does not have.
    #[must_use]
    pub fn socket(&self, socket: Socket) -> Option<&SocketSeen> {
        match socket {
            Socket::Client => Some(&self.sockets.client),
            Socket::Server => Some(&self.sockets.server),
            Socket::RelayTowardsClient => self.relay.as_ref().map(|relay| &relay.client),
            Socket::RelayTowardsServer => self.relay.as_ref().map(|relay| &relay.server),
        }
    }

    /// The latency of every request, microseconds, in order.
    #[must_use]
    pub fn latencies_us(&self) -> Vec<u64> {
        self.requests.iter().map(|request| request.latency_us).collect()
    }

    /// Change of one of the namespace's counters; 0 where the counter exists and stood still.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<i64> {
        self.counters.as_ref()?.get(name).copied()
    }

    /// The most bytes that each side's socket held at the end of a write.
    #[must_use]
    pub fn most_held(&self, side: Side) -> u32 {
        let writes = self.requests.iter().flat_map(|request| &request.writes);
        writes.filter(|write| write.socket == side.into()).filter_map(|write| write.held).max().unwrap_or(0)
    }
}
