//! What the rules promise, held against exchanges that nobody chose, on the model alone. Where a promise ends is in
//! `tests/counterexamples.rs`.

mod support {
    pub(crate) mod cases;
}

use proptest::collection::vec;
use proptest::prelude::*;
use smallwrites::exchange::{Exchange, Opt, Relay, Script, Setting, Side, Sides, Sockets, Step};
use smallwrites::model::{Ended, Event, Facts, Moment, Prediction, Rules, predict, predict_deciding};
use support::cases::same_every_time;

const REQUESTS: u32 = 6;

/// Sizes around everything that a rule compares with: tiny, 128, 536, whole segments, several of them.
fn size() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 1..=50u32,
        1 => 107..=130u32,
        1 => 534..=538u32,
        3 => (1..=3u32, 0..=4u32).prop_map(|(segments, around)| segments * 988 + around - 2),
        1 => Just(3000u32),
        1 => Just(8000u32),
    ]
}

/// What a message may do beside plain writes.
#[derive(Debug, Clone, Copy)]
struct May {
    writes: usize,
    cork: bool,
    more: bool,
    options: bool,
    /// Whether the send buffer may be so small that a message fills it.
    full: bool,
}

const PLAIN: May = May { writes: 5, cork: false, more: false, options: false, full: false };
const ONE_WRITE: May = May { writes: 1, options: true, full: true, ..PLAIN };
const ANYTHING: May = May { writes: 5, cork: true, more: true, options: true, full: true };

/// The steps that send one message.
fn message(may: May) -> impl Strategy<Value = Vec<Step>> {
    let write = (size(), proptest::bool::weighted(if may.more { 0.15 } else { 0.0 }))
        .prop_map(|(bytes, more)| if more { Step::More(bytes) } else { Step::Write(bytes) });
    let corked = proptest::bool::weighted(if may.cork { 0.2 } else { 0.0 });
    (vec(write, 1..=may.writes), corked).prop_map(|(mut steps, corked)| {
        if corked {
            steps.insert(0, Step::Set(Setting::new(Opt::Cork, 1)));
            steps.push(Step::Set(Setting::new(Opt::Cork, 0)));
        }
        steps
    })
}

/// How a side reads a message: at once, or in two parts, perhaps after an option.
fn read(bytes: u32, split: u32, quickack: Option<i32>) -> Vec<Step> {
    let first = split.min(bytes - 1);
    let reads = [first, bytes - first].into_iter().filter(|&part| part > 0).map(Step::Read);
    quickack.map(|value| Step::Set(Setting::new(Opt::QuickAck, value))).into_iter().chain(reads).collect()
}

fn quickack(may: May) -> impl Strategy<Value = Option<i32>> {
    if may.options {
        prop_oneof![8 => Just(None), 1 => Just(Some(1)), 1 => Just(Some(0))].boxed()
    } else {
        Just(None).boxed()
    }
}

/// One message with how it is read.
fn sent_and_read(may: May) -> impl Strategy<Value = (Vec<Step>, Vec<Step>)> {
    (message(may), prop_oneof![3 => Just(0u32), 1 => 1..=2000u32], quickack(may)).prop_map(
        |(message, split, quickack)| {
            let bytes = message.iter().map(Step::written).sum::<u64>();
            let reads = read(u32::try_from(bytes).expect("a short message"), split, quickack);
            (message, reads)
        },
    )
}

fn opened(may: May) -> impl Strategy<Value = Vec<Setting>> {
    let nodelay = proptest::bool::weighted(if may.options { 0.2 } else { 0.0 });
    let cork = proptest::bool::weighted(if may.cork { 0.05 } else { 0.0 });
    let pingpong = proptest::bool::weighted(if may.options { 0.1 } else { 0.0 });
    let full = proptest::bool::weighted(if may.full { 0.2 } else { 0.0 });
    (nodelay, cork, pingpong, full, 1..=8).prop_map(|(nodelay, cork, pingpong, full, kilobytes)| {
        let full = (full, Opt::SendBuffer, kilobytes * 1024);
        let settings = [(nodelay, Opt::NoDelay, 1), (cork, Opt::Cork, 1), (pingpong, Opt::QuickAck, 0), full];
        settings.into_iter().filter(|(on, ..)| *on).map(|(_, option, value)| Setting::new(option, value)).collect()
    })
}

/// Requests and answers: the client sends a message, the server reads it and answers, once or twice over.
fn request_and_answer(may: May, rounds: usize) -> impl Strategy<Value = Exchange> {
    let round = (sent_and_read(may), sent_and_read(may));
    (vec(round, 1..=rounds), opened(may), opened(may)).prop_map(|(rounds, client, server)| {
        let script = |opened| Script { opened, ..Script::default() };
        let mut exchange = Exchange { client: script(client), relay: None, server: script(server) };
        for ((request, read_request), (answer, read_answer)) in rounds {
            exchange.client.steps.extend(request.into_iter().chain(read_answer));
            exchange.server.steps.extend(read_request.into_iter().chain(answer));
        }
        exchange
    })
}

/// Both sides send a message before they read the other's.
fn both_at_once(may: May) -> impl Strategy<Value = Exchange> {
    (sent_and_read(may), sent_and_read(may)).prop_map(|((client, server_reads), (server, client_reads))| {
        let script = |steps: Vec<Step>, reads| Script { steps: [steps, reads].concat(), ..Script::default() };
        Exchange { client: script(client, client_reads), relay: None, server: script(server, server_reads) }
    })
}

/// The same with a relay between the two.
fn relayed(exchange: Exchange, towards_client: Vec<Setting>, towards_server: Vec<Setting>) -> Exchange {
    Exchange { relay: Some(Relay { towards_client, towards_server }), ..exchange }
}

fn run(exchange: &Exchange, facts: &Facts) -> Prediction {
    predict(exchange, facts, REQUESTS).expect("predictable")
}

/// Delayed ACKs waited for in each request, by the side that was held.
fn quanta(prediction: &Prediction) -> Vec<Sides<usize>> {
    let held_by = |request: &smallwrites::model::Request, side: Side| {
        request.waits.iter().filter(|wait| wait.ended_by == Ended::DelayedAck(side.peer().into())).count()
    };
    prediction.requests.iter().map(|request| Sides::from_fn(|side| held_by(request, side))).collect()
}

fn never_stalls(prediction: &Prediction) -> bool {
    prediction.stuck.is_none() && prediction.requests.iter().all(|request| request.waits.is_empty())
}

fn facts() -> impl Strategy<Value = Facts> {
    prop_oneof![Just(Facts::default()), Just(Facts::loopback(None)), Just(Facts::loopback(Some(1448)))]
}

proptest! {
    #![proptest_config(same_every_time(10_000))]

    #[test]
    fn every_byte_leaves_once_and_in_order(exchange in request_and_answer(ANYTHING, 2), facts in facts()) {
        let prediction = run(&exchange, &facts);
        let mut left = Sides { client: 0, server: 0 };
        let mut written = Sides { client: 0, server: 0 };
        for moment in prediction.timeline.moments() {
            match moment.event {
                Event::Write { bytes, .. } => written[moment.socket.side()] += u64::from(bytes),
                Event::Full { bytes } => written[moment.socket.side()] -= u64::from(bytes),
                Event::Data { from, bytes, .. } => {
                    prop_assert_eq!(from, left[moment.socket.side()]);
                    left[moment.socket.side()] += u64::from(bytes);
                    prop_assert!(left[moment.socket.side()] <= written[moment.socket.side()]);
                }
                _ => {}
            }
        }
        prop_assert_eq!(left, written);
        prop_assert_eq!(left.client, exchange.client.written() * u64::from(REQUESTS));
    }

    #[test]
    fn given_what_a_tick_decides_a_prediction_is_itself_or_differs_from_there_on(
        exchange in request_and_answer(ANYTHING, 2), facts in facts(),
    ) {
        let deciding = |calls: &[bool]| predict_deciding(&exchange, &facts, Rules::all(), REQUESTS, calls);
        let usual = run(&exchange, &facts);
        let calls: Vec<bool> = usual.close_calls.iter().map(|call| call.longer).collect();
        prop_assert_eq!(&deciding(&calls).expect("predictable"), &usual);
        if let Some((i, call)) = usual.close_calls.iter().enumerate().next_back() {
            let turned = deciding(&[&calls[..i], &[!calls[i]]].concat()).expect("predictable");
            prop_assert!(turned.close_calls[i].turned);
            prop_assert_eq!(&turned.close_calls[..i], &usual.close_calls[..i]);
            let before = call.request as usize;
            prop_assert_eq!(&turned.requests[..before], &usual.requests[..before]);
            prop_assert_eq!(turned.stuck, None);
        }
    }

    #[test]
    fn a_relay_forwards_every_byte(
        exchange in request_and_answer(ANYTHING, 2), relay in (opened(ANYTHING), opened(ANYTHING)), facts in facts(),
    ) {
        let exchange = relayed(exchange, relay.0, relay.1);
        let prediction = run(&exchange, &facts);
        prop_assert_eq!(prediction.stuck, None);
        let mut left = exchange.sockets().map(|_| 0);
        for moment in prediction.timeline.moments() {
            if let Event::Data { from, bytes, .. } = moment.event {
                prop_assert_eq!(from, left[moment.socket]);
                left[moment.socket] += u64::from(bytes);
            }
        }
        let [client, server] = Side::BOTH.map(|side| exchange.script(side).written() * u64::from(REQUESTS));
        prop_assert_eq!(left, Sockets { client, server, relay: Some(Sides { client: server, server: client }) });
    }

    #[test]
    fn nodelay_at_every_socket_never_stalls_through_a_relay(
        exchange in prop_oneof![request_and_answer(PLAIN, 2).boxed(), both_at_once(PLAIN).boxed()], facts in facts(),
    ) {
        let nodelay = || vec![Setting::new(Opt::NoDelay, 1)];
        let exchange = relayed(exchange.with_option(&Side::BOTH, Opt::NoDelay, 1), nodelay(), nodelay());
        prop_assert!(never_stalls(&run(&exchange, &facts)));
    }

    #[test]
    fn no_request_is_held_for_ever(exchange in request_and_answer(ANYTHING, 2), facts in facts()) {
        let prediction = run(&exchange, &facts);
        prop_assert_eq!(prediction.stuck, None);
        prop_assert_eq!(prediction.requests.len(), REQUESTS as usize);
    }

    #[test]
    fn nodelay_on_both_sides_never_stalls_a_message(
        exchange in prop_oneof![request_and_answer(PLAIN, 2).boxed(), both_at_once(PLAIN).boxed()], facts in facts(),
    ) {
        let exchange = exchange.with_option(&Side::BOTH, Opt::NoDelay, 1);
        prop_assert!(never_stalls(&run(&exchange, &facts)));
    }

    #[test]
    fn nodelay_on_one_side_never_stalls_its_messages(exchange in request_and_answer(PLAIN, 2), facts in facts()) {
        let exchange = exchange.with_option(&[Side::Client], Opt::NoDelay, 1);
        prop_assert!(quanta(&run(&exchange, &facts)).iter().all(|quanta| quanta.client == 0));
    }

    #[test]
    fn one_write_a_message_never_stalls_if_every_message_is_answered(
        exchange in prop_oneof![request_and_answer(ONE_WRITE, 3).boxed(), both_at_once(ONE_WRITE).boxed()],
        facts in facts(),
    ) {
        prop_assert!(never_stalls(&run(&exchange, &facts)));
    }

    #[test]
    fn a_quickack_route_never_stalls_unless_corked(
        exchange in request_and_answer(May { options: true, full: true, ..PLAIN }, 2), facts in facts(),
    ) {
        let facts = Facts { quickack_route: true, ..facts };
        prop_assert!(never_stalls(&run(&exchange, &facts)));
    }

    #[test]
    fn more_writes_cost_a_message_at_most_one_quantum(
        exchange in prop_oneof![
            request_and_answer(May { full: false, ..ANYTHING }, 1).boxed(), both_at_once(PLAIN).boxed(),
        ],
        facts in facts(),
    ) {
        for quanta in quanta(&run(&exchange, &facts)) {
            prop_assert!(quanta.client <= 1 && quanta.server <= 1, "{quanta:?}");
        }
    }

    #[test]
    fn a_full_send_buffer_costs_a_message_at_most_one_quantum_each_time(
        exchange in request_and_answer(May { writes: 8, ..ANYTHING }, 1), facts in facts(),
    ) {
        let prediction = run(&exchange, &facts);
        let refused = |request: usize, side: Side| {
            let full = |moment: &&Moment| matches!(moment.event, Event::Full { .. });
            let full = prediction.timeline.moments().iter().filter(full);
            full.filter(|moment| moment.request as usize == request && moment.socket.side() == side).count()
        };
        for (request, quanta) in quanta(&prediction).into_iter().enumerate() {
            for side in Side::BOTH {
                prop_assert!(quanta[side] <= 1 + refused(request, side), "request {request}: {quanta:?}");
            }
        }
    }
}
