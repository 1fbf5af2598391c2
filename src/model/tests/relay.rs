//! A relay between the two sides: exchanges that were also seen on a kernel (6.18, 250 ticks a second).

use super::*;
use crate::exchange::{Sides, Socket, Sockets};

fn second(text: &str) -> Request {
    requests(text, &Facts::loopback_for(&exchange(text)), 2).remove(1)
}

#[test]
fn what_comes_in_one_piece_leaves_in_one_write() {
    let request = second("C: W3000 R3000 / relay: / S: R3000 W3000");
    assert!(request.waits.is_empty());
    assert_eq!(request.held, Sockets { client: vec![0], server: vec![0], relay: Some(Sides::from_fn(|_| vec![0])) });
}

#[test]
fn pieces_that_come_together_leave_in_one_write() {
    let request = second("C: [nodelay] W10 W10 R20 / relay: / S: R20 W20");
    assert!(request.waits.is_empty());
    assert_eq!(request.data_segments[Socket::Client], 2);
    assert_eq!(request.data_segments[Socket::RelayTowardsServer], 1);
}

#[test]
fn a_cork_at_the_relay_takes_200_ms() {
    let request = second("C: W75 R83 / relay: C[cork] / S: R75 W83");
    assert_eq!(request.held[Socket::RelayTowardsClient], [83]);
    assert_eq!(request.waits.len(), 1);
    assert_eq!(request.waits[0].ended_by, Ended::PersistTimer(Socket::RelayTowardsClient));
}

/// The first connection's delayed ACK brings the rest to the relay when the second connection's has fired too: both
/// connections wait at the same time.
#[test]
fn two_connections_delay_at_the_same_time() {
    let request = second("C: W10 W10 R20 / relay: / S: R20 W20");
    assert_eq!((request.quanta(), request.waited(), request.delayed_acks()), (1, 11, 2));
    assert_eq!(request.held[Socket::RelayTowardsServer], [0, 0]);
}

/// One after the other they wait where each direction is split.
#[test]
fn two_directions_delay_one_after_the_other() {
    let request = second("C: [nodelay] W1 P1 W2999 R3000 / relay: / S: [nodelay] R3000 W1 P1 W2999");
    let [server, client] = [Socket::Server, Socket::Client].map(Ended::DelayedAck);
    assert_eq!(each(&request.waits, |wait| wait.ended_by), [Ended::Pause, server, Ended::Pause, client]);
}

#[test]
fn two_holds_that_end_together_are_two_waits() {
    let request = requests("C: [cork] W1 R2 / S: [cork] W2 R1", &Facts::loopback(None), 1).remove(0);
    assert_eq!(request.holds(), 2);
    assert_eq!(each(&request.waits, |wait| wait.ticks), [52, 0]);
}

#[test]
fn each_end_agrees_with_the_relay_on_a_segment_size() {
    let facts = Facts::loopback_for(&exchange("C: [mss=1448] W1 R1 / relay: / S: [mss=536] R1 W1"));
    let sizes = facts.start.map(|at| facts.start[at].full_mss);
    assert_eq!(sizes, Sockets { client: 1436, server: 524, relay: Some(Sides { client: 1436, server: 524 }) });
}

#[test]
fn facts_without_a_relay_do_for_an_exchange_with_one() {
    let text = "C: [nodelay] W75 R83 / relay: / S: [nodelay] R75 W79 P1 W4";
    assert_eq!(requests(text, &Facts::loopback(None), 8), requests(text, &Facts::loopback_for(&exchange(text)), 8));
}

#[test]
fn a_request_ends_with_the_scripts_whatever_the_relay_has_not_forwarded() {
    let requests = requests("C: W1 / relay: / S: R1 W5", &Facts::loopback(None), 2);
    assert!(requests[0].held[Socket::RelayTowardsClient].is_empty());
    assert_eq!(requests[1].held[Socket::RelayTowardsClient], [0], "what the first request left");
}
