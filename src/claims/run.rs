//! Runs claims side by side and tells what came of each.

use super::need::Place;
use super::{Claim, Evidence, Missing, Sample, Stage, Twist, blame};
use crate::expect::Failure;
use crate::kernel::Kernel;
use crate::lab::{Conditions, LabError, Settings};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Stack of a claim's thread, bytes; labs have their own.
const STACK: usize = 512 << 10;

/// Claims that one CPU checks at once and on time, on the slowest machine that was tried: an emulated one.
const CLAIMS_PER_CPU: usize = 8;

/// Where claims are checked.
#[derive(Debug)]
pub struct Setting {
    /// Facts of the running kernel.
    pub kernel: Kernel,
    /// The conditions that every scene starts from.
    pub base: Conditions,
    /// How many claims are checked at once; [`at_once`] says how many where `None`.
    pub jobs: Option<usize>,
    place: Arc<Place>,
}

/// What came of one claim.
#[derive(Debug)]
pub struct Outcome {
    /// The claim.
    pub claim: &'static Claim,
    /// What was found.
    pub finding: Finding,
    /// How long the check took.
    pub took: Duration,
    /// Every exchange that it played.
    pub samples: Vec<Sample>,
}

/// Whether a claim's check passed.
#[derive(Debug)]
pub enum Finding {
    /// The kernel does what the catalogue expects.
    Passed(Evidence),
    /// It does not.
    Failed(Failure),
    /// This place cannot show it.
    Ignored(Missing),
}

/// Something that happened while claims ran.
#[derive(Debug)]
pub enum Event<'a> {
    /// So many claims are about to be checked.
    Started(usize),
    /// One came to its end.
    Ended(&'a Outcome),
}

impl Setting {
    /// Probes the place and the kernel: a private lab under the host's settings where one can be had, the shared
    /// loopback elsewhere.
    ///
    /// # Errors
    ///
    /// Where not even a TCP socket can be had.
    pub fn probe() -> io::Result<Self> {
        // Of the host's settings none is refused, only kept with a reason, so what fails is the namespace.
        match Settings::of_host().and_then(Self::under) {
            Ok(setting) => Ok(setting),
            Err(error) => Self::on_loopback(error),
        }
    }

    /// Private labs under these settings.
    ///
    /// # Errors
    ///
    /// Where no private lab can be had, or one cannot be given the settings.
    pub fn under(settings: Settings) -> Result<Self, LabError> {
        let kernel = settings.kernel()?;
        let base = Conditions { settings, ..Conditions::default() };
        base.run(|_| ())?;
        Ok(Self { kernel, base, jobs: None, place: Arc::new(Place { private: Ok(()) }) })
    }

    /// The shared loopback, whether a private lab could be had or not.
    ///
    /// # Errors
    ///
    /// Where not even a TCP socket can be had.
    pub fn shared() -> io::Result<Self> {
        Self::on_loopback(LabError::Shared("this claim"))
    }

    fn on_loopback(why: LabError) -> io::Result<Self> {
        // They hold there without being set; known only where a namespace shows what the defaults are.
        let base = Conditions { settings: Settings::of_host().unwrap_or_default(), ..Conditions::shared() };
        Ok(Self { kernel: Kernel::probe()?, base, jobs: None, place: Arc::new(Place { private: Err(why) }) })
    }

    /// The settings that its labs have, as far as they are not the kernel's defaults.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.base.settings
    }

    /// Why no private lab can be had, if none can.
    #[must_use]
    pub fn refused(&self) -> Option<String> {
        self.place.private.as_ref().err().map(ToString::to_string)
    }

    /// What this place lacks for a claim.
    #[must_use]
    pub fn missing(&self, claim: &Claim) -> Option<Missing> {
        claim.needs.iter().find_map(|need| need.missing(&self.place))
    }
}

impl Finding {
    /// `passed`, `failed` or `ignored`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Passed(_) => "passed",
            Self::Failed(_) => "failed",
            Self::Ignored(_) => "ignored",
        }
    }
}

/// Checks claims side by side: what they wait for is the kernel's timers, not a CPU. Not all at once, though: many
/// connections on one CPU make replies late, and a late reply is another pattern. The outcomes come in the claims' order.
pub fn run(claims: &[&'static Claim], setting: &Setting, on: impl Fn(Event<'_>) + Sync) -> Vec<Outcome> {
    on(Event::Started(claims.len()));
    let next = AtomicUsize::new(0);
    let done: Vec<OnceLock<Outcome>> = claims.iter().map(|_| OnceLock::new()).collect();
    // Takes one claim after another until none is left.
    let work = || {
        while let Some((claim, slot)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| claims.get(i).zip(done.get(i)))
        {
            let outcome = check(claim, setting);
            on(Event::Ended(&outcome));
            let _ = slot.set(outcome);
        }
    };
    thread::scope(|scope| {
        // Where a thread cannot be had, the others have more to do; this one has nothing else to do.
        for _ in 1..setting.jobs.unwrap_or_else(at_once).min(claims.len()) {
            let _ = thread::Builder::new().name("claims".to_owned()).stack_size(STACK).spawn_scoped(scope, work);
        }
        work();
    });
    done.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// How many claims are checked at once here.
#[must_use]
pub fn at_once() -> usize {
    thread::available_parallelism().map_or(1, usize::from) * CLAIMS_PER_CPU
}

/// Checks one claim.
#[must_use]
pub fn check(claim: &'static Claim, setting: &Setting) -> Outcome {
    let mut outcome = judge(claim, setting, None);
    if let Finding::Failed(failure) = &mut outcome.finding {
        failure.setting = blame::settings(claim, setting);
    }
    outcome
}

/// Runs one claim's control: its check under the condition that breaks it, which must fail.
#[must_use]
pub fn control(claim: &'static Claim, setting: &Setting) -> Outcome {
    judge(claim, setting, Some(claim.control.twist))
}

pub(super) fn judge(claim: &'static Claim, setting: &Setting, twist: Option<Twist>) -> Outcome {
    if let Some(missing) = setting.missing(claim) {
        return Outcome { claim, finding: Finding::Ignored(missing), took: Duration::ZERO, samples: Vec::new() };
    }
    let started = Instant::now();
    let stage = Stage::new(&setting.kernel, &setting.base, twist);
    let finding = on_stage(claim, &stage);
    Outcome { claim, finding, took: started.elapsed(), samples: stage.into_samples() }
}

/// Checks a claim on a stage; a check that panics has failed.
pub(super) fn on_stage(claim: &Claim, stage: &Stage<'_>) -> Finding {
    match catch_unwind(AssertUnwindSafe(|| (claim.check)(stage))) {
        Ok(Ok(evidence)) => Finding::Passed(evidence),
        Ok(Err(failure)) => Finding::Failed(named(failure, claim)),
        Err(panic) => Finding::Failed(named(panicked(&*panic), claim)),
    }
}

fn named(mut failure: Failure, claim: &Claim) -> Failure {
    failure.claim = Some(format!("{}: {}", claim.id, claim.says));
    failure
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("no message").to_owned();
    Failure::plain(crate::expect::Kind::Play, "the check comes to an end", "a check returns what it found", text)
}
