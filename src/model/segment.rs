//! What travels between the two sockets, and what they keep of it.

use super::env::Env;

/// A segment on the path. One that is larger than the segment size stands for several that were sent, and
/// over loopback received, in one piece (segmentation offload).
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    /// Position of its first byte in the sender's stream.
    pub(super) seq: u64,
    /// Bytes of payload; 0 is a bare ACK.
    pub(super) len: u32,
    /// The next byte that its sender expects.
    pub(super) ack: u64,
    /// The window that its sender offers, in bytes.
    pub(super) window: u32,
    /// Segments that it stands for.
    pub(super) count: u32,
    /// Payload of each of them but the last.
    pub(super) mss: u32,
    /// The PSH flag: a write of the application ends here (RFC 9293 section 3.9.1.2).
    pub(super) psh: bool,
    /// Memory that it costs its receiver.
    pub(super) truesize: u32,
    /// Whether the sender still shares its memory, until the data is acknowledged.
    pub(super) shared: bool,
}

/// What the loopback device takes in one piece, headers included (`gso_max_size`).
const DEVICE_MAX: u32 = 65_536;
/// An Ethernet and an IPv4 header.
const LOWER_HEADERS: u32 = 34;

impl Segment {
    /// Whether it is more than the device takes in one piece. A write never makes one so large, but what a closed window
    /// or a full congestion window kept back can grow to it.
    ///
    /// Kernel: `gso_features_check`.
    pub(super) fn is_too_large(&self, env: &Env) -> bool {
        self.count > 1 && self.len + env.header + LOWER_HEADERS >= DEVICE_MAX
    }

    /// **What arrives in its segments.** What is too large for the device is cut on its way, into memory that the
    /// sender doesn't share.
    ///
    /// Kernel: `tcp_gso_segment`.
    pub(super) fn cut(self) -> impl Iterator<Item = Self> {
        let overhead = self.truesize - self.len.min(self.truesize);
        (0..self.count).map(move |i| {
            let before = i * self.mss;
            let len = self.mss.min(self.len - before);
            let psh = self.psh && i + 1 == self.count;
            let seq = self.seq + u64::from(before);
            Self { seq, len, count: 1, psh, truesize: len + overhead, shared: false, ..self }
        })
    }

    pub(super) fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }

    /// The size that it shows of the sender's segments: their payload, or its own if it is only one.
    pub(super) fn size_shown(&self) -> u32 {
        if self.count > 1 { self.mss } else { self.len }
    }

    /// Takes in a later segment, both waiting for the end of a system call (`tcp_add_backlog`).
    pub(super) fn merge(&mut self, later: &Self) {
        self.count = if self.len == 0 { later.count } else { self.count + later.count };
        self.mss = self.mss.max(later.mss);
        self.len += later.len;
        self.ack = self.ack.max(later.ack);
        self.window = later.window;
        self.psh |= later.psh;
        self.truesize += later.len;
    }
}

/// Bytes that were written but not yet sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer {
    pub(super) len: u32,
    pub(super) psh: bool,
    /// Written with `MSG_EOR`: nothing may be added.
    pub(super) closed: bool,
}

/// A piece that was sent and is not yet acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) end: u64,
    pub(super) len: u32,
    pub(super) count: u32,
    pub(super) at_us: u64,
}

/// Bytes that arrived and are not yet read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unread {
    /// Where the first segment in this buffer ends; 0 if its sender never shared it.
    pub(super) first_end: u64,
    pub(super) end: u64,
    pub(super) truesize: u32,
    /// Pieces of memory in it, at most 17 (`MAX_SKB_FRAGS`).
    pub(super) pieces: u32,
}
