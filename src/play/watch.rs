//! Follows held bytes: which socket keeps how many back under which rule, and what lets them go.

use super::boundary::pingpong;
use super::capture::offset;
use super::microseconds;
use crate::exchange::Step;
use crate::lab::Lab;
use crate::observation::{Hold, Release, Request, Rule, Socket as Name, Write};
use crate::sys::options::{self, SocketOption};
use crate::sys::tcp_info::TcpInfo;
use socket2::Socket;
use std::time::Instant;

/// The writes and holds of a play, each with the request that it belongs to, the first being 0.
#[derive(Debug, Default)]
pub(super) struct Seen {
    writes: Vec<(u32, Instant, Write)>,
    holds: Vec<(u32, Instant, Hold)>,
}

impl Seen {
    pub(super) fn append(&mut self, mut other: Self) {
        self.writes.append(&mut other.writes);
        self.holds.append(&mut other.holds);
    }

    /// Puts every write and hold into its request, with its time since `origin`.
    pub(super) fn fill(self, requests: &mut [Request], origin: Instant) {
        for (request, at, mut write) in self.writes {
            if let Some(request) = requests.get_mut(request as usize) {
                write.at_us = offset(origin, at);
                request.writes.push(write);
            }
        }
        for (request, at, mut hold) in self.holds {
            if let Some(request) = requests.get_mut(request as usize) {
                hold.at_us = offset(origin, at);
                request.holds.push(hold);
            }
        }
    }
}

/// Watches one socket.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    lab: &'a Lab,
    name: Name,
    own: &'a Socket,
    peer: &'a Socket,
    /// Whether every write is looked at in full, or only those that leave something held.
    pub(super) thorough: bool,
    open: Option<Open>,
    /// A write that waits for room in the send buffer.
    full: Option<Open>,
    pub(super) seen: Seen,
}

/// What happened just before a look at held bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// A step of the socket's own side.
    OwnStep,
    /// Anything else: the peer's step, or a wait.
    Other,
}

/// A hold that has not ended.
#[derive(Debug)]
struct Open {
    request: u32,
    step: Step,
    /// The most bytes held, and those held at the last look.
    most: u32,
    now: u32,
    rule: Rule,
    started: Instant,
    waited: bool,
    before: Snapshot,
}

/// What a release is told by: how things stood before it.
#[derive(Debug)]
struct Snapshot {
    /// The peer's delayed ACKs and the own probes.
    counters: Option<[Option<u64>; 2]>,
    own: TcpInfo,
    peer: TcpInfo,
    peer_pingpong: Option<bool>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(lab: &'a Lab, name: Name, own: &'a Socket, peer: &'a Socket, thorough: bool) -> Self {
        Self { lab, name, own, peer, thorough, open: None, full: None, seen: Seen::default() }
    }

    pub(super) fn name(&self) -> Name {
        self.name
    }

    /// A write of the socket's own side, `step`, found no room in the send buffer for so many of its bytes.
    pub(super) fn full(&mut self, request: u32, step: &Step, bytes: u32) {
        // What waits behind held bytes waits for what they wait for.
        if self.full.is_some() || self.open.is_some() {
            return;
        }
        let (started, before, step) = (Instant::now(), self.snapshot(), step.clone());
        let (most, now, rule) = (bytes, bytes, Rule::SendBuffer);
        self.full = Some(Open { request, step, most, now, rule, started, waited: false, before });
    }

    /// There is room again: the write has gone on.
    pub(super) fn has_room(&mut self) {
        if let Some(open) = self.full.take() {
            let released_by = self.release(&open);
            self.close(open, released_by);
        }
    }

    /// After a write of the socket's own side has returned.
    pub(super) fn wrote(&mut self, request: u32, step: &Step) {
        let returned = Instant::now();
        let held = self.held();
        let holds = held.is_some_and(|bytes| bytes > 0);
        let info = if holds || self.thorough { TcpInfo::read(self.own).ok() } else { None };
        self.seen.writes.push((
            request,
            returned,
            Write {
                at_us: 0,
                socket: self.name,
                bytes: u32::try_from(step.written()).unwrap_or(u32::MAX),
                held,
                data_segments: info.as_ref().and_then(TcpInfo::data_segments),
                since_received_ms: info.as_ref().and_then(|info| info.last_data_recv),
            },
        ));
        match (holds, info) {
            // Bytes that left between the two questions are held no more.
            (true, Some(own)) if own.notsent_bytes != Some(0) => {
                self.hold(request, step, held.unwrap_or(0), &own, returned)
            }
            _ => self.look(Before::OwnStep),
        }
    }

    /// Ends the hold if its bytes have left. Where something else than its own side let go of a part of them, that part's
    /// hold ends and the rest's begins.
    pub(super) fn look(&mut self, before: Before) {
        if self.open.is_none() {
            return;
        }
        let Some(held) = self.held() else { return };
        let Some(mut open) = self.open.take() else { return };
        if held >= open.now || (held > 0 && before == Before::OwnStep) {
            open.now = held;
            self.open = Some(open);
            return;
        }
        let released_by = match before {
            Before::OwnStep => Release::OwnStep,
            Before::Other => self.release(&open),
        };
        let (request, step) = (open.request, open.step.clone());
        self.close(open, released_by);
        if held > 0 {
            self.begin(request, &step, held, Instant::now());
        }
    }

    /// Neither side can go on: from here on only a timer or the path can let go, so this is what a release is told by.
    pub(super) fn waits(&mut self) {
        if self.full.as_ref().is_some_and(|open| !open.waited || !self.lab.is_wire()) {
            let before = self.snapshot();
            self.full = self.full.take().map(|open| Open { waited: true, before, ..open });
        }
        // What has left by now was let go before, and the next look will tell by what.
        if self.open.is_none() || self.is_empty() {
            return;
        }
        let Some(mut open) = self.open.take() else { return };
        if open.waited && self.lab.is_wire() {
            // The ACK that will let go may be on its way by now: how things stood at first is what tells.
            self.open = Some(open);
            return;
        }
        let before = self.snapshot();
        // What is gone by now left before anybody waited, and the look before tells how.
        if !self.is_empty() {
            (open.waited, open.rule, open.before) = (true, self.rule(&open.step, &before.own), before);
        }
        self.open = Some(open);
    }

    /// Nothing more will be played.
    pub(super) fn end(mut self) -> Seen {
        self.look(Before::Other);
        for open in [self.open.take(), self.full.take()].into_iter().flatten() {
            self.close(open, Release::Never);
        }
        self.seen
    }

    /// Bytes written and not sent. A socket of Multipath TCP has handed them to its subflow, whose own account it tells.
    fn held(&self) -> Option<u32> {
        if self.lab.is_mptcp() { TcpInfo::read(self.own).ok()?.notsent_bytes } else { options::not_sent(self.own).ok() }
    }

    fn hold(&mut self, request: u32, step: &Step, bytes: u32, own: &TcpInfo, returned: Instant) {
        let rule = self.rule(step, own);
        let Some(open) = &mut self.open else { return self.begin(request, step, bytes, returned) };
        open.most = open.most.max(bytes);
        open.now = bytes;
        open.rule = rule;
        open.step = step.clone();
    }

    fn begin(&mut self, request: u32, step: &Step, bytes: u32, started: Instant) {
        let before = self.snapshot();
        let rule = self.rule(step, &before.own);
        let step = step.clone();
        let open = Open { request, step, most: bytes, now: bytes, rule, started, waited: false, before };
        if !self.is_empty() {
            self.open = Some(open);
            return;
        }
        // Gone before there was anything to tell its release by, except the time that this took.
        let timer = started.elapsed() >= self.lab.kernel().delayed_ack_floor();
        self.close(open, if timer { Release::DelayedAck } else { Release::Ack });
    }

    /// Whether everything written has left.
    fn is_empty(&self) -> bool {
        self.held() == Some(0)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            counters: self.counters(),
            own: TcpInfo::read(self.own).unwrap_or_default(),
            peer: TcpInfo::read(self.peer).unwrap_or_default(),
            peer_pingpong: pingpong(self.peer),
        }
    }

    fn rule(&self, step: &Step, own: &TcpInfo) -> Rule {
        let is_set = |option| options::get(self.own, option).is_ok_and(|value| value != 0);
        let in_flight = own.unacked.unwrap_or(0);
        if window_full(own).unwrap_or(false) {
            Rule::ReceiveWindow
        } else if own.snd_cwnd.is_some_and(|cwnd| in_flight >= cwnd) {
            Rule::CongestionWindow
        } else if is_set(SocketOption::Cork) {
            Rule::Cork
        } else if matches!(step, Step::More(_)) {
            Rule::More
        } else if in_flight > 0 && !is_set(SocketOption::NoDelay) {
            Rule::Nagle
        } else {
            Rule::Other
        }
    }

    /// What ended a hold that its own side did not end.
    ///
    /// A corked socket lets go of nothing for an ACK, and with nothing in flight no ACK can come: both leave the
    /// persist timer. Otherwise the counters and the peer's own segments tell.
    fn release(&self, open: &Open) -> Release {
        let peer = TcpInfo::read(self.peer).unwrap_or_default();
        let grown = |count: fn(&TcpInfo) -> Option<u32>| {
            count(&peer).zip(count(&open.before.peer)).is_some_and(|(now, then)| now > then)
        };
        let moved =
            |i: usize| self.counters().zip(open.before.counters).and_then(|(now, then)| Some(now[i]? > then[i]?));
        let acked = grown(TcpInfo::bare_acks);
        // An ACK that had to be asked for again is not the one that the timer sent.
        let own_info = TcpInfo::read(self.own).unwrap_or_default();
        let repeated = own_info.total_retrans.zip(open.before.own.total_retrans).is_some_and(|(now, then)| now > then);
        let idle = open.before.own.unacked == Some(0);
        let persist = match open.rule {
            Rule::Cork => true,
            // With nothing in flight an ACK can still open the window.
            Rule::ReceiveWindow => idle && own_info.snd_wnd <= open.before.own.snd_wnd,
            // Room comes with an ACK, unless what fills the buffer is not on its way.
            Rule::SendBuffer => idle && open.before.own.notsent_bytes > Some(0),
            Rule::Nagle | Rule::More | Rule::CongestionWindow | Rule::Other => idle,
        };
        if moved(1) == Some(true) {
            Release::LossProbe
        } else if persist {
            Release::PersistTimer
        } else if acked && !repeated && moved(0).unwrap_or_else(|| self.timer_fired(open)) {
            Release::DelayedAck
        } else if acked {
            Release::Ack
        } else if grown(|info| info.data_segs_out) {
            Release::Reply
        } else if matches!(open.rule, Rule::SendBuffer | Rule::ReceiveWindow)
            || self.lab.is_wire() && open.before.own.unacked.is_some_and(|in_flight| in_flight > 0)
        {
            // The persist timer runs only while nothing is in flight, and an ACK may have been sent before the hold began.
            Release::Ack
        } else {
            Release::PersistTimer
        }
    }

    /// Without counters of one's own: the timer takes the peer out of pingpong mode, and nothing else does within a wait.
    ///
    /// Of two threads the one that waited looks when the reply has come, and the peer is back in pingpong mode: there the
    /// time has to do.
    fn timer_fired(&self, open: &Open) -> bool {
        let left = open.before.peer_pingpong == Some(true) && pingpong(self.peer) == Some(false);
        open.waited && (left || open.started.elapsed() >= self.lab.kernel().delayed_ack_floor())
    }

    fn counters(&self) -> Option<[Option<u64>; 2]> {
        const DELAYED: &str = "TcpExtDelayedACKs";
        const PROBES: &str = "TcpExtTCPLossProbes";
        if !self.lab.is_wire() {
            return self.lab.counters_named(None, &[DELAYED, PROBES])?.try_into().ok();
        }
        // Each side has counters of its own: the delayed ACK is the peer's, the probe the socket's.
        let own = self.name.side();
        let read = |side, name| self.lab.counters_named(Some(side), &[name])?.first().copied();
        Some([read(own.peer(), DELAYED)?, read(own, PROBES)?])
    }

    fn close(&mut self, open: Open, released_by: Release) {
        self.seen.holds.push((
            open.request,
            open.started,
            Hold {
                at_us: 0,
                socket: self.name,
                step: open.step,
                bytes: open.most,
                unacked: open.before.own.unacked,
                cwnd: open.before.own.snd_cwnd,
                rule: open.rule,
                released_by,
                waited: open.waited,
                lasted_us: microseconds(open.started.elapsed()),
            },
        ));
    }
}

/// Whether the peer's window has no room for the next segment (`tcp_snd_wnd_test`).
fn window_full(info: &TcpInfo) -> Option<bool> {
    let sent = info.bytes_sent?.saturating_sub(info.bytes_retrans?);
    // The SYN may be counted among what was acknowledged: a byte too little in flight.
    let in_flight = sent.saturating_sub(info.bytes_acked?);
    let next = info.snd_mss?.min(info.notsent_bytes?);
    Some(u64::from(info.snd_wnd?) < in_flight + u64::from(next))
}
