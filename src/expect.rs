//! Assertions about an observation, for tests of one's own.
//!
//! Every assertion has two forms: one that panics with the evidence, and a `try_` form that returns a [`Failure`].
//! They chain, and what they have established can be read back with [`Expect::facts`].
//!
//! ```no_run
//! use smallwrites::exchange::Side;
//! use smallwrites::expect::expect;
//! use smallwrites::lab::Conditions;
//! use smallwrites::play::Play;
//!
//! let play = Play::new("C: M75 W25 R80 / S: R100 W80".parse()?).requests(20);
//! let seen = Conditions::default().run(|lab| play.run(lab))??;
//! expect(&seen).no_stall().segments_per_request(Side::Client, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod failure;

pub use failure::{Detail, Failure, Kind};

use crate::exchange::Side;
use crate::observation::{Observation, Release, Request, Rule, Summary, milliseconds};
use crate::verdict::{Pattern, Verdict, Wait, fits, wait, was_late};
use std::time::Duration;

/// Starts a chain of assertions about an observation.
#[must_use]
pub fn expect(seen: &Observation) -> Expect<'_> {
    Expect { seen, verdict: Verdict::of(seen), facts: Vec::new() }
}

/// A chain of assertions.
#[derive(Debug, Clone)]
pub struct Expect<'a> {
    seen: &'a Observation,
    verdict: Verdict,
    facts: Vec<Fact>,
}

/// Something that an assertion established.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What holds, in words that are the same in every run: verdict words, exact counts, lower bounds.
    pub holds: String,
    /// This run's own figures, where there are any.
    pub measured: Option<String>,
}

impl<'a> Expect<'a> {
    /// What was established so far.
    #[must_use]
    pub fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// The verdict on the observation.
    #[must_use]
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// The observation itself.
    #[must_use]
    pub fn seen(&self) -> &'a Observation {
        self.seen
    }

    fn fact(mut self, holds: impl Into<String>, measured: Option<String>) -> Self {
        self.facts.push(Fact { holds: holds.into(), measured });
        self
    }

    fn failure(
        &self,
        kind: Kind,
        expected: impl Into<String>,
        because: impl Into<String>,
        saw: impl Into<String>,
    ) -> Failure {
        Failure::new(kind, self.seen, &self.verdict, expected.into(), because.into(), saw.into())
    }

    fn stalled(&self) -> impl Iterator<Item = &'a Request> {
        let seen = self.seen;
        seen.requests.iter().filter(move |request| wait(seen, request).is_some())
    }

    /// The first request that is wrong though the machine was not late; with every request wrong, the first of them.
    fn first_on_time(&self, wrong: impl Fn(&Request) -> bool) -> Option<&'a Request> {
        let seen = self.seen;
        let mut broken = seen.requests.iter().filter(|request| wrong(request));
        if seen.requests.iter().all(&wrong) { broken.next() } else { broken.find(|request| !was_late(seen, request)) }
    }

    fn latency(&self) -> Option<Summary> {
        Summary::of(self.seen.requests.iter().map(|request| request.latency_us))
    }

    fn delayed_ack(&self) -> String {
        let environment = &self.seen.environment;
        format!(
            "{} (TCP_DELACK_MIN, HZ/25; one jiffy is {})",
            milliseconds(environment.delayed_ack_us),
            milliseconds(environment.jiffy_us)
        )
    }
}

/// Writes the panicking form of each assertion from its `try_` form.
macro_rules! assertions {
    ($($(#[$doc:meta])* $name:ident = $try_name:ident($($arg:ident: $type:ty),*) |$this:ident| $body:block)*) => {
        impl Expect<'_> {
            $(
                $(#[$doc])*
                ///
                /// # Panics
                ///
                /// With the evidence, where it does not hold.
                #[track_caller]
                pub fn $name(self, $($arg: $type),*) -> Self {
                    // Not in a closure, which would be the caller that the panic points at.
                    match self.$try_name($($arg),*) {
                        Ok(held) => held,
                        Err(failure) => panic!("{failure}"),
                    }
                }

                $(#[$doc])*
                ///
                /// # Errors
                ///
                /// The evidence, where it does not hold.
                pub fn $try_name(self, $($arg: $type),*) -> Result<Self, Failure> {
                    let $this = self;
                    $body
                }
            )*
        }
    };
}

mod acks;
mod segments;

assertions! {
    /// No request stalls: nothing is held until a timer or a delayed ACK lets it go.
    no_stall = try_no_stall() |this| {
        if this.verdict.pattern == Pattern::None || fits(this.seen, Pattern::None) {
            let measured = this.latency().map(|latency| latency.to_string());
            return Ok(this.fact("no stall", measured));
        }
        let saw = format!("{} of {} requests stalled: {}", this.verdict.stalled.len(), this.seen.requests.len(), this.verdict);
        Err(this.failure(Kind::Stall, "no request stalls", "every byte can leave when it is written", saw))
    }

    /// Requests stall in this pattern; one that the machine's lateness explains fits either way.
    stalls = try_stalls(pattern: Pattern) |this| {
        if this.verdict.pattern == pattern || fits(this.seen, pattern) {
            let measured = Summary::of(this.stalled().map(|request| request.latency_us)).map(|stalled| stalled.to_string());
            return Ok(this.fact(pattern.to_string(), measured));
        }
        let saw = format!("{}: {} of {} requests stalled", this.verdict, this.verdict.stalled.len(), this.seen.requests.len());
        let because = "a request stalls exactly when its receiver is in pingpong mode before it (inet_csk_in_pingpong_mode)";
        Err(this.failure(Kind::Pattern, format!("requests that stall: {pattern}"), because, saw))
    }

    /// A stalled request waits for so many delayed ACKs, one after another.
    delayed_acks_per_stall = try_delayed_acks_per_stall(quanta: u32) |this| {
        if this.verdict.wait == Some(Wait::DelayedAck(quanta)) {
            return Ok(this.fact(format!("{quanta}×40ms"), None));
        }
        let saw = this.verdict.wait.map_or_else(|| "no wait".to_owned(), |wait| wait.to_string());
        let because = format!("each held message waits for one delayed ACK of at least {}", this.delayed_ack());
        Err(this.failure(Kind::Quanta, format!("{quanta}×40ms for a stalled request"), because, saw))
    }

    /// A stalled request waits for the persist timer, as corked data does.
    held_200ms = try_held_200ms() |this| {
        if this.verdict.wait == Some(Wait::PersistTimer) {
            return Ok(this.fact("held-200ms", None));
        }
        let saw = this.verdict.to_string();
        let because = "with nothing in flight only the persist timer lets go, after max(RTO, 200 ms) (tcp_check_probe_timer)";
        Err(this.failure(Kind::Quanta, "held-200ms", because, saw))
    }

    /// The median stalled request lasts at least one delayed ACK, less the jiffy that had begun.
    stalls_last_a_delayed_ack = try_stalls_last_a_delayed_ack() |this| {
        let environment = &this.seen.environment;
        let floor = environment.delayed_ack_us.saturating_sub(environment.jiffy_us);
        let stalled = Summary::of(this.stalled().map(|request| request.latency_us));
        match stalled {
            Some(stalled) if stalled.median_us >= floor => {
                let measured = Some(stalled.to_string());
                let holds = format!("median ≥ {} less a jiffy", milliseconds(environment.delayed_ack_us));
                Ok(this.fact(holds, measured))
            }
            other => {
                let because = format!("a delayed ACK takes at least {}, less one jiffy that had begun", this.delayed_ack());
                let saw = other.map_or_else(|| "no stalled request".to_owned(), |stalled| format!("stalled requests: {stalled}"));
                Err(this.failure(Kind::Time, format!("median of the stalled requests ≥ {}", milliseconds(floor)), because, saw))
            }
        }
    }

    /// The median request lasts at least so long.
    lasts_at_least = try_lasts_at_least(least: Duration) |this| {
        let least_us = u64::try_from(least.as_micros()).unwrap_or(u64::MAX);
        let latency = this.latency();
        if latency.is_some_and(|latency| latency.median_us >= least_us) {
            let measured = latency.map(|latency| latency.to_string());
            return Ok(this.fact(format!("median ≥ {}", milliseconds(least_us)), measured));
        }
        let saw = latency.map_or_else(|| "no request".to_owned(), |latency| latency.to_string());
        let because = "nothing ends such a wait earlier";
        Err(this.failure(Kind::Time, format!("median of the requests ≥ {}", milliseconds(least_us)), because, saw))
    }

    /// Each request stalls exactly when its receiver on `receiver` was in pingpong mode before it.
    follows_pingpong = try_follows_pingpong(receiver: Side) |this| {
        let broken = this.seen.requests.iter().find(|request| {
            let stalls = wait(this.seen, request).is_some();
            !this.verdict.explained.contains(&request.number)
                && request.receivers[receiver].pingpong.is_some_and(|pingpong| pingpong != stalls)
        });
        let Some(request) = broken else {
            return Ok(this.fact(format!("stalls exactly where the {receiver} was in pingpong mode"), None));
        };
        let stalled = wait(this.seen, request).is_some();
        let saw = format!(
            "request {} {}, and the {receiver} was {}in pingpong mode before it",
            request.number,
            if stalled { "stalled" } else { "did not stall" },
            if stalled { "not " } else { "" }
        );
        let because = "outside pingpong mode the receiver acknowledges at once (__tcp_ack_snd_check, tcp_in_quickack_mode)";
        Err(this.failure(Kind::Law, format!("a stall exactly where the {receiver} is in pingpong mode"), because, saw).about(this.seen, request))
    }

    /// Each stalled request holds exactly so many bytes in a side's socket.
    held = try_held(side: Side, bytes: u32) |this| {
        let most = |request: &Request| {
            request.holds.iter().filter(|hold| hold.socket == side.into()).map(|hold| hold.bytes).max().unwrap_or(0)
        };
        let other = this.stalled().find(|request| most(request) != bytes && !was_late(this.seen, request));
        let shows = this.stalled().any(|request| most(request) == bytes);
        match other.or_else(|| this.stalled().next().filter(|_| !shows)) {
            None if shows => Ok(this.fact(format!("{side} holds {bytes} bytes"), None)),
            other => {
                let saw = other.map_or_else(
                    || "no stalled request".to_owned(),
                    |request| format!("{} bytes in request {}", most(request), request.number),
                );
                let because = "bytes written and not yet sent when a write returns (SIOCOUTQNSD)";
                let failure = this.failure(Kind::Held, format!("{bytes} bytes held by the {side} in each stalled request"), because, saw);
                Err(match other {
                    Some(request) => failure.about(this.seen, request),
                    None => failure,
                })
            }
        }
    }

    /// No write of a side leaves more than so many bytes held.
    held_at_most = try_held_at_most(side: Side, bytes: u32) |this| {
        let most = this.seen.most_held(side);
        if most <= bytes {
            return Ok(this.fact(format!("{side} holds at most {bytes} bytes"), None));
        }
        let because = "bytes written and not yet sent when a write returns (SIOCOUTQNSD)";
        Err(this.failure(Kind::Held, format!("at most {bytes} bytes held by the {side}"), because, format!("{most} bytes held")))
    }

    /// Whatever makes requests stall is held under this rule and let go by this.
    cause = try_cause(side: Side, rule: Rule, released_by: Release) |this| {
        let causes = &this.verdict.causes;
        let fits = causes.iter().any(|cause| (cause.socket, cause.rule, cause.released_by) == (side.into(), rule, released_by));
        if fits {
            return Ok(this.fact(format!("{side} held by {} until {}", rule.words(), released_by.words()), None));
        }
        let saw = causes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let saw = if saw.is_empty() { "nothing held".to_owned() } else { saw };
        let because = "the socket's options and what moved between the hold's begin and end: bare ACKs, counters";
        Err(this.failure(Kind::Cause, format!("the {side} holds: {} until {}", rule.words(), released_by.words()), because, saw))
    }

    /// Some write of a side leaves at least so many bytes held.
    held_at_least = try_held_at_least(side: Side, bytes: u32) |this| {
        let most = this.seen.most_held(side);
        if most >= bytes {
            return Ok(this.fact(format!("{side} holds {bytes} bytes or more"), None));
        }
        let because = "bytes written and not yet sent when a write returns (SIOCOUTQNSD)";
        Err(this.failure(Kind::Held, format!("{bytes} bytes or more held by the {side}"), because, format!("{most} bytes held")))
    }

    /// Whatever a side's socket holds at the end of a write leaves by this, and it does hold something.
    released = try_released(side: Side, released_by: Release) |this| {
        let because = "what moved between the hold's begin and end: own steps, bare ACKs, counters";
        let expected = format!("what the {side} holds is released by {}", released_by.words());
        let seen = this.seen;
        let holds = || {
            let each = seen.requests.iter().flat_map(|request| request.holds.iter().map(move |hold| (request, hold)));
            each.filter(|(_, hold)| hold.socket == side.into())
        };
        let shows = holds().any(|(_, hold)| hold.released_by == released_by);
        let other = holds().find(|(request, hold)| hold.released_by != released_by && !(shows && was_late(seen, request)));
        match other {
            None if !shows => Err(this.failure(Kind::Held, expected, because, format!("the {side} held nothing"))),
            None => Ok(this.fact(format!("{side} holds until {}", released_by.words()), None)),
            Some((request, hold)) => {
                let saw = format!("request {}: {} bytes released by {}", request.number, hold.bytes, hold.released_by.words());
                Err(this.failure(Kind::Cause, expected, because, saw))
            }
        }
    }

    /// Each request, judged by itself, is as `judge` says. `None` from it leaves a request out, for one in which the machine
    /// was late; one at least must remain. `holds` says in words what is then established.
    each = try_each(kind: Kind, holds: &str, because: &str, judge: impl Fn(&Request) -> Option<Result<(), String>>) |this| {
        let mut judged = this.seen.requests.iter().filter_map(|request| Some((request.number, judge(request)?))).peekable();
        if judged.peek().is_none() {
            return Err(this.failure(kind, holds, because, "no request that shows it"));
        }
        match judged.find_map(|(number, verdict)| Some((number, verdict.err()?))) {
            None => Ok(this.fact(holds, None)),
            Some((number, saw)) => Err(this.failure(kind, holds, because, format!("request {number}: {saw}"))),
        }
    }

    /// One of the namespace's counters moves by exactly so much over the play.
    counter = try_counter(name: &str, change: i64) |this| {
        let seen = this.seen.counter(name);
        if seen == Some(change) {
            return Ok(this.fact(format!("{name} {change:+}"), None));
        }
        let saw = seen.map_or_else(|| format!("{name} is not known here"), |seen| format!("{name} {seen:+}"));
        let because = "/proc/thread-self/net/netstat of the lab's own namespace, after less before";
        Err(this.failure(Kind::Counter, format!("{name} {change:+}"), because, saw))
    }
}
