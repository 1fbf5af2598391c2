//! `TCP_INFO`, decoded as far as the kernel filled it.
//!
//! `struct tcp_info` only ever grows at its end (232 bytes in Linux 5.4, 280 in
//! 6.18), so an older kernel returns a prefix. A field past that prefix is
//! `None` and never zero: a claim that "nothing was retransmitted" must not hold
//! because the kernel did not say.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

use serde::{Deserialize, Serialize};

use super::check;

/// Room for twice the fields known today; the kernel tells how much it used.
const BUFFER: usize = 512;

/// One line a field: name, type, offset in `struct tcp_info`
/// (include/uapi/linux/tcp.h), and how to take it out of its bytes.
macro_rules! tcp_info {
    ($($(#[$doc:meta])* $name:ident: $type:ident @ $offset:literal $(, $take:expr)?;)+) => {
        /// The state of one TCP socket as the kernel reports it.
        ///
        /// Counters of segments count packets on the wire, not buffers or
        /// writes. `None` is a field this kernel does not report.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::{io::Write, net::{TcpListener, TcpStream}};
        /// use smallwrites::sys::tcp_info::TcpInfo;
        ///
        /// let listener = TcpListener::bind("127.0.0.1:0")?;
        /// let mut client = TcpStream::connect(listener.local_addr()?)?;
        /// let before = TcpInfo::read(&client)?;
        /// client.write_all(b"one write")?;
        /// let after = TcpInfo::read(&client)?;
        /// assert_eq!(before.bytes_sent.map(|bytes| bytes + 9), after.bytes_sent);
        /// # Ok::<(), std::io::Error>(())
        /// ```
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct TcpInfo {
            /// How many bytes the kernel filled.
            pub length: usize,
            $($(#[$doc])* pub $name: Option<$type>,)+
        }

        impl TcpInfo {
            /// Decodes the bytes of a `struct tcp_info`, or of a prefix of one.
            ///
            /// Takes any length: the same bytes arrive as `INET_DIAG_INFO`.
            pub fn decode(bytes: &[u8]) -> TcpInfo {
                TcpInfo {
                    length: bytes.len(),
                    $($name: bytes
                        .get($offset..$offset + size_of::<$type>())
                        .and_then(|part| part.try_into().ok())
                        .map($type::from_ne_bytes)
                        $(.map($take))?,)+
                }
            }

            /// Where each whole-integer field lies, for the test against libc.
            #[cfg(test)]
            const OFFSETS: &[(&'static str, usize, usize)] =
                &[$((stringify!($name), $offset, size_of::<$type>())),+];
        }
    };
}

tcp_info! {
    /// The connection's state, `TCP_ESTABLISHED` being 1.
    state: u8 @ 0;
    /// The congestion state: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    ca_state: u8 @ 1;
    /// Unanswered retransmission timeouts in a row.
    retransmits: u8 @ 2;
    /// Unanswered window or keepalive probes.
    probes: u8 @ 3;
    /// Doublings of the timeout.
    backoff: u8 @ 4;
    /// Negotiated options: 1 timestamps, 2 SACK, 4 window scaling, 8 ECN,
    /// 16 ECN seen, 32 data in the SYN, 64 microsecond timestamps.
    options: u8 @ 5;
    /// The peer's window scale, a power of two.
    snd_wscale: u8 @ 6, first_nibble;
    /// Our window scale, a power of two.
    rcv_wscale: u8 @ 6, second_nibble;
    /// The retransmission timeout, microseconds.
    rto: u32 @ 8;
    /// The estimated interval between arrivals that delayed ACK works with,
    /// microseconds, in whole jiffies; 0 when no data ever arrived. It is not
    /// the delay of any one acknowledgement.
    ato: u32 @ 12;
    /// The largest segment we send, bytes.
    snd_mss: u32 @ 16;
    /// The estimate of the peer's segment size, bytes.
    rcv_mss: u32 @ 20;
    /// Segments in flight; for a listener the length of its accept queue.
    unacked: u32 @ 24;
    /// Segments selectively acknowledged; for a listener its backlog.
    sacked: u32 @ 28;
    /// Segments taken for lost.
    lost: u32 @ 32;
    /// Retransmitted segments in flight.
    retrans: u32 @ 36;
    /// Since data was last sent, milliseconds, in whole jiffies.
    last_data_sent: u32 @ 44;
    /// Since data last arrived, milliseconds, in whole jiffies.
    last_data_recv: u32 @ 52;
    /// Since an acknowledgement last arrived, milliseconds, in whole jiffies.
    last_ack_recv: u32 @ 56;
    /// The path MTU, bytes.
    pmtu: u32 @ 60;
    /// The limit of the receive window's growth, bytes.
    rcv_ssthresh: u32 @ 64;
    /// The smoothed round trip, microseconds.
    rtt: u32 @ 68;
    /// The mean deviation of the round trip, microseconds.
    rttvar: u32 @ 72;
    /// The slow start threshold, segments.
    snd_ssthresh: u32 @ 76;
    /// The congestion window, segments.
    snd_cwnd: u32 @ 80;
    /// The segment size we advertise, bytes.
    advmss: u32 @ 84;
    /// The reordering tolerated, segments.
    reordering: u32 @ 88;
    /// The receiver's estimate of the round trip, microseconds.
    rcv_rtt: u32 @ 92;
    /// The receive buffer's target for a round trip, bytes.
    rcv_space: u32 @ 96;
    /// Segments retransmitted since the connection began, a SYN included.
    total_retrans: u32 @ 100;
    /// The pacing rate, bytes a second; all ones when there is none.
    pacing_rate: u64 @ 104;
    /// The limit of the pacing rate, bytes a second; all ones when there is none.
    max_pacing_rate: u64 @ 112;
    /// Bytes of ours that the peer acknowledged (and 1 for the SYN).
    bytes_acked: u64 @ 120;
    /// Bytes of the peer that were received in order.
    bytes_received: u64 @ 128;
    /// Segments sent: data, bare acknowledgements, SYN, FIN, retransmissions.
    segs_out: u32 @ 136;
    /// Segments received.
    segs_in: u32 @ 140;
    /// Bytes written that have not left once, as
    /// [`not_sent`](crate::sys::options::not_sent).
    notsent_bytes: u32 @ 144;
    /// The least round trip seen, microseconds; all ones before the first.
    min_rtt: u32 @ 148;
    /// Segments received that carried data.
    data_segs_in: u32 @ 152;
    /// Segments sent that carried data, retransmissions included.
    data_segs_out: u32 @ 156;
    /// The delivery rate, bytes a second.
    delivery_rate: u64 @ 160;
    /// Time with data outstanding, microseconds.
    busy_time: u64 @ 168;
    /// Time limited by the peer's window, microseconds.
    rwnd_limited: u64 @ 176;
    /// Time limited by our send buffer, microseconds.
    sndbuf_limited: u64 @ 184;
    /// Segments delivered to the peer.
    delivered: u32 @ 192;
    /// Segments delivered with a congestion mark.
    delivered_ce: u32 @ 196;
    /// Bytes sent, retransmissions included.
    bytes_sent: u64 @ 200;
    /// Bytes retransmitted.
    bytes_retrans: u64 @ 208;
    /// Duplicates the peer reported.
    dsack_dups: u32 @ 216;
    /// Times reordering was seen.
    reord_seen: u32 @ 220;
    /// Segments received out of order.
    rcv_ooopack: u32 @ 224;
    /// The peer's window, bytes.
    snd_wnd: u32 @ 228;
    /// Our window, bytes. Since Linux 6.2.
    rcv_wnd: u32 @ 232;
    /// Times the flow was moved to another path. Since Linux 6.2.
    rehash: u32 @ 236;
}

impl TcpInfo {
    /// `getsockopt(TCP_INFO)` (tcp(7); `tcp_get_info` in the kernel).
    ///
    /// # Errors
    ///
    /// The kernel's own; `ENOPROTOOPT` or `EOPNOTSUPP` where the socket is not
    /// TCP.
    pub fn read(socket: impl AsFd) -> io::Result<TcpInfo> {
        let mut buffer = [0_u8; BUFFER];
        let mut length = BUFFER as libc::socklen_t;
        // SAFETY: the descriptor is borrowed for the whole call; the kernel
        // writes at most `length` bytes, which is the size of `buffer`.
        check(unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                buffer.as_mut_ptr().cast(),
                &raw mut length,
            )
        })?;
        Ok(TcpInfo::decode(&buffer[..(length as usize).min(BUFFER)]))
    }

    /// Segments sent that carried no data: bare acknowledgements, and the SYN,
    /// FIN or reset of this side. Over a difference of two readings inside an
    /// open connection that is the acknowledgements alone.
    pub fn bare_acks(&self) -> Option<u32> {
        Some(self.segs_out?.saturating_sub(self.data_segs_out?))
    }

    /// Segments sent that carried data for the first time.
    ///
    /// `total_retrans` counts a repeated SYN too, which carried none, so after
    /// a lost SYN this is too small by one.
    pub fn data_segments(&self) -> Option<u32> {
        Some(self.data_segs_out?.saturating_sub(self.total_retrans?))
    }
}

// The order of bit-fields in a byte follows the byte order of the machine.
fn first_nibble(byte: u8) -> u8 {
    if cfg!(target_endian = "little") { byte & 0xf } else { byte >> 4 }
}

fn second_nibble(byte: u8) -> u8 {
    if cfg!(target_endian = "little") { byte >> 4 } else { byte & 0xf }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        mem::offset_of,
        net::{TcpListener, TcpStream, UdpSocket},
    };

    use serde_json::Value;

    use super::*;

    /// Bytes that differ from their neighbours, so that a wrong offset shows.
    fn pattern() -> Vec<u8> {
        (0..BUFFER).map(|index| (index % 251) as u8 ^ 0x5a).collect()
    }

    fn fields(info: &TcpInfo) -> serde_json::Map<String, Value> {
        let Value::Object(mut fields) = serde_json::to_value(info).unwrap() else { panic!("TcpInfo is not an object") };
        fields.remove("length");
        fields
    }

    #[test]
    fn every_length_decodes_and_a_longer_prefix_changes_nothing_earlier() {
        let bytes = pattern();
        let mut shorter = fields(&TcpInfo::decode(&[]));
        assert!(shorter.values().all(Value::is_null));
        let mut appeared = 0;
        for length in 0..=BUFFER {
            let info = TcpInfo::decode(&bytes[..length]);
            assert_eq!(info.length, length);
            let longer = fields(&info);
            for (name, value) in &longer {
                if shorter[name].is_null() {
                    appeared += usize::from(!value.is_null());
                } else {
                    assert_eq!(&shorter[name], value, "{name} at length {length}");
                }
            }
            shorter = longer;
        }
        assert_eq!(appeared, TcpInfo::OFFSETS.len(), "each field appears exactly once");
    }

    #[test]
    fn a_field_appears_with_its_last_byte() {
        let bytes = pattern();
        for &(name, offset, size) in TcpInfo::OFFSETS {
            let end = offset + size;
            assert!(fields(&TcpInfo::decode(&bytes[..end - 1]))[name].is_null(), "{name}");
            assert!(!fields(&TcpInfo::decode(&bytes[..end]))[name].is_null(), "{name}");
        }
    }

    #[test]
    fn each_field_reads_its_own_bytes() {
        let info = TcpInfo::decode(&pattern());
        let bytes = pattern();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(info.unacked, Some(word(24)));
        assert_eq!(info.data_segs_out, Some(word(156)));
        assert_eq!(info.bytes_retrans, Some(u64::from_ne_bytes(bytes[208..216].try_into().unwrap())));
        let scales = first_nibble(bytes[6]) | second_nibble(bytes[6]) << 4;
        assert_eq!(info.snd_wscale, Some(first_nibble(bytes[6])));
        assert!(scales == bytes[6] || scales == bytes[6].rotate_left(4));
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn offsets_agree_with_libc() {
        macro_rules! libc_offsets {
            ($($ours:ident $theirs:ident),+ $(,)?) => {
                [$((stringify!($ours), offset_of!(libc::tcp_info, $theirs))),+]
            };
        }
        let theirs = libc_offsets![
            state tcpi_state, ca_state tcpi_ca_state, options tcpi_options, rto tcpi_rto,
            ato tcpi_ato, snd_mss tcpi_snd_mss, rcv_mss tcpi_rcv_mss, unacked tcpi_unacked,
            retrans tcpi_retrans, last_data_sent tcpi_last_data_sent,
            last_data_recv tcpi_last_data_recv, last_ack_recv tcpi_last_ack_recv,
            pmtu tcpi_pmtu, rtt tcpi_rtt, rttvar tcpi_rttvar, snd_cwnd tcpi_snd_cwnd,
            advmss tcpi_advmss, total_retrans tcpi_total_retrans,
            pacing_rate tcpi_pacing_rate, bytes_acked tcpi_bytes_acked,
            segs_out tcpi_segs_out, notsent_bytes tcpi_notsent_bytes,
            min_rtt tcpi_min_rtt, data_segs_in tcpi_data_segs_in,
            data_segs_out tcpi_data_segs_out, busy_time tcpi_busy_time,
            delivered tcpi_delivered, bytes_sent tcpi_bytes_sent,
            rcv_ooopack tcpi_rcv_ooopack, snd_wnd tcpi_snd_wnd, rcv_wnd tcpi_rcv_wnd,
            rehash tcpi_rehash,
        ];
        for (name, offset) in theirs {
            let ours = TcpInfo::OFFSETS.iter().find(|field| field.0 == name).unwrap();
            assert_eq!(ours.1, offset, "{name}");
        }
    }

    #[test]
    fn a_live_socket_counts_its_segments() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"hello").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
        let info = TcpInfo::read(&client).unwrap();
        assert_eq!(info.state, Some(1));
        assert_eq!(info.data_segments(), Some(1));
        assert_eq!(info.bytes_sent, Some(5));
        // The SYN and the ACK that ends the handshake.
        assert_eq!(info.bare_acks(), Some(2));
        assert!(info.length >= 232, "{}", info.length);
        assert_eq!(TcpInfo::read(&server).unwrap().data_segs_in, Some(1));
    }

    #[test]
    fn derived_counts_are_unknown_when_a_part_is() {
        let info = TcpInfo { segs_out: Some(7), ..TcpInfo::default() };
        assert_eq!(info.bare_acks(), None);
        assert_eq!(info.data_segments(), None);
        let info = TcpInfo { total_retrans: Some(2), data_segs_out: Some(1), ..info };
        assert_eq!(info.bare_acks(), Some(6));
        assert_eq!(info.data_segments(), Some(0), "saturates after a lost SYN");
    }

    #[test]
    fn a_socket_that_is_not_tcp_is_refused() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let errno = TcpInfo::read(&udp).unwrap_err().raw_os_error().unwrap();
        assert!([libc::ENOPROTOOPT, libc::EOPNOTSUPP].contains(&errno), "{errno}");
    }
}
