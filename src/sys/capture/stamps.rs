//! The kernel's time stamps of frames: asking for them, and waiting until they are there.

use std::{
    io,
    net::{Ipv4Addr, UdpSocket},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use libc::c_int;
use socket2::{Domain, Protocol, Socket, Type};

use super::{bind, receive, set};
use crate::sys::{device, namespace};

/// Turns time stamps on for good, so that they are on before the first frame.
///
/// The kernel stamps frames only while some socket of the host asks for it, and
/// turns that on from a work queue, a while after the call
/// (`net_enable_timestamp`). A frame that comes earlier has no stamp. So one
/// socket of this process asks and never stops, and only the first capture has
/// to wait. That socket keeps one network namespace alive until the process
/// ends.
pub(super) fn keep_stamping() -> io::Result<()> {
    /// Longer than a work queue takes on a machine with a CPU to spare.
    const WORK_QUEUE: Duration = Duration::from_millis(50);
    static KEEPER: Mutex<Option<Socket>> = Mutex::new(None);
    // A panic cannot leave the socket half made.
    let mut keeper = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
    if keeper.is_none() {
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0)))?;
        stamp(&socket)?;
        let seen = thread::Builder::new().name("stamps".to_owned()).spawn(see_stamps)?.join();
        if !matches!(seen, Ok(Ok(()))) {
            // Without a loopback of one's own there is nothing to see them on.
            thread::sleep(WORK_QUEUE);
        }
        *keeper = Some(socket);
    }
    Ok(())
}

/// Asks for stamps by `SO_TIMESTAMPING`. The simpler `SO_TIMESTAMPNS` hides a
/// missing stamp: it reports the time of the reading in its place.
pub(super) fn stamp(socket: &Socket) -> io::Result<()> {
    let wanted = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, wanted as c_int)
}

/// Sends on a loopback of this thread's own until frames have stamps in both
/// directions, each being a place of its own in the kernel's code.
fn see_stamps() -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(5);
    namespace::enter_network_namespace()?;
    let index = device::index_of("lo")?;
    device::set_up(index)?;
    let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), Some(Protocol::from(0)))?;
    stamp(&socket)?;
    set(&socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
    bind(&socket, index)?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let (mut sent, mut came) = (false, false);
    let limit = Instant::now() + PATIENCE;
    while Instant::now() < limit {
        sender.send_to(b"x", sender.local_addr()?)?;
        loop {
            match receive(&socket, &mut [0; 256]) {
                Ok(frame) => *(if frame.outgoing { &mut sent } else { &mut came }) = true,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if sent && came {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Err(io::ErrorKind::TimedOut.into())
}
