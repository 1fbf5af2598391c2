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
}

impl Forward {
    /// Both directions in the order in which the relay serves them.
    pub(super) const BOTH: [Self; 2] = [
        Self { from: Name::RelayTowardsClient, to: Name::RelayTowardsServer },
        Self { from: Name::RelayTowardsServer, to: Name::RelayTowardsClient },
    ];

    /// Reads what is there and writes it on, with one write for each read, until nothing is there. Returns whether
    /// anything was.
    pub(super) fn run(self, host: &mut Host, request: &mut Request) -> bool {
        let mut got_on = false;
        loop {
            let read = host.read(self.from, u64::from(BUFFER));
            let bytes = u32::try_from(read).unwrap_or(BUFFER);
            if bytes == 0 {
                return got_on;
            }
            host.write(self.to, bytes, false, false);
            request.held[self.to].push(host.sockets[self.to].sender.held());
            got_on = true;
        }
    }
}
