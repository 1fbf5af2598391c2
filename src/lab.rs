//! Where an exchange is played: a private network namespace, two of them with a wire between, or the shared loopback.
//!
//! A private lab needs no root. It has its own counters and its own sysctls, touches nothing of the host, and
//! is gone when its thread and its sockets are, however the process ends.
//!
//! ```no_run
//! use smallwrites::lab::{self, Conditions};
//!
//! lab::enter()?; // first thing in main, before any thread starts
//! let inode = Conditions::default().run(|lab| lab.environment().place)?;
//! assert_eq!(inode, "private namespace");
//! # Ok::<(), lab::LabError>(())
//! ```

mod conditions;
mod error;
mod forwarder;
mod loss;
mod segment;
mod settings;
mod setup;
mod tap;
mod wire;

pub use conditions::{Conditions, Family, Place};
pub use error::LabError;
pub use loss::{Extent, Loss, Lost};
pub use settings::{Changed, Origin, Settings};
pub use wire::WireSpec;

pub(crate) use forwarder::{Passage, Passed};
pub(crate) use segment::Segment;

use crate::exchange::{Side, Sides};
use crate::kernel::Kernel;
use crate::observation::Environment;
use crate::sys::counters::{Counters, Reader};
use crate::sys::namespace;
use crate::sys::options::{self, SocketOption};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::Duration;
use tap::Tap;
use wire::Wire;

/// What every private lab pins, since each would blur what is measured: bbr's pacing, the tail loss probe that
/// answers before the delayed ACK, and round-trip times remembered from the connection before.
pub const PINS: [(&str, &str); 3] = [
    ("net.ipv4.tcp_congestion_control", "reno"),
    ("net.ipv4.tcp_early_retrans", "0"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
];

/// What a lab pins besides where the model is held against the kernel: receive buffer growth and segmentation
/// deferral are decided on clocks finer than a jiffy.
pub const MODEL_PINS: [(&str, &str); 3] = [
    ("net.ipv4.tcp_moderate_rcvbuf", "0"),
    ("net.ipv4.tcp_tso_win_divisor", "255"),
    ("net.ipv4.tcp_slow_start_after_idle", "0"),
];

/// A place to play, open for the thread that opened it and for the threads that this one starts.
#[derive(Debug)]
pub struct Lab {
    conditions: Conditions,
    kernel: Kernel,
    pinned: BTreeMap<String, String>,
    wire: Option<Wire>,
    /// The namespaces' counters, where they move for this lab alone; two on a wire, the client's first.
    counters: Vec<Reader>,
}

impl Lab {
    /// Opens a lab for the calling thread, which stays in the lab's namespace ever after: use
    /// [`Conditions::run`] unless the thread is yours alone.
    ///
    /// # Errors
    ///
    /// Where the lab cannot be built as described.
    pub fn open(conditions: &Conditions) -> Result<Self, LabError> {
        let (pinned, wire) = match (conditions.place, &conditions.wire) {
            (Place::Private, None) => (setup::open_private(conditions)?, None),
            (Place::Private, Some(spec)) => {
                let (pinned, wire) = setup::open_wire(conditions, spec)?;
                (pinned, Some(wire))
            }
            (Place::Shared, _) => (setup::refuse_settings(conditions)?, None),
        };
        let kernel =
            Kernel::probe().map_err(|source| LabError::Step { doing: "probe the kernel in the lab", source })?;
        let counters = match (&wire, conditions.place) {
            (_, Place::Shared) => Ok(Vec::new()),
            (None, Place::Private) => Reader::open().map(|reader| vec![reader]),
            (Some(wire), _) => Side::BOTH.into_iter().map(|side| wire.within(side, Reader::open)).collect(),
        };
        let counters = counters.map_err(|source| LabError::Step { doing: "open the lab's counters", source })?;
        Ok(Self { conditions: conditions.clone(), kernel, pinned, wire, counters })
    }

    /// The kernel's facts as they are in the lab.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The address that servers listen on.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        match self.wire {
            Some(_) => wire::address(Side::Server, self.conditions.family),
            None => loopback(self.conditions.family),
        }
    }

    /// A TCP socket of one side, congestion control reno. On a wire it is made in that side's namespace and stays there.
    ///
    /// # Errors
    ///
    /// What `socket` says.
    pub fn socket(&self, side: Side) -> io::Result<Socket> {
        let domain = match self.conditions.family {
            Family::V4 => Domain::IPV4,
            Family::V6 => Domain::IPV6,
        };
        let protocol = if self.conditions.mptcp { Protocol::MPTCP } else { Protocol::TCP };
        let make = || Socket::new(domain, Type::STREAM, Some(protocol));
        let socket = match &self.wire {
            Some(wire) => wire.within(side, make)?,
            None => make()?,
        };
        // reno is always built in and always allowed; where even that is refused the default has to do.
        if !self.conditions.settings.overrides("net.ipv4.tcp_congestion_control") {
            let _ = options::set_congestion_control(&socket, "reno");
        }
        Ok(socket)
    }

    /// A connected pair of sockets, blocking, for a question that is no exchange; `early` is set on both before the
    /// handshake.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn pair(&self, early: &[(SocketOption, i32)]) -> io::Result<Sides<Socket>> {
        let [listener, client] = [self.socket(Side::Server)?, self.socket(Side::Client)?];
        for (option, value) in early {
            options::set(&listener, *option, *value)?;
            options::set(&client, *option, *value)?;
        }
        listener.bind(&SocketAddr::new(self.address(), 0).into())?;
        listener.listen(1)?;
        client.connect(&listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        Ok(Sides { client, server })
    }

    /// Whether the namespace's counters move for this lab alone.
    #[must_use]
    pub fn owns_counters(&self) -> bool {
        self.conditions.place == Place::Private
    }

    /// Whether there is a wire between the sides.
    #[must_use]
    pub fn is_wire(&self) -> bool {
        self.wire.is_some()
    }

    /// Whether sockets are of Multipath TCP.
    #[must_use]
    pub fn is_mptcp(&self) -> bool {
        self.conditions.mptcp
    }

    /// The counters of the lab, those of both ends added up on a wire; `None` where others move them too.
    ///
    /// # Errors
    ///
    /// Where they cannot be read.
    pub fn counters(&self) -> io::Result<Option<Counters>> {
        let mut sum: Option<Counters> = None;
        for reader in &self.counters {
            let read = reader.read()?;
            sum = Some(match sum {
                None => read,
                Some(sum) => read.iter().map(|(name, value)| (name, value + sum.get(name).unwrap_or(0))).collect(),
            });
        }
        Ok(sum)
    }

    /// A few counters: of one side, which on loopback shares them with the other, or of both added up. `None` where
    /// others move them too, or where they cannot be read.
    #[must_use]
    pub fn counters_named(&self, side: Option<Side>, names: &[&'static str]) -> Option<Vec<Option<u64>>> {
        let (first, second) = match (self.counters.as_slice(), side) {
            ([], _) => return None,
            ([both] | [both, _], Some(Side::Client)) | ([both] | [_, both], Some(Side::Server)) => (both, None),
            ([first, rest @ ..], None) => (first, rest.first()),
            _ => return None,
        };
        let mut values = first.read_named(names).ok()?;
        if let Some(second) = second {
            for (value, other) in values.iter_mut().zip(second.read_named(names).ok()?) {
                *value = value.zip(other).map(|(value, other)| value + other);
            }
        }
        Some(values)
    }

    /// Request `number` begins, the first being 1: the losses of a wire that begin with it begin now.
    pub(crate) fn begin(&self, number: u32) {
        if let Some(wire) = &self.wire {
            wire.begin(number);
        }
    }

    /// Begins to record frames: of the wire where there is one, of the loopback otherwise.
    ///
    /// # Errors
    ///
    /// Where a packet socket is refused, as on the shared loopback of an ordinary user.
    pub(crate) fn record(&self) -> Result<Recording, LabError> {
        match &self.wire {
            Some(wire) => {
                wire.record(true);
                Ok(Recording(None))
            }
            None => Tap::open().map(|tap| Recording(Some(tap))),
        }
    }

    /// What passed since the last call: nothing at all on loopback without a recording.
    ///
    /// # Errors
    ///
    /// Where the wire or the recording itself lost something, so that nothing can be concluded.
    pub(crate) fn passage(&self, recording: Option<Recording>) -> Result<Passage, LabError> {
        match (&self.wire, recording) {
            (Some(wire), recording) => {
                if recording.is_some() {
                    // What is on its way arrives.
                    thread::sleep(wire.spec().delay.client.max(wire.spec().delay.server));
                    wire.record(false);
                }
                let passage = wire.passage()?;
                let forwarder::Faults { overflowed, unsent, malformed } = passage.faults;
                let faulty = passage.faults.any();
                if faulty { Err(LabError::Lossy { overflowed, unsent, malformed }) } else { Ok(passage) }
            }
            (None, Some(Recording(Some(tap)))) => Ok(Passage { frames: tap.finish()?, ..Passage::default() }),
            (None, _) => Ok(Passage::default()),
        }
    }

    /// The wire's delays as asked for.
    pub(crate) fn delay(&self) -> Option<Sides<Duration>> {
        self.wire.as_ref().map(|wire| wire.spec().delay)
    }

    /// What a record says of the lab.
    #[must_use]
    pub fn environment(&self) -> Environment {
        Environment {
            place: match (self.conditions.place, &self.wire) {
                (_, Some(_)) => "wire",
                (Place::Private, None) => "private namespace",
                (Place::Shared, None) => "shared loopback",
            }
            .to_owned(),
            family: match self.conditions.family {
                Family::V4 => "IPv4",
                Family::V6 => "IPv6",
            }
            .to_owned(),
            kernel: self.kernel.release.clone(),
            jiffy_us: self.kernel.jiffy_us,
            delayed_ack_us: u64::try_from(self.kernel.delayed_ack().as_micros()).unwrap_or(u64::MAX),
            pingpong_threshold: self.kernel.pingpong_threshold,
            pinned: self.pinned.clone(),
        }
    }
}

/// Frames being recorded, until [`Lab::passage`] asks for them.
#[derive(Debug)]
pub(crate) struct Recording(Option<Tap>);

/// Makes private labs possible for an ordinary user: puts the process into a user namespace of its own.
///
/// Call it first in `main`, while the process has one thread. Who may already make network namespaces stays where
/// they are. Where it fails, labs on the shared loopback still work.
///
/// # Errors
///
/// Where user namespaces are refused, or other threads run already.
pub fn enter() -> Result<(), LabError> {
    if namespace::may_unshare_network() {
        return Ok(());
    }
    match namespace::thread_count() {
        Ok(count) if count > 1 => Err(LabError::Threads(count)),
        _ => namespace::enter_user_namespace().map_err(LabError::Refused),
    }
}

/// Whether private labs can be had, tried by opening one.
///
/// # Errors
///
/// Why not, with the remedy.
pub fn available() -> Result<(), LabError> {
    Conditions::default().run(|_| ())
}

fn loopback(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}
