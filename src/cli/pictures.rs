//! What a page draws segment by segment: a request that stalls beside the same one fixed.

use smallwrites::claims::Setting;
use smallwrites::play::Play;
use smallwrites::report::sequence::Sequence;
use smallwrites::verdict::Verdict;
use std::thread;

/// Write-write-read as it is, and with `MSG_MORE` on the first write.
const PAIR: [&str; 2] = ["C: W10 W10 R20 / S: R20 W20", "C: M10 W10 R20 / S: R20 W20"];

/// Requests of each: enough for a receiver to enter pingpong mode at any threshold that kernels have had.
const REQUESTS: u32 = 8;

/// Plays both with a capture; nothing where this place records no frames.
pub(super) fn sequences(setting: &Setting) -> Vec<Sequence> {
    thread::scope(|scope| {
        let threads = PAIR.map(|exchange| scope.spawn(|| sequence(setting, exchange)));
        threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
    })
}

fn sequence(setting: &Setting, exchange: &str) -> Option<Sequence> {
    let play = Play::new(exchange.parse().ok()?).requests(REQUESTS).capture();
    let seen = setting.base.run(|lab| play.run(lab)).ok()?.ok()?;
    // The last that stalls, if any: by then the connection is what it stays.
    let number = Verdict::of(&seen).stalled.last().copied().unwrap_or(REQUESTS);
    Sequence::of(&seen, number)
}
