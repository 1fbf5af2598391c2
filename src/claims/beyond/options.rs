//! What shortens the delayed ACK, and what leaves it alone.

use crate::claims::scenes::{PROMPT, QUICKACK_EVERY_READ, held_until_delayed_ack, primed};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::exchange::Side;
use crate::expect::{Kind, expect};
use crate::kernel::DELACK_MIN;
use crate::observation::{Observation, Release, Request, Rule, Socket, milliseconds};
use crate::sys::counters;
use crate::verdict::Pattern;

const SECTION: &str = "settings";

/// The second write comes after a pause that is shorter than a delayed ACK of 40 ms, and longer than a shorter one.
const PAUSED: &str = "C: W10 P35 W10 R20 / S: [quickack=0] R20 W20 quickack=0";

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "delack-max-option",
        document: Document::Beyond,
        section: SECTION,
        says: "TCP_DELACK_MAX_US on the receiver shortens the delayed ACK",
        expected: Expected::Holds,
        source: "tcp_delack_max, do_tcp_setsockopt",
        needs: &[],
        check: delack_max,
        control: Control { breaks: "the option is left out, or a receiver in quick-ACK mode", twist: Twist::Check },
    },
    Claim {
        id: "rto-min-shortens-delack",
        document: Document::Beyond,
        section: SECTION,
        says: "a least retransmission timeout below 40 ms shortens the delayed ACK to a jiffy less than itself",
        expected: Expected::Holds,
        source: "tcp_delack_max (tcp_rto_min less a jiffy); net.ipv4.tcp_rto_min_us",
        needs: &[Need::PrivateLab],
        check: rto_min,
        control: Control { breaks: "the timeout's usual 200 ms, or a receiver in quick-ACK mode", twist: Twist::Check },
    },
    Claim {
        id: "full-send-buffer-stalls",
        document: Document::Beyond,
        section: SECTION,
        says: "behind a message that fills the send buffer the next write waits for the delayed ACK, with TCP_NODELAY too",
        expected: Expected::Holds,
        source: "sk_stream_memory_free, tcp_sendmsg_locked; socket(7), SO_SNDBUF",
        needs: &[],
        check: full_send_buffer,
        control: Control {
            breaks: "the kernel's own send buffer has room for both",
            twist: Twist::Instead("C: [nodelay] W4000 W10 R20 / S: [quickack=0] R4010 W20 quickack=0"),
        },
    },
    Claim {
        id: "ipv6-stalls-like-ipv4",
        document: Document::Beyond,
        section: SECTION,
        says: "over IPv6 the same exchange stalls in the same requests, for the same reason",
        expected: Expected::Holds,
        source: "net/ipv4/tcp_output.c and tcp_input.c serve both families",
        needs: &[Need::Ipv6],
        check: families,
        control: Control { breaks: "no stall", twist: QUICKACK_EVERY_READ },
    },
];

fn delack_max(stage: &Stage<'_>) -> Judged {
    if stage.kernel().delack_max_us.is_none() {
        return as_ever(stage, "TCP_DELACK_MAX_US");
    }
    let option = if stage.is_twisted() { "" } else { "delack-max=20000 " };
    let exchange = PAUSED.replace("[quickack=0]", &format!("[{option}quickack=0]"));
    shortened(&stage.play(Scene::of(exchange).requests(8))?, 20_000)
}

fn rto_min(stage: &Stage<'_>) -> Judged {
    const SYSCTL: &str = "net.ipv4.tcp_rto_min_us";
    if counters::sysctl(SYSCTL).is_err() {
        return as_ever(stage, SYSCTL);
    }
    let scene = Scene::of(PAUSED).requests(8).under(if stage.is_twisted() {
        |base| base.sysctl(SYSCTL, "200000")
    } else {
        |base| base.sysctl(SYSCTL, "20000")
    });
    let seen = stage.play(scene)?;
    shortened(&seen, 20_000_u64.saturating_sub(seen.environment.jiffy_us))
}

/// A kernel without the setting: the delayed ACK is the usual one, and what waits for it is held.
fn as_ever(stage: &Stage<'_>, setting: &str) -> Judged {
    let scene = if stage.is_twisted() { Scene::of(PROMPT) } else { primed("W10 W10 R20") };
    let seen = stage.play(scene.requests(8))?;
    let waits = held_until_delayed_ack(&seen)?.try_delayed_acks_per_stall(1)?;
    let label = format!("this kernel has no {setting}");
    Ok(Evidence::of([(label.as_str(), waits)]))
}

/// The server's delayed ACK comes while the client still pauses, so nothing is ever held.
fn shortened(seen: &Observation, to_us: u64) -> Judged {
    let to = milliseconds(to_us);
    let least = milliseconds(DELACK_MIN.as_micros() as u64);
    let because = "tcpi_ato of the server; TcpExtDelayedACKs; SIOCOUTQNSD when the second write returns";
    let holds =
        format!("tcpi_ato {to} in place of {least}, the ACK is there after a pause of 35 ms and nothing is held");
    let judge = |request: &Request| {
        let ato = u64::from(request.blocked?.server.ato_us?);
        let fired = request.delayed_acks.is_none_or(|fired| fired > 0);
        let held = request.holds.iter().filter(|hold| hold.socket == Socket::Client).count();
        let fits = ato.abs_diff(to_us) < seen.environment.jiffy_us && fired && held == 0;
        let saw = || format!("tcpi_ato {ato} µs, delayed ACKs {:?}, {held} times held", request.delayed_acks);
        Some(if fits { Ok(()) } else { Err(saw()) })
    };
    Ok(expect(seen).try_each(Kind::Answer, &holds, because, judge)?.into())
}

/// One segment over loopback: two would be acknowledged at arrival.
fn full_send_buffer(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(primed("[nodelay sndbuf=1] W4000 W10 R20").requests(8))?;
    let waits = expect(&seen).try_stalls(Pattern::Every)?.try_delayed_acks_per_stall(1)?.try_cause(
        Side::Client,
        Rule::SendBuffer,
        Release::DelayedAck,
    )?;
    Ok(waits.into())
}

fn families(stage: &Stage<'_>) -> Judged {
    let scene = || primed("W10 W10 R20").requests(10);
    let [v4, v6] = stage.play_all([scene(), scene().under(|base| base.ipv6())])?;
    let stalls = |seen| {
        expect(seen)
            .try_stalls(Pattern::Every)?
            .try_delayed_acks_per_stall(1)?
            .try_held(Side::Client, 10)?
            .try_cause(Side::Client, Rule::Nagle, Release::DelayedAck)?
            .try_segments_per_request(Side::Client, 2)
    };
    Ok(Evidence::of([("IPv4", stalls(&v4)?), ("IPv6", stalls(&v6)?)]))
}
