//! Frames of one network device by a packet socket (packet(7)), with the
//! kernel's own time stamps.
//!
//! Needs `CAP_NET_RAW` over the network namespace, which root of a user
//! namespace has.

mod stamps;

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    ptr,
    time::Duration,
};

use libc::{c_int, c_void, cmsghdr};
use socket2::{Domain, Protocol, Socket, Type};

use super::{check, context, malformed};
use stamps::{keep_stamping, stamp};

/// Larger than any frame a device hands over unless its GSO limit was raised.
const LARGEST_FRAME: usize = 128 * 1024;

/// One frame as it passed the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawFrame {
    /// When the kernel saw it, since the epoch (`CLOCK_REALTIME`), to the
    /// nanosecond. Take differences only: that clock can be set.
    pub stamp: Duration,
    /// Sent by this host (`PACKET_OUTGOING`).
    pub outgoing: bool,
    /// The frame from its Ethernet header on.
    pub bytes: Vec<u8>,
    /// How long it was, bytes: more than `bytes` holds when it was cut.
    pub wire_length: usize,
    /// Whether its transport checksum is filled in. It is not where the device
    /// (or, on loopback, nobody) is to do that, and such a frame must not be
    /// put on another device.
    pub checksum_ready: bool,
}

/// How to open a [`Capture`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// `PACKET_IGNORE_OUTGOING`: leave out what this host sends. On loopback
    /// each frame otherwise appears twice, once in each direction.
    pub ignore_outgoing: bool,
    /// `SO_RCVBUF`, bytes. Without privileges over the whole host the sysctl
    /// `net.core.rmem_max` caps it; see [`Capture::receive_buffer`].
    pub receive_buffer: usize,
}

impl Default for Settings {
    /// Both directions and 4 MiB, some thousand small frames.
    fn default() -> Settings {
        Settings { ignore_outgoing: false, receive_buffer: 4 << 20 }
    }
}

/// A packet socket on one device. It stays on that device, in the namespace it
/// was opened in, whichever thread uses it.
pub struct Capture {
    socket: Socket,
    buffer: Box<[u8]>,
    dropped: u64,
}

impl Capture {
    /// Begins to capture on the device of this index. It must be up: open it
    /// before the connection of interest, and after
    /// [`set_up`](super::device::set_up). The first capture of a process waits
    /// until the kernel has turned time stamping on.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` without `CAP_NET_RAW`, `NetworkDown` where the device
    /// is down, `ENODEV` where there is none of that index.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use smallwrites::sys::{capture::{Capture, Settings}, device};
    ///
    /// let settings = Settings { ignore_outgoing: true, ..Settings::default() };
    /// let mut capture = Capture::open(device::index_of("lo")?, settings)?;
    /// // ... let a connection run ...
    /// for frame in capture.drain()? {
    ///     println!("{:?} {} bytes", frame.stamp, frame.wire_length);
    /// }
    /// assert_eq!(capture.dropped()?, 0, "frames are missing");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn open(index: u32, settings: Settings) -> io::Result<Capture> {
        let doing = |error: io::Error| {
            let remedy = match error.raw_os_error() {
                Some(libc::EPERM) => " (needs CAP_NET_RAW over the network namespace)",
                Some(libc::ENETDOWN) => " (the device is down: bring it up first)",
                _ => "",
            };
            context(error, format!("capture on device {index}{remedy}"))
        };
        // Protocol 0 takes no frames yet, so that none of another device gets
        // in before the bind below.
        let kind = Type::RAW.nonblocking();
        let socket = Socket::new(Domain::PACKET, kind, Some(Protocol::from(0))).map_err(doing)?;
        keep_stamping().map_err(doing)?;
        stamp(&socket).map_err(doing)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1).map_err(doing)?;
        if settings.ignore_outgoing {
            set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1).map_err(doing)?;
        }
        let size = c_int::try_from(settings.receive_buffer).unwrap_or(c_int::MAX);
        // The forced form passes the cap, and is refused in a user namespace.
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, size)
            .or_else(|_| set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, size))
            .map_err(doing)?;
        bind(&socket, index).map_err(doing)?;
        // A bind to a device that is down succeeds and leaves an error behind
        // for whatever call comes next.
        if let Some(pending) = socket.take_error().map_err(doing)? {
            return Err(doing(pending));
        }
        let buffer = vec![0; LARGEST_FRAME].into_boxed_slice();
        Ok(Capture { socket, buffer, dropped: 0 })
    }

    /// The size of the receive buffer that was granted, bytes, in the kernel's
    /// own account: twice what was asked for, or less where it was capped. One
    /// small frame takes about 800 of them.
    ///
    /// # Errors
    ///
    /// The kernel's own.
    pub fn receive_buffer(&self) -> io::Result<usize> {
        self.socket.recv_buffer_size()
    }

    /// The next frame that waits, `None` where none does. Never blocks; use
    /// [`wait`](super::transfer::wait) for that.
    ///
    /// # Errors
    ///
    /// The kernel's own: `NetworkDown` once when the device went down.
    /// `InvalidData` for a frame without a time stamp.
    pub fn next_frame(&mut self) -> io::Result<Option<RawFrame>> {
        match receive(&self.socket, &mut self.buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            other => other.map(Some),
        }
    }

    /// Every frame that waits, in the order the kernel saw them.
    ///
    /// # Errors
    ///
    /// As for [`next_frame`](Capture::next_frame); the frames taken before the
    /// error are lost with it.
    pub fn drain(&mut self) -> io::Result<Vec<RawFrame>> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next_frame()? {
            frames.push(frame);
        }
        Ok(frames)
    }

    /// How many frames were lost since the beginning because the receive buffer
    /// was full (`PACKET_STATISTICS`). Anything but 0 makes what was captured
    /// worthless as evidence of absence.
    ///
    /// # Errors
    ///
    /// The kernel's own.
    pub fn dropped(&mut self) -> io::Result<u64> {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the socket is open; the kernel writes at most `length` bytes,
        // which is the size of `statistics`.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        })?;
        // Reading clears it in the kernel.
        self.dropped += u64::from(statistics.tp_drops);
        Ok(self.dropped)
    }

    /// Puts a frame on the device, from its Ethernet header on, as it is.
    /// Never blocks.
    ///
    /// # Errors
    ///
    /// The kernel's own: `WouldBlock` or `ENOBUFS` where there is no room,
    /// `EMSGSIZE` for more than the MTU, `NetworkDown` where the device is
    /// down.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // A packet socket sends a frame whole or not at all.
        self.socket.send(frame).map(drop)
    }
}

impl AsFd for Capture {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture")
            .field("socket", &self.socket.as_raw_fd())
            .field("dropped", &self.dropped)
            .finish_non_exhaustive()
    }
}

fn set(socket: &Socket, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the socket is open; the kernel reads exactly the size of `value`
    // from a pointer to it.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

fn bind(socket: &Socket, index: u32) -> io::Result<()> {
    let mut address = link_address();
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = c_int::try_from(index)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("device index {index} is too large")))?;
    // SAFETY: the socket is open; the kernel reads as many bytes as said from a
    // pointer to an address of that size.
    check(unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    })?;
    Ok(())
}

fn link_address() -> libc::sockaddr_ll {
    // SAFETY: sockaddr_ll is integers and bytes only, for which zero is valid.
    unsafe { mem::zeroed() }
}

/// Room for the two control messages asked for, aligned as a `cmsghdr`.
#[repr(C, align(8))]
struct Control([u8; 256]);

fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<RawFrame> {
    let mut from = link_address();
    let mut control = Control([0; 256]);
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is integers and pointers only, for which zero is valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control.0).cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: the socket is open; each pointer in `message` goes to a live
    // value of the length beside it, and none is touched meanwhile.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let length = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;

    // SAFETY: the kernel has filled the control buffer of `message`.
    let (stamp, auxiliary) = unsafe { read_control(&message) };
    let stamp = stamp
        .and_then(|time| {
            let seconds = u64::try_from(time.tv_sec).ok()?;
            Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?))
        })
        .ok_or_else(|| {
            malformed(
                "captured frame without a time stamp: the kernel had not turned stamping on \
                 yet, so repeat the trial",
            )
        })?;
    let auxiliary = auxiliary.ok_or_else(|| malformed("captured frame without PACKET_AUXDATA"))?;
    Ok(RawFrame {
        stamp,
        outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
        bytes: buffer[..length].to_vec(),
        wire_length: auxiliary.tp_len as usize,
        checksum_ready: auxiliary.tp_status & libc::TP_STATUS_CSUMNOTREADY == 0,
    })
}

/// Takes the time stamp and the auxiliary data out of a received message.
///
/// # Safety
///
/// `message` must be as `recvmsg` left it, its control buffer alive.
unsafe fn read_control(message: &libc::msghdr) -> (Option<libc::timespec>, Option<libc::tpacket_auxdata>) {
    let (mut stamp, mut auxiliary) = (None, None);
    // SAFETY: by the contract the control buffer is alive and holds what the
    // kernel wrote, which is what the CMSG functions walk over.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: not null, so it points to a whole header in that buffer.
        let cmsghdr { cmsg_level: level, cmsg_type: kind, cmsg_len: length, .. } =
            unsafe { ptr::read_unaligned(header) };
        // SAFETY: as above.
        let data: *const c_void = unsafe { libc::CMSG_DATA(header) }.cast();
        // The length's type differs between C libraries.
        let length = u64::try_from(length).unwrap_or(0);
        // SAFETY: CMSG_LEN only computes.
        let holds = |size: usize| length >= u64::from(unsafe { libc::CMSG_LEN(size as u32) });
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) && holds(size_of::<libc::timespec>()) {
            // The first of three, the one taken by software.
            // SAFETY: the message holds as many bytes as a timespec has, and
            // any are a valid one.
            stamp = Some(unsafe { ptr::read_unaligned(data.cast()) });
        } else if (level, kind) == (libc::SOL_PACKET, libc::PACKET_AUXDATA) && holds(size_of::<libc::tpacket_auxdata>())
        {
            // SAFETY: as above, for integers only.
            auxiliary = Some(unsafe { ptr::read_unaligned(data.cast()) });
        }
        // SAFETY: `header` came from this message.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    (stamp, auxiliary)
}

#[cfg(test)]
mod tests;
