//! Arguments of `compare` and `whatif`.

use super::{Command, setting, unknown, usage, value};
use crate::cli::Trouble;
use crate::cli::help::Topic;
use lexopt::{Arg, Parser, ValueExt};
use smallwrites::report::Format;
use std::path::PathBuf;

/// Options of `compare`.
#[derive(Debug, Default)]
pub(in crate::cli) struct Compare {
    pub(in crate::cli) old: PathBuf,
    pub(in crate::cli) new: Vec<PathBuf>,
    pub(in crate::cli) times: Option<f64>,
    pub(in crate::cli) format: Format,
    pub(in crate::cli) out: Option<PathBuf>,
}

/// Options of `whatif`.
#[derive(Debug, Default)]
pub(in crate::cli) struct WhatIf {
    pub(in crate::cli) filters: Vec<String>,
    pub(in crate::cli) sysctls: Vec<(String, String)>,
    pub(in crate::cli) defaults: bool,
    pub(in crate::cli) times: Option<f64>,
    pub(in crate::cli) format: Format,
    pub(in crate::cli) out: Option<PathBuf>,
}

pub(super) fn compare(mut parser: Parser) -> Result<Command, Trouble> {
    let mut options = Compare::default();
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(argument) = parser.next().map_err(usage)? {
        match argument {
            Arg::Long("times") => options.times = Some(percent(&mut parser)?),
            Arg::Long("format") => options.format = value(&mut parser, "--format")?,
            Arg::Long("out") => options.out = Some(parser.value().map_err(usage)?.into()),
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(Topic::Compare)),
            Arg::Value(file) => files.push(file.into()),
            other => return Err(unknown(&other, "compare")),
        }
    }
    if files.len() < 2 {
        let example = "smallwrites compare old.json new.json, both written by smallwrites verify --save";
        return Err(Trouble::Usage(format!("compare needs two files or more: {example}")));
    }
    comparable(options.format)?;
    options.old = files.remove(0);
    options.new = files;
    Ok(Command::Compare(options))
}

pub(super) fn what_if(mut parser: Parser) -> Result<Command, Trouble> {
    let mut options = WhatIf::default();
    while let Some(argument) = parser.next().map_err(usage)? {
        match argument {
            Arg::Long("sysctl") => options.sysctls.push(setting(&parser.value().map_err(usage)?)?),
            Arg::Long("defaults") => options.defaults = true,
            Arg::Long("times") => options.times = Some(percent(&mut parser)?),
            Arg::Long("format") => options.format = value(&mut parser, "--format")?,
            Arg::Long("out") => options.out = Some(parser.value().map_err(usage)?.into()),
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(Topic::WhatIf)),
            Arg::Value(filter) => options.filters.push(filter.string().map_err(usage)?),
            other => return Err(unknown(&other, "whatif")),
        }
    }
    if options.sysctls.is_empty() {
        let example = "smallwrites whatif --sysctl net.ipv4.tcp_pingpong_thresh=3";
        return Err(Trouble::Usage(format!("whatif needs a setting to try: {example}")));
    }
    comparable(options.format)?;
    Ok(Command::WhatIf(options))
}

/// A limit in per cent.
pub(super) fn percent(parser: &mut Parser) -> Result<f64, Trouble> {
    let percent: f64 = value(parser, "--times")?;
    if percent.is_finite() && percent >= 0.0 {
        Ok(percent)
    } else {
        Err(Trouble::Usage(format!("--times {percent}: expected per cent, such as 25")))
    }
}

/// Refuses a format that a comparison has no form for.
pub(super) fn comparable(format: Format) -> Result<(), Trouble> {
    match format {
        Format::Text | Format::Json | Format::Markdown | Format::Html | Format::Github => Ok(()),
        _ => Err(Trouble::Usage("a comparison is printed as text, json, markdown, html or github".to_owned())),
    }
}
