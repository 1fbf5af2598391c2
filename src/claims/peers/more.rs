//! `MSG_MORE` and `TCP_CORK`: what they keep back, and what ends it.

use crate::claims::scenes::{full_segment, primed, without_more};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Expected, Scene, Stage, Twist};
use crate::exchange::{Opt, Side};
use crate::expect::{Kind, expect};
use crate::observation::{Order, Release, Request, Rule};
use crate::verdict::{Pattern, was_late};

const SECTION: &str = "MSG_MORE and TCP_CORK";

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "msg-more-beats-nodelay",
        document: Document::Beyond,
        section: SECTION,
        says: "a lone write with MSG_MORE is kept back on a TCP_NODELAY socket too, until the persist timer sends it",
        expected: Expected::Holds,
        source: "tcp_push (nonagle replaced by TCP_NAGLE_CORK); packetdrill nagle/sendmsg_msg_more",
        needs: &[],
        check: |stage| {
            let seen = stage.play(Scene::of("C: [nodelay] M40 R20 / S: R40 W20").requests(3))?;
            let seen = expect(&seen).try_stalls(Pattern::Every)?.try_held_200ms()?;
            Ok(seen.try_held(Side::Client, 40)?.try_cause(Side::Client, Rule::More, Release::PersistTimer)?.into())
        },
        control: Control { breaks: "the flag is left out", twist: Twist::Instead("C: [nodelay] W40 R20 / S: R40 W20") },
    },
    Claim {
        id: "msg-more-run-leaves-as-one-segment",
        document: Document::Beyond,
        section: SECTION,
        says: "writes with MSG_MORE leave as one segment with the first write that does not carry it",
        expected: Expected::Holds,
        source: "tcp_push, tcp_sendmsg_locked; packetdrill nagle/sendmsg_msg_more",
        needs: &[],
        check: |stage| {
            let seen = stage.play(Scene::of("C: M100 M160 M495 W5 R20 / S: R760 W20").requests(10))?;
            let seen = expect(&seen).try_no_stall()?.try_released(Side::Client, Release::OwnStep)?;
            Ok(seen.try_segments_per_request(Side::Client, 1)?.into())
        },
        control: Control {
            breaks: "the flag is left out",
            twist: Twist::Instead("C: W100 W160 W495 W5 R20 / S: R760 W20"),
        },
    },
    Claim {
        id: "msg-more-bytes-arrive-with-the-next-write",
        document: Document::Beyond,
        section: SECTION,
        says: "with a thread for each side, bytes with MSG_MORE leave together with the plain byte that follows",
        expected: Expected::Holds,
        source: "tcp_push; LTP send02",
        needs: &[],
        check: |stage| {
            let seen = stage.play(Scene::of("C: M16 W1 R1 / S: R17 W1").requests(50).order(Order::Turns))?;
            Ok(expect(&seen).try_no_stall()?.try_segments_per_request(Side::Client, 1)?.into())
        },
        control: Control { breaks: "the flag is left out", twist: Twist::Instead("C: W16 W1 R1 / S: R17 W1") },
    },
    Claim {
        id: "msg-more-over-one-mss-sends-the-full-part",
        document: Document::Beyond,
        section: SECTION,
        says: "of a write with MSG_MORE the full segments leave at once, and the next write joins what is left",
        expected: Expected::Holds,
        source: "tcp_mss_split_point, tcp_nagle_test; packetdrill nagle/sendmsg_msg_more",
        needs: &[],
        check: full_part_leaves,
        control: Control { breaks: "the flag is left out", twist: Twist::Exchange(without_more) },
    },
    Claim {
        id: "msg-more-tail-leaves-on-the-next-ack",
        document: Document::Beyond,
        section: SECTION,
        says: "what MSG_MORE keeps back behind a full segment leaves on that segment's ACK, not by a timer of its own",
        expected: Expected::Holds,
        source: "tcp_data_snd_check (nonagle of the socket, not of the call); packetdrill nagle/sendmsg_msg_more",
        needs: &[],
        check: |stage| {
            let full = full_segment(stage)?;
            let seen = stage.play(primed(&format!("[mss=1000] M{} R20", full + 100)).requests(6))?;
            let seen = expect(&seen).try_stalls(Pattern::Every)?.try_delayed_acks_per_stall(1)?;
            Ok(seen.try_held(Side::Client, 100)?.try_cause(Side::Client, Rule::More, Release::DelayedAck)?.into())
        },
        control: Control {
            breaks: "TCP_CORK, which an ACK does not end",
            twist: Twist::Exchange(|exchange| exchange.with_option(&[Side::Client], Opt::Cork, 1)),
        },
    },
    Claim {
        id: "msg-more-piles-up-behind-flight",
        document: Document::Beyond,
        section: SECTION,
        says: "tiny writes with MSG_MORE behind a segment in flight pile up and leave as one segment on its ACK",
        expected: Expected::Holds,
        source: "tcp_push, tcp_data_snd_check; packetdrill nagle/sendmsg_msg_more",
        needs: &[],
        check: |stage| {
            let seen = stage.play(primed("W10 M1 M2 M3 M4 R20").requests(8))?;
            let seen = expect(&seen).try_stalls(Pattern::Every)?.try_delayed_acks_per_stall(1)?;
            let seen = seen.try_cause(Side::Client, Rule::More, Release::DelayedAck)?;
            Ok(seen.try_held(Side::Client, 10)?.try_segments_per_request(Side::Client, 2)?.into())
        },
        control: Control {
            breaks: "nothing in flight, so that no ACK comes",
            twist: Twist::Instead("C: M10 M1 M2 M3 M4 R20 / S: [quickack=0] R20 W20 quickack=0"),
        },
    },
    Claim {
        id: "nodelay-flushes-msg-more",
        document: Document::Beyond,
        section: SECTION,
        says: "setting TCP_NODELAY sends what MSG_MORE kept back, as one segment",
        expected: Expected::Holds,
        source: "__tcp_sock_set_nodelay (TCP_NAGLE_PUSH); packetdrill nagle/sockopt_cork_nodelay",
        needs: &[],
        check: |stage| flushed_by_nodelay(stage, "C: M40 M40 nodelay nodelay=0 R20 / S: R80 W20"),
        control: Control {
            breaks: "the option is set to 0",
            twist: Twist::Instead("C: M40 M40 nodelay=0 R20 / S: R80 W20"),
        },
    },
    Claim {
        id: "nodelay-while-corked-flushes",
        document: Document::Beyond,
        section: SECTION,
        says: "setting TCP_NODELAY on a corked socket sends what is pending, and the cork stays",
        expected: Expected::Holds,
        source: "__tcp_sock_set_nodelay (TCP_NAGLE_PUSH); packetdrill nagle/sockopt_cork_nodelay",
        needs: &[],
        check: |stage| flushed_by_nodelay(stage, "C: [cork] W40 W40 nodelay nodelay=0 R20 / S: R80 W20"),
        control: Control {
            breaks: "the option is set to 0",
            twist: Twist::Instead("C: [cork] W40 W40 nodelay=0 R20 / S: R80 W20"),
        },
    },
];

fn full_part_leaves(stage: &Stage<'_>) -> Judged {
    let full = full_segment(stage)?;
    let seen = stage.play(primed(&format!("[mss=1000] M{} W50 R20", full + 100)).requests(8))?;
    let holds = "100 bytes past the full segment held after the write with MSG_MORE, none after the next";
    let judge = |request: &Request| {
        let client = request.writes.iter().filter(|write| write.socket == Side::Client.into());
        let held: Vec<_> = client.map(|write| write.held).collect();
        let fits = held == [Some(100), Some(0)];
        (fits || !was_late(&seen, request)).then(|| if fits { Ok(()) } else { Err(format!("held {held:?}")) })
    };
    let because = "bytes written and not yet sent when a write returns (SIOCOUTQNSD)";
    let seen = expect(&seen).try_no_stall()?.try_each(Kind::Held, holds, because, judge)?;
    Ok(seen.try_segments_per_request(Side::Client, 2)?.into())
}

/// Two writes are held in each request, leave when the option is set, and share a segment.
fn flushed_by_nodelay(stage: &Stage<'_>, exchange: &str) -> Judged {
    let seen = stage.play(Scene::of(exchange).requests(4))?;
    let judge = |request: &Request| {
        let most = request.writes.iter().filter_map(|write| write.held).max();
        let fits = most == Some(80);
        (fits || !was_late(&seen, request)).then(|| if fits { Ok(()) } else { Err(format!("held {most:?}")) })
    };
    let because = "bytes written and not yet sent when a write returns (SIOCOUTQNSD)";
    let seen = expect(&seen).try_no_stall()?.try_each(Kind::Held, "80 bytes held in each request", because, judge)?;
    Ok(seen.try_released(Side::Client, Release::OwnStep)?.try_segments_per_request(Side::Client, 1)?.into())
}
