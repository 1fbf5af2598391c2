//! The rules of the receiver: when it acknowledges at once, and how long it delays.

use crate::claims::scenes::{QUICKACK_EVERY_READ, acks_before, full_segment, primed, replied_promptly};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::exchange::{Opt, Side};
use crate::expect::{Expect, Failure, Kind, expect};
use crate::kernel::{DELACK_MAX, MAX_QUICKACKS};
use crate::observation::{Observation, Release, Request, Rule, Summary, milliseconds};
use crate::sys::options::{self, SocketOption};
use crate::verdict::{Pattern, wait};

const SECTION: &str = "the rules";

/// How long a server thinks before it answers, microseconds: longer than any delayed ACK on loopback.
const THINKS_US: u64 = 60_000;

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "ack-every-second-full-segment",
        document: Document::Chapter,
        section: SECTION,
        says: "two full segments are acknowledged at once, one waits for the delayed ACK",
        expected: Expected::HoldsWithLimit(
            "what counts is bytes beyond the receiver's estimate of a segment, so two smaller ones do; two that nobody reads wait",
        ),
        source: "__tcp_ack_snd_check, tcp_cleanup_rbuf; RFC 9293 §3.8.6.3",
        needs: &[Need::PrivateLab],
        check: second_full_segment,
        control: Control {
            breaks: "quickack 1 on the route: every segment is acknowledged at once",
            twist: Twist::Conditions(|base| base.quickack_route()),
        },
    },
    Claim {
        id: "delayed-ack-is-40ms",
        document: Document::Chapter,
        section: SECTION,
        says: "the least delay of an ACK is 40 ms (HZ/25) and what the timer's jiffies add",
        expected: Expected::Holds,
        source: "TCP_DELACK_MIN, TCP_ATO_MIN (include/net/tcp.h), tcp_send_delayed_ack",
        needs: &[],
        check: least_delay,
        control: Control { breaks: "TCP_QUICKACK before every read: no ACK is delayed", twist: QUICKACK_EVERY_READ },
    },
    Claim {
        id: "delayed-ack-is-at-most-200ms",
        document: Document::Chapter,
        section: SECTION,
        says: "the longest delay is 200 ms, within the half second that the standard allows",
        expected: Expected::Holds,
        source: "TCP_DELACK_MAX (include/net/tcp.h), tcp_rcv_synsent_state_process; RFC 9293 §3.8.6.3",
        needs: &[],
        check: most_delay,
        control: Control {
            breaks: "TCP_QUICKACK left alone before connect: the handshake is acknowledged at once",
            twist: Twist::Instead("C: R10 / S: W10"),
        },
    },
    Claim {
        id: "quick-ack-at-start",
        document: Document::Chapter,
        section: SECTION,
        says: "a new connection acknowledges its first segments at once, 16 at most",
        expected: Expected::Holds,
        source: "tcp_incr_quickack, TCP_MAX_QUICKACKS (include/net/tcp.h)",
        needs: &[Need::PrivateLab],
        check: quick_acks,
        control: Control {
            breaks: "the receiver is put into pingpong mode before the first segment",
            twist: Twist::Instead("C: [nodelay] W1×10 / S: [quickack=0] P60 R10"),
        },
    },
    Claim {
        id: "reply-carries-the-ack",
        document: Document::Chapter,
        section: SECTION,
        says: "a prompt reply carries the ACK: no segment is sent for it alone",
        expected: Expected::Holds,
        source: "__tcp_transmit_skb, tcp_event_ack_sent",
        needs: &[],
        check: reply_carries_the_ack,
        control: Control {
            breaks: "TCP_QUICKACK before the read: the ACK goes before the reply",
            twist: Twist::Instead("C: W10 R20 / S: quickack R10 W20"),
        },
    },
    Claim {
        id: "bare-ack-releases-the-body",
        document: Document::Chapter,
        section: SECTION,
        says: "a stall ends with a bare ACK when the receiver's timer fires; the held body follows it",
        expected: Expected::Holds,
        source: "tcp_delack_timer_handler, tcp_data_snd_check",
        needs: &[],
        check: bare_ack,
        control: Control {
            breaks: "a reply to the header carries the ACK",
            twist: Twist::Instead("C: W10 W10 R20 / S: [quickack=0] R10 W10 R10 W10 quickack=0"),
        },
    },
    Claim {
        id: "nothing-lost-nothing-resent",
        document: Document::Chapter,
        section: SECTION,
        says: "the stall is no loss: nothing is sent twice, and the CPU is idle",
        expected: Expected::Holds,
        source: "tcp_schedule_loss_probe (one segment in flight waits past the delayed ACK)",
        needs: &[Need::PrivateLab],
        check: nothing_lost,
        control: Control {
            breaks: "two segments in flight: the loss probe sends one of them again",
            twist: Twist::Instead("C: [nodelay] W10 W10 R20 / S: [quickack=0] P30 R20 W20 quickack=0"),
        },
    },
    Claim {
        id: "stall-ignores-rtt",
        document: Document::Chapter,
        section: SECTION,
        says: "the stall is there however short the path's round trip is",
        expected: Expected::HoldsWithLimit(
            "the smallest round trip stays the path's; the smoothed one takes the delayed ACKs in and grows with the stalls",
        ),
        source: "tcp_ack_update_rtt, tcp_update_rtt_min; tcp_delack_timer_handler",
        needs: &[],
        check: rtt,
        control: Control { breaks: "no stall", twist: QUICKACK_EVERY_READ },
    },
];

fn second_full_segment(stage: &Stage<'_>) -> Judged {
    // The server thinks for longer than a delayed ACK, so one that is pending comes, however late anybody is; the client
    // acknowledges replies at once, so that the namespace counts the server's timer alone.
    let full = full_segment(stage)?;
    let thinks = |options: &str, client: &str, server: String| {
        let notation = format!("C: [{options}] {client} quickack R20 / S: [quickack=0] {server} W20 quickack=0");
        Scene::of(notation).requests(6)
    };
    let pinned = |bytes: u32| thinks("mss=1000", &format!("W{bytes}"), format!("R{bytes} P60"));
    let [one, two, halves, unread] = stage.play_all([
        pinned(full),
        pinned(2 * full),
        thinks("nodelay", "W400 W400", "R800 P60".to_owned()),
        thinks("nodelay", "W400 W400", "P60 R800".to_owned()),
    ])?;
    Ok(Evidence::of([
        ("one full segment", timers(&one, 1)?),
        ("two", timers(&two, 0)?),
        ("two of 400 bytes", timers(&halves, 0)?),
        ("two of 400 bytes that nobody reads", timers(&unread, 1)?),
    ]))
}

/// So many delayed-ACK timers in each request.
fn timers(seen: &Observation, count: i64) -> Result<Expect<'_>, Failure> {
    let because = "TcpExtDelayedACKs of the namespace, before and after each request";
    let holds = if count == 0 { "acknowledged at once" } else { "acknowledged by the delayed-ACK timer" };
    // With nothing to wait for but the server's pause, a request that lasts a timer longer was late: it may have fired.
    let late = THINKS_US + seen.environment.delayed_ack_us - 2 * seen.environment.jiffy_us;
    let judge = |request: &Request| {
        let fired = request.delayed_acks.filter(|_| request.latency_us < late || count > 0)?;
        // Neither at once nor by the timer: the kernel ran it so late that the reply carried the ACK.
        if count > 0 && fired == 0 && request.bare_acks.server == Some(0) {
            return None;
        }
        Some(if fired == count { Ok(()) } else { Err(format!("TcpExtDelayedACKs {fired:+}")) })
    };
    expect(seen).try_each(Kind::Counter, holds, because, judge)
}

fn least_delay(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(primed("W10 W10 R20").requests(12))?;
    let environment = &seen.environment;
    let waiting = seen.requests.iter().filter(|request| wait(&seen, request).is_some());
    let least = waiting.filter_map(|request| request.blocked?.server.ato_us).min().map(u64::from);
    // A gap between two segments that a late thread made raises it; nothing lowers it.
    if least.is_none_or(|ato| ato.abs_diff(environment.delayed_ack_us) >= environment.jiffy_us) {
        let because = "TCP_ATO_MIN is the estimate's floor, and a receiver in pingpong mode starts from it";
        let expected = format!("a delayed-ACK timeout of {} in the server", milliseconds(environment.delayed_ack_us));
        return Err(Failure::plain(Kind::Answer, expected, because, format!("tcpi_ato {least:?} µs")));
    }
    let seen = expect(&seen).try_stalls(Pattern::Every)?.try_stalls_last_a_delayed_ack()?;
    Ok(Evidence::from(seen).and("least tcpi_ato 40 ms"))
}

fn most_delay(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(Scene::of("C: bound[quickack=0] R10 / S: W10").requests(3).fresh())?;
    let most = u64::try_from(DELACK_MAX.as_micros()).unwrap_or(u64::MAX);
    let floor = most - seen.environment.jiffy_us;
    let opened = Summary::of(seen.opened_us.iter().copied());
    if opened.is_none_or(|opened| opened.median_us < floor) {
        let expected = format!("median time to accept ≥ {}", milliseconds(floor));
        let because = "a client in pingpong mode delays the handshake's last ACK by TCP_DELACK_MAX";
        return Err(Failure::plain(Kind::Time, expected, because, format!("{opened:?}")));
    }
    let measured = opened.map(|opened| opened.to_string()).unwrap_or_default();
    let evidence = Evidence::says("the handshake's delayed ACK: median ≥ 200 ms less a jiffy", measured);
    let Some(limit) = stage.kernel().delack_max_us else { return Ok(evidence) };
    let beyond = stage.lab(
        |base| base,
        |lab| {
            let socket = lab.socket(Side::Server)?;
            options::set(&socket, SocketOption::DelackMaxUs, limit as i32 + 1)
        },
    )?;
    match beyond {
        Err(error) if u64::from(limit) == most && error.raw_os_error() == Some(libc::EINVAL) => {
            Ok(evidence.and(format!("TCP_DELACK_MAX_US is {limit} and takes no more")))
        }
        other => {
            let saw = format!("{} is {limit}, and one more: {other:?}", Opt::DelackMax.word());
            let because = "do_tcp_setsockopt bounds the option by TCP_DELACK_MAX";
            Err(Failure::plain(Kind::Answer, "TCP_DELACK_MAX_US 200000, and EINVAL beyond", because, saw))
        }
    }
}

fn quick_acks(stage: &Stage<'_>) -> Judged {
    let writes = MAX_QUICKACKS + 1;
    let scene = Scene::of(format!("C: [nodelay] W1×{writes} / S: P60 R{writes}"));
    let seen = stage.play(scene.requests(5).fresh())?;
    let because = "one ACK at once for each of the budget, window / (2 × segment) and 16 at most, and one of the timer for the rest";
    let holds = format!("{MAX_QUICKACKS} of {writes} unread segments acknowledged at once, the last by the timer");
    let judge = |request: &Request| {
        let (acks, fired) = (i64::from(request.bare_acks.server?), request.delayed_acks?);
        // Acknowledged late, the sender filled its congestion window and merged what was left.
        if request.holds.iter().any(|hold| hold.rule == Rule::CongestionWindow) {
            return None;
        }
        // What is left over leaves by one firing of the timer; another may be the closing connection's before.
        let fits = acks == i64::from(MAX_QUICKACKS) + 1 && fired >= 1;
        Some(if fits { Ok(()) } else { Err(format!("{acks} bare ACKs, {fired} of them by the timer")) })
    };
    Ok(expect(&seen).try_each(Kind::Segments, &holds, because, judge)?.into())
}

fn reply_carries_the_ack(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(primed("W10 R20").requests(20))?;
    let because = "tcpi_segs_out less tcpi_data_segs_out of the server, before and after each request";
    let judge = |request: &Request| {
        let acks = request.bare_acks.server?;
        let fits = if acks == 0 { Ok(()) } else { Err(format!("{acks} bare ACKs of the server")) };
        // A reply that leaves when the timer is due cannot carry what the timer has sent.
        replied_promptly(&seen, request).then_some(fits)
    };
    Ok(expect(&seen).try_each(Kind::Segments, "no bare ACK beside a prompt reply", because, judge)?.into())
}

fn bare_ack(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(primed("W10 W10 R20").requests(10))?;
    let because = "segments of both sockets when the request began, while neither side could go on, and at its end";
    let holds = "no ACK while the body is held, then an ACK without data and the body";
    let judge = |request: &Request| {
        let blocked = request.blocked?;
        // Nothing held any more: looked at too late to see it.
        if blocked.client.not_sent? == 0 {
            return None;
        }
        let meanwhile = blocked.server.bare_acks()? - acks_before(&seen, request)?;
        let (segments, acks) = (request.data_segments.client?, request.bare_acks.server?);
        let saw = format!("{meanwhile} bare ACKs while held, {acks} in all; {segments} segments with data");
        Some(if (meanwhile, segments) == (0, 2) && acks >= 1 { Ok(()) } else { Err(saw) })
    };
    let seen = expect(&seen).try_stalls(Pattern::Every)?.try_cause(Side::Client, Rule::Nagle, Release::DelayedAck)?;
    Ok(seen.try_each(Kind::Segments, holds, because, judge)?.into())
}

fn nothing_lost(stage: &Stage<'_>) -> Judged {
    let scene = primed("W10 W10 R20").requests(10).under(|base| base.sysctl("net.ipv4.tcp_early_retrans", "3"));
    let seen = stage.play(scene)?;
    let lossless = expect(&seen)
        .try_counter("TcpRetransSegs", 0)?
        .try_counter("TcpExtTCPLossProbes", 0)?
        .try_nothing_resent()?
        .try_stalls(Pattern::Every)?;
    let (cpu, elapsed) = (seen.cpu_us.unwrap_or(0), seen.elapsed_us);
    if cpu * 2 >= elapsed {
        let saw = format!("{} of CPU time in {}", milliseconds(cpu), milliseconds(elapsed));
        return Err(Failure::plain(Kind::Time, "a CPU that idles", "everybody waits for the timer", saw));
    }
    Ok(Evidence::from(lossless).and("CPU time less than half of the elapsed"))
}

fn rtt(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(primed("W10 W10 R20").requests(16))?;
    let stalled = expect(&seen).try_stalls(Pattern::Every)?.try_stalls_last_a_delayed_ack()?;
    let client = &seen.sockets.client;
    let (least, smoothed) = (client.after.min_rtt_us, (client.before.rtt_us, client.after.rtt_us));
    let floor = seen.environment.delayed_ack_us;
    // The kernel's own samples: the smallest of some forty, so one late moment does not reach it.
    let short = least.is_some_and(|least| u64::from(least) < floor / 2);
    let grown = smoothed.1.zip(least).is_some_and(|(now, least)| u64::from(now) >= u64::from(least) + floor / 8);
    if !(short && grown) {
        let saw = format!("tcpi_min_rtt {least:?}, tcpi_rtt {smoothed:?} µs before and after");
        let because = "the header's round trip takes a delayed ACK in, the body's does not";
        let expected = "a smallest round trip below a delayed ACK, and a smoothed one that the stalls raise";
        return Err(Failure::plain(Kind::Answer, expected, because, saw));
    }
    let measured = format!("tcpi_min_rtt {least:?}, tcpi_rtt {smoothed:?} µs before and after");
    let evidence =
        Evidence::from(stalled).and("tcpi_min_rtt below half a delayed ACK, tcpi_rtt raised by an eighth of one");
    Ok(Evidence { measured: format!("{}; {measured}", evidence.measured), ..evidence })
}
