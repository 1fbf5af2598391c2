//! One claim on the page: its words, its evidence, and a row of pictures for each exchange.

use super::super::junit::escape;
use super::plot::{self, Scale};
use super::{Column, Entry, Place, verdict};
use crate::claims::Sample;
use crate::observation::Summary;
use std::fmt::Write;

/// Writes the section of one claim, every column's evidence in it.
pub(super) fn section(out: &mut String, columns: &[Column<'_>], id: &str) {
    let entries: Vec<(&Column<'_>, &Entry)> =
        columns.iter().filter_map(|column| Some((column, column.record.claim(id)?))).collect();
    let Some((_, first)) = entries.first() else { return };
    let _ = writeln!(
        out,
        "<article id=\"claim-{id}\" aria-labelledby=\"head-{id}\">\n<h3 id=\"head-{id}\">{id}</h3>\n<p>{}</p>",
        escape(&first.says),
        id = escape(id)
    );
    if let Some(detail) = &first.detail {
        let _ = writeln!(out, "<p class=\"detail\">{}: {}</p>", escape(&first.expected), escape(detail));
    }
    for (column, entry) in &entries {
        found(out, column, entry, columns.len() > 1);
    }
    let _ = writeln!(out, "<p class=\"source\">Source: {}</p>", escape(&first.source));
    let rows = entries.iter().map(|(_, entry)| entry.evidence.samples.len()).max().unwrap_or(0);
    for row in 0..rows {
        let samples: Vec<(&str, &Sample)> = entries
            .iter()
            .filter_map(|(column, entry)| Some((column.name.as_str(), entry.evidence.samples.get(row)?)))
            .collect();
        pictures(out, &samples, columns.len() > 1, &format!("{id}-{row}"));
    }
    out.push_str("</article>\n");
}

/// What was found in one column.
fn found(out: &mut String, column: &Column<'_>, entry: &Entry, named: bool) {
    let name = if named { format!("<strong>{}</strong>: ", escape(&column.name)) } else { String::new() };
    let shown = match (&entry.evidence.canonical, &entry.reason) {
        (Some(shown), _) => escape(shown),
        (None, Some(reason)) => escape(reason),
        (None, None) => String::new(),
    };
    let measured = match entry.evidence.measured.as_deref() {
        None | Some("") => String::new(),
        Some(measured) => format!(" <span class=\"measured\">({})</span>", escape(measured)),
    };
    let _ = writeln!(out, "<p class=\"found\">{name}{} {shown}{measured}</p>", verdict(Some(entry)));
    if let Some(failure) = &entry.failure {
        let _ = writeln!(out, "<pre>{}</pre>", escape(&failure.to_string()));
    }
}

/// The same exchange in each column, drawn to the same scale; `id` begins the pictures' names for each other.
fn pictures(out: &mut String, samples: &[(&str, &Sample)], named: bool, id: &str) {
    let Some((_, first)) = samples.first() else { return };
    if samples.iter().all(|(_, sample)| sample.latencies_us.is_empty()) {
        return;
    }
    let _ = writeln!(out, "<h4><code>{}</code></h4>\n<div class=\"figures\">", escape(&first.exchange));
    let scale = Scale::of(samples.iter().map(|(_, sample)| *sample));
    for (number, (column, sample)) in (1..).zip(samples) {
        let Some(latency) = Summary::of(sample.latencies_us.iter().copied()) else { continue };
        let place = |what| Place { id: format!("{what}-{id}-{number}"), column: named.then_some(*column) };
        let (stalled, all) = (sample.verdict.stalled.len(), sample.latencies_us.len());
        let same = if sample.exchange == first.exchange {
            String::new()
        } else {
            format!("<code>{}</code>: ", escape(&sample.exchange))
        };
        if named {
            out.push_str("<div class=\"column\">\n");
        }
        let caption = if named { format!("<strong>{}</strong>: ", escape(column)) } else { String::new() };
        let _ = writeln!(
            out,
            "<figure>{}<figcaption>{caption}{same}latency by request; {stalled} of {all} stalled; {latency}</figcaption></figure>",
            plot::dots(sample, &scale, &place("latency")),
        );
        if let Some(bars) = plot::bars(sample, &scale, &place("segments")) {
            let _ = writeln!(
                out,
                "<figure>{bars}<figcaption>{caption}data segments by request: {}</figcaption></figure>",
                plot::segments_in_words(sample)
            );
        }
        if named {
            out.push_str("</div>\n");
        }
    }
    out.push_str("</div>\n");
}
