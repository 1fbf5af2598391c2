//! The send buffer: how far a program may write ahead of the peer's acknowledgements.

use super::env::Env;
use super::rules::Rule;
use super::sender::Sender;

/// `TCP_INIT_CWND`: segments that a send buffer has room for twice, at least.
const INIT_CWND: u32 = 10;
/// The largest send buffer that grows by itself (the third of `net.ipv4.tcp_wmem`).
const LARGEST: u32 = 4 << 20;
/// The smallest that a program can ask for (`SOCK_MIN_SNDBUF`).
const SMALLEST: u32 = 4608;

/// A socket's send buffer.
#[derive(Debug)]
pub(super) struct SendBuffer {
    /// Its size (`sk_sndbuf`).
    pub(super) size: u32,
    /// What a segment of the congestion window adds to it, so that two windows fit.
    per_segment: u32,
    /// Whether the program set it, so that it doesn't grow (`SOCK_SNDBUF_LOCK`).
    set: bool,
    /// Whether the program is to be told of room (`SOCK_NOSPACE`).
    no_space: bool,
    /// Whether the program's last write was refused.
    refused: bool,
}

impl SendBuffer {
    pub(super) fn new(size: u32, cwnd: u32) -> Self {
        Self { size, per_segment: size / (2 * cwnd.max(INIT_CWND)), set: false, no_space: false, refused: false }
    }
}

impl Sender {
    /// Memory of all that was written and is not yet acknowledged, a header for each buffer included
    /// (`sk_wmem_queued`).
    fn memory(&self, env: &Env) -> u32 {
        let unacknowledged = u32::try_from(self.write_seq - self.snd_una).unwrap_or(u32::MAX);
        let buffers = u32::try_from(self.queue.len() + self.flight.len()).unwrap_or(u32::MAX);
        unacknowledged.saturating_add(buffers.saturating_mul(env.overhead))
    }

    /// **Room in the send buffer.** A write may begin a new buffer as long as what is unacknowledged takes less
    /// memory than the send buffer has; what still fits a buffer that is held joins it in any case.
    ///
    /// Kernel: `sk_stream_memory_free`, asked by `tcp_sendmsg_locked`.
    pub(super) fn has_room(&self, env: &Env) -> bool {
        !env.rules.has(Rule::SendBuffer) || self.memory(env) < self.send_buffer.size
    }

    /// A write has been refused, or a part of it.
    pub(super) fn refuse(&mut self) {
        (self.send_buffer.no_space, self.send_buffer.refused) = (true, true);
    }

    /// Whether the program's last write was refused.
    pub(super) fn is_refused(&self) -> bool {
        self.send_buffer.refused
    }

    /// A write begins.
    pub(super) fn begin_write(&mut self) -> bool {
        std::mem::take(&mut self.send_buffer.refused)
    }

    /// The program asks whether it can go on, and if there is no room for a write it will be told when there is.
    ///
    /// Kernel: `tcp_poll`.
    pub(super) fn poll(&mut self, env: &Env) {
        self.send_buffer.no_space |= !self.is_writable(env);
    }

    /// Whether a third of the memory is free. A write doesn't need so much.
    ///
    /// Kernel: `sk_stream_is_writeable`.
    fn is_writable(&self, env: &Env) -> bool {
        let memory = self.memory(env);
        !env.rules.has(Rule::SendBuffer) || self.send_buffer.size >= memory.saturating_add(memory / 2)
    }

    /// **The send buffer grows** when an ACK arrives for a program that is waiting for room, unless the congestion
    /// window is what holds it back: to twice the congestion window, as slow start widens that.
    ///
    /// Kernel: `tcp_check_space`, `tcp_new_space`, `tcp_sndbuf_expand`.
    pub(super) fn check_space(&mut self, env: &Env) {
        if !self.send_buffer.no_space {
            return;
        }
        if !self.send_buffer.set && self.packets_out < self.cwnd {
            let wanted = 2 * self.cwnd.max(INIT_CWND) * self.send_buffer.per_segment;
            self.send_buffer.size = self.send_buffer.size.max(wanted.min(LARGEST));
        }
        self.send_buffer.no_space = !self.is_writable(env);
    }

    /// **`SO_SNDBUF`** gives twice what is asked for, and no growth from then on.
    ///
    /// Kernel: `sk_setsockopt`.
    pub(super) fn set_send_buffer(&mut self, bytes: u32) {
        self.send_buffer.size = bytes.saturating_mul(2).max(SMALLEST);
        self.send_buffer.set = true;
    }
}
