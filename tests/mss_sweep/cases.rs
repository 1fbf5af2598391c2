//! Random exchanges around the sizes where the rules change.

use proptest::collection::vec;
use proptest::prelude::*;
use smallwrites::exchange::{Exchange, Opt, Relay, Script, Setting, Side, Sides, Step};
use std::fmt;

/// An exchange as it was drawn: turns that write and read, options, perhaps a relay.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// A sysctl of the lab that changes what a connection begins with.
    pub(crate) sysctl: Option<(&'static str, &'static str)>,
    pinned: bool,
    once: Sides<Vec<Setting>>,
    relay: Option<Relay>,
    turns: Vec<Turn>,
}

/// One side writes, then the other reads it.
#[derive(Debug, Clone)]
struct Turn {
    from: Side,
    writes: Vec<Piece>,
    /// Where the reader cuts what it reads, in thirds of the whole.
    cut: Option<u32>,
    before_read: Option<Setting>,
}

/// One write with what may stand before it.
#[derive(Debug, Clone)]
struct Piece {
    set: Option<Setting>,
    size: Size,
    more: bool,
}

/// A size in relation to the segment size.
#[derive(Debug, Clone, Copy)]
enum Size {
    Bytes(u32),
    Segments(u32, i32),
}

/// `TCP_MAXSEG` where it is set, and what timestamps take of it unless a sysctl switches them off.
const MAXSEG: u32 = 1000;
const TIMESTAMPS: u32 = 12;
const NO_TIMESTAMPS: (&str, &str) = ("net.ipv4.tcp_timestamps", "0");
/// The kernel's own receive buffers where there is memory enough; a machine's may be others, and with them the window scale.
const STOCK_BUFFERS: (&str, &str) = ("net.ipv4.tcp_rmem", "4096 131072 6291456");
const SMALLER_BUFFERS: (&str, &str) = ("net.ipv4.tcp_rmem", "4096 87380 1000000");
/// Loopback's own segment at the start of a connection.
const LOOPBACK_MSS: u32 = 32_741;

/// The share of cases in which a relay stands between the two.
const RELAYED: f64 = 0.25;

/// Any case.
pub(crate) fn any() -> impl Strategy<Value = Case> {
    (any::sysctl(), any::pinned(), any::once(), any::once(), any::relay(), vec(any::turn(), 1..=4)).prop_map(
        |(sysctl, pinned, client, server, relay, turns)| Case {
            sysctl,
            pinned,
            once: Sides { client, server },
            relay,
            turns,
        },
    )
}

mod any {
    use super::*;

    pub(super) fn sysctl() -> impl Strategy<Value = Option<(&'static str, &'static str)>> {
        prop_oneof![
            4 => Just(None),
            2 => Just(Some(STOCK_BUFFERS)),
            1 => Just(Some(SMALLER_BUFFERS)),
            1 => Just(Some(NO_TIMESTAMPS)),
        ]
    }

    pub(super) fn pinned() -> impl Strategy<Value = bool> {
        prop_oneof![3 => Just(true), 1 => Just(false)]
    }

    pub(super) fn once() -> impl Strategy<Value = Vec<Setting>> {
        prop_oneof![
            6 => Just(Vec::new()),
            1 => Just(vec![Setting::new(Opt::NoDelay, 1)]),
            1 => Just(vec![Setting::new(Opt::Cork, 1)]),
            1 => Just(vec![Setting::new(Opt::QuickAck, 0)]),
            1 => send_buffer().prop_map(|setting| vec![setting]),
            1 => send_buffer().prop_map(|setting| vec![Setting::new(Opt::NoDelay, 1), setting]),
        ]
    }

    /// Room for a few of the writes only: the kernel doubles it, and a small segment takes most of a kilobyte.
    fn send_buffer() -> impl Strategy<Value = Setting> {
        (1_i32..=8).prop_map(|step| Setting::new(Opt::SendBuffer, step * 1024))
    }

    /// No cork: its 200 ms and another's on the other connection end in the order of what the kernel measured.
    pub(super) fn relay() -> impl Strategy<Value = Option<Relay>> {
        let option = || {
            prop_oneof![
                2 => Just(Vec::new()),
                1 => Just(vec![Setting::new(Opt::NoDelay, 1)]),
                1 => Just(vec![Setting::new(Opt::QuickAck, 0)]),
                1 => send_buffer().prop_map(|setting| vec![setting]),
            ]
        };
        let relay = (option(), option());
        let relay = relay.prop_map(|(towards_client, towards_server)| Relay { towards_client, towards_server });
        prop::option::weighted(RELAYED, relay)
    }

    pub(super) fn turn() -> impl Strategy<Value = Turn> {
        let from = prop_oneof![Just(Side::Client), Just(Side::Server)];
        let quick = prop_oneof![
            8 => Just(None),
            1 => Just(Some(Setting::new(Opt::QuickAck, 1))),
            1 => Just(Some(Setting::new(Opt::QuickAck, 0))),
        ];
        (from, vec(piece(), 1..=4), prop::option::weighted(0.3, 1_u32..3), quick)
            .prop_map(|(from, writes, cut, before_read)| Turn { from, writes, cut, before_read })
    }

    fn piece() -> impl Strategy<Value = Piece> {
        let set = prop_oneof![
            12 => Just(None),
            1 => Just(Some(Setting::new(Opt::NoDelay, 1))),
            1 => Just(Some(Setting::new(Opt::NoDelay, 0))),
            1 => Just(Some(Setting::new(Opt::Cork, 1))),
            2 => Just(Some(Setting::new(Opt::Cork, 0))),
        ];
        (set, size(), prop::bool::weighted(0.1)).prop_map(|(set, size, more)| Piece { set, size, more })
    }

    fn size() -> impl Strategy<Value = Size> {
        prop_oneof![
            6 => (1_u32..=50).prop_map(Size::Bytes),
            3 => (1_u32..=3, -2_i32..=2).prop_map(|(k, off)| Size::Segments(k, off)),
            2 => (535_u32..=537).prop_map(Size::Bytes),
            1 => (51_u32..=500).prop_map(Size::Bytes),
            1 => Just(Size::Bytes(3000)),
            1 => Just(Size::Bytes(8000)),
        ]
    }
}

impl Case {
    pub(crate) fn exchange(&self) -> Exchange {
        let mut sides = Sides::from_fn(|side| Script { opened: self.once[side].clone(), ..Script::default() });
        let timestamps = if self.sysctl == Some(NO_TIMESTAMPS) { 0 } else { TIMESTAMPS };
        let mss = if self.pinned { MAXSEG - timestamps } else { LOOPBACK_MSS };
        if self.pinned {
            for side in Side::BOTH {
                sides[side].opened.insert(0, Setting::new(Opt::Mss, MAXSEG as i32));
            }
        }
        for turn in &self.turns {
            turn.act(&mut sides, mss);
        }
        Exchange { client: sides.client, relay: self.relay.clone(), server: sides.server }
    }
}

impl Turn {
    fn act(&self, sides: &mut Sides<Script>, mss: u32) {
        let mut total = 0;
        let writer = &mut sides[self.from].steps;
        for piece in &self.writes {
            let bytes = piece.size.bytes(mss);
            total += bytes;
            writer.extend(piece.set.map(Step::Set));
            writer.push(if piece.more { Step::More(bytes) } else { Step::Write(bytes) });
        }
        let reader = &mut sides[self.from.peer()].steps;
        reader.extend(self.before_read.map(Step::Set));
        let first = self.cut.map_or(0, |thirds| total * thirds / 3);
        reader.extend([first, total - first].into_iter().filter(|bytes| *bytes > 0).map(Step::Read));
    }
}

impl Size {
    fn bytes(self, mss: u32) -> u32 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Segments(k, off) => (k * mss).saturating_add_signed(off).max(1),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.exchange())?;
        self.sysctl.map_or(Ok(()), |(name, value)| write!(f, " --sysctl '{name}={value}'"))
    }
}
