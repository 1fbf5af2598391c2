//! Exchanges played in labs of their own, on time.

use super::labs::lab_or_skip;
use smallwrites::kernel::Kernel;
use smallwrites::lab::Conditions;
use smallwrites::observation::Observation;
use smallwrites::play::Play;
use smallwrites::verdict::Pattern;
use std::sync::OnceLock;

/// How often an exchange is played again on a machine that is late.
const TRIES: u32 = 20;

/// Plays an exchange in a lab of its own.
///
/// Once more where the scheduler's own account says that the player waited for a CPU as long as the shortest timer
/// takes: a timer that fired between two of its steps is no answer to them. What was seen has no say in that.
#[track_caller]
pub(crate) fn play_or_skip(conditions: &Conditions, play: &Play) -> Option<Observation> {
    for _ in 0..TRIES {
        let seen = played_or_skip(conditions, play)?;
        if on_time(&seen) {
            return Some(seen);
        }
    }
    played_or_skip(conditions, play)
}

#[track_caller]
fn played_or_skip(conditions: &Conditions, play: &Play) -> Option<Observation> {
    lab_or_skip(conditions, |lab| play.run(lab)).map(|seen| seen.unwrap_or_else(|error| panic!("{error}")))
}

fn on_time(seen: &Observation) -> bool {
    let timer = seen.environment.delayed_ack_us.saturating_sub(seen.environment.jiffy_us);
    seen.requests.iter().all(|request| request.run_queue_us.is_none_or(|waited| waited < timer))
}

/// The requests that stall on this kernel where a second small write is held and each request is answered promptly.
///
/// It takes as many prompt replies to enter pingpong mode as the kernel's threshold says, and each stall leaves it.
pub(crate) fn stalls_after_prompt_replies() -> Pattern {
    match pingpong_threshold() {
        1 => Pattern::AllButFirst,
        threshold => Pattern::EveryNth(threshold),
    }
}

/// The threshold as a private lab has it; measured where the kernel has no setting for it.
fn pingpong_threshold() -> u32 {
    static THRESHOLD: OnceLock<u32> = OnceLock::new();
    *THRESHOLD.get_or_init(|| {
        let set = Conditions::default().run(|lab| lab.kernel().pingpong_threshold).ok().flatten();
        set.or_else(|| Kernel::probe().ok()?.pingpong_threshold).unwrap_or_else(measured)
    })
}

fn measured() -> u32 {
    // Further apart than a jiffy, so that a kernel that compares jiffies counts each reply.
    let exchange = "C: P20 W10 R20 / S: R10 W20".parse().expect("it is a valid exchange");
    let seen = Conditions::default().run(|lab| Play::new(exchange).requests(12).run(lab)).expect("a lab");
    let requests = seen.expect("it can be played").requests;
    let first = requests.iter().position(|request| request.receivers.server.pingpong == Some(true));
    first
        .and_then(|replies| u32::try_from(replies).ok())
        .expect("a receiver that answers promptly enters pingpong mode")
}
