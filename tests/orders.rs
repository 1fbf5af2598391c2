//! The same exchange in each order of play, and exchanges that cannot end.

mod support {
    pub(crate) mod labs;
    mod namespaces;
    pub(crate) mod plays;
    mod threads;
}

use rstest::rstest;
use smallwrites::exchange::{Exchange, Side};
use smallwrites::expect::expect;
use smallwrites::lab::Conditions;
use smallwrites::observation::{Order, Release, Rule};
use smallwrites::play::{Play, PlayError};
use smallwrites::verdict::Pattern;
use std::time::Duration;
use support::labs::lab_or_skip;
use support::plays::{play_or_skip, stalls_after_prompt_replies};

const REQUESTS: u32 = 20;

fn exchange(notation: &str) -> Exchange {
    notation.parse().unwrap_or_else(|error| panic!("{notation}: {error}"))
}

/// Plays what cannot be played to its end, in a lab of its own.
fn error_or_skip(play: &Play) -> Option<PlayError> {
    lab_or_skip(&Conditions::default(), |lab| play.run(lab).map(drop).expect_err("it cannot be played to its end"))
}

/// Nothing is held and `TCP_NODELAY` is set: the second write itself waits, since the first fills the send buffer.
#[rstest]
#[case::ordered(Order::Ordered)]
#[case::turns(Order::Turns)]
#[case::free(Order::Free)]
fn a_full_send_buffer_makes_a_write_wait_in_every_order(#[case] order: Order) {
    let play = |bytes: u32| {
        let text = format!("C: [nodelay sndbuf=1] W{bytes} W1 R1 / S: [quickack=0] R{} W1 quickack=0", bytes + 1);
        play_or_skip(&Conditions::default(), &Play::new(exchange(&text)).requests(REQUESTS).order(order))
    };
    // Some 90,000 bytes later the receive buffer grows, and a read tells the client so: with an ACK.
    let Some(seen) = play(4000) else { return };
    let full = expect(&seen)
        .delayed_acks_per_stall(1)
        .cause(Side::Client, Rule::SendBuffer, Release::DelayedAck)
        .stalls_last_a_delayed_ack();
    if order == Order::Free {
        assert!(!full.verdict().stalled.is_empty());
    } else {
        full.stalls(Pattern::Every);
    }
    assert!(seen.requests.iter().all(|request| request.writes.iter().all(|write| write.held == Some(0))));
    let Some(room) = play(2000) else { return };
    let stalled = expect(&room).stalls(Pattern::None);
    assert_eq!(stalled.verdict().causes, []);
}

/// It gets through only if the peer reads while it is being written.
#[rstest]
#[case::ordered(Order::Ordered)]
#[case::turns(Order::Turns)]
#[case::free(Order::Free)]
fn a_message_larger_than_the_buffers_gets_through_in_every_order(#[case] order: Order) {
    let text = "C: W8000000 R8000000 / S: R8000000 W8000000";
    let play = Play::new(exchange(text)).requests(3).order(order);
    let Some(seen) = play_or_skip(&Conditions::default(), &play) else { return };
    expect(&seen).no_stall();
    assert_eq!(seen.requests.len(), 3);
    if order == Order::Free {
        // The reader may keep up with the writer.
        return;
    }
    let holds = || seen.requests.iter().flat_map(|request| &request.holds);
    let full = |side: Side| holds().filter(|hold| hold.socket.side() == side && hold.rule == Rule::SendBuffer).count();
    assert!(full(Side::Client) >= 3 && full(Side::Server) >= 3, "{:?}", seen.requests);
}

/// What waits for the peer's window waits for no timer: a read opens it.
#[test]
fn a_full_receive_window_lets_go_when_it_opens() {
    let play = Play::new(exchange("C: W100000 W65000 R1 / S: P20 R165000 W1")).requests(1);
    let Some(seen) = play_or_skip(&Conditions::default(), &play) else { return };
    let holds = || seen.requests[0].holds.iter().filter(|hold| hold.rule == Rule::ReceiveWindow);
    assert!(holds().count() > 0, "{:?}", seen.requests[0].holds);
    assert!(holds().all(|hold| hold.released_by == Release::Ack), "{:?}", seen.requests[0].holds);
    expect(&seen).stalls(Pattern::None);
}

#[rstest]
#[case::ordered(Order::Ordered)]
#[case::turns(Order::Turns)]
#[case::free(Order::Free)]
fn two_small_writes_stall_in_every_order(#[case] order: Order) {
    let play = Play::new(exchange("C: W10 W10 R20 / S: R20 W20")).requests(REQUESTS).order(order);
    let Some(seen) = play_or_skip(&Conditions::default(), &play) else { return };
    assert_eq!(seen.order, order);
    let checked = expect(&seen)
        .delayed_acks_per_stall(1)
        .held(Side::Client, 10)
        .cause(Side::Client, Rule::Nagle, Release::DelayedAck)
        .stalls_last_a_delayed_ack()
        .data_segments(Side::Client, 2 * REQUESTS)
        .data_segments(Side::Server, REQUESTS)
        .nothing_resent();
    let pattern = stalls_after_prompt_replies();
    if order == Order::Free {
        // A thread that is kept from its CPU between its two writes meets the ACK already, and running free it leaves no
        // evidence of that. So most of those that stall by the rules, and none that does not.
        let stalled = &checked.verdict().stalled;
        let ruled: Vec<u32> = (1..=REQUESTS).filter(|number| stalls_by_the_rules(pattern, *number)).collect();
        assert!(2 * stalled.len() > ruled.len(), "stalled: {stalled:?}");
        if pattern == Pattern::AllButFirst {
            assert!(stalled.iter().all(|number| ruled.contains(number)), "stalled: {stalled:?}");
        }
    } else {
        checked.stalls(pattern);
    }
}

fn stalls_by_the_rules(pattern: Pattern, number: u32) -> bool {
    match pattern {
        Pattern::EveryNth(n) => number > n && (number - 1).is_multiple_of(n),
        pattern => pattern.expects(number),
    }
}

#[rstest]
#[case::ordered(Order::Ordered)]
#[case::turns(Order::Turns)]
#[case::free(Order::Free)]
fn one_write_stalls_in_no_order(#[case] order: Order) {
    let play = Play::new(exchange("C: W20 R20 / S: R20 W20")).requests(REQUESTS).order(order);
    let Some(seen) = play_or_skip(&Conditions::default(), &play) else { return };
    expect(&seen)
        .no_stall()
        .held_at_most(Side::Client, 0)
        .data_segments(Side::Client, REQUESTS)
        .data_segments(Side::Server, REQUESTS);
}

#[rstest]
#[case::ordered(Order::Ordered)]
#[case::turns(Order::Turns)]
#[case::free(Order::Free)]
fn completions_of_zero_copy_end_no_wait(#[case] order: Order) {
    // Each completion comes while the client waits for a slow reply, and one that stayed would keep it awake all the while.
    let play = Play::new(exchange("C: Z10+10 R20 / S: quickack R20 P50 W20")).requests(6).order(order);
    let Some(seen) = play_or_skip(&Conditions::default(), &play) else { return };
    expect(&seen).data_segments(Side::Client, 6).nothing_resent();
    let cpu = seen.cpu_us.expect("the player's own CPU time");
    assert!(2 * cpu < seen.elapsed_us, "{cpu} µs of CPU time in {} µs", seen.elapsed_us);
}

#[rstest]
#[case::ordered(Order::Ordered)]
#[case::turns(Order::Turns)]
#[case::free(Order::Free)]
fn split_messages_on_both_sides_wait_twice_in_every_order(#[case] order: Order) {
    let play = Play::new(exchange("C: W50 W2 R52 / S: R52 W50 W2")).requests(REQUESTS).order(order);
    let Some(seen) = play_or_skip(&Conditions::default(), &play) else { return };
    expect(&seen)
        .delayed_acks_per_stall(2)
        .cause(Side::Client, Rule::Nagle, Release::DelayedAck)
        .cause(Side::Server, Rule::Nagle, Release::DelayedAck)
        .data_segments(Side::Client, 2 * REQUESTS)
        .data_segments(Side::Server, 2 * REQUESTS);
}

/// Both sides wait for the other: no order may wait for the deadline to see it, but `free`, which cannot see it at all.
#[rstest]
#[case::ordered(Order::Ordered)]
#[case::turns(Order::Turns)]
#[case::free(Order::Free)]
fn a_deadlock_names_the_step(#[case] order: Order) {
    let deadline = if order == Order::Free { Duration::from_millis(200) } else { Duration::from_secs(600) };
    let play = Play::new(exchange("C: W10 R20 / S: R11 W20")).order(order).deadline(deadline);
    let Some(error) = error_or_skip(&play) else { return };
    let text = error.to_string();
    match (order, &error) {
        (Order::Free, PlayError::Deadline { request: 1, after, .. }) => assert_eq!(*after, deadline),
        (Order::Ordered | Order::Turns, PlayError::Stuck { request: 1, .. }) => {
            assert!(text.contains("the server waits in step 1 (R11)"), "{text}");
        }
        _ => panic!("{order}: {text}"),
    }
    assert!(text.contains("the client waits in step 2 (R20)"), "{text}");
}

#[rstest]
#[case::ordered(Order::Ordered)]
#[case::turns(Order::Turns)]
#[case::free(Order::Free)]
fn a_wait_that_outlasts_the_deadline_names_the_step(#[case] order: Order) {
    let deadline = Duration::from_millis(100);
    let play = Play::new(exchange("C: W10 R20 / S: [cork] R10 W20")).order(order).deadline(deadline);
    let Some(error) = error_or_skip(&play) else { return };
    let text = error.to_string();
    let PlayError::Deadline { request: 1, after, .. } = error else { panic!("{text}") };
    assert_eq!(after, deadline);
    assert!(text.contains("for 100 ms"), "{text}");
    assert!(text.contains("the client waits in step 2 (R20)"), "{text}");
}

#[rstest]
#[case::ordered(Order::Ordered)]
#[case::turns(Order::Turns)]
#[case::free(Order::Free)]
fn two_messages_larger_than_the_buffers_block_each_other_in_every_order(#[case] order: Order) {
    let deadline = Duration::from_millis(100);
    let text = "C: W16000000 R16000000 / S: W16000000 R16000000";
    let Some(error) = error_or_skip(&Play::new(exchange(text)).order(order).deadline(deadline)) else { return };
    let text = error.to_string();
    assert!(matches!(error, PlayError::Deadline { request: 1, .. }), "{text}");
    assert!(text.contains("waits in step 1 (W16000000) with "), "{text}");
}

#[rstest]
#[case::ordered(Order::Ordered)]
#[case::turns(Order::Turns)]
#[case::free(Order::Free)]
fn a_read_after_the_peers_shutdown_names_the_step(#[case] order: Order) {
    let play = Play::new(exchange("C: W10 R20 / S: R10 shutdown")).order(order);
    let Some(error) = error_or_skip(&play) else { return };
    let text = error.to_string();
    assert!(matches!(error, PlayError::Closed { request: 1, .. }), "{text}");
    assert!(text.contains("the client waits in step 2 (R20)"), "{text}");
    assert!(text.contains("the server has shut down"), "{text}");
}

#[rstest]
#[case::ordered(Order::Ordered)]
#[case::turns(Order::Turns)]
#[case::free(Order::Free)]
fn a_write_after_ones_own_shutdown_names_the_step(#[case] order: Order) {
    let play = Play::new(exchange("C: W10 shutdown R20 / S: R10 W20")).requests(2).order(order);
    let Some(error) = error_or_skip(&play) else { return };
    let text = error.to_string();
    assert!(matches!(error, PlayError::Closed { request: 2, .. }), "{text}");
    assert!(text.contains("the client waits in step 1 (W10), and the client has shut down"), "{text}");
}

#[rstest]
#[case::ordered(Order::Ordered)]
#[case::turns(Order::Turns)]
#[case::free(Order::Free)]
fn a_shutdown_on_a_fresh_connection_each_plays_to_its_end(#[case] order: Order) {
    let play = Play::new(exchange("C: W10 shutdown R20 / S: R10 W20")).requests(3).fresh().order(order);
    let Some(seen) = play_or_skip(&Conditions::default(), &play) else { return };
    assert_eq!(seen.requests.len(), 3);
    expect(&seen).no_stall().data_segments(Side::Client, 3);
}
