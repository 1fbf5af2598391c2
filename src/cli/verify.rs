//! `smallwrites verify` and `smallwrites list`.

use super::arguments::{List, Verify};
use super::output::{self, Progress, Saved, Target};
use super::{Status, Trouble, compare, pictures, place};
use smallwrites::claims::{self, Claim, Document, Event, Finding, Outcome, Setting};
use smallwrites::lab::LabError;
use smallwrites::report::{Counts, Format, Record, Report, catalogue, lines};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Checks the claims and prints the report, or what changed since a baseline.
pub(super) fn run(options: &Verify, entered: Result<(), LabError>) -> Result<Status, Trouble> {
    match checked(options, entered) {
        Err(trouble) if options.kselftest => {
            // The kernel's selftests know no other words for it.
            let _ = output::print(&format!("KTAP version 1\n1..0 # SKIP {trouble}\n"));
            output::complain(&trouble.to_string());
            Ok(if matches!(trouble, Trouble::Machine(_)) { Status::Skipped } else { Status::Failed })
        }
        other => other,
    }
}

fn checked(options: &Verify, entered: Result<(), LabError>) -> Result<Status, Trouble> {
    let chosen = chosen(&options.filters)?;
    // Whatever is wrong with a file is said before the work and not after it.
    let baseline = options.against.as_deref().map(compare::read).transpose()?;
    let saved = options.save.as_deref().map(Saved::open).transpose()?;
    let mut target = Target::open(options.out.as_deref())?;
    // Who will have nothing ignored is told what was ignored and why, once, at the end.
    let mut setting = place::probe(options.shared, options.defaults, &options.sysctls, options.require_all, entered)?;
    setting.jobs = options.jobs;

    let streams = options.format == Format::JsonLines;
    let sequences = if needs_sequences(options) { pictures::sequences(&setting) } else { Vec::new() };
    let mut report = report(&setting, &[]);
    report.sequences = &sequences;
    if streams {
        target.append(&lines::started(&setting.kernel, setting.settings(), report.place(), chosen.len()))?;
    }
    let started = Instant::now();
    let stream = Mutex::new((&mut target, Ok(())));
    let outcomes = outcomes(&chosen, &setting, |outcome| {
        let (target, written) = &mut *stream.lock().unwrap_or_else(PoisonError::into_inner);
        if streams && written.is_ok() {
            *written = target.append(&lines::ended(outcome));
        }
    });
    stream.into_inner().unwrap_or_else(PoisonError::into_inner).1?;
    report.outcomes = &outcomes;
    report.took = started.elapsed();

    let record = (baseline.is_some() || saved.is_some()).then(|| Record::of(&report));
    if let (Some(saved), Some(record)) = (saved, &record) {
        saved.write(record.to_string().as_bytes())?;
    }
    if let (Some(path), Some(baseline), Some(record)) = (&options.against, baseline, record) {
        let names = [path.display().to_string(), "now".to_owned()];
        // A filter is no reason for the rest to have vanished.
        let baseline =
            if options.filters.is_empty() { baseline } else { baseline.only(|id| wanted(id, &options.filters)) };
        let (text, status) = compare::render(options.format, &names, &baseline, &[record], options.times);
        target.write(&text)?;
        return Ok(status);
    }
    let text = if streams { lines::closing(&report) } else { report.render(options.format, target.style()) };
    target.append(&text)?;
    status(options, report.counts(), &outcomes)
}

/// Whether what is written has drawings: recording a few requests takes a moment.
fn needs_sequences(options: &Verify) -> bool {
    options.save.is_some() || matches!(options.format, Format::Html | Format::Json)
}

fn status(options: &Verify, counts: Counts, outcomes: &[Outcome]) -> Result<Status, Trouble> {
    if counts.failed > 0 {
        return Ok(Status::Failed);
    }
    if options.kselftest {
        return Ok(if counts.passed == 0 && counts.ignored > 0 { Status::Skipped } else { Status::Fine });
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

/// Checks claims and writes down what they came to.
pub(super) fn record(chosen: &[&'static Claim], setting: &Setting) -> Record {
    let started = Instant::now();
    let outcomes = outcomes(chosen, setting, |_| ());
    let sequences = pictures::sequences(setting);
    let mut report = report(setting, &outcomes);
    report.sequences = &sequences;
    report.took = started.elapsed();
    Record::of(&report)
}

fn report<'a>(setting: &'a Setting, outcomes: &'a [Outcome]) -> Report<'a> {
    let (kernel, settings, shared) = (&setting.kernel, setting.settings(), setting.refused());
    Report { kernel, settings, shared, outcomes, took: std::time::Duration::ZERO, sequences: &[] }
}

/// Checks claims with a count of those that ended on the terminal.
fn outcomes(chosen: &[&'static Claim], setting: &Setting, on: impl Fn(&Outcome) + Sync) -> Vec<Outcome> {
    let progress = Progress::new();
    let ended = AtomicUsize::new(0);
    let outcomes = claims::run(chosen, setting, |event| {
        if let Event::Ended(outcome) = event {
            let ended = ended.fetch_add(1, Ordering::Relaxed) + 1;
            progress.show(&format!("{ended} of {} claims: {}", chosen.len(), outcome.claim.id));
            on(outcome);
        }
    });
    progress.clear();
    outcomes
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
        Format::Markdown => output::print(&catalogue(&chosen)),
        _ => Err(Trouble::Usage("list prints --format text, json or markdown".to_owned())),
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
pub(super) fn chosen(filters: &[String]) -> Result<Vec<&'static Claim>, Trouble> {
    let all = claims::catalogue();
    if let Some(stray) = filters.iter().find(|filter| !all.iter().any(|claim| claim.id.contains(filter.as_str()))) {
        return Err(Trouble::Usage(format!("no claim has \"{stray}\" in its name; smallwrites list shows them all")));
    }
    Ok(all.into_iter().filter(|claim| wanted(claim.id, filters)).collect())
}

fn wanted(id: &str, filters: &[String]) -> bool {
    filters.is_empty() || filters.iter().any(|filter| id.contains(filter.as_str()))
}
