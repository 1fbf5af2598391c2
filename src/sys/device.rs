//! Network devices, their addresses, and the metrics of a host's own route
//! (rtnetlink(7)). Everything acts in the namespace the calling thread is in.

use std::{
    ffi::CString,
    io,
    net::{IpAddr, Ipv4Addr},
};

use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope},
    link::{LinkAttribute, LinkFlags, LinkMessage},
    route::{
        RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
    },
};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::{
    context,
    netlink::{self, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE},
};

/// The index of a device by name (if_nametoindex(3)).
///
/// # Errors
///
/// `ENODEV` where there is none of that name in this namespace.
pub fn index_of(name: &str) -> io::Result<u32> {
    let c_name = CString::new(name)?;
    // SAFETY: the name is a terminated string that outlives the call.
    match unsafe { libc::if_nametoindex(c_name.as_ptr()) } {
        0 => Err(context(io::Error::last_os_error(), format!("find device {name:?}"))),
        index => Ok(index),
    }
}

/// Brings a device up. A new namespace has `lo` down.
///
/// # Errors
///
/// `PermissionDenied` without `CAP_NET_ADMIN`.
///
/// # Examples
///
/// ```no_run
/// use smallwrites::sys::{device, namespace};
///
/// # std::thread::spawn(|| -> std::io::Result<()> {
/// namespace::enter_network_namespace()?;
/// device::set_up(device::index_of("lo")?)?;
/// // 127.0.0.1 and ::1 exist now.
/// # Ok(())
/// # }).join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn set_up(index: u32) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = index;
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    request(RouteNetlinkMessage::SetLink(link), 0).map_err(|error| context(error, format!("bring device {index} up")))
}

/// Sets a device's MTU, bytes of an IP packet.
///
/// # Errors
///
/// `InvalidInput` outside what the device can do, `PermissionDenied` without
/// `CAP_NET_ADMIN`.
pub fn set_mtu(index: u32, bytes: u32) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = index;
    link.attributes.push(LinkAttribute::Mtu(bytes));
    request(RouteNetlinkMessage::SetLink(link), 0)
        .map_err(|error| context(error, format!("set MTU {bytes} on device {index}")))
}

/// Gives a device an address. An IPv6 one is usable at once: duplicate address
/// detection is off for it.
///
/// # Errors
///
/// `AlreadyExists` where the device has it, `PermissionDenied` without
/// `CAP_NET_ADMIN`.
pub fn add_address(index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.family = family(address);
    message.header.prefix_len = prefix;
    message.header.scope = if address.is_loopback() { AddressScope::Host } else { AddressScope::Universe };
    if address.is_ipv6() {
        message.header.flags = AddressHeaderFlags::Nodad;
    }
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
        .map_err(|error| context(error, format!("add address {address}/{prefix} to device {index}")))
}

/// What a route tells the connections over it (`RTAX_*`, ip-route(8)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouteMetrics {
    /// `quickack 1`: no delayed acknowledgements.
    pub quickack: bool,
    /// `rto_min`, milliseconds: the least retransmission timeout, locked as
    /// ip(8) locks it, for unlocked the kernel ignores it. It also bounds
    /// the delay of acknowledgements on newer kernels.
    pub rto_min_ms: Option<u32>,
    /// `initcwnd`, segments: the congestion window to begin with.
    pub initcwnd: Option<u32>,
}

impl RouteMetrics {
    fn attributes(&self) -> Vec<RouteMetric> {
        const RTAX_RTO_MIN: u32 = 13;
        let mut metrics = Vec::new();
        if let Some(milliseconds) = self.rto_min_ms {
            metrics.push(RouteMetric::Lock(1 << RTAX_RTO_MIN));
            metrics.push(RouteMetric::RtoMin(milliseconds));
        }
        if let Some(segments) = self.initcwnd {
            metrics.push(RouteMetric::InitCwnd(segments));
        }
        if self.quickack {
            metrics.push(RouteMetric::QuickAck(1));
        }
        metrics
    }
}

/// Gives the host's route to its own `address` over `lo` these metrics, for
/// connections made afterwards: `ip route replace local ADDRESS dev lo table
/// local ...`. With the default metrics it undoes that.
///
/// IPv4's own entry is replaced in place. IPv6 tells routes apart by priority
/// and keeps the kernel's at 0, which an added route cannot have, so there the
/// new route is added and the kernel's removed.
///
/// # Errors
///
/// `PermissionDenied` without `CAP_NET_ADMIN`.
///
/// # Examples
///
/// ```no_run
/// use smallwrites::sys::device::{RouteMetrics, replace_local_route};
///
/// let metrics = RouteMetrics { quickack: true, ..RouteMetrics::default() };
/// replace_local_route([127, 0, 0, 1].into(), &metrics)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn replace_local_route(address: IpAddr, metrics: &RouteMetrics) -> io::Result<()> {
    let doing = |error| context(error, format!("replace the local route to {address}"));
    let loopback = index_of("lo").map_err(doing)?;
    let mut route = local_route(address, loopback);
    if address.is_ipv4() {
        // As the kernel's own entries have it. Without it an unbound socket
        // would connect to 127.0.0.5 from 127.0.0.5 and no longer from
        // 127.0.0.1.
        let source = if address.is_loopback() { Ipv4Addr::LOCALHOST.into() } else { address };
        route.attributes.push(RouteAttribute::PrefSource(source.into()));
    }
    let metrics = metrics.attributes();
    if !metrics.is_empty() {
        route.attributes.push(RouteAttribute::Metrics(metrics));
    }
    request(RouteNetlinkMessage::NewRoute(route), NLM_F_CREATE | NLM_F_REPLACE).map_err(doing)?;
    if address.is_ipv6() {
        remove_kernel_route(address).map_err(doing)?;
    }
    Ok(())
}

/// Gives the local route to all of 127.0.0.0/8 these metrics. An address with a local route of its own goes by that one,
/// and a device's address has one.
///
/// # Errors
///
/// `PermissionDenied` without `CAP_NET_ADMIN`.
pub fn replace_loopback_subnet(metrics: &RouteMetrics) -> io::Result<()> {
    let doing = |error| context(error, "replace the local route to 127.0.0.0/8");
    let mut route = local_route(Ipv4Addr::new(127, 0, 0, 0).into(), index_of("lo").map_err(doing)?);
    route.header.destination_prefix_length = 8;
    route.attributes.push(RouteAttribute::PrefSource(IpAddr::from(Ipv4Addr::LOCALHOST).into()));
    route.attributes.push(RouteAttribute::Metrics(metrics.attributes()));
    request(RouteNetlinkMessage::NewRoute(route), NLM_F_CREATE | NLM_F_REPLACE).map_err(doing)
}

/// Adds a host route to a neighbour `address` on a device, with these metrics: `ip route replace ADDRESS/32 dev
/// DEVICE src SOURCE scope link ...`. Being more specific it goes before the device's own subnet.
///
/// # Errors
///
/// `NetworkDown` where the device is down, `PermissionDenied` without
/// `CAP_NET_ADMIN`.
pub fn add_link_route(address: IpAddr, source: IpAddr, device: u32, metrics: &RouteMetrics) -> io::Result<()> {
    let mut route = RouteMessage::default();
    route.header = RouteHeader {
        table: libc::RT_TABLE_MAIN,
        scope: if address.is_ipv4() { RouteScope::Link } else { RouteScope::Universe },
        kind: RouteType::Unicast,
        ..local_route(address, device).header
    };
    route.attributes = vec![
        RouteAttribute::Destination(RouteAddress::from(address)),
        RouteAttribute::Oif(device),
        RouteAttribute::PrefSource(source.into()),
        RouteAttribute::Metrics(metrics.attributes()),
    ];
    request(RouteNetlinkMessage::NewRoute(route), NLM_F_CREATE | NLM_F_REPLACE)
        .map_err(|error| context(error, format!("add a route to {address} on device {device}")))
}

fn local_route(address: IpAddr, device: u32) -> RouteMessage {
    let mut route = RouteMessage::default();
    route.header = RouteHeader {
        address_family: family(address),
        destination_prefix_length: if address.is_ipv4() { 32 } else { 128 },
        table: libc::RT_TABLE_LOCAL,
        // Not `Kernel`: that tells ours from the kernel's, see below.
        protocol: RouteProtocol::Static,
        scope: RouteScope::Host,
        kind: RouteType::Local,
        ..RouteHeader::default()
    };
    route.attributes = vec![RouteAttribute::Destination(RouteAddress::from(address)), RouteAttribute::Oif(device)];
    route
}

fn remove_kernel_route(address: IpAddr) -> io::Result<()> {
    let mut route = RouteMessage::default();
    route.header = RouteHeader { protocol: RouteProtocol::Kernel, ..local_route(address, 0).header };
    route.attributes = vec![RouteAttribute::Destination(RouteAddress::from(address))];
    match request(RouteNetlinkMessage::DelRoute(route), 0) {
        // Removed by an earlier call.
        Err(error) if super::errno(&error) == Some(libc::ESRCH) => Ok(()),
        other => other,
    }
}

pub(super) fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

/// Sends one rtnetlink message and waits for its acknowledgement.
pub(super) fn request(message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    netlink::request(NETLINK_ROUTE, message, NLM_F_ACK | flags, |_, _| Ok(())).map_err(|error| {
        if error.kind() == io::ErrorKind::PermissionDenied {
            context(error, "needs CAP_NET_ADMIN over the network namespace")
        } else {
            error
        }
    })
}

#[cfg(test)]
pub(super) mod tests;
