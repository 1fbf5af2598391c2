//! `smallwrites try --predict`: what the model says, beside what was seen or alone.

use super::Trouble;
use super::arguments::Try;
use serde::Serialize;
use smallwrites::agreement;
use smallwrites::kernel::Kernel;
use smallwrites::model::{self, Facts};
use smallwrites::observation::Observation;
use smallwrites::report::Format;
use std::fmt::Write;

/// What the model says of an exchange that was played.
#[derive(Debug, Serialize)]
pub(super) struct Beside {
    /// The verdict in words; `None` where the model has no rules for a step.
    verdict: Option<String>,
    agrees: Option<bool>,
    /// Where the two part, or why there is no prediction.
    differences: Vec<String>,
    /// Requests in which a tick decided otherwise than the model would have, the first being 1.
    turned: Vec<u32>,
}

/// Holds the model against an observation.
pub(super) fn beside(seen: &Observation, kernel: &Kernel) -> Beside {
    let predicted = match agreement::predicted(kernel, seen) {
        Ok(predicted) => predicted,
        Err(error) => {
            return Beside { verdict: None, agrees: None, differences: vec![error.to_string()], turned: Vec::new() };
        }
    };
    let differences = agreement::differences(&predicted, seen);
    Beside {
        verdict: Some(agreement::outlook(&predicted).to_string()),
        agrees: Some(differences.is_empty()),
        differences: differences.iter().map(ToString::to_string).collect(),
        turned: predicted.close_calls.iter().filter(|call| call.turned).map(|call| call.request + 1).collect(),
    }
}

impl Beside {
    /// One line; more where the two part.
    pub(super) fn text(&self) -> String {
        match (&self.verdict, self.differences.first()) {
            (Some(verdict), None) => {
                format!("{verdict}, the same in every held byte and segment{}", self.close_calls())
            }
            (Some(verdict), Some(first)) => format!("{verdict}, but {first}"),
            (None, why) => format!("no prediction: {}", why.map_or("", String::as_str)),
        }
    }

    fn close_calls(&self) -> String {
        match self.turned.as_slice() {
            [] => String::new(),
            [request] => format!(", given what a tick decided in request {request}"),
            [first, ..] => format!(", given what a tick decided {} times, first in request {first}", self.turned.len()),
        }
    }
}

/// The prediction without any socket.
pub(super) fn alone(options: &Try) -> Result<String, Trouble> {
    let mut facts = Facts::loopback_for(&options.exchange);
    facts.quickack_route = options.place.quickack_route;
    for (name, value) in &options.place.sysctls {
        match name.as_str() {
            "net.ipv4.tcp_pingpong_thresh" => facts.pingpong_threshold = number(name, value)?,
            "net.ipv4.tcp_backlog_ack_defer" => facts.backlog_ack_defer = number(name, value)? != 0,
            _ => return Err(Trouble::Usage(format!("the model has no rule for {name}"))),
        }
    }
    let predict = if options.fresh { model::predict_fresh } else { model::predict };
    let predicted = predict(&options.exchange, &facts, options.requests);
    let predicted = predicted.map_err(|error| Trouble::Usage(error.to_string()))?;
    let verdict = agreement::outlook(&predicted).to_string();
    let sockets = options.exchange.sockets();
    let segments = sockets.map(|at| predicted.requests.iter().map(|request| request.data_segments[at]).sum::<u32>());
    if options.format == Format::Json {
        let mut written = serde_json::json!({
            "exchange": options.exchange.to_string(),
            "verdict": verdict,
            "client": { "data_segments": segments.client },
            "server": { "data_segments": segments.server },
            "timeline": predicted.timeline.moments().iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        if let Some(relay) = segments.relay {
            written["relay"] = serde_json::json!({
                "client": { "data_segments": relay.client },
                "server": { "data_segments": relay.server },
            });
        }
        return Ok(serde_json::to_string_pretty(&written).unwrap_or_default() + "\n");
    }
    let mut out = format!("exchange  {}\nmodel     {verdict}\n", options.exchange);
    let sent: Vec<String> = sockets.names().map(|at| format!("{at} {}", segments[at])).collect();
    let _ = writeln!(out, "segments  {} with data\n", sent.join(", "));
    let width = predicted.timeline.width();
    let _ = writeln!(out, "{:>7} {:>5} {:<width$} what happens", "request", "tick", "socket");
    for moment in predicted.timeline.moments().iter().take_while(|moment| moment.request < 3) {
        let _ = writeln!(out, "    {moment:width$}");
    }
    Ok(out)
}

fn number(name: &str, value: &str) -> Result<u8, Trouble> {
    value.parse().map_err(|error| Trouble::Usage(format!("--sysctl {name}={value}: {error}")))
}
