//! Arguments of `verify`.

use super::{Command, gate, setting, unknown, usage, value};
use crate::cli::Trouble;
use crate::cli::help::Topic;
use lexopt::{Arg, Parser, ValueExt};
use smallwrites::report::Format;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Options of `verify`.
#[derive(Debug, Default)]
pub(in crate::cli) struct Verify {
    pub(in crate::cli) filters: Vec<String>,
    pub(in crate::cli) format: Format,
    pub(in crate::cli) out: Option<PathBuf>,
    pub(in crate::cli) save: Option<PathBuf>,
    pub(in crate::cli) against: Option<PathBuf>,
    pub(in crate::cli) times: Option<f64>,
    pub(in crate::cli) require_all: bool,
    pub(in crate::cli) jobs: Option<usize>,
    pub(in crate::cli) kselftest: bool,
    pub(in crate::cli) shared: bool,
    pub(in crate::cli) defaults: bool,
    pub(in crate::cli) sysctls: Vec<(String, String)>,
}

pub(super) fn verify(mut parser: Parser) -> Result<Command, Trouble> {
    let mut options = Verify::default();
    let mut format = None;
    while let Some(argument) = parser.next().map_err(usage)? {
        match argument {
            Arg::Long("format") => format = Some(value(&mut parser, "--format")?),
            Arg::Long("out") => options.out = Some(parser.value().map_err(usage)?.into()),
            Arg::Long("save") => options.save = Some(parser.value().map_err(usage)?.into()),
            Arg::Long("against") => options.against = Some(parser.value().map_err(usage)?.into()),
            Arg::Long("times") => options.times = Some(gate::percent(&mut parser)?),
            Arg::Long("require-all") => options.require_all = true,
            Arg::Long("jobs") => options.jobs = Some(value::<NonZeroUsize>(&mut parser, "--jobs")?.get()),
            Arg::Long("kselftest") => options.kselftest = true,
            Arg::Long("shared") => options.shared = true,
            Arg::Long("defaults") => options.defaults = true,
            Arg::Long("sysctl") => options.sysctls.push(setting(&parser.value().map_err(usage)?)?),
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(Topic::Verify)),
            Arg::Value(filter) => options.filters.push(filter.string().map_err(usage)?),
            other => return Err(unknown(&other, "verify")),
        }
    }
    options.format = format.unwrap_or(if options.kselftest { Format::Ktap } else { Format::Text });
    let own = if options.defaults { Some("--defaults") } else { (!options.sysctls.is_empty()).then_some("--sysctl") };
    if let (true, Some(option)) = (options.shared, own) {
        return Err(Trouble::Usage(format!("{option} needs private namespaces, and --shared does without")));
    }
    if options.times.is_some() && options.against.is_none() {
        return Err(Trouble::Usage("--times limits a comparison; give it one with --against FILE".to_owned()));
    }
    if options.against.is_some() {
        gate::comparable(options.format)?;
    }
    Ok(Command::Verify(options))
}
