//! The seven modes of the chapter's first lab, on either version of IP, on loopback's long segments and on
//! segments of an Ethernet's length, with messages of several sizes.
//!
//! Every case plays a request of two pieces and a reply. What must come of it follows from the rules: a piece is held
//! behind an earlier *small* one that is unacknowledged, and a receiver in pingpong mode acknowledges in its own time.

mod support {
    pub(crate) mod labs;
    mod namespaces;
    pub(crate) mod plays;
    mod threads;
}

use rstest::rstest;
use smallwrites::exchange::{Exchange, Side};
use smallwrites::expect::expect;
use smallwrites::lab::Conditions;
use smallwrites::observation::{Release, Rule};
use smallwrites::play::Play;
use support::plays::{play_or_skip, stalls_after_prompt_replies};

const REQUESTS: u32 = 8;

/// A way to send a message of two pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Default,
    NoDelay,
    OneWrite,
    Cork,
    MsgMore,
    QuickAckOnce,
    QuickAckEveryRead,
}

/// The version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

/// What decides how long a segment may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segments {
    /// Loopback's own MTU: some 32 KiB at the start.
    Loopback,
    /// `TCP_MAXSEG` on both ends, of which timestamps take twelve bytes.
    MaxSeg1448,
    /// The device's MTU, of which the headers take 52 bytes, with IPv6 72.
    Mtu1500,
}

/// The two pieces of a message, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pieces {
    Bytes(u32, u32),
    /// A piece one byte short of a segment, then that byte.
    SplitSegment,
    /// A full segment, then so many bytes.
    SegmentAnd(u32),
}

impl Segments {
    /// The longest segment that leaves; `None` where none of the messages here is as long.
    fn longest(self, family: Family) -> Option<u32> {
        match (self, family) {
            (Self::Loopback, _) => None,
            (Self::MaxSeg1448, _) => Some(1448 - 12),
            (Self::Mtu1500, Family::V4) => Some(1500 - 40 - 12),
            (Self::Mtu1500, Family::V6) => Some(1500 - 60 - 12),
        }
    }

    fn conditions(self, family: Family) -> Conditions {
        let conditions = match self {
            Self::Mtu1500 => Conditions::default().mtu(1500),
            Self::Loopback | Self::MaxSeg1448 => Conditions::default(),
        };
        match family {
            Family::V4 => conditions,
            Family::V6 => conditions.ipv6(),
        }
    }
}

impl Mode {
    fn exchange(self, segments: Segments, first: u32, second: u32) -> Exchange {
        let all = first + second;
        let mss = if segments == Segments::MaxSeg1448 { "bound[mss=1448] " } else { "" };
        let (client, server) = match self {
            Self::Default => (format!("W{first} W{second} R20"), format!("R{all} W20")),
            Self::NoDelay => (format!("[nodelay] W{first} W{second} R20"), format!("R{all} W20")),
            Self::OneWrite => (format!("W{all} R20"), format!("R{all} W20")),
            Self::Cork => (format!("cork W{first} W{second} uncork R20"), format!("R{all} W20")),
            Self::MsgMore => (format!("M{first} W{second} R20"), format!("R{all} W20")),
            Self::QuickAckOnce => (format!("W{first} W{second} R20"), format!("[quickack] R{all} W20")),
            Self::QuickAckEveryRead => (format!("W{first} W{second} R20"), format!("quickack R{all} W20")),
        };
        format!("C: {mss}{client} / S: {mss}{server}").parse().expect("it is a valid exchange")
    }

    /// Whether the second piece is a write of its own that obeys Nagle.
    fn leaves_it_to_nagle(self) -> bool {
        matches!(self, Self::Default | Self::QuickAckOnce | Self::QuickAckEveryRead)
    }
}

#[rstest]
#[case::default(Mode::Default)]
#[case::nodelay(Mode::NoDelay)]
#[case::one_write(Mode::OneWrite)]
#[case::cork(Mode::Cork)]
#[case::msg_more(Mode::MsgMore)]
#[case::quickack_once(Mode::QuickAckOnce)]
#[case::quickack_every_read(Mode::QuickAckEveryRead)]
fn a_message_in_two_pieces(
    #[case] mode: Mode,
    #[values(Family::V4, Family::V6)] family: Family,
    #[values(Segments::Loopback, Segments::MaxSeg1448, Segments::Mtu1500)] segments: Segments,
    #[values(
        Pieces::Bytes(1, 1),
        Pieces::Bytes(10, 10),
        Pieces::Bytes(100, 50),
        Pieces::Bytes(500, 35),
        Pieces::Bytes(1000, 400),
        Pieces::SplitSegment,
        Pieces::SegmentAnd(10)
    )]
    pieces: Pieces,
) {
    let longest = segments.longest(family);
    let (first, second) = match (pieces, longest) {
        (Pieces::Bytes(first, second), _) => (first, second),
        (Pieces::SplitSegment, Some(longest)) => (longest - 1, 1),
        (Pieces::SegmentAnd(second), Some(longest)) => (longest, second),
        // Loopback's segment grows with the window: its edge is no matter of one number.
        (Pieces::SplitSegment | Pieces::SegmentAnd(_), None) => return,
    };
    let first_is_full = longest.is_some_and(|longest| first >= longest);
    let play = Play::new(mode.exchange(segments, first, second)).requests(REQUESTS);
    let Some(seen) = play_or_skip(&segments.conditions(family), &play) else { return };

    // A message that fits a segment leaves as one where its pieces meet before they leave.
    let merged = matches!(mode, Mode::OneWrite | Mode::Cork | Mode::MsgMore) && !first_is_full;
    let held = match mode {
        Mode::NoDelay | Mode::OneWrite => 0,
        Mode::Cork if first_is_full => second,
        // Both pieces wait for the option to be cleared, unless together they fill a segment.
        Mode::Cork if longest.is_some_and(|longest| first + second >= longest) => first,
        Mode::Cork => first + second,
        Mode::MsgMore if first_is_full => 0,
        Mode::MsgMore => first,
        Mode::Default | Mode::QuickAckOnce | Mode::QuickAckEveryRead if first_is_full => 0,
        Mode::Default | Mode::QuickAckOnce | Mode::QuickAckEveryRead => second,
    };
    let checked = expect(&seen)
        .segments_per_request(Side::Client, if merged { 1 } else { 2 })
        .segments_per_request(Side::Server, 1)
        .data_segments(Side::Client, REQUESTS * if merged { 1 } else { 2 })
        .nothing_resent()
        .held_at_most(Side::Client, held)
        .held_at_most(Side::Server, 0);
    assert_eq!(seen.most_held(Side::Client), held, "bytes held by the client");

    if mode.leaves_it_to_nagle() && mode != Mode::QuickAckEveryRead && !first_is_full {
        checked
            .stalls(stalls_after_prompt_replies())
            .delayed_acks_per_stall(1)
            .follows_pingpong(Side::Server)
            .held(Side::Client, second)
            .cause(Side::Client, Rule::Nagle, Release::DelayedAck)
            .stalls_last_a_delayed_ack();
    } else {
        checked.no_stall();
    }
}
