//! What a program does to its socket: write, read, set an option. While it does, the socket is locked.

use super::host::Host;
use super::sender::{CORK, PUSH};
use super::timeline::Event;
use crate::exchange::{Opt, Setting, Socket as Name};

impl Host {
    /// `send`: the bytes join the queue, which is pushed each time that a buffer is full, and at the end.
    ///
    /// Kernel: `tcp_sendmsg_locked`, `tcp_push`.
    pub(super) fn write(&mut self, at: Name, bytes: u32, more: bool, record: bool) {
        self.note(at, Event::Write { bytes, more });
        self.sockets[at].owned = true;
        let goal = self.sockets[at].sender.size_goal();
        let mut left = bytes;
        while left > 0 {
            let socket = &mut self.sockets[at];
            let (taken, new) = socket.sender.append(left, goal, left == bytes);
            if new {
                socket.charge(self.env.overhead);
            }
            socket.charge(taken);
            left -= taken;
            if left == 0 {
                if let Some(tail) = socket.sender.queue.back_mut() {
                    tail.closed = record;
                }
            } else if socket.sender.forced_push() {
                socket.sender.mark_push();
                self.push(at, PUSH);
            } else if socket.sender.queue.len() == 1 {
                self.push_one(at);
            }
        }
        let sender = &mut self.sockets[at].sender;
        if bytes > 0 && !sender.queue.is_empty() {
            if !more || sender.forced_push() {
                sender.mark_push();
            }
            let nonagle = if more { CORK } else { sender.nonagle };
            self.push(at, nonagle);
        }
        self.release(at);
        let held = self.sockets[at].sender.held();
        if held > 0 {
            self.note(at, Event::Holds { bytes: held });
        }
    }

    /// `recv`, without waiting: returns how many bytes there were.
    ///
    /// Kernel: `tcp_recvmsg_locked`.
    pub(super) fn read(&mut self, at: Name, bytes: u64) -> u64 {
        let socket = &mut self.sockets[at];
        socket.owned = true;
        let (taken, freed) = socket.receiver.take(bytes);
        socket.uncharge(freed);
        if taken > 0 {
            self.note(at, Event::Read { bytes: taken });
        }
        if self.sockets[at].receiver.cleanup_rbuf(taken > 0, &self.env) {
            self.send_ack(at);
        }
        self.release(at);
        taken
    }

    /// `setsockopt`.
    pub(super) fn set(&mut self, at: Name, setting: Setting) {
        self.note(at, Event::Set(setting));
        let on = setting.value != 0;
        let socket = &mut self.sockets[at];
        socket.owned = true;
        let push = match setting.option {
            Opt::NoDelay => socket.sender.set_nodelay(on),
            Opt::Cork => socket.sender.set_cork(on),
            _ => false,
        };
        if push {
            self.push_pending(at);
        } else if setting.option == Opt::QuickAck {
            self.set_quickack(at, setting.value);
        }
        self.release(at);
    }

    fn set_quickack(&mut self, at: Name, value: i32) {
        let receiver = &mut self.sockets[at].receiver;
        let owed = receiver.pending.scheduled;
        if receiver.set_quickack(value, &self.env) {
            self.send_ack(at);
        }
        if value != 0 && value % 2 == 0 && owed {
            self.sockets[at].receiver.enter_pingpong_mode(&self.env);
        }
    }

    /// **The end of a system call.** What arrived meanwhile is handled now, in order, so that an ACK provoked by a
    /// write takes effect after the whole write. ACKs decided by that are sent as one.
    ///
    /// Kernel: `release_sock`, `__release_sock`, `tcp_release_cb`.
    fn release(&mut self, at: Name) {
        while !self.sockets[at].backlog.is_empty() {
            let mut waiting = std::mem::take(&mut self.sockets[at].backlog);
            for segment in waiting.drain(..) {
                self.receive(at, &segment);
            }
            if self.sockets[at].backlog.is_empty() {
                self.sockets[at].backlog = waiting;
            }
        }
        let socket = &mut self.sockets[at];
        socket.receiver.backlog_len = 0;
        if std::mem::take(&mut socket.ack_deferred) && socket.receiver.pending.scheduled {
            // Still under the lock, so it is delivered only after the unlocking.
            self.in_softirq = true;
            self.send_ack(at);
            self.in_softirq = false;
        }
        self.sockets[at].owned = false;
        self.deliver_all();
    }
}
