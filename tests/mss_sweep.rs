//! The kernel against the model, on write patterns that nobody chose by hand.
//!
//! Every case is a random exchange of six requests, played in order `ordered` in a lab of its own and predicted by the
//! model: stalls, held bytes, segments and bare ACKs must be equal. Cases run side by side, since a stall costs only sleep.
//!
//! Environment: `SWEEP_CASES` (160 unless said), `SWEEP_SEED` (the same cases every time unless said; `fresh` for new
//! ones), `SWEEP_WITHOUT` (a rule of the model to take out, which must make the sweep fail), `SWEEP_SYSCTL` (settings of
//! the labs, NAME=VALUE separated by semicolons).
//!
//! A machine that keeps the thread from its CPU changes what happens, so a case that differs and was kept waiting for more
//! than 3 ms is played again, at most three times, and counted; then once more after all others, when no other player
//! needs the CPU, as often.
//!
//! Where a tick decides whether quick ACKs are granted after a 200 ms hold ([`CloseCall`](smallwrites::model::CloseCall)),
//! the kernel is held against the outcome that it chose, and what was turned by that is counted.
//!
//! In two cases it is not for the rules alone to say what happens, so one that differs is played again, at most six times,
//! and counted apart. Timers on both connections of a relay fire in the same tick or the next: whether the clock ticked
//! between the two moments at which they were set is for the kernel to say. Or ksoftirqd ran meanwhile: what loopback
//! delivers then is delivered by that thread, some time after the `send` that the model has it in. A difference that stays
//! is a failure, whatever the machine did.

#[path = "mss_sweep/cases.rs"]
mod cases;
#[path = "mss_sweep/softirq.rs"]
mod softirq;

use cases::Case;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use smallwrites::agreement::{self, Difference};
use smallwrites::exchange::Socket;
use smallwrites::lab::{self, Conditions};
use smallwrites::model::{Event, Moment, Prediction, Rule, Rules};
use smallwrites::observation::Observation;
use smallwrites::play::Play;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

const CASES: usize = 160;
const REQUESTS: u32 = 6;
/// Players at once: enough to sleep together, few enough to leave each a CPU when it wakes.
const PLAYERS: usize = 24;
/// Longer than this without a CPU, and timers may overtake the script.
const LATE: Duration = Duration::from_millis(3);
/// How often a late case is played again, and one that the rules leave open.
const REPEATS_LATE: u32 = 3;
const REPEATS_OPEN: u32 = 6;
/// Plays that may be spent on making a failing case smaller.
const SHRINKS: usize = 120;

/// The cases of a run that asks for no others: a change is judged by what it changes, not by what was drawn.
const SEED: u64 = 2026;

/// How a case is played and predicted.
struct Sweep {
    conditions: Conditions,
    rules: Rules,
    again: AtomicUsize,
    races: AtomicUsize,
    turned: AtomicUsize,
    deferred: AtomicUsize,
    late_at_last: AtomicUsize,
}

fn main() -> ExitCode {
    let entered = lab::enter();
    let asked = |word: &str| std::env::args().any(|argument| argument == word);
    if asked("--list") {
        // Runners ask twice, the second time for what is ignored.
        if !asked("--ignored") {
            println!("kernel_and_model_agree: test");
        }
        return ExitCode::SUCCESS;
    }
    if let Err(error) = entered.and_then(|()| lab::available()) {
        println!("test kernel_and_model_agree ... ignored, {error}\n\ntest result: ok. 0 passed; 0 failed; 1 ignored");
        return ExitCode::SUCCESS;
    }
    let cases = number("SWEEP_CASES").unwrap_or(CASES as u64) as usize;
    let seed = if std::env::var("SWEEP_SEED").is_ok_and(|seed| seed == "fresh") {
        fresh_seed()
    } else {
        number("SWEEP_SEED").unwrap_or(SEED)
    };
    println!("running {cases} cases; SWEEP_SEED={seed}");
    let started = Instant::now();
    let sweep = Sweep {
        conditions: conditions(),
        rules: rules(),
        again: AtomicUsize::new(0),
        races: AtomicUsize::new(0),
        turned: AtomicUsize::new(0),
        deferred: AtomicUsize::new(0),
        late_at_last: AtomicUsize::new(0),
    };
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes(seed)));
    let mut trees: Vec<_> = (0..cases).map(|_| cases::any().new_tree(&mut runner).expect("a case")).collect();
    let drawn: Vec<Case> = trees.iter().map(ValueTree::current).collect();
    let mut found = side_by_side(&sweep, &drawn);
    // Alone, with no other player to wait for.
    for (outcome, case) in found.iter_mut().zip(&drawn).filter(|(outcome, _)| outcome.late) {
        *outcome = sweep.check(case);
    }

    let stalls: u32 = found.iter().map(|outcome| outcome.stalls).sum();
    let waited: Duration = found.iter().map(|outcome| outcome.took).sum();
    let differing: Vec<usize> = (0..cases).filter(|i| !found[*i].differences.is_empty()).collect();
    println!(
        "{cases} cases, {stalls} stalls in {:.1} s ({:.1} s one by one); {} played again for want of a CPU, {} still late then; {} for a race of timers, {} for ksoftirqd; {} turned by a tick; {} differ",
        started.elapsed().as_secs_f64(),
        waited.as_secs_f64(),
        sweep.again.load(Ordering::Relaxed),
        sweep.late_at_last.load(Ordering::Relaxed),
        sweep.races.load(Ordering::Relaxed),
        sweep.deferred.load(Ordering::Relaxed),
        sweep.turned.load(Ordering::Relaxed),
        differing.len(),
    );
    let Some(&first) = differing.first() else {
        println!("\ntest kernel_and_model_agree ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored");
        return ExitCode::SUCCESS;
    };
    println!("case {first} is the first that differs");
    for i in differing.iter().take(8) {
        println!("  {i}: {}: {}", drawn[*i], found[*i].differences[0]);
    }
    explain(&sweep, smallest(&sweep, &mut trees[first]));
    println!("\ntest kernel_and_model_agree ... FAILED\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored");
    ExitCode::FAILURE
}

/// What one case came to.
struct Outcome {
    differences: Vec<Difference>,
    /// Whether it differs and every play of it was kept waiting for a CPU.
    late: bool,
    stalls: u32,
    took: Duration,
}

impl Sweep {
    fn check(&self, case: &Case) -> Outcome {
        let started = Instant::now();
        let (mut late_plays, mut other_plays) = (0, 0);
        loop {
            let before = softirq::turns();
            let (predicted, seen) = self.both(case);
            let differences = agreement::differences(&predicted, &seen);
            let deferred = softirq::turns() > before;
            let late = seen.requests.iter().any(|request| request.run_queue_us.unwrap_or(0) > LATE.as_micros() as u64);
            if differences.is_empty() && predicted.close_calls.iter().any(|call| call.turned) {
                self.turned.fetch_add(1, Ordering::Relaxed);
            }
            let (plays, most, counter) = match (late, is_race(&predicted), deferred) {
                (true, ..) => (&mut late_plays, REPEATS_LATE, &self.again),
                (_, true, _) => (&mut other_plays, REPEATS_OPEN, &self.races),
                (.., deferred) => (&mut other_plays, if deferred { REPEATS_OPEN } else { 0 }, &self.deferred),
            };
            if !differences.is_empty() && *plays < most {
                *plays += 1;
                counter.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let late = late && !differences.is_empty();
            self.late_at_last.fetch_add(usize::from(late), Ordering::Relaxed);
            let stalls = predicted.requests.iter().map(|request| request.waits.len() as u32).sum();
            return Outcome { differences, late, stalls, took: started.elapsed() };
        }
    }

    fn both(&self, case: &Case) -> (Prediction, Observation) {
        let exchange = case.exchange();
        let play = Play::new(exchange.clone()).requests(REQUESTS);
        let conditions =
            case.sysctl.iter().fold(self.conditions.clone(), |all, (name, value)| all.sysctl(*name, *value));
        let played = conditions.run(|lab| play.run(lab).map(|seen| (agreement::facts(lab.kernel(), &seen), seen)));
        let (facts, seen) = played.expect("a lab").unwrap_or_else(|error| panic!("{exchange}: {error}"));
        let predicted = agreement::predicted_from(&facts, self.rules, &seen).expect("rules for every step");
        (predicted, seen)
    }
}

/// Whether timers on different connections fire within a tick of each other.
fn is_race(predicted: &Prediction) -> bool {
    let fires = |moment: &&Moment| matches!(moment.event, Event::DelayedAckTimer | Event::PersistTimer);
    let fired: Vec<&Moment> = predicted.timeline.moments().iter().filter(fires).collect();
    let first = |moment: &Moment| matches!(moment.socket, Socket::Client | Socket::RelayTowardsClient);
    let races = |pair: &[&Moment]| pair[1].tick - pair[0].tick <= 1 && first(pair[0]) != first(pair[1]);
    predicted.requests.iter().any(|request| request.held.relay.is_some()) && fired.windows(2).any(races)
}

fn side_by_side(sweep: &Sweep, cases: &[Case]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(cases.iter().map(|_| None).collect());
    thread::scope(|scope| {
        for _ in 0..PLAYERS {
            scope.spawn(|| {
                while let Some((i, case)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, cases.get(i)?)))
                {
                    let outcome = sweep.check(case);
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner)[i] = Some(outcome);
                }
            });
        }
    });
    outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .into_iter()
        .map(|outcome| outcome.expect("played"))
        .collect()
}

/// The smallest case that still differs.
fn smallest(sweep: &Sweep, tree: &mut impl ValueTree<Value = Case>) -> Case {
    let mut best = tree.current();
    for _ in 0..SHRINKS {
        if sweep.check(&tree.current()).differences.is_empty() {
            if !tree.complicate() {
                break;
            }
        } else {
            best = tree.current();
            if !tree.simplify() {
                break;
            }
        }
    }
    best
}

fn explain(sweep: &Sweep, case: Case) {
    let (predicted, seen) = sweep.both(&case);
    println!("\nsmallest: {case}");
    for difference in agreement::differences(&predicted, &seen) {
        println!("  {difference}");
    }
    println!("\n{}", agreement::side_by_side(&predicted, &seen));
    println!("smallwrites try {case} --requests {REQUESTS}");
}

fn conditions() -> Conditions {
    let settings = std::env::var("SWEEP_SYSCTL").unwrap_or_default();
    let pairs = settings.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.fold(Conditions::default().pinned_for_model(), |conditions, (name, value)| conditions.sysctl(name, value))
}

fn rules() -> Rules {
    let Ok(name) = std::env::var("SWEEP_WITHOUT") else { return Rules::all() };
    let rule = Rule::ALL.into_iter().find(|rule| rule.name() == name);
    Rules::all().without(rule.unwrap_or_else(|| panic!("no rule {name}; there are {:?}", Rule::ALL.map(Rule::name))))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn fresh_seed() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64 % 1_000_000_007)
}

fn bytes(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes
}
