//! What an assertion says when it does not hold.

use crate::lab::PINS;
use crate::observation::{Observation, Order, Request, Summary, milliseconds};
use crate::verdict::{Verdict, wait};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// What kind of assertion failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Something stalled that should not.
    Stall,
    /// Other requests stalled than should.
    Pattern,
    /// A stall waited for something else, or for more or fewer delayed ACKs.
    Quanta,
    /// A stall was shorter than its timer.
    Time,
    /// A request broke the pingpong law.
    Law,
    /// A count of segments was off.
    Segments,
    /// Other bytes were held.
    Held,
    /// The bytes were held for another reason.
    Cause,
    /// A counter moved otherwise.
    Counter,
    /// An answer of the kernel was another.
    Answer,
    /// The exchange could not be played to its end.
    Play,
}

/// Why an assertion does not hold: a [`Detail`], boxed so that a result which carries it stays small.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Failure(Box<Detail>);

/// The parts of a [`Failure`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// The claim that failed, where one was checked: id and statement.
    pub claim: Option<String>,
    /// What kind of assertion.
    pub kind: Kind,
    /// What should hold.
    pub expected: String,
    /// Where that comes from.
    pub because: String,
    /// What was seen instead.
    pub saw: String,
    /// The request that shows it, or other evidence.
    pub witness: Option<String>,
    /// What matters of the place.
    pub place: Option<String>,
    /// The settings without which it would hold.
    pub setting: Option<String>,
    /// What to try.
    pub remedy: Option<String>,
}

impl Failure {
    /// A failure that is shown by something other than an exchange.
    #[must_use]
    pub fn plain(kind: Kind, expected: impl Into<String>, because: impl Into<String>, saw: impl Into<String>) -> Self {
        Self(Box::new(Detail {
            claim: None,
            kind,
            expected: expected.into(),
            because: because.into(),
            saw: saw.into(),
            witness: None,
            place: None,
            setting: None,
            remedy: None,
        }))
    }

    /// The same with the evidence that shows it.
    #[must_use]
    pub fn witness(mut self, witness: impl Into<String>) -> Self {
        self.witness = Some(witness.into());
        self
    }

    /// The same with this request as the witness.
    pub(super) fn about(self, seen: &Observation, request: &Request) -> Self {
        self.witness(describe(seen, request))
    }

    pub(super) fn new(
        kind: Kind,
        seen: &Observation,
        verdict: &Verdict,
        expected: String,
        because: String,
        saw: String,
    ) -> Self {
        let latency = Summary::of(seen.requests.iter().map(|request| request.latency_us));
        let saw = latency.map_or_else(|| saw.clone(), |latency| format!("{saw}; all requests: {latency}"));
        Self(Box::new(Detail {
            claim: None,
            kind,
            expected,
            because,
            saw,
            witness: telling(seen, verdict).map(|request| describe(seen, request)),
            place: Some(place(seen)),
            setting: None,
            remedy: Some(remedy(seen, verdict)),
        }))
    }
}

impl Deref for Failure {
    type Target = Detail;

    fn deref(&self) -> &Detail {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut Detail {
        &mut self.0
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [
            ("claim", self.claim.as_ref()),
            ("expected", Some(&self.expected)),
            ("because", Some(&self.because)),
            ("saw", Some(&self.saw)),
            ("witness", self.witness.as_ref()),
            ("place", self.place.as_ref()),
            ("setting", self.setting.as_ref()),
            ("try", self.remedy.as_ref()),
        ];
        let mut first = true;
        for (name, text) in lines.into_iter().filter_map(|(name, text)| Some((name, text?))) {
            if !first {
                writeln!(f)?;
            }
            first = false;
            write!(f, "{name:<9} {}", text.replace('\n', "\n          "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// The request that tells most: the first that stalled, or the first after the start.
fn telling<'a>(seen: &'a Observation, verdict: &Verdict) -> Option<&'a Request> {
    let stalled =
        verdict.stalled.first().and_then(|number| seen.requests.iter().find(|request| request.number == *number));
    stalled.or_else(|| seen.requests.get(1)).or_else(|| seen.requests.first())
}

fn describe(seen: &Observation, request: &Request) -> String {
    let mode = |pingpong: Option<bool>| match pingpong {
        Some(true) => "in pingpong mode",
        Some(false) => "not in pingpong mode",
        None => "in an unknown mode",
    };
    let mut lines = vec![format!(
        "request {}: {}, client {}, server {} before it",
        request.number,
        milliseconds(request.latency_us),
        mode(request.receivers.client.pingpong),
        mode(request.receivers.server.pingpong),
    )];
    for hold in &request.holds {
        lines.push(format!(
            "{} {} for {} ({}, {} of {} segments in flight), released by {}",
            hold.socket,
            hold.kept(),
            milliseconds(hold.lasted_us),
            hold.rule.words(),
            number(hold.unacked),
            number(hold.cwnd),
            hold.released_by.words(),
        ));
    }
    if request.holds.is_empty() {
        lines.push("no write left bytes held".to_owned());
    }
    lines.push(format!(
        "data segments {} and {}, bare ACKs {} and {} (client and server), delayed ACKs {}",
        number(request.data_segments.client),
        number(request.data_segments.server),
        number(request.bare_acks.client),
        number(request.bare_acks.server),
        request.delayed_acks.map_or_else(|| "unknown".to_owned(), |count| count.to_string()),
    ));
    if wait(seen, request).is_none()
        && let Some(late) = request.run_queue_us.filter(|late| *late > seen.environment.jiffy_us)
    {
        lines.push(format!("the thread waited {} for a CPU", milliseconds(late)));
    }
    lines.join("\n")
}

fn number(value: Option<u32>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}

fn place(seen: &Observation) -> String {
    let environment = &seen.environment;
    let mut parts = vec![
        environment.place.clone(),
        environment.family.clone(),
        format!("order {}", seen.order),
        format!("Linux {}", environment.kernel),
        format!("jiffy {}", milliseconds(environment.jiffy_us)),
        environment.pingpong_threshold.map_or_else(
            || "pingpong threshold unknown".to_owned(),
            |threshold| format!("pingpong threshold {threshold}"),
        ),
    ];
    parts.extend(
        environment.pinned.iter().map(|(name, value)| format!("{}={value}", name.trim_start_matches("net.ipv4."))),
    );
    parts.join(", ")
}

/// The command that plays the same under the same conditions, as far as `try` can set them.
fn command(seen: &Observation) -> String {
    let environment = &seen.environment;
    let mut command = format!("smallwrites try '{}' --requests {}", seen.exchange, seen.requests.len());
    let mut add = |wanted: bool, option: &str| {
        if wanted {
            command.push_str(option);
        }
    };
    add(seen.fresh, " --fresh");
    add(seen.order != Order::default(), &format!(" --order {}", seen.order));
    add(environment.family == "IPv6", " --ipv6");
    add(environment.place == "shared loopback", " --shared");
    add(environment.pinned.contains_key("route quickack"), " --quickack-route");
    for (name, value) in environment.pinned.iter().filter(|(name, _)| name.starts_with("net.")) {
        // Those of every lab need no mention.
        add(!PINS.contains(&(name, value)), &format!(" --sysctl {name}={}", quoted(value)));
    }
    command
}

/// As a shell wants it.
fn quoted(value: &str) -> String {
    let plain = value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ','));
    if plain { value.to_owned() } else { format!("'{value}'") }
}

fn remedy(seen: &Observation, verdict: &Verdict) -> String {
    let command = command(seen);
    match verdict.remedy() {
        Some(remedy) => format!("{remedy}\n{command}"),
        None => command,
    }
}
