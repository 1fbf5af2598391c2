//! Benchmarks: each compares two things in one run and prints their ratio beside the limit that it should keep.
//!
//!     cargo bench                 all of them
//!     cargo bench -- round-trip   those with a word in their name
//!
//! Times of a shared machine say little; ratios within one run say more. Exit status 1 where a limit is broken.

mod model;
mod round_trip;
mod side_by_side;
mod whole;

use std::process::ExitCode;

/// One comparison.
struct Ratio {
    name: &'static str,
    /// What was measured, and beside what.
    measured: (String, f64),
    beside: (String, f64),
    /// What the ratio should not exceed.
    limit: f64,
}

/// A benchmark with its name.
type Bench = (&'static str, fn() -> Vec<Ratio>);

fn main() -> ExitCode {
    // Before any thread, so that labs can be private.
    if let Err(error) = smallwrites::lab::enter() {
        eprintln!("bench: {error}");
        return ExitCode::from(3);
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let benches: [Bench; 4] = [
        ("model", model::run),
        ("whole catalogue", whole::run),
        ("side by side", side_by_side::run),
        ("round-trip", round_trip::run),
    ];
    let mut broken = 0;
    println!("{:<34} {:>26} {:>34} {:>7} {:>7}", "", "measured", "beside", "ratio", "limit");
    for (_, bench) in benches.iter().filter(|(name, _)| wanted(name)) {
        for ratio in bench() {
            let value = ratio.measured.1 / ratio.beside.1;
            let over = value > ratio.limit;
            broken += usize::from(over);
            println!(
                "{:<34} {:>26} {:>34} {value:>7.2} {:>7.2}{}",
                ratio.name,
                ratio.measured.0,
                ratio.beside.0,
                ratio.limit,
                if over { "  over" } else { "" }
            );
        }
    }
    ExitCode::from(u8::from(broken > 0))
}
