//! Exchanges that were also seen on a kernel (6.18, 250 ticks a second), with what was predicted and seen.

use super::*;
use crate::exchange::Sides;

/// Six requests of an exchange over loopback with segments pinned to 988 bytes of payload.
fn six(text: &str) -> Vec<Request> {
    requests(text, &Facts::default(), 6)
}

/// One row of the table: a figure for the first request and one for each that follows.
fn first_then<T: PartialEq + std::fmt::Debug + Clone>(seen: &[T], first: T, then: T) {
    let mut expected = vec![then; 6];
    expected[0] = first;
    assert_eq!(seen, expected);
}

fn waits(request: &Request) -> Vec<u64> {
    request.waits.iter().map(|wait| wait.ticks).collect()
}

fn client_held(request: &Request) -> Vec<u64> {
    request.held.client.clone()
}

fn delayed(request: &Request) -> u32 {
    request.delayed_acks()
}

const NEVER: Vec<u64> = Vec::new();

#[test]
fn example_01_write_write_read() {
    let requests = six("C: W10 W10 R20 / S: R20 W20");
    first_then(&each(&requests, client_held), vec![0, 0], vec![0, 10]);
    first_then(&each(&requests, delayed), 0, 1);
    first_then(&each(&requests, waits), NEVER, vec![11]);
    assert!(requests.iter().all(|r| r.data_segments == Sides { client: 2, server: 1 }.into()));
    assert_eq!(each(&requests, |r| r.quick_acks.server), [14, 12, 10, 8, 6, 4]);
    assert!(requests.iter().all(|r| r.bare_acks.server == 2));
}

#[test]
fn example_02_quickack_before_every_read() {
    let requests = six("C: W10 W10 R20 / S: quickack R20 W20");
    first_then(&each(&requests, client_held), vec![0, 0], vec![0, 10]);
    assert!(requests.iter().all(|r| r.waits.is_empty() && r.bare_acks.server == 2));
}

#[test]
fn example_03_nodelay() {
    let requests = six("C: [nodelay] W10 W10 R20 / S: R20 W20");
    assert!(requests.iter().all(|r| r.waits.is_empty() && r.held.client == [0, 0]));
    first_then(&each(&requests, |r| r.bare_acks.server), 2, 1);
}

#[test]
fn example_04_cork_and_uncork() {
    let requests = six("C: cork W10 W10 uncork R20 / S: R20 W20");
    assert!(requests.iter().all(|r| r.waits.is_empty() && r.held.client == [10, 20] && r.data_segments.client == 1));
    first_then(&each(&requests, |r| r.bare_acks.server), 1, 0);
}

#[test]
fn example_05_msg_more() {
    let requests = six("C: M10 W10 R20 / S: R20 W20");
    assert!(requests.iter().all(|r| r.waits.is_empty() && r.held.client == [10, 0] && r.data_segments.client == 1));
    first_then(&each(&requests, |r| r.bare_acks.server), 1, 0);
}

#[test]
fn example_06_msg_more_on_the_last_write() {
    let requests = six("C: W10 M10 R10 / S: R20 W10");
    assert!(requests.iter().all(|r| r.held.client == [0, 10]));
    first_then(&each(&requests, waits), vec![52], vec![11]);
    first_then(&each(&requests, delayed), 0, 1);
    first_then(&each(&requests, Request::holds), 1, 0);
}

#[test]
fn example_07_uncork_does_not_free_what_nagle_holds() {
    let requests = six("C: W10 cork W5 uncork R10 / S: R15 W10");
    assert!(requests.iter().all(|r| r.held.client == [0, 5]));
    first_then(&each(&requests, waits), NEVER, vec![11]);
}

#[test]
fn example_08_both_sides_hold() {
    let requests = six("C: W10 W10 R20 / S: R20 W10 W10");
    first_then(&each(&requests, waits), NEVER, vec![11, 11]);
    first_then(&each(&requests, delayed), 0, 2);
    first_then(&each(&requests, Request::quanta), 0, 2);
}

#[test]
fn example_09_every_second_request() {
    let requests = six("C: W10 W10 R10 / S: R10 W10 R10");
    assert_eq!(each(&requests, delayed), [0, 0, 1, 0, 1, 0]);
    assert_eq!(each(&requests, |r| r.data_segments.client), [2, 2, 1, 2, 1, 2]);
    assert_eq!(each(&requests, |r| r.bare_acks.server), [2, 0, 2, 0, 2, 0]);
}

#[test]
fn example_10_a_full_segment_does_not_hold() {
    let requests = six("C: W988 W10 R10 / S: R998 W10");
    assert!(requests.iter().all(|r| r.waits.is_empty() && r.held.client == [0, 0]));
    first_then(&each(&requests, |r| r.bare_acks.server), 2, 1);
}

#[test]
fn example_11_one_byte_less_than_a_segment() {
    let requests = six("C: W987 W10 R10 / S: R997 W10");
    first_then(&each(&requests, client_held), vec![0, 0], vec![0, 10]);
    first_then(&each(&requests, waits), NEVER, vec![11]);
}

#[test]
fn example_12_one_byte_more_than_a_segment() {
    let requests = six("C: W989 W10 R10 / S: R999 W10");
    assert!(requests.iter().all(|r| r.waits.is_empty() && r.data_segments.client == 3));
}

#[test]
fn example_13_two_halves() {
    let requests = six("C: W500 W500 R10 / S: R1000 W10");
    first_then(&each(&requests, client_held), vec![0, 0], vec![0, 500]);
    first_then(&each(&requests, waits), NEVER, vec![11]);
}

#[test]
fn example_14_three_writes() {
    let requests = six("C: W536 W536 W10 R10 / S: R1082 W10");
    first_then(&each(&requests, client_held), vec![0, 0, 0], vec![0, 536, 546]);
    first_then(&each(&requests, |r| r.data_segments.client), 3, 2);
    first_then(&each(&requests, waits), NEVER, vec![11]);
}

#[test]
fn example_15_the_second_small_segment_is_acknowledged() {
    let requests = six("C: [nodelay] W10 W10 W10 R10 / S: R30 W10");
    assert!(requests.iter().all(|r| r.waits.is_empty()));
    first_then(&each(&requests, |r| r.bare_acks.server), 3, 1);
}

#[test]
fn example_16_a_late_reply_never_makes_pingpong() {
    let requests = six("C: W10 W10 R20 / S: R20 P60 W20");
    assert!(requests.iter().all(|r| !r.pingpong_before.server && r.held.client == [0, 0]));
    assert_eq!(each(&requests, waits), vec![vec![15]; 6]);
    assert_eq!(each(&requests, delayed), [0; 6]);
}

#[test]
fn example_17_corks_never_cleared() {
    let requests = six("C: [cork] W10 R10 / S: [cork] R10 W10");
    assert!(requests.iter().all(|r| r.held.client == [10] && r.held.server == [10]));
    assert_eq!(each(&requests, waits), vec![vec![52, 52]; 6]);
    assert_eq!(each(&requests, delayed), [0; 6]);
}

#[test]
fn example_18_full_segments_and_a_small_one() {
    let requests = six("C: W1976 W536 W10 R10 / S: R2522 W10");
    first_then(&each(&requests, client_held), vec![0, 0, 0], vec![0, 0, 10]);
    first_then(&each(&requests, waits), NEVER, vec![11]);
    assert!(requests.iter().all(|r| r.bare_acks.server == 3));
}

#[test]
fn example_19_larger_writes() {
    let requests = six("C: W3000 W3000 W10 R10 / S: R6010 W10");
    assert!(requests[..3].iter().all(|r| r.held.client == [0, 0, 0]));
    assert!(requests[3..].iter().all(|r| r.held.client == [0, 0, 10]));
    assert_eq!(each(&requests, waits), vec![NEVER; 6]);
    assert_eq!(each(&requests, |r| r.quick_acks.server), [15, 13, 11, 8, 5, 2]);
}

#[test]
fn example_20_nothing_is_held_beyond_the_pause() {
    let requests = six("C: W10 P60 W10 R10 / S: R20 W10");
    first_then(&each(&requests, delayed), 0, 1);
    assert_eq!(each(&requests, waits), vec![vec![15]; 6]);
    assert_eq!(each(&requests, Request::quanta), [0; 6]);
}

#[test]
fn example_21_a_window_of_large_segments() {
    let requests = requests("C: W40000 W10 R10 / S: R40010 W10", &Facts::loopback(None), 6);
    assert!(requests.iter().all(|r| r.held.client == [0, 10] && r.quick_acks.server == 0));
    first_then(&each(&requests, |r| r.data_segments.client), 3, 2);
    first_then(&each(&requests, waits), NEVER, vec![11]);
}
