//! Exchanges: what two programs write and read over one connection, and the notation for it.
//!
//! An exchange is one script per side. Each side reads its script from the left, independently of the
//! other, once per request:
//!
//! ```
//! use smallwrites::exchange::{Exchange, Step};
//!
//! let exchange: Exchange = "C: W10 W10 R20 / S: R20 W20".parse()?;
//! assert_eq!(exchange.client.steps[0], Step::Write(10));
//! assert_eq!(exchange.to_string(), "C: W10 W10 R20 / S: R20 W20");
//! # Ok::<(), smallwrites::exchange::ParseError>(())
//! ```
//!
//! # The notation
//!
//! | step | what the side does |
//! |---|---|
//! | `W10` | one `send` of 10 bytes |
//! | `M10` | one `send` of 10 bytes with `MSG_MORE` |
//! | `E10` | one `send` of 10 bytes with `MSG_EOR` |
//! | `V10+10` | one `sendmsg` of two buffers of 10 bytes |
//! | `Z10`, `Z10+10` | the same with `MSG_ZEROCOPY`, each buffer apart from the next |
//! | `F1000` | one `sendfile` of a file of 1,000 bytes; `F60+40` asks for 40 bytes more than its 60 |
//! | `R20` | read exactly 20 bytes |
//! | `P5` | pause 5 ms; `P250us` and `P2s` likewise |
//! | `nodelay` `nodelay=0` `cork` `uncork` `quickack` `quickack=0` | set the socket option there and then |
//! | `shutdown` | shut down the sending direction |
//! | `W30×10`, `(W1 P5)×20` | repeat a step or a group; `x` and `*` do as well as `×` |
//!
//! Before the first step, groups of options are set once, each at its own moment:
//!
//! | group | when |
//! |---|---|
//! | `bound[…]` | on the socket before `connect` or `listen` |
//! | `listening[…]` | on the server's listening socket after `listen`, so that accepted sockets inherit it |
//! | `[…]` | on the connected or accepted socket, before the first request |
//!
//! `mss=N` (`TCP_MAXSEG`) acts only before the handshake, so it is set there whichever group names it.
//!
//! A relay that forwards every byte as it comes may stand between the two:
//! `C: W75 R83 / relay: C[nodelay] / S: R75 W79 P1 W4`, where `C[…]` and `S[…]` are options of the
//! relay's sockets towards the client and towards the server.

mod fix;
mod hint;
mod parse;
mod print;
mod side;
mod socket;
mod template;

pub use fix::Fix;
pub use parse::ParseError;
pub use side::{Side, Sides};
pub use socket::{Socket, Sockets};
pub use template::{Template, TemplateError};

/// The longest single write or read that a script may name, in bytes.
pub const MAX_BYTES: u32 = 16 << 20;

/// The most steps that one side may take in one request, repetitions written out.
pub const MAX_STEPS: u64 = 200_000;

/// What two programs, and perhaps a relay between them, do over one connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Exchange {
    /// The side that connects.
    pub client: Script,
    /// A program between the two that forwards every byte as it comes.
    pub relay: Option<Relay>,
    /// The side that accepts.
    pub server: Script,
}

/// One side's part of an [`Exchange`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Script {
    /// Set on the socket before `connect` or `listen`.
    pub bound: Vec<Setting>,
    /// Set on the listening socket after `listen`; a client has none.
    pub listening: Vec<Setting>,
    /// Set once on the connected or accepted socket.
    pub opened: Vec<Setting>,
    /// Taken once per request, in order.
    pub steps: Vec<Step>,
}

/// The options of a relay's two sockets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Relay {
    /// Set on the socket towards the client.
    pub towards_client: Vec<Setting>,
    /// Set on the socket towards the server.
    pub towards_server: Vec<Setting>,
}

/// One step of a [`Script`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// One `send` of so many bytes.
    Write(u32),
    /// One `send` with `MSG_MORE`.
    More(u32),
    /// One `send` with `MSG_EOR`: nothing is merged behind it.
    Record(u32),
    /// One `sendmsg` of several buffers.
    Vector(Vec<u32>),
    /// One `sendmsg` of one or several buffers with `MSG_ZEROCOPY`, none next to another in memory.
    ZeroCopy(Vec<u32>),
    /// One `sendfile`.
    SendFile {
        /// Bytes that the file has.
        length: u32,
        /// Bytes asked for past its end.
        beyond: u32,
    },
    /// Read exactly so many bytes.
    Read(u32),
    /// Do nothing for so many microseconds.
    Pause(u64),
    /// Set a socket option.
    Set(Setting),
    /// Shut down the sending direction.
    Shutdown,
    /// Steps taken several times over.
    Repeat(Vec<Step>, u32),
}

/// A socket option and the value that it is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Setting {
    /// Which option.
    pub option: Opt,
    /// Its new value, in the option's own unit.
    pub value: i32,
}

/// The socket options that the notation can set, named as their C constants without the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Opt {
    /// `TCP_NODELAY`.
    NoDelay,
    /// `TCP_CORK`.
    Cork,
    /// `TCP_QUICKACK`.
    QuickAck,
    /// `TCP_MAXSEG`, bytes.
    Mss,
    /// `TCP_DELACK_MAX_US`, microseconds.
    DelackMax,
    /// `TCP_RTO_MIN_US`, microseconds.
    RtoMin,
    /// `TCP_NOTSENT_LOWAT`, bytes.
    NotSentLowat,
    /// `TCP_DEFER_ACCEPT`, seconds.
    DeferAccept,
    /// `SO_RCVLOWAT`, bytes.
    ReceiveLowat,
    /// `SO_SNDBUF`, bytes.
    SendBuffer,
    /// `SO_RCVBUF`, bytes.
    ReceiveBuffer,
}

impl Opt {
    /// Every option with its word in the notation.
    pub const WORDS: [(Self, &'static str); 11] = [
        (Self::NoDelay, "nodelay"),
        (Self::Cork, "cork"),
        (Self::QuickAck, "quickack"),
        (Self::Mss, "mss"),
        (Self::DelackMax, "delack-max"),
        (Self::RtoMin, "rto-min"),
        (Self::NotSentLowat, "notsent-lowat"),
        (Self::DeferAccept, "defer-accept"),
        (Self::ReceiveLowat, "rcvlowat"),
        (Self::SendBuffer, "sndbuf"),
        (Self::ReceiveBuffer, "rcvbuf"),
    ];

    /// The option's word in the notation.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(option, _)| *option == self).map_or("", |(_, word)| word)
    }

    /// Whether the bare word, without `=N`, sets it to 1.
    #[must_use]
    pub fn is_switch(self) -> bool {
        matches!(self, Self::NoDelay | Self::Cork | Self::QuickAck)
    }
}

impl Setting {
    /// An option and its value.
    #[must_use]
    pub const fn new(option: Opt, value: i32) -> Self {
        Self { option, value }
    }
}

impl Step {
    /// Bytes that the step hands to the kernel, once.
    #[must_use]
    pub fn written(&self) -> u64 {
        match self {
            Self::Write(n) | Self::More(n) | Self::Record(n) => u64::from(*n),
            Self::Vector(parts) | Self::ZeroCopy(parts) => parts.iter().copied().map(u64::from).sum(),
            Self::SendFile { length, .. } => u64::from(*length),
            Self::Repeat(steps, times) => steps.iter().map(Self::written).sum::<u64>() * u64::from(*times),
            Self::Read(_) | Self::Pause(_) | Self::Set(_) | Self::Shutdown => 0,
        }
    }

    /// Bytes that the step takes from the kernel.
    #[must_use]
    pub fn read(&self) -> u64 {
        match self {
            Self::Read(n) => u64::from(*n),
            Self::Repeat(steps, times) => steps.iter().map(Self::read).sum::<u64>() * u64::from(*times),
            _ => 0,
        }
    }

    /// Whether the step hands bytes to the kernel.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Self::Write(_)
                | Self::More(_)
                | Self::Record(_)
                | Self::Vector(_)
                | Self::ZeroCopy(_)
                | Self::SendFile { .. }
        )
    }

    fn unrolled_length(&self) -> u64 {
        match self {
            Self::Repeat(steps, times) => {
                let once: u64 = steps.iter().map(Self::unrolled_length).fold(0, u64::saturating_add);
                once.saturating_mul(u64::from(*times))
            }
            _ => 1,
        }
    }

    fn unroll_into(&self, out: &mut Vec<Self>) {
        match self {
            Self::Repeat(steps, times) => {
                for _ in 0..*times {
                    for step in steps {
                        step.unroll_into(out);
                    }
                }
            }
            step => out.push(step.clone()),
        }
    }
}

impl Script {
    /// The steps of one request with every repetition written out.
    #[must_use]
    pub fn unrolled(&self) -> Vec<Step> {
        let mut out = Vec::new();
        for step in &self.steps {
            step.unroll_into(&mut out);
        }
        out
    }

    /// Bytes written in one request.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.steps.iter().map(Step::written).sum()
    }

    /// Bytes read in one request.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.steps.iter().map(Step::read).sum()
    }

    /// The segment size that some group pins with `mss=N`, in bytes as given to `TCP_MAXSEG`.
    #[must_use]
    pub fn mss(&self) -> Option<i32> {
        self.groups().flatten().rev().find(|setting| setting.option == Opt::Mss).map(|setting| setting.value)
    }

    fn groups(&self) -> impl DoubleEndedIterator<Item = &Vec<Setting>> {
        [&self.bound, &self.listening, &self.opened].into_iter()
    }
}

impl Exchange {
    /// The script of one side.
    #[must_use]
    pub fn script(&self, side: Side) -> &Script {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    /// The script of one side, to change it.
    pub fn script_mut(&mut self, side: Side) -> &mut Script {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// The same exchange with `option` set at connect and accept on the sides named.
    #[must_use]
    pub fn with_option(mut self, sides: &[Side], option: Opt, value: i32) -> Self {
        for &side in sides {
            self.script_mut(side).opened.push(Setting::new(option, value));
        }
        self
    }
}
