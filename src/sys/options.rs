//! Socket options by their C names, and the three queue lengths of a socket.

use std::{
    fmt, io,
    os::fd::{AsFd, AsRawFd},
};

use libc::{IPPROTO_TCP, SOL_SOCKET, c_int};
use socket2::SockRef;

use super::check;

// Newer than the libc crate; values from include/uapi/linux/tcp.h.
const TCP_INQ: c_int = 36;
const TCP_RTO_MAX_MS: c_int = 44;
const TCP_RTO_MIN_US: c_int = 45;
const TCP_DELACK_MAX_US: c_int = 46;

/// An integer option of a TCP socket.
///
/// The [`Debug`] and [`Display`](fmt::Display) forms differ on purpose: the
/// second is the name a man page or a C program uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SocketOption {
    /// `TCP_NODELAY` (tcp(7)): 1 turns Nagle's algorithm off. Setting it also
    /// sends what Nagle or a cork held back. Inherited by accepted sockets.
    NoDelay,
    /// `TCP_CORK` (tcp(7)): 1 holds back segments that are not full; clearing
    /// it sends them. Inherited by accepted sockets.
    Cork,
    /// `TCP_QUICKACK` (tcp(7)): 1 acknowledges at once for now. Not permanent:
    /// the kernel goes back to delaying on its own. The value read is 1
    /// whenever the socket is not in interactive ("ping-pong") mode.
    QuickAck,
    /// `TCP_MAXSEG` (tcp(7)), bytes: limits the segment size. Before the
    /// handshake it limits what both sides use; the value read afterwards is
    /// the segment size in use.
    MaxSeg,
    /// `TCP_DELACK_MAX_US`, option 46, microseconds: how long an
    /// acknowledgement may be delayed: more than one jiffy, at most 200 ms, rounded
    /// up to jiffies. `ENOPROTOOPT` on kernels before 6.15, `EINVAL` outside
    /// the range.
    DelackMaxUs,
    /// `TCP_RTO_MIN_US`, option 45, microseconds: the least retransmission
    /// timeout. `ENOPROTOOPT` on kernels before 6.15.
    RtoMinUs,
    /// `TCP_RTO_MAX_MS`, option 44, milliseconds: the greatest retransmission
    /// timeout. `ENOPROTOOPT` on kernels before 6.15.
    RtoMaxMs,
    /// `TCP_NOTSENT_LOWAT`, bytes: the socket is writable only below this much
    /// unsent data. It holds nothing back.
    NotSentLowat,
    /// `SO_RCVLOWAT` (socket(7)), bytes: the socket is readable from this much
    /// received data on.
    ReceiveLowWater,
    /// `SO_SNDBUF` (socket(7)), bytes. The kernel doubles the value set, and
    /// the doubled one is read.
    SendBuffer,
    /// `SO_RCVBUF` (socket(7)), bytes. The kernel doubles the value set, and
    /// the doubled one is read.
    ReceiveBuffer,
    /// `TCP_WINDOW_CLAMP` (tcp(7)), bytes: the most that this side will offer as its receive window.
    WindowClamp,
    /// `TCP_DEFER_ACCEPT` (tcp(7)), seconds, rounded up to the retransmission
    /// schedule: a listener wakes up only when data has arrived.
    DeferAccept,
    /// `SO_ZEROCOPY` (Documentation/networking/msg_zerocopy.rst): 1 lets a send with
    /// `MSG_ZEROCOPY` do as it says; without it the flag is ignored.
    ZeroCopy,
    /// `TCP_INQ`: 1 makes `recvmsg(2)` tell how many bytes are left to read.
    Inq,
}

impl SocketOption {
    /// Every option, in the order of declaration.
    pub const ALL: [SocketOption; 15] = [
        SocketOption::NoDelay,
        SocketOption::Cork,
        SocketOption::QuickAck,
        SocketOption::MaxSeg,
        SocketOption::DelackMaxUs,
        SocketOption::RtoMinUs,
        SocketOption::RtoMaxMs,
        SocketOption::NotSentLowat,
        SocketOption::ReceiveLowWater,
        SocketOption::SendBuffer,
        SocketOption::ReceiveBuffer,
        SocketOption::WindowClamp,
        SocketOption::DeferAccept,
        SocketOption::ZeroCopy,
        SocketOption::Inq,
    ];

    /// The name in C headers and man pages.
    ///
    /// # Examples
    ///
    /// ```
    /// use smallwrites::sys::options::SocketOption;
    /// assert_eq!(SocketOption::NoDelay.c_name(), "TCP_NODELAY");
    /// ```
    pub fn c_name(self) -> &'static str {
        self.definition().2
    }

    fn definition(self) -> (c_int, c_int, &'static str) {
        match self {
            Self::NoDelay => (IPPROTO_TCP, libc::TCP_NODELAY, "TCP_NODELAY"),
            Self::Cork => (IPPROTO_TCP, libc::TCP_CORK, "TCP_CORK"),
            Self::QuickAck => (IPPROTO_TCP, libc::TCP_QUICKACK, "TCP_QUICKACK"),
            Self::MaxSeg => (IPPROTO_TCP, libc::TCP_MAXSEG, "TCP_MAXSEG"),
            Self::DelackMaxUs => (IPPROTO_TCP, TCP_DELACK_MAX_US, "TCP_DELACK_MAX_US"),
            Self::RtoMinUs => (IPPROTO_TCP, TCP_RTO_MIN_US, "TCP_RTO_MIN_US"),
            Self::RtoMaxMs => (IPPROTO_TCP, TCP_RTO_MAX_MS, "TCP_RTO_MAX_MS"),
            Self::NotSentLowat => (IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, "TCP_NOTSENT_LOWAT"),
            Self::ReceiveLowWater => (SOL_SOCKET, libc::SO_RCVLOWAT, "SO_RCVLOWAT"),
            Self::SendBuffer => (SOL_SOCKET, libc::SO_SNDBUF, "SO_SNDBUF"),
            Self::ReceiveBuffer => (SOL_SOCKET, libc::SO_RCVBUF, "SO_RCVBUF"),
            Self::WindowClamp => (IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, "TCP_WINDOW_CLAMP"),
            Self::DeferAccept => (IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, "TCP_DEFER_ACCEPT"),
            Self::ZeroCopy => (SOL_SOCKET, libc::SO_ZEROCOPY, "SO_ZEROCOPY"),
            Self::Inq => (IPPROTO_TCP, TCP_INQ, "TCP_INQ"),
        }
    }
}

impl fmt::Display for SocketOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.c_name())
    }
}

/// `getsockopt(2)` of an integer option, in the unit the option documents.
///
/// # Errors
///
/// The kernel's own: `ENOPROTOOPT` where it does not know the option,
/// `EOPNOTSUPP` where the socket is not TCP, `ENOTSOCK` where it is no socket.
///
/// # Examples
///
/// ```
/// use smallwrites::sys::options::{self, SocketOption};
///
/// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// assert_eq!(options::get(&listener, SocketOption::NoDelay)?, 0);
/// options::set(&listener, SocketOption::NoDelay, 1)?;
/// assert_eq!(options::get(&listener, SocketOption::NoDelay)?, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn get(socket: impl AsFd, option: SocketOption) -> io::Result<i32> {
    let (level, name, _) = option.definition();
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed for the whole call; the kernel writes
    // at most `length` bytes, which is the size of `value`.
    check(unsafe {
        libc::getsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    })?;
    Ok(value)
}

/// `setsockopt(2)` of an integer option, in the unit the option documents.
///
/// # Errors
///
/// The kernel's own: `ENOPROTOOPT` where it does not know the option or the
/// socket is not TCP, `EINVAL` for a value out of range.
pub fn set(socket: impl AsFd, option: SocketOption, value: i32) -> io::Result<()> {
    let (level, name, _) = option.definition();
    let value: c_int = value;
    // SAFETY: the descriptor is borrowed for the whole call; the kernel reads
    // exactly the size of `value` from a pointer to it.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// Sets `TCP_CONGESTION` (tcp(7)), for example to `"reno"` or `"cubic"`.
///
/// # Errors
///
/// `ENOENT` where the algorithm is not built or loaded, `EPERM` where it is
/// restricted and the caller has no `CAP_NET_ADMIN` over the namespace.
pub fn set_congestion_control(socket: impl AsFd, name: &str) -> io::Result<()> {
    SockRef::from(&socket).set_tcp_congestion(name.as_bytes())
}

/// The name in `TCP_CONGESTION` (tcp(7)).
///
/// # Errors
///
/// The kernel's own, as for [`get`].
pub fn congestion_control(socket: impl AsFd) -> io::Result<String> {
    let name = SockRef::from(&socket).tcp_congestion()?;
    // The kernel fills the whole TCP_CA_NAME_MAX bytes, zeros after the name.
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Bytes written by the program that have not left once: `SIOCOUTQNSD`, which
/// is `write_seq - snd_nxt`. What Nagle, a cork or `MSG_MORE` holds is here.
///
/// # Errors
///
/// The kernel's own; `EINVAL` for a listener.
pub fn not_sent(socket: impl AsFd) -> io::Result<u32> {
    queue(socket, libc::SIOCOUTQNSD)
}

/// Bytes written by the program that the peer has not acknowledged, sent or
/// not: `SIOCOUTQ` (tcp(7)), which is `write_seq - snd_una`.
///
/// # Errors
///
/// The kernel's own; `EINVAL` for a listener.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<u32> {
    // SIOCOUTQ is the same number; libc has only the terminal's name for it.
    queue(socket, libc::TIOCOUTQ)
}

/// Bytes received that the program has not read: `FIONREAD`, also called
/// `SIOCINQ` (tcp(7)).
///
/// # Errors
///
/// The kernel's own; `EINVAL` for a listener.
pub fn unread(socket: impl AsFd) -> io::Result<u32> {
    queue(socket, libc::FIONREAD)
}

fn queue(socket: impl AsFd, request: libc::Ioctl) -> io::Result<u32> {
    let mut bytes: c_int = 0;
    // SAFETY: the descriptor is borrowed for the whole call; each of the three
    // requests writes one int through the pointer and nothing else.
    check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), request, &raw mut bytes) })?;
    u32::try_from(bytes).map_err(|_| super::malformed(format!("queue length {bytes} is negative")))
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{TcpListener, TcpStream, UdpSocket},
        time::{Duration, Instant},
    };

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    /// The value before differs from the one set, so that a setter doing
    /// nothing fails.
    fn changes(option: SocketOption, value: i32, expected: i32) {
        let (client, _server) = pair();
        assert_ne!(get(&client, option).unwrap(), expected, "{option} starts there already");
        set(&client, option, value).unwrap();
        assert_eq!(get(&client, option).unwrap(), expected, "{option}");
    }

    #[test]
    fn switches_and_marks_read_back() {
        changes(SocketOption::NoDelay, 1, 1);
        changes(SocketOption::Cork, 1, 1);
        changes(SocketOption::QuickAck, 0, 0);
        changes(SocketOption::NotSentLowat, 4096, 4096);
        changes(SocketOption::ReceiveLowWater, 10, 10);
        changes(SocketOption::ZeroCopy, 1, 1);
        changes(SocketOption::Inq, 1, 1);
        changes(SocketOption::SendBuffer, 8192, 16384);
        changes(SocketOption::ReceiveBuffer, 8192, 16384);
        changes(SocketOption::WindowClamp, 20_000, 20_000);
    }

    #[test]
    fn every_option_has_its_own_number_and_a_c_name() {
        let mut seen = std::collections::BTreeSet::new();
        for option in SocketOption::ALL {
            let (level, number, name) = option.definition();
            assert!(seen.insert((level, number)), "{option} repeats a number");
            assert!(name.starts_with(if level == SOL_SOCKET { "SO_" } else { "TCP_" }));
            assert_eq!(format!("{option}"), name);
        }
    }

    #[test]
    fn congestion_control_reads_back_without_padding() {
        let (client, _server) = pair();
        // Reno cannot be built out of the kernel and is never restricted.
        set_congestion_control(&client, "reno").unwrap();
        assert_eq!(congestion_control(&client).unwrap(), "reno");
        assert!(set_congestion_control(&client, "no_such_algorithm").is_err());
        assert_eq!(congestion_control(&client).unwrap(), "reno");
    }

    #[test]
    fn errors_keep_their_errno() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = set(&udp, SocketOption::NoDelay, 1).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(not_sent(&listener).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn the_delayed_ack_bound_has_a_least_value() {
        let (client, _server) = pair();
        let refused = set(&client, SocketOption::DelackMaxUs, 1).unwrap_err().raw_os_error();
        if refused == Some(libc::ENOPROTOOPT) {
            eprintln!("not tested: this kernel has no TCP_DELACK_MAX_US");
            return;
        }
        assert_eq!(refused, Some(libc::EINVAL));
        changes(SocketOption::DelackMaxUs, 40_000, 40_000);
    }

    #[test]
    fn a_cork_shows_in_the_queues() {
        let (mut client, server) = pair();
        set(&client, SocketOption::Cork, 1).unwrap();
        client.write_all(b"held").unwrap();
        assert_eq!(not_sent(&client).unwrap(), 4);
        assert_eq!(unacknowledged(&client).unwrap(), 4);
        assert_eq!(unread(&server).unwrap(), 0);
        set(&client, SocketOption::Cork, 0).unwrap();
        assert_eq!(not_sent(&client).unwrap(), 0);
        let deadline = Instant::now() + Duration::from_secs(5);
        while unread(&server).unwrap() < 4 {
            assert!(Instant::now() < deadline, "uncorked bytes never arrived");
            std::thread::yield_now();
        }
    }
}
