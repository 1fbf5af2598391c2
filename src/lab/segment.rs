//! The TCP segment inside a frame.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};

/// What is of interest of one TCP segment; sequence numbers as they stand in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) psh: bool,
    /// The field of the header, unscaled.
    pub(crate) window: u16,
    /// The window scale that a SYN offers.
    pub(crate) scale: Option<u8>,
    /// Bytes of the IP and TCP headers with their options.
    pub(crate) headers: u32,
    pub(crate) payload: u32,
}

impl Segment {
    /// Reads a frame from its Ethernet header on; `None` for anything but a whole TCP segment.
    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        let packet = SlicedPacket::from_ethernet(frame).ok()?;
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { return None };
        let ip = match packet.net? {
            NetSlice::Ipv4(ip) => u32::from(ip.header().total_len()),
            NetSlice::Ipv6(ip) => 40 + u32::from(ip.header().payload_length()),
            NetSlice::Arp(_) => return None,
        };
        let payload = u32::try_from(tcp.payload().len()).ok()?;
        let scale = |element| match element {
            Ok(etherparse::TcpOptionElement::WindowScale(scale)) => Some(scale),
            _ => None,
        };
        Some(Self {
            source_port: tcp.source_port(),
            destination_port: tcp.destination_port(),
            seq: tcp.sequence_number(),
            ack: tcp.ack().then(|| tcp.acknowledgment_number()),
            syn: tcp.syn(),
            fin: tcp.fin(),
            rst: tcp.rst(),
            psh: tcp.psh(),
            window: tcp.window_size(),
            scale: if tcp.syn() { tcp.options_iterator().find_map(scale) } else { None },
            headers: ip.saturating_sub(payload),
            payload,
        })
    }

    /// Whether it does nothing but acknowledge.
    pub(crate) fn is_bare_ack(&self) -> bool {
        self.payload == 0 && self.ack.is_some() && !self.syn && !self.fin && !self.rst
    }

    /// The sequence number behind its last byte.
    pub(crate) fn end(&self) -> u32 {
        self.seq.wrapping_add(self.payload).wrapping_add(u32::from(self.syn) + u32::from(self.fin))
    }
}

/// Whether `a` comes after `b`: sequence numbers go round (RFC 9293, 3.4).
pub(crate) fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    /// A frame as an end of a wire would send it.
    pub(crate) fn frame(ports: (u16, u16), seq: u32, ack: Option<u32>, payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .tcp(ports.0, ports.1, seq, 500);
        let builder = match ack {
            Some(ack) => builder.ack(ack),
            None => builder.syn(),
        };
        let mut bytes = Vec::new();
        builder.write(&mut bytes, payload).unwrap();
        bytes
    }

    #[test]
    fn a_segment_is_read_and_other_frames_are_not() {
        let data = Segment::parse(&frame((4, 5), 100, Some(7), b"ten bytes!")).unwrap();
        assert_eq!((data.source_port, data.destination_port, data.seq, data.ack), (4, 5, 100, Some(7)));
        assert_eq!((data.headers, data.payload, data.end()), (40, 10, 110));
        assert!(!data.is_bare_ack());
        let ack = Segment::parse(&frame((4, 5), 100, Some(7), b"")).unwrap();
        assert!(ack.is_bare_ack());
        let syn = Segment::parse(&frame((4, 5), 100, None, b"")).unwrap();
        assert!(!syn.is_bare_ack() && syn.end() == 101);
        assert_eq!(Segment::parse(&[0; 60]), None);
        assert_eq!(Segment::parse(b""), None);
    }

    #[test]
    fn sequence_numbers_go_round() {
        assert!(after(1, 0) && !after(0, 1) && !after(5, 5));
        assert!(after(3, u32::MAX - 3) && !after(u32::MAX - 3, 3));
    }
}
