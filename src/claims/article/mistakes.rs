//! What the article calls common mistakes.

use super::answer;
use crate::claims::scenes::SPLIT_REPLY;
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Scene, Stage, Twist};
use crate::exchange::{Exchange, Side};
use crate::expect::{Failure, expect};
use crate::lab::Lab;
use crate::sys::options::{self, SocketOption};
use crate::sys::tcp_info::TcpInfo;
use crate::sys::transfer::{self, Flags};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

const SECTION: &str = "common mistakes";

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "listener-nodelay-is-a-mistake",
        document: Document::Article,
        section: SECTION,
        says: "TCP_NODELAY on the listening socket does not reach the accepted ones",
        expected: Expected::Refuted(
            "accepted sockets inherit it, as they do TCP_CORK; TCP_QUICKACK=0 they inherit only where it was set after listen",
        ),
        source: "tcp_create_openreq_child; inet_csk_listen_start (icsk_ack is cleared)",
        needs: &[],
        check: listener_options_are_inherited,
        control: Control { breaks: "set on the accepted socket instead", twist: Twist::Exchange(set_after_accept) },
    },
    Claim {
        id: "delayed-acks-survive-nodelay",
        document: Document::Article,
        section: SECTION,
        says: "ACKs are still delayed with TCP_NODELAY",
        expected: Expected::Holds,
        source: "__tcp_ack_snd_check, tcp_delack_timer_handler (neither looks at nonagle)",
        needs: &[],
        check: |stage| {
            let slow = "C: [nodelay] W10 R10 / S: [nodelay quickack=0] R10 P60 quickack=0 W10";
            let seen = stage.play(Scene::of(slow).requests(6))?;
            let seen = expect(&seen).try_acks_late(Side::Server)?.try_no_stall()?.try_held_at_most(Side::Client, 0)?;
            Ok(seen.into())
        },
        control: Control {
            breaks: "TCP_QUICKACK before every read",
            twist: Twist::Instead("C: [nodelay] W10 R10 / S: quickack R10 P60 W10"),
        },
    },
    Claim {
        id: "nodelay-fails-on-udp",
        document: Document::Article,
        section: SECTION,
        says: "setting TCP_NODELAY fails on some sockets, such as UDP's",
        expected: Expected::Holds,
        source: "udp_setsockopt (ip_setsockopt: ENOPROTOOPT), sock_no_setsockopt (EOPNOTSUPP); setsockopt(2)",
        needs: &[],
        check: fails_on_other_sockets,
        control: Control { breaks: "a TCP socket", twist: Twist::Check },
    },
    Claim {
        id: "nodelay-keeps-send-buffers",
        document: Document::Article,
        section: SECTION,
        says: "TCP_NODELAY turns off Nagle, not the send buffer",
        expected: Expected::Holds,
        source: "tcp_sendmsg_locked, tcp_snd_wnd_test; tcp(7) TCP_NODELAY",
        needs: &[],
        check: |stage| {
            let unread = "C: [nodelay] W20000×5 R1 / S: bound[rcvbuf=8192] R100000 W1";
            let seen = stage.play(Scene::of(unread).requests(2))?;
            Ok(expect(&seen).try_held_at_least(Side::Client, 40_000)?.into())
        },
        control: Control {
            breaks: "a peer with room for all of it",
            twist: Twist::Instead("C: [nodelay] W200×5 R1 / S: R1000 W1"),
        },
    },
    Claim {
        id: "msg-nodelay-exists",
        document: Document::Article,
        section: SECTION,
        says: "MSG_NODELAY at sendmsg may be needed",
        expected: Expected::Refuted(
            "there is no such flag: none of the 32 bits lets held bytes go, save MSG_OOB, which makes a byte urgent; \
             setting the option does",
        ),
        source: "tcp_sendmsg_locked, tcp_push (MSG_MORE alone is looked at); send(2)",
        needs: &[],
        check: no_flag_flushes,
        control: Control { breaks: "TCP_NODELAY set before the flagged send", twist: Twist::Check },
    },
];

/// The options of a listening socket, on the accepted socket that nobody has touched yet.
fn listener_options_are_inherited(stage: &Stage<'_>) -> Judged {
    let from = |group: &str| SPLIT_REPLY.replace("S: ", &format!("S: {group} "));
    let [nodelay, bound_nodelay, cork, bound_cork, quickack, bound_quickack] = stage.play_all([
        Scene::of(from("listening[nodelay]")).requests(4),
        Scene::of(from("bound[nodelay]")).requests(4),
        Scene::of("C: / S: listening[cork]"),
        Scene::of("C: / S: bound[cork]"),
        Scene::of("C: / S: listening[quickack=0]"),
        Scene::of("C: / S: bound[quickack=0]"),
    ])?;
    for (what, seen, expected) in [
        ("TCP_NODELAY set after listen", nodelay.sockets.server.nodelay, true),
        ("TCP_NODELAY set before listen", bound_nodelay.sockets.server.nodelay, true),
        ("TCP_CORK set after listen", cork.sockets.server.cork, true),
        ("TCP_CORK set before listen", bound_cork.sockets.server.cork, true),
        ("TCP_QUICKACK=0 set after listen", quickack.sockets.server.quickack, false),
        ("TCP_QUICKACK=0 set before listen", bound_quickack.sockets.server.quickack, true),
    ] {
        if seen != Some(expected) {
            let expected = format!("{what}: the accepted socket reads {}", u8::from(expected));
            let because = "an accepted socket starts as a copy of its listener (tcp_create_openreq_child)";
            return Err(answer(expected, because, format!("{seen:?}")));
        }
    }
    let acts = |seen| expect(seen).try_no_stall()?.try_held_at_most(Side::Server, 0);
    let evidence = Evidence::of([("set after listen", acts(&nodelay)?), ("set before listen", acts(&bound_nodelay)?)]);
    Ok(evidence.and("accepted sockets inherit TCP_NODELAY and TCP_CORK either way, TCP_QUICKACK=0 after listen only"))
}

/// The exchange with the listener's options set on the accepted socket, where what is inherited has been read already.
fn set_after_accept(mut exchange: Exchange) -> Exchange {
    let server = &mut exchange.server;
    for settings in [std::mem::take(&mut server.bound), std::mem::take(&mut server.listening)] {
        server.opened.extend(settings);
    }
    exchange
}

/// How the kernel refuses `TCP_NODELAY` on a socket that is not TCP's.
pub(in crate::claims) fn refusal(what: &str, socket: impl AsFd) -> Result<&'static str, Failure> {
    let refused = match options::set(socket, SocketOption::NoDelay, 1) {
        Err(error) => crate::sys::no_such_option(&error).ok_or_else(|| error.to_string()),
        Ok(()) => Err("it was set".to_owned()),
    };
    let because = "TCP_NODELAY is an option of TCP sockets (setsockopt(2): ENOPROTOOPT, EOPNOTSUPP)";
    refused.map_err(|saw| answer(format!("TCP_NODELAY refused on a {what}"), because, saw))
}

fn fails_on_other_sockets(stage: &Stage<'_>) -> Judged {
    if stage.is_twisted() {
        return refusal("UDP socket", stage.ask(|lab| lab.pair(&[]))?.client).map(|name| Evidence::says(name, ""));
    }
    let (udp, unix) = stage.ask(|lab| Ok((UdpSocket::bind((lab.address(), 0))?, UnixStream::pair()?.0)))?;
    let udp = refusal("UDP socket", udp)?;
    let unix = refusal("Unix socket", unix)?;
    Ok(Evidence::says("the option is refused on a UDP and on a Unix socket", format!("UDP {udp}, Unix {unix}")))
}

/// What one flagged send behind a small segment in flight did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flagged {
    Held,
    Left,
    Refused,
    /// The ACK came between the two sends: nothing was to be seen.
    Late,
}

fn no_flag_flushes(stage: &Stage<'_>) -> Judged {
    let twisted = stage.is_twisted();
    let (flags, nodelay, urgent) = stage.ask(|lab| {
        let bits = (0..32).map(|bit| 1 << bit).filter(|bit| *bit != transfer::URGENT);
        let each = |bit| Ok((bit, on_time(|| flagged(lab, bit, twisted))?));
        let flags = bits.map(each).collect::<io::Result<Vec<(u32, Flagged)>>>()?;
        Ok((flags, on_time(|| flagged(lab, 0, true))?, on_time(|| flagged(lab, transfer::URGENT, false))?))
    })?;
    if let Some((bit, seen)) = flags.iter().find(|(_, seen)| !matches!(seen, Flagged::Held | Flagged::Refused)) {
        let because = "tcp_push looks at no flag of the call but MSG_MORE, and tcp_nagle_test at none";
        let expected = format!("bytes sent with flag {bit:#x} held behind the segment in flight");
        return Err(answer(expected, because, format!("{seen:?}")));
    }
    let held = flags.iter().filter(|(_, seen)| *seen == Flagged::Held).count();
    if [nodelay, urgent] != [Flagged::Left; 2] || held == 0 {
        let because = "TCP_NODELAY flushes what is held, and urgent data is never held (tcp_nagle_test)";
        let saw = format!("TCP_NODELAY {nodelay:?}, MSG_OOB {urgent:?}, {held} flags held");
        return Err(answer("TCP_NODELAY and MSG_OOB let the bytes go", because, saw));
    }
    Ok(Evidence::says(
        "no flag bit but MSG_OOB (urgent data) lets held bytes go; setting TCP_NODELAY does",
        format!("{held} of 31 other bits accepted"),
    ))
}

/// Tries again where the machine was late.
fn on_time(attempt: impl Fn() -> io::Result<Flagged>) -> io::Result<Flagged> {
    for _ in 0..10 {
        match attempt()? {
            Flagged::Late => {}
            seen => return Ok(seen),
        }
    }
    Ok(Flagged::Late)
}

/// Sends ten bytes with some flag while ten others wait for an ACK that is delayed.
fn flagged(lab: &Lab, bits: u32, nodelay: bool) -> io::Result<Flagged> {
    let pair = lab.pair(&[])?;
    options::set(&pair.server, SocketOption::QuickAck, 0)?;
    transfer::send(&pair.client, &[b'x'; 10], Flags::NONE)?;
    if nodelay {
        options::set(&pair.client, SocketOption::NoDelay, 1)?;
    }
    let Ok(10) = transfer::send_with_bits(&pair.client, &[b'x'; 10], bits) else { return Ok(Flagged::Refused) };
    let held = options::not_sent(&pair.client)? > 0;
    let in_flight = TcpInfo::read(&pair.client)?.unacked;
    Ok(match (held, in_flight) {
        (true, _) => Flagged::Held,
        (false, Some(2)) => Flagged::Left,
        (false, _) => Flagged::Late,
    })
}
