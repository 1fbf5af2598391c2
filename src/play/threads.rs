//! Two threads with blocking sockets: taking turns, or running free.

use super::boundary::{Boundary, Lap};
use super::connection::Connection;
use super::endpoint::{Attempt, Endpoint, Need};
use super::ordered::{Run, poll};
use super::watch::{Before, Seen, Watch};
use super::{PlayError, Waiting, call};
use crate::exchange::{Side, Sides, Step};
use crate::lab::Lab;
use crate::observation::Order;
use crate::sys::transfer::Interest;
use socket2::Socket;
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Stack of a playing thread, bytes.
const STACK: usize = 256 << 10;

/// A read that takes longer has waited for a timer or for a CPU.
const LONG: Duration = Duration::from_millis(2);

/// Plays `requests` requests on an open connection; the first is number `first`, from 0.
pub(super) fn run(
    lab: &Lab,
    connection: &mut Connection,
    order: Order,
    deadline: Duration,
    first: u32,
    requests: u32,
) -> Result<Run, PlayError> {
    if connection.relay.is_some() {
        return Err(PlayError::NoRelay(order));
    }
    let turns = (order == Order::Turns).then(|| Turns::new(deadline, first));
    let (client, server) = (&mut connection.client, &mut connection.server);
    let sockets = Sides { client: clone(&client.socket)?, server: clone(&server.socket)? };
    let player = |side: Side| Player {
        turns: turns.as_ref(),
        watch: Watch::new(lab, side.into(), &sockets[side], &sockets[side.peer()], false),
        deadline,
        first,
    };
    let (mut playing_client, mut playing_server) = (player(Side::Client), player(Side::Server));
    thread::scope(|scope| {
        let server =
            thread::Builder::new().name("server".to_owned()).stack_size(STACK).spawn_scoped(scope, move || {
                let played = (0..requests).try_for_each(|request| playing_server.request(server, request).map(drop));
                playing_server.leave();
                played.map(|()| playing_server.watch)
            });
        let server = server.map_err(call("start a thread"))?;
        let ends = Sides { client: &sockets.client, server: &sockets.server }.into();
        let mut boundaries = vec![Boundary::look(lab, &ends)];
        let mut latencies = Vec::with_capacity(requests as usize);
        let played: Result<(), PlayError> = (0..requests).try_for_each(|request| {
            lab.begin(first + request + 1);
            latencies.push(playing_client.request(client, request)?);
            boundaries.push(match order {
                Order::Free if request + 1 < requests => Boundary::glance(&sockets.client, &sockets.server),
                _ => Boundary::look(lab, &ends),
            });
            Ok(())
        });
        playing_client.leave();
        let server = server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // What stopped one side is the cause; that the other then waited in vain is not.
        let in_vain = |error: &PlayError| match error {
            PlayError::Stuck { .. } => 2,
            PlayError::Deadline { .. } => 1,
            _ => 0,
        };
        let server_watch = match (played, server) {
            (Err(client), Err(server)) => {
                return Err(if in_vain(&server) < in_vain(&client) { server } else { client });
            }
            (Err(error), Ok(_)) | (Ok(()), Err(error)) => return Err(error),
            (Ok(()), Ok(watch)) => watch,
        };
        // Both at the end: what the server wrote last may be held until long after its own script has ended.
        let mut seen = Seen::default();
        seen.append(playing_client.watch.end());
        seen.append(server_watch.end());
        Ok(Run { boundaries, latencies, seen })
    })
}

fn clone(socket: &Socket) -> Result<Socket, PlayError> {
    socket.try_clone().map_err(call("duplicate a socket"))
}

struct Player<'a> {
    turns: Option<&'a Turns>,
    watch: Watch<'a>,
    deadline: Duration,
    first: u32,
}

impl Player<'_> {
    fn request(&mut self, side: &mut Endpoint, request: u32) -> Result<Lap, PlayError> {
        let number = self.first + request;
        if let Some(turns) = self.turns {
            turns.begin(side, request)?;
        }
        side.rewind();
        // Whether the peer has had a turn since the write found no room.
        let mut handed_over = false;
        let mut started = Instant::now();
        while let Some(step) = side.current().cloned() {
            if side.is_idle() {
                started = Instant::now();
            }
            if matches!(step, Step::Read(_)) {
                // Its own side has nothing left to do before the peer's bytes come.
                self.watch.waits();
            }
            if let (Some(turns), Step::Read(_)) = (self.turns, &step) {
                turns.until_written(side, request)?;
                self.watch.look(Before::Other);
            }
            let called = matches!(step, Step::Read(_)).then(Instant::now);
            let attempt = side.attempt()?;
            if let Some(called) = called {
                // Looking closely costs nothing after a wait, and would cost a percent of a fast round trip.
                self.watch.thorough = called.elapsed() > LONG || self.turns.is_some();
            }
            match attempt {
                Attempt::Blocked(Need::Until(end)) => thread::sleep(end.saturating_duration_since(Instant::now())),
                // A blocking write would wait without telling, so no write does.
                Attempt::Blocked(Need::Writable) => {
                    self.watch.full(number, &step, side.left());
                    match self.turns {
                        Some(turns) if !handed_over => {
                            turns.until_read(side, request)?;
                            handed_over = true;
                            self.watch.look(Before::Other);
                        }
                        _ => self.waits_for_room(side, number)?,
                    }
                }
                Attempt::Blocked(Need::Readable) => return Err(self.late(side, number)),
                Attempt::Closed => return Err(PlayError::closed(number + 1, side.waiting())),
                Attempt::Part if matches!(step, Step::Read(_)) => self.watch.look(Before::Other),
                Attempt::Part => {
                    handed_over = false;
                    self.watch.has_room();
                }
                Attempt::Done if step.is_write() => {
                    handed_over = false;
                    self.watch.has_room();
                    self.watch.wrote(number, &step);
                    if let Some(turns) = self.turns {
                        turns.wrote(side);
                    }
                }
                Attempt::Done if matches!(step, Step::Read(_) | Step::Pause(_)) => self.watch.look(Before::Other),
                Attempt::Done => {
                    self.watch.look(Before::OwnStep);
                    if let (Some(turns), Step::Shutdown) = (self.turns, &step) {
                        turns.shut_down(side);
                    }
                }
            }
        }
        let latency = started.elapsed();
        // What its script left held has nothing to wait for but the kernel and the peer.
        self.watch.waits();
        if let Some(turns) = self.turns {
            turns.finish(side, request)?;
        }
        Ok(Lap { started: Some(started), latency, ..Lap::default() })
    }

    /// Waits until the send buffer has room for more of a write.
    fn waits_for_room(&mut self, side: &Endpoint, request: u32) -> Result<(), PlayError> {
        self.watch.waits();
        let has_room = poll(&[(side.socket.as_fd(), Interest::WRITE)], self.deadline)?;
        if has_room { Ok(()) } else { Err(self.late(side, request)) }
    }

    fn late(&self, side: &Endpoint, request: u32) -> PlayError {
        PlayError::Deadline { request: request + 1, after: self.deadline, waiting: vec![side.waiting()] }
    }

    fn leave(&mut self) {
        if let Some(turns) = self.turns {
            turns.leave();
        }
    }
}

/// Whose turn it is, and what each side has written and waits for.
struct Turns {
    state: Mutex<State>,
    changed: Condvar,
    deadline: Duration,
    first: u32,
}

struct State {
    turn: Side,
    written: Sides<u64>,
    /// Sides whose write has no room until more is read, or acknowledged.
    full: Sides<bool>,
    /// Bytes that a side wants before it takes its turn again.
    wanted: Sides<Option<(u64, Waiting)>>,
    /// Sides that will write nothing more.
    shut_down: Sides<bool>,
    /// Requests that each side has ended.
    ended: Sides<u32>,
    left: bool,
}

impl State {
    /// Whether the peer has written so many bytes, or any that a side has not read and no more until it does.
    fn can_read(&self, side: &Endpoint, wanted: u64) -> bool {
        let peer = side.side.peer();
        self.written[peer] >= wanted || (self.full[peer] && self.written[peer] > side.read)
    }

    /// Every side that waits for bytes, the client first.
    fn waiting(&self) -> Vec<Waiting> {
        self.wanted.each().into_iter().filter_map(|(_, wanted)| Some(wanted.as_ref()?.1.clone())).collect()
    }
}

impl Turns {
    fn new(deadline: Duration, first: u32) -> Self {
        let state = State {
            turn: Side::Client,
            written: Sides::default(),
            full: Sides::default(),
            wanted: Sides { client: None, server: None },
            shut_down: Sides::default(),
            ended: Sides::default(),
            left: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), deadline, first }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Both sides meet at the start of a request; the client goes first.
    fn begin(&self, side: &Endpoint, request: u32) -> Result<(), PlayError> {
        let at = side.side;
        self.until(side, request, |state| state.ended[at.peer()] >= request && state.turn == at)
    }

    fn wrote(&self, side: &Endpoint) {
        self.lock().written[side.side] = side.written;
    }

    fn shut_down(&self, side: &Endpoint) {
        self.lock().shut_down[side.side] = true;
    }

    /// Hands over where a write has no room, so that the peer reads what was written.
    fn until_read(&self, side: &Endpoint, request: u32) -> Result<(), PlayError> {
        let at = side.side;
        {
            let mut state = self.lock();
            state.written[at] = side.written;
            if state.ended[at.peer()] > request {
                return Ok(());
            }
            state.full[at] = true;
            state.turn = at.peer();
            self.changed.notify_all();
        }
        self.until(side, request, |state| state.turn == at)?;
        self.lock().full[at] = false;
        Ok(())
    }

    /// Hands over while the peer has not yet written what the next read needs, nor as much of it as there is room for.
    fn until_written(&self, side: &Endpoint, request: u32) -> Result<(), PlayError> {
        let (at, wanted) = (side.side, side.wanted().unwrap_or(0));
        {
            let mut state = self.lock();
            // After a shutdown the read itself finds the end.
            if state.can_read(side, wanted) || state.shut_down[at.peer()] {
                return Ok(());
            }
            state.wanted[at] = Some((wanted, side.waiting()));
            let peer_starves = state.wanted[at.peer()].as_ref().is_some_and(|(bytes, _)| *bytes > state.written[at]);
            if peer_starves || state.left || state.ended[at.peer()] > request {
                let waiting = state.waiting();
                state.left = true;
                self.changed.notify_all();
                return Err(PlayError::Stuck { request: self.first + request + 1, waiting });
            }
            state.turn = at.peer();
            self.changed.notify_all();
        }
        self.until(side, request, |state| state.turn == at)?;
        let mut state = self.lock();
        state.wanted[at] = None;
        let starved = !state.can_read(side, wanted);
        drop(state);
        if starved { self.until_written(side, request) } else { Ok(()) }
    }

    fn finish(&self, side: &Endpoint, request: u32) -> Result<(), PlayError> {
        let at = side.side;
        {
            let mut state = self.lock();
            state.ended[at] = request + 1;
            state.turn = if state.ended[at.peer()] > request { Side::Client } else { at.peer() };
            self.changed.notify_all();
        }
        self.until(side, request, |state| state.ended[at.peer()] > request)
    }

    fn leave(&self) {
        let mut state = self.lock();
        state.left = true;
        self.changed.notify_all();
    }

    /// Waits for the peer, never longer than the deadline.
    fn until(&self, side: &Endpoint, request: u32, ready: impl Fn(&State) -> bool) -> Result<(), PlayError> {
        let late = self.deadline * 2;
        let (state, timeout) = self
            .changed
            .wait_timeout_while(self.lock(), late, |state| !ready(state) && !state.left)
            .unwrap_or_else(PoisonError::into_inner);
        if ready(&state) {
            Ok(())
        } else if timeout.timed_out() {
            let waiting = vec![side.waiting()];
            Err(PlayError::Deadline { request: self.first + request + 1, after: late, waiting })
        } else {
            Err(PlayError::Stuck { request: self.first + request + 1, waiting: state.waiting() })
        }
    }
}
