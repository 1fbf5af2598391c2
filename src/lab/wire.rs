//! Two private namespaces with a wire between them: the client in one, the server in the other.
//!
//! Loopback delivers inside `send`, so what a rule costs in round trips cannot be seen there. A wire has a delay
//! in each direction, and everything on it passes one thread that can lose frames, limit the rate and keep a record.

use super::forwarder::{self, DEVICE, Forwarder, Passage};
use super::loss::Loss;
use super::{Family, LabError};
use crate::exchange::{Side, Sides};
use crate::sys::device::{self, RouteMetrics};
use crate::sys::{counters, namespace, veth};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// What a wire is like. Both values of a direction are those of what that side sends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WireSpec {
    /// How long each side's frames take. They are never early, and late by what the machine's load costs.
    pub delay: Sides<Duration>,
    /// Bits a second that each side's frames may take, headers included; `None` for no limit. Nothing is lost for
    /// it and the sender feels no back pressure.
    pub rate: Sides<Option<u64>>,
    /// Frames that it loses on purpose.
    pub losses: Vec<Loss>,
}

impl WireSpec {
    /// A wire with the same delay in both directions, which loses nothing.
    ///
    /// ```
    /// use smallwrites::lab::WireSpec;
    /// use std::time::Duration;
    ///
    /// let wire = WireSpec::new(Duration::from_millis(10));
    /// assert_eq!(wire.round_trip(), Duration::from_millis(20));
    /// ```
    #[must_use]
    pub fn new(delay: Duration) -> Self {
        Self { delay: Sides { client: delay, server: delay }, ..Self::default() }
    }

    /// The same with another delay for what one side sends.
    #[must_use]
    pub fn delay(mut self, from: Side, delay: Duration) -> Self {
        self.delay[from] = delay;
        self
    }

    /// The same with a limit for what one side sends, bits a second.
    #[must_use]
    pub fn rate(mut self, from: Side, bits_per_second: u64) -> Self {
        self.rate[from] = Some(bits_per_second);
        self
    }

    /// The same with frames lost on purpose.
    #[must_use]
    pub fn losing(mut self, loss: Loss) -> Self {
        self.losses.push(loss);
        self
    }

    /// Both delays together.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        self.delay.client + self.delay.server
    }

    /// What a record says of it.
    pub(super) fn describe(&self, pinned: &mut BTreeMap<String, String>) {
        for side in Side::BOTH {
            pinned.insert(format!("wire delay from the {side}"), format!("{:?}", self.delay[side]));
            if let Some(rate) = self.rate[side] {
                pinned.insert(format!("wire rate from the {side}"), format!("{rate} bit/s"));
            }
        }
        if !self.losses.is_empty() {
            let losses: Vec<String> = self.losses.iter().map(ToString::to_string).collect();
            pinned.insert("wire loses".to_owned(), losses.join("; "));
        }
    }
}

/// A wire, its ends' namespaces and its thread. The calling thread is in the client's namespace.
#[derive(Debug)]
pub(super) struct Wire {
    namespaces: Sides<OwnedFd>,
    forwarder: Forwarder,
    spec: WireSpec,
}

impl Wire {
    /// Makes both namespaces and everything between them. `prepare` is called in each end's namespace while its
    /// device is down.
    pub(super) fn open(
        spec: &WireSpec,
        family: Family,
        mut prepare: impl FnMut() -> Result<(), LabError>,
    ) -> Result<Self, LabError> {
        let mut end = || {
            let namespace = super::setup::enter_namespace()?;
            quiet(family).map_err(|source| LabError::Step { doing: "keep IPv6 quiet on the wire", source })?;
            prepare()?;
            Ok(namespace)
        };
        let server = end()?;
        let client = end()?;
        let namespaces = Sides { client, server };
        let forwarder = Forwarder::start(spec, &namespaces)?;
        let wire = Self { namespaces, forwarder, spec: spec.clone() };
        for side in Side::BOTH {
            let plugged = wire.within(side, || plug_in(side, family));
            plugged.map_err(|source| LabError::Step { doing: "configure an end of the wire", source })?;
        }
        Ok(wire)
    }

    pub(super) fn spec(&self) -> &WireSpec {
        &self.spec
    }

    /// Works in one side's namespace. What is made there stays there.
    pub(super) fn within<T>(&self, side: Side, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if side == Side::Client {
            return work();
        }
        namespace::join_network_namespace(&self.namespaces[side])?;
        let done = work();
        namespace::join_network_namespace(&self.namespaces.client)?;
        done
    }

    /// Sets both ends' MTU, bytes.
    pub(super) fn set_mtu(&self, bytes: u32) -> io::Result<()> {
        Side::BOTH
            .into_iter()
            .try_for_each(|side| self.within(side, || device::set_mtu(device::index_of(DEVICE)?, bytes)))
    }

    /// Gives both ends' route to the other these metrics.
    pub(super) fn set_metrics(&self, family: Family, metrics: &RouteMetrics) -> io::Result<()> {
        Side::BOTH.into_iter().try_for_each(|side| {
            let (to, from) = (address(side.peer(), family), address(side, family));
            self.within(side, || device::add_link_route(to, from, device::index_of(DEVICE)?, metrics))
        })
    }

    /// The losses that begin with a request begin now.
    pub(super) fn begin(&self, request: u32) {
        if !self.spec.losses.is_empty() {
            let begun = self.spec.losses.iter().enumerate().filter(|(_, loss)| loss.request <= request);
            self.forwarder.arm(begun.map(|(index, _)| index));
        }
    }

    pub(super) fn record(&self, on: bool) {
        self.forwarder.record(on);
    }

    pub(super) fn passage(&self) -> Result<Passage, LabError> {
        self.forwarder.passage()
    }
}

/// The address of an end.
pub(super) fn address(side: Side, family: Family) -> IpAddr {
    let host = match side {
        Side::Client => 1,
        Side::Server => 2,
    };
    match family {
        Family::V4 => Ipv4Addr::new(10, 77, 0, host).into(),
        Family::V6 => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host.into()).into(),
    }
}

/// Nothing but what is played may cross the wire.
fn quiet(family: Family) -> io::Result<()> {
    if family == Family::V4 {
        return forwarder::quiet_ipv6();
    }
    // No link-local address, and with it no report of its groups; no detection of duplicates; no question for a router.
    for (name, value) in [("addr_gen_mode", "1"), ("accept_dad", "0"), ("router_solicitations", "0")] {
        counters::set_sysctl(&format!("net.ipv6.conf.default.{name}"), value)?;
    }
    Ok(())
}

fn plug_in(side: Side, family: Family) -> io::Result<()> {
    let index = device::index_of(DEVICE)?;
    veth::disable_tx_checksum(DEVICE)?;
    let prefix = match family {
        Family::V4 => 24,
        Family::V6 => 64,
    };
    device::add_address(index, address(side, family), prefix)?;
    device::set_up(index)?;
    veth::add_permanent_neighbour(index, address(side.peer(), family), forwarder::mac(side.peer()))
}
