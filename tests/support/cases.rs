//! The cases that properties are held against.

use proptest::test_runner::{Config, RngSeed};

/// So many cases, the same every time: a change is judged by what it changes, not by what was drawn.
///
/// Environment: `PROPTEST_CASES` and `PROPTEST_RNG_SEED` ask for more and for others. A case that failed belongs into the
/// code as a test of its own.
pub(crate) fn same_every_time(cases: u32) -> Config {
    let asked = Config::default();
    let is_set = |name| std::env::var_os(name).is_some();
    Config {
        cases: if is_set("PROPTEST_CASES") { asked.cases } else { cases },
        rng_seed: if is_set("PROPTEST_RNG_SEED") { asked.rng_seed } else { RngSeed::Fixed(2026) },
        failure_persistence: None,
        ..asked
    }
}
