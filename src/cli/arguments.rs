//! What the arguments say.

use super::Trouble;
use super::help::Topic;
use lexopt::{Arg, Parser, ValueExt};
use smallwrites::exchange::{Exchange, Opt, ParseError, Setting, Side};
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
    List(List),
    Try(Box<Try>),
    Kernel(Format),
}

/// Options of `verify`.
#[derive(Debug, Default)]
pub(super) struct Verify {
    pub(super) filters: Vec<String>,
    pub(super) format: Format,
    pub(super) out: Option<PathBuf>,
    pub(super) require_all: bool,
    pub(super) shared: bool,
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
    pub(super) ipv6: bool,
    pub(super) shared: bool,
    pub(super) sysctls: Vec<(String, String)>,
    pub(super) quickack_route: bool,
    pub(super) format: Format,
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
        Some(Arg::Long(_) | Arg::Short(_)) => return verify(Parser::from_env()),
    };
    match command.as_str() {
        "verify" => verify(parser),
        "list" => list(parser),
        "try" => attempt(parser),
        "kernel" => kernel(parser),
        "help" => help(parser),
        other => Err(Trouble::Usage(format!(
            "no command \"{other}\"; there are verify, try, list, kernel and help{}",
            if other.contains(':') { ", and an exchange is played with try" } else { "" }
        ))),
    }
}

fn verify(mut parser: Parser) -> Result<Command, Trouble> {
    let mut options = Verify::default();
    while let Some(argument) = parser.next().map_err(usage)? {
        match argument {
            Arg::Long("format") => options.format = value(&mut parser, "--format")?,
            Arg::Long("out") => options.out = Some(parser.value().map_err(usage)?.into()),
            Arg::Long("require-all") => options.require_all = true,
            Arg::Long("shared") => options.shared = true,
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(Topic::Verify)),
            Arg::Value(filter) => options.filters.push(filter.string().map_err(usage)?),
            other => return Err(unknown(&other, "verify")),
        }
    }
    Ok(Command::Verify(options))
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
    let mut mss = None;
    let mut options = Try {
        exchange: Exchange::default(),
        requests: REQUESTS,
        order: Order::default(),
        fresh: false,
        ipv6: false,
        shared: false,
        sysctls: Vec::new(),
        quickack_route: false,
        format: Format::default(),
    };
    while let Some(argument) = parser.next().map_err(usage)? {
        match argument {
            Arg::Short('n') | Arg::Long("requests") => options.requests = value(&mut parser, "--requests")?,
            Arg::Long("order") => options.order = order(&parser.value().map_err(usage)?)?,
            Arg::Long("mss") => mss = Some(value(&mut parser, "--mss")?),
            Arg::Long("fresh") => options.fresh = true,
            Arg::Short('6') | Arg::Long("ipv6") => options.ipv6 = true,
            Arg::Long("shared") => options.shared = true,
            Arg::Long("quickack-route") => options.quickack_route = true,
            Arg::Long("sysctl") => options.sysctls.push(setting(&parser.value().map_err(usage)?)?),
            Arg::Long("format") => options.format = value(&mut parser, "--format")?,
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(Topic::Try)),
            Arg::Value(word) => notation.push(word.string().map_err(usage)?),
            other => return Err(unknown(&other, "try")),
        }
    }
    if notation.is_empty() {
        return Err(Trouble::Usage("try needs an exchange, such as 'C: W10 W10 R20 / S: R20 W20'".to_owned()));
    }
    if !(1..=MAX_REQUESTS).contains(&options.requests) {
        return Err(Trouble::Usage(format!("--requests takes 1 to {MAX_REQUESTS}, not {}", options.requests)));
    }
    if !matches!(options.format, Format::Text | Format::Json) {
        return Err(Trouble::Usage("try prints --format text or json".to_owned()));
    }
    let notation = notation.join(" ");
    options.exchange = notation.parse().map_err(|error| misread(&notation, &error))?;
    if let Some(mss) = mss {
        for side in Side::BOTH {
            options.exchange.script_mut(side).opened.insert(0, Setting::new(Opt::Mss, mss));
        }
    }
    Ok(Command::Try(Box::new(options)))
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
            Some("try") => Topic::Try,
            Some("list") => Topic::List,
            Some("kernel") => Topic::Kernel,
            Some("notation") => Topic::Notation,
            _ => return Err(Trouble::Usage("help knows verify, try, list, kernel and notation".to_owned())),
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

fn unknown(argument: &Arg<'_>, command: &str) -> Trouble {
    let argument = match argument {
        Arg::Short(letter) => format!("-{letter}"),
        Arg::Long(name) => format!("--{name}"),
        Arg::Value(word) => format!("\"{}\"", word.display()),
    };
    Trouble::Usage(format!("{command} does not know {argument}; smallwrites help {command} shows what it knows"))
}

fn usage(error: lexopt::Error) -> Trouble {
    Trouble::Usage(error.to_string())
}
