//! Each rule alone.

use super::{acknowledge_all, env};
use crate::exchange::Side;
use crate::model::delayed_ack::AckDecision;
use crate::model::env::Env;
use crate::model::facts::Facts;
use crate::model::receiver::Receiver;
use crate::model::segment::Segment;
use crate::model::sender::{CORK, OFF, PUSH, Retransmit, Sender};

fn sender() -> Sender {
    Sender::new(Side::Client, &Facts::default().start.client, &env())
}

fn receiver() -> Receiver {
    Receiver::new(&Facts::default().start.server)
}

/// A segment of one write, at the place where the receiver expects it.
fn segment(receiver: &Receiver, len: u32) -> Segment {
    Segment {
        seq: receiver.rcv_nxt,
        len,
        ack: 1,
        window: 65_536,
        count: 1,
        mss: 988,
        psh: true,
        truesize: len + 832,
        shared: true,
    }
}

fn arrive(receiver: &mut Receiver, len: u32, env: &Env) {
    let segment = segment(receiver, len);
    receiver.queue(&segment, 0, env);
    receiver.data_received(&segment, 51, false, env);
}

/// Writes so much and sends what may leave; the sizes that left.
fn write(sender: &mut Sender, bytes: u32, env: &Env) -> Vec<u32> {
    let goal = sender.size_goal();
    sender.append(bytes, goal, true);
    sender.mark_push();
    let nonagle = sender.nonagle;
    std::iter::from_fn(|| sender.next_piece(nonagle, env).map(|piece| piece.len)).collect()
}

#[test]
fn nagle_holds_a_small_segment_behind_a_small_one() {
    let mut sender = sender();
    assert_eq!(write(&mut sender, 10, &env()), [10]);
    assert_eq!(write(&mut sender, 10, &env()), [0; 0]);
    assert_eq!(write(&mut sender, 10, &env()), [0; 0]);
    assert_eq!(sender.held(), 20);
    acknowledge_all(&mut sender, &env());
    assert_eq!(sender.next_piece(0, &env()).map(|piece| piece.len), Some(20), "held writes leave as one segment");
}

#[test]
fn minshall_lets_a_small_segment_follow_a_full_one() {
    let mut sender = sender();
    assert_eq!(write(&mut sender, 988, &env()), [988]);
    assert_eq!(write(&mut sender, 10, &env()), [10]);
    assert_eq!(write(&mut sender, 10, &env()), [0; 0]);
}

#[test]
fn a_full_segment_is_never_held() {
    let mut sender = sender();
    assert_eq!(write(&mut sender, 10, &env()), [10]);
    assert_eq!(write(&mut sender, 1000, &env()), [988], "but its tail is");
    assert_eq!(sender.held(), 12);
}

#[test]
fn nodelay_pushes_and_zero_does_not() {
    let mut sender = sender();
    assert!(sender.set_nodelay(true));
    assert_eq!(sender.nonagle, OFF | PUSH);
    assert_eq!(write(&mut sender, 10, &env()), [10]);
    assert_eq!(write(&mut sender, 10, &env()), [10]);
    assert!(!sender.set_nodelay(false));
    assert_eq!(write(&mut sender, 10, &env()), [0; 0]);
}

#[test]
fn a_cork_beats_nodelay_for_later_writes() {
    let mut sender = sender();
    sender.set_nodelay(true);
    assert!(!sender.set_cork(true));
    assert_eq!(write(&mut sender, 10, &env()), [0; 0]);
    assert!(sender.set_cork(false));
    assert_eq!(sender.nonagle, OFF | PUSH);
    assert_ne!(sender.nonagle & CORK, CORK);
}

#[test]
fn the_persist_timer_waits_two_hundred_milliseconds_and_tells_minshall_nothing() {
    let mut sender = sender();
    sender.set_cork(true);
    write(&mut sender, 10, &env());
    sender.check_probe_timer(&env());
    assert_eq!(sender.retransmit, Retransmit::Probe0(52));
    assert_eq!(sender.write_wakeup(&env()).map(|piece| piece.len), Some(10));
    sender.set_cork(false);
    assert_eq!(write(&mut sender, 10, &env()), [10], "a small segment is in flight, and yet");
}

#[test]
fn the_congestion_window_halves_what_leaves_at_once() {
    let mut sender = sender();
    assert_eq!(write(&mut sender, 12 * 988, &env()), [5 * 988, 5 * 988]);
    assert_eq!(sender.packets_out, 10);
}

#[test]
fn slow_start_grows_a_window_that_was_full() {
    let mut sender = sender();
    write(&mut sender, 10 * 988, &env());
    sender.cwnd_validate(true);
    acknowledge_all(&mut sender, &env());
    assert_eq!(sender.cwnd, 20);
    write(&mut sender, 10, &env());
    sender.cwnd_validate(true);
    acknowledge_all(&mut sender, &env());
    assert_eq!(sender.cwnd, 20, "one segment does not fill it");
}

#[test]
fn a_delayed_ack_makes_the_timeout_longer_but_it_is_never_below_the_minimum() {
    let mut sender = sender();
    assert_eq!(sender.round_trip.rto, 51);
    for _ in 0..20 {
        sender.round_trip.sample(44_000, 1, 1, &env());
    }
    assert!(sender.round_trip.rto > 55, "{}", sender.round_trip.rto);
    for _ in 0..100 {
        sender.round_trip.sample(10, 1, 1, &env());
    }
    assert_eq!(sender.round_trip.rto, 51);
}

#[test]
fn the_segment_size_follows_half_of_the_largest_window() {
    let facts = Facts::loopback(None);
    let mut sender = Sender::new(Side::Client, &facts.start.client, &env());
    assert_eq!(sender.mss, 32_741);
    let window = 131_072;
    let ack = Segment { seq: 1, len: 0, ack: 1, window, count: 1, mss: 0, psh: false, truesize: 2, shared: false };
    sender.acknowledge(&ack, false, &env());
    assert_eq!(sender.mss, 65_483);
}

#[test]
fn timers_fire_a_tick_late_and_long_ones_up_to_eight() {
    assert_eq!(env().fires(10), 11);
    assert_eq!(env().fires(62), 63);
    assert_eq!(env().fires(63), 64);
    assert_eq!(env().fires(64), 72);
}

#[test]
fn the_first_data_grants_sixteen_quick_acks() {
    let mut receiver = receiver();
    arrive(&mut receiver, 10, &env());
    assert_eq!(receiver.quick, 16);
    assert_eq!(receiver.ack_snd_check(0, &env()), AckDecision::Now);
    receiver.ack_sent(&env());
    assert_eq!(receiver.quick, 15);
}

#[test]
fn a_small_window_grants_at_least_two() {
    let mut receiver = receiver();
    receiver.rcv_wnd = 500;
    arrive(&mut receiver, 10, &env());
    assert_eq!(receiver.quick, 2);
}

#[test]
fn a_soon_answer_enters_pingpong_mode_and_ends_quick_acks() {
    let mut receiver = receiver();
    receiver.data_sent(&env());
    assert!(!receiver.in_pingpong_mode(&env()), "nothing had arrived");
    arrive(&mut receiver, 10, &env());
    receiver.data_sent(&env());
    assert!(receiver.in_pingpong_mode(&env()));
    assert_eq!(receiver.ack_snd_check(0, &env()), AckDecision::Delayed);
    assert_eq!(receiver.delack_fires(), Some(11));
}

#[test]
fn a_late_answer_does_not() {
    let mut receiver = receiver();
    arrive(&mut receiver, 10, &env());
    let mut later = env();
    later.advance(40_000);
    receiver.data_sent(&later);
    assert!(!receiver.in_pingpong_mode(&later));
}

#[test]
fn the_delayed_ack_timer_leaves_pingpong_mode() {
    let mut receiver = receiver();
    receiver.enter_pingpong_mode(&env());
    arrive(&mut receiver, 10, &env());
    receiver.ack_snd_check(0, &env());
    assert!(receiver.delack_timer(51, &env()));
    assert!(!receiver.in_pingpong_mode(&env()));
    assert_eq!(receiver.ato, 10);
}

#[test]
fn outside_pingpong_mode_the_timer_doubles_the_delay() {
    let mut receiver = receiver();
    arrive(&mut receiver, 10, &env());
    receiver.quick = 0;
    receiver.ack_snd_check(0, &env());
    assert!(receiver.delack_timer(51, &env()));
    assert_eq!(receiver.ato, 20);
}

#[test]
fn a_round_trip_estimate_keeps_the_delay_at_forty_milliseconds() {
    let mut receiver = receiver();
    arrive(&mut receiver, 10, &env());
    receiver.quick = 0;
    receiver.ato = 20;
    receiver.ack_snd_check(10, &env());
    assert_eq!(receiver.delack_fires(), Some(11));
    receiver.pending.timer = None;
    receiver.ack_snd_check(0, &env());
    assert_eq!(receiver.delack_fires(), Some(21), "without an estimate it is longer");
}

#[test]
fn an_ack_about_to_fire_leaves_at_once() {
    let mut receiver = receiver();
    receiver.enter_pingpong_mode(&env());
    arrive(&mut receiver, 10, &env());
    receiver.ack_snd_check(0, &env());
    let mut later = env();
    later.advance(32_000);
    arrive(&mut receiver, 10, &later);
    assert_eq!(receiver.ack_snd_check(0, &later), AckDecision::Overdue);
}

#[test]
fn more_than_a_segment_is_acknowledged_at_arrival_if_the_window_may_move_on() {
    let mut receiver = receiver();
    receiver.enter_pingpong_mode(&env());
    receiver.rcv_wnd = 60_000;
    arrive(&mut receiver, 300, &env());
    assert_eq!(receiver.ack_snd_check(0, &env()), AckDecision::Delayed);
    arrive(&mut receiver, 300, &env());
    assert_eq!(receiver.ack_snd_check(0, &env()), AckDecision::Now);
}

#[test]
fn without_a_window_that_moves_the_read_acknowledges() {
    let mut receiver = receiver();
    receiver.enter_pingpong_mode(&env());
    for _ in 0..2 {
        arrive(&mut receiver, 300, &env());
    }
    receiver.rcv_wnd = 1 << 20;
    assert_eq!(receiver.ack_snd_check(0, &env()), AckDecision::Delayed);
    assert!(receiver.cleanup_rbuf(false, &env()));
}

#[test]
fn a_read_that_empties_the_queue_acknowledges_a_small_segment_outside_pingpong_mode() {
    let mut receiver = receiver();
    arrive(&mut receiver, 10, &env());
    assert_eq!(receiver.take(5), (5, 0));
    assert!(!receiver.cleanup_rbuf(true, &env()));
    assert_eq!(receiver.take(5), (5, 842));
    assert!(receiver.cleanup_rbuf(true, &env()));
    receiver.enter_pingpong_mode(&env());
    assert!(!receiver.cleanup_rbuf(true, &env()));
}

#[test]
fn a_second_small_segment_is_acknowledged_on_read_even_in_pingpong_mode() {
    let mut receiver = receiver();
    receiver.enter_pingpong_mode(&env());
    for _ in 0..2 {
        arrive(&mut receiver, 10, &env());
    }
    assert!(receiver.pending.pushed2);
    receiver.take(20);
    assert!(receiver.cleanup_rbuf(true, &env()));
}

#[test]
fn the_segment_size_estimate_follows_the_largest_segment() {
    let mut receiver = receiver();
    for (len, estimate) in [(10, 536), (900, 900), (800, 900), (700, 900), (700, 700), (988, 988)] {
        arrive(&mut receiver, len, &env());
        assert_eq!(receiver.rcv_mss, estimate, "after {len}");
    }
}

#[test]
fn a_segment_joins_the_one_before_only_if_its_sender_has_let_go_of_that() {
    let mut receiver = receiver();
    let first = segment(&receiver, 10);
    assert_eq!(receiver.queue(&first, 0, &env()), 842);
    let second = segment(&receiver, 10);
    assert_eq!(receiver.queue(&second, first.seq, &env()), 842);
    let third = segment(&receiver, 10);
    assert_eq!(receiver.queue(&third, second.end(), &env()), 10);
    assert_eq!(receiver.rmem, 2 * 842 + 10);
}

#[test]
fn the_window_grows_with_segments_of_some_size_and_each_time_grants_a_quick_ack() {
    let mut receiver = receiver();
    receiver.window_clamp = 200_000;
    receiver.rcvbuf = 1 << 20;
    arrive(&mut receiver, 10, &env());
    receiver.quick = 0;
    let before = receiver.rcv_ssthresh;
    arrive(&mut receiver, 127, &env());
    assert_eq!((receiver.rcv_ssthresh, receiver.quick), (before, 0));
    arrive(&mut receiver, 128, &env());
    assert_eq!((receiver.rcv_ssthresh, receiver.quick), (before + 2 * 988, 1));
}

#[test]
fn an_offered_window_is_never_taken_back() {
    let mut receiver = receiver();
    receiver.rcv_ssthresh = 2048;
    assert_eq!(receiver.offer_window(&env()), 65_536, "65,208 in whole KiB");
}

#[test]
fn a_window_without_scaling_moves_by_whole_segments() {
    for (offered, window) in [(50_000, 64_320), (64_400, 64_400)] {
        let mut receiver = receiver();
        (receiver.wscale, receiver.rcv_wnd) = (0, offered);
        assert_eq!(receiver.select_window(&env()), window, "of 64,548 bytes in segments of 536");
    }
}

#[test]
fn quickack_acknowledges_only_what_was_read() {
    let mut receiver = receiver();
    receiver.enter_pingpong_mode(&env());
    arrive(&mut receiver, 10, &env());
    assert!(!receiver.set_quickack(1, &env()));
    receiver.take(10);
    assert!(receiver.set_quickack(1, &env()));
    assert!(!receiver.set_quickack(0, &env()));
    assert!(receiver.in_pingpong_mode(&env()));
}
