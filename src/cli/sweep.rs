//! `smallwrites sweep`: where the verdict changes as one size grows.

use super::arguments::Sweep;
use super::{Status, Trouble, attempt, output};
use smallwrites::agreement::{self, Outlook};
use smallwrites::exchange::{Exchange, Template};
use smallwrites::lab::{Conditions, LabError};
use smallwrites::model::{self, Facts};
use smallwrites::play::Play;
use smallwrites::report::Format;
use std::fmt::Write;
use std::thread;

/// Sizes that are played at most to confirm the model: the two beside each change.
const CONFIRMED: usize = 64;

/// Sizes in a row with the same verdict.
struct Range {
    from: u32,
    to: u32,
    outlook: Outlook,
    /// What the kernel did at the first and the last size.
    seen: Vec<(u32, Outlook)>,
}

/// Predicts every size, then plays the ones where the verdict changes.
pub(super) fn run(options: &Sweep, entered: Result<(), LabError>) -> Result<Status, Trouble> {
    let template = &options.template;
    let conditions = attempt::conditions(&options.place, entered)?.pinned_for_model();
    let facts = probed(options, &conditions)?;
    let mut ranges: Vec<Range> = Vec::new();
    for size in template.sizes() {
        let exchange = options.place.exchange(filled(template, size)?);
        let predicted = model::predict(&exchange, &facts, options.requests);
        let outlook = agreement::outlook(&predicted.map_err(|error| Trouble::Usage(error.to_string()))?);
        match ranges.last_mut() {
            Some(range) if range.outlook == outlook => range.to = size,
            _ => ranges.push(Range { from: size, to: size, outlook, seen: Vec::new() }),
        }
    }
    let agree = confirm(options, &conditions, &mut ranges)?;
    output::print(&match options.format {
        Format::Json => json(template, &ranges),
        _ => text(template, &ranges),
    })?;
    Ok(if agree { Status::Fine } else { Status::Failed })
}

/// The connection that the model starts from, as the kernel opens it here.
fn probed(options: &Sweep, conditions: &Conditions) -> Result<Facts, Trouble> {
    let exchange = options.place.exchange(filled(&options.template, *options.template.sizes().start())?);
    let play = Play::new(Exchange {
        client: smallwrites::exchange::Script { steps: Vec::new(), ..exchange.client.clone() },
        server: smallwrites::exchange::Script { steps: Vec::new(), ..exchange.server.clone() },
        ..exchange
    });
    let played = conditions.run(|lab| play.run(lab).map(|seen| agreement::facts(lab.kernel(), &seen)));
    played.map_err(attempt::no_lab)?.map_err(attempt::trouble)
}

/// Plays both sizes beside each change, side by side; whether the kernel does what the model says at all of them.
fn confirm(options: &Sweep, conditions: &Conditions, ranges: &mut [Range]) -> Result<bool, Trouble> {
    let mut edges: Vec<(usize, u32)> = Vec::new();
    for (i, range) in ranges.iter().enumerate() {
        edges.push((i, range.from));
        if range.to != range.from {
            edges.push((i, range.to));
        }
    }
    edges.truncate(CONFIRMED);
    let exchanges: Vec<Exchange> = edges
        .iter()
        .map(|(_, size)| filled(&options.template, *size).map(|exchange| options.place.exchange(exchange)))
        .collect::<Result<_, _>>()?;
    let played: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = exchanges
            .into_iter()
            .map(|exchange| {
                let play = Play::new(exchange).requests(options.requests);
                scope.spawn(move || conditions.run(|lab| play.run(lab)))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut agree = true;
    for ((i, size), played) in edges.into_iter().zip(played) {
        let seen = played.map_err(attempt::no_lab)?.map_err(attempt::trouble)?;
        let outlook = Outlook::of(&seen);
        agree &= outlook.agrees(&ranges[i].outlook);
        ranges[i].seen.push((size, outlook));
    }
    Ok(agree)
}

fn filled(template: &Template, size: u32) -> Result<Exchange, Trouble> {
    template.at(size).map_err(|error| Trouble::Usage(error.to_string()))
}

fn text(template: &Template, ranges: &[Range]) -> String {
    let mut out = format!("{template}\n\n{:>13}  {:<28}{}\n", "bytes", "model", "kernel");
    for range in ranges {
        let bytes =
            if range.from == range.to { range.from.to_string() } else { format!("{}–{}", range.from, range.to) };
        let kernel: Vec<String> = range
            .seen
            .iter()
            .map(|(size, seen)| {
                if seen.agrees(&range.outlook) { format!("{size} the same") } else { format!("{size} DIFFERS: {seen}") }
            })
            .collect();
        let _ = writeln!(out, "{bytes:>13}  {:<28}{}", range.outlook.to_string(), kernel.join(", "));
    }
    out
}

fn json(template: &Template, ranges: &[Range]) -> String {
    let ranges: Vec<_> = ranges
        .iter()
        .map(|range| {
            let seen: Vec<_> = range
                .seen
                .iter()
                .map(|(size, seen)| {
                    serde_json::json!({ "bytes": size, "verdict": seen.to_string(), "agrees": seen.agrees(&range.outlook) })
                })
                .collect();
            serde_json::json!({ "from": range.from, "to": range.to, "verdict": range.outlook.to_string(), "seen": seen })
        })
        .collect();
    let written = serde_json::json!({ "exchange": template.to_string(), "ranges": ranges });
    serde_json::to_string_pretty(&written).unwrap_or_default() + "\n"
}
