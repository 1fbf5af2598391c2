//! What the article's readers ask.

use super::{answer, stall_or_not};
use crate::claims::scene::parsed;
use crate::claims::scenes::{SPLIT_REPLY, SPLIT_REQUEST, full_segment, primed};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::exchange::{Opt, Side, Step};
use crate::expect::expect;
use crate::lab::Lab;
use crate::observation::{Observation, Release};
use crate::sys::diag::{self, DiagSocket, Family, INET_DIAG_INFO};
use crate::sys::options::{self, SocketOption};
use socket2::Socket;
use std::io;

const SECTION: &str = "questions";

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "nodelay-works-mid-connection",
        document: Document::Article,
        section: SECTION,
        says: "TCP_NODELAY can be set on an open connection and acts on the next write",
        expected: Expected::Holds,
        source: "__tcp_sock_set_nodelay; tcp(7) TCP_NODELAY",
        needs: &[],
        check: |stage| {
            let seen = stage.play(primed("W10 nodelay W10 nodelay=0 R20").requests(10))?;
            let seen = expect(&seen).try_no_stall()?.try_held_at_most(Side::Client, 0)?;
            Ok(seen.try_segments_per_request(Side::Client, 2)?.into())
        },
        control: Control { breaks: "the option is left out", twist: Twist::Instead(SPLIT_REQUEST) },
    },
    Claim {
        id: "nodelay-leaves-held-data",
        document: Document::Article,
        section: SECTION,
        says: "data that Nagle held when TCP_NODELAY is set leaves as it would have without",
        expected: Expected::Refuted("setting the option sends what is held there and then"),
        source: "__tcp_sock_set_nodelay (TCP_NAGLE_PUSH, tcp_push_pending_frames)",
        needs: &[],
        check: |stage| {
            let seen = stage.play(primed("W10 W10 nodelay nodelay=0 R20").requests(10))?;
            let seen = expect(&seen).try_no_stall()?.try_released(Side::Client, Release::OwnStep)?;
            Ok(seen.try_segments_per_request(Side::Client, 2)?.into())
        },
        control: Control {
            breaks: "the option is set to 0",
            twist: Twist::Instead("C: W10 W10 nodelay=0 R20 / S: [quickack=0] R20 W20 quickack=0"),
        },
    },
    Claim {
        id: "nodelay-is-per-sender",
        document: Document::Article,
        section: SECTION,
        says: "with unlike settings on the two ends, each affects only what its own end sends",
        expected: Expected::Holds,
        source: "tcp_nagle_test (the sender's own nonagle)",
        needs: &[],
        check: |stage| {
            let scene = |exchange: &str, sides: &[Side]| {
                let exchange = parsed(exchange).with_option(sides, Opt::NoDelay, 1);
                Scene::of(exchange.to_string()).requests(6)
            };
            stall_or_not(
                stage,
                [
                    ("client splits, neither has it", scene(SPLIT_REQUEST, &[]), true),
                    ("client splits, server has it", scene(SPLIT_REQUEST, &[Side::Server]), true),
                    ("client splits, client has it", scene(SPLIT_REQUEST, &[Side::Client]), false),
                    ("client splits, both have it", scene(SPLIT_REQUEST, &Side::BOTH), false),
                    ("server splits, neither has it", scene(SPLIT_REPLY, &[]), true),
                    ("server splits, client has it", scene(SPLIT_REPLY, &[Side::Client]), true),
                    ("server splits, server has it", scene(SPLIT_REPLY, &[Side::Server]), false),
                    ("server splits, both have it", scene(SPLIT_REPLY, &Side::BOTH), false),
                ],
            )
        },
        control: Control {
            breaks: "both ends always have it",
            twist: Twist::Exchange(|exchange| exchange.with_option(&Side::BOTH, Opt::NoDelay, 1)),
        },
    },
    Claim {
        id: "bulk-unhurt-by-nodelay",
        document: Document::Article,
        section: SECTION,
        says: "TCP_NODELAY costs a bulk transfer nothing that could be measured",
        expected: Expected::Holds,
        source: "tcp_nagle_test (skb->len < mss_now)",
        needs: &[],
        check: bulk_unhurt,
        control: Control {
            breaks: "the same bytes in pieces of half a segment",
            twist: Twist::Exchange(|mut exchange| {
                let halves = |step: &Step| match step {
                    Step::Repeat(steps, times) => {
                        Step::Repeat(vec![Step::Write(steps[0].written() as u32 / 16)], times * 16)
                    }
                    step => step.clone(),
                };
                exchange.client.steps = exchange.client.steps.iter().map(halves).collect();
                exchange
            }),
        },
    },
    Claim {
        id: "ss-does-not-show-nodelay",
        document: Document::Article,
        section: "verify the setting",
        says: "ss does not show whether TCP_NODELAY is set",
        expected: Expected::Holds,
        source: "inet_sk_diag_fill, tcp_get_info (neither reports nonagle); sock_diag(7)",
        needs: &[Need::SocketDiag],
        check: ss_does_not_show,
        control: Control { breaks: "SO_RCVBUF set instead, which ss shows in skmem", twist: Twist::Check },
    },
];

fn bulk_unhurt(stage: &Stage<'_>) -> Judged {
    const REQUESTS: u32 = 20;
    let full = full_segment(stage)?;
    // Less than the first receive window, so that no window ends inside a segment.
    let exchange =
        |option: &str| format!("C: [mss=1000 {option}] W{}×4 R1 / S: [mss=1000] R{} W1", 8 * full, 32 * full);
    let [nagle, nodelay] =
        stage.play_all([exchange(""), exchange("nodelay")].map(|exchange| Scene::of(exchange).requests(REQUESTS)))?;
    let full_segments = |seen| expect(seen).try_no_stall()?.try_segments_per_request(Side::Client, 32);
    let rate = |seen: &Observation| f64::from(REQUESTS * 32 * full) / seen.elapsed_us.max(1) as f64;
    let ratio = rate(&nodelay) / rate(&nagle);
    let evidence = Evidence::of([("Nagle", full_segments(&nagle)?), ("TCP_NODELAY", full_segments(&nodelay)?)]);
    Ok(evidence.measuring(format!("throughput with TCP_NODELAY {ratio:.2} times that with Nagle")))
}

/// Everything `sock_diag` says of a quiet socket, before and after an option is set.
fn ss_does_not_show(stage: &Stage<'_>) -> Judged {
    let options: &[(SocketOption, i32)] = if stage.is_twisted() {
        &[(SocketOption::ReceiveBuffer, 10_000)]
    } else {
        &[(SocketOption::NoDelay, 1), (SocketOption::Cork, 1)]
    };
    for (option, value) in options {
        let [before, after] = stage.ask(|lab| {
            let pair = lab.pair(&[])?;
            let before = shown(lab, &pair.client)?;
            options::set(&pair.client, *option, *value)?;
            Ok([before, shown(lab, &pair.client)?])
        })?;
        if let Some(attribute) = difference(&before, &after) {
            let because = "inet_sk_diag_fill and tcp_get_info report neither option";
            return Err(answer(format!("the same answer with and without {option}"), because, attribute));
        }
    }
    Ok(Evidence::says("sock_diag answers the same bytes with TCP_NODELAY or TCP_CORK set and without", ""))
}

/// What `sock_diag` says of a socket, without what moves by itself.
fn shown(lab: &Lab, socket: &Socket) -> io::Result<DiagSocket> {
    let (local, remote) = (socket.local_addr()?.as_socket(), socket.peer_addr()?.as_socket());
    let family = if lab.address().is_ipv4() { Family::V4 } else { Family::V6 };
    // The list of a shared namespace may change while it is read.
    let mut listed = diag::sockets(family);
    for _ in 0..10 {
        match listed {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => listed = diag::sockets(family),
            _ => break,
        }
    }
    let found = listed?.into_iter().find(|found| (Some(found.local), Some(found.remote)) == (local, remote));
    let mut found = found.ok_or(io::ErrorKind::NotFound)?;
    for (number, bytes) in &mut found.attributes {
        if *number == INET_DIAG_INFO {
            // tcpi_last_data_sent to tcpi_last_ack_recv count the milliseconds that pass meanwhile.
            bytes.iter_mut().skip(44).take(16).for_each(|byte| *byte = 0);
        }
    }
    Ok(found)
}

/// The first part in which two answers differ.
fn difference(before: &DiagSocket, after: &DiagSocket) -> Option<String> {
    if before.header != after.header {
        return Some("struct inet_diag_msg differs".to_owned());
    }
    if before.attributes.len() != after.attributes.len() {
        return Some("other attributes".to_owned());
    }
    let mut both = before.attributes.iter().zip(&after.attributes);
    both.find(|(before, after)| before != after).map(|((number, _), _)| format!("attribute {number} differs"))
}
