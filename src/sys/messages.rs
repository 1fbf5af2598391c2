//! What `recvmsg(2)` tells beside the bytes: completions of `MSG_ZEROCOPY`, and how much is left to read.

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd},
    ptr,
};

use libc::c_int;

/// Room for the few control messages that a call here asks for.
const CONTROL: usize = 256;

// Newer than some C libraries' headers; values from include/uapi/linux/tcp.h and errqueue.h.
const TCP_CM_INQ: c_int = 36;
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

/// What the kernel says of finished sends with `MSG_ZEROCOPY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The first of the sends that it covers, counted from 0 on the socket.
    pub first: u32,
    /// The last of them.
    pub last: u32,
    /// Whether the kernel copied the bytes all the same.
    pub copied: bool,
}

/// The next completion in the socket's error queue; `None` where there is none. Never waits.
///
/// # Errors
///
/// The kernel's own.
pub fn completion(socket: impl AsFd) -> io::Result<Option<Completion>> {
    loop {
        let (_, controls) = match receive(&socket, &mut [], libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let errors = controls.iter().filter(|control| {
            [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)]
                .contains(&(control.level, control.kind))
        });
        // Whatever else the queue holds is none.
        if let Some(completion) = errors.filter_map(|control| decode(&control.bytes)).next() {
            return Ok(Some(completion));
        }
    }
}

/// `recvmsg(2)`: the number of bytes received, and how many the kernel says are left to read, where the socket has
/// `TCP_INQ` set.
///
/// # Errors
///
/// The kernel's own.
pub fn receive_and_ask(socket: impl AsFd, into: &mut [u8]) -> io::Result<(usize, Option<u32>)> {
    let (received, controls) = receive(&socket, into, 0)?;
    let left = controls.iter().find(|control| (control.level, control.kind) == (libc::IPPROTO_TCP, TCP_CM_INQ));
    Ok((received, left.and_then(|control| word(&control.bytes, 0))))
}

/// One control message.
struct Control {
    level: c_int,
    kind: c_int,
    bytes: Vec<u8>,
}

fn receive(socket: &impl AsFd, into: &mut [u8], flags: c_int) -> io::Result<(usize, Vec<Control>)> {
    // Words, for the alignment that the headers in it need.
    let mut room = [0_u64; CONTROL / 8];
    let mut piece = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: a msghdr is integers and pointers, for which all zeros are valid values.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    header.msg_control = room.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    // SAFETY: the descriptor is borrowed for the whole call; the header points to one piece over `into` and to a control
    // buffer of the size said, and all of them outlive the call.
    let received = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut header, flags) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    Ok((received, controls(&header)))
}

/// The control messages that the kernel wrote.
fn controls(header: &libc::msghdr) -> Vec<Control> {
    let mut controls = Vec::new();
    // SAFETY: recvmsg has set the length of the control buffer to what it wrote, and the buffer is still there.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !next.is_null() {
        // SAFETY: the macros return only headers that lie whole within the control buffer, which is aligned for them.
        let control = unsafe { ptr::read(next) };
        // SAFETY: the data follows the header, `cmsg_len` counts both, and the kernel wrote as much.
        let (data, overhead) = unsafe { (libc::CMSG_DATA(next), libc::CMSG_LEN(0) as usize) };
        let length = (control.cmsg_len as usize).saturating_sub(overhead);
        // SAFETY: as above; the bytes are copied before the buffer goes.
        let bytes = unsafe { std::slice::from_raw_parts(data, length) }.to_vec();
        controls.push(Control { level: control.cmsg_level, kind: control.cmsg_type, bytes });
        // SAFETY: as for the first.
        next = unsafe { libc::CMSG_NXTHDR(header, next) };
    }
    controls
}

/// A `struct sock_extended_err` (include/uapi/linux/errqueue.h), if it is of a zerocopy send.
fn decode(bytes: &[u8]) -> Option<Completion> {
    let (origin, code) = (*bytes.get(4)?, *bytes.get(6)?);
    let (first, last) = (word(bytes, 8)?, word(bytes, 12)?);
    let copied = code & SO_EE_CODE_ZEROCOPY_COPIED != 0;
    (origin == SO_EE_ORIGIN_ZEROCOPY).then_some(Completion { first, last, copied })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
        time::{Duration, Instant},
    };

    use super::*;
    use crate::sys::{
        options::{self, SocketOption},
        transfer::{self, Flags},
    };

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn an_extended_error_is_a_completion_or_none() {
        let mut bytes = [0; 16];
        (bytes[4], bytes[6]) = (SO_EE_ORIGIN_ZEROCOPY, SO_EE_CODE_ZEROCOPY_COPIED);
        bytes[8..12].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[12..].copy_from_slice(&9_u32.to_ne_bytes());
        assert_eq!(decode(&bytes), Some(Completion { first: 7, last: 9, copied: true }));
        bytes[6] = 0;
        assert_eq!(decode(&bytes), Some(Completion { first: 7, last: 9, copied: false }));
        bytes[4] = 2;
        assert_eq!(decode(&bytes), None, "an ICMP error");
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None);
        }
    }

    #[test]
    fn each_zerocopy_send_completes_once() {
        let (client, _server) = pair();
        assert_eq!(completion(&client).unwrap(), None);
        options::set(&client, SocketOption::ZeroCopy, 1).unwrap();
        for nth in 0..3 {
            let flags = Flags { zero_copy: true, ..Flags::NONE };
            assert_eq!(transfer::send(&client, b"x", flags).unwrap(), 1);
            let deadline = Instant::now() + Duration::from_secs(5);
            let completion = loop {
                match completion(&client).unwrap() {
                    Some(completion) => break completion,
                    None => assert!(Instant::now() < deadline, "no completion"),
                }
                std::thread::yield_now();
            };
            assert_eq!((completion.first, completion.last), (nth, nth));
        }
        assert_eq!(completion(&client).unwrap(), None);
    }

    #[test]
    fn what_is_left_comes_only_where_it_was_asked_for() {
        let (mut client, server) = pair();
        let mut bytes = [0; 4];
        client.write_all(b"abcd").unwrap();
        assert_eq!(receive_and_ask(&server, &mut bytes[..1]).unwrap(), (1, None));
        options::set(&server, SocketOption::Inq, 1).unwrap();
        assert_eq!(receive_and_ask(&server, &mut bytes[..1]).unwrap(), (1, Some(2)));
        assert_eq!(&bytes[..1], b"b");
    }
}
