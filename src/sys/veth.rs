//! A cable between two network namespaces: a pair of virtual Ethernet devices
//! (veth(4)), and what must be set on its ends before TCP behaves on it as on
//! a real one.
//!
//! A veth leaves checksums and segmentation to its receiver, who is the same
//! kernel. As soon as somebody copies frames between two pairs that must be
//! turned off on the sending ends, or the far kernel drops every segment:
//! [`disable_tx_checksum`]. Nor should address resolution share the wire with
//! the measurement: [`add_permanent_neighbour`].

use std::{
    io,
    net::IpAddr,
    os::fd::{AsFd, AsRawFd},
};

use netlink_packet_core::DefaultNla;
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkInfo, LinkMessage},
    neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState},
    tc::{TcAttribute, TcHandle, TcMessage, TcOption},
};
use socket2::{Domain, Socket, Type};

use super::{
    check, context,
    device::{family, index_of, request},
    malformed,
    netlink::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE},
};

/// One end of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End<'a> {
    /// The device's name, at most 15 bytes. It need only be unique in its
    /// namespace.
    pub name: &'a str,
    /// Its hardware address. The lowest bit of the first byte must be 0 and the
    /// second lowest should be 1 ("locally administered").
    pub mac: [u8; 6],
}

/// Makes a pair with the `near` end in this thread's namespace and the `far`
/// one in another, and returns the index of the near end. Both are down.
///
/// The far end is born in its namespace, so nothing is ever moved and its name
/// may be one that is taken here.
///
/// # Errors
///
/// `AlreadyExists` where a name is taken, `Unsupported` where the kernel has no
/// veth, `PermissionDenied` without `CAP_NET_ADMIN` over both namespaces.
///
/// # Examples
///
/// ```no_run
/// use smallwrites::sys::{device, namespace, veth};
///
/// # std::thread::spawn(|| -> std::io::Result<()> {
/// let far_side = namespace::enter_network_namespace()?;
/// namespace::enter_network_namespace()?;
/// let near = veth::End { name: "near", mac: [2, 0, 0, 0, 0, 1] };
/// let far = veth::End { name: "far", mac: [2, 0, 0, 0, 0, 2] };
/// let index = veth::create_pair(near, far, &far_side)?;
/// device::set_up(index)?;
/// # Ok(())
/// # }).join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn create_pair(near: End<'_>, far: End<'_>, far_side: impl AsFd) -> io::Result<u32> {
    let mut peer = end(far);
    peer.attributes.push(LinkAttribute::NetNsFd(far_side.as_fd().as_raw_fd()));
    let mut link = end(near);
    link.attributes.push(LinkAttribute::LinkInfo(vec![
        LinkInfo::Kind(InfoKind::Veth),
        LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
    ]));
    request(RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL)
        .map_err(|error| context(error, format!("create the veth pair {:?} and {:?}", near.name, far.name)))?;
    index_of(near.name)
}

/// Turns off transmit checksum offload on a device of this thread's namespace
/// by name, and makes sure that it is off: `ethtool -K NAME tx off`.
///
/// The kernel then gives up segmentation offload as well, so no frame exceeds
/// the MTU.
///
/// # Errors
///
/// The kernel's own, `Unsupported` where the device keeps it on.
pub fn disable_tx_checksum(name: &str) -> io::Result<()> {
    const ETHTOOL_GTXCSUM: u32 = 0x16;
    const ETHTOOL_STXCSUM: u32 = 0x17;
    let doing = |error| context(error, format!("turn off transmit checksum offload on {name:?}"));
    ethtool(name, ETHTOOL_STXCSUM, 0).map_err(doing)?;
    if ethtool(name, ETHTOOL_GTXCSUM, 0).map_err(doing)? != 0 {
        return Err(doing(io::Error::new(io::ErrorKind::Unsupported, "the device keeps it on")));
    }
    Ok(())
}

/// Tells a device which hardware address an IP address has, for good, so that
/// it never asks: `ip neighbour replace ADDRESS lladdr MAC nud permanent`.
///
/// # Errors
///
/// `PermissionDenied` without `CAP_NET_ADMIN`, `NetworkDown` on an IPv6 address
/// while the device is down.
pub fn add_permanent_neighbour(index: u32, address: IpAddr, mac: [u8; 6]) -> io::Result<()> {
    let mut neighbour = NeighbourMessage::default();
    neighbour.header.family = family(address);
    neighbour.header.ifindex = index;
    neighbour.header.state = NeighbourState::Permanent;
    let destination = match address {
        IpAddr::V4(address) => NeighbourAddress::Inet(address),
        IpAddr::V6(address) => NeighbourAddress::Inet6(address),
    };
    neighbour.attributes =
        vec![NeighbourAttribute::Destination(destination), NeighbourAttribute::LinkLayerAddress(mac.to_vec())];
    request(RouteNetlinkMessage::NewNeighbour(neighbour), NLM_F_CREATE | NLM_F_REPLACE)
        .map_err(|error| context(error, format!("add neighbour {address} to device {index}")))
}

/// A token bucket (tc-tbf(8)) for [`shape`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    /// The rate, bytes a second.
    pub rate: u32,
    /// How much may leave at once, bytes. A frame longer than this is dropped,
    /// so keep it at the longest (1514 on Ethernet) or above.
    pub burst: u32,
    /// How much may wait, bytes; what comes on top is dropped.
    pub limit: u32,
}

/// Lets a device send no faster than a token bucket allows: `tc qdisc replace
/// dev DEVICE root tbf ...`.
///
/// Unlike a slow wire, which lets go of a buffer at once, it gives the sender
/// back pressure: it is what makes autocorking happen on purpose.
///
/// # Errors
///
/// `NotFound` where the kernel has no `tbf`, `InvalidInput` for a rate of 0,
/// `PermissionDenied` without `CAP_NET_ADMIN`.
pub fn shape(index: u32, bucket: TokenBucket) -> io::Result<()> {
    const TCA_TBF_PARMS: u16 = 1;
    const TCA_TBF_BURST: u16 = 6;
    let doing = |error| context(error, format!("put a token bucket on device {index}"));
    if bucket.rate == 0 {
        return Err(doing(io::Error::new(io::ErrorKind::InvalidInput, "a rate of 0 sends nothing")));
    }
    let index = i32::try_from(index).map_err(|_| doing(malformed(format!("device index {index} is too large"))))?;
    let mut message = TcMessage::default();
    message.header.index = index;
    message.header.parent = TcHandle::ROOT;
    message.attributes = vec![
        TcAttribute::Kind("tbf".to_owned()),
        TcAttribute::Options(vec![
            TcOption::Other(DefaultNla::new(TCA_TBF_PARMS, bucket.parameters())),
            // In bytes; the one inside the parameters is in scheduler ticks.
            TcOption::Other(DefaultNla::new(TCA_TBF_BURST, bucket.burst.to_ne_bytes().into())),
        ]),
    ];
    request(RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_REPLACE).map_err(doing)
}

impl TokenBucket {
    /// `struct tc_tbf_qopt` (include/uapi/linux/pkt_sched.h).
    fn parameters(self) -> Vec<u8> {
        const TC_LINKLAYER_ETHERNET: u8 = 1;
        const RATESPEC: usize = 12;
        let mut bytes = Vec::with_capacity(2 * RATESPEC + 12);
        // struct tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu,
        // rate. With a link layer named the kernel computes what older ones
        // took from a rate table, so no table is sent.
        bytes.extend([0, TC_LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0]);
        bytes.extend(self.rate.to_ne_bytes());
        // No peak rate.
        bytes.extend([0; RATESPEC]);
        for word in [self.limit, 0, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes
    }
}

fn end(end: End<'_>) -> LinkMessage {
    let mut link = LinkMessage::default();
    link.attributes = vec![LinkAttribute::IfName(end.name.to_owned()), LinkAttribute::Address(end.mac.into())];
    link
}

/// `SIOCETHTOOL` with a `struct ethtool_value`; returns the value afterwards.
fn ethtool(name: &str, command: u32, value: u32) -> io::Result<u32> {
    #[repr(C)]
    struct EthtoolValue {
        command: u32,
        value: u32,
    }
    let mut value = EthtoolValue { command, value };
    let mut characters = [0; libc::IFNAMSIZ];
    if name.len() >= characters.len() || name.bytes().any(|byte| byte == 0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a device name"));
    }
    for (into, byte) in characters.iter_mut().zip(name.bytes()) {
        *into = byte as libc::c_char;
    }
    let mut request = libc::ifreq {
        ifr_name: characters,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut value).cast() },
    };
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    // SAFETY: the socket is open; the kernel reads the request and reads and
    // writes the value it points to, which both outlive the call and have the
    // layout these two commands take.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &raw mut request) })?;
    Ok(value.value)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
        os::fd::OwnedFd,
        thread,
        time::Duration,
    };

    use super::*;
    use crate::sys::{
        capture::{Capture, Settings},
        counters,
        device::{self, tests::in_private_namespace},
        namespace,
    };

    const NEAR: End<'_> = End { name: "cable", mac: [2, 0, 0, 0, 0, 1] };
    const FAR: End<'_> = End { name: "cable", mac: [2, 0, 0, 0, 0, 2] };
    const NEAR_IP: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
    const FAR_IP: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

    fn prepare(index: u32, own: Ipv4Addr, other: Ipv4Addr, mac: [u8; 6]) {
        device::add_address(index, own.into(), 24).unwrap();
        device::set_up(index).unwrap();
        add_permanent_neighbour(index, other.into(), mac).unwrap();
    }

    /// Runs `body` on the near side of a pair that works, with its index and a
    /// handle of the far side.
    fn on_a_cable(body: impl FnOnce(u32, OwnedFd) + Send) {
        in_private_namespace(|| {
            let quiet = || counters::set_sysctl("net.ipv6.conf.default.disable_ipv6", "1");
            let far_side = namespace::network_namespace().unwrap();
            quiet().unwrap();
            namespace::enter_network_namespace().unwrap();
            quiet().unwrap();
            // BBR sends single segments while it takes the path for slow.
            counters::set_sysctl("net.ipv4.tcp_congestion_control", "reno").unwrap();
            let index = create_pair(NEAR, FAR, &far_side).unwrap();
            over_there(&far_side, || {
                prepare(index_of(FAR.name).unwrap(), FAR_IP, NEAR_IP, NEAR.mac);
            });
            prepare(index, NEAR_IP, FAR_IP, FAR.mac);
            body(index, far_side);
        });
    }

    fn over_there<T: Send>(side: &OwnedFd, body: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let there = scope.spawn(|| {
                namespace::join_network_namespace(side).unwrap();
                body()
            });
            there.join().unwrap()
        })
    }

    fn connect(far_side: &OwnedFd) -> (TcpStream, TcpStream) {
        let listener = over_there(far_side, || TcpListener::bind((FAR_IP, 0)).unwrap());
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_connection_crosses_with_the_macs_given_and_no_other_frame() {
        on_a_cable(|index, far_side| {
            let mut capture = Capture::open(index, Settings::default()).unwrap();
            let (mut client, mut server) = connect(&far_side);
            client.write_all(b"across").unwrap();
            let mut got = [0; 6];
            server.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"across");
            let frames = capture.drain().unwrap();
            assert!(frames.len() >= 4, "SYN, SYN-ACK, ACK and data: {frames:?}");
            for frame in frames {
                let (to, from) = if frame.outgoing { (FAR.mac, NEAR.mac) } else { (NEAR.mac, FAR.mac) };
                assert_eq!((&frame.bytes[..6], &frame.bytes[6..12]), (&to[..], &from[..]));
                assert_eq!(&frame.bytes[12..14], &[8, 0], "IPv4 and no ARP: {frame:?}");
            }
        });
    }

    #[test]
    fn without_offload_checksums_are_done_and_no_frame_exceeds_the_mtu() {
        on_a_cable(|index, far_side| {
            // A new capture each time: the FIN of the first connection is still
            // sent with the offload on.
            let outgoing = || {
                let mut capture = Capture::open(index, Settings::default()).unwrap();
                let (mut client, mut server) = connect(&far_side);
                client.write_all(&[7; 8000]).unwrap();
                server.read_exact(&mut [0; 8000]).unwrap();
                let mut frames = capture.drain().unwrap();
                frames.retain(|frame| frame.outgoing);
                frames
            };
            let with = outgoing();
            assert!(with.iter().all(|frame| !frame.checksum_ready));
            assert!(with.iter().any(|frame| frame.wire_length > 1514));
            disable_tx_checksum(NEAR.name).unwrap();
            let without = outgoing();
            assert!(without.iter().all(|frame| frame.checksum_ready));
            assert!(without.iter().all(|frame| frame.wire_length <= 1514));
        });
    }

    #[test]
    fn a_token_bucket_spreads_a_burst() {
        on_a_cable(|index, far_side| {
            // 10 frames of 1042 bytes, one of which the bucket holds, at
            // 104200 bytes a second: 9 waits of 10 ms.
            let bucket = TokenBucket { rate: 104_200, burst: 1514, limit: 1 << 20 };
            shape(index, bucket).unwrap();
            let receiver = over_there(&far_side, || UdpSocket::bind((FAR_IP, 0)).unwrap());
            receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let far_index = over_there(&far_side, || index_of(FAR.name).unwrap());
            let mut capture = over_there(&far_side, || Capture::open(far_index, Settings::default()).unwrap());
            let sender = UdpSocket::bind((NEAR_IP, 0)).unwrap();
            for _ in 0..10 {
                sender.send_to(&[0; 1000], receiver.local_addr().unwrap()).unwrap();
            }
            for _ in 0..10 {
                receiver.recv(&mut [0; 1500]).unwrap();
            }
            let frames = capture.drain().unwrap();
            assert_eq!(frames.len(), 10);
            let spread = frames[9].stamp - frames[0].stamp;
            assert!(spread > Duration::from_millis(80), "{spread:?}");
        });
    }

    #[test]
    fn a_rate_of_nothing_is_refused_before_the_kernel_is_asked() {
        let bucket = TokenBucket { rate: 0, burst: 1514, limit: 1 << 20 };
        let error = shape(1, bucket).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn names_that_are_taken_or_absent_are_named_in_the_error() {
        on_a_cable(|_, far_side| {
            let error = create_pair(NEAR, FAR, &far_side).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{error}");
            let error = disable_tx_checksum("absent").unwrap_err();
            assert_eq!(crate::sys::errno(&error), Some(libc::ENODEV), "{error}");
            assert!(error.to_string().contains("absent"), "{error}");
        });
        assert!(disable_tx_checksum("a-name-too-long-for-a-device").is_err());
    }
}
