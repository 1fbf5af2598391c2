//! Vectors, files and the size of a full segment.

use crate::claims::article::answer;
use crate::claims::scenes::{full_segment_under, primed};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Stage, Twist};
use crate::exchange::{Opt, Side};
use crate::expect::expect;
use crate::lab::Conditions;
use crate::verdict::Pattern;

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "empty-iovec-entries-are-skipped",
        document: Document::Beyond,
        section: "vectors and files",
        says: "empty entries of a vector are skipped, and the others leave as one segment",
        expected: Expected::Holds,
        source: "tcp_sendmsg_locked (msg_data_left); packetdrill syscall_bad_arg/sendmsg-empty-iov",
        needs: &[],
        check: |stage| one_segment(stage, "V0+40+0+20 R20"),
        control: Control {
            breaks: "a write for each entry",
            twist: Twist::Instead("C: W40 W20 R20 / S: [quickack=0] R60 W20 quickack=0"),
        },
    },
    Claim {
        id: "many-iovec-entries-leave-as-one-segment",
        document: Document::Beyond,
        section: "vectors and files",
        says: "a vector of more entries than a buffer has fragments leaves as one segment, being copied",
        expected: Expected::Holds,
        source: "tcp_sendmsg_locked (skb_copy_to_page_nocache); packetdrill zerocopy/maxfrags",
        needs: &[],
        check: |stage| {
            // 17 fragments by default and at most 45 (CONFIG_MAX_SKB_FRAGS).
            let entries = ["1"; 60].join("+");
            one_segment(stage, &format!("V{entries} R20"))
        },
        control: Control {
            breaks: "a write for each entry",
            twist: Twist::Instead("C: W1×60 R20 / S: [quickack=0] R60 W20 quickack=0"),
        },
    },
    Claim {
        id: "tiny-sendfile-leaves-at-once",
        document: Document::Beyond,
        section: "vectors and files",
        says: "sendfile of a tiny file sends it at once, in one segment",
        expected: Expected::Holds,
        source: "splice_direct_to_actor, tcp_sendmsg_locked; packetdrill sendfile/sendfile-simple",
        needs: &[],
        check: |stage| {
            let seen = stage.play(primed("F5 R20").requests(4))?;
            let seen = expect(&seen).try_no_stall()?.try_held_at_most(Side::Client, 0)?;
            Ok(seen.try_segments_per_request(Side::Client, 1)?.into())
        },
        control: Control {
            breaks: "a corked socket",
            twist: Twist::Exchange(|exchange| exchange.with_option(&[Side::Client], Opt::Cork, 1)),
        },
    },
    Claim {
        id: "full-segment-counts-after-options",
        document: Document::Beyond,
        section: "the size of a full segment",
        says: "whether a segment is full is judged by what TCP's options leave of it: 12 bytes less with timestamps",
        expected: Expected::Holds,
        source: "tcp_current_mss, tcp_nagle_test; smoltcp test_nagle_works_with_reduced_payload_from_options",
        needs: &[Need::Sysctl("net.ipv4.tcp_timestamps")],
        check: full_after_options,
        control: Control {
            breaks: "timestamps in either case",
            twist: Twist::Conditions(|conditions| conditions.sysctl(TIMESTAMPS, "1")),
        },
    },
];

const TIMESTAMPS: &str = "net.ipv4.tcp_timestamps";

fn one_segment(stage: &Stage<'_>, client: &str) -> Judged {
    let seen = stage.play(primed(client).requests(8))?;
    Ok(expect(&seen).try_no_stall()?.try_segments_per_request(Side::Client, 1)?.into())
}

fn full_after_options(stage: &Stage<'_>) -> Judged {
    let with: fn(Conditions) -> Conditions = |conditions| conditions.sysctl(TIMESTAMPS, "1");
    let without: fn(Conditions) -> Conditions = |conditions| conditions.sysctl(TIMESTAMPS, "0");
    let (less, more) = (full_segment_under(stage, with)?, full_segment_under(stage, without)?);
    if less + 12 != more {
        let because = "the timestamp option takes 12 bytes of each segment (RFC 7323 §3.2, TCPOLEN_TSTAMP_ALIGNED)";
        let saw = format!("{less} with timestamps, {more} without");
        return Err(answer("a full segment 12 bytes smaller with timestamps", because, saw));
    }
    let behind = |bytes: u32, under| primed(&format!("[mss=1000] W10 W{bytes} R20")).requests(6).under(under);
    let [full, short, full_without] =
        stage.play_all([behind(less, with), behind(less, without), behind(more, without)])?;
    let leaves = |seen| expect(seen).try_no_stall()?.try_held_at_most(Side::Client, 0);
    Ok(Evidence::of([
        ("full with timestamps", leaves(&full)?),
        ("the same bytes without", expect(&short).try_stalls(Pattern::Every)?.try_held(Side::Client, less)?),
        ("full without timestamps", leaves(&full_without)?),
    ]))
}
