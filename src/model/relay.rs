//! A relay: a program between two connections that forwards every byte as it comes.

use super::host::Host;
use super::prediction::Request;
use crate::exchange::Socket as Name;

/// The most that the relay reads at once.
const BUFFER: u32 = 1 << 16;

/// One of the directions in which a relay forwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forward {
    from: Name,
    to: Name,
    /// What it has read and not yet written.
    left: u32,
}

impl Forward {
    /// Both directions in the order in which the relay serves them.
    pub(super) fn both() -> [Self; 2] {
        let (front, back) = (Name::RelayTowardsClient, Name::RelayTowardsServer);
        [(front, back), (back, front)].map(|(from, to)| Self { from, to, left: 0 })
    }

    /// Reads what is there and writes it on, with one write for each read as long as the send buffer takes it whole,
    /// until nothing is there or nothing is taken. Returns whether it got on.
    pub(super) fn run(&mut self, host: &mut Host, request: &mut Request) -> bool {
        let mut got_on = false;
        loop {
            if self.left == 0 {
                self.left = u32::try_from(host.read(self.from, u64::from(BUFFER))).unwrap_or(BUFFER);
                if self.left == 0 {
                    return got_on;
                }
                got_on = true;
            }
            let taken = host.write(self.to, self.left, false, false);
            self.left -= taken;
            if self.left == 0 {
                request.held[self.to].push(host.sockets[self.to].sender.held());
            } else if taken == 0 {
                return got_on;
            }
            got_on = true;
        }
    }
}
