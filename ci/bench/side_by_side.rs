//! The seven modes of lab 1 at once, beside what the slowest of them waits for the kernel alone.

use crate::Ratio;
use smallwrites::lab::Conditions;
use smallwrites::play::Play;
use smallwrites::verdict::Verdict;
use std::thread;
use std::time::Instant;

const MODES: [&str; 7] = [
    "C: W10 W10 R20 / S: R20 W20",
    "C: [nodelay] W10 W10 R20 / S: R20 W20",
    "C: W20 R20 / S: R20 W20",
    "C: cork W10 W10 uncork R20 / S: R20 W20",
    "C: M10 W10 R20 / S: R20 W20",
    "C: W10 W10 R20 / S: [quickack] R20 W20",
    "C: W10 W10 R20 / S: quickack R20 W20",
];

pub(crate) fn run() -> Vec<Ratio> {
    let started = Instant::now();
    let seen: Vec<_> = thread::scope(|scope| {
        let threads = MODES.map(|mode| {
            scope.spawn(move || {
                let play = Play::new(mode.parse().expect("a mode of lab 1")).requests(50);
                Conditions::default().run(|lab| play.run(lab)).expect("a lab").expect("an exchange")
            })
        });
        threads.into_iter().map(|thread| thread.join().expect("a mode")).collect()
    });
    let wall = started.elapsed().as_secs_f64();
    let waits = |seen: &smallwrites::observation::Observation| {
        Verdict::of(seen).stalled.len() as f64 * seen.environment.delayed_ack_us as f64 / 1e6
    };
    let longest = seen.iter().map(waits).fold(0.0, f64::max);
    vec![Ratio {
        name: "lab 1, seven modes",
        measured: (format!("{wall:.2} s side by side"), wall),
        beside: (format!("{longest:.2} s: 49 × 40 ms of delayed ACKs"), longest),
        limit: 1.3,
    }]
}
