//! The send buffer, its rules alone and in exchanges. The exchanges were also seen on a kernel (6.18, 250 ticks a second).

use super::*;
use crate::exchange::{Side, Socket};
use crate::model::env::Env;
use crate::model::segment::Segment;
use crate::model::sender::Sender;

fn six(text: &str) -> Vec<Request> {
    requests(text, &Facts::loopback_for(&exchange(text)), 6)
}

/// A sender that has written `pieces` whole segments, all of them on their way.
fn in_flight(pieces: u32, env: &Env) -> Sender {
    let mut sender = Sender::new(Side::Client, &Facts::default().start.client, env);
    for _ in 0..pieces {
        let goal = sender.size_goal();
        sender.append(988, goal, true);
        assert_eq!(sender.next_piece(0, env).map(|piece| piece.len), Some(988));
        sender.cwnd_validate(true);
    }
    sender
}

#[test]
fn a_segment_takes_its_headers_memory_too() {
    let env = env();
    let mut sender = in_flight(4, &env);
    for (half, room) in [(2 * (988 + 832), false), (2 * (988 + 832) + 1, true)] {
        sender.set_send_buffer(half);
        assert_eq!(sender.has_room(&env), room, "{half} doubled");
    }
}

#[test]
fn the_smallest_send_buffer_is_4608_bytes() {
    let env = env();
    for (held, room) in [(3775, true), (3776, false)] {
        let mut sender = Sender::new(Side::Client, &Facts::default().start.client, &env);
        sender.set_send_buffer(1);
        let goal = sender.size_goal();
        sender.append(held, goal, true);
        assert_eq!(sender.has_room(&env), room, "{held}");
    }
}

#[test]
fn it_grows_with_the_congestion_window_once_a_program_waits_for_room() {
    let env = env();
    let mut sender = in_flight(10, &env);
    acknowledge_all(&mut sender, &env);
    assert_eq!(sender.cwnd, 20);
    sender.check_space(&env);
    assert_eq!(sender.send_buffer.size, 46_080, "nobody waits");
    sender.refuse();
    sender.check_space(&env);
    assert_eq!(sender.send_buffer.size, 92_160);
}

#[test]
fn it_grows_neither_at_the_end_of_the_congestion_window_nor_where_the_program_set_it() {
    let env = env();
    let mut sender = in_flight(10, &env);
    sender.cwnd = 10;
    sender.refuse();
    sender.check_space(&env);
    assert_eq!(sender.send_buffer.size, 46_080, "ten of ten in flight");
    let mut sender = in_flight(10, &env);
    sender.set_send_buffer(5000);
    acknowledge_all(&mut sender, &env);
    sender.refuse();
    sender.check_space(&env);
    assert_eq!(sender.send_buffer.size, 10_000);
}

/// Nothing is held, yet the last byte waits for the delayed ACK of the message before it.
#[test]
fn a_message_that_fills_it_makes_the_next_write_wait() {
    let full = six("C: [nodelay sndbuf=1] W3776 W1 R1 / S: R3777 W1");
    assert!(full.iter().all(|r| r.held.client == [0, 0]));
    let waits: Vec<usize> = full.iter().map(Request::quanta).collect();
    assert_eq!(waits, [0, 1, 1, 1, 1, 1]);
    assert_eq!(full[1].waits[0].ended_by, Ended::DelayedAck(Socket::Server));
    let room = six("C: [nodelay sndbuf=1] W3775 W1 R1 / S: R3776 W1");
    assert!(room.iter().all(|r| r.waits.is_empty()));
}

/// 55 of them take 46,080 bytes of memory, but the reader acknowledges what it reads of them.
#[test]
fn sixty_single_bytes_find_no_room_but_wait_for_no_timer() {
    let text = format!("C: [nodelay mss=1000] {}R1 / S: R60 W1", "W1 ".repeat(60));
    let prediction = predict(&exchange(&text), &Facts::loopback_for(&exchange(&text)), 6).expect("predictable");
    assert!(prediction.requests.iter().all(|r| r.waits.is_empty()));
    assert!(prediction.timeline.moments().iter().any(|moment| moment.event == Event::Full { bytes: 1 }));
}

#[test]
fn what_is_larger_than_the_device_takes_arrives_in_its_segments() {
    let env = env();
    let piece = |count, mss| Segment {
        seq: 1,
        len: count * mss,
        ack: 1,
        window: 65_536,
        count,
        mss,
        psh: true,
        truesize: count * mss + 832,
        shared: true,
    };
    assert!(!piece(2, 32_700).is_too_large(&env));
    assert!(!piece(1, 65_483).is_too_large(&env), "one segment leaves as it is");
    assert!(piece(2, 45_568).is_too_large(&env));
    let cut: Vec<Segment> = piece(2, 45_568).cut().collect();
    let seen = |segment: &Segment| (segment.seq, segment.len, segment.truesize, segment.psh, segment.shared);
    assert_eq!(
        cut.iter().map(seen).collect::<Vec<_>>(),
        [(1, 45_568, 46_400, false, false), (45_569, 45_568, 46_400, true, false)]
    );
}
