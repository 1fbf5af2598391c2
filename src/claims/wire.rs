//! Claims that only a delayed, lossy or captured path can show.

use super::scenes::{SPLIT_REQUEST, WWR};
use super::stage::{Judged, until};
use super::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::exchange::Side;
use crate::expect::{Failure, Kind, expect};
use crate::kernel::MAX_QUICKACKS;
use crate::lab::{Conditions, Extent, Lab, Loss, Settings, WireSpec};
use crate::observation::{Observation, Release, Request, Rule, milliseconds};
use crate::sys::counters;
use crate::sys::options::{self, SocketOption};
use crate::sys::tcp_info::TcpInfo;
use crate::sys::transfer::{self, Flags};
use crate::sys::veth::TokenBucket;
use crate::verdict::{wait, was_late};
use socket2::Socket;
use std::io;
use std::time::Duration;

pub(super) static RULES: &[Claim] = &[Claim {
    id: "gap-follows-the-bare-ack",
    document: Document::Chapter,
    section: "the rules",
    says: "a capture shows the 40 ms between the server's bare ACK and the client's next small segment",
    expected: Expected::Refuted("the 40 ms lie before the bare ACK; the body follows the ACK by one way of the path"),
    source: "tcp_delack_timer_handler, tcp_data_snd_check",
    needs: &[Need::PrivateLab],
    check: gap,
    control: Control {
        breaks: "quickack 1 on the route: no gap",
        twist: Twist::Conditions(|base| base.quickack_route()),
    },
}];

pub(super) static LAB_THREE: &[Claim] = &[
    Claim {
        id: "nagle-batches-per-rtt",
        document: Document::Chapter,
        section: "lab 3",
        says: "on a path of 20 ms the loop of tiny writes leaves as a handful of segments",
        expected: Expected::HoldsWithLimit(
            "the window has to be open too: with the initial window of 10 segments a loop that ends inside one round trip is \
             packed by the window, TCP_NODELAY or not",
        ),
        source: "tcp_nagle_check, tcp_cwnd_test; RFC 9293 §3.7.4",
        needs: &[Need::Wire],
        check: batches_per_round_trip,
        control: Control {
            breaks: "no delay on the path: every write finds the one before acknowledged",
            twist: Twist::Conditions(|base| Conditions { wire: None, ..base }),
        },
    },
    Claim {
        id: "autocorking-coalesces-behind-a-queue",
        document: Document::Chapter,
        section: "lab 3",
        says: "small writes merge behind a packet that the host has queued, which is counted and can be switched off",
        expected: Expected::HoldsWithLimit("only a queue of the sending host does it, none further on"),
        source: "tcp_should_autocork (LINUX_MIB_TCPAUTOCORKING)",
        needs: &[Need::Sysctl("net.ipv4.tcp_autocorking"), Need::Shaping],
        check: autocorking,
        control: Control {
            breaks: "net.ipv4.tcp_autocorking=0",
            twist: Twist::Conditions(|base| base.sysctl("net.ipv4.tcp_autocorking", "0")),
        },
    },
];

pub(super) static ARTICLE: &[Claim] = &[Claim {
    id: "nagle-has-a-timeout",
    document: Document::Article,
    section: "how Nagle works",
    says: "what Nagle holds also leaves after a timeout of some hundred milliseconds",
    expected: Expected::HoldsWithLimit(
        "it is no timeout of Nagle's: where no ACK comes the tail loss probe sends the held data as new data; with \
         net.ipv4.tcp_early_retrans=0 it stays through every retransmission",
    ),
    source: "tcp_send_loss_probe, tcp_schedule_loss_probe; RFC 8985 §7",
    needs: &[Need::Sysctl("net.ipv4.tcp_early_retrans"), Need::Wire],
    check: timeout,
    control: Control { breaks: "no ACK is lost", twist: Twist::Conditions(|base| base.wire(WireSpec::new(ONE_WAY))) },
}];

static BEYOND: &[Claim] = &[
    Claim {
        id: "stall-adds-to-two-round-trips",
        document: Document::Beyond,
        section: "the path",
        says: "on a path a stalled request takes two round trips and one delayed ACK, whatever the delay",
        expected: Expected::Holds,
        source: "tcp_nagle_check, tcp_send_delayed_ack",
        needs: &[Need::Wire],
        check: two_round_trips,
        control: Control {
            breaks: "TCP_NODELAY on the client",
            twist: Twist::Instead("C: [nodelay] W10 W10 R20 / S: [quickack=0] R20 W20 quickack=0"),
        },
    },
    Claim {
        id: "delayed-ack-follows-the-round-trip",
        document: Document::Beyond,
        section: "the path",
        says: "outside pingpong mode each delayed ACK doubles the delay of the next, up to the path's round trip: on a path \
               of more than 40 ms it takes longer than 40 ms",
        expected: Expected::Holds,
        source: "tcp_delack_timer_handler (ato doubles), tcp_send_delayed_ack (the round trip bounds it)",
        needs: &[Need::Wire],
        check: follows_the_round_trip,
        control: Control {
            breaks: "a receiver in pingpong mode, which begins with 40 ms each time",
            twist: Twist::Check,
        },
    },
    Claim {
        id: "mptcp-stalls-like-tcp",
        document: Document::Beyond,
        section: "the path",
        says: "write-write-read over MPTCP sockets stalls as it does over TCP",
        expected: Expected::Holds,
        source: "mptcp_sendmsg, __mptcp_push_pending; tcp_nagle_check on the subflow",
        needs: &[Need::PrivateLab, Need::Mptcp],
        check: mptcp,
        control: Control { breaks: "one write per message", twist: Twist::Instead("C: W20 R20 / S: R20 W20") },
    },
];

pub(super) fn beyond() -> Vec<&'static Claim> {
    BEYOND.iter().collect()
}

const ONE_WAY: Duration = Duration::from_millis(10);

/// Longer than a probe takes to come, shorter than a reader's patience.
const STARVED: Duration = Duration::from_secs(1);

fn gap(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(Scene::of(SPLIT_REQUEST).requests(6).capture())?;
    let floor = seen.environment.delayed_ack_us.saturating_sub(seen.environment.jiffy_us);
    let gaps: Vec<(u64, u64)> = stalled(&seen).filter_map(|request| around_the_ack(&seen, request)).collect();
    let because = "the timer that the gap waits for sends the ACK, and the ACK releases the body";
    let expected = "a silence of one delayed ACK before the bare ACK, and a shorter one after it";
    match gaps.iter().find(|(before, after)| *before < floor || after >= before) {
        None if !gaps.is_empty() => {}
        other => {
            let saw = other.map_or_else(
                || "no stalled request with a header, a bare ACK and a body".to_owned(),
                |(before, after)| format!("{} before it and {} after it", milliseconds(*before), milliseconds(*after)),
            );
            return Err(Failure::plain(Kind::Time, expected, because, saw));
        }
    }
    let (before, after) = gaps[0];
    let measured = format!("{} before it, {} after it", milliseconds(before), milliseconds(after));
    Ok(Evidence::says(
        "header, 40 ms less a jiffy or more, bare ACK of the header, body: the gap lies before the bare ACK",
        measured,
    ))
}

/// Microseconds from the header to the ACK that released the body, and from there to the body.
fn around_the_ack(seen: &Observation, request: &Request) -> Option<(u64, u64)> {
    let frames = seen.frames.as_ref()?;
    let story = seen.stories(request.number).pop()?;
    let (header, ack, body) = (&frames[story.header], &frames[story.releaser?], &frames[story.body]);
    let passed = |from: i64, to: i64| u64::try_from(to - from).ok();
    let of_the_header = ack.is_bare_ack() && ack.ack == Some(header.end());
    of_the_header.then_some((passed(header.at_us, ack.at_us)?, passed(ack.at_us, body.at_us)?))
}

/// Requests that stalled, those left out in which the machine was late.
fn stalled(seen: &Observation) -> impl Iterator<Item = &Request> {
    seen.requests.iter().filter(|request| wait(seen, request).is_some() && !was_late(seen, request))
}

fn batches_per_round_trip(stage: &Stage<'_>) -> Judged {
    const WRITES: u32 = 500;
    const NODELAY: &str = "C: [nodelay] W1×500 R1 / S: R500 W1";
    let open = |exchange| Scene::of(exchange).under(|base| base.wire(WireSpec::new(ONE_WAY)).initcwnd(2 * WRITES));
    let [nagle, nodelay, initial] = stage.play_all([
        open("C: W1×500 R1 / S: R500 W1"),
        open(NODELAY),
        Scene::of(NODELAY).requests(3).fresh().under(|base| base.wire(WireSpec::new(ONE_WAY)).initcwnd(10)),
    ])?;
    let nodelay = expect(&nodelay).try_data_segments(Side::Client, WRITES)?;
    let sent = nagle.sockets.client.data_segments.unwrap_or(u32::MAX);
    // One small segment a round trip; what a late machine adds is round trips.
    let round_trip = 2 * u64::try_from(ONE_WAY.as_micros()).unwrap_or(u64::MAX);
    let most = nagle.requests.iter().map(|request| request.latency_us).sum::<u64>() / round_trip + 2;
    if u64::from(sent) > most {
        let because = "with Nagle at most one small segment is in flight";
        let saw = format!("{sent} data segments");
        return Err(Failure::plain(
            Kind::Segments,
            format!("at most {most} data segments for {WRITES} writes"),
            because,
            saw,
        ));
    }
    let because = "tcpi_unacked and tcpi_snd_cwnd when the first write was held back; tcpi_data_segs_out";
    let holds = "fewer segments than writes, held by a full congestion window";
    let judge = |request: &Request| {
        let sent = request.data_segments.client?;
        let full = request.holds.iter().any(|hold| hold.rule == Rule::CongestionWindow);
        let saw = || format!("{sent} segments, {:?}", request.holds.first());
        (!was_late(&initial, request)).then(|| if full && sent < WRITES { Ok(()) } else { Err(saw()) })
    };
    let initial = expect(&initial).try_each(Kind::Cause, holds, because, judge)?;
    Ok(Evidence::of([("TCP_NODELAY, window open", nodelay), ("TCP_NODELAY, initial window of 10", initial)])
        .and("Nagle: at most one small segment a round trip")
        .measuring(format!("{sent} segments with Nagle for {WRITES} writes")))
}

fn autocorking(stage: &Stage<'_>) -> Judged {
    // Two full segments empty the bucket: the second waits a tenth of a second below the socket, and what is written
    // meanwhile stays in it.
    const EXCHANGE: &str = "C: [nodelay] W2896 W10×40 R20 / S: R3296 W20";
    const BUCKET: TokenBucket = TokenBucket { rate: 12_500, burst: 1600, limit: 1 << 20 };
    fn path() -> WireSpec {
        WireSpec::new(Duration::from_millis(1))
    }
    let shaped = Scene::of(EXCHANGE).requests(3).fresh();
    let [on, off, further] = stage.play_all([
        shaped.clone().under(|base| base.sysctl("net.ipv4.tcp_autocorking", "1").wire(path()).shaping(BUCKET)),
        shaped.under(|base| base.sysctl("net.ipv4.tcp_autocorking", "0").wire(path()).shaping(BUCKET)),
        Scene::of(EXCHANGE)
            .under(|base| base.sysctl("net.ipv4.tcp_autocorking", "1").wire(path().rate(Side::Client, 1_000_000))),
    ])?;
    const COUNTER: &str = "TcpExtTCPAutoCorking";
    expect(&off).try_counter(COUNTER, 0)?;
    expect(&further).try_counter(COUNTER, 0)?;
    let least = |seen: &Observation| seen.requests.iter().filter_map(|request| request.data_segments.client).min();
    let (with, without) = (least(&on).unwrap_or(u32::MAX), least(&off).unwrap_or(0));
    let counted = on.counter(COUNTER).unwrap_or(0);
    if counted < 1 || with != 3 || without <= with {
        let expected = "40 small writes in one segment behind a queued packet, counted; in more with the setting at 0";
        let because = "tcp_push returns without sending while an earlier packet of the socket is queued in the host";
        let saw = format!("{with} segments in all and {COUNTER} {counted:+}; {without} with the setting at 0");
        return Err(Failure::plain(Kind::Segments, expected, because, saw));
    }
    // As the kernel has it: under no setting of the host's or the user's.
    let default = stage.lab(
        |base| Conditions { settings: Settings::default(), ..base },
        |_| counters::sysctl("net.ipv4.tcp_autocorking"),
    )?;
    if default.as_deref().ok() != Some("1") {
        let because = "tcp_sk_init sets it for every namespace";
        return Err(Failure::plain(
            Kind::Answer,
            "net.ipv4.tcp_autocorking 1 by default",
            because,
            format!("{default:?}"),
        ));
    }
    Ok(Evidence::says(
        format!(
            "40 writes behind two queued segments leave as one, {COUNTER} counts them; none with the setting at 0, none for a queue further on; 1 is the default"
        ),
        format!("{with} segments against {without}, {COUNTER} {counted:+}"),
    ))
}

fn timeout(stage: &Stage<'_>) -> Judged {
    fn starving() -> WireSpec {
        WireSpec::new(ONE_WAY).losing(Loss::bare_acks(Side::Server, Extent::For(STARVED)).from_request(2))
    }
    let scene = Scene::of(SPLIT_REQUEST).requests(2);
    let [probe, none] = stage.play_all([
        scene.clone().under(|base| base.sysctl("net.ipv4.tcp_early_retrans", "3").wire(starving())),
        scene.under(|base| base.sysctl("net.ipv4.tcp_early_retrans", "0").wire(starving())),
    ])?;
    const PROBES: &str = "TcpExtTCPLossProbes";
    expect(&none).try_counter(PROBES, 0)?;
    let held = |seen: &Observation| seen.requests.get(1).and_then(|request| request.holds.first().cloned());
    let (by_probe, by_ack) = (held(&probe), held(&none));
    let because =
        "the probe sends new data if there is any (tcp_send_loss_probe); a retransmission repeats what was sent";
    match &by_probe {
        Some(hold) if hold.bytes == 10 && hold.released_by == Release::LossProbe => {}
        other => {
            let saw = format!("{other:?}, {PROBES} {:?}", probe.counter(PROBES));
            return Err(Failure::plain(Kind::Cause, "held bytes sent by a tail loss probe", because, saw));
        }
    }
    let starved = u64::try_from(STARVED.as_micros()).unwrap_or(u64::MAX);
    match &by_ack {
        Some(hold) if hold.bytes == 10 && hold.released_by == Release::Ack && hold.lasted_us >= starved => {}
        other => {
            let expected = "without a probe they stay until an ACK comes through, retransmissions or not";
            return Err(Failure::plain(Kind::Cause, expected, because, format!("{other:?}")));
        }
    }
    let lasted =
        |hold: Option<crate::observation::Hold>| hold.map_or_else(String::new, |hold| milliseconds(hold.lasted_us));
    Ok(Evidence::says(
        "no ACK comes: the tail loss probe sends the held bytes; with tcp_early_retrans=0 they stay until an ACK does",
        format!("held {} with the probe, {} without", lasted(by_probe), lasted(by_ack)),
    ))
}

/// Milliseconds one way, and the conditions of such a path.
type Path = (u64, fn(Conditions) -> Conditions);

fn two_round_trips(stage: &Stage<'_>) -> Judged {
    let scene = Scene::of(SPLIT_REQUEST).requests(3);
    let paths: [Path; 4] = [
        (0, |base| base.wire(WireSpec::new(Duration::ZERO))),
        (10, |base| base.wire(WireSpec::new(Duration::from_millis(10)))),
        (50, |base| base.wire(WireSpec::new(Duration::from_millis(50)))),
        (200, |base| base.wire(WireSpec::new(Duration::from_millis(200)))),
    ];
    let seen = stage.play_all(paths.map(|(_, under)| scene.clone().under(under)))?;
    let mut measured = Vec::new();
    for ((one_way, _), seen) in paths.iter().zip(&seen) {
        expect(seen).try_cause(Side::Client, Rule::Nagle, Release::DelayedAck)?;
        let floor = 4 * one_way * 1000 + seen.environment.delayed_ack_us - seen.environment.jiffy_us;
        let seen = expect(seen).try_lasts_at_least(Duration::from_micros(floor))?;
        measured.push(seen.facts().iter().find_map(|fact| fact.measured.clone()).unwrap_or_default());
    }
    Ok(Evidence::says(
        "the median request takes two round trips and one delayed ACK or more, less a jiffy, at 0, 10, 50 and 200 ms each way",
        measured.join("; "),
    ))
}

fn follows_the_round_trip(stage: &Stage<'_>) -> Judged {
    const ONE_WAY: Duration = Duration::from_millis(50);
    let pingpong = stage.is_twisted();
    let path = |base: Conditions| base.wire(WireSpec::new(ONE_WAY)).initcwnd(2 * MAX_QUICKACKS);
    let waits = stage.lab(path, |lab| unread(lab, pingpong))?;
    let because = "tcpi_last_data_sent less tcpi_last_ack_recv of the client where TcpExtDelayedACKs moved";
    let mut waits = waits.map_err(|error| {
        Failure::plain(Kind::Play, "single bytes can be sent and acknowledged", because, error.to_string())
    })?;
    // The path there and back, and as long again; either stamp is a jiffy's, in whole milliseconds.
    let round_trip = 2 * u64::try_from(ONE_WAY.as_micros()).unwrap_or(u64::MAX);
    let floor = 2 * round_trip - 2 * stage.kernel().jiffy_us - 1000;
    let measured = format!("{waits:?} ms from a byte to its ACK");
    // From 40 ms to 100 it doubles twice.
    waits.drain(..waits.len().min(2));
    waits.sort_unstable();
    if waits.get(waits.len() / 2).is_none_or(|median| u64::from(*median) * 1000 < floor) {
        let expected =
            format!("from the third delayed ACK on a median ≥ {} from a byte to its ACK", milliseconds(floor));
        return Err(Failure::plain(Kind::Time, expected, because, measured));
    }
    Ok(Evidence::says(
        "100 ms of round trip: from the third on a delayed ACK takes as long again, median less two jiffies",
        measured,
    ))
}

/// Milliseconds from each of some bytes to its delayed ACK, from a receiver that reads none of them: having sent what it
/// may send at once, it delays, in pingpong mode or not.
fn unread(lab: &Lab, pingpong: bool) -> io::Result<Vec<u32>> {
    const WANTED: usize = 6;
    const MOST: usize = 40;
    let pair = lab.pair(&[(SocketOption::NoDelay, 1)])?;
    let delayed = || lab.counters_named(Some(Side::Server), &["TcpExtDelayedACKs"]).and_then(|read| read[0]);
    for _ in 0..MAX_QUICKACKS {
        transfer::send(&pair.client, b"x", Flags::NONE)?;
    }
    acknowledged(&pair.client)?;
    let mut waits = Vec::new();
    for _ in 0..MOST {
        if pingpong {
            options::set(&pair.server, SocketOption::QuickAck, 0)?;
        }
        let before = delayed();
        transfer::send(&pair.client, b"x", Flags::NONE)?;
        let info = acknowledged(&pair.client)?;
        // Neither at once nor after a loss.
        if delayed().zip(before).is_some_and(|(now, before)| now > before) {
            waits.extend(info.last_data_sent.zip(info.last_ack_recv).map(|(sent, acked)| sent.saturating_sub(acked)));
        }
        if waits.len() == WANTED {
            break;
        }
    }
    Ok(waits)
}

/// Waits until nothing is in flight.
fn acknowledged(socket: &Socket) -> io::Result<TcpInfo> {
    until(|| {
        let info = TcpInfo::read(socket)?;
        Ok((info.unacked == Some(0)).then_some(info))
    })
}

fn mptcp(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(Scene::of(WWR).requests(6).under(Conditions::mptcp))?;
    let seen = expect(&seen).try_cause(Side::Client, Rule::Nagle, Release::DelayedAck)?.try_held(Side::Client, 10)?;
    Ok(seen.into())
}
