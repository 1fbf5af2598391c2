//! Tests of the model.

use super::*;
use crate::exchange::Socket;
use env::Env;
use segment::Segment;
use sender::Sender;

mod close_call;
mod examples;
mod field_cases;
mod relay;
mod rules;
mod send_buffer;
mod switches;

fn exchange(text: &str) -> Exchange {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// So many requests of an exchange, all of which end.
fn requests(text: &str, facts: &Facts, number: u32) -> Vec<Request> {
    let prediction = predict(&exchange(text), facts, number).expect("predictable");
    assert_eq!(prediction.stuck, None, "{text}\n{}", prediction.timeline);
    prediction.requests
}

fn each<U, T>(all: &[U], figure: impl FnMut(&U) -> T) -> Vec<T> {
    all.iter().map(figure).collect()
}

fn env() -> Env {
    Env::new(&Facts::default(), Rules::all())
}

/// A bare ACK of all that a sender has sent.
fn acknowledge_all(sender: &mut Sender, env: &Env) {
    let ack = sender.snd_nxt;
    let bare =
        Segment { seq: 1, len: 0, ack, window: 65_536, count: 1, mss: 0, psh: false, truesize: 2, shared: false };
    sender.acknowledge(&bare, true, env);
}
