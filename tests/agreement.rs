//! The model held against the kernel where a tick leaves open what will be seen.

mod support {
    pub(crate) mod agreed;
    mod labs;
    mod namespaces;
    mod threads;
}

use smallwrites::agreement::{self, differences};
use smallwrites::exchange::Exchange;
use smallwrites::lab::Conditions;
use smallwrites::model::{Facts, Prediction, Rules, Start, predict};
use smallwrites::observation::Observation;
use smallwrites::play::Play;
use std::io::Write;
use support::agreed::{assert_agree, beside_the_model};

/// Whether the server's second write leaves at once depends on quick ACKs that a tick decides about.
const OPEN: &str = "C: R65846 R32924 W23 nodelay W8000 R380 R190 nodelay W30 W8000 W535 cork W3000 / relay: C[nodelay] / \
                    S: [cork] W536 W32739 uncork M15 W65480 R8023 W35 W535 R3855 R7710";
const REQUESTS: u32 = 6;

/// The exchange as it was seen, with what its connections began with.
fn seen() -> Option<(Facts, Observation)> {
    let conditions = Conditions::default().sysctl("net.ipv4.tcp_rmem", "4096 131072 6291456");
    let exchange: Exchange = OPEN.parse().expect("it is a valid exchange");
    let play = Play::new(exchange).requests(REQUESTS);
    beside_the_model(&conditions, &play, 6).map(|(facts, _, seen)| (facts, seen))
}

fn chosen(facts: &Facts, seen: &Observation) -> Prediction {
    agreement::predicted_from(facts, Rules::all(), seen).expect("rules for every step")
}

fn with_round_trip(facts: &Facts, rtt_us: u32) -> Facts {
    Facts { start: facts.start.map(|at| Start { rtt_us, ..facts.start[at] }), ..facts.clone() }
}

#[test]
fn of_what_a_tick_leaves_open_the_model_takes_what_was_seen() {
    let Some((facts, seen)) = seen() else { return };
    let usual = |facts: &Facts| predict(&seen.exchange, facts, REQUESTS).expect("rules for every step").requests;
    let short = with_round_trip(&facts, 20);
    let longer = [200, 400, 600, 1000].map(|rtt_us| with_round_trip(&facts, rtt_us));
    let Some(long) = longer.into_iter().find(|longer| usual(longer) != usual(&short)) else {
        let jiffy = facts.jiffy_us;
        let _ =
            writeln!(std::io::stderr(), "SKIPPED a close call: with a jiffy of {jiffy} us no round trip decides it");
        return;
    };
    let both = [short, long].map(|facts| chosen(&facts, &seen));
    for prediction in &both {
        assert_agree(prediction, &seen);
    }
    // The kernel can't have gone along with both as they are.
    assert!(both.iter().any(|prediction| prediction.close_calls.iter().any(|call| call.turned)));
}

/// What no tick decides differs all the same.
#[test]
fn no_turn_hides_another_difference() {
    let Some((facts, mut seen)) = seen() else { return };
    let write = &mut seen.requests[2].writes[0];
    write.held = Some(write.held.unwrap_or(0) + 1);
    let parts = differences(&chosen(&facts, &seen), &seen);
    assert!(parts.iter().any(|difference| difference.request == Some(3)), "{parts:?}");
}
