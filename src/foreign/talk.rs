//! Messages between a program and us, and how each of the program's left its socket.

use super::{Foreign, ForeignError, call};
use crate::sys::counters;
use crate::sys::options::{self, SocketOption};
use crate::sys::tcp_info::TcpInfo;
use crate::sys::transfer::{self, Flags};
use socket2::Socket;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;

/// A connection between a program and us, whose end delays every ACK that it may delay.
#[derive(Debug)]
pub struct Talk<'a> {
    foreign: &'a Foreign,
    ours: Socket,
    theirs: OwnedFd,
    heard: Vec<u8>,
    segments: Option<u32>,
}

/// How one message of the program's left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The data segments that carried it, retransmissions left out.
    pub segments: Option<u32>,
    /// The most bytes seen held back in the program's socket behind unacknowledged ones.
    pub held: u32,
    /// How many of our own delayed ACKs went out meanwhile (`TcpExtDelayedACKs` of the lab).
    pub delayed_acks: Option<i64>,
}

impl<'a> Talk<'a> {
    /// A talk over a connection, given our end of it.
    ///
    /// # Errors
    ///
    /// Where the program's end cannot be found.
    pub fn new(foreign: &'a Foreign, ours: Socket) -> Result<Self, ForeignError> {
        // Ours never waits for anything: what is measured is the other end.
        options::set(&ours, SocketOption::NoDelay, 1).map_err(call("set TCP_NODELAY on our end".to_owned()))?;
        delay_acks(&ours)?;
        let theirs = foreign.other_end(&ours)?;
        Ok(Self { foreign, ours, theirs, heard: Vec::new(), segments: Some(0) })
    }

    /// Whether the program's socket has `TCP_NODELAY` set now.
    ///
    /// # Errors
    ///
    /// The kernel's own.
    pub fn nodelay(&self) -> Result<bool, ForeignError> {
        let read = options::get(&self.theirs, SocketOption::NoDelay);
        Ok(read.map_err(call(format!("read TCP_NODELAY of {}", self.foreign.name)))? != 0)
    }

    /// Clears `TCP_NODELAY` on the program's socket, behind its back.
    ///
    /// # Errors
    ///
    /// The kernel's own.
    pub fn take_nodelay_away(&self) -> Result<(), ForeignError> {
        let cleared = options::set(&self.theirs, SocketOption::NoDelay, 0);
        cleared.map_err(call(format!("clear TCP_NODELAY of {}", self.foreign.name)))
    }

    /// Sends a message of ours in one write.
    ///
    /// # Errors
    ///
    /// The kernel's own.
    pub fn say(&self, message: &[u8]) -> Result<(), ForeignError> {
        let sent = transfer::send(&self.ours, message, Flags::default());
        sent.map_err(call(format!("send to {}", self.foreign.name)))?;
        delay_acks(&self.ours)
    }

    /// Reads the program's next message, which `whole` recognises by its bytes.
    ///
    /// # Errors
    ///
    /// Where the program ends, closes, or sends nothing more in time.
    pub fn hear(&mut self, whole: impl Fn(&[u8]) -> bool) -> Result<Message, ForeignError> {
        let before = delayed_acks();
        let mut held = 0;
        let (foreign, ours, theirs, heard) = (self.foreign, &self.ours, &self.theirs, &mut self.heard);
        let mut buffer = [0; 1 << 14];
        let mut closed = false;
        foreign.until("a message of its own was awaited", Some(ours), || {
            loop {
                match transfer::receive(ours, &mut buffer) {
                    Ok(0) => closed = true,
                    Ok(got) => heard.extend_from_slice(&buffer[..got]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
                if closed || whole(heard) {
                    return Ok(Some(()));
                }
            }
            // TCP_INFO is read under the socket's lock, so a write that is on its way is not taken for a held one.
            let info = TcpInfo::read(theirs)?;
            if info.unacked > Some(0) {
                held = held.max(info.notsent_bytes.unwrap_or(0));
            }
            Ok(None)
        })?;
        let bytes = std::mem::take(&mut self.heard);
        if closed && !whole(&bytes) {
            let (program, said) = (self.foreign.name.clone(), self.foreign.said());
            return Err(ForeignError::Closed { program, bytes: bytes.len(), said });
        }
        let info = TcpInfo::read(&self.theirs).map_err(call(format!("read TCP_INFO of {}", self.foreign.name)))?;
        let sent = info.data_segments();
        let segments = sent.zip(self.segments).map(|(now, then)| now.saturating_sub(then));
        self.segments = sent;
        let delayed_acks = delayed_acks().zip(before).map(|(after, before)| after as i64 - before as i64);
        Ok(Message { bytes, segments, held, delayed_acks })
    }
}

impl Message {
    /// Whether part of it waited in the program's socket until our delayed ACK let it go.
    #[must_use]
    pub fn stalled(&self) -> bool {
        self.held > 0 && self.delayed_acks.is_some_and(|fired| fired > 0)
    }
}

/// Has our end delay its ACKs, as one does that has answered promptly so often as the kernel asks for. A reply that came
/// late ends it, so it is asked for again after each.
fn delay_acks(ours: &Socket) -> Result<(), ForeignError> {
    options::set(ours, SocketOption::QuickAck, 0).map_err(call("have our end delay its ACKs".to_owned()))
}

fn delayed_acks() -> Option<u64> {
    counters::read_named(&["TcpExtDelayedACKs"]).ok()?.first().copied().flatten()
}
