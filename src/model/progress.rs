//! A script, played against its socket until it must wait.

use super::host::Host;
use super::prediction::{Request, Unpredictable};
use super::timeline::Event;
use crate::exchange::{Opt, Script, Setting, Socket as Name, Step};

/// A step as the script takes it.
#[derive(Debug, Clone, Copy)]
enum Action {
    Write { bytes: u32, more: bool, record: bool },
    Read(u32),
    Pause(u64),
    Set(Setting),
}

/// Where one side is in its script.
#[derive(Debug)]
pub(super) struct Progress {
    at: Name,
    actions: Vec<Action>,
    /// The step that is next.
    pub(super) next: usize,
    /// Bytes still to read in the step begun.
    to_read: Option<u64>,
    /// Bytes written of the step begun.
    written: u32,
    /// When the pause begun is over.
    pub(super) until_us: Option<u64>,
}

impl Progress {
    pub(super) fn new(at: Name, script: &Script) -> Result<Self, Unpredictable> {
        Ok(Self { at, actions: actions(script)?, next: 0, to_read: None, written: 0, until_us: None })
    }

    pub(super) fn finished(&self) -> bool {
        self.next >= self.actions.len()
    }

    /// Whether it waits for its socket: it has steps left and doesn't pause.
    pub(super) fn waits(&self) -> bool {
        !self.finished() && self.until_us.is_none()
    }

    /// Runs until the script has ended or must wait. Returns whether it got on.
    pub(super) fn run(&mut self, host: &mut Host, request: &mut Request) -> bool {
        let at = self.at;
        let mut got_on = false;
        while let Some(&action) = self.actions.get(self.next) {
            match action {
                Action::Write { bytes, more, record } => {
                    let left = bytes - self.written;
                    let taken = host.write(at, left, more, record);
                    if taken < left {
                        self.written += taken;
                        if taken == 0 {
                            return got_on;
                        }
                        got_on = true;
                        continue;
                    }
                    self.written = 0;
                    request.held[at].push(host.sockets[at].sender.held());
                }
                Action::Read(bytes) => {
                    let left = self.to_read.unwrap_or(u64::from(bytes));
                    if left > 0 {
                        let read = host.read(at, left);
                        self.to_read = Some(left - read);
                        if read == 0 {
                            return got_on;
                        }
                        got_on = true;
                        if read < left {
                            continue;
                        }
                    }
                    self.to_read = None;
                }
                Action::Pause(us) => {
                    let now = host.env.now_us;
                    if self.until_us.is_none() {
                        host.note(at, Event::Pause { us });
                    }
                    let until = *self.until_us.get_or_insert(now + us);
                    if now < until {
                        return got_on;
                    }
                    self.until_us = None;
                }
                Action::Set(setting) => host.set(at, setting),
            }
            got_on = true;
            self.next += 1;
        }
        got_on
    }
}

/// Whether an option acts on the model's connections; `mss` acts before the handshake, so through the facts.
pub(super) fn supported(setting: Setting) -> Result<bool, Unpredictable> {
    match setting.option {
        Opt::NoDelay | Opt::Cork | Opt::QuickAck | Opt::SendBuffer => Ok(true),
        Opt::Mss => Ok(false),
        other => Err(Unpredictable::Option(other)),
    }
}

fn actions(script: &Script) -> Result<Vec<Action>, Unpredictable> {
    let mut out = Vec::with_capacity(script.steps.len());
    script.steps.iter().try_for_each(|step| push_actions(step, &mut out))?;
    Ok(out)
}

/// What the pipe between a file and a socket takes at once: 16 pages (`splice_direct_to_actor`).
const PIPE_BYTES: u32 = 65_536;

fn push_actions(step: &Step, out: &mut Vec<Action>) -> Result<(), Unpredictable> {
    let write = |bytes, more, record| Action::Write { bytes, more, record };
    out.push(match step {
        Step::Write(bytes) => write(*bytes, false, false),
        Step::More(bytes) => write(*bytes, true, false),
        Step::Record(bytes) => write(*bytes, false, true),
        Step::Vector(parts) => write(parts.iter().sum(), false, false),
        Step::Read(bytes) => Action::Read(*bytes),
        Step::Pause(us) => Action::Pause(*us),
        Step::Set(setting) => {
            if !supported(*setting)? {
                return Ok(());
            }
            Action::Set(*setting)
        }
        // The pages of a file that fits the pipe in between leave in one push, as one write does.
        Step::SendFile { length, beyond: 0 } if *length <= PIPE_BYTES => write(*length, false, false),
        Step::SendFile { .. } => return Err(Unpredictable::SendFile),
        Step::ZeroCopy(_) => return Err(Unpredictable::ZeroCopy),
        Step::Shutdown => return Err(Unpredictable::Shutdown),
        Step::Repeat(steps, times) => {
            for _ in 0..*times {
                steps.iter().try_for_each(|step| push_actions(step, out))?;
            }
            return Ok(());
        }
    });
    Ok(())
}
