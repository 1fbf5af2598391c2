//! One thread owns every socket and runs each side until it blocks.
//!
//! Loopback delivers inside `send`, so nothing is left to the scheduler: the client runs until it blocks, a
//! relay forwards what it has, the server runs until it blocks, and round again. Only when none of them can
//! go on does the thread wait, for the kernel or for a pause.

use super::boundary::{Boundary, Lap, listed, state};
use super::connection::{self, Between, Connection};
use super::endpoint::{Attempt, Endpoint, Need};
use super::relay::{Forward, Forwarded};
use super::watch::{Before, Seen, Watch};
use super::{Play, PlayError, call};
use crate::exchange::{Sides, Step};
use crate::lab::Lab;
use crate::observation::Socket as Name;
use crate::sys::transfer::{self, Interest};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// What one connection's requests came to.
#[derive(Debug)]
pub(super) struct Run {
    /// One more than there were requests.
    pub(super) boundaries: Vec<Boundary>,
    pub(super) latencies: Vec<Lap>,
    pub(super) seen: Seen,
}

/// Plays `requests` requests on an open connection; the first is number `first`, from 0.
pub(super) fn run(
    lab: &Lab,
    connection: &mut Connection,
    play: &Play,
    first: u32,
    requests: u32,
) -> Result<Run, PlayError> {
    let Connection { client, server, relay, .. } = connection;
    let relay = relay.as_ref();
    let sockets = Sockets::clone_of(client, server, relay)?;
    let mut player = Player {
        relay: relay.map_or(Vec::new(), |relay| Forward::both(relay).into()),
        watches: sockets.watches(lab),
        deadline: play.deadline,
        listed: play.listed,
        request: first,
        stepped: Instant::now(),
        longest_step: Duration::ZERO,
    };
    let mut boundaries = vec![Boundary::look(lab, &connection::sockets(&client.socket, &server.socket, relay))];
    let mut latencies = Vec::new();
    for request in first..first + requests {
        player.request = request;
        lab.begin(request + 1);
        let mut lap = player.request(client, server)?;
        boundaries.push(Boundary::look(lab, &connection::sockets(&client.socket, &server.socket, relay)));
        // A timer that fires between two requests may be counted in either.
        lap.longest_step = lap.longest_step.max(Some(player.stepped.elapsed()));
        latencies.push(lap);
    }
    let mut seen = Seen::default();
    for watch in player.watches {
        seen.append(watch.end());
    }
    Ok(Run { boundaries, latencies, seen })
}

/// A socket and what is waited for on it.
type Waits<'a> = (BorrowedFd<'a>, Interest);

/// Handles to the same sockets, so that watching does not borrow the scripts.
struct Sockets(Vec<(Name, socket2::Socket, usize)>);

impl Sockets {
    fn clone_of(client: &Endpoint, server: &Endpoint, relay: Option<&Between>) -> Result<Self, PlayError> {
        let mut sockets = vec![(Name::Client, &client.socket, 1), (Name::Server, &server.socket, 0)];
        if let Some(relay) = relay {
            sockets.push((Name::RelayTowardsClient, &relay.towards_client, 0));
            sockets.push((Name::RelayTowardsServer, &relay.towards_server, 1));
            (sockets[0].2, sockets[1].2) = (2, 3);
        }
        let clone = |(name, socket, peer): (Name, &socket2::Socket, usize)| Ok((name, socket.try_clone()?, peer));
        sockets.into_iter().map(clone).collect::<std::io::Result<_>>().map(Self).map_err(call("duplicate a socket"))
    }

    fn watches<'a>(&'a self, lab: &'a Lab) -> Vec<Watch<'a>> {
        self.0.iter().map(|(name, own, peer)| Watch::new(lab, *name, own, &self.0[*peer].1, true)).collect()
    }
}

struct Player<'a> {
    relay: Vec<Forward<'a>>,
    /// The client's, the server's, and the relay's two.
    watches: Vec<Watch<'a>>,
    deadline: Duration,
    /// Whether to ask `sock_diag` when neither side can go on.
    listed: bool,
    request: u32,
    /// When the last step or wait ended, and the longest time since such an end in this request.
    stepped: Instant,
    longest_step: Duration,
}

impl Player<'_> {
    fn request(&mut self, client: &mut Endpoint, server: &mut Endpoint) -> Result<Lap, PlayError> {
        client.rewind();
        server.rewind();
        self.longest_step = Duration::ZERO;
        let mut started = Instant::now();
        let mut ended = None;
        let mut lap = Lap::default();
        let mut progress = Instant::now();
        loop {
            if client.is_idle() && !client.finished() {
                started = Instant::now();
            }
            let (client_moved, client_need) = self.run(client)?;
            if client.finished() {
                ended.get_or_insert_with(Instant::now);
            }
            let relay_moved = self.forward()?;
            let (server_moved, server_need) = self.run(server)?;
            if client.finished() && server.finished() {
                lap.latency = ended.unwrap_or_else(Instant::now).saturating_duration_since(started);
                lap.started = Some(started);
                lap.longest_step = Some(self.longest_step);
                return Ok(lap);
            }
            if client_moved || relay_moved || server_moved {
                progress = Instant::now();
                continue;
            }
            self.refuse_deadlock(client, server)?;
            let readers = [(&*client, client_need), (&*server, server_need)];
            let readers = readers.into_iter().filter(|(_, need)| *need == Some(Need::Readable)).map(|(side, _)| side);
            let readers: Vec<_> = readers.map(|side| (side.socket.as_fd(), Interest::READ)).collect();
            if lap.blocked.is_none() && !readers.is_empty() {
                self.look(client, server, &readers, &mut lap)?;
            }
            for watch in &mut self.watches {
                watch.waits();
            }
            self.wait([(client, client_need), (server, server_need)], progress)?;
            self.stepped = Instant::now();
            for watch in &mut self.watches {
                watch.look(Before::Other);
            }
        }
    }

    /// Runs one side until it blocks or its script ends: whether it moved, and what it needs.
    fn run(&mut self, side: &mut Endpoint) -> Result<(bool, Option<Need>), PlayError> {
        let mut moved = false;
        loop {
            let Some(step) = side.current().cloned() else { return Ok((moved, None)) };
            match side.attempt()? {
                Attempt::Blocked(need) => {
                    if need == Need::Writable {
                        self.full(side.name(), &step, side.left());
                    }
                    return Ok((moved, Some(need)));
                }
                Attempt::Closed => return Err(PlayError::closed(self.request + 1, side.waiting())),
                Attempt::Part => self.stepped(side.name(), None),
                Attempt::Done => self.stepped(side.name(), Some(&step)),
            }
            moved = true;
        }
    }

    /// After a step: looks at what its side wrote, and at every hold.
    fn stepped(&mut self, name: Name, step: Option<&Step>) {
        let request = self.request;
        self.longest_step = self.longest_step.max(self.stepped.elapsed());
        self.stepped = Instant::now();
        for watch in &mut self.watches {
            if watch.name() == name {
                watch.has_room();
            }
            match step {
                Some(step) if watch.name() == name && step.is_write() => watch.wrote(request, step),
                _ if watch.name() == name => watch.look(Before::OwnStep),
                _ => watch.look(Before::Other),
            }
        }
    }

    /// Forwards what the relay has in either direction.
    fn forward(&mut self) -> Result<bool, PlayError> {
        let mut moved = false;
        for i in 0..self.relay.len() {
            let name = self.relay[i].name;
            loop {
                match self.relay[i].attempt()? {
                    Forwarded::Nothing => break,
                    Forwarded::Full(bytes) => {
                        self.full(name, &Step::Write(bytes), bytes);
                        break;
                    }
                    Forwarded::Part => self.stepped(name, None),
                    Forwarded::All(bytes) => self.stepped(name, Some(&Step::Write(bytes))),
                }
                moved = true;
            }
        }
        Ok(moved)
    }

    /// A write found no room in the send buffer for so many of its bytes.
    fn full(&mut self, name: Name, step: &Step, bytes: u32) {
        let request = self.request;
        self.watches.iter_mut().filter(|watch| watch.name() == name).for_each(|watch| watch.full(request, step, bytes));
    }

    /// Looks at both sockets, and keeps what it saw only if the readers still cannot go on afterwards: it is then one
    /// moment, however late the thread came to look.
    fn look(
        &self,
        client: &Endpoint,
        server: &Endpoint,
        readers: &[Waits<'_>],
        lap: &mut Lap,
    ) -> Result<(), PlayError> {
        let listed = if self.listed { listed(&client.socket, &server.socket) } else { None };
        let server_state = state(&server.socket);
        let blocked = Sides { client: state(&client.socket), server: server_state };
        if !poll(readers, Duration::ZERO)? {
            (lap.blocked, lap.listed) = (Some(blocked), listed);
        }
        Ok(())
    }

    /// Waits until some side can go on.
    fn wait(&mut self, sides: [(&mut Endpoint, Option<Need>); 2], progress: Instant) -> Result<(), PlayError> {
        let limit = progress + self.deadline;
        let mut until = limit;
        let mut sockets = Vec::with_capacity(4);
        for (side, need) in &sides {
            match need {
                Some(Need::Readable) => sockets.push((side.socket.as_fd(), Interest::READ)),
                Some(Need::Writable) => sockets.push((side.socket.as_fd(), Interest::WRITE)),
                // A pause is the script's own wait: the deadline counts from its end.
                Some(Need::Until(end)) => until = if until == limit { *end } else { until.min(*end) },
                None => {}
            }
        }
        sockets.extend(self.relay.iter().map(Forward::waits));
        let ready = poll(&sockets, until.saturating_duration_since(Instant::now()))?;
        if !ready && until == limit && Instant::now() >= limit {
            let waiting = sides.iter().map(|(side, _)| side.waiting()).collect();
            return Err(PlayError::Deadline { request: self.request + 1, after: self.deadline, waiting });
        }
        Ok(())
    }

    /// Neither side moves. Where each still wants more than the other has ever written, none will again.
    fn refuse_deadlock(&self, client: &Endpoint, server: &Endpoint) -> Result<(), PlayError> {
        let starved = |side: &Endpoint, peer: &Endpoint| {
            side.finished() || side.wanted().is_some_and(|wanted| wanted > peer.written)
        };
        if starved(client, server) && starved(server, client) {
            let waiting = vec![client.waiting(), server.waiting()];
            return Err(PlayError::Stuck { request: self.request + 1, waiting });
        }
        Ok(())
    }
}

/// Whether any socket became ready in time.
pub(super) fn poll(sockets: &[Waits<'_>], timeout: Duration) -> Result<bool, PlayError> {
    match transfer::wait(sockets, Some(timeout)) {
        Ok(ready) => Ok(ready.iter().any(|ready| ready.any())),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(call("wait for a socket")(error)),
    }
}
