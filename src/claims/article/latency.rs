//! How Nagle works, and what one ping costs.

use super::answer;
use crate::claims::scenes::{SPLIT_REPLY, full_segment, one_byte_less, primed};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Scene, Stage, Twist};
use crate::exchange::{Side, Step};
use crate::expect::{Failure, expect};
use crate::kernel::DELACK_MAX;
use crate::observation::{Observation, Release, Rule, Summary, milliseconds};
use crate::verdict::Pattern;
use std::time::Duration;

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "full-segment-is-not-held",
        document: Document::Article,
        section: "how Nagle works",
        says: "a write that fills a segment leaves without waiting for the ACK of a small one before it",
        expected: Expected::Holds,
        source: "tcp_nagle_test (skb->len < mss_now); RFC 896",
        needs: &[],
        check: full_segment_is_not_held,
        control: Control { breaks: "one byte less than a segment", twist: Twist::Exchange(one_byte_less) },
    },
    Claim {
        id: "reply-waits-for-clients-ack",
        document: Document::Article,
        section: "the interaction with delayed ACKs",
        says: "a small reply is held back because the client's data is not yet acknowledged",
        expected: Expected::Refuted(
            "Nagle looks only at data that the sender itself has in flight: the reply leaves at once and carries the ACK",
        ),
        source: "tcp_nagle_check (packets_out); RFC 9293 §3.7.4",
        needs: &[],
        check: reply_leaves_at_once,
        control: Control {
            breaks: "a reply in two writes, so that the second finds the server's own data in flight",
            twist: Twist::Instead(SPLIT_REPLY),
        },
    },
    Claim {
        id: "one-ping-takes-42ms",
        document: Document::Article,
        section: "the latency example",
        says: "one 4-byte ping to a server that sleeps 10 ms takes 42 ms, and 0.2 ms with TCP_NODELAY",
        expected: Expected::Refuted(
            "10 ms or more either way, no stall and no delayed ACK: a single write has nothing to wait for",
        ),
        source: "tcp_nagle_check; __tcp_ack_snd_check (tcp_in_quickack_mode)",
        needs: &[],
        check: one_ping,
        control: Control {
            breaks: "the ping in two writes, to a server whose ACKs are delayed",
            twist: Twist::Instead("C: W2 W2 R2 / S: [quickack=0] R4 P10 W2"),
        },
    },
    Claim {
        id: "delayed-ack-40ms-is-the-specification",
        document: Document::Article,
        section: "the interaction with delayed ACKs",
        says: "the specification lets a receiver delay its ACK by 40 ms at most",
        expected: Expected::Refuted(
            "the RFC's bound is half a second and 40 ms is Linux's least: with TCP_QUICKACK=0 the handshake's ACK takes 200 ms",
        ),
        source: "tcp_rcv_synsent_state_process (TCP_DELACK_MAX); RFC 9293 §3.8.6.3 (MUST-40)",
        needs: &[],
        check: acks_later_than_40_ms,
        control: Control {
            breaks: "TCP_QUICKACK left as it is",
            twist: Twist::Exchange(|mut exchange| {
                exchange.client.bound.clear();
                exchange
            }),
        },
    },
    Claim {
        id: "nodelay-packet-per-write",
        document: Document::Article,
        section: "verify the setting",
        says: "with TCP_NODELAY every write is a packet of its own, without it there are fewer",
        expected: Expected::HoldsWithLimit(
            "without the option there are fewer only where the receiver delays its ACKs: to a new connection, which \
             acknowledges at once, every write is a packet too",
        ),
        source: "tcp_nagle_test, __tcp_ack_snd_check; tcp(7) TCP_NODELAY",
        needs: &[],
        check: packet_per_write,
        control: Control {
            breaks: "the five pieces in one call",
            twist: Twist::Exchange(|mut exchange| {
                exchange.client.steps[0] = Step::Vector(vec![10; 5]);
                exchange
            }),
        },
    },
];

const REQUESTS: u32 = 10;

fn full_segment_is_not_held(stage: &Stage<'_>) -> Judged {
    let full = full_segment(stage)?;
    let seen = stage.play(primed(&format!("[mss=1000] W10 W{full} R20")).requests(REQUESTS))?;
    let seen =
        expect(&seen).try_no_stall()?.try_held_at_most(Side::Client, 0)?.try_segments_per_request(Side::Client, 2)?;
    Ok(seen.into())
}

fn reply_leaves_at_once(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(primed("W10 R20").requests(REQUESTS))?;
    let seen = expect(&seen).try_no_stall()?.try_held_at_most(Side::Server, 0)?.try_reply_carries_ack(Side::Server)?;
    Ok(seen.into())
}

fn one_ping(stage: &Stage<'_>) -> Judged {
    let scenes = ["C: W4 R2 / S: R4 P10 W2", "C: [nodelay] W4 R2 / S: [nodelay] R4 P10 W2"];
    let [nagle, nodelay] = stage.play_all(scenes.map(|exchange| Scene::of(exchange).requests(8).fresh()))?;
    let ten_ms_and_no_stall = |seen| {
        expect(seen).try_no_stall()?.try_acks_at_once(Side::Server)?.try_lasts_at_least(Duration::from_millis(10))
    };
    Ok(Evidence::of([("Nagle", ten_ms_and_no_stall(&nagle)?), ("TCP_NODELAY", ten_ms_and_no_stall(&nodelay)?)]))
}

fn acks_later_than_40_ms(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(Scene::of("C: bound[quickack=0] / S:").requests(3).fresh())?;
    let opened = Summary::of(seen.opened_us.iter().copied()).unwrap_or_default();
    let floor = DELACK_MAX.saturating_sub(stage.kernel().jiffy());
    if Duration::from_micros(opened.median_us) < floor {
        return Err(answer(
            format!("accept waits {} ms or more for the handshake's ACK", floor.as_millis()),
            "TCP_QUICKACK=0 before connect delays that ACK by TCP_DELACK_MAX, HZ/5",
            opened.to_string(),
        ));
    }
    let holds =
        format!("the handshake's delayed ACK: median ≥ {} less a jiffy", milliseconds(DELACK_MAX.as_micros() as u64));
    Ok(Evidence::says(holds, opened.to_string()))
}

fn packet_per_write(stage: &Stage<'_>) -> Judged {
    let [nodelay, nagle, fresh] = stage.play_all([
        primed("[nodelay] W10×5 R20").requests(REQUESTS),
        primed("W10×5 R20").requests(REQUESTS),
        Scene::of("C: W10×5 R20 / S: R50 W20").requests(REQUESTS).fresh(),
    ])?;
    each_write_leaves(&nodelay)?;
    let nodelay = expect(&nodelay).try_segments_per_request(Side::Client, 5)?.try_held_at_most(Side::Client, 0)?;
    let nagle = expect(&nagle).try_stalls(Pattern::Every)?.try_fewer_segments_per_request(Side::Client, 5)?.try_cause(
        Side::Client,
        Rule::Nagle,
        Release::DelayedAck,
    )?;
    // Where the ACK is put off for a moment, two writes share a packet: what shows the limit is that they need not.
    if !fresh.requests.iter().any(|request| request.data_segments.client == Some(5)) {
        let saw =
            fresh.requests.iter().map(|request| format!("{:?}", request.data_segments.client)).collect::<Vec<_>>();
        let because = "a new connection acknowledges its first segments at once (tcp_enter_quickack_mode)";
        return Err(answer("5 packets for 5 writes on a new connection, with Nagle", because, saw.join(" ")));
    }
    let fresh = expect(&fresh).try_no_stall()?;
    Ok(Evidence::of([("TCP_NODELAY", nodelay), ("Nagle", nagle), ("Nagle, new connections", fresh)])
        .and("a packet per write there too"))
}

/// The count of segments grows by one with each write of the client.
fn each_write_leaves(seen: &Observation) -> Result<(), Failure> {
    let writes = seen.requests.iter().flat_map(|request| &request.writes);
    let counts: Vec<u32> =
        writes.filter(|write| write.socket == Side::Client.into()).filter_map(|write| write.data_segments).collect();
    match counts.windows(2).find(|pair| pair[1] != pair[0] + 1) {
        None if !counts.is_empty() => Ok(()),
        _ => Err(answer(
            "one more data segment with each write",
            "tcpi_data_segs_out after each write",
            format!("{counts:?}"),
        )),
    }
}
