//! Knobs, cases and traps: what holds data back on purpose.

use crate::claims::scenes::primed;
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::exchange::Side;
use crate::expect::{Expect, Failure, Kind, expect};
use crate::kernel::DELACK_MAX;
use crate::observation::{Observation, PendingTimer, Release, Request, Rule, milliseconds};
use crate::verdict::Pattern;

const SECTION: &str = "knobs, cases and traps";

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "cork-ceiling-200ms",
        document: Document::Chapter,
        section: SECTION,
        says: "a cork that is forgotten holds data for 200 ms at most",
        expected: Expected::HoldsWithLimit(
            "the bound is the persist timer: 200 ms, or the retransmission timeout where that is longer",
        ),
        source: "tcp_check_probe_timer, tcp_probe0_base; tcp(7) TCP_CORK",
        needs: &[Need::SocketDiag],
        check: ceiling,
        control: Control {
            breaks: "the cork is cleared after the write",
            twist: Twist::Instead("C: cork W10 uncork R20 / S: R10 W20"),
        },
    },
    Claim {
        id: "cork-overrides-nodelay",
        document: Document::Chapter,
        section: SECTION,
        says: "corked data waits even where TCP_NODELAY is set",
        expected: Expected::HoldsWithLimit("setting TCP_NODELAY after the write sends what is corked at once"),
        source: "tcp_nagle_check, __tcp_sock_set_nodelay; tcp(7) TCP_CORK",
        needs: &[],
        check: cork_overrides,
        control: Control { breaks: "no cork", twist: Twist::Instead("C: [nodelay] W10 R20 / S: R10 W20") },
    },
    Claim {
        id: "msg-more-cannot-be-forgotten",
        document: Document::Chapter,
        section: SECTION,
        says: "MSG_MORE is for one call, so unlike a cork it cannot be left on",
        expected: Expected::HoldsWithLimit("a last send that carries it waits as long as a cork"),
        source: "tcp_push, tcp_check_probe_timer; send(2) MSG_MORE",
        needs: &[],
        check: more,
        control: Control { breaks: "the flag is left out", twist: Twist::Instead("C: W10 R20 / S: R10 W20") },
    },
    Claim {
        id: "uncork-sends-now",
        document: Document::Chapter,
        section: SECTION,
        says: "clearing the cork sends what it held",
        expected: Expected::HoldsWithLimit("with a small segment unacknowledged Nagle's rule holds it further"),
        source: "__tcp_sock_set_cork (tcp_push_pending_frames); tcp(7) TCP_CORK",
        needs: &[],
        check: uncork,
        control: Control { breaks: "the cork stays", twist: Twist::Instead("C: [cork] W10 R20 / S: R10 W20") },
    },
];

fn ceiling(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(Scene::of("C: [cork] W10 R20 / S: R10 W20").requests(4).listed())?;
    let jiffy = seen.environment.jiffy_us;
    let timer = |request: &Request| {
        let listed = request.listed?.client;
        // Nothing held any more: looked at too late to see it.
        let fits = (listed.state.unacked?, listed.timer) == (0, PendingTimer::Persist);
        (listed.state.not_sent? > 0).then(|| if fits { Ok(()) } else { Err(format!("{listed:?}")) })
    };
    let duration = |request: &Request| {
        let rto = u64::from(request.blocked?.client.rto_us?);
        let floor = rto.max(DELACK_MAX.as_micros() as u64) - jiffy;
        let saw = || format!("{} with a timeout of {}", milliseconds(request.latency_us), milliseconds(rto));
        Some(if request.latency_us >= floor { Ok(()) } else { Err(saw()) })
    };
    let seen = held_200ms(&seen, Rule::Cork)?
        .try_each(Kind::Cause, "persist timer pending, nothing in flight", "idiag_timer of sock_diag", timer)?
        .try_each(
            Kind::Time,
            "each ≥ max(tcpi_rto, 200 ms) less a jiffy",
            "tcp_probe0_base, less the jiffy that had begun",
            duration,
        )?;
    Ok(seen.into())
}

/// Every request waits for the persist timer under this rule of the client's.
fn held_200ms(seen: &Observation, rule: Rule) -> Result<Expect<'_>, Failure> {
    let seen = expect(seen).try_stalls(Pattern::Every)?.try_held_200ms()?;
    seen.try_cause(Side::Client, rule, Release::PersistTimer)
}

fn cork_overrides(stage: &Stage<'_>) -> Judged {
    let [before, after, flushed] = stage.play_all([
        Scene::of("C: [nodelay cork] W10 R20 / S: R10 W20").requests(3),
        Scene::of("C: [cork nodelay] W10 R20 / S: R10 W20").requests(3),
        Scene::of("C: [cork] W10 nodelay R20 / S: R10 W20").requests(8),
    ])?;
    Ok(Evidence::of([
        ("corked after TCP_NODELAY", held_200ms(&before, Rule::Cork)?),
        ("corked before it", held_200ms(&after, Rule::Cork)?),
        ("TCP_NODELAY after the write", at_once(&flushed)?),
    ]))
}

/// Whatever the client holds leaves by a step of its own.
fn at_once(seen: &Observation) -> Result<Expect<'_>, Failure> {
    expect(seen).try_no_stall()?.try_released(Side::Client, Release::OwnStep)
}

fn more(stage: &Stage<'_>) -> Judged {
    let [next, last] = stage.play_all([
        Scene::of("C: M10 W10 R20 / S: R20 W20").requests(8),
        Scene::of("C: M10 R20 / S: R10 W20").requests(3),
    ])?;
    // Played in place of both, the control shows nothing held in the first.
    let last = held_200ms(&last, Rule::More)?;
    let next = at_once(&next)?.try_segments_per_request(Side::Client, 1)?;
    Ok(Evidence::of([("a plain send after it", next), ("nothing after it", last)]))
}

fn uncork(stage: &Stage<'_>) -> Judged {
    let [idle, busy] = stage.play_all([
        Scene::of("C: cork W10 uncork R20 / S: R10 W20").requests(6),
        primed("W10 cork W10 uncork R20").requests(8),
    ])?;
    let idle = at_once(&idle)?.try_segments_per_request(Side::Client, 1)?;
    let busy = expect(&busy).try_stalls(Pattern::Every)?.try_cause(Side::Client, Rule::Nagle, Release::DelayedAck)?;
    Ok(Evidence::of([("nothing in flight", idle), ("a small segment in flight", busy)]))
}
