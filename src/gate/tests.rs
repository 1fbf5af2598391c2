//! Records that are made up, compared, written, read, cut and bent.

use super::{Comparison, parse};
use crate::claims::Document;
use crate::expect::{Failure, Kind};
use crate::kernel::Kernel;
use crate::lab::Settings;
use crate::report::{Counts, Entry, Program, Record, RecordError, SCHEMA, Shown, Word};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::sync::LazyLock;

fn kernel() -> Kernel {
    static KERNEL: LazyLock<Kernel> = LazyLock::new(|| Kernel::probe().unwrap());
    KERNEL.clone()
}

fn entry(id: &str, outcome: Word, says: &str, latencies: &[u64]) -> Entry {
    let sample = serde_json::json!({
        "exchange": "C: W10 W10 R20 / S: R20 W20",
        "order": "ordered",
        "place": "private namespace",
        "verdict": { "pattern": "none", "wait": null, "stalled": [], "explained": [], "causes": [] },
        "latencies_us": latencies,
        "data_segments": { "client": 2, "server": 1 },
        "segments_by_request": { "client": [2], "server": [null] },
        "bare_acks": { "client": null, "server": 0 },
        "counters": null,
    });
    let passed = outcome == Word::Passed;
    Entry {
        id: id.to_owned(),
        document: Document::Chapter,
        section: "part".to_owned(),
        says: says.to_owned(),
        expected: "holds".to_owned(),
        detail: None,
        source: "tcp(7)".to_owned(),
        outcome,
        reason: (!passed).then(|| says.to_owned()),
        remedy: None,
        canonical: format!("{id}: {outcome} (holds): {says}"),
        evidence: Shown {
            canonical: passed.then(|| says.to_owned()),
            measured: None,
            samples: vec![serde_json::from_value(sample).unwrap()],
        },
        failure: (outcome == Word::Failed).then(|| Failure::plain(Kind::Law, says, "a law", "another")),
        took_ms: 3,
    }
}

fn record(claims: Vec<Entry>) -> Record {
    let mut record = Record {
        schema: SCHEMA,
        program: Program { name: "smallwrites".to_owned(), version: "0.1.0".to_owned() },
        kernel: kernel(),
        place: "private namespaces".to_owned(),
        settings: Settings::default(),
        counts: Counts::default(),
        took_ms: 2_000,
        claims,
        sequences: Vec::new(),
        digest: String::new(),
    };
    record.seal();
    record
}

fn one() -> Record {
    record(vec![entry("a-claim", Word::Passed, "100 segments", &[44_000, 45_000, 46_000])])
}

/// A change of the written text, read again.
fn bent(from: &str, to: &str) -> RecordError {
    let text = one().to_string();
    assert!(text.contains(from), "nothing to bend: {from}");
    parse(text.replacen(from, to, 1).as_bytes()).unwrap_err()
}

#[test]
fn a_flip_comes_before_a_count_and_both_trip() {
    let old = record(vec![
        entry("flips", Word::Passed, "stalls", &[1]),
        entry("counts", Word::Passed, "100 segments", &[1]),
        entry("same", Word::Passed, "50 segments", &[1]),
    ]);
    let new = record(vec![
        entry("flips", Word::Failed, "stalls", &[1]),
        entry("counts", Word::Passed, "99 segments", &[1]),
        entry("same", Word::Passed, "50 segments", &[1]),
    ]);
    let changed = Comparison::of(&old, &new);
    assert_eq!((changed.flips.len(), changed.counts.len(), changed.unchanged), (1, 1, 1));
    assert!(changed.trips(None));
    let text = changed.to_string();
    assert!(text.find("verdict flips") < text.find("changed counts"), "{text}");
    assert!(text.ends_with("1 claim unchanged, 1 flipped, 1 changed in a count\n"), "{text}");
}

#[test]
fn times_alone_trip_only_past_a_limit() {
    let old = record(vec![entry("a", Word::Passed, "no stall", &[20_000, 20_010, 20_020])]);
    let new = record(vec![entry("a", Word::Passed, "no stall", &[44_000, 44_010, 44_020])]);
    let slower = Comparison::of(&old, &new);
    assert_eq!(slower.shifts.len(), 1);
    assert!(!slower.trips(None) && slower.trips(Some(100.0)) && !slower.trips(Some(200.0)));
    let faster = Comparison::of(&new, &old);
    assert!(faster.shifts.len() == 1 && !faster.trips(Some(1.0)));
}

#[test]
fn a_claim_that_vanished_trips_and_a_new_one_does_not() {
    let (small, large) = (one(), record(vec![one().claims.remove(0), entry("b", Word::Passed, "x", &[1])]));
    assert!(!Comparison::of(&small, &large).trips(None));
    assert!(Comparison::of(&large, &small).trips(None));
}

#[test]
fn why_a_claim_was_ignored_is_no_count() {
    let [old, new] = ["no IPv6", "no namespace"].map(|why| record(vec![entry("a", Word::Ignored, why, &[])]));
    assert!(Comparison::of(&old, &new).is_empty());
}

#[test]
fn files_of_others_are_refused_in_one_line() {
    assert!(matches!(bent("\"schema\": 1", "\"schema\": 7"), RecordError::Schema(7)));
    assert!(matches!(bent("\"name\":\"smallwrites\"", "\"name\":\"bigreads\""), RecordError::Foreign(_)));
    assert!(matches!(bent("100 segments", "101 segments"), RecordError::Edited(_)));
    assert!(matches!(bent("\"outcome\":\"passed\"", "\"outcome\":\"failed\""), RecordError::Edited(_)));
    assert!(matches!(bent("\"outcome\":\"passed\"", "\"outcome\":\"great\""), RecordError::Malformed(_)));
    assert!(matches!(bent("45000", "45001"), RecordError::Edited(_)));
    for stranger in ["", "{}", "[]", "null", "7", "\"text\"", "{\"schema\": 1}", "<html>", "\u{feff}{}"] {
        let error = parse(stranger.as_bytes()).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
    }
    assert!(parse(&[0xff, 0xfe, 0x00]).unwrap_err().to_string().contains("not UTF-8"));
}

#[test]
fn cut_anywhere_it_is_an_error_of_one_line() {
    let whole = one().to_string();
    // Without its last line end it is still whole.
    for end in 0..whole.len() - 2 {
        let error = parse(&whole.as_bytes()[..end]).unwrap_err();
        assert!(matches!(error, RecordError::CutShort { .. }), "at {end}: {error}");
        assert!(!error.to_string().contains('\n'));
    }
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![Just(Word::Passed), Just(Word::Failed), Just(Word::Ignored)]
}

fn records() -> impl Strategy<Value = Record> {
    let claim = (word(), "\\PC{0,40}", proptest::collection::vec(any::<u64>(), 0..8));
    proptest::collection::vec(claim, 0..6).prop_map(|claims| {
        let numbered = claims.into_iter().enumerate();
        record(numbered.map(|(i, (word, says, times))| entry(&format!("claim-{i}"), word, &says, &times)).collect())
    })
}

proptest! {
    // The same cases every time: a change is judged by what it changes, not by what was drawn.
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(2026), ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(record in records()) {
        prop_assert_eq!(Record::read(&record.to_string()).unwrap(), record);
    }

    #[test]
    fn nothing_differs_from_itself(record in records()) {
        let changed = Comparison::of(&record, &record);
        prop_assert!(changed.is_empty() && !changed.trips(Some(0.0)));
        prop_assert_eq!(changed.unchanged, record.claims.len());
    }

    #[test]
    fn what_trips_one_way_has_a_difference_the_other_way(old in records(), new in records()) {
        let [there, back] = [Comparison::of(&old, &new), Comparison::of(&new, &old)];
        prop_assert_eq!(there.flips.len(), back.flips.len());
        prop_assert_eq!(there.vanished, back.appeared);
        prop_assert_eq!(there.unchanged, back.unchanged);
    }

    #[test]
    fn no_byte_can_be_changed_unseen(at in 0..10_000_usize, to in any::<u8>()) {
        let whole = one();
        let mut bytes = whole.to_string().into_bytes();
        let at = at % bytes.len();
        bytes[at] = to;
        if let Ok(read) = parse(&bytes) {
            // Space for space, or an escape for its character.
            prop_assert_eq!(read, whole);
        }
    }
}
