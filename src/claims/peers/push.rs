//! Which segments carry PSH: a write without `MSG_MORE` marks what it ends, and so does the persist timer.

use crate::claims::scenes::{client_data, full_segment, primed, without_more};
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::exchange::{Exchange, Opt, Setting, Step};
use crate::expect::{Expect, Failure, Kind, expect};
use crate::observation::{Observation, Release, Request};
use crate::verdict::was_late;

const SECTION: &str = "PSH";

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "persist-timer-sends-with-psh",
        document: Document::Beyond,
        section: SECTION,
        says: "what MSG_MORE kept back carries PSH when the persist timer sends it",
        expected: Expected::Holds,
        source: "tcp_write_wakeup (TCPHDR_PSH); packetdrill nagle/sendmsg_msg_more",
        needs: &[Need::PrivateLab],
        check: |stage| {
            let seen = play(stage, Scene::of("C: [nodelay] M40 R20 / S: R40 W20").requests(3))?;
            Ok(marked(&seen, &[pushed(40)])?.into())
        },
        control: Control {
            breaks: "TCP_NODELAY is set again, which sends it before the timer",
            twist: Twist::Exchange(flushed_by_nodelay),
        },
    },
    Claim {
        id: "write-that-ends-msg-more-sets-psh",
        document: Document::Beyond,
        section: SECTION,
        says: "the write without MSG_MORE that ends a run of them marks their common segment with PSH, however long after",
        expected: Expected::Holds,
        source: "tcp_push (tcp_mark_push); packetdrill nagle/sendmsg_msg_more",
        needs: &[Need::PrivateLab],
        check: |stage| {
            let scenes = ["C: M100 M160 M495 W5 R20 / S: R760 W20", "C: M20 P50 W20 R20 / S: R40 W20"];
            let [run, paused] = stage.play_all(scenes.map(|exchange| Scene::of(exchange).requests(6).capture()))?;
            Ok(Evidence::of([
                ("a run", marked(&run, &[pushed(760)])?),
                ("50 ms later", marked(&paused, &[pushed(40)])?),
            ]))
        },
        control: Control {
            breaks: "the last write carries the flag too, and TCP_NODELAY sends them",
            twist: Twist::Exchange(|exchange| flushed_by_nodelay(with_more(exchange))),
        },
    },
    Claim {
        id: "msg-more-leaves-on-an-ack-without-psh",
        document: Document::Beyond,
        section: SECTION,
        says: "what MSG_MORE kept back behind a segment in flight leaves on its ACK without PSH",
        expected: Expected::Holds,
        source: "tcp_push (no mark under MSG_MORE), tcp_data_snd_check; packetdrill nagle/sendmsg_msg_more",
        needs: &[Need::PrivateLab],
        check: |stage| {
            let full = full_segment(stage)?;
            let tail = primed(&format!("[mss=1000] M{} R20", full + 100)).requests(6).capture();
            let [tail, pile] = stage.play_all([tail, primed("W10 M1 M2 M3 M4 R20").requests(6).capture()])?;
            Ok(Evidence::of([
                ("behind a full segment", marked(&tail, &[bare(full), bare(100)])?),
                ("behind a small one", marked(&pile, &[pushed(10), bare(10)])?),
            ]))
        },
        control: Control { breaks: "the flag is left out", twist: Twist::Exchange(without_more) },
    },
    Claim {
        id: "corked-writes-leave-with-psh",
        document: Document::Beyond,
        section: SECTION,
        says: "corked writes leave as one segment with PSH, whether the cork is pulled or TCP_NODELAY sends them",
        expected: Expected::Holds,
        source: "tcp_push (tcp_mark_push), __tcp_sock_set_cork, __tcp_sock_set_nodelay; packetdrill nagle/sockopt_cork_nodelay",
        needs: &[Need::PrivateLab],
        check: |stage| {
            let scenes = [
                "C: cork W40 P50 W40 uncork R20 / S: R80 W20",
                "C: [cork] W40 P50 W40 nodelay nodelay=0 R20 / S: R80 W20",
            ];
            let [uncork, nodelay] = stage.play_all(scenes.map(|exchange| Scene::of(exchange).requests(6).capture()))?;
            Ok(Evidence::of([
                ("uncorked", marked(&uncork, &[pushed(80)])?),
                ("TCP_NODELAY", marked(&nodelay, &[pushed(80)])?),
            ]))
        },
        control: Control { breaks: "the writes carry MSG_MORE", twist: Twist::Exchange(with_more) },
    },
    Claim {
        id: "nodelay-flushes-msg-more-without-psh",
        document: Document::Beyond,
        section: SECTION,
        says: "setting TCP_NODELAY sends what MSG_MORE kept back without PSH",
        expected: Expected::Holds,
        source: "__tcp_sock_set_nodelay, tcp_push (no mark under MSG_MORE); packetdrill nagle/sockopt_cork_nodelay",
        needs: &[Need::PrivateLab],
        check: |stage| {
            let seen = play(stage, Scene::of("C: M40 P50 M40 nodelay nodelay=0 R20 / S: R80 W20").requests(6))?;
            Ok(marked(&seen, &[bare(80)])?.into())
        },
        control: Control {
            breaks: "a cork in place of MSG_MORE",
            twist: Twist::Instead("C: [cork] W40 P50 W40 nodelay nodelay=0 R20 / S: R80 W20"),
        },
    },
    Claim {
        id: "tiny-sendfile-sets-psh",
        document: Document::Beyond,
        section: SECTION,
        says: "the segment of a tiny sendfile carries PSH",
        expected: Expected::Holds,
        source: "splice_direct_to_actor, tcp_push (tcp_mark_push); packetdrill sendfile/sendfile-simple",
        needs: &[Need::PrivateLab],
        check: |stage| {
            let seen = play(stage, primed("F5 R20").requests(4))?;
            Ok(marked(&seen, &[pushed(5)])?.into())
        },
        control: Control {
            breaks: "a send with MSG_MORE in its place, let go by TCP_NODELAY",
            twist: Twist::Instead("C: M5 nodelay nodelay=0 R20 / S: [quickack=0] R5 W20 quickack=0"),
        },
    },
];

/// Payload of a segment, and whether it carries PSH.
type Marked = (u32, bool);

fn pushed(payload: u32) -> Marked {
    (payload, true)
}

fn bare(payload: u32) -> Marked {
    (payload, false)
}

fn play(stage: &Stage<'_>, scene: Scene) -> Result<Observation, Failure> {
    stage.play(scene.capture())
}

/// The client sends these segments in each request, so marked.
fn marked<'a>(seen: &'a Observation, expected: &[Marked]) -> Result<Expect<'a>, Failure> {
    let holds = format!("the client sends {}", words(expected));
    let judge = |request: &Request| {
        let data = client_data(seen, request.number);
        let sent: Vec<Marked> = data.iter().map(|frame| (frame.payload, frame.flags.psh)).collect();
        let fits = sent == expected;
        // A pause that lasted longer than it should lets the persist timer come first: such a request shows nothing else.
        let overtaken = request.holds.iter().any(|hold| hold.released_by == Release::PersistTimer);
        (fits || !(overtaken || was_late(seen, request))).then(|| if fits { Ok(()) } else { Err(words(&sent)) })
    };
    expect(seen).try_each(Kind::Segments, &holds, "the flags of the captured segments of each request", judge)
}

fn words(segments: &[Marked]) -> String {
    let word = |(payload, psh): &Marked| format!("{payload} bytes with{} PSH", if *psh { "" } else { "out" });
    if segments.is_empty() {
        return "nothing".to_owned();
    }
    segments.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The exchange with `MSG_MORE` on every write of the client's.
fn with_more(mut exchange: Exchange) -> Exchange {
    for step in &mut exchange.client.steps {
        if let Step::Write(n) = *step {
            *step = Step::More(n);
        }
    }
    exchange
}

/// The exchange with `TCP_NODELAY` set and cleared after the client's last write.
fn flushed_by_nodelay(mut exchange: Exchange) -> Exchange {
    let steps = &mut exchange.client.steps;
    let behind = steps.iter().rposition(Step::is_write).map_or(0, |last| last + 1);
    let flush = [1, 0].map(|value| Step::Set(Setting::new(Opt::NoDelay, value)));
    steps.splice(behind..behind, flush);
    exchange
}
