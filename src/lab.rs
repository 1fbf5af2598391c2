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
mod forwarder;
mod loss;
mod segment;
mod tap;
mod wire;

pub use loss::{Extent, Loss, Lost};
pub use wire::WireSpec;

pub(crate) use forwarder::{Passage, Passed};
pub(crate) use segment::Segment;

use crate::exchange::{Side, Sides};
use crate::kernel::Kernel;
use crate::observation::Environment;
use crate::sys::counters::{Counters, Reader};
use crate::sys::device::{self, RouteMetrics};
use crate::sys::options::{self, SocketOption};
use crate::sys::veth::{self, TokenBucket};
use crate::sys::{counters, namespace};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
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
    /// The wire or a capture lost frames that it was not asked to lose.
    #[error(
        "frames were lost that nobody asked to lose: {overflowed} in a full buffer, {unsent} not taken by the far end, {malformed} malformed \
         (repeat the trial, with fewer frames a second or a larger net.core.rmem_max)"
    )]
    Lossy {
        /// The receive buffer was full.
        overflowed: u64,
        /// The far end did not take them.
        unsent: u64,
        /// Without a time stamp, without a checksum, or longer than the link allows.
        malformed: u64,
    },
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
    /// `initcwnd` on the local route, segments.
    pub initcwnd: Option<u32>,
    /// A token bucket below TCP, on the client's end of a wire or on the loopback: unlike a wire's rate it gives the sender
    /// back pressure, so that autocorking happens on purpose.
    pub shaping: Option<TokenBucket>,
    /// Multipath TCP (RFC 8684) on both sides: each side's socket is then one over a single subflow.
    pub mptcp: bool,
    /// Client and server in namespaces of their own with a wire between them, instead of loopback. The MTU is then the
    /// wire's, and the route is each end's route to the other.
    pub wire: Option<WireSpec>,
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

    /// The same with `initcwnd` on the local route, segments: how many may leave before the first ACK.
    #[must_use]
    pub fn initcwnd(mut self, segments: u32) -> Self {
        self.initcwnd = Some(segments);
        self
    }

    /// The same with a token bucket below TCP.
    #[must_use]
    pub fn shaping(mut self, bucket: TokenBucket) -> Self {
        self.shaping = Some(bucket);
        self
    }

    /// The same over Multipath TCP.
    #[must_use]
    pub fn mptcp(mut self) -> Self {
        self.mptcp = true;
        self
    }

    /// The same over a wire.
    ///
    /// ```no_run
    /// use smallwrites::lab::{Conditions, WireSpec};
    /// use std::time::Duration;
    ///
    /// let place = Conditions::default().wire(WireSpec::new(Duration::from_millis(10))).run(|lab| lab.environment().place)?;
    /// assert_eq!(place, "wire");
    /// # Ok::<(), smallwrites::lab::LabError>(())
    /// ```
    #[must_use]
    pub fn wire(mut self, wire: WireSpec) -> Self {
        self.wire = Some(wire);
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
            (Place::Private, None) => (open_private(conditions)?, None),
            (Place::Private, Some(spec)) => {
                let (pinned, wire) = open_wire(conditions, spec)?;
                (pinned, Some(wire))
            }
            (Place::Shared, _) => (refuse_settings(conditions)?, None),
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

/// Runs `work` in a scoped thread, so that no thread ever has to come back from a lab's namespace.
fn in_thread<T: Send>(work: impl FnOnce() -> Result<T, LabError> + Send) -> Result<T, LabError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("lab".to_owned()).stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|source| LabError::Step { doing: "start a thread for a lab", source })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn open_private(conditions: &Conditions) -> Result<BTreeMap<String, String>, LabError> {
    enter_namespace()?;
    let mut pinned = prepare(conditions)?;
    if let Some(mtu) = conditions.mtu {
        let set = device::index_of("lo").and_then(|index| device::set_mtu(index, mtu));
        set.map_err(|source| setting("the loopback's MTU", &mtu.to_string(), source))?;
        pinned.insert("lo mtu".to_owned(), mtu.to_string());
    }
    if let Some(metrics) = metrics(conditions, &mut pinned) {
        device::replace_local_route(loopback(conditions.family), &metrics)
            .map_err(|source| setting("the local route's metrics", &format!("{metrics:?}"), source))?;
    }
    shape("lo", conditions, &mut pinned)?;
    Ok(pinned)
}

fn open_wire(conditions: &Conditions, spec: &WireSpec) -> Result<(BTreeMap<String, String>, Wire), LabError> {
    let mut pinned = BTreeMap::new();
    let wire = Wire::open(spec, conditions.family, || {
        pinned = prepare(conditions)?;
        Ok(())
    })?;
    wire.spec().describe(&mut pinned);
    if let Some(mtu) = conditions.mtu {
        wire.set_mtu(mtu).map_err(|source| setting("the wire's MTU", &mtu.to_string(), source))?;
        pinned.insert("wire mtu".to_owned(), mtu.to_string());
    }
    if let Some(metrics) = metrics(conditions, &mut pinned) {
        wire.set_metrics(conditions.family, &metrics)
            .map_err(|source| setting("the metrics of the wire's routes", &format!("{metrics:?}"), source))?;
    }
    shape(forwarder::DEVICE, conditions, &mut pinned)?;
    Ok((pinned, wire))
}

/// Puts the token bucket on a device of the thread's namespace, if there is to be one.
fn shape(name: &str, conditions: &Conditions, pinned: &mut BTreeMap<String, String>) -> Result<(), LabError> {
    if let Some(bucket) = conditions.shaping {
        let said = format!("{} B/s, burst {} B, limit {} B", bucket.rate, bucket.burst, bucket.limit);
        // The bucket drops what is longer than itself, again and again.
        let longest = conditions.mtu.unwrap_or(if conditions.wire.is_some() { 1_500 } else { 65_536 }) + 14;
        if bucket.burst < longest {
            let why = format!("a frame may have {longest} bytes; raise the burst or set a smaller MTU");
            return Err(setting("a token bucket", &said, io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let shaped = device::index_of(name).and_then(|index| veth::shape(index, bucket));
        shaped.map_err(|source| setting("a token bucket", &said, source))?;
        pinned.insert(format!("{name} tbf"), said);
    }
    if conditions.mptcp {
        pinned.insert("protocol".to_owned(), "MPTCP".to_owned());
    }
    Ok(())
}

/// Moves the thread into a new network namespace.
fn enter_namespace() -> Result<OwnedFd, LabError> {
    namespace::enter_network_namespace().map_err(|source| match namespace::thread_count() {
        Ok(count) if !namespace::may_unshare_network() && count > 2 => LabError::Threads(count - 1),
        _ => LabError::Refused(source),
    })
}

/// Brings up the loopback of the thread's namespace and sets its sysctls; says which.
fn prepare(conditions: &Conditions) -> Result<BTreeMap<String, String>, LabError> {
    device::index_of("lo")
        .and_then(device::set_up)
        .map_err(|source| LabError::Step { doing: "bring the loopback up", source })?;
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
    Ok(pinned)
}

/// What the routes are to say, if anything.
fn metrics(conditions: &Conditions, pinned: &mut BTreeMap<String, String>) -> Option<RouteMetrics> {
    let metrics = RouteMetrics {
        quickack: conditions.quickack_route,
        rto_min_ms: conditions.rto_min_ms,
        initcwnd: conditions.initcwnd,
    };
    if metrics.quickack {
        pinned.insert("route quickack".to_owned(), "1".to_owned());
    }
    if let Some(ms) = metrics.rto_min_ms {
        pinned.insert("route rto_min".to_owned(), format!("{ms}ms"));
    }
    if let Some(segments) = metrics.initcwnd {
        pinned.insert("route initcwnd".to_owned(), segments.to_string());
    }
    (metrics != RouteMetrics::default()).then_some(metrics)
}

fn refuse_settings(conditions: &Conditions) -> Result<BTreeMap<String, String>, LabError> {
    if !conditions.sysctls.is_empty() || conditions.settings.changed().iter().any(|one| one.origin == Origin::Override)
    {
        return Err(LabError::Shared("a sysctl of the lab's own"));
    }
    if conditions.mtu.is_some() {
        return Err(LabError::Shared("another MTU"));
    }
    if metrics(conditions, &mut BTreeMap::new()).is_some() {
        return Err(LabError::Shared("a route of the lab's own"));
    }
    if conditions.shaping.is_some() {
        return Err(LabError::Shared("a token bucket"));
    }
    if conditions.wire.is_some() {
        return Err(LabError::Shared("a wire"));
    }
    Ok(BTreeMap::new())
}

fn setting(name: &str, value: &str, source: io::Error) -> LabError {
    LabError::Setting { name: name.to_owned(), value: value.to_owned(), source }
}
