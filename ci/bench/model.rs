//! The model: predictions a second on one core; and a sweep's wall beside the sum of its waits.

use crate::Ratio;
use smallwrites::exchange::Exchange;
use smallwrites::lab::Conditions;
use smallwrites::model::{self, Facts};
use smallwrites::play::Play;
use std::hint::black_box;
use std::thread;
use std::time::Instant;

const PREDICTIONS: u32 = 200_000;
const REQUESTS: u32 = 6;
/// Exchanges of the sweep; every one stalls in all its requests but the first.
const EXCHANGES: usize = 96;
const PLAYERS: usize = 24;

pub(crate) fn run() -> Vec<Ratio> {
    vec![predictions(), sweep()]
}

fn write_write_read() -> Exchange {
    "C: W10 W10 R20 / S: R20 W20".parse().expect("write-write-read")
}

fn predictions() -> Ratio {
    let (exchange, facts) = (write_write_read(), Facts::default());
    let started = Instant::now();
    for _ in 0..PREDICTIONS {
        black_box(model::predict(black_box(&exchange), &facts, REQUESTS).expect("a prediction"));
    }
    let rate = f64::from(PREDICTIONS) / started.elapsed().as_secs_f64();
    Ratio {
        name: "predictions, one core",
        measured: (format!("{rate:.0} a second"), 1.0 / rate),
        beside: ("100000 a second wanted".to_owned(), 1.0 / 100_000.0),
        limit: 1.0,
    }
}

fn sweep() -> Ratio {
    let started = Instant::now();
    let one = || {
        let play = Play::new(write_write_read()).requests(REQUESTS);
        let seen = Conditions::default().run(|lab| play.run(lab)).expect("a lab").expect("an exchange");
        seen.latencies_us().iter().sum::<u64>()
    };
    let waited: u64 = thread::scope(|scope| {
        let players: Vec<_> =
            (0..PLAYERS).map(|_| scope.spawn(|| (0..EXCHANGES / PLAYERS).map(|_| one()).sum::<u64>())).collect();
        players.into_iter().map(|player| player.join().expect("a player")).sum()
    });
    let (wall, waited) = (started.elapsed().as_secs_f64(), waited as f64 / 1e6);
    Ratio {
        name: "sweep, 96 exchanges",
        measured: (format!("{wall:.2} s side by side"), wall),
        beside: (format!("{waited:.2} s of waits one by one"), waited),
        limit: 0.2,
    }
}
