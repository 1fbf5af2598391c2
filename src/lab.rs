//! Where an exchange is played: a private network namespace, or the shared loopback.
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

mod settings;

pub use settings::{Changed, Origin, Settings};

use crate::exchange::{Side, Sides};
use crate::kernel::Kernel;
use crate::observation::Environment;
use crate::sys::device::{self, RouteMetrics};
use crate::sys::options::{self, SocketOption};
use crate::sys::{counters, namespace};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::thread;

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

/// Stack of a lab's thread, bytes; it only plays.
const STACK: usize = 512 << 10;

/// Why a lab cannot be had, with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// Namespaces are refused here.
    #[error(
        "no private namespace here: {0} (allow unprivileged user namespaces, run as root, or enter one first: unshare -Urn)"
    )]
    Refused(#[source] io::Error),
    /// The process started threads before it entered.
    #[error(
        "no private namespace: the process already has {0} threads (call lab::enter before any starts, or run under unshare -Urn)"
    )]
    Threads(usize),
    /// A setting could not be made.
    #[error("cannot set {name} to {value} in the lab: {source}")]
    Setting {
        /// The sysctl or option.
        name: String,
        /// The value wanted.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something that needs a private lab was asked of the shared loopback.
    #[error("{0} needs a private namespace, and this lab is the shared loopback")]
    Shared(&'static str),
    /// Any other refusal on the way.
    #[error("cannot {doing}: {source}")]
    Step {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Which loopback an exchange uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Place {
    /// A network namespace of its own.
    #[default]
    Private,
    /// The loopback of the namespace that the process is in; one lab at a time, nothing is set.
    Shared,
}

/// The version of IP underneath.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// The conditions under which an exchange is played.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// Which loopback.
    pub place: Place,
    /// Which version of IP.
    pub family: Family,
    /// MTU of the loopback device, bytes; its own (65,536) where `None`.
    pub mtu: Option<u32>,
    /// Sysctls to set in the lab, after [`PINS`].
    pub sysctls: Vec<(String, String)>,
    /// What the run sets in each of its labs before [`PINS`]: the host's settings and the user's.
    pub settings: Settings,
    /// `quickack 1` on the local route.
    pub quickack_route: bool,
    /// `rto_min` on the local route, milliseconds.
    pub rto_min_ms: Option<u32>,
}

impl Conditions {
    /// The shared loopback.
    #[must_use]
    pub fn shared() -> Self {
        Self { place: Place::Shared, ..Self::default() }
    }

    /// The same over IPv6.
    #[must_use]
    pub fn ipv6(mut self) -> Self {
        self.family = Family::V6;
        self
    }

    /// The same with another MTU on the loopback device.
    #[must_use]
    pub fn mtu(mut self, bytes: u32) -> Self {
        self.mtu = Some(bytes);
        self
    }

    /// The same with a sysctl set in the lab.
    #[must_use]
    pub fn sysctl(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.sysctls.push((name.into(), value.into()));
        self
    }

    /// The same with everything pinned that the model leaves out.
    #[must_use]
    pub fn pinned_for_model(self) -> Self {
        MODEL_PINS.iter().fold(self, |conditions, (name, value)| conditions.sysctl(*name, *value))
    }

    /// The same with `quickack 1` on the local route: every ACK is sent at once.
    #[must_use]
    pub fn quickack_route(mut self) -> Self {
        self.quickack_route = true;
        self
    }

    /// Opens a lab in a thread of its own, works in it, and closes it.
    ///
    /// Labs of this process run side by side, except on the shared loopback, where each waits for the one before.
    /// A panic in `work` goes on in the caller.
    ///
    /// # Errors
    ///
    /// Where the lab cannot be built as described.
    pub fn run<T: Send>(&self, work: impl FnOnce(&Lab) -> T + Send) -> Result<T, LabError> {
        static SHARED: Mutex<()> = Mutex::new(());
        let _alone = (self.place == Place::Shared).then(|| SHARED.lock().unwrap_or_else(PoisonError::into_inner));
        in_thread(|| Ok(work(&Lab::open(self)?)))
    }
}

/// A place to play, open for the thread that opened it and for the threads that this one starts.
#[derive(Debug)]
pub struct Lab {
    conditions: Conditions,
    kernel: Kernel,
    pinned: BTreeMap<String, String>,
}

impl Lab {
    /// Opens a lab for the calling thread, which stays in the lab's namespace ever after: use
    /// [`Conditions::run`] unless the thread is yours alone.
    ///
    /// # Errors
    ///
    /// Where the lab cannot be built as described.
    pub fn open(conditions: &Conditions) -> Result<Self, LabError> {
        let pinned = match conditions.place {
            Place::Private => open_private(conditions)?,
            Place::Shared => refuse_settings(conditions)?,
        };
        let kernel =
            Kernel::probe().map_err(|source| LabError::Step { doing: "probe the kernel in the lab", source })?;
        Ok(Self { conditions: conditions.clone(), kernel, pinned })
    }

    /// The kernel's facts as they are in the lab.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The address that servers listen on.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        loopback(self.conditions.family)
    }

    /// A TCP socket of one side, congestion control reno.
    ///
    /// # Errors
    ///
    /// What `socket` says.
    pub fn socket(&self, _side: Side) -> io::Result<Socket> {
        let domain = match self.conditions.family {
            Family::V4 => Domain::IPV4,
            Family::V6 => Domain::IPV6,
        };
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
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

    /// What a record says of the lab.
    #[must_use]
    pub fn environment(&self) -> Environment {
        Environment {
            place: match self.conditions.place {
                Place::Private => "private namespace",
                Place::Shared => "shared loopback",
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

/// Runs `work` in a scoped thread, so that no thread ever has to come back from a lab's namespace.
fn in_thread<T: Send>(work: impl FnOnce() -> Result<T, LabError> + Send) -> Result<T, LabError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("lab".to_owned()).stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|source| LabError::Step { doing: "start a thread for a lab", source })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn open_private(conditions: &Conditions) -> Result<BTreeMap<String, String>, LabError> {
    namespace::enter_network_namespace().map_err(|source| match namespace::thread_count() {
        Ok(count) if !namespace::may_unshare_network() && count > 2 => LabError::Threads(count - 1),
        _ => LabError::Refused(source),
    })?;
    let index =
        device::index_of("lo").map_err(|source| LabError::Step { doing: "find the loopback device", source })?;
    if let Some(mtu) = conditions.mtu {
        device::set_mtu(index, mtu).map_err(|source| setting("the loopback's MTU", &mtu.to_string(), source))?;
    }
    device::set_up(index).map_err(|source| LabError::Step { doing: "bring the loopback up", source })?;

    let mut pinned = conditions.settings.apply()?;
    for (name, value) in PINS {
        // A kernel without the setting has nothing to pin, and what the user asked for is what is measured.
        if !conditions.settings.overrides(name) && counters::sysctl(name).is_ok() {
            counters::set_sysctl(name, value).map_err(|source| setting(name, value, source))?;
            pinned.insert(name.to_owned(), value.to_owned());
        }
    }
    for (name, value) in &conditions.sysctls {
        counters::set_sysctl(name, value).map_err(|source| setting(name, value, source))?;
        pinned.insert(name.clone(), value.clone());
    }
    if conditions.quickack_route || conditions.rto_min_ms.is_some() {
        let metrics = RouteMetrics {
            quickack: conditions.quickack_route,
            rto_min_ms: conditions.rto_min_ms,
            ..Default::default()
        };
        device::replace_local_route(loopback(conditions.family), &metrics)
            .map_err(|source| setting("the local route's metrics", &format!("{metrics:?}"), source))?;
        if conditions.quickack_route {
            pinned.insert("route quickack".to_owned(), "1".to_owned());
        }
        if let Some(ms) = conditions.rto_min_ms {
            pinned.insert("route rto_min".to_owned(), format!("{ms}ms"));
        }
    }
    if let Some(mtu) = conditions.mtu {
        pinned.insert("lo mtu".to_owned(), mtu.to_string());
    }
    Ok(pinned)
}

fn refuse_settings(conditions: &Conditions) -> Result<BTreeMap<String, String>, LabError> {
    if !conditions.sysctls.is_empty() || conditions.settings.changed().iter().any(|one| one.origin == Origin::Override)
    {
        return Err(LabError::Shared("a sysctl of the lab's own"));
    }
    if conditions.mtu.is_some() {
        return Err(LabError::Shared("another MTU"));
    }
    if conditions.quickack_route || conditions.rto_min_ms.is_some() {
        return Err(LabError::Shared("a route of the lab's own"));
    }
    Ok(BTreeMap::new())
}

fn setting(name: &str, value: &str, source: io::Error) -> LabError {
    LabError::Setting { name: name.to_owned(), value: value.to_owned(), source }
}
