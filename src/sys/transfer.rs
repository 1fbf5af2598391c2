//! Sending, receiving and waiting, one system call a function.
//!
//! No call here retries: a short count or [`io::ErrorKind::Interrupted`] is
//! what happened, and the caller decides. Every send carries `MSG_NOSIGNAL`, so
//! a closed peer is an error and not a signal.

use std::{
    ffi::CString,
    fs::File,
    io::{self, IoSlice, Read},
    net::Shutdown,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd},
    ptr,
    time::Duration,
};

use libc::{c_int, c_short};
use socket2::{SockRef, Socket};

use super::check;

/// What to add to a `send(2)`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// `MSG_MORE`: more data follows, so hold back a segment that is not full.
    pub more: bool,
    /// `MSG_EOR`: the end of a record; later data is not put into the same
    /// buffer. It does not make the data leave earlier.
    pub eor: bool,
    /// `MSG_DONTWAIT`: fail with [`io::ErrorKind::WouldBlock`] instead of
    /// waiting for room.
    pub dont_wait: bool,
    /// `MSG_ZEROCOPY`: send from the program's own memory where the path can. Needs `SO_ZEROCOPY`, without which it is
    /// ignored; see [`completion`](super::messages::completion) for when the memory may change.
    pub zero_copy: bool,
}

impl Flags {
    /// Nothing but `MSG_NOSIGNAL`.
    pub const NONE: Flags = Flags { more: false, eor: false, dont_wait: false, zero_copy: false };

    /// `MSG_MORE` alone.
    pub const MORE: Flags = Flags { more: true, ..Flags::NONE };

    fn bits(self) -> c_int {
        let mut bits = libc::MSG_NOSIGNAL;
        if self.more {
            bits |= libc::MSG_MORE;
        }
        if self.eor {
            bits |= libc::MSG_EOR;
        }
        if self.dont_wait {
            bits |= libc::MSG_DONTWAIT;
        }
        if self.zero_copy {
            bits |= libc::MSG_ZEROCOPY;
        }
        bits
    }
}

/// `send(2)`: the number of bytes the kernel took, which may be fewer than
/// given.
///
/// # Errors
///
/// The kernel's own.
///
/// # Examples
///
/// ```
/// use smallwrites::sys::transfer::{self, Flags};
///
/// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// let client = std::net::TcpStream::connect(listener.local_addr()?)?;
/// let (server, _) = listener.accept()?;
///
/// transfer::send(&client, b"head", Flags::MORE)?;
/// transfer::send(&client, b"body", Flags::NONE)?;
///
/// let mut received = [0; 8];
/// assert_eq!(transfer::receive(&server, &mut received)?, 8);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn send(socket: impl AsFd, bytes: &[u8], flags: Flags) -> io::Result<usize> {
    SockRef::from(&socket).send_with_flags(bytes, flags.bits())
}

/// `send(2)` with any 32 flag bits, named or not, and `MSG_NOSIGNAL`.
///
/// # Errors
///
/// The kernel's own.
pub fn send_with_bits(socket: impl AsFd, bytes: &[u8], bits: u32) -> io::Result<usize> {
    SockRef::from(&socket).send_with_flags(bytes, bits.cast_signed() | libc::MSG_NOSIGNAL)
}

/// `MSG_OOB`: the byte is urgent (tcp(7)), and urgent data waits for nothing.
pub const URGENT: u32 = libc::MSG_OOB as u32;

/// `sendmsg(2)`: several pieces in one call, as `writev(2)` does, with
/// `MSG_NOSIGNAL`. Returns the number of bytes the kernel took.
///
/// # Errors
///
/// The kernel's own; `EMSGSIZE` for more than 1024 pieces.
pub fn send_vectored(socket: impl AsFd, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    send_vectored_with(socket, pieces, Flags::NONE)
}

/// As [`send_vectored`], with flags.
///
/// # Errors
///
/// The kernel's own; `EMSGSIZE` for more than 1024 pieces.
pub fn send_vectored_with(socket: impl AsFd, pieces: &[IoSlice<'_>], flags: Flags) -> io::Result<usize> {
    SockRef::from(&socket).send_vectored_with_flags(pieces, flags.bits())
}

/// `sendfile(2)`: `count` bytes of `file` from `offset` on, without passing
/// through the program. Returns the number of bytes sent, 0 at the end of the
/// file. The file's own position does not move.
///
/// There is no flag for the signal here: a program that does not ignore
/// `SIGPIPE` (Rust programs do) is killed by a closed peer.
///
/// # Errors
///
/// The kernel's own; `InvalidInput` for an offset past `i64::MAX`.
pub fn send_file(socket: impl AsFd, file: impl AsFd, offset: u64, count: usize) -> io::Result<usize> {
    let mut offset = i64::try_from(offset)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "sendfile offset is past the largest file"))?;
    // SAFETY: both descriptors are borrowed for the whole call; the kernel
    // reads and writes one 64-bit offset through the pointer.
    let sent =
        unsafe { libc::sendfile64(socket.as_fd().as_raw_fd(), file.as_fd().as_raw_fd(), &raw mut offset, count) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// A file in memory (`memfd_create(2)`), `length` zero bytes long, to send
/// with [`send_file`] without a disk in the measurement.
///
/// # Errors
///
/// The kernel's own; `InvalidInput` for a name that holds a zero byte.
pub fn memory_file(name: &str, length: u64) -> io::Result<File> {
    let name = CString::new(name)?;
    // SAFETY: the name is a terminated string that outlives the call.
    let fd = check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: memfd_create returned this descriptor just now and nobody else
    // has it.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(length)?;
    Ok(file)
}

/// `recv(2)` without flags: the number of bytes received, 0 when the peer has
/// finished.
///
/// # Errors
///
/// The kernel's own.
pub fn receive(socket: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    (&*SockRef::from(&socket)).read(into)
}

/// What to wait for on one descriptor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Interest {
    /// Until a read would not block.
    pub read: bool,
    /// Until a write would not block.
    pub write: bool,
}

impl Interest {
    /// Reading alone.
    pub const READ: Interest = Interest { read: true, write: false };
    /// Writing alone.
    pub const WRITE: Interest = Interest { read: false, write: true };
}

/// What a descriptor was found to be by [`wait`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Ready {
    /// A read would not block: data, or the end of the stream (`POLLIN`).
    pub readable: bool,
    /// A write would not block (`POLLOUT`).
    pub writable: bool,
    /// An error is pending, or the descriptor is not open (`POLLERR`,
    /// `POLLNVAL`). Reported whatever the interest.
    pub error: bool,
    /// Both directions are finished (`POLLHUP`). Reported whatever the
    /// interest.
    pub hangup: bool,
}

impl Ready {
    /// Whether anything at all was reported.
    pub fn any(self) -> bool {
        self.readable || self.writable || self.error || self.hangup
    }
}

/// Ends a connection now, in both directions. Closing the descriptor may end
/// it later: a process that is started meanwhile holds a copy of it until its
/// `exec`, and the FIN goes out only then. One that the peer has reset is not
/// connected any more, which is no error here.
pub fn hang_up(socket: &Socket) {
    let _ = socket.shutdown(Shutdown::Both);
}

/// `ppoll(2)`: waits until one of the descriptors is ready or `timeout` has
/// passed, `None` being for ever. The answer has one entry a descriptor, in
/// their order; all of them empty means the time is over.
///
/// `ppoll` and not `poll`, whose timeout is whole milliseconds.
///
/// # Errors
///
/// The kernel's own. A signal ends the wait with
/// [`io::ErrorKind::Interrupted`]; the caller knows how much time is left.
///
/// # Examples
///
/// ```
/// use std::{os::fd::AsFd, time::Duration};
/// use smallwrites::sys::transfer::{Interest, wait};
///
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let ready = wait(&[(socket.as_fd(), Interest::READ)], Some(Duration::from_micros(50)))?;
/// assert!(!ready[0].readable);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn wait(fds: &[(BorrowedFd<'_>, Interest)], timeout: Option<Duration>) -> io::Result<Vec<Ready>> {
    let mut polled: Vec<libc::pollfd> = fds
        .iter()
        .map(|(fd, interest)| libc::pollfd { fd: fd.as_raw_fd(), events: interest_bits(*interest), revents: 0 })
        .collect();
    let timeout = timeout.map(|duration| libc::timespec {
        tv_sec: libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `polled` holds as many entries as said and is not touched
    // meanwhile; `timeout` is null or points to a value that outlives the call;
    // a null signal mask leaves the mask alone.
    check(unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout, ptr::null()) })?;
    Ok(polled.iter().map(|entry| ready(entry.revents)).collect())
}

fn interest_bits(interest: Interest) -> c_short {
    let mut bits = 0;
    if interest.read {
        bits |= libc::POLLIN;
    }
    if interest.write {
        bits |= libc::POLLOUT;
    }
    bits
}

fn ready(bits: c_short) -> Ready {
    let has = |mask| bits & mask != 0;
    Ready {
        readable: has(libc::POLLIN),
        writable: has(libc::POLLOUT),
        error: has(libc::POLLERR | libc::POLLNVAL),
        hangup: has(libc::POLLHUP),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
        time::Instant,
    };

    use super::*;
    use crate::sys::options;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn receive_exactly(socket: &TcpStream, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let mut filled = 0;
        while filled < count {
            let more = receive(socket, &mut bytes[filled..]).unwrap();
            assert_ne!(more, 0, "stream ended after {filled} of {count} bytes");
            filled += more;
        }
        bytes
    }

    #[test]
    fn more_holds_and_the_next_send_releases() {
        let (client, server) = pair();
        assert_eq!(send(&client, b"head", Flags::MORE).unwrap(), 4);
        assert_eq!(options::not_sent(&client).unwrap(), 4);
        assert_eq!(send(&client, b"body", Flags::NONE).unwrap(), 4);
        assert_eq!(receive_exactly(&server, 8), b"headbody");
    }

    #[test]
    fn vectored_keeps_the_order() {
        let (client, server) = pair();
        let pieces = [IoSlice::new(b"one "), IoSlice::new(b"two "), IoSlice::new(b"three")];
        assert_eq!(send_vectored(&client, &pieces).unwrap(), 13);
        assert_eq!(receive_exactly(&server, 13), b"one two three");
    }

    #[test]
    fn send_file_takes_the_part_asked_for() {
        let (client, server) = pair();
        let mut file = memory_file("part", 10).unwrap();
        file.write_all(b"0123456789").unwrap();
        assert_eq!(send_file(&client, &file, 3, 4).unwrap(), 4);
        assert_eq!(receive_exactly(&server, 4), b"3456");
        assert_eq!(send_file(&client, &file, 10, 4).unwrap(), 0, "end of file");
    }

    #[test]
    fn memory_file_has_its_length() {
        assert_eq!(memory_file("length", 4096).unwrap().metadata().unwrap().len(), 4096);
        assert_eq!(memory_file("a\0b", 1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_closed_peer_is_an_error_not_a_signal() {
        let (client, server) = pair();
        drop(server);
        let deadline = Instant::now() + Duration::from_secs(5);
        let error = loop {
            match send(&client, b"x", Flags::NONE) {
                Err(error) => break error,
                Ok(_) => assert!(Instant::now() < deadline, "sends keep succeeding"),
            }
        };
        assert!(matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset), "{error}");
    }

    #[test]
    fn wait_reports_each_descriptor_in_order() {
        let (client, mut server) = pair();
        let wanted = [(client.as_fd(), Interest::READ), (server.as_fd(), Interest::WRITE)];
        let ready = wait(&wanted, Some(Duration::from_secs(5))).unwrap();
        assert_eq!(ready[0], Ready::default());
        assert!(ready[1].writable && !ready[1].readable);

        server.write_all(b"x").unwrap();
        let wanted = [(client.as_fd(), Interest::READ)];
        assert!(wait(&wanted, Some(Duration::from_secs(5))).unwrap()[0].readable);
    }

    #[test]
    fn wait_times_out_below_a_millisecond_and_not_before() {
        let (client, _server) = pair();
        let timeout = Duration::from_micros(300);
        let start = Instant::now();
        let ready = wait(&[(client.as_fd(), Interest::READ)], Some(timeout)).unwrap();
        assert!(start.elapsed() >= timeout);
        assert!(!ready[0].any());
    }
}
