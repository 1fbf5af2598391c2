//! Lab 3: what Nagle's algorithm is for.

use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::exchange::Side;
use crate::expect::{Expect, Failure, Kind, expect};
use crate::observation::{Observation, Request, Rule};
use crate::verdict::was_late;

const SECTION: &str = "lab 3";

/// Bursts of ten one-byte writes: no more than the congestion window holds, and each burst drained by its end.
const BURSTS: u32 = 2000;

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "nagle-batches-tiny-writes",
        document: Document::Chapter,
        section: SECTION,
        says: "20,000 one-byte writes leave in a fraction as many segments",
        expected: Expected::Holds,
        source: "tcp_nagle_check, tcp_skb_can_collapse_to; RFC 896",
        needs: &[],
        check: nagle_batches,
        control: Control { breaks: "TCP_NODELAY", twist: Twist::Instead("C: [nodelay] W1×10 / S: R10") },
    },
    Claim {
        id: "nodelay-one-segment-per-byte",
        document: Document::Chapter,
        section: SECTION,
        says: "with TCP_NODELAY 20,000 one-byte writes leave in about as many segments",
        expected: Expected::HoldsWithLimit("one write a segment as long as the congestion window is open"),
        source: "tcp_nagle_test (TCP_NAGLE_PUSH), tcp_cwnd_test",
        needs: &[],
        check: |stage| {
            let seen = stage.play(Scene::of("C: [nodelay] W1×10 / S: R10").requests(BURSTS))?;
            let because = "tcpi_data_segs_out of the client, before and after each burst";
            let holds = "10 segments for 10 writes in every burst that finds the congestion window open";
            let judge = |request: &Request| {
                let sent = request.data_segments.client?;
                let fits = if sent == 10 { Ok(()) } else { Err(format!("{sent} segments")) };
                (!window_full(request)).then_some(fits)
            };
            Ok(measured(expect(&seen).try_each(Kind::Segments, holds, because, judge)?))
        },
        control: Control { breaks: "the option is left out", twist: Twist::Instead("C: W1×10 / S: R10") },
    },
    Claim {
        id: "merges-come-from-autocorking",
        document: Document::Chapter,
        section: SECTION,
        says: "the few merges under TCP_NODELAY come from autocorking",
        expected: Expected::Refuted(
            "on loopback nothing is ever queued below the socket, so autocorking stays out; what merges is a full congestion window",
        ),
        source: "tcp_should_autocork, loopback_xmit (skb_orphan), tcp_cwnd_test",
        needs: &[Need::PrivateLab],
        check: merges,
        control: Control {
            breaks: "bursts that fit into the congestion window",
            twist: Twist::Instead("C: [nodelay] W1×10 / S: R10"),
        },
    },
    Claim {
        id: "header-costs-40-bytes-or-more",
        document: Document::Chapter,
        section: SECTION,
        says: "a segment of one byte carries 40 bytes of headers or more",
        expected: Expected::Holds,
        source: "struct iphdr, struct tcphdr; RFC 791 §3.1, RFC 9293 §3.1",
        needs: &[Need::PrivateLab],
        check: headers,
        control: Control { breaks: "ten bytes in each segment", twist: Twist::Instead("C: [nodelay] W10 / S: R10") },
    },
];

/// Whether the congestion window held a write back.
fn window_full(request: &Request) -> bool {
    request.holds.iter().any(|hold| hold.rule == Rule::CongestionWindow)
}

/// The evidence with the run's own total of segments.
fn measured(expect: Expect<'_>) -> Evidence {
    let seen = expect.seen();
    let writes: usize = seen.requests.iter().map(|request| request.writes.len()).sum();
    let segments = seen.sockets.client.data_segments;
    let figures = format!("{writes} writes in {} segments", segments.map_or_else(|| "?".to_owned(), |n| n.to_string()));
    Evidence { measured: figures, ..expect.into() }
}

fn nagle_batches(stage: &Stage<'_>) -> Judged {
    let seen = stage.play(Scene::of("C: W1×10 / S: R10").requests(BURSTS))?;
    let because = "the first byte leaves, the others wait for its ACK and leave together";
    let usual = median(seen.requests.iter().filter_map(|request| request.data_segments.client));
    let total = seen.sockets.client.data_segments.unwrap_or(u32::MAX);
    if usual != Some(2) || total > BURSTS * 10 / 2 {
        let saw = format!("a median of {usual:?} segments, {total} in all");
        return Err(Failure::plain(Kind::Segments, "2 segments for a burst of 10 writes", because, saw));
    }
    Ok(Evidence {
        canonical: "a median of 2 segments for 10 writes, less than half as many in all".to_owned(),
        ..measured(expect(&seen))
    })
}

fn median(counts: impl Iterator<Item = u32>) -> Option<u32> {
    let mut sorted: Vec<u32> = counts.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

fn merges(stage: &Stage<'_>) -> Judged {
    // Forty unread writes to a receiver that delays its ACKs: the window of ten fills.
    let scene = Scene::of("C: [nodelay] W1×40 / S: [quickack=0] R40").fresh().requests(5);
    let seen = stage.play(scene.under(|base| base.sysctl("net.ipv4.tcp_autocorking", "1")))?;
    let because = "tcpi_unacked and tcpi_snd_cwnd when the first write was held back";
    let holds = "writes merge where as many segments are in flight as the congestion window allows";
    let judge = |request: &Request| {
        let sent = request.data_segments.client?;
        let held = request.holds.iter().find(|hold| hold.socket == Side::Client.into());
        let full = held.is_some_and(|hold| hold.rule == Rule::CongestionWindow && hold.unacked >= hold.cwnd);
        if was_late(&seen, request) {
            return None;
        }
        Some(if full && sent < 40 { Ok(()) } else { Err(format!("{sent} segments for 40 writes, {held:?}")) })
    };
    let merged = expect(&seen).try_each(Kind::Cause, holds, because, judge)?.try_counter("TcpExtTCPAutoCorking", 0)?;
    Ok(measured(merged))
}

fn headers(stage: &Stage<'_>) -> Judged {
    let scene = || Scene::of("C: [nodelay] W1×10 / S: R10").requests(50);
    let [usual, least] =
        stage.play_all([scene(), scene().under(|base| base.sysctl("net.ipv4.tcp_timestamps", "0"))])?;
    let (usual, least) = (Octets::of(&usual)?, Octets::of(&least)?);
    for octets in [&usual, &least] {
        if octets.all < octets.payload * 41 || octets.all - octets.payload < octets.segments * 40 {
            let because = "IpExtOutOctets and TcpOutSegs of the namespace, which holds both ends";
            let expected =
                "41 bytes or more on the path for every byte written, 40 or more of headers in every segment";
            return Err(Failure::plain(Kind::Counter, expected, because, octets.to_string()));
        }
    }
    let canonical = "41 bytes or more for a byte written, with TCP timestamps and without";
    Ok(Evidence::says(canonical, format!("with timestamps {usual}, without {least}")))
}

/// What went over the loopback, both ways.
#[derive(Debug)]
struct Octets {
    all: i64,
    payload: i64,
    segments: i64,
}

impl Octets {
    fn of(seen: &Observation) -> Result<Self, Failure> {
        let counter = |name: &str| {
            let missing =
                || Failure::plain(Kind::Counter, format!("{name} is counted"), "netstat(8)", "no such counter");
            seen.counter(name).ok_or_else(missing)
        };
        let payload =
            seen.requests.iter().flat_map(|request| &request.writes).map(|write| i64::from(write.bytes)).sum();
        Ok(Self { all: counter("IpExtOutOctets")?, payload, segments: counter("TcpOutSegs")? })
    }
}

impl std::fmt::Display for Octets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes in {} segments for {} written", self.all, self.segments, self.payload)
    }
}
