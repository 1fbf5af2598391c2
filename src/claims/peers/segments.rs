//! What a segment takes in and what it does not: the last piece of a large write, records, fragments, a FIN.

use crate::claims::scenes::{client_data, full_segment_under, primed};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::exchange::{Exchange, Opt, Side, Step};
use crate::expect::{Expect, Failure, Kind, expect};
use crate::lab::{Conditions, WireSpec};
use crate::observation::{Frame, Hold, Observation, Release, Request, Rule};
use crate::verdict::was_late;
use std::ops::RangeInclusive;
use std::time::Duration;

const SECTION: &str = "what shares a segment";

/// Fragments that a buffer may have: 17 by default (`CONFIG_MAX_SKB_FRAGS`), and with pages of 64 KiB 16 before Linux 6.4.
const MAX_SKB_FRAGS: RangeInclusive<u32> = 16..=45;

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "nodelay-frees-the-last-piece",
        document: Document::Beyond,
        section: SECTION,
        says: "with TCP_NODELAY the last piece of a large write, less than a segment, leaves with the others",
        expected: Expected::Holds,
        source: "tcp_mss_split_point, tcp_nagle_check; packetdrill nagle/https_client",
        needs: &[Need::PrivateLab],
        check: last_piece,
        control: Control {
            breaks: "TCP_NODELAY is left out",
            twist: Twist::Exchange(|exchange| exchange.with_option(&[Side::Client], Opt::NoDelay, 0)),
        },
    },
    Claim {
        id: "msg-eor-writes-stay-apart",
        document: Document::Beyond,
        section: SECTION,
        says: "writes with MSG_EOR leave as a segment each, however many wait in the socket",
        expected: Expected::Holds,
        source: "tcp_skb_can_collapse_to (eor); packetdrill eor/no-coalesce-subsequent",
        needs: &[Need::PrivateLab],
        check: |stage| {
            let [records, plain] = stage.play_all(["E400", "W400"].map(|write| queued(&format!("{write}×10"))))?;
            let records = sends(&records, &[&[1][..], &[400; 10]].concat())?;
            Ok(Evidence::of([("MSG_EOR", records), ("without", merged(&plain, 4000)?)]))
        },
        control: Control { breaks: "the flag is left out", twist: Twist::Exchange(without_eor) },
    },
    Claim {
        id: "msg-eor-closes-what-it-joins",
        document: Document::Beyond,
        section: SECTION,
        says: "a write with MSG_EOR joins the bytes before it and none after it joins them, nor the last piece of a long one",
        expected: Expected::Holds,
        source: "tcp_skb_can_collapse_to (eor), tcp_skb_fragment_eor; packetdrill eor/no-coalesce-small, -large",
        needs: &[Need::PrivateLab],
        check: |stage| {
            let full = full_segment_under(stage, narrow)?;
            let long = format!("E{} W200", 2 * full + 100);
            let [small, long] = stage.play_all([queued("W400 E400 W400"), queued(&long)])?;
            Ok(Evidence::of([
                ("a small one", sends(&small, &[1, 800, 400])?),
                ("a long one", sends(&long, &[1, full, full, 100, 200])?),
            ]))
        },
        control: Control { breaks: "the flag is left out", twist: Twist::Exchange(without_eor) },
    },
    Claim {
        id: "zerocopy-splits-at-max-frags",
        document: Document::Beyond,
        section: SECTION,
        says: "a vector of more entries than a buffer has fragments is split under MSG_ZEROCOPY, each part with PSH",
        expected: Expected::Holds,
        source: "tcp_sendmsg_locked (skb_zerocopy_iter_stream, EMSGSIZE), MAX_SKB_FRAGS; packetdrill zerocopy/maxfrags",
        needs: &[Need::PrivateLab],
        check: max_frags,
        control: Control {
            breaks: "the flag is left out",
            twist: Twist::Exchange(|mut exchange| {
                for step in &mut exchange.client.steps {
                    if let Step::ZeroCopy(parts) = step {
                        *step = Step::Vector(std::mem::take(parts));
                    }
                }
                exchange
            }),
        },
    },
    Claim {
        id: "fin-lifts-nagle",
        document: Document::Beyond,
        section: SECTION,
        says: "shutting down sends what Nagle holds, in one segment with the FIN",
        expected: Expected::Holds,
        source: "tcp_nagle_test (TCPHDR_FIN), tcp_send_fin; smoltcp test_final_packet_in_stream_doesnt_wait_for_nagle",
        needs: &[Need::PrivateLab],
        check: fin,
        control: Control { breaks: "no shutdown", twist: Twist::Instead("C: W10 W10 / S: [quickack=0] R20") },
    },
];

/// One way of a path on which an ACK takes long enough for writes to queue up.
const ONE_WAY: Duration = Duration::from_millis(5);

/// Segmented as the path carries it, and only one segment may leave before the first ACK.
fn narrow(base: Conditions) -> Conditions {
    base.wire(WireSpec::new(ONE_WAY)).initcwnd(1)
}

/// A byte that fills the congestion window, and what queues up behind it until its ACK comes.
fn queued(writes: &str) -> Scene {
    primed(&format!("[nodelay mss=1000] W1 {writes} R20")).requests(4).fresh().capture().under(narrow)
}

fn last_piece(stage: &Stage<'_>) -> Judged {
    let path: fn(Conditions) -> Conditions = |base| base.wire(WireSpec::new(2 * ONE_WAY));
    let full = full_segment_under(stage, path)?;
    let behind = |option: &str| {
        let client = format!("[mss=1000 {option}] W10 W{} R20", 2 * full + 54);
        primed(&client).requests(4).capture().under(path)
    };
    let [nodelay, nagle] = stage.play_all(["nodelay", ""].map(behind))?;
    // The host's own queue may keep it for a moment (TCP small queues), but it never waits for an ACK.
    let leaves = |request: &Request| {
        let frames = nodelay.frames.as_ref()?.of_request(request.number);
        let piece = frames.iter().find(|frame| frame.from == Side::Client && frame.payload == 54)?;
        let acked = |frame: &Frame| frame.from == Side::Server && frame.there_us().is_some_and(|at| at <= piece.at_us);
        let waited = frames.iter().any(acked) && request.writes.iter().any(|write| write.held != Some(0));
        (!waited || !was_late(&nodelay, request)).then(|| if waited { Err("after an ACK".to_owned()) } else { Ok(()) })
    };
    let because = "the captured segments of each request, and when the path delivered them";
    let at_once = expect(&nodelay).try_each(Kind::Held, "54 bytes leave before any ACK comes", because, leaves)?;
    let segments = sends(&nodelay, &[10, full, full, 54])?;
    // Whether the full segments are acknowledged at once or late is the receiver's affair, so the release does not count.
    let judge = |request: &Request| {
        let fits = request.holds.iter().any(|hold: &Hold| (hold.bytes, hold.rule) == (54, Rule::Nagle));
        (fits || !was_late(&nagle, request)).then(|| if fits { Ok(()) } else { Err(format!("{:?}", request.holds)) })
    };
    let because = "bytes written and not yet sent when a write returns (SIOCOUTQNSD)";
    let held = expect(&nagle).try_each(Kind::Held, "Nagle holds 54 bytes", because, judge)?;
    Ok(Evidence::of([("TCP_NODELAY", at_once), ("its segments", segments), ("without", held)]))
}

fn max_frags(stage: &Stage<'_>) -> Judged {
    const ENTRIES: u32 = 60;
    let vector = |letter: char, entries: u32| {
        let parts = vec!["1"; entries as usize].join("+");
        primed(&format!("[nodelay] {letter}{parts} R20")).requests(4).capture()
    };
    let [split, copied] = stage.play_all([vector('Z', ENTRIES), vector('V', ENTRIES)])?;
    // The kernel's configuration decides the limit, so the first segment tells it.
    let limit = client_data(&split, 1).first().map_or(0, |frame| frame.payload);
    if !MAX_SKB_FRAGS.contains(&limit) {
        let because = "a page of the program's memory takes a fragment of the buffer (MAX_SKB_FRAGS)";
        let saw = format!("{limit} of {ENTRIES} entries in the first segment");
        return Err(Failure::plain(Kind::Segments, "16 to 45 entries in the first segment", because, saw));
    }
    let [fits, more] = stage.play_all([vector('Z', limit), vector('Z', limit + 1)])?;
    Ok(Evidence::of([
        ("as many entries as fragments", parts(&fits, limit, 1)?),
        ("one more", parts(&more, limit, 2)?),
        ("60", parts(&split, limit, ENTRIES.div_ceil(limit) as usize)?),
        ("60 that are copied", parts(&copied, ENTRIES, 1)?),
    ])
    .measuring(format!("{limit} fragments a buffer")))
}

/// A request leaves as so many segments, all but the last with as many bytes as a buffer has fragments, and all with PSH.
fn parts(seen: &Observation, limit: u32, segments: usize) -> Result<Expect<'_>, Failure> {
    let holds = match segments {
        1 => "one segment with PSH",
        2 => "two segments with PSH, the second of one byte",
        _ => "segments with PSH of as many bytes as fragments, the last one shorter",
    };
    let judge = |request: &Request| {
        let data = client_data(seen, request.number);
        let full = data.iter().rev().skip(1).all(|frame| frame.payload == limit);
        let last = data.last().is_some_and(|frame| frame.payload <= limit && (segments != 2 || frame.payload == 1));
        let fits = data.len() == segments && full && last && data.iter().all(|frame| frame.flags.psh);
        let saw = || data.iter().map(|frame| (frame.payload, frame.flags.psh)).collect::<Vec<_>>();
        Some(if fits { Ok(()) } else { Err(format!("payload and PSH {:?}", saw())) })
    };
    expect(seen).try_each(Kind::Segments, holds, "the captured segments of each request", judge)
}

/// The client sends segments of these sizes in each request.
fn sends<'a>(seen: &'a Observation, sizes: &[u32]) -> Result<Expect<'a>, Failure> {
    let list = |sizes: &[u32]| sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    let judge = |request: &Request| {
        let sent: Vec<u32> = client_data(seen, request.number).iter().map(|frame| frame.payload).collect();
        let fits = sent == sizes;
        (fits || !was_late(seen, request)).then(|| if fits { Ok(()) } else { Err(list(&sent)) })
    };
    let holds = format!("segments of {} bytes", list(sizes));
    expect(seen).try_each(Kind::Segments, &holds, "the captured segments of each request", judge)
}

/// What waited behind the byte that filled the window leaves in fewer segments than there were writes, full ones first.
fn merged(seen: &Observation, bytes: u32) -> Result<Expect<'_>, Failure> {
    let full = seen.sockets.client.before.mss.unwrap_or(bytes);
    let chunks = (0..bytes).step_by(full as usize).map(|sent| full.min(bytes - sent));
    sends(seen, &std::iter::once(1).chain(chunks).collect::<Vec<_>>())
}

fn fin(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(Scene::of("C: W10 W10 shutdown / S: [quickack=0] R20").requests(5).fresh().capture())?;
    let holds = "10 bytes, then 10 with the FIN";
    let judge = |request: &Request| {
        let data = client_data(&seen, request.number);
        let sent: Vec<(u32, bool)> = data.iter().map(|frame| (frame.payload, frame.flags.fin)).collect();
        let fits = sent == [(10, false), (10, true)];
        (fits || !was_late(&seen, request)).then(|| if fits { Ok(()) } else { Err(format!("bytes and FIN {sent:?}")) })
    };
    let because = "the captured segments of each request";
    let held = expect(&seen).try_held_at_least(Side::Client, 10)?.try_released(Side::Client, Release::OwnStep)?;
    Ok(held.try_each(Kind::Segments, holds, because, judge)?.into())
}

/// The exchange with plain writes where its client has `MSG_EOR`.
fn without_eor(mut exchange: Exchange) -> Exchange {
    fn plain(steps: &mut [Step]) {
        for step in steps {
            match step {
                Step::Record(n) => *step = Step::Write(*n),
                Step::Repeat(steps, _) => plain(steps),
                _ => {}
            }
        }
    }
    plain(&mut exchange.client.steps);
    exchange
}
