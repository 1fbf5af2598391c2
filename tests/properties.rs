//! What must hold for every input: the notation, the decoder of `TCP_INFO`, the statistics, the patterns, the fixes.

mod support {
    pub(crate) mod cases;
}

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use smallwrites::exchange::{Exchange, Fix, MAX_BYTES, MAX_STEPS, Opt, ParseError, Relay, Script, Setting, Side, Step};
use smallwrites::observation::Summary;
use smallwrites::sys::tcp_info::TcpInfo;
use smallwrites::verdict::Pattern;
use support::cases::same_every_time;

fn bytes() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..2_000_u32, 1 => 0..=MAX_BYTES, 1 => Just(MAX_BYTES)]
}

fn value() -> impl Strategy<Value = i32> {
    prop_oneof![Just(0), Just(1), any::<i32>()]
}

fn setting() -> impl Strategy<Value = Setting> {
    (select(&Opt::WORDS[..]), value()).prop_map(|((option, _), value)| Setting::new(option, value))
}

/// An option that a step may set: the segment size is agreed in the handshake.
fn later_setting() -> impl Strategy<Value = Setting> {
    setting().prop_filter("mss is set before the handshake", |setting| setting.option != Opt::Mss)
}

fn plain_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        bytes().prop_map(Step::Write),
        bytes().prop_map(Step::More),
        bytes().prop_map(Step::Record),
        prop::collection::vec(bytes(), 1..5).prop_map(Step::Vector),
        prop::collection::vec(bytes(), 1..5).prop_map(Step::ZeroCopy),
        (bytes(), bytes()).prop_map(|(length, beyond)| Step::SendFile { length, beyond }),
        (1..=MAX_BYTES).prop_map(Step::Read),
        prop_oneof![0..60_000_000_u64, (0..=60_000_u64).prop_map(|ms| ms * 1_000)].prop_map(Step::Pause),
        later_setting().prop_map(Step::Set),
        Just(Step::Shutdown),
    ]
}

/// A step, repeated and nested as deep as the notation goes: four groups within one another, and one step repeated.
fn step() -> impl Strategy<Value = Step> {
    let repeated = (plain_step(), 1..20_u32).prop_map(|(step, times)| Step::Repeat(vec![step], times));
    let leaf = prop_oneof![4 => plain_step(), 1 => repeated];
    leaf.prop_recursive(4, 24, 4, |inner| {
        (prop::collection::vec(inner, 1..4), 1..6_u32).prop_map(|(steps, times)| Step::Repeat(steps, times))
    })
}

fn group() -> impl Strategy<Value = Vec<Setting>> {
    prop::collection::vec(setting(), 0..4)
}

fn script(side: Side) -> impl Strategy<Value = Script> {
    let listening = if side == Side::Server { 0..4 } else { 0..1 };
    let listening = prop::collection::vec(setting(), listening);
    (group(), listening, group(), prop::collection::vec(step(), 0..6))
        .prop_map(|(bound, listening, opened, steps)| Script { bound, listening, opened, steps })
        .prop_filter("a request has so many steps at most", |script| {
            script.steps.iter().map(unrolled_length).sum::<u64>() <= MAX_STEPS / 4
        })
}

fn unrolled_length(step: &Step) -> u64 {
    match step {
        Step::Repeat(steps, times) => steps.iter().map(unrolled_length).sum::<u64>() * u64::from(*times),
        _ => 1,
    }
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let relay = (group(), group());
    let relay = relay.prop_map(|(towards_client, towards_server)| Relay { towards_client, towards_server });
    (script(Side::Client), prop::option::of(relay), script(Side::Server)).prop_map(|(client, relay, server)| Exchange {
        client,
        relay,
        server,
    })
}

/// An error points into the text, or just behind it, and says what was met there and what was expected.
fn assert_points_into(text: &str, error: &ParseError) -> Result<(), TestCaseError> {
    let characters: Vec<char> = text.chars().collect();
    prop_assert!((1..=characters.len() + 1).contains(&error.column), "{text:?}: {error}");
    prop_assert!(!error.expected.is_empty() && !error.met.is_empty(), "{text:?}: {error:?}");
    let at_the_end = characters[error.column - 1..].iter().all(|c| c.is_whitespace());
    prop_assert_eq!(error.met == "the end", at_the_end, "{:?}: {}", text, error);
    prop_assert_eq!(error.to_string().lines().count(), 1, "one line: {:?}", error.to_string());
    Ok(())
}

fn parsed(text: &str) -> Result<Exchange, TestCaseError> {
    text.parse().map_err(|error| TestCaseError::fail(format!("{text}: {error}")))
}

/// Text made of the notation's own pieces: what a person types who nearly knows it.
fn nearly_notation() -> impl Strategy<Value = String> {
    let pieces = [
        "C:",
        "S:",
        "relay:",
        "/",
        " ",
        " ",
        "W10",
        "R20",
        "M1",
        "E5",
        "V1+2",
        "F9+3",
        "P5",
        "P250us",
        "W",
        "R0",
        "×3",
        "x3",
        "*3",
        "(",
        ")",
        "[",
        "]",
        "bound[",
        "listening[",
        "nodelay",
        "nodelay=0",
        "mss",
        "=",
        "mss=9",
        "cork",
        "uncork",
        "shutdown",
        "-",
        "+",
        "9",
        "99999999999999999999",
        "é",
        "\t",
        "\n",
        "quickack=-1",
        "Write",
        "TCP_NODELAY",
    ];
    prop::collection::vec(select(pieces.to_vec()), 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(same_every_time(1_000))]

    #[test]
    fn what_is_printed_parses_to_the_same(exchange in exchange()) {
        let text = exchange.to_string();
        prop_assert_eq!(parsed(&text)?, exchange);
    }

    #[test]
    fn an_exchange_survives_json(exchange in exchange()) {
        let json = serde_json::to_string(&exchange)?;
        prop_assert_eq!(serde_json::from_str::<Exchange>(&json)?, exchange);
    }

    #[test]
    fn any_text_parses_or_is_refused_at_its_column(text in "\\PC{0,60}") {
        if let Err(error) = text.parse::<Exchange>() {
            assert_points_into(&text, &error)?;
        }
    }

    #[test]
    fn near_notation_parses_or_is_refused_at_its_column(text in nearly_notation()) {
        match text.parse::<Exchange>() {
            Ok(exchange) => prop_assert_eq!(exchange.to_string().parse(), Ok(exchange)),
            Err(error) => assert_points_into(&text, &error)?,
        }
    }

    #[test]
    fn one_wrong_character_parses_or_is_refused_at_its_column(
        exchange in exchange(),
        at in any::<prop::sample::Index>(),
        put in prop::option::of(any::<char>()),
        replace in any::<bool>(),
    ) {
        let mut text: Vec<char> = exchange.to_string().chars().collect();
        let at = at.index(text.len());
        if replace {
            text.remove(at);
        }
        if let Some(put) = put {
            text.insert(at, put);
        }
        let text: String = text.into_iter().collect();
        match text.parse::<Exchange>() {
            Ok(exchange) => prop_assert_eq!(exchange.to_string().parse(), Ok(exchange)),
            Err(error) => assert_points_into(&text, &error)?,
        }
    }

    /// Nothing before the cut can be what is wrong.
    #[test]
    fn a_text_cut_short_is_refused_at_its_end_at_most_a_word_earlier(exchange in exchange(), at in any::<prop::sample::Index>()) {
        let text: Vec<char> = exchange.to_string().chars().collect();
        let cut = at.index(text.len());
        let text: String = text[..cut].iter().collect();
        if let Err(error) = text.parse::<Exchange>() {
            assert_points_into(&text, &error)?;
            let word = text.chars().rev().take_while(|c| !c.is_whitespace() && !matches!(c, '[' | '(')).count();
            prop_assert!(error.column > cut.saturating_sub(word), "{text:?}: {error}");
        }
    }

    #[test]
    fn repetitions_written_out_keep_the_bytes(exchange in exchange()) {
        for side in Side::BOTH {
            let script = exchange.script(side);
            let unrolled = script.unrolled();
            prop_assert!(unrolled.iter().all(|step| !matches!(step, Step::Repeat(..))));
            prop_assert_eq!(unrolled.iter().map(Step::written).sum::<u64>(), script.written());
            prop_assert_eq!(unrolled.iter().map(Step::read).sum::<u64>(), script.read());
        }
    }

    #[test]
    fn a_fix_moves_no_byte_and_can_be_written_down(exchange in exchange(), fix in select(&Fix::ALL[..])) {
        let fixed = fix.applied(&exchange);
        for side in Side::BOTH {
            prop_assert_eq!(fixed.script(side).written(), exchange.script(side).written(), "{} writes", side);
            prop_assert_eq!(fixed.script(side).read(), exchange.script(side).read(), "{} reads", side);
        }
        let text = fixed.to_string();
        prop_assert_eq!(parsed(&text)?, fixed, "{}", fix);
    }

    /// The rewriting fixes have nothing left to rewrite after the first time.
    #[test]
    fn a_rewriting_fix_applied_twice_is_applied_once(exchange in exchange(), fix in select(&[Fix::OneWrite, Fix::Cork, Fix::MsgMore][..])) {
        let once = fix.applied(&exchange);
        prop_assert_eq!(fix.applied(&once).to_string(), once.to_string());
    }

    #[test]
    fn tcp_info_of_any_length_decodes_and_more_bytes_change_no_field(
        bytes in prop::collection::vec(any::<u8>(), 0..=512),
        cut in any::<prop::sample::Index>(),
    ) {
        let short = &bytes[..cut.index(bytes.len() + 1)];
        let (whole, part) = (fields(&bytes), fields(short));
        for (name, value) in &part {
            prop_assert!(value.is_null() || *value == whole[name], "{name} is {value} in {} bytes, {} in {}", short.len(), whole[name], bytes.len());
        }
        let known = |fields: &serde_json::Map<String, Value>| fields.values().filter(|value| !value.is_null()).count();
        prop_assert!(known(&part) <= known(&whole));
        prop_assert_eq!(TcpInfo::decode(short).length, short.len());
    }

    #[test]
    fn the_median_is_a_sample_with_half_of_them_on_either_side(samples in prop::collection::vec(any::<u64>(), 1..200)) {
        let summary = Summary::of(samples.iter().copied()).expect("there are samples");
        prop_assert_eq!(summary.n, samples.len());
        prop_assert_eq!(Some(summary.least_us), samples.iter().copied().min());
        prop_assert_eq!(Some(summary.worst_us), samples.iter().copied().max());
        prop_assert!(samples.contains(&summary.median_us));
        let below = samples.iter().filter(|sample| **sample <= summary.median_us).count();
        let above = samples.iter().filter(|sample| **sample >= summary.median_us).count();
        prop_assert!(2 * below >= samples.len() && 2 * above >= samples.len(), "{below} and {above} of {}", samples.len());
    }

    #[test]
    fn the_order_of_samples_is_no_matter(samples in prop::collection::vec(any::<u64>(), 0..50), seed in any::<u64>()) {
        let mut mixed = samples.clone();
        mixed.sort_by_key(|sample| sample.wrapping_mul(seed | 1).rotate_left(17));
        prop_assert_eq!(Summary::of(mixed), Summary::of(samples));
    }

    /// Whatever was seen, the pattern says of each request what was seen of it, unless it names none.
    #[test]
    fn a_pattern_fits_the_requests_it_was_read_off(stalled in prop::collection::vec(any::<bool>(), 0..12)) {
        let pattern = Pattern::of(&stalled, &vec![false; stalled.len()]);
        let first = stalled.iter().position(|stalled| *stalled);
        for (i, stalled) in stalled.iter().enumerate() {
            let number = i as u32 + 1;
            match pattern {
                Pattern::Mixed => {}
                Pattern::EveryNth(n) => {
                    let expected = first.is_some_and(|first| i >= first && (i - first).is_multiple_of(n as usize));
                    prop_assert_eq!(*stalled, expected, "{} of {}", number, pattern);
                }
                pattern => prop_assert_eq!(*stalled, pattern.expects(number), "{} of {}", number, pattern),
            }
        }
        prop_assert_eq!(pattern == Pattern::None, first.is_none());
    }

    /// What a regular run comes to does not depend on requests in which the machine was late, as long as two are left that tell.
    #[test]
    fn late_requests_do_not_change_the_pattern(
        pattern in prop_oneof![Just(Pattern::None), Just(Pattern::Every), Just(Pattern::AllButFirst), (3..6_u32).prop_map(Pattern::FromNth)],
        count in 10..20_usize,
        late in prop::collection::vec(prop::bool::weighted(0.2), 20),
    ) {
        let mut late = late[..count].to_vec();
        // Those that tell the patterns apart: the first ones, and two that stall.
        late[..6].fill(false);
        late[count - 2..].fill(false);
        let stalled: Vec<bool> = (0..count).map(|i| pattern.expects(i as u32 + 1) && !late[i]).collect();
        prop_assert_eq!(Pattern::of(&stalled, &late), pattern);
    }

    #[test]
    fn pattern_words_parse_as_they_print(pattern in prop_oneof![
        Just(Pattern::None), Just(Pattern::Every), Just(Pattern::AllButFirst), Just(Pattern::Mixed),
        (3..10_000_u32).prop_map(Pattern::FromNth), (2..10_000_u32).prop_map(Pattern::EveryNth),
    ]) {
        prop_assert_eq!(pattern.to_string().parse(), Ok(pattern));
    }
}

fn fields(bytes: &[u8]) -> serde_json::Map<String, Value> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(TcpInfo::decode(bytes)) else {
        panic!("TcpInfo is an object of fields")
    };
    fields.remove("length");
    fields
}

/// The lengths that kernels are known to return: Linux 5.4, 6.2, 6.8 and 6.18.
#[test]
fn tcp_info_of_known_kernels_has_the_fields_of_its_time() {
    let bytes: Vec<u8> = (0..=255).cycle().take(512).collect();
    let missing = |length: usize| -> Vec<String> {
        fields(&bytes[..length]).into_iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name).collect()
    };
    assert_eq!(missing(232), ["rcv_wnd", "rehash"]);
    for length in [240, 248, 280, 512] {
        assert_eq!(missing(length), [""; 0], "{length} bytes");
    }
    // Cut within the last field of the oldest kernels.
    assert_eq!(missing(231), ["rcv_wnd", "rehash", "snd_wnd"]);
    assert!(!missing(0).contains(&"length".to_owned()));
    assert_eq!(missing(0).len(), fields(&bytes).len());
}
