//! The echo lab's claims: its five arms, its pitfalls and its evidence.

use super::article::{answer, refusal, stall_or_not};
use super::scene::parsed;
use super::scenes::{SPLIT_REPLY, WWR, primed};
use super::stage::Judged;
use super::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::exchange::{Opt, Side, Sides};
use crate::expect::{Failure, Kind, expect};
use crate::observation::Observation;
use crate::sys::counters;
use crate::sys::options::{self, SocketOption};
use crate::sys::tcp_info::TcpInfo;
use crate::sys::transfer::{self, Flags};
use socket2::Socket;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "getsockopt-tells-the-arm",
        document: Document::EchoLab,
        section: "topology",
        says: "getsockopt(TCP_NODELAY) reads 1 where the option is set and 0 where it is not",
        expected: Expected::Holds,
        source: "do_tcp_getsockopt; tcp(7) TCP_NODELAY",
        needs: &[],
        check: getsockopt_tells,
        control: Control { breaks: "the option is never set", twist: Twist::Check },
    },
    Claim {
        id: "echo-1-byte-nodelay-is-1.7x",
        document: Document::EchoLab,
        section: "arm 1",
        says: "a one-byte echo on a kept connection makes 1.7 times the requests a second with TCP_NODELAY",
        expected: Expected::Refuted(
            "one write a turn leaves nothing to hold: the same segments with the option and without, at the same rate",
        ),
        source: "tcp_nagle_check (packets_out is 0 at each write)",
        needs: &[],
        check: one_byte_echo,
        control: Control {
            breaks: "an echo in two writes",
            twist: Twist::Exchange(|exchange| {
                let mut split = parsed("C: W1 R2 / S: R1 W1 W1");
                split.client.opened = exchange.client.opened;
                split
            }),
        },
    },
    Claim {
        id: "batched-writes-favor-nagle",
        document: Document::EchoLab,
        section: "arm 2",
        says: "of 32 writes of 16 bytes before a read TCP_NODELAY makes more segments than Nagle",
        expected: Expected::Holds,
        source: "tcp_nagle_test, tcp_cwnd_test; RFC 896",
        needs: &[],
        check: batched_writes,
        control: Control {
            breaks: "one write of 512 bytes",
            twist: Twist::Exchange(|mut exchange| {
                exchange.client.steps = parsed("C: W512 R512 / S:").client.steps;
                exchange
            }),
        },
    },
    Claim {
        id: "cork-coalesces-the-batch",
        document: Document::EchoLab,
        section: "arm 2",
        says: "with TCP_CORK around them the 32 writes leave as one segment",
        expected: Expected::Holds,
        source: "__tcp_sock_set_cork; tcp(7) TCP_CORK",
        needs: &[],
        check: |stage| {
            let seen = stage.play(Scene::of("C: cork W16×32 uncork R512 / S: R512 W512").requests(10))?;
            Ok(expect(&seen).try_no_stall()?.try_segments_per_request(Side::Client, 1)?.into())
        },
        control: Control { breaks: "no cork", twist: Twist::Instead("C: W16×32 R512 / S: R512 W512") },
    },
    Claim {
        id: "quickack-off-makes-a-tail",
        document: Document::EchoLab,
        section: "arm 3",
        says: "with TCP_QUICKACK=0 on the client, write-write-read has a mean far above its median",
        expected: Expected::HoldsWithLimit(
            "the end that it is set on decides: on the one that receives the two writes every request stalls, the first too, \
             so there is no tail; on the client none does for it",
        ),
        source: "__tcp_sock_set_quickack (inet_csk_enter_pingpong_mode)",
        needs: &[],
        check: |stage| {
            let on = |side| {
                let exchange = parsed(WWR).with_option(&[side], Opt::QuickAck, 0);
                Scene::of(exchange.to_string()).requests(8).fresh()
            };
            stall_or_not(stage, [("on the server", on(Side::Server), true), ("on the client", on(Side::Client), false)])
        },
        control: Control {
            breaks: "TCP_QUICKACK=1 instead",
            twist: Twist::Exchange(|mut exchange| {
                let opened = exchange.client.opened.iter_mut().chain(&mut exchange.server.opened);
                opened.for_each(|setting| setting.value = 1);
                exchange
            }),
        },
    },
    Claim {
        id: "echo-server-has-no-40ms",
        document: Document::EchoLab,
        section: "arm 3",
        says: "write-write-read to an echo server shows no 40 ms on the loopback",
        expected: Expected::HoldsWithLimit(
            "because the server answers each part at once, and the answer carries the ACK; \
             a server that answers the whole stalls",
        ),
        source: "tcp_event_ack_sent, tcp_ack (tcp_data_snd_check)",
        needs: &[],
        check: |stage| {
            stall_or_not(
                stage,
                [
                    (
                        "each part echoed",
                        Scene::of("C: W32 W32 R64 / S: [quickack=0] (R32 W32)×2 quickack=0").requests(10),
                        false,
                    ),
                    ("the whole echoed", primed("W32 W32 R64").requests(6), true),
                ],
            )
        },
        control: Control {
            breaks: "the server answers the whole",
            twist: Twist::Instead("C: W32 W32 R64 / S: [quickack=0] R64 W64 quickack=0"),
        },
    },
    Claim {
        id: "connect-per-request-hides-the-knob",
        document: Document::EchoLab,
        section: "pitfalls",
        says: "measuring only fresh connections hides what TCP_NODELAY does",
        expected: Expected::Holds,
        source: "tcp_enter_quickack_mode (a new connection acknowledges at once), inet_csk_enter_pingpong_mode",
        needs: &[],
        check: fresh_connections_hide_it,
        control: Control {
            breaks: "TCP_QUICKACK=0 on the server: its ACKs are delayed from the start",
            twist: Twist::Exchange(|exchange| exchange.with_option(&[Side::Server], Opt::QuickAck, 0)),
        },
    },
    Claim {
        id: "accepted-sockets-nagle-too",
        document: Document::EchoLab,
        section: "pitfalls",
        says: "the server's own replies are held too, unless the accepted socket has TCP_NODELAY",
        expected: Expected::Holds,
        source: "tcp_nagle_test (the sender's own nonagle)",
        needs: &[],
        check: |stage| {
            let with = |sides: &[Side]| {
                let exchange = parsed(SPLIT_REPLY).with_option(sides, Opt::NoDelay, 1);
                Scene::of(exchange.to_string()).requests(8)
            };
            stall_or_not(
                stage,
                [
                    ("neither end", with(&[]), true),
                    ("the client alone", with(&[Side::Client]), true),
                    ("the accepted socket", with(&[Side::Server]), false),
                ],
            )
        },
        control: Control {
            breaks: "the accepted socket always has it",
            twist: Twist::Exchange(|exchange| exchange.with_option(&[Side::Server], Opt::NoDelay, 1)),
        },
    },
    Claim {
        id: "outsegs-counts-segments",
        document: Document::EchoLab,
        section: "checklist",
        says: "OutSegs in /proc/net/snmp counts the segments that the sockets sent",
        expected: Expected::Holds,
        source: "__tcp_transmit_skb (TCP_MIB_OUTSEGS, tcp_skb_pcount); RFC 4022 tcpOutSegs",
        needs: &[Need::PrivateLab],
        check: outsegs_counts,
        control: Control {
            breaks: "a connection more in the namespace, whose sockets are left out",
            twist: Twist::Check,
        },
    },
    Claim {
        id: "unix-sockets-have-no-knob",
        document: Document::EchoLab,
        section: "keep-alive and Unix sockets",
        says: "a Unix socket leaves TCP out altogether",
        expected: Expected::Holds,
        source: "sock_no_setsockopt (unix_stream_ops); unix(7)",
        needs: &[Need::PrivateLab],
        check: unix_leaves_tcp_out,
        control: Control { breaks: "a TCP connection on the loopback", twist: Twist::Check },
    },
];

pub(super) fn claims() -> Vec<&'static Claim> {
    CLAIMS.iter().collect()
}

fn getsockopt_tells(stage: &Stage<'_>) -> Judged {
    let set = i32::from(!stage.is_twisted());
    let reads = stage.ask(|lab| {
        let pair = lab.pair(&[])?;
        let mut reads = Vec::new();
        for socket in [&pair.client, &pair.server] {
            reads.push(options::get(socket, SocketOption::NoDelay)?);
            options::set(socket, SocketOption::NoDelay, set)?;
            reads.push(options::get(socket, SocketOption::NoDelay)?);
        }
        Ok(reads)
    })?;
    if reads != [0, 1, 0, 1] {
        let because = "the option's value is kept in the socket (nonagle)";
        return Err(answer("0 before and 1 after the option was set, on both ends", because, format!("{reads:?}")));
    }
    Ok(Evidence::says("0 before the option was set and 1 afterwards, on both ends", ""))
}

fn one_byte_echo(stage: &Stage<'_>) -> Judged {
    const REQUESTS: u32 = 50;
    let scenes = ["C: W1 R1 / S: R1 W1", "C: [nodelay] W1 R1 / S: [nodelay] R1 W1"];
    let [nagle, nodelay] = stage.play_all(scenes.map(|exchange| Scene::of(exchange).requests(REQUESTS)))?;
    let one_segment = |seen| {
        let seen = expect(seen).try_no_stall()?.try_data_segments(Side::Client, REQUESTS)?;
        seen.try_data_segments(Side::Server, REQUESTS)
    };
    let evidence = Evidence::of([("Nagle", one_segment(&nagle)?), ("TCP_NODELAY", one_segment(&nodelay)?)]);
    let ratio = nagle.elapsed_us as f64 / nodelay.elapsed_us.max(1) as f64;
    Ok(evidence.measuring(format!("requests a second with TCP_NODELAY {ratio:.2} times those with Nagle")))
}

fn batched_writes(stage: &Stage<'_>) -> Judged {
    const REQUESTS: u32 = 8;
    let batch = |option: &str| primed(&format!("[{option}] W16×32 R512")).requests(REQUESTS);
    let [nagle, nodelay] = stage.play_all([batch("nodelay=0"), batch("nodelay")])?;
    let segments = |seen: &Observation| seen.sockets.client.data_segments.unwrap_or_default();
    let (few, many) = (segments(&nagle), segments(&nodelay));
    if !(REQUESTS < few && few < many) {
        let because = "Nagle gathers what is written behind a small segment in flight; TCP_NODELAY sends each write until \
                       the congestion window is full";
        let expected = "more segments with TCP_NODELAY than with Nagle, and with Nagle more than one a batch";
        let saw = format!("{few} with Nagle, {many} with TCP_NODELAY, {REQUESTS} batches");
        return Err(Failure::plain(Kind::Segments, expected, because, saw));
    }
    let each = |count: u32| f64::from(count) / f64::from(REQUESTS);
    Ok(Evidence::says(
        "segments: more with TCP_NODELAY than with Nagle, and with Nagle more than one a batch",
        format!("{:.1} a batch with TCP_NODELAY, {:.1} with Nagle", each(many), each(few)),
    ))
}

fn fresh_connections_hide_it(stage: &Stage<'_>) -> Judged {
    let echo = |option: &str| Scene::of(format!("C: [{option}] W10 W10 R20 / S: R20 W20")).requests(12);
    let [nagle, nodelay, kept_nagle, kept_nodelay] =
        stage.play_all([echo("nodelay=0").fresh(), echo("nodelay").fresh(), echo("nodelay=0"), echo("nodelay")])?;
    let alike = |seen| expect(seen).try_no_stall()?.try_segments_per_request(Side::Client, 2);
    let kept = stage.default_pattern()?;
    Ok(Evidence::of([
        ("fresh, Nagle", alike(&nagle)?),
        ("fresh, TCP_NODELAY", alike(&nodelay)?),
        ("kept, Nagle", expect(&kept_nagle).try_stalls(kept)?),
        ("kept, TCP_NODELAY", alike(&kept_nodelay)?),
    ]))
}

/// `OutSegs` and both sockets' own count of segments, once they stand still.
fn segments_out(pair: &Sides<Socket>) -> io::Result<(u64, u64)> {
    let own = || -> io::Result<u64> {
        let both = [TcpInfo::read(&pair.client)?, TcpInfo::read(&pair.server)?];
        // What is sent again counts for the socket and not for OutSegs (__tcp_transmit_skb, tcp_retransmit_skb).
        let sent = both.iter().map(|info| Some(u64::from(info.segs_out?.saturating_sub(info.total_retrans?))));
        sent.sum::<Option<u64>>().ok_or_else(|| io::ErrorKind::Unsupported.into())
    };
    loop {
        let before = own()?;
        let counted = counters::read_named(&["TcpOutSegs"])?[0].ok_or(io::ErrorKind::Unsupported)?;
        if own()? == before {
            return Ok((counted, before));
        }
    }
}

fn outsegs_counts(stage: &Stage<'_>) -> Judged {
    let twisted = stage.is_twisted();
    let (counted, own) = stage.ask(|lab| {
        let pair = lab.pair(&[(SocketOption::MaxSeg, 1000), (SocketOption::NoDelay, 1)])?;
        let before = segments_out(&pair)?;
        for bytes in [10, 10, 10, 4000] {
            transfer::send(&pair.client, &vec![b'x'; bytes], Flags::NONE)?;
        }
        (&pair.server).read_exact(&mut [0; 4030])?;
        if twisted {
            let other = lab.pair(&[])?;
            transfer::send(&other.client, b"other", Flags::NONE)?;
        }
        let after = segments_out(&pair)?;
        Ok((after.0 - before.0, after.1 - before.1))
    })?;
    if counted != own {
        let because = "both are counted where a segment is handed to IP (__tcp_transmit_skb)";
        let saw = format!("OutSegs +{counted}, sockets +{own}");
        return Err(Failure::plain(Kind::Counter, "OutSegs grows by what both sockets sent", because, saw));
    }
    Ok(Evidence::says("OutSegs grows by exactly what both ends' segs_out grow by", format!("+{counted}")))
}

fn unix_leaves_tcp_out(stage: &Stage<'_>) -> Judged {
    if stage.is_twisted() {
        return refusal("Unix socket", stage.ask(|lab| lab.pair(&[]))?.client).map(|name| Evidence::says(name, ""));
    }
    let (moved, unix) = stage.ask(|_| {
        let before = counters::Counters::read()?;
        let (mut client, mut server) = UnixStream::pair()?;
        for _ in 0..10 {
            client.write_all(&[b'x'; 10])?;
            client.write_all(&[b'x'; 10])?;
            server.read_exact(&mut [0; 20])?;
            server.write_all(&[b'x'; 20])?;
            client.read_exact(&mut [0; 20])?;
        }
        Ok((counters::Counters::read()?.since(&before), client))
    })?;
    let refused = refusal("Unix socket", unix)?;
    if let Some((name, change)) = moved.iter().find(|(name, _)| name.starts_with("Tcp")) {
        let because = "no byte of it goes through TCP";
        return Err(Failure::plain(Kind::Counter, "no TCP counter moves", because, format!("{name} {change:+}")));
    }
    Ok(Evidence::says("write-write-read moves no TCP counter, and TCP_NODELAY is refused", refused))
}
