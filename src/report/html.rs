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
use std::fmt::{Display, Write};

const STYLE: &str = include_str!("html/style.css");

/// How to read the tables of claims.
const KEY: &str = "<p class=\"key\"><span class=\"word passed\">✓</span> the kernel does what is expected of the claim: it holds, \
                   holds with a limit, or is refuted; <span class=\"word failed\">✗</span> it does not; \
                   <span class=\"word ignored\">○</span> this place could not show it.</p>\n";

/// How to read the drawings of requests.
const LANES: &str = "<p>Time runs downwards, not to scale. Where a lane is thick, bytes wait in that side's socket; where both \
                     are dotted, nothing happens for the time that stands between them.</p>\n";

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
        out += "</header>\n";
        let documents: Vec<(usize, Document)> =
            (1..).zip(Document::ALL).filter(|(_, document)| !self.ids(*document).is_empty()).collect();
        self.contents(&mut out, &documents);
        out += "<main>\n";
        if !self.lead.is_empty() {
            let _ = writeln!(out, "<div id=\"changes\">\n{}</div>", self.lead);
        }
        self.drawings(&mut out);
        out += "<div id=\"claims\">\n";
        out += KEY;
        for (number, document) in &documents {
            self.table(&mut out, *number, *document);
        }
        out += "</div>\n";
        out += LEGEND;
        for (number, document) in documents {
            let title = escape(document.title());
            let _ = writeln!(out, "<section>\n<h2 id=\"evidence-{number}\">{title}: evidence</h2>");
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

    /// Links to every part: the whole page is long.
    fn contents(&self, out: &mut String, documents: &[(usize, Document)]) {
        out.push_str("<nav aria-label=\"On this page\">\n<ul>\n");
        if !self.lead.is_empty() {
            out.push_str("<li><a href=\"#changes\">What changed</a></li>\n");
        }
        if self.is_drawn() {
            out.push_str("<li><a href=\"#drawings\">One request, segment by segment</a></li>\n");
        }
        for (number, document) in documents {
            let title = escape(document.title());
            let _ = writeln!(
                out,
                "<li><a href=\"#document-{number}\">{title}</a> · <a href=\"#evidence-{number}\" aria-label=\"{title}: \
                 evidence\">evidence</a></li>"
            );
        }
        out.push_str("</ul>\n</nav>\n");
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
        let rows: [(&str, Fact); 5] = [
            ("claims", |record| record.counts.to_string()),
            ("failed", failed),
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
        let any_failed = self.columns.iter().any(|column| column.record.counts.failed > 0);
        for (name, value) in rows.into_iter().filter(|(name, _)| any_failed || *name != "failed") {
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
        if !self.is_drawn() {
            return;
        }
        out.push_str("<section>\n<h2 id=\"drawings\">One request, segment by segment</h2>\n");
        out.push_str(LANES);
        out.push_str("<div class=\"figures\">\n");
        for (number, Column { name, record }) in (1..).zip(&self.columns) {
            let named = self.is_compared().then_some(name.as_str());
            if named.is_some() {
                out.push_str("<div class=\"column\">\n");
            }
            let caption = named.map(|name| format!("<strong>{}</strong>: ", escape(name))).unwrap_or_default();
            for (row, sequence) in (1..).zip(&record.sequences) {
                let place = Place { id: format!("drawing-{row}-{number}"), column: named };
                let _ = writeln!(
                    out,
                    "<figure>{}<figcaption>{caption}{}</figcaption></figure>",
                    timeline::svg(sequence, &place),
                    escape(&sequence.title)
                );
            }
            if named.is_some() {
                out.push_str("</div>\n");
            }
        }
        out.push_str("</div>\n</section>\n");
    }

    /// What each column says of a claim.
    fn entries(&self, id: &str) -> Vec<Option<&Entry>> {
        self.columns.iter().map(|column| column.record.claim(id)).collect()
    }

    fn is_compared(&self) -> bool {
        self.columns.len() > 1
    }

    fn is_drawn(&self) -> bool {
        self.columns.iter().any(|column| !column.record.sequences.is_empty())
    }

    fn table(&self, out: &mut String, number: usize, document: Document) {
        let ids = self.ids(document);
        let differing = ids.iter().filter(|id| differ(&self.entries(id))).count();
        let marked = if self.is_compared() { format!("; differing, marked ≠: {differing}") } else { String::new() };
        // Beside many columns a claim's words need the room that long verdicts would take.
        let many = if self.columns.len() > 3 { " many" } else { "" };
        let _ = write!(
            out,
            "<section>\n<h2 id=\"document-{number}\">{title}</h2>\n<div class=\"scroll\" role=\"region\" \
             aria-label=\"{title}\" tabindex=\"0\">\n<table class=\"claims{many}\">\n<caption>Claims: {}{marked}</caption>\n\
             <thead><tr><th scope=\"col\">claim</th>",
            ids.len(),
            title = escape(document.title())
        );
        for column in &self.columns {
            let name = if self.is_compared() { &column.name } else { "verdict" };
            let _ = write!(out, "<th scope=\"col\">{}</th>", escape(name));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for id in ids {
            let entries = self.entries(id);
            let says = entries.iter().flatten().next().map(|entry| entry.says.as_str()).unwrap_or_default();
            let (class, mark) = if differ(&entries) {
                (" class=\"differs\"", "<span aria-hidden=\"true\">≠</span> <span class=\"heard\">differs: </span>")
            } else {
                ("", "")
            };
            let _ = write!(
                out,
                "<tr{class}><th scope=\"row\">{mark}<a href=\"#claim-{id}\">{id}</a> <span class=\"says\">{}</span></th>",
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

/// Where on the page a picture is.
struct Place<'a> {
    /// No other picture has it.
    id: String,
    /// Whose it is where there are several columns: who goes from picture to picture meets no caption.
    column: Option<&'a str>,
}

/// A picture's opening tag, with a name and with words that say what it shows.
fn picture(width: f64, height: f64, Place { id, column }: &Place<'_>, name: impl Display, words: &str) -> String {
    let name = column.map_or_else(|| name.to_string(), |column| format!("{column}: {name}"));
    // Named by both: a description alone is read out by few.
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-name {id}-words\"><title id=\"{id}-name\">{}\
         </title><desc id=\"{id}-words\">{}</desc>",
        escape(&name),
        escape(words),
        id = escape(id),
    )
}

/// Links to the claims that failed.
fn failed(record: &Record) -> String {
    let failed = record.claims.iter().filter(|entry| entry.outcome == Word::Failed);
    let links = failed.map(|entry| format!("<a href=\"#claim-{id}\">{id}</a>", id = escape(&entry.id)));
    links.collect::<Vec<_>>().join(", ")
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
    format!("<span class=\"word {class}\"><span aria-hidden=\"true\">{mark}</span>\u{a0}{}</span>", escape(word))
}

fn differ(entries: &[Option<&Entry>]) -> bool {
    entries.windows(2).any(|pair| pair[0].map(|entry| &entry.canonical) != pair[1].map(|entry| &entry.canonical))
}
