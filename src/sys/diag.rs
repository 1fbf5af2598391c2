//! `sock_diag`: what `ss -ti` asks the kernel (sock_diag(7)).
//!
//! The answer is decoded here and not by the packet crate, which drops timers
//! and attributes it does not know. Here nothing is lost, so two answers can be
//! compared byte by byte to show that something does *not* appear in them.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use netlink_packet_sock_diag::{
    SockDiagMessage,
    inet::{ExtensionFlags, InetRequest, SocketId, StateFlags},
};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;

use super::{context, malformed, netlink, tcp_info::TcpInfo};

/// `struct inet_diag_msg` (include/uapi/linux/inet_diag.h).
const HEADER: usize = 72;

/// The attribute that holds a `struct tcp_info`.
pub const INET_DIAG_INFO: u16 = 2;

/// Which sockets to list. An IPv6 socket that talks IPv4 is listed under IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// `AF_INET`.
    V4,
    /// `AF_INET6`.
    V6,
}

/// The pending timer of a socket (`idiag_timer`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Timer {
    /// No timer, or one this kernel does not show.
    None,
    /// Retransmission, tail loss probe or reordering.
    Retransmit,
    /// Keepalive.
    KeepAlive,
    /// The end of `TIME_WAIT`.
    TimeWait,
    /// The window probe, which also ends a cork.
    Persist,
    /// A delayed acknowledgement. Linux shows it since 7.x; before, a socket
    /// that waits for it shows [`Timer::None`].
    DelayedAck,
    /// A number this crate does not know.
    Other(u8),
}

impl From<u8> for Timer {
    fn from(number: u8) -> Timer {
        match number {
            0 => Timer::None,
            1 => Timer::Retransmit,
            2 => Timer::KeepAlive,
            3 => Timer::TimeWait,
            4 => Timer::Persist,
            5 => Timer::DelayedAck,
            other => Timer::Other(other),
        }
    }
}

/// One TCP socket as `sock_diag` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiagSocket {
    /// The address of this end.
    pub local: SocketAddr,
    /// The address of the other end, unspecified for a listener.
    pub remote: SocketAddr,
    /// The state, `TCP_ESTABLISHED` being 1 and `TCP_LISTEN` 10.
    pub state: u8,
    /// The pending timer.
    pub timer: Timer,
    /// Until that timer expires, milliseconds.
    pub timer_ms: u32,
    /// Unanswered retransmissions, probes or keepalives.
    pub retransmits: u8,
    /// Bytes received and not read; for a listener its accept queue.
    pub receive_queue: u32,
    /// Bytes written and not acknowledged; for a listener its backlog.
    pub send_queue: u32,
    /// The socket's inode number, the one in `socket:[1605]`; 0 once no process holds it.
    pub inode: u32,
    /// `INET_DIAG_INFO`, absent in states without a full socket.
    pub info: Option<TcpInfo>,
    /// Every attribute as it came: its `INET_DIAG_*` number and its bytes.
    pub attributes: Vec<(u16, Vec<u8>)>,
    /// The fixed part of the answer, `struct inet_diag_msg`, as it came.
    pub header: Vec<u8>,
}

impl DiagSocket {
    /// The bytes of one attribute by its `INET_DIAG_*` number.
    pub fn attribute(&self, number: u16) -> Option<&[u8]> {
        let found = self.attributes.iter().find(|(kind, _)| *kind == number)?;
        Some(&found.1)
    }
}

/// Every TCP socket of a family in this thread's network namespace, with every
/// extension the kernel offers. Works without privileges.
///
/// # Errors
///
/// `NotFound` where the kernel has no `tcp_diag`, [`io::ErrorKind::Interrupted`]
/// where the list changed meanwhile (read again).
///
/// # Examples
///
/// ```
/// use smallwrites::sys::diag::{Family, sockets};
///
/// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// let local = listener.local_addr()?;
/// let found = sockets(Family::V4)?.into_iter().find(|socket| socket.local == local);
/// assert_eq!(found.map(|socket| socket.state), Some(10));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn sockets(family: Family) -> io::Result<Vec<DiagSocket>> {
    // Half-open connections are state 12, which the crate does not name.
    const NEW_SYN_RECV: u32 = 1 << 12;
    let (number, socket_id) = match family {
        Family::V4 => (libc::AF_INET, SocketId::new_v4()),
        Family::V6 => (libc::AF_INET6, SocketId::new_v6()),
    };
    let message = SockDiagMessage::InetRequest(InetRequest {
        family: number as u8,
        protocol: libc::IPPROTO_TCP as u8,
        extensions: ExtensionFlags::all(),
        states: StateFlags::from_bits_retain(StateFlags::all().bits() | NEW_SYN_RECV),
        socket_id,
    });
    let mut found = Vec::new();
    netlink::request(NETLINK_SOCK_DIAG, message, netlink::NLM_F_DUMP, |_, payload| {
        found.push(decode(payload).ok_or_else(|| malformed("sock_diag answer too short"))?);
        Ok(())
    })
    .map_err(|error| context(error, "list sockets by sock_diag (needs CONFIG_INET_TCP_DIAG)"))?;
    Ok(found)
}

fn decode(payload: &[u8]) -> Option<DiagSocket> {
    let (header, rest) = payload.split_at_checked(HEADER)?;
    let word = |at: usize| header[at..at + 4].try_into().map(u32::from_ne_bytes).ok();
    let address = |port: usize, ip: usize| {
        let port = u16::from_be_bytes(header[port..port + 2].try_into().ok()?);
        let octets: [u8; 16] = header[ip..ip + 16].try_into().ok()?;
        let ip = match i32::from(header[0]) {
            libc::AF_INET => IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
            libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(octets)),
            _ => return None,
        };
        Some(SocketAddr::new(ip, port))
    };
    let attributes: Vec<(u16, Vec<u8>)> =
        netlink::attributes(rest).map(|(kind, value)| (kind, value.to_vec())).collect();
    let info = attributes.iter().find(|(kind, _)| *kind == INET_DIAG_INFO);
    Some(DiagSocket {
        local: address(4, 8)?,
        remote: address(6, 24)?,
        state: header[1],
        timer: Timer::from(header[2]),
        timer_ms: word(52)?,
        retransmits: header[3],
        receive_queue: word(56)?,
        send_queue: word(60)?,
        inode: word(68)?,
        info: info.map(|(_, bytes)| TcpInfo::decode(bytes)),
        header: header.to_vec(),
        attributes,
    })
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::sys::options::{self, SocketOption};

    fn of(stream: &TcpStream, family: Family) -> DiagSocket {
        let (local, remote) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        sockets(family)
            .unwrap()
            .into_iter()
            .find(|socket| socket.local == local && socket.remote == remote)
            .expect("the socket is not in the list")
    }

    #[test]
    fn a_corked_socket_shows_its_queue_and_the_probe_timer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(of(&client, Family::V4).timer, Timer::None);
        options::set(&client, SocketOption::Cork, 1).unwrap();
        client.write_all(b"held").unwrap();
        let socket = of(&client, Family::V4);
        assert_eq!(socket.state, 1);
        assert_eq!(socket.send_queue, 4);
        assert_eq!(socket.timer, Timer::Persist);
        assert!((1..=250).contains(&socket.timer_ms), "{}", socket.timer_ms);
    }

    #[test]
    fn the_info_is_the_one_getsockopt_gives() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"hello").unwrap();
        let socket = of(&client, Family::V4);
        let info = socket.info.as_ref().unwrap();
        let direct = TcpInfo::read(&client).unwrap();
        assert_eq!(info.length, direct.length);
        assert_eq!(info.bytes_sent, Some(5));
        assert_eq!(info.snd_mss, direct.snd_mss);
        assert_eq!(socket.attribute(INET_DIAG_INFO).unwrap().len(), info.length);
        assert!(socket.attributes.len() > 3, "{:?}", socket.attributes);
        assert_eq!(socket.header.len(), HEADER);
    }

    #[test]
    fn both_families_are_told_apart() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else {
            eprintln!("not tested: no IPv6 loopback here");
            return;
        };
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(of(&client, Family::V6).state, 1);
        let local = client.local_addr().unwrap();
        assert!(sockets(Family::V4).unwrap().iter().all(|socket| socket.local != local));
    }

    #[test]
    fn a_short_answer_is_refused() {
        let mut bytes = vec![0; HEADER];
        bytes[0] = libc::AF_INET as u8;
        assert!(decode(&bytes).is_some());
        assert!(decode(&bytes[..HEADER - 1]).is_none());
        bytes[0] = libc::AF_UNIX as u8;
        assert!(decode(&bytes).is_none());
    }

    #[test]
    fn unknown_timers_keep_their_number() {
        assert_eq!(Timer::from(5), Timer::DelayedAck);
        assert_eq!(Timer::from(9), Timer::Other(9));
    }
}
