//! What a program does to its socket: write, read, set an option. While it does, the socket is locked.

use super::host::Host;
use super::sender::{CORK, PUSH};
use super::timeline::Event;
use crate::exchange::{Opt, Setting, Socket as Name};

impl Host {
    /// `send`, without waiting: the bytes join the queue, which is pushed each time that a buffer is full, and at the
    /// end. Returns how many there was room for.
    ///
    /// Kernel: `tcp_sendmsg_locked`, `tcp_push`.
    pub(super) fn write(&mut self, at: Name, bytes: u32, more: bool, record: bool) -> u32 {
        let sender = &mut self.sockets[at].sender;
        let goal = sender.size_goal();
        let again = sender.begin_write();
        if bytes > 0 && sender.needs_buffer(goal) && !sender.has_room(&self.env) {
            sender.refuse();
            if !again {
                self.note(at, Event::Write { bytes, more });
                self.note(at, Event::Full { bytes });
            }
            return 0;
        }
        self.note(at, Event::Write { bytes, more });
        self.sockets[at].owned = true;
        let mut left = bytes;
        while left > 0 {
            let socket = &mut self.sockets[at];
            if left < bytes && socket.sender.needs_buffer(goal) && !socket.sender.has_room(&self.env) {
                // What was taken leaves whatever Nagle's algorithm says, so that it is acknowledged and makes room.
                socket.sender.refuse();
                socket.sender.mark_push();
                self.push(at, PUSH);
                break;
            }
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
        if bytes > left && !sender.queue.is_empty() {
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
        if left > 0 {
            self.note(at, Event::Full { bytes: left });
        }
        bytes - left
    }

    /// `recv`, without waiting: returns how many bytes there were.
    ///
    /// Kernel: `tcp_recvmsg_locked`.
    pub(super) fn read(&mut self, at: Name, bytes: u64) -> u64 {
        let socket = &mut self.sockets[at];
        socket.owned = true;
        let (taken, freed) = socket.receiver.take(bytes);
        if freed > 0 {
            socket.uncharge(freed);
        }
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
            Opt::SendBuffer => {
                socket.sender.set_send_buffer(u32::try_from(setting.value).unwrap_or(0));
                false
            }
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
