//! One side of a connection with its script.

use super::{PlayError, Waiting, call};
use crate::exchange::{Opt, Setting, Side, Step};
use crate::observation::Socket as Name;
use crate::sys::messages;
use crate::sys::options::{self, SocketOption};
use crate::sys::transfer::{self, Flags};
use socket2::Socket;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// No single call reads more, so that a long read needs no long buffer.
const READ_AT_ONCE: usize = 1 << 20;

/// A socket and the script that one side plays on it.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) side: Side,
    pub(super) socket: Socket,
    steps: Vec<Step>,
    at: usize,
    done: u32,
    resume: Option<Instant>,
    /// Bytes written and read since the connection opened.
    pub(super) written: u64,
    pub(super) read: u64,
    bytes: Vec<u8>,
    file: Option<File>,
    /// Whether completions of `MSG_ZEROCOPY` come in the socket's error queue.
    completes: bool,
}

/// What one attempt at the current step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The step is done.
    Done,
    /// Part of it is.
    Part,
    /// It cannot go on before this.
    Blocked(Need),
    /// A read met the end of the stream, or a write came after it.
    Closed,
}

/// What a side waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Readable,
    Writable,
    Until(Instant),
}

impl Endpoint {
    pub(super) fn new(side: Side, socket: Socket, steps: Vec<Step>) -> Result<Self, PlayError> {
        let longest = |step: &Step| match step {
            Step::Read(n) => (*n as usize).min(READ_AT_ONCE),
            Step::SendFile { .. } => 0,
            // A byte between two buffers keeps them apart.
            Step::ZeroCopy(parts) => usize::try_from(step.written()).unwrap_or(usize::MAX).saturating_add(parts.len()),
            step => usize::try_from(step.written()).unwrap_or(usize::MAX),
        };
        let bytes = vec![b'x'; steps.iter().map(longest).max().unwrap_or(0)];
        let file = steps.iter().filter(|step| matches!(step, Step::SendFile { .. })).map(Step::written).max();
        let file =
            file.map(|_| transfer::memory_file("smallwrites", 0)).transpose().map_err(call("make a file in memory"))?;
        let completes = steps.iter().any(|step| matches!(step, Step::ZeroCopy(_)));
        if completes {
            options::set(&socket, SocketOption::ZeroCopy, 1).map_err(call("switch MSG_ZEROCOPY on"))?;
        }
        Ok(Self { side, socket, steps, at: 0, done: 0, resume: None, written: 0, read: 0, bytes, file, completes })
    }

    pub(super) fn name(&self) -> Name {
        self.side.into()
    }

    pub(super) fn current(&self) -> Option<&Step> {
        self.steps.get(self.at)
    }

    /// Back to the first step, for the next request.
    pub(super) fn rewind(&mut self) {
        self.at = 0;
    }

    pub(super) fn finished(&self) -> bool {
        self.at == self.steps.len()
    }

    /// Whether only pauses have been taken since the request began.
    pub(super) fn is_idle(&self) -> bool {
        self.steps[..self.at].iter().all(|step| matches!(step, Step::Pause(_)))
    }

    /// Whether a write can come after a shutdown: in a later step, or in a later request.
    fn has_shut_down(&self) -> bool {
        self.steps.contains(&Step::Shutdown)
    }

    /// Bytes that the current read needs altogether since the connection opened.
    pub(super) fn wanted(&self) -> Option<u64> {
        match self.current()? {
            Step::Read(n) => Some(self.read + u64::from(n - self.done)),
            _ => None,
        }
    }

    /// Bytes of the current write that were not yet taken.
    pub(super) fn left(&self) -> u32 {
        let written = self.current().map_or(0, |step| u32::try_from(step.written()).unwrap_or(u32::MAX));
        written.saturating_sub(self.done)
    }

    pub(super) fn waiting(&self) -> Waiting {
        Waiting { side: self.side, number: self.at + 1, step: self.current().cloned(), done: self.done }
    }

    /// Makes one system call of the current step.
    pub(super) fn attempt(&mut self) -> Result<Attempt, PlayError> {
        let Some(step) = self.steps.get(self.at).cloned() else { return Ok(Attempt::Done) };
        // A completion that nobody takes would end every wait for the socket at once.
        while self.completes && messages::completion(&self.socket).map_err(call("read the error queue"))?.is_some() {}
        let attempt = match &step {
            Step::Write(n) => self.send(*n, Flags::NONE),
            Step::More(n) => self.send(*n, Flags::MORE),
            Step::Record(n) => self.send(*n, Flags { eor: true, ..Flags::NONE }),
            Step::Vector(parts) => self.send_vector(parts, Flags::NONE),
            Step::ZeroCopy(parts) => self.send_vector(parts, Flags { zero_copy: true, ..Flags::NONE }),
            Step::SendFile { length, beyond } => self.send_file(*length, *beyond),
            Step::Read(n) => self.receive(*n),
            Step::Pause(us) => Ok(self.pause(Duration::from_micros(*us))),
            Step::Set(setting) => set(&self.socket, self.name(), *setting).map(|()| Attempt::Done),
            Step::Shutdown => self.socket.shutdown(Shutdown::Write).map_err(call("shut down")).map(|()| Attempt::Done),
            Step::Repeat(..) => Ok(Attempt::Done),
        }?;
        if attempt == Attempt::Done {
            self.at += 1;
            self.done = 0;
        }
        Ok(attempt)
    }

    fn send(&mut self, n: u32, flags: Flags) -> Result<Attempt, PlayError> {
        let rest = &self.bytes[..(n - self.done) as usize];
        let sent = transfer::send(&self.socket, rest, Flags { dont_wait: true, ..flags });
        self.wrote(n, sent, "send")
    }

    fn send_vector(&mut self, parts: &[u32], flags: Flags) -> Result<Attempt, PlayError> {
        let mut skip = self.done;
        let mut pieces = Vec::with_capacity(parts.len());
        let mut at = 0;
        for &part in parts {
            let skipped = skip.min(part);
            skip -= skipped;
            let length = (part - skipped) as usize;
            pieces.push(IoSlice::new(&self.bytes[at..at + length]));
            // What is copied may come from anywhere; what is not would be one piece for the kernel if it lay together.
            at += if flags.zero_copy { length + 1 } else { 0 };
        }
        let sent = transfer::send_vectored_with(&self.socket, &pieces, Flags { dont_wait: true, ..flags });
        self.wrote(parts.iter().sum(), sent, "send a vector")
    }

    fn send_file(&mut self, length: u32, beyond: u32) -> Result<Attempt, PlayError> {
        let file = self.file.as_ref().ok_or_else(|| call("send a file")(ErrorKind::NotFound.into()))?;
        if self.done == 0 {
            file.set_len(u64::from(length)).map_err(call("size a file in memory"))?;
        }
        let count = (length - self.done + beyond) as usize;
        let sent = transfer::send_file(&self.socket, file, u64::from(self.done), count);
        self.wrote(length, sent, "send a file")
    }

    fn wrote(&mut self, n: u32, sent: io::Result<usize>, doing: &'static str) -> Result<Attempt, PlayError> {
        match sent {
            Ok(sent) => {
                self.written += sent as u64;
                self.done += sent as u32;
                Ok(if self.done >= n { Attempt::Done } else { Attempt::Part })
            }
            // The peer reads on until it has read everything, so the only end that a write meets is its own side's.
            Err(error) if error.kind() == ErrorKind::BrokenPipe && self.has_shut_down() => Ok(Attempt::Closed),
            Err(error) => blocked(error, Need::Writable, doing),
        }
    }

    fn receive(&mut self, n: u32) -> Result<Attempt, PlayError> {
        let rest = ((n - self.done) as usize).min(READ_AT_ONCE);
        match transfer::receive(&self.socket, &mut self.bytes[..rest]) {
            Ok(0) => Ok(Attempt::Closed),
            Ok(got) => {
                self.read += got as u64;
                self.done += got as u32;
                Ok(if self.done == n { Attempt::Done } else { Attempt::Part })
            }
            Err(error) => blocked(error, Need::Readable, "receive"),
        }
    }

    fn pause(&mut self, pause: Duration) -> Attempt {
        let until = *self.resume.get_or_insert_with(|| Instant::now() + pause);
        if Instant::now() < until {
            return Attempt::Blocked(Need::Until(until));
        }
        self.resume = None;
        Attempt::Done
    }
}

fn blocked(error: io::Error, need: Need, doing: &'static str) -> Result<Attempt, PlayError> {
    match error.kind() {
        ErrorKind::WouldBlock => Ok(Attempt::Blocked(need)),
        ErrorKind::Interrupted => Ok(Attempt::Part),
        _ => Err(call(doing)(error)),
    }
}

/// Sets one option of the notation on a socket.
pub(super) fn set(socket: &Socket, name: Name, setting: Setting) -> Result<(), PlayError> {
    let option = match setting.option {
        Opt::NoDelay => SocketOption::NoDelay,
        Opt::Cork => SocketOption::Cork,
        Opt::QuickAck => SocketOption::QuickAck,
        Opt::Mss => SocketOption::MaxSeg,
        Opt::DelackMax => SocketOption::DelackMaxUs,
        Opt::RtoMin => SocketOption::RtoMinUs,
        Opt::NotSentLowat => SocketOption::NotSentLowat,
        Opt::DeferAccept => SocketOption::DeferAccept,
        Opt::ReceiveLowat => SocketOption::ReceiveLowWater,
        Opt::SendBuffer => SocketOption::SendBuffer,
        Opt::ReceiveBuffer => SocketOption::ReceiveBuffer,
    };
    options::set(socket, option, setting.value).map_err(|source| PlayError::Option { socket: name, setting, source })
}
