//! Holds the model against what was seen.
//!
//! [`facts`] turns an observation's first look at the sockets into what the model must know, [`predicted`] says from them
//! what should have been seen, and [`differences`] where a prediction and an observation part.

use crate::exchange::Socket;
use crate::kernel::Kernel;
use crate::model::{self, Facts, Prediction, Request as Predicted, Rules, Start, Unpredictable};
use crate::observation::{Observation, Release, Request, SocketState};
use crate::verdict::{Pattern, Verdict, Wait};
use std::fmt;
use std::fmt::Write;

/// A place where prediction and observation part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The request, the first being 1; `None` for a sum over all.
    pub request: Option<u32>,
    /// What differs.
    pub what: String,
    /// As predicted.
    pub predicted: String,
    /// As seen.
    pub seen: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.request {
            Some(request) => write!(f, "request {request}: ")?,
            None => f.write_str("in all: ")?,
        }
        write!(f, "{}: predicted {}, seen {}", self.what, self.predicted, self.seen)
    }
}

/// What a run comes to in a word or two, predicted or seen: the same words for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlook {
    /// Which requests stall.
    pub pattern: Pattern,
    /// What each of them waits for.
    pub wait: Option<Wait>,
    /// Requests of which the machine was too late to tell.
    late: bool,
}

impl Outlook {
    /// What an observation came to.
    #[must_use]
    pub fn of(seen: &Observation) -> Self {
        let verdict = Verdict::of(seen);
        Self { pattern: verdict.pattern, wait: verdict.wait, late: !verdict.explained.is_empty() }
    }

    /// Whether both come to the same.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        (self.pattern, self.wait) == (other.pattern, other.wait)
    }
}

impl fmt::Display for Outlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pattern.fmt(f)?;
        if let Some(wait) = self.wait {
            write!(f, " · {wait}")?;
        }
        if self.late { f.write_str(", the machine being late") } else { Ok(()) }
    }
}

/// What a prediction comes to.
#[must_use]
pub fn outlook(predicted: &Prediction) -> Outlook {
    let waits: Vec<Option<Wait>> = predicted
        .requests
        .iter()
        .map(|request| match (request.holds(), request.quanta()) {
            (0, 0) => None,
            (0, quanta) => Some(Wait::DelayedAck(u32::try_from(quanta).unwrap_or(u32::MAX))),
            _ => Some(Wait::PersistTimer),
        })
        .collect();
    let stalled: Vec<bool> = waits.iter().map(Option::is_some).collect();
    let pattern = Pattern::of(&stalled, &vec![false; stalled.len()]);
    Outlook { pattern, wait: crate::verdict::usual(&waits), late: false }
}

/// What the model says of the exchange that was seen, on the kernel and from the connection on which it was seen.
///
/// # Errors
///
/// [`Unpredictable`] if the exchange has a step or an option that the model has no rules for.
pub fn predicted(kernel: &Kernel, seen: &Observation) -> Result<Prediction, Unpredictable> {
    let facts = facts(kernel, seen);
    if seen.fresh {
        let requests = u32::try_from(seen.requests.len()).unwrap_or(u32::MAX);
        return model::predict_fresh(&seen.exchange, &facts, requests);
    }
    predicted_from(&facts, Rules::all(), seen)
}

/// The same from given facts and with some of the rules.
///
/// Where a [close call](Prediction::close_calls) leaves several outcomes, it is the one that goes longest without a
/// difference from what was seen.
///
/// # Errors
///
/// As for [`predicted`].
pub fn predicted_from(facts: &Facts, rules: Rules, seen: &Observation) -> Result<Prediction, Unpredictable> {
    let requests = u32::try_from(seen.requests.len()).unwrap_or(u32::MAX);
    let predict = |calls: &[bool]| model::predict_deciding(&seen.exchange, facts, rules, requests, calls);
    let mut best = predict(&[])?;
    let mut agrees = agrees_for(&best, seen);
    // Each turn must get further than all before it, so this ends.
    while agrees <= seen.requests.len() {
        let others = turned(&best, agrees).into_iter().filter_map(|calls| predict(&calls).ok());
        let mut others = others.map(|other| (agrees_for(&other, seen), other));
        let Some(further) = others.find(|(requests, _)| *requests > agrees) else { break };
        (agrees, best) = further;
    }
    Ok(best)
}

/// Each close call up to a request turned, the last one first; those before it stay as they are.
fn turned(prediction: &Prediction, request: usize) -> Vec<Vec<bool>> {
    let calls = &prediction.close_calls;
    let count = calls.iter().take_while(|call| call.request as usize <= request).count();
    let turned = (0..count).rev().map(|last| {
        let mut longer: Vec<bool> = calls[..=last].iter().map(|call| call.longer).collect();
        longer[last] = !longer[last];
        longer
    });
    turned.collect()
}

/// Requests that go by without a difference; one more than there are if the sums over all agree too.
fn agrees_for(prediction: &Prediction, seen: &Observation) -> usize {
    let of_a_request = |difference: &Difference| difference.request.map(|number| number as usize - 1);
    let parts = differences(prediction, seen);
    let first = parts.iter().filter_map(of_a_request).min();
    first.unwrap_or(seen.requests.len() + usize::from(parts.is_empty()))
}

/// What the model must know of the kernel and of the connection that an observation began with.
///
/// What the kernel does not tell keeps the value that a 6.18 kernel has on loopback.
#[must_use]
pub fn facts(kernel: &Kernel, seen: &Observation) -> Facts {
    let mut facts = Facts::loopback_for(&seen.exchange);
    facts.jiffy_us = u32::try_from(kernel.jiffy_us).unwrap_or(facts.jiffy_us);
    let threshold = seen.environment.pingpong_threshold.or(kernel.pingpong_threshold);
    facts.pingpong_threshold = threshold.and_then(|n| u8::try_from(n).ok()).unwrap_or(facts.pingpong_threshold);
    facts.backlog_ack_defer = kernel.backlog_ack_defer.unwrap_or(false);
    facts.quickack_route = seen.environment.pinned.contains_key("route quickack");
    let before = |name| seen.socket(name).map(|socket| socket.before).unwrap_or_default();
    if before(Socket::Client).timestamps == Some(false) {
        facts = facts.without_timestamps();
    }
    facts.start = facts.start.map(|name| start(facts.start[name], &before(name)));
    facts
}

fn start(guess: Start, state: &SocketState) -> Start {
    Start {
        mss: state.mss.unwrap_or(guess.mss),
        advmss: state.advertised_mss.unwrap_or(guess.advmss),
        rcv_mss: state.receive_mss.unwrap_or(guess.rcv_mss),
        rcv_ssthresh: state.receive_ssthresh.unwrap_or(guess.rcv_ssthresh),
        rcv_wnd: state.receive_window.unwrap_or(guess.rcv_wnd),
        snd_wnd: state.send_window.unwrap_or(guess.snd_wnd),
        send_buffer: state.send_buffer.unwrap_or(guess.send_buffer),
        rcvbuf: state.receive_buffer.unwrap_or(guess.rcvbuf),
        window_clamp: state.window_clamp.unwrap_or(guess.window_clamp),
        wscale: state.window_scale.unwrap_or(guess.wscale),
        cwnd: state.cwnd.unwrap_or(guess.cwnd),
        rto_us: state.rto_us.unwrap_or(guess.rto_us),
        rtt_us: state.rtt_us.unwrap_or(guess.rtt_us),
        ..guess
    }
}

/// Where a prediction and an observation part: stalls, held bytes, data segments and pingpong mode request by request,
/// bare ACKs and delayed ACKs over all, since a timer may fire between two looks.
#[must_use]
pub fn differences(predicted: &Prediction, seen: &Observation) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differ = |request: Option<u32>, what: &str, predicted: String, seen: String| {
        if predicted != seen {
            found.push(Difference { request, what: what.to_owned(), predicted, seen });
        }
    };
    differ(None, "requests", predicted.requests.len().to_string(), seen.requests.len().to_string());
    for (expected, request) in predicted.requests.iter().zip(&seen.requests) {
        let number = Some(request.number);
        differ(
            number,
            "stalls",
            (expected.quanta() > 0).to_string(),
            (released(request, Release::DelayedAck) > 0).to_string(),
        );
        differ(
            number,
            "200 ms holds",
            (expected.holds() > 0).to_string(),
            (released(request, Release::PersistTimer) > 0).to_string(),
        );
        for at in expected.held.names() {
            differ(number, &format!("bytes held by the {at}"), format!("{:?}", expected.held[at]), held(request, at));
            let segments = request.data_segments_of(at).unwrap_or(expected.data_segments[at]);
            differ(
                number,
                &format!("data segments of the {at}"),
                expected.data_segments[at].to_string(),
                segments.to_string(),
            );
            let pingpong = request.pingpong_of(at).unwrap_or(expected.pingpong_before[at]);
            differ(
                number,
                &format!("pingpong mode of the {at} before it"),
                expected.pingpong_before[at].to_string(),
                pingpong.to_string(),
            );
        }
    }
    for at in seen.exchange.sockets().names() {
        let acks: u32 = predicted.requests.iter().map(|request| request.bare_acks[at]).sum();
        let counted = seen.socket(at).and_then(|socket| socket.bare_acks).unwrap_or(acks);
        differ(None, &format!("bare ACKs of the {at}"), acks.to_string(), counted.to_string());
    }
    let fired: u32 = predicted.requests.iter().map(Predicted::delayed_acks).sum();
    let counted: Option<i64> = seen.requests.iter().map(|request| request.delayed_acks).sum();
    differ(None, "delayed ACKs", fired.to_string(), counted.unwrap_or(i64::from(fired)).to_string());
    found
}

fn released(request: &Request, by: Release) -> usize {
    request.holds.iter().filter(|hold| hold.waited && hold.released_by == by).count()
}

fn held(request: &Request, at: Socket) -> String {
    let writes = request.writes.iter().filter(|write| write.socket == at);
    let held: Vec<u64> = writes.map(|write| u64::from(write.held.unwrap_or(0))).collect();
    format!("{held:?}")
}

/// Both accounts of a run, request by request, side by side.
#[must_use]
pub fn side_by_side(predicted: &Prediction, seen: &Observation) -> String {
    let names = predicted.timeline.width();
    let width = names + 38;
    let mut out = format!("{:<width$}  seen\n", "predicted");
    for (i, request) in seen.requests.iter().enumerate() {
        let moments = predicted.timeline.moments().iter().filter(|moment| moment.request as usize == i);
        let left: Vec<String> =
            moments.map(|moment| format!("{:>5} {:<names$} {}", moment.tick, moment.socket, moment.event)).collect();
        let right = account(request);
        let _ = writeln!(out, "request {}", request.number);
        for row in 0..left.len().max(right.len()) {
            let left = left.get(row).map_or("", String::as_str);
            let right = right.get(row).map_or("", String::as_str);
            let _ = writeln!(out, "{}", format!("{left:<width$}  {right}").trim_end());
        }
    }
    out
}

fn account(request: &Request) -> Vec<String> {
    let mut lines = vec![format!("took {} us", request.latency_us)];
    for write in &request.writes {
        let held = write.held.map_or_else(|| "?".to_owned(), |held| held.to_string());
        lines.push(format!("{:<6} writes {}, holds {held}", write.socket, write.bytes));
    }
    for hold in &request.holds {
        let waited = if hold.waited { "" } else { ", nobody waited" };
        lines.push(format!("{:<6} {} until {}{waited}", hold.socket, hold.kept(), hold.released_by.words()));
    }
    for at in request.sockets().names() {
        let (segments, acks) = (request.data_segments_of(at), request.bare_acks_of(at));
        lines.push(format!("{at:<6} sent {segments:?} data segments, {acks:?} bare ACKs"));
    }
    lines.push(format!("delayed ACKs {:?}, late {:?} us", request.delayed_acks, request.run_queue_us));
    lines
}
