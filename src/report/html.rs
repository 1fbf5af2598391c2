//! The report in pictures: one file that needs no network and no script.
//!
//! A page has one column for each record: a run alone, or several kernels or settings side by side. Everything that a
//! picture shows is also in its label and its text.

mod claim;
mod plot;
mod timeline;

use super::junit::escape;
use super::{Entry, Record, Report, Word};
use crate::claims::Document;
use std::fmt::Write;

const STYLE: &str = include_str!("html/style.css");

/// How to read the pictures of the claims.
const LEGEND: &str = "<section>\n<h2>How to read the pictures</h2>\n<p>Each dot is one request, on a logarithmic scale: large \
                      where it stalled, small where it did not. The dashed lines are the shortest delayed ACK, 40 ms, and the \
                      smallest retransmission timeout, 200 ms. Each bar is one request: the client's data segments upwards, the \
                      server's downwards.</p>\n</section>\n";

/// Says one thing of a record, as HTML.
type Fact = fn(&Record) -> String;

/// A record under its name.
#[derive(Debug, Clone)]
pub struct Column<'a> {
    /// What to call it, such as a kernel's release or `with net.ipv4.tcp_autocorking=0`.
    pub name: String,
    /// What it came to.
    pub record: &'a Record,
}

/// A whole page.
#[derive(Debug, Clone, Default)]
pub struct Page<'a> {
    /// One record, or several side by side.
    pub columns: Vec<Column<'a>>,
    /// What comes first, as HTML: what changed between the columns.
    pub lead: String,
}

pub(super) fn render(report: &Report<'_>) -> String {
    let record = Record::of(report);
    let name = format!("Linux {}", record.kernel.release);
    Page { columns: vec![Column { name, record: &record }], ..Page::default() }.render()
}

impl Page<'_> {
    /// The page as HTML.
    #[must_use]
    pub fn render(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let title = format!("Small writes: {}", names.join(", "));
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#claims\">Skip to \
             the claims</a>\n<header>\n<h1>{title}</h1>\n",
            title = escape(&title),
        );
        self.summary(&mut out);
        out += "</header>\n<main>\n";
        out += &self.lead;
        self.drawings(&mut out);
        out += "<div id=\"claims\">\n";
        let documents = Document::ALL.into_iter().filter(|document| !self.ids(*document).is_empty());
        for document in documents.clone() {
            self.table(&mut out, document);
        }
        out += "</div>\n";
        out += LEGEND;
        for document in documents {
            let _ = writeln!(out, "<section>\n<h2>{}: evidence</h2>", escape(document.title()));
            for id in self.ids(document) {
                claim::section(&mut out, &self.columns, id);
            }
            out += "</section>\n";
        }
        let _ = writeln!(
            out,
            "</main>\n<footer><p>Written by smallwrites {}. Times are this machine's; verdicts and counts are the \
             kernel's.</p></footer>\n</body>\n</html>",
            env!("CARGO_PKG_VERSION")
        );
        out
    }

    /// Every claim of a document that any column has, in the first one's order.
    fn ids(&self, document: Document) -> Vec<&str> {
        let mut ids: Vec<&str> = Vec::new();
        for entry in self.columns.iter().flat_map(|column| &column.record.claims) {
            if entry.document == document && !ids.contains(&entry.id.as_str()) {
                ids.push(&entry.id);
            }
        }
        ids
    }

    fn summary(&self, out: &mut String) {
        out.push_str(
            "<div class=\"scroll\" role=\"region\" aria-label=\"The runs\" tabindex=\"0\">\n<table \
             class=\"runs\">\n<caption>The runs</caption>\n<thead><tr><th scope=\"col\">fact</th>",
        );
        for column in &self.columns {
            let _ = write!(out, "<th scope=\"col\">{}</th>", escape(&column.name));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        let rows: [(&str, Fact); 4] = [
            ("claims", |record| record.counts.to_string()),
            ("kernel", |record| {
                let threshold = record.kernel.pingpong_threshold;
                let threshold = threshold.map_or_else(|| "a constant".to_owned(), |threshold| threshold.to_string());
                let jiffy = record.kernel.jiffy_us as f64 / 1000.0;
                let release = escape(&record.kernel.release);
                format!("Linux {release}, jiffy {jiffy} ms, pingpong threshold {threshold}")
            }),
            ("place", |record| escape(&record.place)),
            ("settings", settings),
        ];
        for (name, value) in rows {
            let _ = write!(out, "<tr><th scope=\"row\">{name}</th>");
            for column in &self.columns {
                let _ = write!(out, "<td>{}</td>", value(column.record));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table>\n</div>\n");
    }

    /// The requests that each run recorded segment by segment, side by side: a stalled and a fixed one.
    fn drawings(&self, out: &mut String) {
        if self.columns.iter().all(|column| column.record.sequences.is_empty()) {
            return;
        }
        out.push_str("<section>\n<h2>One request, segment by segment</h2>\n<div class=\"figures wide\">\n");
        for Column { name, record } in &self.columns {
            if self.columns.len() > 1 {
                out.push_str("<div class=\"column\">\n");
            }
            for sequence in &record.sequences {
                let name =
                    if self.columns.len() > 1 { format!("<strong>{}</strong>: ", escape(name)) } else { String::new() };
                let _ = writeln!(
                    out,
                    "<figure>{}<figcaption>{name}{}</figcaption></figure>",
                    timeline::svg(sequence),
                    escape(&sequence.title)
                );
            }
            if self.columns.len() > 1 {
                out.push_str("</div>\n");
            }
        }
        out.push_str("</div>\n</section>\n");
    }

    fn table(&self, out: &mut String, document: Document) {
        let _ = write!(
            out,
            "<section>\n<h2>{title}</h2>\n<div class=\"scroll\" role=\"region\" aria-label=\"{title}\" tabindex=\"0\">\n<table \
             class=\"claims\">\n<thead><tr><th scope=\"col\">claim</th>",
            title = escape(document.title())
        );
        for column in &self.columns {
            let name = if self.columns.len() == 1 { "verdict" } else { &column.name };
            let _ = write!(out, "<th scope=\"col\">{}</th>", escape(name));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for id in self.ids(document) {
            let entries: Vec<Option<&Entry>> = self.columns.iter().map(|column| column.record.claim(id)).collect();
            let says = entries.iter().flatten().next().map(|entry| entry.says.as_str()).unwrap_or_default();
            let _ = write!(
                out,
                "<tr{}><th scope=\"row\"><a href=\"#claim-{id}\">{id}</a> <span class=\"says\">{}</span></th>",
                if differ(&entries) { " class=\"differs\"" } else { "" },
                escape(says),
                id = escape(id),
            );
            for entry in entries {
                let _ = write!(out, "<td>{}</td>", verdict(entry));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table>\n</div>\n</section>\n");
    }
}

fn settings(record: &Record) -> String {
    let settings: Vec<String> = record.settings.changed().iter().map(|setting| escape(&setting.to_string())).collect();
    match (settings.is_empty(), record.place.as_str()) {
        (true, "shared loopback") => "the host's".to_owned(),
        (true, _) => "the kernel's defaults".to_owned(),
        (false, _) => settings.join("<br>"),
    }
}

/// The verdict on one claim, as a word with a mark: nothing is said by colour alone.
fn verdict(entry: Option<&Entry>) -> String {
    let Some(entry) = entry else { return "<span class=\"word absent\">– not checked</span>".to_owned() };
    let (class, mark, word) = match entry.outcome {
        Word::Passed => ("passed", "✓", entry.expected.as_str()),
        Word::Failed => ("failed", "✗", "failed"),
        Word::Ignored => ("ignored", "○", "ignored"),
    };
    format!("<span class=\"word {class}\"><span aria-hidden=\"true\">{mark}</span> {}</span>", escape(word))
}

fn differ(entries: &[Option<&Entry>]) -> bool {
    entries.windows(2).any(|pair| pair[0].map(|entry| &entry.canonical) != pair[1].map(|entry| &entry.canonical))
}
