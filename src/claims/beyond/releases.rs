//! What lets held data go, besides an ACK.

use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::exchange::Side;
use crate::expect::{Expect, Failure, Kind, expect};
use crate::kernel::DELACK_MAX;
use crate::observation::{Observation, PendingTimer, Release, Request, Rule, milliseconds};
use crate::verdict::{Pattern, was_late};

const SECTION: &str = "what lets go";

/// A round trip that a loss probe takes longer to follow than the delayed ACK may take, microseconds.
const LONG_ROUND_TRIP_US: u32 = 8_000;

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "cork-timer-starts-when-flight-empties",
        document: Document::Beyond,
        section: SECTION,
        says: "data corked behind an unacknowledged segment waits for its ACK first and for the persist timer then: 240 ms",
        expected: Expected::Holds,
        source: "tcp_check_probe_timer (packets_out is 0), tcp_ack",
        needs: &[Need::SocketDiag],
        check: cork_behind_flight,
        control: Control {
            breaks: "nothing is unacknowledged when the corked data is written",
            twist: Twist::Instead("C: cork W10 R20 uncork / S: R10 W20"),
        },
    },
    Claim {
        id: "tlp-answers-before-the-timer",
        document: Document::Beyond,
        section: SECTION,
        says: "with two segments in flight a tail loss probe takes held data along before the delayed ACK comes",
        expected: Expected::Holds,
        source: "tcp_schedule_loss_probe, tcp_send_loss_probe (sends new data, TCP_NAGLE_OFF)",
        needs: &[Need::PrivateLab],
        check: loss_probe,
        control: Control {
            breaks: "net.ipv4.tcp_early_retrans=0: no probe",
            twist: Twist::Conditions(|base| base.sysctl("net.ipv4.tcp_early_retrans", "0")),
        },
    },
    Claim {
        id: "sendfile-past-end-of-file",
        document: Document::Beyond,
        section: SECTION,
        says: "a sendfile that asks for more than its file has sends the last bytes at once",
        expected: Expected::HoldsWithLimit(
            "kernels that leave MSG_MORE set at the end of the file hold them for 200 ms",
        ),
        source: "splice_direct_to_actor, tcp_splice_eof; sendfile(2)",
        needs: &[],
        check: past_end_of_file,
        control: Control {
            breaks: "a cork holds them too",
            twist: Twist::Instead("C: [cork] F100+50 R20 / S: R100 W20"),
        },
    },
    Claim {
        id: "fin-leaves-with-held-data",
        document: Document::Beyond,
        section: SECTION,
        says: "shutting down sends what a cork or MSG_MORE holds, in one segment with the FIN",
        expected: Expected::Holds,
        source: "tcp_send_fin (__tcp_push_pending_frames with TCP_NAGLE_OFF)",
        needs: &[],
        check: |stage| {
            let scenes = ["C: [cork] W10 shutdown / S: R10", "C: M10 shutdown / S: R10"];
            let [corked, more] = stage.play_all(scenes.map(|exchange| Scene::of(exchange).requests(5).fresh()))?;
            Ok(Evidence::of([("cork", with_fin(&corked)?), ("MSG_MORE", with_fin(&more)?)]))
        },
        control: Control { breaks: "no shutdown", twist: Twist::Instead("C: [cork] W10 / S: R10") },
    },
    Claim {
        id: "msg-eor-never-merges",
        document: Document::Beyond,
        section: SECTION,
        says: "nothing is merged behind a write with MSG_EOR: under a cork it leaves as soon as another write follows",
        expected: Expected::Holds,
        source: "tcp_skb_can_collapse_to, tcp_write_xmit (only the last buffer is held); sendmsg(2) MSG_EOR",
        needs: &[],
        check: |stage| {
            let scenes = [
                "C: [nodelay] cork E10 W10 uncork R20 / S: R20 W20",
                "C: [nodelay] cork W10 W10 uncork R20 / S: R20 W20",
            ];
            let [record, plain] = stage.play_all(scenes.map(|exchange| Scene::of(exchange).requests(12)))?;
            let segments = |seen, count| expect(seen).try_no_stall()?.try_segments_per_request(Side::Client, count);
            Ok(Evidence::of([("MSG_EOR", segments(&record, 2)?), ("without", segments(&plain, 1)?)]))
        },
        control: Control {
            breaks: "the flag is left out",
            twist: Twist::Instead("C: [nodelay] cork W10 W10 uncork R20 / S: R20 W20"),
        },
    },
];

fn cork_behind_flight(stage: &Stage<'_>) -> Judged {
    let scene = Scene::of("C: W10 cork W10 R20 uncork / S: [quickack=0] R20 W20 quickack=0");
    let seen = stage.play(scene.requests(4).listed())?;
    let environment = &seen.environment;
    let floor = environment.delayed_ack_us + DELACK_MAX.as_micros() as u64 - 2 * environment.jiffy_us;
    let timer = |request: &Request| {
        let client = request.listed?.client;
        // Acknowledged already when everybody waits: written too late to be behind anything.
        if request.holds.iter().any(|hold| hold.rule == Rule::Cork && hold.unacked != Some(1)) {
            return None;
        }
        let fits = client.state.unacked == Some(1) && client.timer == PendingTimer::Retransmit;
        Some(if fits { Ok(()) } else { Err(format!("{client:?}")) })
    };
    let duration = |request: &Request| {
        let fits = request.latency_us >= floor;
        Some(if fits { Ok(()) } else { Err(milliseconds(request.latency_us)) })
    };
    let seen = expect(&seen).try_stalls(Pattern::Every)?.try_held_200ms()?;
    let seen = seen
        .try_cause(Side::Client, Rule::Cork, Release::PersistTimer)?
        .try_each(Kind::Cause, "no persist timer while a segment is in flight", "idiag_timer of sock_diag", timer)?
        .try_each(
            Kind::Time,
            "each ≥ 40 ms + 200 ms less two jiffies",
            "one timer after the other, less the jiffies that had begun",
            duration,
        )?;
    Ok(seen.into())
}

fn loss_probe(stage: &Stage<'_>) -> Judged {
    // The server thinks for longer than a delayed ACK, without reading: whichever timer comes first lets go.
    let scene = Scene::of("C: nodelay W10 W10 nodelay=0 W10 R20 / S: [quickack=0] P100 R30 W20");
    // A connection for each: the delayed ACKs of one request would raise the round-trip time that the next probe goes by.
    let scene = scene.requests(8).fresh().under(|base| base.sysctl("net.ipv4.tcp_early_retrans", "3"));
    let seen = stage.play(scene)?;
    let because = "TcpExtTCPLossProbes and TcpExtDelayedACKs between the hold's begin and its end";
    let holds = "held behind two segments until a tail loss probe";
    let judge = |request: &Request| {
        let short = request.blocked?.client.rtt_us? < LONG_ROUND_TRIP_US;
        let held = request.holds.iter().find(|hold| hold.waited && hold.unacked == Some(2))?;
        let fits = held.released_by == Release::LossProbe;
        short.then(|| if fits { Ok(()) } else { Err(format!("released by {}", held.released_by.words())) })
    };
    Ok(expect(&seen).try_each(Kind::Cause, holds, because, judge)?.into())
}

fn past_end_of_file(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(Scene::of("C: F100+50 R20 / S: R100 W20").requests(4))?;
    if seen.most_held(Side::Client) == 0 {
        return Ok(expect(&seen).try_no_stall()?.try_held_at_most(Side::Client, 0)?.into());
    }
    // No option holds them and nothing is in flight: what is left is the flag that sendfile set itself.
    let held = expect(&seen).try_stalls(Pattern::Every)?.try_held_200ms()?;
    Ok(held.try_cause(Side::Client, Rule::Other, Release::PersistTimer)?.into())
}

fn with_fin(seen: &Observation) -> Result<Expect<'_>, Failure> {
    let because = "tcpi_data_segs_out and tcpi_segs_out of the client, which a FIN by itself would add to";
    let judge = |request: &Request| {
        let sent = (request.data_segments.client?, request.bare_acks.client?);
        let fits =
            if sent == (1, 0) { Ok(()) } else { Err(format!("{} segments with data, {} without", sent.0, sent.1)) };
        (!was_late(seen, request)).then_some(fits)
    };
    let released = expect(seen).try_released(Side::Client, Release::OwnStep)?;
    released.try_each(Kind::Segments, "one segment in all", because, judge)
}
