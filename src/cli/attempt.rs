//! `smallwrites try`: one exchange, judged, beside each fix.

use super::arguments::{Place, Predict, Try};
use super::predict::{self, Beside};
use super::{Status, Trouble, output};
use serde::Serialize;
use smallwrites::exchange::{Exchange, Fix, Side};
use smallwrites::lab::{self, Conditions, Family, LabError};
use smallwrites::observation::{Observation, Summary, milliseconds};
use smallwrites::play::{Play, PlayError};
use smallwrites::report::Format;
use smallwrites::verdict::Verdict;
use std::fmt::Write;
use std::io::ErrorKind;
use std::thread;

/// Plays the exchange and each fix side by side, and prints what came of it.
pub(super) fn run(options: &Try, entered: Result<(), LabError>) -> Result<Status, Trouble> {
    if options.predict == Predict::Only {
        return output::print(&predict::alone(options)?);
    }
    let conditions = conditions(&options.place, entered)?;
    // Beside the model, everything is pinned that the model leaves out.
    let conditions = if options.predict == Predict::Beside { conditions.pinned_for_model() } else { conditions };
    let fixes: Vec<(Fix, Exchange)> = Fix::ALL
        .into_iter()
        .map(|fix| (fix, fix.applied(&options.exchange)))
        .filter(|(_, fixed)| *fixed != options.exchange)
        .collect();
    let (seen, fixed) = thread::scope(|scope| {
        let start = |exchange: &Exchange| {
            let play = play(options, exchange.clone());
            let conditions = &conditions;
            scope.spawn(move || conditions.run(|lab| play.run(lab).map(|seen| (seen, lab.kernel().clone()))))
        };
        let first = start(&options.exchange);
        let others: Vec<_> = fixes.iter().map(|(fix, exchange)| (*fix, start(exchange))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        (join(first), others.into_iter().map(|(fix, thread)| (fix, join(thread))).collect::<Vec<_>>())
    });
    let (seen, kernel) = seen.map_err(no_lab)?.map_err(trouble)?;
    let predicted = (options.predict == Predict::Beside).then(|| predict::beside(&seen, &kernel));
    // A fix that cannot be played here has no row; the exchange itself has been.
    let fixed: Vec<(Fix, Observation)> =
        fixed.into_iter().filter_map(|(fix, played)| Some((fix, played.ok()?.ok()?.0))).collect();
    let text = match options.format {
        Format::Json => json(&seen, &fixed, predicted),
        _ => text(&seen, &fixed, predicted),
    };
    output::print(&text)
}

/// The conditions that a place asks for, on the shared loopback where no namespace can be had.
pub(super) fn conditions(options: &Place, entered: Result<(), LabError>) -> Result<Conditions, Trouble> {
    let own = !options.sysctls.is_empty() || options.quickack_route;
    let mut conditions = match (options.shared, lab::available()) {
        (false, Ok(())) => Conditions::default(),
        (false, Err(refused)) => {
            let why = entered.err().unwrap_or(refused).to_string();
            if own {
                return Err(Trouble::Machine(why));
            }
            output::complain(&format!("{why}; on the shared loopback meanwhile"));
            Conditions::shared()
        }
        (true, _) => Conditions::shared(),
    };
    if options.ipv6 {
        conditions.family = Family::V6;
    }
    conditions.sysctls.clone_from(&options.sysctls);
    conditions.quickack_route = options.quickack_route;
    Ok(conditions)
}

fn play(options: &Try, exchange: Exchange) -> Play {
    let play = Play::new(exchange).requests(options.requests).order(options.order);
    if options.fresh { play.fresh() } else { play }
}

/// A value that no kernel takes is the asker's to change, and so is a setting asked of the shared loopback.
pub(super) fn no_lab(error: LabError) -> Trouble {
    match &error {
        LabError::Setting { source, .. } if source.kind() == ErrorKind::InvalidInput => {
            Trouble::Usage(error.to_string())
        }
        LabError::Shared(_) => Trouble::Usage(error.to_string()),
        _ => Trouble::Machine(error.to_string()),
    }
}

/// A script that cannot end, or an option that this kernel lacks, is the asker's to change.
pub(super) fn trouble(error: PlayError) -> Trouble {
    match error {
        PlayError::Call { .. } => Trouble::Machine(error.to_string()),
        _ => Trouble::Usage(error.to_string()),
    }
}

fn text(seen: &Observation, fixed: &[(Fix, Observation)], predicted: Option<Beside>) -> String {
    let verdict = Verdict::of(seen);
    let mut out = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(out, "{name:<10}{value}");
    };
    row("exchange", &seen.exchange.to_string());
    row("verdict", &format!("{verdict}: {} of {} requests stalled", verdict.stalled.len(), seen.requests.len()));
    if let Some(predicted) = predicted {
        row("model", &predicted.text());
    }
    for cause in &verdict.causes {
        row("cause", &cause.to_string());
        row("remedy", &cause.remedy());
    }
    if let Some(latency) = Summary::of(seen.latencies_us()) {
        row("latency", &latency.to_string());
    }
    row(
        "segments",
        &format!(
            "client {}, server {} with data; {} and {} bare ACKs; delayed ACKs {}",
            number(seen.sockets.client.data_segments),
            number(seen.sockets.server.data_segments),
            number(seen.sockets.client.bare_acks),
            number(seen.sockets.server.bare_acks),
            seen.counter("TcpExtDelayedACKs").map_or_else(|| "unknown".to_owned(), |count| count.to_string()),
        ),
    );
    if !verdict.explained.is_empty() {
        row("explained", &format!("the machine was late before requests {:?}", verdict.explained));
    }
    let place = &seen.environment;
    row(
        "place",
        &format!(
            "{}, {}, order {}, Linux {}, jiffy {}",
            place.place,
            place.family,
            seen.order,
            place.kernel,
            milliseconds(place.jiffy_us)
        ),
    );
    if fixed.is_empty() {
        return out;
    }
    let _ = writeln!(out, "\n{:<26}{:<26}{:>8}{:>8}{:>12}", "fix", "stall", "client", "server", "median");
    let mut table = |name: &str, seen: &Observation| {
        let verdict = Verdict::of(seen);
        let median =
            Summary::of(seen.latencies_us()).map_or_else(String::new, |latency| milliseconds(latency.median_us));
        let segments = [Side::Client, Side::Server].map(|side| number(seen.sockets[side].data_segments));
        let _ = writeln!(out, "{name:<26}{:<26}{:>8}{:>8}{median:>12}", verdict.to_string(), segments[0], segments[1]);
    };
    table("as written", seen);
    for (fix, seen) in fixed {
        table(&fix.to_string(), seen);
    }
    out
}

fn number(count: Option<u32>) -> String {
    count.map_or_else(|| "unknown".to_owned(), |count| count.to_string())
}

#[derive(Serialize)]
struct Written<'a> {
    schema: u32,
    verdict: String,
    pattern: String,
    wait: Option<String>,
    quanta: u32,
    stalled_requests: usize,
    requests: usize,
    delayed_acks: Option<i64>,
    client: End,
    server: End,
    held_bytes: u32,
    cause: Option<String>,
    remedy: Option<String>,
    causes: Vec<String>,
    prediction: Option<Beside>,
    fixes: Vec<Fixed>,
    observation: &'a Observation,
}

#[derive(Serialize)]
struct End {
    data_segments: Option<u32>,
    bare_acks: Option<u32>,
    held_bytes: u32,
}

#[derive(Serialize)]
struct Fixed {
    fix: String,
    exchange: String,
    verdict: String,
    stalled_requests: usize,
    client: End,
    server: End,
    median_us: Option<u64>,
}

fn json(seen: &Observation, fixed: &[(Fix, Observation)], prediction: Option<Beside>) -> String {
    let verdict = Verdict::of(seen);
    let written = Written {
        schema: smallwrites::observation::SCHEMA,
        verdict: verdict.word(),
        pattern: verdict.pattern.to_string(),
        wait: verdict.wait.map(|wait| wait.to_string()),
        quanta: verdict.quanta(),
        stalled_requests: verdict.stalled.len(),
        requests: seen.requests.len(),
        delayed_acks: seen.counter("TcpExtDelayedACKs"),
        client: end(seen, Side::Client),
        server: end(seen, Side::Server),
        held_bytes: Side::BOTH.map(|side| seen.most_held(side)).into_iter().max().unwrap_or(0),
        cause: verdict.causes.first().map(ToString::to_string),
        remedy: verdict.remedy(),
        causes: verdict.causes.iter().map(ToString::to_string).collect(),
        prediction,
        fixes: fixed.iter().map(|(fix, seen)| row(*fix, seen)).collect(),
        observation: seen,
    };
    serde_json::to_string_pretty(&written).unwrap_or_default() + "\n"
}

fn end(seen: &Observation, side: Side) -> End {
    let socket = &seen.sockets[side];
    End { data_segments: socket.data_segments, bare_acks: socket.bare_acks, held_bytes: seen.most_held(side) }
}

fn row(fix: Fix, seen: &Observation) -> Fixed {
    let verdict = Verdict::of(seen);
    Fixed {
        fix: fix.to_string(),
        exchange: seen.exchange.to_string(),
        verdict: verdict.word(),
        stalled_requests: verdict.stalled.len(),
        client: end(seen, Side::Client),
        server: end(seen, Side::Server),
        median_us: Summary::of(seen.latencies_us()).map(|latency| latency.median_us),
    }
}
