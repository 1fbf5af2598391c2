//! What the relay between two connections does in a play that one thread owns.

use super::connection::Between;
use super::{PlayError, call};
use crate::observation::Socket as Name;
use crate::sys::transfer::{self, Flags, Interest};
use socket2::Socket;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};

/// The most that the relay reads at once.
const BUFFER: usize = 1 << 16;

/// One of the directions in which a relay forwards.
#[derive(Debug)]
pub(super) struct Forward<'a> {
    from: &'a Socket,
    to: &'a Socket,
    /// The socket that it writes to.
    pub(super) name: Name,
    buffer: Vec<u8>,
    /// How much of the buffer was read, and how much of that was written on.
    read: usize,
    written: usize,
}

/// What one attempt at going on came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forwarded {
    /// A message of so many bytes has been written on; it was read in one call.
    All(u32),
    /// A part of one has.
    Part,
    /// There is nothing to read.
    Nothing,
    /// There is no room for so many bytes that were read.
    Full(u32),
}

impl<'a> Forward<'a> {
    /// Both directions in the order in which they are served.
    pub(super) fn both(relay: &'a Between) -> [Self; 2] {
        let (front, back) = (&relay.towards_client, &relay.towards_server);
        [(front, back, Name::RelayTowardsServer), (back, front, Name::RelayTowardsClient)]
            .map(|(from, to, name)| Self { from, to, name, buffer: vec![0; BUFFER], read: 0, written: 0 })
    }

    /// Reads what is there, if everything that was read has been written on, and writes it.
    pub(super) fn attempt(&mut self) -> Result<Forwarded, PlayError> {
        if self.written == self.read {
            (self.read, self.written) = match transfer::receive(self.from, &mut self.buffer) {
                Ok(read) => (read, 0),
                Err(error) if error.kind() == ErrorKind::WouldBlock => (0, 0),
                Err(error) => return Err(call("receive in the relay")(error)),
            };
            if self.read == 0 {
                return Ok(Forwarded::Nothing);
            }
        }
        let count = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        match transfer::send(self.to, &self.buffer[self.written..self.read], Flags::default()) {
            Ok(sent) => self.written += sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Ok(Forwarded::Full(count(self.read - self.written)));
            }
            Err(error) => return Err(call("send from the relay")(error)),
        }
        Ok(if self.written == self.read { Forwarded::All(count(self.read)) } else { Forwarded::Part })
    }

    /// What it waits for when it can't go on.
    pub(super) fn waits(&self) -> (BorrowedFd<'_>, Interest) {
        if self.written < self.read { (self.to.as_fd(), Interest::WRITE) } else { (self.from.as_fd(), Interest::READ) }
    }
}
