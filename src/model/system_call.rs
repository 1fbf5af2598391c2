//! What a program does to its socket: write, read, set an option. While it does, the socket is locked.

use super::connection::Connection;
use super::sender::{CORK, PUSH};
use super::timeline::Event;
use crate::exchange::{Opt, Setting, Side};

impl Connection {
    /// `send`: the bytes join the queue, which is pushed each time that a buffer is full, and at the end.
    ///
    /// Kernel: `tcp_sendmsg_locked`, `tcp_push`.
    pub(super) fn write(&mut self, side: Side, bytes: u32, more: bool, record: bool) {
        self.note(side, Event::Write { bytes, more });
        self.sockets[side].owned = true;
        let goal = self.sockets[side].sender.size_goal();
        let mut left = bytes;
        while left > 0 {
            let socket = &mut self.sockets[side];
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
                self.push(side, PUSH);
            } else if socket.sender.queue.len() == 1 {
                self.push_one(side);
            }
        }
        let sender = &mut self.sockets[side].sender;
        if bytes > 0 && !sender.queue.is_empty() {
            if !more || sender.forced_push() {
                sender.mark_push();
            }
            let nonagle = if more { CORK } else { sender.nonagle };
            self.push(side, nonagle);
        }
        self.release(side);
        let held = self.sockets[side].sender.held();
        if held > 0 {
            self.note(side, Event::Holds { bytes: held });
        }
    }

    /// `recv`, without waiting: returns how many bytes there were.
    ///
    /// Kernel: `tcp_recvmsg_locked`.
    pub(super) fn read(&mut self, side: Side, bytes: u64) -> u64 {
        let socket = &mut self.sockets[side];
        socket.owned = true;
        let (taken, freed) = socket.receiver.take(bytes);
        socket.uncharge(freed);
        if taken > 0 {
            self.note(side, Event::Read { bytes: taken });
        }
        if self.sockets[side].receiver.cleanup_rbuf(taken > 0, &self.env) {
            self.send_ack(side);
        }
        self.release(side);
        taken
    }

    /// `setsockopt`.
    pub(super) fn set(&mut self, side: Side, setting: Setting) {
        self.note(side, Event::Set(setting));
        let on = setting.value != 0;
        let socket = &mut self.sockets[side];
        socket.owned = true;
        let push = match setting.option {
            Opt::NoDelay => socket.sender.set_nodelay(on),
            Opt::Cork => socket.sender.set_cork(on),
            _ => false,
        };
        if push {
            self.push_pending(side);
        } else if setting.option == Opt::QuickAck {
            self.set_quickack(side, setting.value);
        }
        self.release(side);
    }

    fn set_quickack(&mut self, side: Side, value: i32) {
        let receiver = &mut self.sockets[side].receiver;
        let owed = receiver.pending.scheduled;
        if receiver.set_quickack(value, &self.env) {
            self.send_ack(side);
        }
        if value != 0 && value % 2 == 0 && owed {
            self.sockets[side].receiver.enter_pingpong_mode(&self.env);
        }
    }

    /// **The end of a system call.** What arrived meanwhile is handled now, in order, so that an ACK provoked by a
    /// write takes effect after the whole write. ACKs decided by that are sent as one.
    ///
    /// Kernel: `release_sock`, `__release_sock`, `tcp_release_cb`.
    fn release(&mut self, side: Side) {
        while !self.sockets[side].backlog.is_empty() {
            let mut waiting = std::mem::take(&mut self.sockets[side].backlog);
            for segment in waiting.drain(..) {
                self.receive(side, &segment);
            }
            if self.sockets[side].backlog.is_empty() {
                self.sockets[side].backlog = waiting;
            }
        }
        let socket = &mut self.sockets[side];
        socket.receiver.backlog_len = 0;
        if std::mem::take(&mut socket.ack_deferred) && socket.receiver.pending.scheduled {
            // Still under the lock, so it is delivered only after the unlocking.
            self.in_softirq = true;
            self.send_ack(side);
            self.in_softirq = false;
        }
        self.sockets[side].owned = false;
        self.deliver_all();
    }
}
