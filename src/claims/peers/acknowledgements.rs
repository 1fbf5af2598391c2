//! When a receiver acknowledges.

use crate::claims::scenes::{client_data, full_segment, one_byte_less};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::exchange::{Exchange, Opt, Setting, Side, Step};
use crate::expect::{Kind, expect};
use crate::kernel::MAX_QUICKACKS;
use crate::observation::{Request, milliseconds};

const SECTION: &str = "acknowledgements";

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "ack-after-more-than-one-rcv-mss",
        document: Document::Beyond,
        section: SECTION,
        says: "a delaying receiver acknowledges at once what is more than one full segment, by a byte, and one full segment late",
        expected: Expected::Holds,
        source: "__tcp_ack_snd_check, __tcp_cleanup_rbuf (rcv_nxt - rcv_wup > rcv_mss); smoltcp test_delayed_ack_every_rmss",
        needs: &[Need::PrivateLab],
        check: more_than_one_segment,
        control: Control { breaks: "the byte more is left out", twist: Twist::Exchange(one_byte_less) },
    },
    Claim {
        id: "reading-acknowledges-outside-pingpong",
        document: Document::Beyond,
        section: SECTION,
        says: "reading a small segment does not draw its ACK",
        expected: Expected::HoldsWithLimit(
            "in pingpong mode only: outside it each read acknowledges, long after the quick ACKs of the start are used up",
        ),
        source: "__tcp_cleanup_rbuf (ICSK_ACK_PUSHED, pingpong); smoltcp test_delayed_ack_win",
        needs: &[],
        check: reading,
        control: Control { breaks: "pingpong mode in either case", twist: Twist::Exchange(delaying) },
    },
    Claim {
        id: "bare-fin-is-acked-at-once",
        document: Document::Beyond,
        section: SECTION,
        says: "a FIN without data is acknowledged at once",
        expected: Expected::Refuted("the delayed-ACK timer sends the ACK: at its next tick where no data came before"),
        source: "tcp_fin (inet_csk_schedule_ack), tcp_delack_timer_handler; packetdrill close/close-remote-fin-then-close",
        needs: &[Need::PrivateLab],
        check: |stage| {
            let seen = stage.play(Scene::of("C: shutdown P100 / S:").requests(6).fresh())?;
            Ok(expect(&seen).try_acks_late(Side::Server)?.into())
        },
        control: Control {
            breaks: "quickack 1 on the route",
            twist: Twist::Conditions(|conditions| conditions.quickack_route()),
        },
    },
    Claim {
        id: "small-data-with-fin-is-acked-late",
        document: Document::Beyond,
        section: SECTION,
        says: "a small segment that carries the FIN is acknowledged at once",
        expected: Expected::Refuted(
            "the FIN puts the receiver into pingpong mode: the delayed-ACK timer sends the ACK, on a new connection too, \
             which acknowledges the same data at once without a FIN",
        ),
        source: "tcp_fin (inet_csk_enter_pingpong_mode), tcp_send_delayed_ack; packetdrill ioctl/ioctl-siocinq-fin",
        needs: &[Need::PrivateLab],
        check: data_with_fin,
        control: Control { breaks: "no FIN", twist: Twist::Instead(WITHOUT_FIN) },
    },
];

const WITHOUT_FIN: &str = "C: [cork] W10 uncork / S: P100 R10";

fn more_than_one_segment(stage: &Stage<'_>) -> Judged {
    let full = full_segment(stage)?;
    let bytes = |n: u32| {
        Scene::of(format!("C: [mss=1000] W{n} R10 / S: [mss=1000 quickack=0] R{n} P60 quickack=0 W10")).requests(6)
    };
    let [one, more] = stage.play_all([bytes(full), bytes(full + 1)])?;
    Ok(Evidence::of([
        ("a full segment", expect(&one).try_acks_late(Side::Server)?),
        ("a byte more", expect(&more).try_acks_at_once(Side::Server)?),
    ]))
}

fn data_with_fin(stage: &Stage<'_>) -> Judged {
    // The server thinks for longer than a delayed ACK and reads then, so that no read draws the ACK.
    let scenes = ["C: [cork] W10 shutdown / S: P100 R10", WITHOUT_FIN];
    let [fin, data] = stage.play_all(scenes.map(|exchange| Scene::of(exchange).requests(4).fresh().capture()))?;
    let floor = fin.environment.delayed_ack_us.saturating_sub(fin.environment.jiffy_us);
    let judge = |request: &Request| {
        let frames = fin.frames.as_ref()?.of_request(request.number);
        let sent = *client_data(&fin, request.number).last()?;
        let ack = frames.iter().find(|frame| frame.is_bare_ack() && frame.ack == Some(sent.end()))?;
        let lasted = u64::try_from(ack.at_us - sent.at_us).ok()?;
        let fits = sent.flags.fin && lasted >= floor;
        let saw = || format!("FIN {}, acknowledged after {}", sent.flags.fin, milliseconds(lasted));
        Some(if fits { Ok(()) } else { Err(saw()) })
    };
    let because = "the captured segments of each request: the one with the FIN, and the bare ACK that covers it";
    let late = expect(&fin).try_acks_late(Side::Server)?;
    let late = late.try_each(Kind::Time, "the ACK of data and FIN a delayed ACK later or more", because, judge)?;
    Ok(Evidence::of([("with a FIN", late), ("without", expect(&data).try_acks_at_once(Side::Server)?)]))
}

fn reading(stage: &Stage<'_>) -> Judged {
    let [inside, outside] = stage.play_all([
        Scene::of("C: W10 R10 / S: [quickack=0] R10 P60 quickack=0 W10").requests(6),
        Scene::of("C: [nodelay] (W10 P3)×24 R10 / S: R10×24 W10").requests(4).fresh(),
    ])?;
    let inside = expect(&inside).try_acks_late(Side::Server)?;
    let holds = "more bare ACKs than a connection sends at once when it starts";
    let judge = |request: &Request| {
        let acks = request.bare_acks.server?;
        Some(if acks > MAX_QUICKACKS { Ok(()) } else { Err(format!("{acks} bare ACKs for 24 segments")) })
    };
    let because = "reading the last of what came acknowledges it unless the socket is in pingpong mode";
    let outside = expect(&outside).try_each(Kind::Law, holds, because, judge)?;
    Ok(Evidence::of([("in pingpong mode", inside), ("outside it", outside)]))
}

/// The exchange with the server put into pingpong mode before each read.
fn delaying(mut exchange: Exchange) -> Exchange {
    let enter = Step::Set(Setting::new(Opt::QuickAck, 0));
    let before = |step: &Step| match step {
        Step::Repeat(steps, times) => {
            vec![Step::Repeat([std::slice::from_ref(&enter), steps].concat(), *times)]
        }
        step => vec![step.clone()],
    };
    exchange.server.steps = exchange.server.steps.iter().flat_map(before).collect();
    exchange
}
