//! What other suites assert of small writes and ACKs, held against this kernel: packetdrill, LTP, smoltcp.

mod acknowledgements;
mod more;
mod pieces;
mod push;
mod queues;
mod segments;

use super::Claim;

pub(super) fn claims() -> Vec<&'static Claim> {
    [more::CLAIMS, push::CLAIMS, pieces::CLAIMS, segments::CLAIMS, queues::CLAIMS, acknowledgements::CLAIMS]
        .into_iter()
        .flatten()
        .collect()
}
