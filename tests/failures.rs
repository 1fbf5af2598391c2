//! What a failed assertion says: its text is what a user gets for the price of a red test.

mod support {
    pub(crate) mod fixed;
    pub(crate) mod snapshots;
}

use rstest::rstest;
use smallwrites::exchange::Side;
use smallwrites::expect::{Failure, Kind, expect};
use smallwrites::observation::{Order, Release, Rule};
use smallwrites::verdict::Pattern;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::fixed::{fine, stalled};
use support::snapshots::snapshots;

/// A failure of each kind, of observations that never change.
fn failure(kind: Kind) -> Failure {
    let (stalled, fine) = (stalled(), fine());
    let failed = match kind {
        Kind::Stall => expect(&stalled).try_no_stall(),
        Kind::Pattern => expect(&fine).try_stalls(Pattern::AllButFirst),
        Kind::Quanta => expect(&stalled).try_delayed_acks_per_stall(2),
        Kind::Time => {
            let mut hurried = stalled.clone();
            for request in &mut hurried.requests {
                request.latency_us /= 2;
            }
            return expect(&hurried).try_stalls_last_a_delayed_ack().map(drop).expect_err("half as long is too short");
        }
        Kind::Law => expect(&fine).try_follows_pingpong(Side::Server),
        Kind::Segments => expect(&stalled).try_data_segments(Side::Client, 5),
        Kind::Held => expect(&stalled).try_held(Side::Client, 20),
        Kind::Cause => expect(&stalled).try_cause(Side::Client, Rule::Cork, Release::PersistTimer),
        Kind::Counter => expect(&stalled).try_counter("TcpExtDelayedACKs", 0),
        Kind::Answer => {
            let because = "setsockopt(TCP_NODELAY) is refused by a socket that is not TCP (udp_lib_setsockopt)";
            return Failure::plain(kind, "ENOPROTOOPT from a UDP socket", because, "success");
        }
        Kind::Play => {
            let saw = "request 1 is stuck: the client waits in step 2 (R20), the server waits in step 1 (R11) with 10 bytes \
                       done; let each side read what the other writes";
            let because = "a claim is judged on an exchange that was played";
            return Failure::plain(kind, "the exchange can be played to its end", because, saw);
        }
    };
    failed.map(drop).expect_err("the assertion does not hold")
}

#[rstest]
#[case::stall(Kind::Stall, "stall")]
#[case::pattern(Kind::Pattern, "pattern")]
#[case::quanta(Kind::Quanta, "quanta")]
#[case::time(Kind::Time, "time")]
#[case::law(Kind::Law, "law")]
#[case::segments(Kind::Segments, "segments")]
#[case::held(Kind::Held, "held")]
#[case::cause(Kind::Cause, "cause")]
#[case::counter(Kind::Counter, "counter")]
#[case::answer(Kind::Answer, "answer")]
#[case::play(Kind::Play, "play")]
fn each_kind_of_failure_says_what_was_expected_and_seen(#[case] kind: Kind, #[case] name: &str) {
    let failure = failure(kind);
    assert_eq!(failure.kind, kind);
    snapshots().bind(|| insta::assert_snapshot!(format!("failure_{name}"), failure.to_string()));
}

/// What a claim adds, on top of the same text.
#[test]
fn a_claims_failure_begins_with_the_claim() {
    let mut failure = failure(Kind::Stall);
    let plain = failure.to_string();
    failure.claim = Some("nodelay-removes-stall: TCP_NODELAY removes the stall and leaves the 100 segments".to_owned());
    let (first, rest) = failure.to_string().split_once('\n').map(|(a, b)| (a.to_owned(), b.to_owned())).expect("lines");
    assert_eq!(first, "claim     nodelay-removes-stall: TCP_NODELAY removes the stall and leaves the 100 segments");
    assert_eq!(rest, plain);
}

/// The command at the end plays the same once more, under the same conditions.
#[test]
fn the_command_repeats_the_conditions() {
    let mut seen = stalled();
    seen.fresh = true;
    seen.order = Order::Turns;
    seen.environment.family = "IPv6".to_owned();
    for (name, value) in [
        ("net.ipv4.tcp_early_retrans", "0"),
        ("net.ipv4.tcp_pingpong_thresh", "3"),
        ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
        ("route quickack", "1"),
    ] {
        seen.environment.pinned.insert(name.to_owned(), value.to_owned());
    }
    let failure = expect(&seen).try_no_stall().map(drop).expect_err("four requests stall");
    let remedy = failure.remedy.as_deref().unwrap_or_default();
    assert_eq!(
        remedy.lines().last(),
        Some(
            "smallwrites try 'C: W10 W10 R20 / S: R20 W20' --requests 5 --fresh --order turns --ipv6 --quickack-route \
             --sysctl net.ipv4.tcp_pingpong_thresh=3 --sysctl net.ipv4.tcp_rmem='4096 131072 6291456'"
        )
    );
    seen.environment.place = "shared loopback".to_owned();
    let failure = expect(&seen).try_no_stall().map(drop).expect_err("four requests stall");
    assert!(failure.remedy.as_deref().unwrap_or_default().contains(" --shared"), "{failure}");
}

/// The witness is the request that broke the law, not the first that stalled.
#[test]
fn the_witness_is_the_request_that_shows_it() {
    let mut seen = stalled();
    seen.requests[3].holds[0].bytes = 9;
    let held = expect(&seen).try_held(Side::Client, 10).map(drop).expect_err("request 4 holds 9");
    assert!(held.witness.as_deref().is_some_and(|witness| witness.starts_with("request 4: 47.3 ms")), "{held}");
    let mut seen = stalled();
    seen.requests[2].receivers.server.pingpong = Some(false);
    let law =
        expect(&seen).try_follows_pingpong(Side::Server).map(drop).expect_err("request 3 stalls outside the mode");
    assert!(law.witness.as_deref().is_some_and(|witness| witness.starts_with("request 3: 44.0 ms")), "{law}");
}

/// Whoever reads a failure in JSON has everything that the text has.
#[test]
fn a_failure_survives_json() {
    let failure = failure(Kind::Held);
    let json = serde_json::to_value(&failure).expect("it is plain data");
    assert_eq!(json["kind"], "held");
    assert_eq!(serde_json::from_value::<Failure>(json).expect("it was just written"), failure);
}

thread_local! {
    /// Where this thread's last panic was.
    static PANICKED: RefCell<Option<(String, u32)>> = const { RefCell::new(None) };
}

#[test]
fn both_forms_say_the_same_and_the_panic_points_at_the_test() {
    let seen = stalled();
    let told = expect(&seen).try_no_stall().map(drop).expect_err("four requests stall").to_string();

    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(|location| (location.file().to_owned(), location.line()));
        PANICKED.with_borrow_mut(|panicked| *panicked = place);
        // The other tests of this process keep theirs.
        if std::thread::current().name().is_none_or(|name| !name.starts_with("both_forms")) {
            before(panic);
        }
    }));
    // Both on one line, which is where the panic has to be.
    let (panic, line) = (catch_unwind(AssertUnwindSafe(|| expect(&seen).no_stall())).map(drop), line!());

    let panic = panic.expect_err("it panics");
    assert_eq!(panic.downcast_ref::<String>(), Some(&told));
    let panicked = PANICKED.take().expect("the hook was called");
    assert_eq!(panicked, (file!().to_owned(), line), "the panic does not point at the test's own line");
}

/// An assertion that holds says so without figures of the run, and a chain keeps them all.
#[test]
fn what_holds_is_told_in_the_same_words_in_every_run() {
    let seen = stalled();
    let checked = expect(&seen)
        .stalls(Pattern::AllButFirst)
        .delayed_acks_per_stall(1)
        .follows_pingpong(Side::Server)
        .held(Side::Client, 10)
        .cause(Side::Client, Rule::Nagle, Release::DelayedAck)
        .stalls_last_a_delayed_ack()
        .data_segments(Side::Client, 10)
        .segments_per_request(Side::Server, 1)
        .bare_acks(Side::Server, 4)
        .held_at_most(Side::Client, 10)
        .counter("TcpExtDelayedACKs", 4)
        .nothing_resent();
    let holds: Vec<&str> = checked.facts().iter().map(|fact| fact.holds.as_str()).collect();
    snapshots().bind(|| insta::assert_snapshot!("facts", holds.join("\n")));
}
