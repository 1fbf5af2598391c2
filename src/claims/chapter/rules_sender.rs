//! The rules of the sender: what Nagle's algorithm holds and what it does not.

use crate::claims::scenes::{SPLIT_REQUEST, full_segment, held_until_delayed_ack, primed};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Scene, Stage, Twist};
use crate::exchange::Side;
use crate::expect::{Kind, expect};
use crate::observation::{Release, Request, Socket};
use crate::verdict::{Pattern, was_late};

const SECTION: &str = "the rules";

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "first-write-leaves-at-once",
        document: Document::Chapter,
        section: SECTION,
        says: "with nothing unacknowledged a small write leaves at once",
        expected: Expected::Holds,
        source: "tcp_nagle_check (packets_out is 0); RFC 896",
        needs: &[],
        check: first_write,
        control: Control {
            breaks: "a small segment is unacknowledged when the second one is written",
            twist: Twist::Instead(SPLIT_REQUEST),
        },
    },
    Claim {
        id: "second-small-write-is-held",
        document: Document::Chapter,
        section: SECTION,
        says: "a second small write waits for the ACK of the first one",
        expected: Expected::Holds,
        source: "tcp_nagle_check, tcp_minshall_check; RFC 9293 §3.7.4",
        needs: &[],
        check: second_write,
        control: Control {
            breaks: "TCP_NODELAY on the sender",
            twist: Twist::Instead("C: [nodelay] W10 W10 R20 / S: [quickack=0] R20 W20 quickack=0"),
        },
    },
    Claim {
        id: "stall-needs-split-message",
        document: Document::Chapter,
        section: SECTION,
        says: "first condition of the stall: a message in several writes; in one write there is none",
        expected: Expected::Holds,
        source: "tcp_nagle_check (packets_out is 0 at each message)",
        needs: &[],
        check: |stage| {
            let seen = stage.play(primed("W20 R20").requests(12))?;
            Ok(expect(&seen)
                .try_no_stall()?
                .try_held_at_most(Side::Client, 0)?
                .try_segments_per_request(Side::Client, 1)?
                .into())
        },
        control: Control { breaks: "the message in two writes", twist: Twist::Instead(SPLIT_REQUEST) },
    },
    Claim {
        id: "stall-needs-waiting-receiver",
        document: Document::Chapter,
        section: SECTION,
        says: "second condition: a receiver that says nothing until it has the whole message; one that answers each part ends it",
        expected: Expected::Holds,
        source: "__tcp_transmit_skb (every data segment carries the ACK)",
        needs: &[],
        check: |stage| {
            let seen =
                stage.play(Scene::of("C: W10 W10 R20 / S: [quickack=0] R10 W10 R10 W10 quickack=0").requests(12))?;
            Ok(expect(&seen).try_no_stall()?.try_released(Side::Client, Release::Reply)?.into())
        },
        control: Control { breaks: "it answers the whole message only", twist: Twist::Instead(SPLIT_REQUEST) },
    },
    Claim {
        id: "stall-needs-waiting-sender",
        document: Document::Chapter,
        section: SECTION,
        says: "third condition: a sender that stops short of a full segment; one that keeps writing fills it, and it leaves unacknowledged or not",
        expected: Expected::Holds,
        source: "tcp_nagle_test, tcp_nagle_check (only partial segments are held)",
        needs: &[],
        check: waiting_sender,
        control: Control {
            breaks: "it stops short of a full segment",
            twist: Twist::Instead("C: [mss=1000] W10 W100×8 R20 / S: [quickack=0] R810 W20 quickack=0"),
        },
    },
    Claim {
        id: "minshall-small-behind-full",
        document: Document::Chapter,
        section: SECTION,
        says: "Linux holds a small segment behind an unacknowledged small one only; behind a full one it leaves",
        expected: Expected::Holds,
        source: "tcp_minshall_check, tcp_minshall_update; RFC 9293 appendix A.3",
        needs: &[],
        check: minshall,
        control: Control { breaks: "the first segment is one byte short of full", twist: Twist::Check },
    },
];

fn first_write(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(primed("W10 R20").requests(12))?;
    let because = "SIOCOUTQNSD and tcpi_data_segs_out as each write returns";
    let holds = "every write has left in a segment of its own when the call returns";
    let before = seen.sockets.client.before.data_segments();
    let judge = |request: &Request| {
        let sent = request.writes.iter().filter(|write| write.socket == Socket::Client);
        // One segment a write, from the connection's first request on.
        let earlier = seen.requests[..request.number as usize - 1].iter().flat_map(|request| &request.writes);
        let earlier = earlier.filter(|write| write.socket == Socket::Client).count();
        let wrong = sent.zip(earlier + 1..).find(|(write, nth)| {
            write.held != Some(0)
                || write.data_segments.zip(before).is_none_or(|(now, before)| (now - before) as usize != *nth)
        });
        Some(wrong.map_or(Ok(()), |(write, nth)| {
            Err(format!("write {nth} left {:?} bytes held, {:?} segments sent", write.held, write.data_segments))
        }))
    };
    Ok(expect(&seen).try_each(Kind::Held, holds, because, judge)?.into())
}

fn second_write(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(primed("W10 W10 R20").requests(10))?;
    let because = "tcpi_unacked, tcpi_notsent_bytes, tcpi_snd_cwnd and tcpi_snd_wnd while neither side can go on";
    let holds = "meanwhile 1 segment unacknowledged, 10 bytes not sent, congestion and receive window open";
    let judge = |request: &Request| {
        let client = request.blocked?.client;
        // Nothing held any more: looked at too late to see it.
        if client.not_sent? == 0 {
            return None;
        }
        let open = client.cwnd? > 1 && client.send_window.is_none_or(|window| window >= 20);
        let fits = (client.unacked, client.not_sent, open) == (Some(1), Some(10), true);
        Some(if fits { Ok(()) } else { Err(format!("{client:?}")) })
    };
    Ok(held_until_delayed_ack(&seen)?.try_each(Kind::Held, holds, because, judge)?.into())
}

fn waiting_sender(stage: &Stage<'_>) -> Judged {
    let full = full_segment(stage)?;
    let seen = stage.play(primed("[mss=1000] W10 W100×20 R20").requests(8))?;
    let because = "bytes held as each write returns (SIOCOUTQNSD); nothing acknowledges the first write but the timer";
    let holds = "what Nagle holds first leaves with the write that fills a segment";
    let judge = |request: &Request| {
        let late = was_late(&seen, request) || request.delayed_acks.is_some_and(|fired| fired > 0);
        let writes: Vec<_> = request.writes.iter().filter(|write| write.socket == Socket::Client).collect();
        let held = |i: usize| writes[i].held.unwrap_or(0);
        let left = (1..writes.len()).find(|&i| held(i) < held(i - 1) + writes[i].bytes);
        let fits = left.is_some_and(|i| held(i - 1) + writes[i].bytes >= full && held(i - 1) < full);
        let saw = || format!("held {:?}", (0..writes.len()).map(held).collect::<Vec<_>>());
        (!late).then(|| if fits { Ok(()) } else { Err(saw()) })
    };
    let seen = expect(&seen).try_no_stall()?;
    Ok(seen.try_each(Kind::Held, holds, because, judge)?.into())
}

fn minshall(stage: &Stage<'_>) -> Judged {
    let full = full_segment(stage)?;
    let behind = |first: u32| primed(&format!("[mss=1000] W{first} W10 R20")).requests(8);
    let first = if stage.is_twisted() { full - 1 } else { full };
    let [full_first, small_first] = stage.play_all([behind(first), behind(full - 1)])?;
    let behind_full = expect(&full_first).try_no_stall()?.try_held_at_most(Side::Client, 0)?;
    let behind_small = expect(&small_first).try_stalls(Pattern::Every)?.try_held(Side::Client, 10)?;
    Ok(Evidence::of([("behind a full segment", behind_full), ("behind one a byte short", behind_small)]))
}
