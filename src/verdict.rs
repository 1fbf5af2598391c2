//! From what was seen to a verdict: which requests stalled, why, and what ends it.
//!
//! Each request is judged by itself, on what its sockets held and what let the bytes go. The run's
//! [`Pattern`] is the sum. Elapsed time has no part in it.

mod pattern;

pub use pattern::Pattern;

use crate::exchange::Side;
use crate::observation::{Hold, Observation, Release, Request, Rule, Socket};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What an exchange came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Which requests stalled.
    pub pattern: Pattern,
    /// What each of them waited for.
    pub wait: Option<Wait>,
    /// Their numbers, the first request being 1.
    pub stalled: Vec<u32>,
    /// Requests that broke the pattern because the machine was late, by the kernel's own clock.
    pub explained: Vec<u32>,
    /// Why they stalled; one entry per socket and rule.
    pub causes: Vec<Cause>,
}

/// What a stalled request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// An acknowledgement that only the path's round-trip time delays.
    RoundTrip,
    /// So many delayed ACKs, one after another.
    DelayedAck(u32),
    /// The persist timer, which lets go of corked data after 200 ms.
    PersistTimer,
}

/// Whose socket held how many bytes under which rule, and what let them go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Whose socket.
    pub socket: Socket,
    /// The most bytes held.
    pub bytes: u32,
    /// Under which rule.
    pub rule: Rule,
    /// What let them go.
    pub released_by: Release,
}

impl Verdict {
    /// Judges an observation.
    #[must_use]
    pub fn of(seen: &Observation) -> Self {
        let waits: Vec<Option<Wait>> = seen.requests.iter().map(|request| wait(seen, request)).collect();
        let stalled: Vec<bool> = waits.iter().map(Option::is_some).collect();
        let late = late_requests(seen);
        // Lateness takes delayed ACKs away and adds none that anybody waits for, in the request itself and in the next.
        let kept = |request: &Request| was_late(seen, request) || kept_from_cpu(seen, request);
        let kept: Vec<bool> = seen.requests.iter().map(kept).collect();
        let punctual = |i: usize| !kept[i] && (i == 0 || !kept[i - 1]);
        let on_time: Vec<Option<Wait>> = (0..waits.len()).filter(|i| punctual(*i)).map(|i| waits[i]).collect();
        let numbers =
            |flags: &[bool]| flags.iter().zip(1..).filter(|(flag, _)| **flag).map(|(_, number)| number).collect();
        let pattern = Pattern::of(&stalled, &late);
        let explained = late
            .iter()
            .zip(&stalled)
            .zip(1..)
            .filter(|((late, stalled), number)| **late && pattern.expects(*number) != **stalled);
        Self {
            pattern,
            wait: usual(&on_time).or_else(|| waits.iter().flatten().max().copied()),
            stalled: numbers(&stalled),
            explained: explained.map(|(_, number)| number).collect(),
            causes: causes(seen),
        }
    }

    /// The verdict in a word or two: the pattern, or what holds where it is not a delayed ACK.
    #[must_use]
    pub fn word(&self) -> String {
        match self.wait {
            Some(Wait::PersistTimer) => "held-200ms".to_owned(),
            Some(Wait::RoundTrip) => "held-rtt".to_owned(),
            Some(Wait::DelayedAck(_)) | None => self.pattern.to_string(),
        }
    }

    /// How many delayed ACKs a stalled request waits for.
    #[must_use]
    pub fn quanta(&self) -> u32 {
        match self.wait {
            Some(Wait::DelayedAck(quanta)) => quanta,
            _ => 0,
        }
    }

    /// What to do about the first cause; `None` where nothing stalls.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        self.causes.first().map(Cause::remedy)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wait {
            None => self.pattern.fmt(f),
            Some(wait) => write!(f, "{} · {wait}", self.pattern),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RoundTrip => f.write_str("held-rtt"),
            Self::DelayedAck(quanta) => write!(f, "{quanta}×40ms"),
            Self::PersistTimer => f.write_str("held-200ms"),
        }
    }
}

impl Cause {
    /// What ends it.
    #[must_use]
    pub fn remedy(&self) -> String {
        let socket = self.socket;
        match self.rule {
            Rule::Cork => format!("clear TCP_CORK on the {socket} after the last write of each message"),
            Rule::More => format!("send the last piece of each message on the {socket} without MSG_MORE"),
            Rule::Nagle => format!(
                "write each message of the {socket} with one call (writev, sendmsg, a buffer), or all but its last piece with \
                 MSG_MORE; TCP_NODELAY on the {socket} ends the wait too, at one segment per write"
            ),
            Rule::SendBuffer => format!(
                "give the {socket} room for two messages at least with a larger SO_SNDBUF, or leave the send buffer to the \
                 kernel; with one write for each message nothing waits behind another"
            ),
            Rule::ReceiveWindow => {
                format!(
                    "let the peer of the {socket} read sooner, or give it a larger SO_RCVBUF: its receive window was full"
                )
            }
            Rule::CongestionWindow | Rule::Other => format!(
                "look at the window and the queues below the {socket}: no rule for small writes held these bytes"
            ),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { socket, bytes, rule, released_by } = self;
        let why = match rule {
            Rule::Nagle => "Nagle: an earlier small segment was unacknowledged",
            Rule::Cork => "TCP_CORK was set",
            Rule::More => "the write carried MSG_MORE",
            Rule::SendBuffer | Rule::ReceiveWindow | Rule::CongestionWindow | Rule::Other => rule.words(),
        };
        write!(f, "the {socket} {} ({why}) until {}", rule.kept(*bytes), released_by.words())
    }
}

/// What one request waited for, `None` where it did not stall.
#[must_use]
pub fn wait(seen: &Observation, request: &Request) -> Option<Wait> {
    let count = |wanted: Wait| request.holds.iter().filter(|hold| stalls(seen, hold) == Some(wanted)).count();
    let delayed = u32::try_from(count(Wait::DelayedAck(1))).unwrap_or(u32::MAX);
    if count(Wait::PersistTimer) > 0 {
        Some(Wait::PersistTimer)
    } else if delayed > 0 {
        Some(Wait::DelayedAck(delayed))
    } else if count(Wait::RoundTrip) > 0 {
        Some(Wait::RoundTrip)
    } else {
        None
    }
}

fn stalls(seen: &Observation, hold: &Hold) -> Option<Wait> {
    match hold.released_by {
        // Nobody waited: the timer fired while the thread that would have gone on was kept from its CPU.
        _ if !hold.waited => None,
        Release::DelayedAck => Some(Wait::DelayedAck(1)),
        Release::PersistTimer | Release::Never | Release::LossProbe => Some(Wait::PersistTimer),
        // On loopback the ACK is there at once; where the path takes a millisecond it is a wait.
        Release::Ack | Release::Reply if has_path(seen) => Some(Wait::RoundTrip),
        Release::Ack | Release::Reply | Release::OwnStep => None,
    }
}

/// Whether a timer let go while a side could have gone on.
fn overtaken(hold: &Hold) -> bool {
    !hold.waited && matches!(hold.released_by, Release::DelayedAck | Release::PersistTimer | Release::LossProbe)
}

fn has_path(seen: &Observation) -> bool {
    seen.environment.place == "wire"
}

/// What stalled requests wait for: the longest kind of wait, and the usual number of delayed ACKs.
#[must_use]
pub fn usual(waits: &[Option<Wait>]) -> Option<Wait> {
    let longest = waits.iter().flatten().max().copied()?;
    let Wait::DelayedAck(most) = longest else { return Some(longest) };
    let times = |quanta: u32| waits.iter().filter(|wait| **wait == Some(Wait::DelayedAck(quanta))).count();
    (1..=most).max_by_key(|quanta| times(*quanta)).map(Wait::DelayedAck)
}

/// Requests in which lateness of the machine, not the rules, decided.
///
/// A reply that leaves later than the delayed-ACK timeout after the last data came takes its receiver out of
/// pingpong mode (`tcp_event_data_sent`), so the next request does not stall. A thread kept from its CPU between
/// two writes lets the timer fire before the second one, which is then not held. Both show in the kernel's own state.
fn late_requests(seen: &Observation) -> Vec<bool> {
    let ato_us = seen.environment.delayed_ack_us;
    let holds = || seen.requests.iter().flat_map(|request| &request.holds);
    let telling = holds().find(|hold| stalls(seen, hold).is_some()).or_else(|| holds().next());
    let receiver = telling.map_or(Side::Server, |hold| hold.socket.side().peer());
    let late_reply = |request: &Request| {
        let replies = request.writes.iter().filter(|write| write.socket.side() == receiver);
        let written = replies.filter_map(|write| write.since_received_ms).max();
        // A corked reply leaves with the step that clears the cork.
        let corked = request.holds.iter().filter(|hold| hold.socket.side() == receiver && !hold.waited);
        let corked = corked.map(|hold| hold.lasted_us + seen.environment.jiffy_us).max().unwrap_or(0);
        written.is_some_and(|since| u64::from(since) * 1000 + corked >= ato_us)
    };
    let timer_between = |request: &Request| match request.delayed_acks {
        Some(fired) => request.holds.is_empty() && fired > 0,
        // Where others share the counters, the scheduler's own account of the thread has to do.
        None => wait(seen, request).is_none() && kept_from_cpu(seen, request),
    };
    seen.requests
        .iter()
        .enumerate()
        .map(|(i, request)| match request.receivers[receiver].pingpong {
            _ if was_late(seen, request) => true,
            // The client's answer to the last reply is this request itself, before anybody is held for it.
            _ if receiver == Side::Client => late_reply(request) || timer_between(request),
            Some(false) => i > 0 && late_reply(&seen.requests[i - 1]),
            _ => timer_between(request),
        })
        .collect()
}

/// Whether the playing thread waited so long for a CPU that a delayed ACK may have been sent meanwhile.
pub(crate) fn kept_from_cpu(seen: &Observation, request: &Request) -> bool {
    let floor = seen.environment.delayed_ack_us.saturating_sub(seen.environment.jiffy_us);
    request.run_queue_us.is_some_and(|waited| waited >= floor)
}

/// Whether the requests in which the machine was not late stall exactly where a pattern says, and some request does where
/// the pattern says that any do.
#[must_use]
pub fn fits(seen: &Observation, pattern: Pattern) -> bool {
    let late = late_requests(seen);
    let stalls = |request: &Request| wait(seen, request).is_some();
    let sure = seen.requests.iter().zip(&late).filter(|(_, late)| !**late).map(|(request, _)| request);
    let shown = seen.requests.iter().any(|request| stalls(request) && pattern.expects(request.number));
    sure.into_iter().all(|request| stalls(request) == pattern.expects(request.number))
        && (pattern == Pattern::None || shown)
}

/// Whether the machine was late in most requests, so that a run is worth another try whatever it showed; or so late that
/// a SYN was sent again, which leaves a congestion window of one segment (RFC 5681 §3.1).
#[must_use]
pub fn was_mostly_late(seen: &Observation) -> bool {
    seen.counter("TcpExtTCPSynRetrans").is_some_and(|resent| resent > 0)
        || seen.requests.iter().filter(|request| was_late(seen, request)).count() * 2 > seen.requests.len()
}

/// Whether the player was kept from its CPU for so long that a request shows nothing: a timer let held bytes go while
/// steps were left to take, or as much time passed between two steps as a delayed ACK takes.
#[must_use]
pub fn was_late(seen: &Observation, request: &Request) -> bool {
    let timer = seen.environment.delayed_ack_us.saturating_sub(2 * seen.environment.jiffy_us);
    request.holds.iter().any(overtaken) || request.longest_step_us.is_some_and(|us| us >= timer)
}

fn causes(seen: &Observation) -> Vec<Cause> {
    let mut causes: Vec<(Cause, Wait)> = Vec::new();
    let holds = seen.requests.iter().flat_map(|request| &request.holds);
    for (hold, wait) in holds.filter_map(|hold| Some((hold, stalls(seen, hold)?))) {
        let Hold { socket, bytes, rule, released_by, .. } = *hold;
        match causes.iter_mut().find(|(cause, _)| (cause.socket, cause.rule) == (socket, rule)) {
            Some((cause, longest)) => {
                cause.bytes = cause.bytes.max(bytes);
                // Over a path the first request may wait for a round trip and the others for a timer.
                if wait > *longest {
                    (cause.released_by, *longest) = (released_by, wait);
                }
            }
            None => causes.push((Cause { socket, bytes, rule, released_by }, wait)),
        }
    }
    let mut causes: Vec<Cause> = causes.into_iter().map(|(cause, _)| cause).collect();
    causes.sort_by_key(|cause| cause.socket);
    causes
}
