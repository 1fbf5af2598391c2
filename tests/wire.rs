//! A wire between two private namespaces: what Nagle and delayed ACK cost in round trips and timers, what losses do, and
//! how it is captured. Where namespaces are refused every test says so and passes.
//!
//! Times are asserted from below only: a loaded machine is late, never early.

use smallwrites::exchange::Side;
use smallwrites::lab::{self, Conditions, Extent, Loss, WireSpec};
use smallwrites::observation::{Observation, Order, Release, Rule, Socket, shape};
use smallwrites::play::Play;
use smallwrites::sys::veth::TokenBucket;
use smallwrites::verdict::{Verdict, Wait, wait};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// Namespaces can be entered only while the process has one thread.
#[ctor::ctor]
fn enter() {
    let _ = ENTERED.set(lab::enter().map_err(|error| error.to_string()));
}

static ENTERED: OnceLock<Result<(), String>> = OnceLock::new();

const TEN: Duration = Duration::from_millis(10);
const SPLIT: &str = "C: W10 W10 R20 / S: R20 W20";

/// How often a play is repeated that the machine's load has spoiled.
const TRIALS: u32 = 4;

/// Microseconds of a round trip on a wire of 10 ms.
const RTT: u64 = 20_000;

fn wire() -> Conditions {
    Conditions::default().wire(WireSpec::new(TEN))
}

fn losing(loss: Loss) -> Conditions {
    Conditions::default().wire(WireSpec::new(TEN).losing(loss))
}

/// Plays with a capture; `None`, with the reason printed, where there are no namespaces.
fn played(conditions: &Conditions, exchange: &str, requests: u32) -> Option<Observation> {
    played_in(Order::Ordered, conditions, exchange, requests)
}

fn played_in(order: Order, conditions: &Conditions, exchange: &str, requests: u32) -> Option<Observation> {
    if let Some(Err(refusal)) = ENTERED.get() {
        eprintln!("not tested: {refusal}");
        return None;
    }
    let play = Play::new(exchange.parse().unwrap()).requests(requests).order(order).capture();
    let loses = conditions.wire.as_ref().is_some_and(|wire| !wire.losses.is_empty());
    for _ in 0..TRIALS {
        let seen = conditions.run(|lab| play.run(lab)).unwrap().unwrap();
        // Where nothing was to be lost, what was sent again waited longer than the retransmission timeout for a CPU,
        // and the congestion window is not what it should be.
        if loses || seen.counter("TcpRetransSegs") == Some(0) {
            return Some(seen);
        }
    }
    eprintln!("not decided: segments were late by more than the retransmission timeout in each of {TRIALS} trials");
    None
}

/// Each request's segments; what a client acknowledges of the last reply by itself is left out.
fn shapes(seen: &Observation) -> Vec<String> {
    let frames = seen.frames.as_ref().unwrap();
    let shape = |request| shape(frames.of_request(request)).replace(" Cack", "");
    (1..=seen.requests.len() as u32).map(shape).collect()
}

/// A request whose receiver delays its ACKs waits for the timer, one whose receiver does not for a round trip; both
/// with the bytes held.
fn assert_delayed(seen: &Observation) {
    let floor = seen.environment.delayed_ack_us - seen.environment.jiffy_us;
    let mut delayed = 0;
    for request in &seen.requests {
        assert_eq!(request.holds.len(), 1, "{request:?}");
        let hold = &request.holds[0];
        assert_eq!((hold.socket, hold.bytes, hold.rule), (Socket::Client, 10, Rule::Nagle));
        if request.receivers.server.pingpong == Some(true) {
            delayed += 1;
            assert_eq!(wait(seen, request), Some(Wait::DelayedAck(1)), "{request:?}");
            assert!(request.latency_us >= 2 * RTT + floor, "{request:?}");
        } else {
            // The first, whose ACKs are quick, and one after a reply that came late.
            assert_eq!(wait(seen, request), Some(Wait::RoundTrip), "{request:?}");
            assert!(request.latency_us >= 2 * RTT, "{request:?}");
        }
    }
    assert!(delayed > 0, "no receiver ever delayed an ACK");
}

#[test]
fn nagle_costs_a_round_trip_and_the_delayed_ack_its_timer() {
    let Some(seen) = played(&wire(), SPLIT, 6) else { return };
    assert_delayed(&seen);
    assert!(shapes(&seen).iter().all(|shape| shape == "C10 Sack C10 Sack S20"), "{:?}", shapes(&seen));
    assert_eq!(seen.sockets.client.data_segments, Some(12));
    assert_eq!(Verdict::of(&seen).to_string(), "every · 1×40ms");
    for request in 1..=6 {
        let story = seen.stories(request).pop().unwrap();
        let frames = seen.frames.as_ref().unwrap();
        let (header, body) = (&frames[story.header], &frames[story.body]);
        let ack = &frames[story.releaser.expect("something released it")];
        assert!(ack.is_bare_ack() && ack.ack == Some(header.end()), "exactly the header: {ack:?}");
        assert!(ack.there_us().unwrap() <= body.at_us, "the body followed the ACK");
        assert!(body.flags.psh && body.payload == 10 && body.headers == 52);
    }
}

#[test]
fn in_two_threads_it_is_the_same() {
    for order in [Order::Turns, Order::Free] {
        let Some(seen) = played_in(order, &wire(), SPLIT, 4) else { return };
        assert_delayed(&seen);
    }
}

#[test]
fn over_ipv6_it_is_the_same_and_nothing_else_is_on_the_wire() {
    let Some(seen) = played(&wire().ipv6(), SPLIT, 4) else { return };
    assert_delayed(&seen);
    assert_eq!(seen.environment.family, "IPv6");
    assert!(shapes(&seen).iter().all(|shape| shape == "C10 Sack C10 Sack S20"), "{:?}", shapes(&seen));
    assert!(seen.frames.as_ref().unwrap().of_request(1).iter().all(|frame| frame.headers == 72));
}

#[test]
fn every_way_to_write_at_once_takes_one_round_trip() {
    for (exchange, segments) in [
        ("C: [nodelay] W10 W10 R20 / S: R20 W20", 2),
        ("C: cork W10 W10 uncork R20 / S: R20 W20", 1),
        ("C: M10 W10 R20 / S: R20 W20", 1),
        ("C: V10+10 R20 / S: R20 W20", 1),
        ("C: W20 R20 / S: R20 W20", 1),
    ] {
        let Some(seen) = played(&wire(), exchange, 4) else { return };
        assert_eq!(Verdict::of(&seen).to_string(), "none", "{exchange}");
        assert_eq!(seen.sockets.client.data_segments, Some(4 * segments), "{exchange}");
        assert!(seen.latencies_us().iter().all(|latency| *latency >= RTT), "{exchange}: {:?}", seen.latencies_us());
        assert!(seen.stories(2).is_empty() || segments == 1, "nothing is held without an end: {exchange}");
    }
}

#[test]
fn a_quick_ack_leaves_the_round_trip() {
    for (conditions, exchange) in [(wire().quickack_route(), SPLIT), (wire(), "C: W10 W10 R20 / S: quickack R20 W20")] {
        let Some(seen) = played(&conditions, exchange, 5) else { return };
        let verdict = Verdict::of(&seen);
        assert_eq!(verdict.to_string(), "every · held-rtt", "{exchange}");
        assert_eq!(verdict.causes[0].released_by, Release::Ack);
        assert_eq!(seen.most_held(Side::Client), 10);
        assert!(seen.latencies_us().iter().all(|latency| *latency >= 2 * RTT), "{:?}", seen.latencies_us());
    }
}

#[test]
fn without_acks_no_timer_releases_held_bytes() {
    let loss = Loss::bare_acks(Side::Server, Extent::For(Duration::from_secs(2))).from_request(2);
    let Some(seen) = played(&losing(loss), SPLIT, 2) else { return };
    let hold = &seen.requests[1].holds[0];
    assert_eq!((hold.bytes, hold.released_by), (10, Release::Ack), "{hold:?}");
    assert!(hold.lasted_us >= 2_000_000, "{hold:?}");
    assert_eq!(seen.counter("TcpExtTCPLossProbes"), Some(0));
    assert!(seen.counter("TcpExtTCPTimeouts") >= Some(2), "the header was sent again and again, the body never");
    let story = seen.stories(2).pop().unwrap();
    let frames = seen.frames.as_ref().unwrap();
    let between = &frames[story.header + 1..story.body];
    assert!(
        between
            .iter()
            .filter(|frame| frame.from == Side::Client)
            .all(|frame| frame.end() <= frames[story.header].end())
    );
    let releaser = story.releaser.expect("an ACK that was let through");
    assert!(frames[releaser].is_bare_ack() && !frames[releaser].dropped);
}

#[test]
fn without_acks_a_tail_loss_probe_releases_them() {
    let loss = Loss::bare_acks(Side::Server, Extent::For(Duration::from_secs(2))).from_request(2);
    let conditions = losing(loss).sysctl("net.ipv4.tcp_early_retrans", "3");
    let Some(seen) = played(&conditions, SPLIT, 2) else { return };
    let hold = &seen.requests[1].holds[0];
    assert_eq!((hold.bytes, hold.released_by), (10, Release::LossProbe), "{hold:?}");
    assert!(seen.counter("TcpExtTCPLossProbes") >= Some(1));
    let story = seen.stories(2).pop().unwrap();
    let frames = seen.frames.as_ref().unwrap();
    assert_eq!(story.releaser, None, "nothing came from the server");
    let waited = frames[story.body].at_us - frames[story.header].at_us;
    assert!(waited >= 200_000 - i64::try_from(seen.environment.jiffy_us).unwrap(), "one RTO: {waited} us");
}

#[test]
fn a_lost_segment_is_sent_again() {
    for probes in ["0", "3"] {
        let loss = Loss::data(Side::Client, Extent::Nth(1)).from_request(2);
        let conditions = losing(loss).sysctl("net.ipv4.tcp_early_retrans", probes);
        let Some(seen) = played(&conditions, SPLIT, 3) else { return };
        let path = seen.wire.as_ref().unwrap();
        assert_eq!((path.client.dropped, path.server.dropped), (1, 0));
        assert!(seen.sockets.client.retransmitted >= Some(1));
        let request = seen.frames.as_ref().unwrap().of_request(2);
        assert_eq!(request.iter().filter(|frame| frame.dropped).count(), 1);
        assert_eq!(request[0].to_string(), "C10!");
        if probes == "3" {
            assert_eq!(request[1].to_string(), "C10", "the probe is the body, sent for the first time");
            assert!(request[1].seq == request[0].end());
        } else {
            assert_eq!(request[1].seq, request[0].seq, "the timer repeats the header");
        }
        assert!(seen.requests[1].latency_us >= 200_000);
    }
}

#[test]
fn a_loss_of_everything_is_survived() {
    let loss = Loss::everything(Side::Client, Extent::First(2)).from_request(2);
    let Some(seen) = played(&losing(loss), "C: W20 R20 / S: R20 W20", 2) else { return };
    assert_eq!(seen.wire.as_ref().unwrap().client.dropped, 2);
    assert!(seen.sockets.client.retransmitted >= Some(2));
    assert_eq!(seen.environment.pinned["wire loses"], "the first 2 all frames of the client from request 2");
}

#[test]
fn frames_are_never_early() {
    for ms in [0, 1, 5, 20] {
        let spec = WireSpec::new(Duration::from_millis(ms)).delay(Side::Server, Duration::from_millis(2 * ms));
        let Some(seen) = played(&Conditions::default().wire(spec), "C: W20 R20 / S: R20 W20", 5) else { return };
        let path = seen.wire.as_ref().unwrap();
        for (side, asked) in [(Side::Client, ms * 1000), (Side::Server, 2 * ms * 1000)] {
            assert_eq!(path[side].asked_us, asked);
            let transit = path[side].transit.unwrap();
            assert!(transit.n >= 6 && transit.least_us >= asked, "{transit:?}");
        }
        assert!(seen.requests.iter().all(|request| request.latency_us >= 3 * ms * 1000));
        assert!(seen.opened_us[0] >= 3 * ms * 1000, "a handshake takes a round trip");
        let rtt = seen.sockets.client.after.min_rtt_us.unwrap();
        assert!(u64::from(rtt) >= 3 * ms * 1000, "{rtt}");
    }
}

#[test]
fn a_rate_limits_what_one_side_sends() {
    // 20,000 bytes and the headers of 14 segments at 1 Mbit/s.
    let spec = WireSpec::new(Duration::from_millis(1)).rate(Side::Client, 1_000_000);
    let Some(seen) = played(&Conditions::default().wire(spec), "C: W20000 R20 / S: R20000 W20", 1) else { return };
    assert!(seen.requests[0].latency_us >= 167_000, "{:?}", seen.latencies_us());
}

#[test]
fn a_token_bucket_makes_autocorking_certain() {
    // The second segment then waits in the queue for a tenth of a second, in which all the writes are done. When it left
    // is known by the queue alone: the frame is seen later, by as much as the forwarder is late.
    const QUEUED_US: i64 = 100_000;
    let bucket = TokenBucket { rate: 12_500, burst: 1600, limit: 1 << 20 };
    for autocorking in ["1", "0"] {
        let conditions = Conditions::default()
            .wire(WireSpec::new(Duration::from_millis(1)))
            .shaping(bucket)
            .sysctl("net.ipv4.tcp_autocorking", autocorking);
        // Two full segments empty the bucket; what is written behind them waits in the socket, or below it.
        let exchange = "C: [nodelay] W2896 W10×40 R20 / S: R3296 W20";
        // Each packet that leaves the queue lets go what has gathered (tcp_tsq_handler). On a loaded machine the first of
        // the two does so among the writes, so the forty may leave in two segments; undisturbed they leave in one.
        for trial in 1..=TRIALS {
            let Some(seen) = played(&conditions, exchange, 1) else { return };
            assert_eq!(seen.counter("TcpExtTCPAutoCorking") > Some(0), autocorking == "1");
            let frames = seen.frames.as_ref().unwrap().of_request(1);
            let data = frames.iter().filter(|frame| frame.from == Side::Client && frame.is_data());
            let sizes: Vec<u32> = data.map(|frame| frame.payload).collect();
            let mut writes = seen.requests[0].writes.iter().filter(|write| write.socket == Socket::Client);
            if writes.any(|write| write.at_us > QUEUED_US) {
                eprintln!("not decided: the machine took longer for the writes than the queue for a segment");
            } else if autocorking == "0" {
                assert!(
                    sizes.len() > 3 && sizes[2] == 10,
                    "a segment for each write until the window is full: {sizes:?}"
                );
            } else if trial < TRIALS && sizes.len() == 4 && sizes[2] + sizes[3] == 400 {
                continue;
            } else {
                assert_eq!(sizes, [1448, 1448, 400], "forty writes in one segment");
            }
            break;
        }
    }
}

#[test]
fn a_token_bucket_that_would_drop_every_frame_is_refused() {
    if played(&wire(), "C: W1 / S: R1", 1).is_none() {
        return;
    }
    let conditions = Conditions::default().shaping(TokenBucket { rate: 125_000, burst: 1600, limit: 1 << 20 });
    let error = conditions.run(|_| ()).unwrap_err().to_string();
    assert!(error.contains("65550") && error.contains("raise the burst"), "{error}");
}

#[test]
fn a_route_opens_the_window_and_a_segment_goes_out_for_each_write() {
    let exchange = "C: [nodelay] W1×200 R1 / S: R200 W1";
    let Some(seen) = played(&wire().initcwnd(1_000), exchange, 1) else { return };
    assert_eq!(seen.sockets.client.data_segments, Some(200));
    assert_eq!(seen.sockets.client.before.cwnd, Some(1_000));
}

#[test]
fn an_mtu_of_the_wire_bounds_its_segments() {
    let Some(seen) = played(&wire().mtu(600), "C: W2000 R1 / S: R2000 W1", 1) else { return };
    let frames = seen.frames.as_ref().unwrap();
    assert_eq!(frames.iter().map(|frame| frame.payload + frame.headers).max(), Some(600));
}

#[test]
fn multipath_tcp_keeps_to_the_same_rules() {
    let conditions = wire().mptcp();
    if ENTERED.get().is_some_and(Result::is_err) {
        return;
    }
    if conditions.run(|lab| lab.socket(Side::Client).is_err()).unwrap() {
        eprintln!("not tested: no MPTCP in this kernel");
        return;
    }
    let Some(seen) = played(&conditions, SPLIT, 4) else { return };
    // Its sockets do not tell whether they are in pingpong mode.
    let waits: Vec<Option<Wait>> = seen.requests.iter().map(|request| wait(&seen, request)).collect();
    assert!(waits.iter().all(Option::is_some) && waits.contains(&Some(Wait::DelayedAck(1))), "{waits:?}");
    assert_eq!(seen.most_held(Side::Client), 10);
    assert!(seen.frames.as_ref().unwrap()[0].headers > 60, "the SYN offers MP_CAPABLE");
}

#[test]
fn loopback_is_captured_each_segment_once() {
    let Some(seen) = played(&Conditions::default(), SPLIT, 4) else { return };
    let shapes = shapes(&seen);
    let expected = "C10 Sack C10 Sack S20";
    assert!(shapes[1..].iter().all(|shape| shape == expected), "{shapes:?}");
    assert!(seen.wire.is_none());
    let frames = seen.frames.as_ref().unwrap();
    assert_eq!(shape(frames.of_request(0)), "Csyn Ssyn Cack");
    let story = seen.stories(2).pop().unwrap();
    let gap = frames[story.releaser.unwrap()].at_us - frames[story.header].at_us;
    assert!(gap >= i64::try_from(seen.environment.delayed_ack_us - seen.environment.jiffy_us).unwrap(), "{gap}");
}

#[test]
fn tshark_reads_the_export() {
    let Some(seen) = played(&wire(), SPLIT, 2) else { return };
    let file = std::env::temp_dir().join(format!("smallwrites-{}.pcapng", std::process::id()));
    seen.write_pcapng(std::fs::File::create(&file).unwrap()).unwrap();
    let fields = ["frame.comment", "tcp.len", "tcp.checksum.status"];
    let fields = fields.iter().flat_map(|field| ["-e", field]);
    let arguments = ["-o", "tcp.check_checksum:TRUE", "-T", "fields", "-E", "separator=|"].into_iter().chain(fields);
    // It reads preferences below the home, which need not be this user's.
    let home = std::env::temp_dir();
    let read = Command::new("tshark").arg("-r").arg(&file).args(arguments).env("HOME", home).output();
    std::fs::remove_file(&file).unwrap();
    let Ok(read) = read else {
        eprintln!("not tested: no tshark (install it to have the export read back)");
        return;
    };
    let text = String::from_utf8(read.stdout).unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), seen.frames.as_ref().unwrap().len(), "{text}");
    assert!(rows.iter().all(|row| row.ends_with("|1")), "a checksum is wrong: {text}");
    let told: Vec<&&str> = rows.iter().filter(|row| row.starts_with("request 2: ")).collect();
    let words = ["the header, 10 bytes", "bare ACK, ", "the body, ", "the reply"];
    assert_eq!(told.len(), words.len(), "{text}");
    for ((row, word), length) in told.iter().zip(words).zip(["|10|", "|0|", "|10|", "|20|"]) {
        assert!(row.contains(word) && row.contains(length), "{row}");
    }
}
