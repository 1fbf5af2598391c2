//! Verdicts on observations that never change: what lateness of the machine explains, and what it must not.

mod support {
    pub(crate) mod fixed;
}

use smallwrites::observation::{Hold, Observation, Release, Rule, Socket};
use smallwrites::verdict::{Pattern, Verdict, Wait};
use support::fixed::{fine, stalled};

/// Takes the stall out of a request, as if its receiver had acknowledged at once.
fn without_stall(seen: &mut Observation, number: usize) {
    let request = &mut seen.requests[number - 1];
    request.holds.clear();
    request.writes[1].held = Some(0);
    request.receivers.server.pingpong = Some(false);
    request.delayed_acks = Some(0);
}

/// The reply of a request left so much later than its data came.
fn reply_after(seen: &mut Observation, number: usize, ms: u32) {
    seen.requests[number - 1].writes[2].since_received_ms = Some(ms);
}

#[test]
fn the_stall_and_its_absence() {
    let verdict = Verdict::of(&stalled());
    assert_eq!((verdict.pattern, verdict.wait), (Pattern::AllButFirst, Some(Wait::DelayedAck(1))));
    assert_eq!(verdict.stalled, [2, 3, 4, 5]);
    assert!(verdict.explained.is_empty());
    let verdict = Verdict::of(&fine());
    assert_eq!((verdict.pattern, verdict.wait, verdict.remedy()), (Pattern::None, None, None));
}

#[test]
fn a_late_reply_explains_the_next_request_and_a_prompt_one_does_not() {
    let mut seen = stalled();
    without_stall(&mut seen, 4);
    assert_eq!(Verdict::of(&seen).pattern, Pattern::Mixed, "nothing explains it");
    reply_after(&mut seen, 3, 39);
    assert_eq!(Verdict::of(&seen).pattern, Pattern::Mixed, "39 ms are no delayed ACK");
    reply_after(&mut seen, 3, 40);
    let verdict = Verdict::of(&seen);
    assert_eq!((verdict.pattern, verdict.explained.as_slice()), (Pattern::AllButFirst, &[4][..]));
}

/// Who is held for the client's ACK meets the client's lateness within the same request: the request is its answer.
#[test]
fn a_late_request_explains_why_its_split_reply_is_not_held() {
    let mut seen = stalled();
    for request in &mut seen.requests {
        request.holds.iter_mut().for_each(|hold| hold.socket = Socket::Server);
        request.receivers.client.pingpong = Some(false);
    }
    assert_eq!(Verdict::of(&seen).pattern, Pattern::AllButFirst);
    seen.requests[3].holds.clear();
    seen.requests[3].delayed_acks = Some(0);
    assert_eq!(Verdict::of(&seen).pattern, Pattern::Mixed, "nothing explains it");
    seen.requests[3].writes[0].since_received_ms = Some(40);
    let verdict = Verdict::of(&seen);
    assert_eq!((verdict.pattern, verdict.explained.as_slice()), (Pattern::AllButFirst, &[4][..]));
}

/// A late request has fewer delayed ACKs to wait for: those on time tell how many a stall takes.
#[test]
fn requests_on_time_tell_how_many_delayed_acks_a_stall_takes() {
    let mut seen = stalled();
    let second = seen.requests[1].holds[0].clone();
    seen.requests[1].holds.push(Hold { socket: Socket::Server, ..second });
    assert_eq!(Verdict::of(&seen).wait, Some(Wait::DelayedAck(1)), "one of four");
    for request in seen.requests.iter_mut().skip(2) {
        request.run_queue_us = Some(36_000);
    }
    assert_eq!(Verdict::of(&seen).wait, Some(Wait::DelayedAck(2)));
}

/// Where others share the counters, the scheduler's account of the thread has to do.
#[test]
fn without_counters_the_schedulers_account_explains_a_missing_stall() {
    let mut seen = stalled();
    seen.counters = None;
    for request in &mut seen.requests {
        request.delayed_acks = None;
    }
    seen.requests[3].holds.clear();
    assert_eq!(Verdict::of(&seen).pattern, Pattern::Mixed, "nothing explains it");
    seen.requests[3].run_queue_us = Some(36_000);
    let verdict = Verdict::of(&seen);
    assert_eq!((verdict.pattern, verdict.explained.as_slice()), (Pattern::AllButFirst, &[4][..]));
}

/// The receiver is the one whose ACK is waited for, not the peer of whoever first held anything.
#[test]
fn a_cork_of_the_servers_own_does_not_hide_its_late_reply() {
    let mut seen = stalled();
    let corked = Hold {
        socket: Socket::Server,
        rule: Rule::Cork,
        released_by: Release::OwnStep,
        ..seen.requests[1].holds[0].clone()
    };
    for request in &mut seen.requests {
        request.holds.push(corked.clone());
    }
    assert_eq!(Verdict::of(&seen).pattern, Pattern::AllButFirst);
    without_stall(&mut seen, 4);
    seen.requests[3].holds.push(corked);
    reply_after(&mut seen, 3, 40);
    assert_eq!(Verdict::of(&seen).pattern, Pattern::AllButFirst);
}

/// A timer that fires while some side could still go on met a thread without a CPU: nobody waited for it.
#[test]
fn a_timer_that_nobody_waited_for_is_no_stall() {
    let mut seen = fine();
    seen.requests[2].holds = stalled().requests[2].holds.clone();
    assert_eq!(Verdict::of(&seen).pattern, Pattern::Once(3), "this one was waited for");
    seen.requests[2].holds[0].waited = false;
    assert_eq!(Verdict::of(&seen).pattern, Pattern::None);

    let mut seen = stalled();
    seen.requests[2].holds[0].waited = false;
    let verdict = Verdict::of(&seen);
    assert_eq!((verdict.pattern, verdict.explained.as_slice()), (Pattern::AllButFirst, &[3][..]));
}

#[test]
fn a_persist_timer_outranks_a_delayed_ack() {
    let mut seen = stalled();
    for request in seen.requests.iter_mut().skip(1) {
        request.holds.push(Hold { released_by: Release::PersistTimer, rule: Rule::Cork, ..request.holds[0].clone() });
    }
    let verdict = Verdict::of(&seen);
    assert_eq!((verdict.wait, verdict.word().as_str()), (Some(Wait::PersistTimer), "held-200ms"));
}

/// What else than Nagle's algorithm made them wait is said with what ends it.
#[test]
fn full_buffers_have_words_and_remedies_of_their_own() {
    let verdict = |rule| {
        let mut seen = stalled();
        seen.requests.iter_mut().flat_map(|request| &mut request.holds).for_each(|hold| hold.rule = rule);
        Verdict::of(&seen)
    };
    for (rule, cause, remedy) in [
        (
            Rule::SendBuffer,
            "the client had no room for 10 bytes (a full send buffer) until the peer's delayed ACK",
            "SO_SNDBUF",
        ),
        (
            Rule::ReceiveWindow,
            "the client held 10 bytes (the peer's full receive window) until the peer's delayed ACK",
            "SO_RCVBUF",
        ),
    ] {
        let verdict = verdict(rule);
        assert_eq!(verdict.causes[0].to_string(), cause);
        assert!(verdict.remedy().is_some_and(|text| text.contains(remedy)), "{:?}", verdict.remedy());
    }
}
