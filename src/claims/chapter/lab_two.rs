//! Lab 2: the evidence that `ss` shows.

use super::ss::{self, Printed};
use crate::claims::scenes::{QUICKACK_EVERY_READ, primed};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Stage};
use crate::exchange::Side;
use crate::expect::{Kind, expect};
use crate::observation::{Listed, Observation, PendingTimer, Request, milliseconds};
use crate::verdict::Pattern;

const SECTION: &str = "lab 2";
const REQUESTS: u32 = 8;

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "stall-visible-on-client",
        document: Document::Chapter,
        section: SECTION,
        says: "during a stall the client's socket shows unacked:1, notsent:10 and in request 4 bytes_sent 70 of 80 written",
        expected: Expected::Holds,
        source: "inet_sk_diag_fill, tcp_get_info; ss(8)",
        needs: &[Need::SocketDiag],
        check: |stage| {
            let seen = stage.play(primed("W10 W10 R20").requests(REQUESTS).listed())?;
            let holds =
                "client listed with unacked:1, notsent:10, bytes_sent 20n−10 in request n, send queue 20, timer on";
            let judge = |request: &Request, listed: &Listed| {
                let client = &listed.state;
                let sent = u64::from(request.number) * 20 - 10;
                (client.unacked, client.not_sent, client.bytes_sent) == (Some(1), Some(10), Some(sent))
                    && (listed.send_queue, listed.timer) == (20, PendingTimer::Retransmit)
            };
            let evidence = shown(&seen, Side::Client, holds, judge)?;
            let prints = |number: u64, ss: &Printed| {
                let sent = ss.number("bytes_sent").is_none_or(|sent| sent == (number * 20 - 10) as f64);
                let held = (ss.number("unacked"), ss.number("notsent")) == (Some(1.0), Some(10.0));
                sent && held && ss.send_queue() == Some(20)
            };
            Ok(printed(evidence, ss::agrees(stage, Side::Client, prints)?))
        },
        control: Control { breaks: "no stall", twist: QUICKACK_EVERY_READ },
    },
    Claim {
        id: "stall-visible-on-server",
        document: Document::Chapter,
        section: SECTION,
        says: "the server's socket shows ato:40 and has nothing to send",
        expected: Expected::Holds,
        source: "inet_sk_diag_fill, tcp_get_info; ss(8)",
        needs: &[Need::SocketDiag],
        check: |stage| {
            let seen = stage.play(primed("W10 W10 R20").requests(REQUESTS).listed())?;
            let ato = seen.environment.delayed_ack_us;
            let holds =
                format!("server listed with ato {} or more, nothing to send, nothing unread", milliseconds(ato));
            let judge = |_: &Request, listed: &Listed| {
                let server = &listed.state;
                // A gap between two segments that a late thread made raises it; nothing lowers it.
                let delays = server.ato_us.is_some_and(|us| u64::from(us) + seen.environment.jiffy_us > ato);
                let idle = (server.unacked, server.not_sent, listed.send_queue) == (Some(0), Some(0), 0);
                let timer = matches!(listed.timer, PendingTimer::None | PendingTimer::DelayedAck);
                delays && idle && timer && listed.receive_queue == 0
            };
            let evidence = shown(&seen, Side::Server, &holds, judge)?;
            let least = (ato - seen.environment.jiffy_us) as f64 / 1000.0;
            let prints = |_: u64, ss: &Printed| {
                let idle = (ss.number("unacked"), ss.number("notsent"), ss.send_queue()) == (None, None, Some(0));
                idle && ss.number("ato").is_some_and(|ms| ms > least)
            };
            Ok(printed(evidence, ss::agrees(stage, Side::Server, prints)?))
        },
        control: Control { breaks: "no stall", twist: QUICKACK_EVERY_READ },
    },
    Claim {
        id: "held-bytes-are-not-sent-bytes",
        document: Document::Chapter,
        section: SECTION,
        says: "the body counts in bytes_sent only once it has left",
        expected: Expected::Holds,
        source: "__tcp_transmit_skb (bytes_sent); tcp_get_info",
        needs: &[],
        check: held_bytes,
        control: Control { breaks: "no stall", twist: QUICKACK_EVERY_READ },
    },
];

/// What `sock_diag` lists of one side's socket in every stall.
fn shown(seen: &Observation, side: Side, holds: &str, judge: impl Fn(&Request, &Listed) -> bool) -> Judged {
    let because = "one sock_diag dump while neither side can go on, as ss takes it";
    let judge = |request: &Request| {
        let listed = request.listed?;
        // Nothing held any more: looked at too late to see it.
        if listed.client.state.not_sent? == 0 {
            return None;
        }
        let fits = judge(request, &listed[side]);
        Some(if fits { Ok(()) } else { Err(format!("{:?}", listed[side])) })
    };
    Ok(expect(seen).try_stalls(Pattern::Every)?.try_each(Kind::Answer, holds, because, judge)?.into())
}

/// What `ss` prints is no part of what a report says of a kernel: not every machine has it.
fn printed(evidence: Evidence, ss: Option<String>) -> Evidence {
    let Some(ss) = ss else { return evidence };
    let measured = format!("{}; {ss}", evidence.measured);
    evidence.measuring(measured)
}

fn held_bytes(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(primed("W10 W10 R20").requests(REQUESTS))?;
    let because = "tcpi_bytes_sent and tcpi_notsent_bytes while neither side can go on, and after the last request";
    let holds = "bytes_sent and notsent add up to what was written, the body in notsent only";
    let written = |requests: u32| u64::from(requests) * 20;
    let after = seen.sockets.client.after;
    let judge = |request: &Request| {
        let client = request.blocked?.client;
        let (sent, held) = (client.bytes_sent?, client.not_sent?);
        if held == 0 {
            return None;
        }
        let meanwhile = held == 10 && sent + u64::from(held) == written(request.number);
        let at_last = (after.bytes_sent, after.not_sent) == (Some(written(REQUESTS)), Some(0));
        let saw =
            || format!("sent {sent}, held {held}; at last sent {:?}, held {:?}", after.bytes_sent, after.not_sent);
        Some(if meanwhile && at_last { Ok(()) } else { Err(saw()) })
    };
    Ok(expect(&seen).try_stalls(Pattern::Every)?.try_each(Kind::Answer, holds, because, judge)?.into())
}
