//! Facts of the running kernel that the rules need: given as data, never read here.

use crate::exchange::{Exchange, Side, Sides, Socket, Sockets};
use serde::{Deserialize, Serialize};

/// Bytes of the timestamp option in every segment, padding included (RFC 7323 section 3.2).
const TIMESTAMP_OPTION: u32 = 12;
/// Bytes of a TCP header without options.
const TCP_HEADER: u32 = 20;
/// `TCP_MSS_DEFAULT`: the segment size assumed while nothing is known (RFC 9293 section 3.7.1).
pub(super) const MSS_DEFAULT: u32 = 536;
/// The largest segment payload on Linux's loopback device, whose MTU is 65,536 bytes, with timestamps.
const LOOPBACK_MSS: u32 = 65_483;

/// What the model must know of the kernel and of a fresh connection before the first request.
///
/// The default describes a connection over the loopback device of Linux 6.18 (1,000 bytes given to
/// `TCP_MAXSEG` on both sides, so 988 bytes of payload beside timestamps), with 250 timer ticks a second.
/// Where a kernel is at hand, read these values from it instead: `TCP_INFO` just after `accept` has nearly all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// One timer tick (a *jiffy*), in microseconds: 4,000 where the kernel was built with `HZ=250`.
    pub jiffy_us: u32,
    /// `net.ipv4.tcp_pingpong_thresh`: replies that make a connection interactive.
    pub pingpong_threshold: u8,
    /// `net.ipv4.tcp_backlog_ack_defer`: whether ACKs decided inside a system call wait for its end.
    pub backlog_ack_defer: bool,
    /// Whether the route carries `quickack 1`, so that every segment is acknowledged at once.
    pub quickack_route: bool,
    /// Whether segments carry the timestamp option.
    pub timestamps: bool,
    /// Kernel memory that a segment costs beyond its payload (its *truesize* less its length), in bytes.
    pub overhead: u32,
    /// Each socket's own figures. A relay's sockets, where these are missing, begin as an end on their side of a
    /// connection does.
    pub start: Sockets<Start>,
}

/// One socket's figures when the first request begins, most of them fields of `TCP_INFO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Largest payload that this side sends in one segment now (`tcpi_snd_mss`).
    pub mss: u32,
    /// What `mss` grows to once the peer has offered a window of twice that size.
    pub full_mss: u32,
    /// Largest payload that this side announced it takes (`tcpi_advmss`).
    pub advmss: u32,
    /// This side's estimate of the peer's segment size (`tcpi_rcv_mss`).
    pub rcv_mss: u32,
    /// The window that this side is willing to offer for now (`tcpi_rcv_ssthresh`).
    pub rcv_ssthresh: u32,
    /// The window that this side offered last (`tcpi_rcv_wnd`).
    pub rcv_wnd: u32,
    /// The window that the peer offered last (`tcpi_snd_wnd`).
    pub snd_wnd: u32,
    /// The most that this side will ever offer (`TCP_WINDOW_CLAMP`).
    pub window_clamp: u32,
    /// The receive buffer (`SO_RCVBUF`).
    pub rcvbuf: u32,
    /// The send buffer (`SO_SNDBUF`), bytes.
    pub send_buffer: u32,
    /// Part of the receive buffer that counts as window, in 256ths.
    pub scaling_ratio: u32,
    /// The shift that this side applies to the windows it offers (RFC 7323 section 2).
    pub wscale: u8,
    /// Congestion window in segments (`tcpi_snd_cwnd`).
    pub cwnd: u32,
    /// Retransmission timeout in microseconds (`tcpi_rto`).
    pub rto_us: u32,
    /// Smoothed round-trip time in microseconds (`tcpi_rtt`).
    pub rtt_us: u32,
    /// Its mean deviation in microseconds (`tcpi_rttvar`).
    pub rttvar_us: u32,
}

impl Default for Facts {
    fn default() -> Self {
        Self::loopback(Some(1000))
    }
}

impl Facts {
    /// A connection over Linux 6.18's loopback device with the default buffers and reno, whose two sides were
    /// given `maxseg` with `TCP_MAXSEG` before the handshake; `None` leaves loopback's own segment size.
    #[must_use]
    pub fn loopback(maxseg: Option<u32>) -> Self {
        let payload = maxseg.map_or(LOOPBACK_MSS, |bytes| bytes.saturating_sub(TIMESTAMP_OPTION).max(1));
        let payload = payload.min(LOOPBACK_MSS);
        Self {
            jiffy_us: 4000,
            pingpong_threshold: 1,
            backlog_ack_defer: true,
            quickack_route: false,
            timestamps: true,
            overhead: 832,
            start: loopback_start(payload).into(),
        }
    }

    /// What [`loopback`](Self::loopback) says for the segment size that the exchange itself pins with `mss=N`.
    #[must_use]
    pub fn loopback_for(exchange: &Exchange) -> Self {
        let [client, server] =
            Side::BOTH.map(|side| exchange.script(side).mss().and_then(|bytes| u32::try_from(bytes).ok()));
        if exchange.relay.is_none() {
            return Self::loopback([client, server].into_iter().flatten().min());
        }
        // Each end agrees with the relay only.
        let (front, back) = (Self::loopback(client), Self::loopback(server).start);
        let relay = Sides { client: front.start.server, server: back.client };
        Self { start: Sockets { client: front.start.client, relay: Some(relay), server: back.server }, ..front }
    }

    /// The same where segments carry no timestamps: there is more room for payload.
    #[must_use]
    pub fn without_timestamps(mut self) -> Self {
        if std::mem::take(&mut self.timestamps) {
            self.start = self.start.map(|name| {
                let start = self.start[name];
                Start { full_mss: start.full_mss + TIMESTAMP_OPTION, advmss: start.advmss + TIMESTAMP_OPTION, ..start }
            });
        }
        self
    }

    /// The figures of one socket.
    pub(super) fn start_of(&self, socket: Socket) -> &Start {
        self.start.get(socket).unwrap_or(&self.start[socket.side().into()])
    }

    /// Bytes of a segment's TCP header, options included.
    pub(super) fn header(&self) -> u32 {
        TCP_HEADER + if self.timestamps { TIMESTAMP_OPTION } else { 0 }
    }

    /// Ticks a second (`HZ`).
    pub(super) fn hz(&self) -> u64 {
        1_000_000 / u64::from(self.jiffy_us.max(1))
    }

    /// `TCP_ATO_MIN` and `TCP_DELACK_MIN`, the 40 ms of a delayed ACK, in ticks.
    pub(super) fn delack_min(&self) -> u64 {
        if self.hz() >= 100 { self.hz() / 25 } else { 4 }
    }

    /// `TCP_RTO_MIN` and `TCP_DELACK_MAX`, 200 ms, in ticks.
    pub(super) fn rto_min(&self) -> u64 {
        self.hz() / 5
    }
}

/// The figures that Linux 6.18 arrives at on loopback, by `tcp_select_initial_window` and `tcp_init_buffer_space`.
fn loopback_start(payload: u32) -> Sides<Start> {
    const RCVBUF: u32 = 131_072;
    const SCALING_RATIO: u32 = 128;
    const WSCALE: u8 = 10;
    const HEADERS: u32 = 576;
    const BUFFER_HEAD: u32 = 256;
    const SPACE: u32 = RCVBUF / 256 * SCALING_RATIO;
    let clamp = if 2 * payload < SPACE { (2 * payload).max(SPACE - payload) } else { SPACE };
    // The SYN and the SYN-ACK offer whole segments, at most what fits the unscaled field.
    let offered = 65_535 / payload * payload;
    // A client's own SYN went out before it knew that timestamps would be used.
    let client_ssthresh = clamp.min(if payload == LOOPBACK_MSS { payload + TIMESTAMP_OPTION } else { offered });
    let client_wnd = client_ssthresh.max(offered).next_multiple_of(1 << WSCALE);
    // Twice the first congestion window, each segment with its headers in memory that comes in powers of two
    // (`tcp_sndbuf_expand`).
    let send_buffer = 20 * ((payload + TIMESTAMP_OPTION + HEADERS).next_power_of_two() + BUFFER_HEAD);
    Sides::from_fn(|side| {
        let (rcv_ssthresh, rcv_wnd, snd_wnd) = match side {
            Side::Client => (client_ssthresh, client_wnd, offered),
            Side::Server => (clamp.min(offered), offered, client_wnd),
        };
        Start {
            mss: payload.min(snd_wnd / 2),
            full_mss: payload,
            advmss: payload,
            rcv_mss: payload.min(MSS_DEFAULT),
            rcv_ssthresh,
            rcv_wnd,
            snd_wnd,
            window_clamp: clamp,
            rcvbuf: RCVBUF,
            send_buffer,
            scaling_ratio: SCALING_RATIO,
            wscale: WSCALE,
            cwnd: 10,
            rto_us: 204_000,
            rtt_us: 10,
            rttvar_us: 5,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_timestamps_a_segment_has_room_for_twelve_bytes_more() {
        let facts = Facts::loopback(Some(1000)).without_timestamps();
        assert_eq!((facts.start.client.full_mss, facts.start.server.advmss, facts.header()), (1000, 1000, 20));
        assert_eq!(facts.clone().without_timestamps(), facts);
    }

    #[test]
    fn loopback_gives_what_tcp_info_said_after_accept() {
        for (maxseg, mss, wnd, clamp, ssthresh, sndbuf) in [
            (None, (32741, 32768), (65536, 65483), 65536, (65495, 65483), 2_626_560),
            (Some(100), (88, 88), (65536, 65472), 65448, (65448, 65448), 25_600),
            (Some(536), (524, 524), (65536, 65500), 65012, (65012, 65012), 46_080),
            (Some(1000), (988, 988), (65536, 65208), 64548, (64548, 64548), 46_080),
            (Some(1448), (1436, 1436), (65536, 64620), 64100, (64100, 64100), 46_080),
            (Some(8000), (7988, 7988), (64512, 63904), 57548, (57548, 57548), 332_800),
            (Some(30000), (29988, 29988), (60416, 59976), 59976, (59976, 59976), 660_480),
        ] {
            let Sides { client, server } = Facts::loopback(maxseg).start.ends();
            assert_eq!((client.mss, server.mss), mss, "{maxseg:?}");
            assert_eq!((client.rcv_wnd, server.rcv_wnd), wnd, "{maxseg:?}");
            assert_eq!((server.snd_wnd, client.snd_wnd), wnd, "{maxseg:?}");
            assert_eq!((client.window_clamp, server.window_clamp), (clamp, clamp), "{maxseg:?}");
            assert_eq!((client.rcv_ssthresh, server.rcv_ssthresh), ssthresh, "{maxseg:?}");
            assert_eq!((client.send_buffer, server.send_buffer), (sndbuf, sndbuf), "{maxseg:?}");
        }
    }
}
