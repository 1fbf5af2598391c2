//! Which exchanges stall, and how long.

use crate::claims::scenes::{QUICKACK_EVERY_READ, SPLIT_REQUEST, acks_before, full_segment, primed, stalls_when_kept};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::exchange::{Opt, Side};
use crate::expect::{Kind, expect};
use crate::observation::{Release, Request, Rule};
use crate::verdict::Pattern;

const SECTION: &str = "patterns";

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "second-write-size-decides",
        document: Document::Beyond,
        section: SECTION,
        says: "behind a small write one of up to a byte less than a segment stalls; one of a segment or more does not",
        expected: Expected::Holds,
        source: "tcp_nagle_test (len < mss), __tcp_ack_snd_check (more than a segment unacknowledged)",
        needs: &[],
        check: sizes,
        control: Control {
            breaks: "TCP_NODELAY: none stalls",
            twist: Twist::Exchange(|exchange| exchange.with_option(&[Side::Client], Opt::NoDelay, 1)),
        },
    },
    Claim {
        id: "many-writes-one-stall",
        document: Document::Beyond,
        section: SECTION,
        says: "a message in two, three or eight writes waits once: what is held leaves together",
        expected: Expected::Holds,
        source: "tcp_skb_can_collapse_to (held writes merge), tcp_nagle_check",
        needs: &[],
        check: many_writes,
        control: Control {
            breaks: "one write",
            twist: Twist::Instead("C: W20 R20 / S: [quickack=0] R20 W20 quickack=0"),
        },
    },
    Claim {
        id: "idle-time-does-not-help",
        document: Document::Beyond,
        section: SECTION,
        says: "a pause before each request leaves the stalls where they are",
        expected: Expected::Holds,
        source: "tcp_event_data_recv (a gap may grant immediate ACKs, pingpong mode outlasts it)",
        needs: &[],
        check: |stage| {
            let scenes = [("P60", 8), ("P300", 7)];
            let scenes = scenes
                .map(|(pause, requests)| Scene::of(format!("C: {pause} W10 W10 R20 / S: R20 W20")).requests(requests));
            let [short, long] = stage.play_all(scenes)?;
            Ok(Evidence::of([("60 ms", stalls_when_kept(stage, &short)?), ("300 ms", stalls_when_kept(stage, &long)?)]))
        },
        control: Control { breaks: "TCP_QUICKACK before every read", twist: QUICKACK_EVERY_READ },
    },
    Claim {
        id: "pipelined-replies-do-not-stall",
        document: Document::Beyond,
        section: SECTION,
        says: "two requests written back to back and answered one by one do not stall",
        expected: Expected::HoldsWithLimit(
            "each answer carries the ACK that frees the next request; two answers to one request stall",
        ),
        source: "__tcp_transmit_skb (every data segment carries the ACK), tcp_nagle_check",
        needs: &[],
        check: |stage| {
            let [pipelined, paired] = stage.play_all([
                Scene::of("C: W60 W60 R200 / S: [quickack=0] R60 W100 R60 W100 quickack=0").requests(10),
                Scene::of(PAIRED).requests(8),
            ])?;
            let pipelined = expect(&pipelined).try_no_stall()?.try_released(Side::Client, Release::Reply)?;
            let paired = expect(&paired).try_stalls(Pattern::Every)?.try_cause(
                Side::Server,
                Rule::Nagle,
                Release::DelayedAck,
            )?;
            Ok(Evidence::of([("one by one", pipelined), ("two answers at once", paired)]))
        },
        control: Control { breaks: "both answers to one request", twist: Twist::Instead(PAIRED) },
    },
    Claim {
        id: "two-hops-double-it",
        document: Document::Beyond,
        section: SECTION,
        says: "a relay between the two doubles the wait, one delayed ACK for each hop",
        expected: Expected::Refuted(
            "a relay that forwards what it has lets both hops wait at the same time: each has its delayed ACK, and they overlap",
        ),
        source: "tcp_send_delayed_ack (either receiver's timer starts with its first unacknowledged segment)",
        needs: &[Need::PrivateLab],
        check: two_hops,
        control: Control { breaks: "no relay: one delayed ACK a request", twist: Twist::Instead(SPLIT_REQUEST) },
    },
];

/// One request with an answer in two writes, to a client that delays its ACKs.
const PAIRED: &str = "C: [quickack=0] W60 quickack=0 R200 / S: R60 W100 W100";

fn sizes(stage: &Stage<'_>) -> Judged {
    let full = full_segment(stage)?;
    let sizes = [1, full / 2, full - 1, full, full + 1, 2 * full];
    let seen = stage.play_all(sizes.map(|size| primed(&format!("[mss=1000] W10 W{size} R20")).requests(6)))?;
    for (seen, size) in seen.iter().zip(sizes) {
        if size < full {
            expect(seen).try_stalls(Pattern::Every)?.try_held(Side::Client, size)?;
        } else {
            expect(seen).try_no_stall()?;
        }
    }
    Ok(Evidence::says(
        "1 byte, half a segment, a byte less than one: every; a segment, a byte more, two: none",
        format!("segments of {full} bytes"),
    ))
}

fn many_writes(stage: &Stage<'_>) -> Judged {
    let seen = stage.play_all([2, 3, 8].map(|writes| primed(&format!("W10×{writes} R20")).requests(8)))?;
    let once = |seen, held: u32| {
        expect(seen)
            .try_stalls(Pattern::Every)?
            .try_delayed_acks_per_stall(1)?
            .try_held(Side::Client, held)?
            .try_segments_per_request(Side::Client, 2)
    };
    let [two, three, eight] = &seen;
    Ok(Evidence::of([("2 writes", once(two, 10)?), ("3", once(three, 20)?), ("8", once(eight, 70)?)]))
}

fn two_hops(stage: &Stage<'_>) -> Judged {
    let scene = Scene::of("C: W10 W10 R20 / relay: C[quickack=0] / S: [quickack=0] R20 W20 quickack=0");
    let seen = stage.play(scene.requests(10))?;
    let because = "both sockets while neither side can go on; TcpExtDelayedACKs of the whole request";
    let holds =
        "while the client's body is held, its header waits unacknowledged at the server too; 2 delayed ACKs or more";
    let judge = |request: &Request| {
        let blocked = request.blocked?;
        // Nothing held any more: looked at too late to see it; or not held at all, as in a new connection's first request.
        if blocked.client.not_sent? == 0 {
            return None;
        }
        let (received, acks) =
            (blocked.server.bytes_received?, blocked.server.bare_acks()? - acks_before(&seen, request)?);
        let header = received == u64::from(request.number) * 20 - 10;
        let fits = header && acks == 0 && request.delayed_acks? >= 2;
        let saw =
            format!("the server with {received} bytes and {acks} bare ACKs, delayed ACKs {:?}", request.delayed_acks);
        Some(if fits { Ok(()) } else { Err(saw) })
    };
    Ok(expect(&seen).try_each(Kind::Held, holds, because, judge)?.into())
}
