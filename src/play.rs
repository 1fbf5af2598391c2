//! Plays an exchange in a lab on real sockets and watches it.
//!
//! ```no_run
//! use smallwrites::lab::Conditions;
//! use smallwrites::play::Play;
//!
//! let play = Play::new("C: W10 W10 R20 / S: R20 W20".parse()?).requests(50);
//! let seen = Conditions::default().run(|lab| play.run(lab))??;
//! assert_eq!(seen.sockets.client.data_segments, Some(100));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod boundary;
mod capture;
mod connection;
mod endpoint;
mod ordered;
mod relay;
mod threads;
mod watch;

use crate::exchange::{Exchange, Setting, Side, Step};
use crate::lab::{Lab, LabError};
use crate::observation::{Observation, Order, SCHEMA, Socket, SocketSeen, SocketState};
use crate::sys::clock;
use crate::sys::counters::Counters;
use boundary::{data_segments, request};
use capture::{Clocks, Span};
use connection::Connection;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};
use watch::Seen;

/// No single wait may last longer, unless [`Play::deadline`] says so: twice what the longest retransmission
/// that a claim needs takes.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// What to play, how often and in which order.
#[derive(Debug, Clone)]
pub struct Play {
    exchange: Exchange,
    requests: u32,
    order: Order,
    fresh: bool,
    capture: bool,
    listed: bool,
    deadline: Duration,
}

/// Why an exchange could not be played to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// Neither side can ever go on.
    #[error("request {request} is stuck: {}; let each side read what the other writes", list(.waiting))]
    Stuck {
        /// The first is 1.
        request: u32,
        /// Who waits where.
        waiting: Vec<Waiting>,
    },
    /// A wait lasted longer than the deadline.
    #[error("request {request}: nothing happened for {}: {}; the kernel let go of nothing", time(*.after), list(.waiting))]
    Deadline {
        /// The first is 1.
        request: u32,
        /// The deadline.
        after: Duration,
        /// Who waits where.
        waiting: Vec<Waiting>,
    },
    /// A read waited for a side that had shut down, or a side wrote after its own shutdown.
    #[error("request {request}: {waiting}, and the {by} has shut down; play one request, or a connection for each")]
    Closed {
        /// The first is 1.
        request: u32,
        /// Who waits where.
        waiting: Waiting,
        /// Who shut down.
        by: Side,
    },
    /// An option was refused.
    #[error("the {socket}'s socket refuses {setting}: {source}")]
    Option {
        /// Whose socket.
        socket: Socket,
        /// The option and its value.
        setting: Setting,
        /// What the kernel said.
        source: io::Error,
    },
    /// A relay runs in the player's own thread.
    #[error("a relay plays in order `ordered` only, not in `{0}`")]
    NoRelay(Order),
    /// The lab is not what it should be.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Any other refusal of the kernel.
    #[error("cannot {doing}: {source}")]
    Call {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A side that waits, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Who.
    pub side: Side,
    /// Its step, the first being 1, repetitions written out.
    pub number: usize,
    /// The step; `None` for a side that has ended its script.
    pub step: Option<Step>,
    /// Bytes of the step already done.
    pub done: u32,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.step {
            None => write!(f, "the {} has ended its script", self.side),
            Some(step) if self.done > 0 => {
                write!(f, "the {} waits in step {} ({step}) with {} bytes done", self.side, self.number, self.done)
            }
            Some(step) => write!(f, "the {} waits in step {} ({step})", self.side, self.number),
        }
    }
}

impl PlayError {
    /// What a side is told whose step met the end of the stream.
    fn closed(request: u32, waiting: Waiting) -> Self {
        let reads = matches!(waiting.step, Some(Step::Read(_)));
        let by = if reads { waiting.side.peer() } else { waiting.side };
        Self::Closed { request, waiting, by }
    }
}

fn time(span: Duration) -> String {
    match span.as_millis() {
        ms if ms % 1000 == 0 => format!("{} s", ms / 1000),
        ms => format!("{ms} ms"),
    }
}

fn list(waiting: &[Waiting]) -> String {
    waiting.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Play {
    /// One request of an exchange, in order [`Order::Ordered`].
    #[must_use]
    pub fn new(exchange: Exchange) -> Self {
        Self {
            exchange,
            requests: 1,
            order: Order::default(),
            fresh: false,
            listed: false,
            capture: false,
            deadline: DEADLINE,
        }
    }

    /// So many requests, one after another.
    #[must_use]
    pub fn requests(mut self, requests: u32) -> Self {
        self.requests = requests;
        self
    }

    /// Who runs when.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// A connection of its own for every request.
    #[must_use]
    pub fn fresh(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// Every segment is recorded, of the wire or of the loopback: `Observation::frames`. It takes CPU time from what is
    /// played and on a wire one more delay at the end.
    #[must_use]
    pub fn capture(mut self) -> Self {
        self.capture = true;
        self
    }

    /// Asks `sock_diag` for both sockets when neither side can go on; in order [`Order::Ordered`] only.
    #[must_use]
    pub fn listed(mut self) -> Self {
        self.listed = true;
        self
    }

    /// The longest single wait; [`DEADLINE`] unless said.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Plays it in the calling thread's lab.
    ///
    /// # Errors
    ///
    /// Where the sides deadlock, a wait outlasts the deadline, or the kernel refuses a call or an option.
    pub fn run(&self, lab: &Lab) -> Result<Observation, PlayError> {
        let counters = lab.counters().map_err(call("read the counters"))?;
        let cpu = clock::thread_cpu_time().ok();
        // What an earlier play left on the wire is not of this one.
        drop(lab.passage(None));
        let recording = self.capture.then(|| lab.record()).transpose()?;
        let clocks = Clocks::now();
        let mut spans: Vec<Span> = Vec::new();
        let listener = connection::Listener::open(lab, &self.exchange, self.order)?;
        let mut seen = Seen::default();
        let mut requests = Vec::new();
        let mut sockets = self.exchange.sockets().map(|_| SocketSeen::default());
        let mut opened_us = Vec::new();
        let mut elapsed = Duration::ZERO;

        let (connections, each) = if self.fresh { (self.requests, 1) } else { (1, self.requests) };
        for connection in 0..connections {
            let mut open = Connection::open(lab, &listener, &self.exchange, self.deadline)?;
            opened_us.push(microseconds(open.opened));
            let inherited = open.inherited;
            let first = requests.len() as u32;
            let started = Instant::now();
            let run = match self.order {
                Order::Ordered => ordered::run(lab, &mut open, self, first, each)?,
                Order::Turns | Order::Free => threads::run(lab, &mut open, self.order, self.deadline, first, each)?,
            };
            elapsed += started.elapsed();
            for (pair, lap) in run.boundaries.windows(2).zip(&run.latencies) {
                let number = requests.len() as u32 + 1;
                spans.push(Span { request: number, from: lap.started.unwrap_or(started) });
                requests.push(request(number, &pair[0], &pair[1], lap, spans[0].from));
            }
            // What closing takes is of no request.
            spans.push(Span { request: 0, from: Instant::now() });
            open.hang_up();
            seen.append(run.seen);
            let ends = (run.boundaries.first(), run.boundaries.last());
            let (Some(before), Some(after)) = ends else { continue };
            for name in inherited.names() {
                let states = [before, after].map(|boundary| boundary.states[name]);
                add(&mut sockets[name], inherited[name], states, connection == 0);
            }
        }
        seen.fill(&mut requests, spans.first().map_or(clocks.here, |span| span.from));
        let counters = match counters {
            Some(before) => changes(lab, &before)?,
            None => None,
        };
        let passage = lab.passage(recording)?;
        let wire = lab.delay().map(|asked| capture::directions(&passage, asked));
        let frames = self.capture.then(|| capture::frames(passage.frames, &listener.ports(), clocks, &spans));
        Ok(Observation {
            schema: SCHEMA,
            exchange: self.exchange.clone(),
            order: self.order,
            fresh: self.fresh,
            environment: lab.environment(),
            requests,
            relay: sockets.relay.take(),
            sockets: sockets.ends(),
            opened_us,
            counters,
            cpu_us: cpu.and_then(|before| Some(microseconds(clock::thread_cpu_time().ok()?.saturating_sub(before)))),
            elapsed_us: microseconds(elapsed),
            wire,
            frames,
        })
    }
}

/// Every counter's change, those that stood still included: a counter that is missing is not one at 0.
fn changes(lab: &Lab, before: &Counters) -> Result<Option<BTreeMap<String, i64>>, PlayError> {
    let Some(after) = lab.counters().map_err(call("read the counters"))? else { return Ok(None) };
    let mut changes = after.since(before);
    for (name, _) in after.iter().filter(|(name, _)| name.starts_with("Tcp")) {
        changes.entry(name.to_owned()).or_insert(0);
    }
    Ok(Some(changes))
}

fn add(seen: &mut SocketSeen, inherited: [Option<bool>; 3], [from, to]: [SocketState; 2], first: bool) {
    let total = |old: Option<u32>, change: Option<u32>| if first { change } else { Some(old? + change?) };
    let sum =
        |old, from: Option<u32>, to: Option<u32>| total(old, to.zip(from).map(|(to, from)| to.saturating_sub(from)));
    seen.data_segments = total(seen.data_segments, data_segments(&from, &to));
    seen.bare_acks = sum(seen.bare_acks, from.bare_acks(), to.bare_acks());
    seen.retransmitted = sum(seen.retransmitted, from.retransmitted, to.retransmitted);
    [seen.nodelay, seen.cork, seen.quickack] = inherited;
    (seen.before, seen.after) = (from, to);
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn call(doing: &'static str) -> impl Fn(io::Error) -> PlayError {
    move |source| PlayError::Call { doing, source }
}
