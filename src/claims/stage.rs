//! Where a claim's check plays its scenes, twisted or not.

use super::{Evidence, Sample, Scene, Twist};
use crate::expect::{Failure, Kind};
use crate::kernel::Kernel;
use crate::lab::{Conditions, Lab, Place};
use crate::observation::Observation;
use crate::verdict::Pattern;
use crate::verdict::was_mostly_late;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a scene is played at most on a machine that is late.
const TRIES: u32 = 4;

/// The place where one check runs.
#[derive(Debug)]
pub struct Stage<'a> {
    kernel: &'a Kernel,
    base: &'a Conditions,
    twist: Option<Twist>,
    samples: Mutex<Vec<Sample>>,
    /// Everything that was played, captured; `None` where only samples are kept.
    captured: Option<Mutex<Vec<Observation>>>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(kernel: &'a Kernel, base: &'a Conditions, twist: Option<Twist>) -> Self {
        Self { kernel, base, twist, samples: Mutex::new(Vec::new()), captured: None }
    }

    /// The same with every exchange captured and kept whole, where the lab is private.
    pub(super) fn capturing(mut self) -> Self {
        self.captured = (self.base.place == Place::Private).then(Mutex::default);
        self
    }

    /// Facts of the running kernel.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        self.kernel
    }

    /// Whether this is the control, for a check that breaks its own condition.
    #[must_use]
    pub fn is_twisted(&self) -> bool {
        matches!(self.twist, Some(Twist::Check))
    }

    /// Plays one scene in a lab of its own.
    ///
    /// # Errors
    ///
    /// Where the lab or the exchange fails.
    pub fn play(&self, scene: impl Into<Scene>) -> Result<Observation, Failure> {
        let seen = self.perform(scene.into())?;
        self.keep(&seen);
        Ok(seen)
    }

    fn perform(&self, scene: Scene) -> Result<Observation, Failure> {
        let twist = |exchange| match self.twist {
            Some(Twist::Exchange(change)) => change(exchange),
            _ => exchange,
        };
        let scene = match self.twist {
            Some(Twist::Instead(notation)) => scene.instead(notation),
            _ => scene,
        };
        let scene = if self.captured.is_some() { scene.capture() } else { scene };
        let play = scene.play(twist).map_err(|error| broken("the exchange can be parsed", &error))?;
        let perform = || {
            let seen = self.lab(|conditions| scene.conditions(conditions), |lab| play.run(lab))?;
            seen.map_err(|error| broken("the exchange can be played to its end", &error))
        };
        // A run in which the player was mostly without a CPU shows little, whatever that is.
        (1..TRIES).try_fold(perform()?, |seen, _| if was_mostly_late(&seen) { perform() } else { Ok(seen) })
    }

    fn keep(&self, seen: &Observation) {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).push(Sample::of(seen));
        if let Some(captured) = &self.captured {
            captured.lock().unwrap_or_else(PoisonError::into_inner).push(seen.clone());
        }
    }

    /// Plays several scenes side by side, each in a lab of its own; the answers come in the scenes' order.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub fn play_all<const N: usize>(&self, scenes: [Scene; N]) -> Result<[Observation; N], Failure> {
        let played: Vec<_> = thread::scope(|scope| {
            let threads = scenes.map(|scene| scope.spawn(move || self.perform(scene)));
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        // Kept in the scenes' order, whichever ended first, so that two runs can be held against each other.
        played.iter().flatten().for_each(|seen| self.keep(seen));
        let seen: Vec<Observation> = played.into_iter().collect::<Result<_, _>>()?;
        seen.try_into().map_err(|_| Failure::plain(Kind::Play, "an answer for every scene", "each is played", "fewer"))
    }

    /// Works in a lab, for a question that is no exchange.
    ///
    /// # Errors
    ///
    /// Where the lab cannot be had.
    pub fn lab<T: Send>(
        &self,
        change: impl FnOnce(Conditions) -> Conditions,
        work: impl FnOnce(&Lab) -> T + Send,
    ) -> Result<T, Failure> {
        let conditions = change(self.base.clone());
        let conditions = match self.twist {
            Some(Twist::Conditions(twist)) => twist(conditions),
            _ => conditions,
        };
        conditions.run(work).map_err(|error| broken("a lab can be opened", &error))
    }

    /// Plays a scene as it is, twisted or not, for a fact of the place that a check starts from.
    ///
    /// # Errors
    ///
    /// Where the lab or the exchange fails.
    pub fn measure(&self, scene: impl Into<Scene>) -> Result<Observation, Failure> {
        let scene = scene.into();
        let play = scene.play(|exchange| exchange).map_err(|error| broken("the exchange can be parsed", &error))?;
        let seen = scene.conditions(self.base.clone()).run(|lab| play.run(lab));
        let seen = seen.map_err(|error| broken("a lab can be opened", &error))?;
        seen.map_err(|error| broken("the exchange can be played to its end", &error))
    }

    /// Asks something of sockets in a lab, for a claim that no exchange can show.
    ///
    /// # Errors
    ///
    /// Where the lab cannot be had or the kernel refuses what the question needs.
    pub fn ask<T: Send>(&self, work: impl FnOnce(&Lab) -> io::Result<T> + Send) -> Result<T, Failure> {
        self.lab(|conditions| conditions, work)?.map_err(|error| broken("the question can be asked", &error))
    }

    /// Replies in a row that put a receiver into pingpong mode: the kernel's setting, or measured where it has none.
    ///
    /// # Errors
    ///
    /// Where the measuring exchange fails.
    pub fn pingpong_threshold(&self) -> Result<u32, Failure> {
        if let Some(threshold) = self.kernel.pingpong_threshold {
            return Ok(threshold);
        }
        // One reply a request, further apart than a jiffy, so that an older kernel counts each of them.
        let seen = self.measure(Scene::of("C: P20 W10 R20 / S: R10 W20").requests(12))?;
        let first = seen.requests.iter().position(|request| request.receivers.server.pingpong == Some(true));
        let threshold = first.and_then(|replies| u32::try_from(replies).ok());
        threshold.ok_or_else(|| {
            let expected = "a receiver that answers promptly enters pingpong mode";
            Failure::plain(Kind::Law, expected, "inet_csk_enter_pingpong_mode", "never within 12 replies")
        })
    }

    /// The pattern of write-write-read on a kept connection: every request but the first stalls, or every third where
    /// three replies in a row make a receiver delay its ACKs.
    ///
    /// # Errors
    ///
    /// Where the measuring exchange fails.
    pub fn default_pattern(&self) -> Result<Pattern, Failure> {
        Ok(match self.pingpong_threshold()? {
            0 | 1 => Pattern::AllButFirst,
            n => Pattern::EveryNth(n),
        })
    }

    /// Everything that was played, where it was captured.
    pub(super) fn take_captured(&mut self) -> Vec<Observation> {
        let captured =
            self.captured.take().map(|captured| captured.into_inner().unwrap_or_else(PoisonError::into_inner));
        captured.unwrap_or_default()
    }

    pub(super) fn into_samples(self) -> Vec<Sample> {
        self.samples.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A failure of the place or the player, not of the claim.
fn broken(expected: &str, error: &dyn std::error::Error) -> Failure {
    Failure::plain(Kind::Play, expected, "a claim is judged on an exchange that was played", error.to_string())
}

/// How long an event may take that must come: longer than any retransmission.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Asks again until there is an answer, which must come.
pub(super) fn until<T>(mut ask: impl FnMut() -> io::Result<Option<T>>) -> io::Result<T> {
    let limit = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if Instant::now() >= limit {
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// What a check comes to.
pub(super) type Judged = Result<Evidence, Failure>;
