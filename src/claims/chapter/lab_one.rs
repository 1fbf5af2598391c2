//! Lab 1: the stall and the fixes.

use crate::claims::scenes::{PROMPT, QUICKACK_EVERY_READ, WWR, replied_promptly};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::exchange::{Opt, Side, Sides};
use crate::expect::{Failure, Kind, expect};
use crate::observation::{Observation, Release, Rule};
use crate::sys::tcp_info::TcpInfo;
use crate::sys::{counters, process};
use crate::verdict::Pattern;
use socket2::Socket;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

const SECTION: &str = "lab 1";
const REQUESTS: u32 = 50;

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "default-pattern-stalls",
        document: Document::Chapter,
        section: SECTION,
        says: "two small writes, then a read: request 1 is fast, every later one waits 40 ms or more; 100 segments",
        expected: Expected::Holds,
        source: "tcp_nagle_check, __tcp_ack_snd_check; RFC 9293 §3.7.4, §3.8.6.3",
        needs: &[],
        check: default_pattern_stalls,
        control: Control {
            breaks: "quickack 1 on the route, or TCP_QUICKACK before every read",
            twist: QUICKACK_EVERY_READ,
        },
    },
    Claim {
        id: "nodelay-removes-stall",
        document: Document::Chapter,
        section: SECTION,
        says: "TCP_NODELAY removes the stall and leaves the 100 segments",
        expected: Expected::Holds,
        source: "tcp_nagle_test; tcp(7) TCP_NODELAY",
        needs: &[],
        check: |stage| fixed(stage, "C: [nodelay] W10 W10 R20 / S: R20 W20", 100),
        control: Control { breaks: "the option is left out", twist: DEFAULT },
    },
    Claim {
        id: "one-write-halves-segments",
        document: Document::Chapter,
        section: SECTION,
        says: "one write per message: no stall, 50 segments; so do writev and sendmsg with an iovec",
        expected: Expected::Holds,
        source: "tcp_sendmsg_locked; RFC 9293 §3.7.4",
        needs: &[],
        check: one_write,
        control: Control { breaks: "two writes instead of one", twist: DEFAULT },
    },
    Claim {
        id: "cork-halves-segments",
        document: Document::Chapter,
        section: SECTION,
        says: "cork, two writes, uncork: no stall, 50 segments",
        expected: Expected::Holds,
        source: "__tcp_sock_set_cork; tcp(7) TCP_CORK",
        needs: &[],
        check: |stage| fixed(stage, "C: cork W10 W10 uncork R20 / S: R20 W20", 50),
        control: Control { breaks: "no cork", twist: DEFAULT },
    },
    Claim {
        id: "msg-more-halves-segments",
        document: Document::Chapter,
        section: SECTION,
        says: "MSG_MORE on the first write, then a plain send: no stall, 50 segments",
        expected: Expected::Holds,
        source: "tcp_push; send(2) MSG_MORE",
        needs: &[],
        check: |stage| fixed(stage, "C: M10 W10 R20 / S: R20 W20", 50),
        control: Control { breaks: "the flag is left out", twist: DEFAULT },
    },
    Claim {
        id: "quickack-once-fails",
        document: Document::Chapter,
        section: SECTION,
        says: "TCP_QUICKACK set once after accept: stalls exactly like the default",
        expected: Expected::Holds,
        source: "__tcp_sock_set_quickack, tcp_event_data_sent; tcp(7) TCP_QUICKACK",
        needs: &[],
        check: |stage| stalled(&stage.play(Scene::of("C: W10 W10 R20 / S: [quickack] R20 W20").requests(REQUESTS))?),
        control: Control { breaks: "set before every read instead", twist: QUICKACK_EVERY_READ },
    },
    Claim {
        id: "quickack-every-read-works",
        document: Document::Chapter,
        section: SECTION,
        says: "TCP_QUICKACK set before every read: no stall, 100 segments",
        expected: Expected::Holds,
        source: "__tcp_sock_set_quickack, tcp_cleanup_rbuf",
        needs: &[],
        check: |stage| fixed(stage, PROMPT, 100),
        control: Control { breaks: "set once only", twist: Twist::Instead("C: W10 W10 R20 / S: [quickack] R20 W20") },
    },
    Claim {
        id: "quickack-is-not-permanent",
        document: Document::Chapter,
        section: SECTION,
        says: "TCP_QUICKACK resets itself: it reads 1 after it was set and 0 after the first replies",
        expected: Expected::Holds,
        source: "tcp_event_data_sent (inet_csk_inc_pingpong_cnt); tcp(7) TCP_QUICKACK",
        needs: &[],
        check: quickack_resets,
        control: Control {
            breaks: "every reply comes later than a delayed ACK, so the mode is never left",
            twist: Twist::Instead("C: W10 R20 / S: [quickack] R10 P60 W20"),
        },
    },
    Claim {
        id: "delayed-acks-are-counted",
        document: Document::Chapter,
        section: SECTION,
        says: "TcpExtDelayedACKs counts each stalled request",
        expected: Expected::Holds,
        source: "tcp_delack_timer_handler (LINUX_MIB_DELAYEDACKS)",
        needs: &[Need::PrivateLab],
        check: delayed_acks_are_counted,
        control: Control {
            breaks: "quickack 1 on the route: nothing to count",
            twist: Twist::Conditions(|base| base.quickack_route()),
        },
    },
    Claim {
        id: "counters-are-per-namespace",
        document: Document::Chapter,
        section: SECTION,
        says: "nstat counts a network namespace, not a process",
        expected: Expected::Holds,
        source: "proc(5) /proc/net; struct netns_mib",
        needs: &[Need::PrivateLab],
        check: counters_are_per_namespace,
        control: Control { breaks: "both exchanges in one namespace", twist: Twist::Check },
    },
    Claim {
        id: "each-fix-acts-on-its-side",
        document: Document::Chapter,
        section: SECTION,
        says: "NODELAY, cork and MSG_MORE act on the sender, TCP_QUICKACK on the receiver",
        expected: Expected::Holds,
        source: "tcp_nagle_test (sender); __tcp_ack_snd_check (receiver)",
        needs: &[],
        check: each_fix_acts_on_its_side,
        control: Control {
            breaks: "each fix on the side where it acts",
            twist: Twist::Exchange(|exchange| exchange.with_option(&[Side::Client], Opt::NoDelay, 1)),
        },
    },
];

/// The exchange without any fix.
const DEFAULT: Twist = Twist::Instead(WWR);

fn default_pattern_stalls(stage: &Stage<'_>) -> Judged {
    stalled(&stage.play(Scene::of(WWR).requests(REQUESTS))?)
}

/// Every request but the first waits for the receiver's delayed ACK, by the law and by the sockets' own state.
fn stalled(seen: &Observation) -> Judged {
    let seen = expect(seen)
        .try_stalls(Pattern::AllButFirst)?
        .try_delayed_acks_per_stall(1)?
        .try_follows_pingpong(Side::Server)?
        .try_held(Side::Client, 10)?
        .try_cause(Side::Client, Rule::Nagle, Release::DelayedAck)?
        .try_stalls_last_a_delayed_ack()?
        .try_data_segments(Side::Client, 2 * REQUESTS)?;
    Ok(seen.into())
}

fn fixed(stage: &Stage<'_>, exchange: &str, segments: u32) -> Judged {
    let seen = stage.play(Scene::of(exchange).requests(REQUESTS))?;
    Ok(expect(&seen).try_no_stall()?.try_data_segments(Side::Client, segments)?.into())
}

fn one_write(stage: &Stage<'_>) -> Judged {
    let scenes = ["C: W20 R20 / S: R20 W20", "C: V10+10 R20 / S: R20 W20"];
    let [send, vector] = stage.play_all(scenes.map(|exchange| Scene::of(exchange).requests(REQUESTS)))?;
    let send = expect(&send).try_no_stall()?.try_data_segments(Side::Client, REQUESTS)?;
    let vector = expect(&vector).try_no_stall()?.try_data_segments(Side::Client, REQUESTS)?;
    let evidence = Evidence::of([("send", send), ("sendmsg with an iovec", vector)]);
    let segments = stage.ask(|lab| written(&lab.pair(&[])?))?;
    if segments.iter().any(|sent| *sent != Some(1)) {
        let because = "tcpi_data_segs_out before each writev and after it";
        let saw = segments.iter().map(|sent| format!("{sent:?}")).collect::<Vec<_>>().join(" ");
        return Err(Failure::plain(Kind::Segments, "1 data segment for each writev of two buffers", because, saw));
    }
    Ok(evidence.and(format!("writev: client {REQUESTS} data segments")))
}

/// Data segments that had left when `writev(2)` returned, for each request: the notation's own step is `sendmsg`.
fn written(pair: &Sides<Socket>) -> io::Result<Vec<Option<u32>>> {
    let [mut client, mut server] =
        [TcpStream::from(pair.client.try_clone()?), TcpStream::from(pair.server.try_clone()?)];
    let sent = || Ok::<_, io::Error>(TcpInfo::read(&pair.client)?.data_segments());
    let mut request = || {
        let before = sent()?;
        let taken = client.write_vectored(&[IoSlice::new(&[b'x'; 10]), IoSlice::new(&[b'x'; 10])])?;
        let left = sent()?.zip(before).map(|(now, before)| now - before).filter(|_| taken == 20);
        server.read_exact(&mut [0; 20])?;
        server.write_all(&[b'x'; 20])?;
        client.read_exact(&mut [0; 20])?;
        Ok(left)
    };
    (0..REQUESTS).map(|_| request()).collect()
}

fn quickack_resets(stage: &Stage<'_>) -> Judged {
    let threshold = stage.pingpong_threshold()?;
    let scene = || Scene::of("C: P20 W10 R20 / S: [quickack] R10 W20").requests(threshold + 3);
    // A late reply does not count, so what comes after it tells nothing; one of several connections has none.
    let seen = stage.play_all([scene(), scene(), scene()])?;
    let told: Vec<Vec<bool>> = seen.iter().map(reads_before_a_late_reply).collect();
    let wrong =
        told.iter().flat_map(|reads| reads.iter().zip(0..)).any(|(read, replies)| *read != (replies < threshold));
    if wrong || !told.iter().flatten().any(|read| !read) {
        let because =
            format!("{threshold} prompt replies put the receiver into pingpong mode, which the option reads as 0");
        let expected = format!("1 before the first {threshold} replies, 0 afterwards");
        return Err(Failure::plain(Kind::Answer, expected, because, format!("{told:?}")));
    }
    let canonical = format!("reads 1 before the first {threshold} replies, 0 afterwards");
    Ok(Evidence::says(canonical, format!("{:?}", told[0])))
}

/// What TCP_QUICKACK read on the server before each request, as long as every reply before was prompt.
fn reads_before_a_late_reply(seen: &Observation) -> Vec<bool> {
    let told = seen.requests.iter().take_while(|request| replied_promptly(seen, request)).count() + 1;
    seen.requests.iter().take(told).filter_map(|request| request.receivers.server.pingpong).map(|mode| !mode).collect()
}

fn delayed_acks_are_counted(stage: &Stage<'_>) -> Judged {
    let [plain, nodelay] = stage
        .play_all([Scene::of(WWR).requests(20), Scene::of("C: [nodelay] W10 W10 R20 / S: R20 W20").requests(20)])?;
    let nodelay = expect(&nodelay).try_no_stall()?;
    let plain = expect(&plain).try_stalls(Pattern::AllButFirst)?;
    // What the sums may differ by is explained: a timer that fired while the machine was late.
    let uncounted = plain.seen().requests.iter().find(|request| {
        crate::verdict::wait(plain.seen(), request).is_some() && request.delayed_acks.is_none_or(|count| count < 1)
    });
    if let Some(request) = uncounted {
        let saw = format!("request {} stalled and the counter moved by {:?}", request.number, request.delayed_acks);
        let because = "the counter moves when the timer fires and sends the ACK";
        return Err(Failure::plain(
            Kind::Counter,
            "TcpExtDelayedACKs +1 or more in each stalled request",
            because,
            saw,
        ));
    }
    let total = plain.seen().counter("TcpExtDelayedACKs").unwrap_or_default();
    let without = nodelay.seen().counter("TcpExtDelayedACKs").unwrap_or_default();
    Ok(Evidence::says(
        "+1 in each of the stalled requests; none stalls with TCP_NODELAY",
        format!("{total:+} over {} stalled requests, {without:+} with TCP_NODELAY", plain.verdict().stalled.len()),
    ))
}

fn counters_are_per_namespace(stage: &Stage<'_>) -> Judged {
    // Two namespaces at once, one busy and one still; twisted, the still one is the busy one.
    let [busy, still] = stage.play_all([
        Scene::of(WWR).requests(5),
        if stage.is_twisted() { Scene::of(WWR).requests(5) } else { Scene::of("C: / S:") },
    ])?;
    let moved = |seen: &Observation| seen.counter("TcpOutSegs").unwrap_or_default();
    // A connection that is opened and closed again.
    let opened_and_closed = 8;
    let busy = expect(&busy).try_stalls(Pattern::AllButFirst)?;
    if moved(&still) > opened_and_closed {
        let because = "each namespace has counters of its own";
        let saw = format!("TcpOutSegs {:+} in the namespace with no exchange", moved(&still));
        return Err(Failure::plain(
            Kind::Counter,
            "only a connection's opening and closing counted beside a busy namespace",
            because,
            saw,
        ));
    }
    // One namespace counts both of its processes' sockets: client and server together.
    let both: i64 = Side::BOTH.iter().filter_map(|side| segments(busy.seen(), *side)).sum();
    let counted = moved(busy.seen());
    if counted < both {
        let saw = format!("TcpOutSegs {counted:+}, sockets {both}");
        return Err(Failure::plain(Kind::Counter, "TcpOutSegs counts both sockets", "both are in one namespace", saw));
    }
    // Nothing else moves in the namespace: what it counts is the other process's segment, and perhaps the ACK of it.
    let other = stage.ask(|lab| {
        let pair = lab.pair(&[])?;
        let before = counters::read_named(&["TcpOutSegs"])?[0];
        process::send_from_another(&pair.client, b"another process")?;
        Ok(counters::read_named(&["TcpOutSegs"])?[0].zip(before).map(|(now, before)| now - before))
    })?;
    if other.is_none_or(|counted| counted == 0) {
        let because = "its threads and another process have the same namespace";
        let saw = format!("TcpOutSegs {other:?} after another process's send");
        return Err(Failure::plain(Kind::Counter, "TcpOutSegs counts what another process sends", because, saw));
    }
    Ok(Evidence::says(
        "a busy namespace leaves the counters of another alone; its own count both ends, and what another process sends",
        format!("TcpOutSegs {counted:+} beside {:+}", moved(&still)),
    ))
}

fn segments(seen: &Observation, side: Side) -> Option<i64> {
    let socket = &seen.sockets[side];
    Some(i64::from(socket.data_segments?) + i64::from(socket.bare_acks?))
}

fn each_fix_acts_on_its_side(stage: &Stage<'_>) -> Judged {
    let scenes = [
        "C: W10 W10 R20 / S: [nodelay] R20 W20",
        "C: W10 W10 R20 / S: R20 cork W20 uncork",
        "C: W10 W10 R20 / S: R20 M10 W10",
        "C: quickack W10 W10 quickack R20 / S: R20 W20",
    ];
    let seen = stage.play_all(scenes.map(|exchange| Scene::of(exchange).requests(20)))?;
    let [nodelay, cork, more, quickack] = &seen;
    let still = |seen| expect(seen).try_stalls(Pattern::AllButFirst)?.try_held(Side::Client, 10);
    Ok(Evidence::of([
        ("NODELAY on the server", still(nodelay)?),
        ("cork on the server", still(cork)?),
        ("MSG_MORE on the server", still(more)?),
        ("QUICKACK on the client", still(quickack)?),
    ]))
}
