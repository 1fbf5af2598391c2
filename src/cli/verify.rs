//! `smallwrites verify` and `smallwrites list`.

use super::arguments::{List, Verify};
use super::output::{self, Progress, Target};
use super::{Status, Trouble};
use smallwrites::claims::{self, Claim, Document, Event, Finding, Setting};
use smallwrites::lab::LabError;
use smallwrites::report::{Format, Report};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Checks the claims and prints the report.
pub(super) fn run(options: &Verify, entered: Result<(), LabError>) -> Result<Status, Trouble> {
    let chosen = chosen(&options.filters)?;
    let target = Target::open(options.out.as_deref())?;
    let setting = if options.shared { Setting::shared() } else { Setting::probe() };
    let setting = setting.map_err(|error| Trouble::Machine(format!("cannot probe this kernel: {error}")))?;
    // Who will have nothing ignored is told what was ignored and why, once, at the end.
    if let (Some(refused), false, false) = (setting.refused(), options.shared, options.require_all) {
        let why = entered.err().map_or(refused, |error| error.to_string());
        output::complain(&format!("{why}; on the shared loopback meanwhile"));
    }

    let progress = Progress::new();
    let ended = AtomicUsize::new(0);
    let started = Instant::now();
    let outcomes = claims::run(&chosen, &setting, |event| {
        if let Event::Ended(outcome) = event {
            let ended = ended.fetch_add(1, Ordering::Relaxed) + 1;
            progress.show(&format!("{ended} of {} claims: {}", chosen.len(), outcome.claim.id));
        }
    });
    progress.clear();

    let report =
        Report { kernel: &setting.kernel, shared: setting.refused(), outcomes: &outcomes, took: started.elapsed() };
    let text = report.render(options.format, target.style());
    target.write(&text)?;
    let counts = report.counts();
    if counts.failed > 0 {
        return Ok(Status::Failed);
    }
    if options.require_all && counts.ignored > 0 {
        let first = outcomes.iter().find_map(|outcome| match &outcome.finding {
            Finding::Ignored(missing) => Some(format!("{}: {}; {}", outcome.claim.id, missing.reason, missing.remedy)),
            _ => None,
        });
        return Err(Trouble::Machine(format!(
            "{} claim{} ignored, first {}",
            counts.ignored,
            if counts.ignored == 1 { "" } else { "s" },
            first.unwrap_or_default()
        )));
    }
    Ok(Status::Fine)
}

/// Prints the catalogue.
pub(super) fn list(options: &List) -> Result<Status, Trouble> {
    let chosen = chosen(&options.filters)?;
    match options.format {
        Format::Json => {
            let entries: Vec<_> = chosen.iter().map(|claim| entry(claim)).collect();
            output::print(&(serde_json::to_string_pretty(&entries).unwrap_or_default() + "\n"))
        }
        Format::Text => output::print(&table(&chosen)),
        Format::Markdown | Format::Canonical => Err(Trouble::Usage("list prints --format text or json".to_owned())),
    }
}

fn entry(claim: &Claim) -> serde_json::Value {
    serde_json::json!({
        "id": claim.id,
        "document": claim.document,
        "section": claim.section,
        "says": claim.says,
        "expected": claim.expected.word(),
        "detail": claim.expected.detail(),
        "source": claim.source,
        "control": claim.control.breaks,
    })
}

fn table(claims: &[&'static Claim]) -> String {
    let width = claims.iter().map(|claim| claim.id.len()).max().unwrap_or(0);
    let mut out = String::new();
    for document in Document::ALL {
        let mut of_document = claims.iter().filter(|claim| claim.document == document).peekable();
        if of_document.peek().is_some() {
            let _ = writeln!(out, "{}{}", if out.is_empty() { "" } else { "\n" }, document.title());
        }
        for claim in of_document {
            let _ = writeln!(out, "  {:<16} {:<width$}  {}", claim.expected.word(), claim.id, claim.says);
        }
    }
    out
}

/// The claims whose id contains one of the filters; all where there is none.
fn chosen(filters: &[String]) -> Result<Vec<&'static Claim>, Trouble> {
    let all = claims::catalogue();
    if let Some(stray) = filters.iter().find(|filter| !all.iter().any(|claim| claim.id.contains(filter.as_str()))) {
        return Err(Trouble::Usage(format!("no claim has \"{stray}\" in its name; smallwrites list shows them all")));
    }
    let wanted = |claim: &&Claim| filters.is_empty() || filters.iter().any(|filter| claim.id.contains(filter.as_str()));
    Ok(all.into_iter().filter(|claim| wanted(claim)).collect())
}
