//! The conditions under which an exchange is played.

use super::{Lab, LabError, MODEL_PINS, Settings, WireSpec};
use crate::sys::veth::TokenBucket;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Stack of a lab's thread, bytes; it only plays.
const STACK: usize = 512 << 10;

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
    /// Sysctls to set in the lab, after [`PINS`](super::PINS).
    pub sysctls: Vec<(String, String)>,
    /// What the run sets in each of its labs before [`PINS`](super::PINS): the host's settings and the user's.
    pub settings: Settings,
    /// `quickack 1` on the local route.
    pub quickack_route: bool,
    /// `quickack 1` on the local route to 127.0.0.0/8, which the lab's address does not go by: it has one of its own.
    pub quickack_subnet: bool,
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

    /// The same with `quickack 1` on the local route to all of 127.0.0.0/8.
    #[must_use]
    pub fn quickack_subnet(mut self) -> Self {
        self.quickack_subnet = true;
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

/// Runs `work` in a scoped thread, so that no thread ever has to come back from a lab's namespace.
pub(super) fn in_thread<T: Send>(work: impl FnOnce() -> Result<T, LabError> + Send) -> Result<T, LabError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("lab".to_owned()).stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|source| LabError::Step { doing: "start a thread for a lab", source })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
