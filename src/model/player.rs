//! Plays the two scripts against the two sockets, in a fixed order, on a virtual clock.

use super::connection::Connection;
use super::facts::Facts;
use super::prediction::{Ended, Prediction, Request, Stuck, Unpredictable, Wait};
use super::rules::Rules;
use super::timeline::Event;
use crate::exchange::{Exchange, Opt, Script, Setting, Side, Sides, Step};

/// A step as the player takes it.
#[derive(Debug, Clone, Copy)]
enum Action {
    Write { bytes: u32, more: bool, record: bool },
    Read(u32),
    Pause(u64),
    Set(Setting),
}

/// Where one side is in its script.
#[derive(Debug)]
struct Progress {
    actions: Vec<Action>,
    next: usize,
    /// Bytes still to read in the step begun.
    to_read: Option<u64>,
    /// When the pause begun is over.
    until_us: Option<u64>,
}

/// See [`predict_with`](super::predict_with).
pub(super) fn play(
    exchange: &Exchange,
    facts: &Facts,
    rules: Rules,
    requests: u32,
) -> Result<Prediction, Unpredictable> {
    if exchange.relay.is_some() {
        return Err(Unpredictable::Relay);
    }
    let mut player = Player {
        connection: Connection::new(facts, rules),
        sides: Sides {
            client: Progress::new(actions(&exchange.client)?),
            server: Progress::new(actions(&exchange.server)?),
        },
        request: Request::default(),
    };
    player.open(exchange)?;
    let mut done = Vec::with_capacity(requests as usize);
    let mut stuck = None;
    for number in 0..requests {
        match player.play_request(number) {
            Ok(request) => done.push(request),
            Err(steps) => {
                stuck = Some(Stuck { request: number, steps });
                break;
            }
        }
    }
    Ok(Prediction { requests: done, stuck, timeline: player.connection.timeline })
}

struct Player {
    connection: Connection,
    sides: Sides<Progress>,
    request: Request,
}

impl Player {
    /// Sets the options of the groups before the first step: what an accepted socket inherits, then what is set on
    /// the open connection, the client's first.
    fn open(&mut self, exchange: &Exchange) -> Result<(), Unpredictable> {
        for side in Side::BOTH {
            let script = exchange.script(side);
            for setting in script.bound.iter().chain(&script.listening) {
                let listens = side == Side::Server && script.bound.contains(setting);
                // `listen` forgets it (`inet_csk_delack_init`).
                if supported(*setting)? && !(listens && setting.option == Opt::QuickAck) {
                    self.connection.set(side, *setting);
                }
            }
        }
        for side in Side::BOTH {
            for setting in &exchange.script(side).opened {
                if supported(*setting)? {
                    self.connection.set(side, *setting);
                }
            }
        }
        Ok(())
    }

    /// Plays one request: each side in turn runs until it must wait; if neither got on, the clock moves to the next
    /// timer or the end of the next pause. `Err` says where both sides stand if that leads nowhere.
    fn play_request(&mut self, number: u32) -> Result<Request, Sides<usize>> {
        self.connection.timeline.begin(number);
        let before = self.connection.counts;
        self.request.pingpong_before = self.pingpong();
        for side in Side::BOTH {
            self.sides[side].next = 0;
        }
        let mut waiting_since = None;
        let mut cause = Ended::Pause;
        loop {
            let client = self.run(Side::Client);
            let server = self.run(Side::Server);
            if client || server {
                if let Some(tick) = waiting_since.take() {
                    self.request.waits.push(Wait { ticks: self.connection.env.now - tick, ended_by: cause });
                }
                cause = Ended::Pause;
            } else if self.sides.client.finished() && self.sides.server.finished() {
                break;
            } else {
                waiting_since.get_or_insert(self.connection.env.now);
                cause = self.wait().ok_or(Sides::from_fn(|side| self.sides[side].next))?.unwrap_or(Ended::Pause);
            }
        }
        let mut request = std::mem::take(&mut self.request);
        for side in Side::BOTH {
            let (now, then) = (self.connection.counts[side], before[side]);
            request.delayed_acks[side] = now.delayed_acks - then.delayed_acks;
            request.data_segments[side] = now.data_segments - then.data_segments;
            request.bare_acks[side] = now.bare_acks - then.bare_acks;
            request.quick_acks[side] = self.connection.sockets[side].receiver.quick;
        }
        request.pingpong_after = self.pingpong();
        Ok(request)
    }

    fn pingpong(&self) -> Sides<bool> {
        Sides::from_fn(|side| self.connection.sockets[side].receiver.in_pingpong_mode(&self.connection.env))
    }

    /// Moves the clock to whatever comes next, and says what that let go of. `None` if nothing will come.
    fn wait(&mut self) -> Option<Option<Ended>> {
        let timer = self.connection.next_timer().map(|tick| self.connection.env.tick_us(tick));
        let pauses = [self.sides.client.until_us, self.sides.server.until_us];
        let next = pauses.into_iter().chain([timer]).flatten().min()?;
        self.connection.env.advance(next);
        let released = self.connection.run_timers();
        Some(released.map(|(side, persist)| if persist { Ended::PersistTimer(side) } else { Ended::DelayedAck(side) }))
    }

    /// Runs one side until it has finished or must wait. Returns whether it got on.
    fn run(&mut self, side: Side) -> bool {
        let mut got_on = false;
        while let Some(&action) = self.sides[side].actions.get(self.sides[side].next) {
            match action {
                Action::Write { bytes, more, record } => {
                    self.connection.write(side, bytes, more, record);
                    self.request.held[side].push(self.connection.sockets[side].sender.held());
                }
                Action::Read(bytes) => {
                    let left = self.sides[side].to_read.unwrap_or(u64::from(bytes));
                    if left > 0 {
                        let read = self.connection.read(side, left);
                        self.sides[side].to_read = Some(left - read);
                        if read == 0 {
                            return got_on;
                        }
                        got_on = true;
                        if read < left {
                            continue;
                        }
                    }
                    self.sides[side].to_read = None;
                }
                Action::Pause(us) => {
                    let now = self.connection.env.now_us;
                    if self.sides[side].until_us.is_none() {
                        self.connection.note(side, Event::Pause { us });
                    }
                    let until = *self.sides[side].until_us.get_or_insert(now + us);
                    if now < until {
                        return got_on;
                    }
                    self.sides[side].until_us = None;
                }
                Action::Set(setting) => self.connection.set(side, setting),
            }
            got_on = true;
            self.sides[side].next += 1;
        }
        got_on
    }
}

impl Progress {
    fn new(actions: Vec<Action>) -> Self {
        Self { actions, next: 0, to_read: None, until_us: None }
    }

    fn finished(&self) -> bool {
        self.next >= self.actions.len()
    }
}

/// Whether an option acts on the model's connection; `mss` acts before the handshake, so through the facts.
fn supported(setting: Setting) -> Result<bool, Unpredictable> {
    match setting.option {
        Opt::NoDelay | Opt::Cork | Opt::QuickAck => Ok(true),
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
        Step::ZeroCopy(_) => return Err(Unpredictable::ZeroCopy),
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
