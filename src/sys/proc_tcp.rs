//! Rows of `/proc/thread-self/net/tcp` and `tcp6`.
//!
//! The last columns of a row are the only view of the delayed-ACK state that
//! needs neither privileges nor BPF: the ACK timeout, how many acknowledgements
//! will still be sent at once, and whether the socket is in interactive
//! ("ping-pong") mode (`get_tcp4_sock` in net/ipv4/tcp_ipv4.c).

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use super::{context, malformed};

/// One socket as `/proc` shows it. Ticks are `USER_HZ`: 10 ms each,
/// whatever the kernel's own HZ is.
///
/// The `Option` fields are `None` for states that have no such column
/// (`TIME_WAIT`, half-open).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcSocket {
    /// The address of this end.
    pub local: SocketAddr,
    /// The address of the other end, unspecified for a listener.
    pub remote: SocketAddr,
    /// The state, `TCP_ESTABLISHED` being 1 and `TCP_LISTEN` 10.
    pub state: u8,
    /// Bytes written and not acknowledged.
    pub tx_queue: u32,
    /// Bytes received and not read; for a listener its accept queue.
    pub rx_queue: u32,
    /// The pending timer: 0 none, 1 retransmission, 2 keepalive, 3 time-wait,
    /// 4 zero-window probe. The delayed-ACK timer is not among them.
    pub timer: u8,
    /// Until that timer expires, ticks.
    pub timer_ticks: u64,
    /// Unanswered retransmissions.
    pub retransmits: u32,
    /// The retransmission timeout, ticks.
    pub rto_ticks: Option<u64>,
    /// The delayed-ACK estimator's timeout, ticks; 0 before any data arrived.
    pub ato_ticks: Option<u64>,
    /// How many more segments will be acknowledged at once.
    pub quick: Option<u32>,
    /// Whether the socket is in interactive mode, which delays
    /// acknowledgements.
    pub pingpong: Option<bool>,
    /// The congestion window, segments.
    pub cwnd: Option<u64>,
    /// The slow start threshold, segments. `None` during the first slow start,
    /// when there is none. For a listener the length limit of its Fast Open
    /// queue.
    pub ssthresh: Option<u64>,
}

/// Every TCP socket of this thread's network namespace, IPv4 before IPv6.
///
/// # Errors
///
/// Where the IPv4 file cannot be read or a row is not understood. A kernel
/// without IPv6 is no error.
///
/// # Examples
///
/// ```
/// use smallwrites::sys::proc_tcp::proc_sockets;
///
/// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// let local = listener.local_addr()?;
/// assert!(proc_sockets()?.iter().any(|socket| socket.local == local));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn proc_sockets() -> io::Result<Vec<ProcSocket>> {
    let mut sockets = Vec::new();
    for (path, optional) in [("/proc/thread-self/net/tcp", false), ("/proc/thread-self/net/tcp6", true)] {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if optional && error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(context(error, format!("read {path}"))),
        };
        for row in text.lines().skip(1) {
            sockets.push(parse(row).ok_or_else(|| malformed(format!("read {path}: odd row {row:?}")))?);
        }
    }
    Ok(sockets)
}

fn parse(row: &str) -> Option<ProcSocket> {
    let fields: Vec<&str> = row.split_ascii_whitespace().collect();
    // sl local remote st tx:rx tr:when retrnsmt uid timeout inode ref pointer
    // rto ato quick|pingpong cwnd ssthresh
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (tx_queue, rx_queue) = fields.get(4)?.split_once(':')?;
    let (timer, timer_ticks) = fields.get(5)?.split_once(':')?;
    let decimal = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let acks = decimal(14);
    Some(ProcSocket {
        local: address(fields.get(1)?)?,
        remote: address(fields.get(2)?)?,
        state: hex(fields.get(3)?)?.try_into().ok()?,
        tx_queue: hex(tx_queue)?.try_into().ok()?,
        rx_queue: hex(rx_queue)?.try_into().ok()?,
        timer: hex(timer)?.try_into().ok()?,
        timer_ticks: hex(timer_ticks)?,
        retransmits: hex(fields.get(6)?)?.try_into().ok()?,
        rto_ticks: decimal(12),
        ato_ticks: decimal(13),
        quick: acks.and_then(|acks| (acks >> 1).try_into().ok()),
        pingpong: acks.map(|acks| acks & 1 == 1),
        cwnd: decimal(15),
        // -1 stands for "none", and does not parse.
        ssthresh: decimal(16),
    })
}

/// `0100007F:1F90`: the address as words of this machine's byte order, the
/// port as a plain number.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |index: usize| {
        let part = ip.get(index * 8..index * 8 + 8)?;
        Some(u32::from_str_radix(part, 16).ok()?.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut octets = [0; 16];
            for (index, part) in octets.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(index)?);
            }
            IpAddr::V6(Ipv6Addr::from(octets))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn an_established_row_has_every_column() {
        let row = "   3: 0100007F:1F90 0100007F:A284 01 0000000A:00000004 01:00000014 00000002 \
                   0 0 1605 2 00000000f8a927a8 20 4 31 10 -1";
        assert_eq!(
            parse(row).unwrap(),
            ProcSocket {
                local: "127.0.0.1:8080".parse().unwrap(),
                remote: "127.0.0.1:41604".parse().unwrap(),
                state: 1,
                tx_queue: 10,
                rx_queue: 4,
                timer: 1,
                timer_ticks: 20,
                retransmits: 2,
                rto_ticks: Some(20),
                ato_ticks: Some(4),
                quick: Some(15),
                pingpong: Some(true),
                cwnd: Some(10),
                ssthresh: None,
            }
        );
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn a_time_wait_row_ends_early() {
        let row = "   1: 020200C0:A284 507100CB:0050 06 00000000:00000000 03:000002DC 00000000 \
                   0 0 0 3 00000000097562d4";
        let socket = parse(row).unwrap();
        assert_eq!(socket.local, "192.0.2.2:41604".parse().unwrap());
        assert_eq!((socket.state, socket.timer, socket.timer_ticks), (6, 3, 0x2dc));
        assert_eq!((socket.rto_ticks, socket.quick, socket.pingpong), (None, None, None));
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn an_ipv6_address_is_four_words() {
        let loopback = address("00000000000000000000000001000000:0050").unwrap();
        assert_eq!(loopback, "[::1]:80".parse().unwrap());
        let other = address("B80D0120000000000000000001000000:0050").unwrap();
        assert_eq!(other, "[2001:db8::1]:80".parse().unwrap());
    }

    #[test]
    fn nonsense_is_refused() {
        for row in ["", "1: x y", "0: 0100007F:1F90 0100007F 01 0:0 0:0 0"] {
            assert_eq!(parse(row), None, "{row:?}");
        }
        assert_eq!(address("0100007F0:1F90"), None);
        assert_eq!(address("éééé:1F90"), None, "eight bytes, not eight digits");
    }

    #[test]
    fn a_receiver_of_data_is_in_quick_ack_mode_at_first() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"first").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
        let sockets = proc_sockets().unwrap();
        let found = sockets
            .iter()
            .find(|socket| {
                socket.local == server.local_addr().unwrap() && socket.remote == client.local_addr().unwrap()
            })
            .unwrap();
        assert_eq!(found.state, 1);
        assert_eq!(found.pingpong, Some(false));
        assert!(found.quick.unwrap() > 0, "{found:?}");
        assert!(found.ato_ticks.unwrap() > 0, "{found:?}");
    }
}
