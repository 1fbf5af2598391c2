//! The headline claims without a namespace of one's own: on the loopback that everybody here shares, with the evidence
//! that can still be trusted there, the sockets' own.
//!
//! One at a time, within this process and across processes: nextest gives each test a process of its own, which an
//! ordinary `#[serial]` does not see.

use rstest::rstest;
use serial_test::file_serial;
use smallwrites::exchange::Side;
use smallwrites::expect::{Expect, expect};
use smallwrites::kernel::Kernel;
use smallwrites::lab::Conditions;
use smallwrites::observation::{Observation, Order, Release, Rule};
use smallwrites::play::Play;
use smallwrites::verdict::{Pattern, Wait};
use std::io::Write;

const REQUESTS: u32 = 10;

/// How often an exchange is played again on a machine that is late.
const TRIES: u32 = 20;

/// The lock is a file in a folder of the user's own: one that root made in the common folder is closed to all others.
#[ctor::ctor]
fn prepare() {
    // SAFETY: getuid takes nothing and cannot fail.
    let user = unsafe { libc::getuid() };
    let folder = std::env::temp_dir().join(format!("smallwrites-{user}"));
    if std::fs::create_dir_all(&folder).is_ok() {
        // SAFETY: no other thread exists yet that could read the environment.
        unsafe { std::env::set_var("TMPDIR", folder) };
    }
}

/// Plays on the shared loopback; once more where the player waited for a CPU as long as a timer takes.
#[track_caller]
fn play(conditions: &Conditions, notation: &str, requests: u32, order: Order) -> Observation {
    let exchange = notation.parse().unwrap_or_else(|error| panic!("{notation}: {error}"));
    let play = Play::new(exchange).requests(requests).order(order);
    let mut seen = played(conditions, &play);
    for _ in 0..TRIES {
        let timer = seen.environment.delayed_ack_us.saturating_sub(seen.environment.jiffy_us);
        if seen.requests.iter().all(|request| request.run_queue_us.is_none_or(|waited| waited < timer)) {
            break;
        }
        seen = played(conditions, &play);
    }
    assert_eq!(seen.environment.place, "shared loopback");
    assert_eq!(seen.counters, None, "counters that others move are no evidence");
    seen
}

#[track_caller]
fn played(conditions: &Conditions, play: &Play) -> Observation {
    let seen = conditions.run(|lab| play.run(lab)).expect("the shared loopback needs no permission");
    seen.unwrap_or_else(|error| panic!("{error}"))
}

/// The host's own settings apply here, so the pattern is known for the usual threshold only.
fn usual_threshold() -> bool {
    let threshold = Kernel::probe().expect("the kernel can be probed").pingpong_threshold;
    if threshold != Some(1) {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED on the shared loopback: the pingpong threshold is {threshold:?}, not 1"
        );
    }
    threshold == Some(1)
}

fn stalls(seen: &Observation) -> Expect<'_> {
    expect(seen)
        .stalls(Pattern::AllButFirst)
        .delayed_acks_per_stall(1)
        .follows_pingpong(Side::Server)
        .held(Side::Client, 10)
        .cause(Side::Client, Rule::Nagle, Release::DelayedAck)
        .stalls_last_a_delayed_ack()
        .data_segments(Side::Client, 2 * REQUESTS)
        .data_segments(Side::Server, REQUESTS)
}

#[rstest]
#[case::ipv4(Conditions::shared())]
#[case::ipv6(Conditions::shared().ipv6())]
#[file_serial(shared_loopback)]
fn two_small_writes_stall(#[case] conditions: Conditions) {
    if usual_threshold() && has(&conditions) {
        stalls(&play(&conditions, "C: W10 W10 R20 / S: R20 W20", REQUESTS, Order::Ordered));
    }
}

fn has(conditions: &Conditions) -> bool {
    let has = conditions.run(|lab| std::net::TcpListener::bind((lab.address(), 0)).is_ok()).unwrap_or(false);
    if !has {
        let _ = writeln!(std::io::stderr(), "SKIPPED on the shared loopback: no {:?} here", conditions.family);
    }
    has
}

#[rstest]
#[case::nodelay("C: [nodelay] W10 W10 R20 / S: R20 W20", 2)]
#[case::one_write("C: W20 R20 / S: R20 W20", 1)]
#[case::vector("C: V10+10 R20 / S: R20 W20", 1)]
#[case::cork("C: cork W10 W10 uncork R20 / S: R20 W20", 1)]
#[case::msg_more("C: M10 W10 R20 / S: R20 W20", 1)]
#[case::quickack_every_read("C: W10 W10 R20 / S: quickack R20 W20", 2)]
#[file_serial(shared_loopback)]
fn each_fix_ends_the_stall(#[case] notation: &str, #[case] segments: u32) {
    let seen = play(&Conditions::shared(), notation, REQUESTS, Order::Ordered);
    expect(&seen)
        .no_stall()
        .segments_per_request(Side::Client, segments)
        .data_segments(Side::Client, segments * REQUESTS)
        .data_segments(Side::Server, REQUESTS);
}

#[test]
#[file_serial(shared_loopback)]
fn quickack_set_once_changes_nothing() {
    if usual_threshold() {
        stalls(&play(&Conditions::shared(), "C: W10 W10 R20 / S: [quickack] R20 W20", REQUESTS, Order::Ordered));
    }
}

#[rstest]
#[case::cork("C: W75 R80 / S: [cork] R75 W80", Side::Server, Rule::Cork)]
#[case::cork_beats_nodelay("C: W75 R80 / S: [nodelay cork] R75 W80", Side::Server, Rule::Cork)]
#[case::msg_more("C: M75 R80 / S: R75 W80", Side::Client, Rule::More)]
#[file_serial(shared_loopback)]
fn what_is_never_let_go_waits_for_the_persist_timer(#[case] notation: &str, #[case] side: Side, #[case] rule: Rule) {
    const REQUESTS: u32 = 3;
    let seen = play(&Conditions::shared(), notation, REQUESTS, Order::Ordered);
    let checked = expect(&seen)
        .stalls(Pattern::Every)
        .held_200ms()
        .cause(side, rule, Release::PersistTimer)
        .data_segments(Side::Client, REQUESTS)
        .data_segments(Side::Server, REQUESTS);
    assert_eq!(checked.verdict().word(), "held-200ms");
    // The timer is armed for 200 ms at least, and a jiffy of them may have begun.
    let floor = 200_000 - seen.environment.jiffy_us;
    let median = smallwrites::observation::Summary::of(seen.latencies_us()).expect("there are requests").median_us;
    assert!(median >= floor, "median {median} µs, expected {floor} µs or more");
}

/// With two threads nobody sees when both of them wait, and here no counter tells the timer's ACK from another.
#[rstest]
#[case::turns(Order::Turns)]
#[case::free(Order::Free)]
#[file_serial(shared_loopback)]
fn two_threads_show_the_stall_too(#[case] order: Order) {
    if !usual_threshold() {
        return;
    }
    let seen = play(&Conditions::shared(), "C: W10 W10 R20 / S: R20 W20", REQUESTS, order);
    let checked = expect(&seen)
        .held(Side::Client, 10)
        .cause(Side::Client, Rule::Nagle, Release::DelayedAck)
        .data_segments(Side::Client, 2 * REQUESTS);
    assert_eq!(checked.verdict().wait, Some(Wait::DelayedAck(1)));
    assert!(2 * checked.verdict().stalled.len() > seen.requests.len(), "{}", checked.verdict());
}

/// What needs a namespace of one's own is refused in words, and nothing of the host is changed.
#[rstest]
#[case::sysctl(Conditions::shared().sysctl("net.ipv4.tcp_pingpong_thresh", "3"), "a sysctl of the lab's own")]
#[case::mtu(Conditions::shared().mtu(1500), "another MTU")]
#[case::route(Conditions::shared().quickack_route(), "a route of the lab's own")]
fn settings_of_ones_own_are_refused(#[case] conditions: Conditions, #[case] what: &str) {
    let before = Kernel::probe().expect("the kernel can be probed").sysctls;
    let error = conditions.run(|_| ()).expect_err("it needs a private namespace");
    assert_eq!(error.to_string(), format!("{what} needs a private namespace, and this lab is the shared loopback"));
    assert_eq!(Kernel::probe().expect("the kernel can be probed").sysctls, before);
}
