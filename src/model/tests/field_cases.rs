//! Write patterns behind public reports of the stall, eight requests each, with the pattern that was seen.

use super::*;
use crate::exchange::Socket;

/// How many delayed ACKs each of eight requests waits for.
fn quanta(text: &str) -> Vec<usize> {
    let exchange = exchange(text);
    each(&requests(text, &Facts::loopback_for(&exchange), 8), Request::quanta)
}

fn quanta_with_threshold(text: &str, threshold: u8) -> Vec<usize> {
    let facts = Facts { pingpong_threshold: threshold, ..Facts::loopback(None) };
    each(&requests(text, &facts, 8), Request::quanta)
}

/// How many times each of eight requests waits for a persist timer.
fn holds(text: &str) -> Vec<usize> {
    each(&requests(text, &Facts::loopback(None), 8), Request::holds)
}

/// Ticks that each of eight requests waits, pauses included.
fn waited(text: &str) -> Vec<u64> {
    each(&requests(text, &Facts::loopback(None), 8), Request::waited)
}

const NONE: [usize; 8] = [0; 8];
const ALL_BUT_FIRST: [usize; 8] = [0, 1, 1, 1, 1, 1, 1, 1];
const TWO_QUANTA: [usize; 8] = [0, 2, 2, 2, 2, 2, 2, 2];

#[test]
fn head_then_body() {
    assert_eq!(quanta("C: W75 R83 / S: R75 W79 W4"), ALL_BUT_FIRST);
    assert_eq!(quanta("C: W100 W50 R20 / S: R150 W20"), ALL_BUT_FIRST);
}

#[test]
fn nodelay_on_the_side_that_does_not_split() {
    assert_eq!(quanta("C: W100 W50 R20 / S: [nodelay] R150 W20"), ALL_BUT_FIRST);
}

#[test]
fn nodelay_on_the_listener() {
    assert_eq!(quanta("C: W75 R83 / S: listening[nodelay] R75 W79 W4"), NONE);
}

#[test]
fn both_sides_split() {
    assert_eq!(quanta("C: W4 W200 R204 / S: R4 R200 W4 W200"), TWO_QUANTA);
    assert_eq!(quanta("C: W50 W2 R52 / S: R52 W50 W2"), TWO_QUANTA);
}

#[test]
fn a_pingpong_threshold_of_three() {
    assert_eq!(quanta_with_threshold("C: W100 W50 R20 / S: R150 W20", 3), [0, 0, 0, 1, 0, 0, 1, 0]);
    assert_eq!(quanta_with_threshold("C: W50 W2 R52 / S: R52 W50 W2", 3), [0, 0, 2, 0, 2, 0, 2, 0]);
}

#[test]
fn msg_more_and_nothing_after_it() {
    assert_eq!(holds("C: W75 R80 / S: R75 M80"), [1; 8]);
    assert_eq!(holds("C: M75 R80 / S: R75 W80"), [1; 8]);
}

#[test]
fn a_cork_never_cleared() {
    assert_eq!(holds("C: W75 R80 / S: [cork] R75 W80"), [1; 8]);
    assert_eq!(holds("C: W75 R80 / S: [cork nodelay] R75 W80"), [1; 8]);
    assert_eq!(holds("C: W75 R80 / S: [nodelay cork] R75 W80"), [1; 8]);
    assert_eq!(holds("C: W75 R80 / S: listening[cork] R75 W80"), [1; 8]);
}

#[test]
fn a_cork_cleared_later() {
    let text = "C: W75 R83 / S: R75 cork W79 W4 P30 uncork";
    assert_eq!(quanta(text), NONE);
    assert_eq!(holds(text), NONE);
    assert!(waited(text).iter().all(|ticks| (7..=8).contains(ticks)), "only the server's own pause");
}

#[test]
fn only_some_sizes() {
    assert_eq!(quanta("C: W75 R8193 / S: R75 W8192 W1"), ALL_BUT_FIRST);
    assert_eq!(quanta("C: [mss=1448] W75 R8193 / S: [mss=1448] R75 W8192 W1"), NONE);
    assert_eq!(quanta("C: W200 W1000 R20 / S: R1200 W20"), ALL_BUT_FIRST);
    assert_eq!(quanta("C: [mss=1448] W200 W2000 R20 / S: [mss=1448] R2200 W20"), NONE);
    assert_eq!(quanta("C: [mss=1448] W75 R1437 / S: [mss=1448] R75 W1437"), NONE);
    assert_eq!(quanta("C: [mss=1448] W75 R1461 / S: [mss=1448] R75 W65 W1396"), ALL_BUT_FIRST);
}

#[test]
fn pipelined() {
    assert_eq!(quanta("C: W60 R1800 / S: R60 W900 W900"), ALL_BUT_FIRST);
    assert_eq!(quanta("C: [mss=1448] W60 R3000 / S: [mss=1448] R60 W1500 W1500"), NONE);
    assert_eq!(quanta("C: W60 W60 R200 / S: R60 W100 R60 W100"), NONE);
}

#[test]
fn many_writes_cost_one_quantum() {
    assert_eq!(quanta("C: W30×10 R20 / S: R300 W20"), ALL_BUT_FIRST);
    assert_eq!(quanta("C: W30 W30 W30 R20 / S: R90 W20"), ALL_BUT_FIRST);
}

#[test]
fn a_server_that_works_between_its_writes() {
    let shorter = "C: W50 R60 / S: R50 W30 P20 W30";
    assert_eq!(quanta(shorter), ALL_BUT_FIRST);
    assert_eq!(waited(shorter)[1..], [11; 7], "the pause is part of the forty milliseconds");
    let longer = "C: W50 R60 / S: R50 W30 P60 W30";
    assert_eq!(quanta(longer), NONE);
    assert_eq!(waited(longer), [15; 8]);
}

#[test]
fn a_server_that_thinks_after_a_split_request() {
    let shorter = "C: W100 W50 R20 / S: R150 P20 W20";
    assert_eq!(quanta(shorter), ALL_BUT_FIRST);
    assert_eq!(waited(shorter)[1..], [16; 7], "the pause comes on top");
    let longer = "C: W100 W50 R20 / S: R150 P60 W20";
    assert_eq!(quanta(longer), NONE);
    assert_eq!(waited(longer), [15; 8]);
}

#[test]
fn a_relay_without_nodelay_between_two_ends_that_have_it() {
    let text = "C: [nodelay] W75 R83 / relay: / S: [nodelay] R75 W79 P1 W4";
    assert_eq!(quanta(text), ALL_BUT_FIRST);
    for request in &requests(text, &Facts::loopback_for(&exchange(text)), 8)[1..] {
        assert_eq!(request.held[Socket::RelayTowardsClient], [0, 4]);
        assert_eq!(request.held[Socket::Server], [0, 0]);
        assert_eq!(each(&request.waits, |wait| wait.ended_by), [Ended::Pause, Ended::DelayedAck(Socket::Client)]);
    }
}

#[test]
fn a_relay_with_nodelay_towards_the_client() {
    assert_eq!(quanta("C: [nodelay] W75 R83 / relay: C[nodelay] / S: [nodelay] R75 W79 P1 W4"), NONE);
    assert_eq!(quanta("C: [nodelay] W75 R83 / relay: S[nodelay] / S: [nodelay] R75 W79 P1 W4"), ALL_BUT_FIRST);
}

#[test]
fn quickack_once_or_before_every_read() {
    assert_eq!(quanta("C: W100 W50 R20 / S: [quickack] R150 W20"), ALL_BUT_FIRST);
    assert_eq!(quanta("C: W100 W50 R20 / S: quickack R150 W20"), NONE);
}

#[test]
fn a_quickack_route_helps_against_everything_but_a_cork() {
    let facts = Facts { quickack_route: true, ..Facts::loopback(None) };
    for text in ["C: W75 R83 / S: R75 W79 W4", "C: W100 W50 R20 / S: R150 W20"] {
        assert_eq!(each(&requests(text, &facts, 8), Request::quanta), NONE);
    }
    let corked = requests("C: W75 R80 / S: [cork] R75 W80", &facts, 8);
    assert_eq!(each(&corked, Request::holds), [1; 8]);
}

#[test]
fn idle_time_before_a_request_is_no_relief() {
    for idle in [300, 1500] {
        let text = format!("C: P{idle} W100 W50 R20 / S: R150 W20");
        assert_eq!(quanta(&text), ALL_BUT_FIRST);
    }
}
