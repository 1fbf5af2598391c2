//! Knobs, cases and traps: routes, files, bulk, pools and the exercises.

use crate::claims::scenes::{
    SPLIT_REQUEST, WWR, full_segment, held_until_delayed_ack, primed, replied_promptly, stalls_when_kept,
};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::exchange::Side;
use crate::expect::{Expect, Failure, Kind, expect};
use crate::observation::{Observation, Release, Request, Rule};
use crate::verdict::{Pattern, wait, was_late};

const SECTION: &str = "knobs, cases and traps";

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "route-quickack",
        document: Document::Chapter,
        section: SECTION,
        says: "quickack 1 on a route: every connection over it acknowledges at once",
        expected: Expected::Holds,
        source: "tcp_in_quickack_mode (RTAX_QUICKACK), fib_lookup (the longest prefix); ip-route(8)",
        needs: &[Need::PrivateLab],
        check: route_quickack,
        control: Control {
            breaks: "the route without it",
            twist: Twist::Conditions(|mut base| {
                base.quickack_route = false;
                base
            }),
        },
    },
    Claim {
        id: "header-then-sendfile",
        document: Document::Chapter,
        section: SECTION,
        says: "a cork or MSG_MORE around a header and a sendfile puts both into one segment",
        expected: Expected::Holds,
        source: "tcp_push, __tcp_sock_set_cork; tcp(7) TCP_CORK, sendfile(2)",
        needs: &[],
        check: header_then_sendfile,
        control: Control {
            breaks: "neither of them",
            twist: Twist::Instead("C: W100 F1000 R20 / S: [quickack=0] R1100 W20 quickack=0"),
        },
    },
    Claim {
        id: "bulk-is-never-held",
        document: Document::Chapter,
        section: SECTION,
        says: "writes of a full segment and more are not held, and TCP_NODELAY changes nothing for them",
        expected: Expected::Holds,
        source: "tcp_nagle_test (only what is shorter than the segment size is held)",
        needs: &[],
        check: bulk,
        control: Control { breaks: "every write is one byte short of a full segment", twist: Twist::Check },
    },
    Claim {
        id: "fresh-connections-hide-it",
        document: Document::Chapter,
        section: SECTION,
        says: "with a connection for each request nothing stalls; on a pooled one the requests after the first do",
        expected: Expected::Holds,
        source: "tcp_incr_quickack (a new receiver acknowledges at once), inet_csk_enter_pingpong_mode",
        needs: &[],
        check: |stage| {
            let [fresh, pooled] = stage.play_all([Scene::of(WWR).requests(20).fresh(), Scene::of(WWR).requests(20)])?;
            let fresh = expect(&fresh).try_no_stall()?;
            Ok(Evidence::of([("20 connections", fresh), ("one connection", stalls_when_kept(stage, &pooled)?)]))
        },
        control: Control { breaks: "new receivers that delay from the start", twist: Twist::Instead(SPLIT_REQUEST) },
    },
    Claim {
        id: "packets-double-under-nodelay",
        document: Document::Chapter,
        section: SECTION,
        says: "TCP_NODELAY without batching sends twice the packets",
        expected: Expected::Holds,
        source: "tcp_nagle_test (TCP_NAGLE_PUSH: each write leaves by itself)",
        needs: &[],
        check: |stage| {
            let scenes = ["C: [nodelay] W10 W10 R20 / S: R20 W20", "C: [nodelay] W20 R20 / S: R20 W20"];
            let [split, batched] = stage.play_all(scenes.map(|exchange| Scene::of(exchange).requests(50)))?;
            let split = expect(&split).try_no_stall()?.try_data_segments(Side::Client, 100)?;
            let batched = expect(&batched).try_no_stall()?.try_data_segments(Side::Client, 50)?;
            Ok(Evidence::of([("two writes", split), ("one write", batched)]))
        },
        control: Control {
            breaks: "the two pieces in one write",
            twist: Twist::Instead("C: [nodelay] V10+10 R20 / S: R20 W20"),
        },
    },
    Claim {
        id: "large-body-does-not-stall",
        document: Document::Chapter,
        section: SECTION,
        says: "a header of 1,000 bytes and a body of 70,000 do not stall: two segments' worth draws the ACK",
        expected: Expected::Holds,
        source: "tcp_nagle_test (full segments leave), __tcp_ack_snd_check (more than one segment is acknowledged)",
        needs: &[],
        check: large_body,
        control: Control {
            breaks: "a body of less than a segment",
            twist: Twist::Instead("C: W1000 W7000 R20 / S: [quickack=0] R8000 W20 quickack=0"),
        },
    },
    Claim {
        id: "split-reply-stalls-both-sides",
        document: Document::Chapter,
        section: SECTION,
        says: "a request and a reply in two writes each wait for two delayed ACKs; TCP_NODELAY on one side ends one of them, on both sides both",
        expected: Expected::Holds,
        source: "tcp_nagle_check on either side",
        needs: &[],
        check: split_reply,
        control: Control {
            breaks: "the reply in one write",
            twist: Twist::Instead("C: [quickack=0] W10 W10 quickack=0 R20 / S: [quickack=0] R20 W20 quickack=0"),
        },
    },
    Claim {
        id: "fast-requests-before-stall",
        document: Document::Chapter,
        section: SECTION,
        says: "the requests before the first stall are as many as the prompt replies that put a receiver into pingpong mode",
        expected: Expected::Holds,
        source: "inet_csk_in_pingpong_mode, tcp_delack_timer_handler (leaves the mode); net.ipv4.tcp_pingpong_thresh",
        needs: &[Need::PrivateLab],
        check: fast_requests,
        control: Control {
            breaks: "a receiver in pingpong mode from the start",
            twist: Twist::Instead("C: P12 W10 W10 R20 / S: [quickack=0] R20 W20 quickack=0"),
        },
    },
];

fn route_quickack(stage: &Stage<'_>) -> Judged {
    let over = |exchange: &str| Scene::of(exchange).requests(20).under(|base| base.quickack_route());
    let [plain, delays, subnet] = stage.play_all([
        over(WWR),
        over(SPLIT_REQUEST),
        // The address has a local route of its own, which goes before its subnet's.
        Scene::of(SPLIT_REQUEST).requests(8).under(|base| base.quickack_subnet()),
    ])?;
    let quick = |seen| expect(seen).try_no_stall()?.try_segments_per_request(Side::Client, 2);
    let [plain, delays] = [quick(&plain)?, quick(&delays)?];
    Ok(Evidence::of([
        ("", plain),
        ("a server that asks for delays", delays),
        ("on the route to 127.0.0.0/8 alone", held_until_delayed_ack(&subnet)?),
    ]))
}

fn header_then_sendfile(stage: &Stage<'_>) -> Judged {
    let [corked, more, plain] = stage.play_all(
        ["cork W100 F1000 uncork R20", "M100 F1000 R20", "W100 F1000 R20"].map(|client| primed(client).requests(8)),
    )?;
    let merged = |seen| expect(seen).try_no_stall()?.try_segments_per_request(Side::Client, 1);
    let plain = expect(&plain).try_stalls(Pattern::Every)?.try_held(Side::Client, 1000)?;
    Ok(Evidence::of([
        ("cork", merged(&corked)?),
        ("MSG_MORE", merged(&more)?),
        ("neither", plain.try_segments_per_request(Side::Client, 2)?),
    ]))
}

fn bulk(stage: &Stage<'_>) -> Judged {
    let full = full_segment(stage)?;
    let bytes = if stage.is_twisted() { full - 1 } else { full };
    let scene = |options: &str| primed(&format!("[{options}mss=1000] W{bytes}×8 R20")).requests(8);
    let [nagle, nodelay] = stage.play_all([scene(""), scene("nodelay ")])?;
    let free = |seen| {
        expect(seen).try_no_stall()?.try_held_at_most(Side::Client, 0)?.try_segments_per_request(Side::Client, 8)
    };
    Ok(Evidence::of([("without TCP_NODELAY", free(&nagle)?), ("with it", free(&nodelay)?)]))
}

/// A fresh connection's segment is at most half the window (tcp_bound_to_half_wnd). There the body leaves as two of them,
/// the second alone draws no ACK, and kernels whose window grows slowly stall: no case of this rule.
fn large_body(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(primed("W1000 W70000 R20").requests(10))?;
    let because = "two segments' worth draws the ACK that lets the rest go; tcpi_data_segs_out tells how the body left";
    let holds = "no stall where header, one full segment and the rest leave as 3 segments";
    let judge = |request: &Request| {
        let segments = request.data_segments.client?;
        let saw = || format!("{segments} segments from the client, and a stall");
        (segments <= 3).then(|| if wait(&seen, request).is_none() { Ok(()) } else { Err(saw()) })
    };
    let evidence = Evidence::from(expect(&seen).try_each(Kind::Stall, holds, because, judge)?);
    let measured = format!("{} data segments in 10 requests", seen.sockets.client.data_segments.unwrap_or(0));
    Ok(Evidence { measured, ..evidence })
}

fn split_reply(stage: &Stage<'_>) -> Judged {
    let scene = |client: &str, server: &str| {
        let client = format!("C: [{client}quickack=0] W10 W10 quickack=0 R20");
        Scene::of(format!("{client} / S: [{server}quickack=0] R20 W10 W10 quickack=0")).requests(8)
    };
    let [neither, client, both] =
        stage.play_all([scene("", ""), scene("nodelay ", ""), scene("nodelay ", "nodelay ")])?;
    Ok(Evidence::of([
        ("neither", waits(&neither, &Side::BOTH)?),
        ("client", waits(&client, &[Side::Server])?),
        ("both", expect(&both).try_no_stall()?),
    ]))
}

/// Every request waits for one delayed ACK for each of these sides' second writes.
fn waits<'a>(seen: &'a Observation, sides: &[Side]) -> Result<Expect<'a>, Failure> {
    let seen = expect(seen).try_stalls(Pattern::Every)?.try_delayed_acks_per_stall(sides.len() as u32)?;
    sides.iter().try_fold(seen, |seen, side| seen.try_cause(*side, Rule::Nagle, Release::DelayedAck))
}

fn fast_requests(stage: &Stage<'_>) -> Judged {
    let threshold = stage.pingpong_threshold()?;
    // Further apart than a jiffy, so that older kernels count each reply too.
    let scene = |requests: u32| Scene::of("C: P12 W10 W10 R20 / S: R20 W20").requests(requests);
    let first = stage.play_all([threshold + 5; 10].map(scene))?;
    let evidence = Evidence::says(runs(&first, threshold)?, "");
    if stage.kernel().pingpong_threshold.is_none() {
        return Ok(evidence);
    }
    let three = scene(10).under(|base| base.sysctl("net.ipv4.tcp_pingpong_thresh", "3"));
    let raised = stage.play_all(std::array::from_fn::<_, 8, _>(|_| three.clone()))?;
    Ok(evidence.and(format!("net.ipv4.tcp_pingpong_thresh=3: {}", runs(&raised, 3)?)))
}

/// Counts the prompt replies as the kernel does and judges each request by them: it stalls where there were as many as the
/// threshold. One connection at least must show a stall after exactly so many.
fn runs(seen: &[Observation], threshold: u32) -> Result<String, Failure> {
    let because = "each prompt reply counts, and the delayed-ACK timer sets the count back";
    let mut shown = false;
    for seen in seen {
        let mut replies = Some(0);
        for request in &seen.requests {
            let stalls = wait(seen, request).is_some();
            if let Some(replies) = replies.filter(|_| !was_late(seen, request)) {
                if stalls != (replies >= threshold) {
                    let expected = format!("a stall after {threshold} prompt replies, and none before");
                    let saw = format!(
                        "request {} after {replies}: {}",
                        request.number,
                        if stalls { "a stall" } else { "none" }
                    );
                    return Err(Failure::plain(Kind::Pattern, expected, because, saw));
                }
                shown |= stalls && replies == threshold;
            }
            replies = counted(seen, request, if stalls { Some(0) } else { replies });
        }
    }
    if !shown {
        let expected = format!("a stall after {threshold} prompt replies");
        return Err(Failure::plain(Kind::Pattern, expected, because, "none"));
    }
    Ok(format!("{threshold} fast before the first stall, {} before each later one", threshold - 1))
}

/// The count after a request's reply; `None` where the reply may have come too late to count, or a timer may have fired that
/// nobody waited for.
fn counted(seen: &Observation, request: &Request, replies: Option<u32>) -> Option<u32> {
    let overtaken = wait(seen, request).is_none() && request.receivers.server.pingpong != Some(false);
    replies.filter(|_| replied_promptly(seen, request) && !overtaken).map(|replies| replies + 1)
}
