//! Where what the rules promise ends: the smallest exchange that breaks each promise of `tests/model_properties.rs`, on
//! the model and on the kernel.

mod support {
    pub(crate) mod agreed;
    mod labs;
    mod namespaces;
    mod threads;
}

use rstest::rstest;
use smallwrites::exchange::Exchange;
use smallwrites::lab::Conditions;
use smallwrites::model::{Facts, Prediction, Request, predict};
use smallwrites::observation::Observation;
use smallwrites::play::Play;
use support::agreed::{assert_agree, beside_the_model};

const REQUESTS: u32 = 6;

#[rstest]
// A message that nobody answers is acknowledged late, and holds the next one although each was one write.
#[case::one_write_a_message_stalls_behind_one_without_an_answer("C: W1 R1 W1 / S: R1 W1 R1", [0, 1, 1, 1, 1, 1])]
// The quantum is one for each message, in each direction.
#[case::two_split_messages_cost_two_quanta("C: W1 W1 R1 W1 W1 R1 / S: R2 W1 R2 W1", [1, 2, 2, 2, 2, 2])]
// `TCP_NODELAY` sends what is held, but nothing is: the send buffer has no room for the second write before the first
// is acknowledged. 3,776 bytes and a header are more than the smallest one takes, 3,775 are not.
#[case::nodelay_stalls_behind_a_full_send_buffer("C: [nodelay sndbuf=1] W3776 W1 R1 / S: R3777 W1", [0, 1, 1, 1, 1, 1])]
#[case::nodelay_has_room_for_one_byte_less("C: [nodelay sndbuf=1] W3775 W1 R1 / S: R3776 W1", [0; 6])]
// Each time that it is full may cost a quantum of its own, for one and the same message.
#[case::a_send_buffer_that_is_full_twice_costs_two_quanta(
    "C: [nodelay sndbuf=1] W4000 W4000 W8000 R1 / S: R16000 W1", [0, 1, 1, 2, 2, 2],
)]
fn a_delayed_ack_is_waited_for(#[case] text: &str, #[case] quanta: [usize; REQUESTS as usize]) {
    let exchange: Exchange = text.parse().expect("it is a valid exchange");
    let facts = Facts::loopback_for(&exchange);
    assert_eq!(of_each(&predict(&exchange, &facts, REQUESTS).expect("predictable"), Request::quanta), quanta);
    let Some((predicted, seen)) = on_the_kernel(&Conditions::default(), exchange) else { return };
    assert_eq!(of_each(&predicted, Request::quanta), quanta);
    assert_agree(&predicted, &seen);
}

/// Neither `TCP_NODELAY` nor a quick-ACK route releases what `MSG_MORE` or a cork holds.
#[rstest]
#[case::msg_more("C: [nodelay] M1 R1 / S: R1 W1")]
#[case::a_cork("C: [nodelay cork] W1 R1 / S: R1 W1")]
fn only_an_uncork_helps_against_a_cork(#[case] text: &str, #[values(false, true)] quickack_route: bool) {
    let exchange: Exchange = text.parse().expect("it is a valid exchange");
    let facts = Facts { quickack_route, ..Facts::loopback_for(&exchange) };
    assert_eq!(of_each(&predict(&exchange, &facts, REQUESTS).expect("predictable"), Request::holds), [1; 6]);
    let plain = Conditions::default();
    let conditions = if quickack_route { plain.quickack_route() } else { plain };
    let Some((predicted, seen)) = on_the_kernel(&conditions, exchange) else { return };
    assert_eq!(of_each(&predicted, Request::holds), [1; 6]);
    assert_agree(&predicted, &seen);
}

fn of_each(prediction: &Prediction, what: fn(&Request) -> usize) -> Vec<usize> {
    prediction.requests.iter().map(what).collect()
}

/// The model's answer with what the connection began with, and the kernel's.
fn on_the_kernel(conditions: &Conditions, exchange: Exchange) -> Option<(Prediction, Observation)> {
    let play = Play::new(exchange).requests(REQUESTS);
    beside_the_model(conditions, &play, 20).map(|(_, predicted, seen)| (predicted, seen))
}
