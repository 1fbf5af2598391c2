//! What the arguments say.

mod gate;
mod verify;

pub(super) use gate::{Compare, WhatIf};
pub(super) use verify::Verify;

use super::Trouble;
use super::help::Topic;
use lexopt::{Arg, Parser, ValueExt};
use smallwrites::exchange::{Exchange, Opt, ParseError, Setting, Side, Template};
use smallwrites::observation::Order;
use smallwrites::report::Format;
use std::ffi::OsString;
use std::path::PathBuf;

/// What to do.
#[derive(Debug)]
pub(super) enum Command {
    Help(Topic),
    Version,
    Verify(Verify),
    Compare(Compare),
    WhatIf(WhatIf),
    List(List),
    Try(Box<Try>),
    Sweep(Box<Sweep>),
    Explain(Explain),
    Kernel(Format),
}

impl Command {
    /// Whether the answer goes to a file, so that nobody need read standard output.
    pub(super) fn writes_a_file(&self) -> bool {
        matches!(self, Self::Verify(Verify { out: Some(_), .. }))
    }
}

/// Options of `list`.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) filters: Vec<String>,
    pub(super) format: Format,
}

/// Options of `try`.
#[derive(Debug)]
pub(super) struct Try {
    pub(super) exchange: Exchange,
    pub(super) requests: u32,
    pub(super) order: Order,
    pub(super) fresh: bool,
    pub(super) place: Place,
    pub(super) predict: Predict,
    pub(super) format: Format,
}

/// Options of `sweep`.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) template: Template,
    pub(super) requests: u32,
    pub(super) place: Place,
    pub(super) format: Format,
}

/// Options of `explain`.
#[derive(Debug, Default)]
pub(super) struct Explain {
    pub(super) id: String,
    pub(super) pcap: Option<PathBuf>,
    pub(super) shared: bool,
}

/// Where and under what an exchange is played.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) ipv6: bool,
    pub(super) shared: bool,
    pub(super) sysctls: Vec<(String, String)>,
    pub(super) quickack_route: bool,
    mss: Option<i32>,
}

/// Whether the model has a say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Predict {
    #[default]
    No,
    Beside,
    Only,
}

impl Place {
    /// Takes an option that belongs to it; whether it was one.
    fn take(&mut self, option: &str, parser: &mut Parser) -> Result<bool, Trouble> {
        match option {
            "--mss" => self.mss = Some(value(parser, "--mss")?),
            "-6" | "--ipv6" => self.ipv6 = true,
            "--shared" => self.shared = true,
            "--quickack-route" => self.quickack_route = true,
            "--sysctl" => self.sysctls.push(setting(&parser.value().map_err(usage)?)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The exchange with the segment size that was asked for.
    pub(super) fn exchange(&self, mut exchange: Exchange) -> Exchange {
        if let Some(mss) = self.mss {
            for side in Side::BOTH {
                exchange.script_mut(side).opened.insert(0, Setting::new(Opt::Mss, mss));
            }
        }
        exchange
    }
}

/// Requests that `try` plays unless told otherwise: enough for a pattern, few enough to wait for.
const REQUESTS: u32 = 10;

/// The most requests of one exchange.
const MAX_REQUESTS: u32 = 100_000;

/// Reads the program's arguments.
pub(super) fn parse() -> Result<Command, Trouble> {
    from(Parser::from_env())
}

fn from(mut parser: Parser) -> Result<Command, Trouble> {
    let command = match parser.next().map_err(usage)? {
        None => return Ok(Command::Verify(Verify::default())),
        Some(Arg::Short('h') | Arg::Long("help")) => return Ok(Command::Help(Topic::Program)),
        Some(Arg::Short('V') | Arg::Long("version")) => return Ok(Command::Version),
        Some(Arg::Value(word)) => word.string().map_err(usage)?,
        // Options without a command belong to verify.
        Some(Arg::Long(_) | Arg::Short(_)) => return verify::verify(Parser::from_env()),
    };
    match command.as_str() {
        "verify" => verify::verify(parser),
        "compare" => gate::compare(parser),
        "whatif" => gate::what_if(parser),
        "list" => list(parser),
        "try" => attempt(parser),
        "sweep" => sweep(parser),
        "explain" => explain(parser),
        "kernel" => kernel(parser),
        "help" => help(parser),
        other => Err(Trouble::Usage(format!(
            "no command \"{other}\"; there are verify, whatif, compare, try, sweep, explain, list, kernel and help{}",
            if other.contains(':') { ", and an exchange is played with try" } else { "" }
        ))),
    }
}

fn list(mut parser: Parser) -> Result<Command, Trouble> {
    let mut options = List::default();
    while let Some(argument) = parser.next().map_err(usage)? {
        match argument {
            Arg::Long("format") => options.format = value(&mut parser, "--format")?,
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(Topic::List)),
            Arg::Value(filter) => options.filters.push(filter.string().map_err(usage)?),
            other => return Err(unknown(&other, "list")),
        }
    }
    Ok(Command::List(options))
}

fn attempt(mut parser: Parser) -> Result<Command, Trouble> {
    let mut notation = Vec::new();
    let mut options = Try {
        exchange: Exchange::default(),
        requests: REQUESTS,
        order: Order::default(),
        fresh: false,
        place: Place::default(),
        predict: Predict::default(),
        format: Format::default(),
    };
    while let Some(word) = next(&mut parser)? {
        match word.as_str() {
            "-n" | "--requests" => options.requests = value(&mut parser, "--requests")?,
            "--order" => options.order = order(&parser.value().map_err(usage)?)?,
            "--fresh" => options.fresh = true,
            "--predict" => options.predict = Predict::Beside,
            "--predict-only" => options.predict = Predict::Only,
            "--format" => options.format = value(&mut parser, "--format")?,
            "-h" | "--help" => return Ok(Command::Help(Topic::Try)),
            text if !text.starts_with('-') => notation.push(word),
            other if options.place.take(other, &mut parser)? => {}
            other => return Err(stray(other, "try")),
        }
    }
    if notation.is_empty() {
        return Err(Trouble::Usage("try needs an exchange, such as 'C: W10 W10 R20 / S: R20 W20'".to_owned()));
    }
    requests(options.requests)?;
    if !matches!(options.format, Format::Text | Format::Json) {
        return Err(Trouble::Usage("try prints --format text or json".to_owned()));
    }
    let notation = notation.join(" ");
    let exchange = notation.parse().map_err(|error| misread(&notation, &error))?;
    options.exchange = options.place.exchange(exchange);
    Ok(Command::Try(Box::new(options)))
}

fn sweep(mut parser: Parser) -> Result<Command, Trouble> {
    let mut notation = Vec::new();
    let mut place = Place::default();
    let mut count = REQUESTS;
    let mut format = Format::default();
    while let Some(word) = next(&mut parser)? {
        match word.as_str() {
            "-n" | "--requests" => count = value(&mut parser, "--requests")?,
            "--format" => format = value(&mut parser, "--format")?,
            "-h" | "--help" => return Ok(Command::Help(Topic::Sweep)),
            text if !text.starts_with('-') => notation.push(word),
            other if place.take(other, &mut parser)? => {}
            other => return Err(stray(other, "sweep")),
        }
    }
    if notation.is_empty() {
        let example = "sweep needs an exchange with one size left open, such as 'C: W{1..3000} W10 R20 / S: R{} W20'";
        return Err(Trouble::Usage(example.to_owned()));
    }
    requests(count)?;
    if !matches!(format, Format::Text | Format::Json) {
        return Err(Trouble::Usage("sweep prints --format text or json".to_owned()));
    }
    let notation = notation.join(" ");
    let template =
        notation.parse().map_err(|error| Trouble::Usage(format!("'{notation}' cannot be swept: {error}")))?;
    Ok(Command::Sweep(Box::new(Sweep { template, requests: count, place, format })))
}

fn explain(mut parser: Parser) -> Result<Command, Trouble> {
    let mut options = Explain::default();
    while let Some(word) = next(&mut parser)? {
        match word.as_str() {
            "--pcap" => options.pcap = Some(parser.value().map_err(usage)?.into()),
            "--shared" => options.shared = true,
            "-h" | "--help" => return Ok(Command::Help(Topic::Explain)),
            text if !text.starts_with('-') && options.id.is_empty() => options.id = word,
            other => return Err(stray(other, "explain")),
        }
    }
    if options.id.is_empty() {
        return Err(Trouble::Usage("explain needs a claim, such as bare-ack-releases-the-body".to_owned()));
    }
    Ok(Command::Explain(options))
}

fn requests(count: u32) -> Result<(), Trouble> {
    if (1..=MAX_REQUESTS).contains(&count) {
        return Ok(());
    }
    Err(Trouble::Usage(format!("--requests takes 1 to {MAX_REQUESTS}, not {count}")))
}

fn kernel(mut parser: Parser) -> Result<Command, Trouble> {
    let mut format = Format::default();
    while let Some(argument) = parser.next().map_err(usage)? {
        match argument {
            Arg::Long("format") => format = value(&mut parser, "--format")?,
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(Topic::Kernel)),
            other => return Err(unknown(&other, "kernel")),
        }
    }
    if !matches!(format, Format::Text | Format::Json) {
        return Err(Trouble::Usage("kernel prints --format text or json".to_owned()));
    }
    Ok(Command::Kernel(format))
}

fn help(mut parser: Parser) -> Result<Command, Trouble> {
    let topic = match parser.next().map_err(usage)? {
        None => Topic::Program,
        Some(Arg::Value(word)) => match word.to_str() {
            Some("verify") => Topic::Verify,
            Some("compare") => Topic::Compare,
            Some("whatif") => Topic::WhatIf,
            Some("try") => Topic::Try,
            Some("sweep") => Topic::Sweep,
            Some("explain") => Topic::Explain,
            Some("list") => Topic::List,
            Some("kernel") => Topic::Kernel,
            Some("notation") => Topic::Notation,
            _ => {
                let known = "help knows verify, whatif, compare, try, sweep, explain, list, kernel and notation";
                return Err(Trouble::Usage(known.to_owned()));
            }
        },
        Some(other) => return Err(unknown(&other, "help")),
    };
    Ok(Command::Help(topic))
}

fn value<T: std::str::FromStr>(parser: &mut Parser, option: &str) -> Result<T, Trouble>
where
    T::Err: std::fmt::Display,
{
    let text = parser.value().map_err(usage)?;
    let text = text.to_str().ok_or_else(|| Trouble::Usage(format!("{option}: not UTF-8")))?;
    text.parse().map_err(|error| Trouble::Usage(format!("{option} {text}: {error}")))
}

fn order(text: &OsString) -> Result<Order, Trouble> {
    match text.to_str() {
        Some("ordered") => Ok(Order::Ordered),
        Some("turns") => Ok(Order::Turns),
        Some("free") => Ok(Order::Free),
        _ => Err(Trouble::Usage(format!("--order {}: expected ordered, turns or free", text.display()))),
    }
}

fn setting(text: &OsString) -> Result<(String, String), Trouble> {
    let text = text.to_string_lossy();
    let pair = text.split_once('=').filter(|(name, value)| name.starts_with("net.") && !value.is_empty());
    let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| {
        Trouble::Usage(format!("--sysctl {text}: expected NAME=VALUE, such as net.ipv4.tcp_pingpong_thresh=3"))
    })
}

fn misread(notation: &str, error: &ParseError) -> Trouble {
    Trouble::Usage(format!("the exchange '{notation}' cannot be read: {error}"))
}

/// The next argument as it was typed; an exchange never begins with a dash.
fn next(parser: &mut Parser) -> Result<Option<String>, Trouble> {
    Ok(match parser.next().map_err(usage)? {
        None => None,
        Some(Arg::Value(word)) => Some(word.string().map_err(usage)?),
        Some(option) => Some(spelled(&option)),
    })
}

fn spelled(argument: &Arg<'_>) -> String {
    match argument {
        Arg::Short(letter) => format!("-{letter}"),
        Arg::Long(name) => format!("--{name}"),
        Arg::Value(word) => format!("\"{}\"", word.display()),
    }
}

fn unknown(argument: &Arg<'_>, command: &str) -> Trouble {
    stray(&spelled(argument), command)
}

fn stray(argument: &str, command: &str) -> Trouble {
    Trouble::Usage(format!("{command} does not know {argument}; smallwrites help {command} shows what it knows"))
}

fn usage(error: lexopt::Error) -> Trouble {
    Trouble::Usage(error.to_string())
}
