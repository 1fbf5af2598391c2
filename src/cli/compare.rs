//! `smallwrites compare` and `smallwrites whatif`.

use super::arguments::{Compare, WhatIf};
use super::output::Target;
use super::{Status, Trouble, place, verify};
use smallwrites::claims::Setting;
use smallwrites::gate::{self, Comparison};
use smallwrites::lab::LabError;
use smallwrites::report::html::{Column, Page};
use smallwrites::report::{Format, Record};
use std::path::{Path, PathBuf};
use std::thread;

/// Compares each new file with the old one.
pub(super) fn run(options: &Compare) -> Result<Status, Trouble> {
    let old = read(&options.old)?;
    let new: Vec<Record> = options.new.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let target = Target::open(options.out.as_deref())?;
    let paths: Vec<&Path> = std::iter::once(&options.old).chain(&options.new).map(PathBuf::as_path).collect();
    let (text, status) = render(options.format, &names(&paths), &old, &new, options.times);
    target.write(&text)?;
    Ok(status)
}

/// Checks the catalogue with the settings and without, side by side.
pub(super) fn what_if(options: &WhatIf, entered: Result<(), LabError>) -> Result<Status, Trouble> {
    let chosen = verify::chosen(&options.filters)?;
    let target = Target::open(options.out.as_deref())?;
    let changed = place::probe(false, options.defaults, &options.sysctls, false, entered)?;
    let plain = if options.defaults {
        place::probe(false, true, &[], false, Ok(()))?
    } else {
        Setting::probe().map_err(|error| Trouble::Machine(format!("cannot probe this kernel: {error}")))?
    };
    let [without, with] = thread::scope(|scope| {
        [&plain, &changed]
            .map(|setting| scope.spawn(|| verify::record(&chosen, setting)))
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let sysctls: Vec<String> = options.sysctls.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let names = ["without".to_owned(), format!("with {}", sysctls.join(" "))];
    let (text, status) = render(options.format, &names, &without, &[with], options.times);
    target.write(&text)?;
    Ok(status)
}

/// Reads a baseline, or says in one line why it is none.
pub(super) fn read(path: &Path) -> Result<Record, Trouble> {
    gate::read(path).map_err(|error| Trouble::Usage(error.to_string()))
}

/// What to call files on a page: their names alone, which head narrow columns, or whole where two have the same.
fn names(paths: &[&Path]) -> Vec<String> {
    let stems = || paths.iter().filter_map(|path| path.file_stem());
    let name = |path: &&Path| match path.file_stem() {
        Some(stem) if stems().filter(|other| *other == stem).count() == 1 => stem.to_string_lossy().into_owned(),
        _ => path.display().to_string(),
    };
    paths.iter().map(name).collect()
}

/// What changed from the old record to each new one, and the status that follows.
pub(super) fn render(
    format: Format,
    names: &[String],
    old: &Record,
    new: &[Record],
    times: Option<f64>,
) -> (String, Status) {
    let comparisons: Vec<Comparison> = new.iter().map(|new| Comparison::of(old, new)).collect();
    let all = |part: fn(&Comparison) -> String| comparisons.iter().map(part).collect::<Vec<_>>();
    let text = match format {
        Format::Json => all(Comparison::json).concat(),
        Format::Markdown => all(Comparison::markdown).join("\n"),
        Format::Github => all(Comparison::github).concat(),
        Format::Html => {
            let records = std::iter::once(old).chain(new);
            let columns = names.iter().cloned().zip(records).map(|(name, record)| Column { name, record }).collect();
            let lead = comparisons.iter().zip(&names[1..]).map(|(changed, new)| changed.html(&names[0], new)).collect();
            Page { columns, lead }.render()
        }
        _ => all(Comparison::to_string).join("\n"),
    };
    let trips = comparisons.iter().any(|changed| changed.trips(times));
    (text, if trips { Status::Failed } else { Status::Fine })
}
