//! Parsing the notation, with errors that point at the column.

use super::hint::hint_for;
use super::{Exchange, MAX_BYTES, MAX_STEPS, Opt, Relay, Script, Setting, Side, Step};
use std::str::FromStr;

/// Groups may stand inside groups this deep.
const MAX_DEPTH: usize = 4;

const STEPS: &str = "a step (W, M, E, V, Z, F, R, P with a number, an option such as nodelay, or shutdown)";

/// Why a text is no exchange: where, what stands there, what was expected, and often a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: met {met}, expected {expected}{}", .hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default())]
pub struct ParseError {
    /// Column in characters, the first being 1.
    pub column: usize,
    /// What stands there, quoted, or "the end".
    pub met: String,
    /// What would have been right.
    pub expected: String,
    /// What to try.
    pub hint: Option<String>,
}

impl FromStr for Exchange {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Parser { text: text.chars().collect(), at: 0 }.exchange()
    }
}

struct Parser {
    text: Vec<char>,
    at: usize,
}

impl Parser {
    fn exchange(mut self) -> Result<Exchange, ParseError> {
        self.party("C", "an exchange starts with the client, as in C: W10 R20 / S: R10 W20")?;
        let client = self.script(Side::Client)?;
        self.slash("the server's part follows the client's after a slash")?;
        let relay = self.relay()?;
        self.party("S", "a server's script starts with S:")?;
        let server = self.script(Side::Server)?;
        if self.peek().is_some() {
            return Err(self.error(STEPS, None));
        }
        Ok(Exchange { client, relay, server })
    }

    fn party(&mut self, name: &str, hint: &str) -> Result<(), ParseError> {
        self.spaces();
        let start = self.at;
        let found = self.word();
        if found.eq_ignore_ascii_case(name) {
            self.spaces();
            if self.eat(':') {
                return Ok(());
            }
            return Err(self.error("a colon", Some(hint)));
        }
        self.at = start;
        Err(self.error(&format!("{name}:"), Some(hint)))
    }

    fn slash(&mut self, hint: &str) -> Result<(), ParseError> {
        self.spaces();
        if self.eat('/') { Ok(()) } else { Err(self.error(&format!("{STEPS} or /"), Some(hint))) }
    }

    fn relay(&mut self) -> Result<Option<Relay>, ParseError> {
        self.spaces();
        let start = self.at;
        if self.word() != "relay" {
            self.at = start;
            return Ok(None);
        }
        self.at = start;
        self.party("relay", "a relay is written relay: C[options] S[options]")?;
        let mut relay = Relay::default();
        if let Some(settings) = self.group("C")? {
            relay.towards_client = settings;
        }
        if let Some(settings) = self.group("S")? {
            relay.towards_server = settings;
        }
        self.slash("a relay has options but no steps: it forwards what comes")?;
        Ok(Some(relay))
    }

    fn script(&mut self, side: Side) -> Result<Script, ParseError> {
        let mut script = Script::default();
        if let Some(settings) = self.group("bound")? {
            script.bound = settings;
        }
        self.spaces();
        let before = self.at;
        if let Some(settings) = self.group("listening")? {
            if side == Side::Client {
                self.at = before;
                return Err(self.error("a step", Some("only a server listens; a client's early options are bound[…]")));
            }
            script.listening = settings;
        }
        if let Some(settings) = self.group("")? {
            script.opened = settings;
        }
        let start = self.at;
        script.steps = self.steps(0)?;
        let length = script.steps.iter().map(Step::unrolled_length).fold(0, u64::saturating_add);
        if length > MAX_STEPS {
            self.at = start;
            self.spaces();
            return Err(
                self.error(&format!("at most {MAX_STEPS} steps a request"), Some("repeat less, or play more requests"))
            );
        }
        Ok(script)
    }

    /// `name[options]`, or nothing where the name and its bracket do not stand next.
    fn group(&mut self, name: &str) -> Result<Option<Vec<Setting>>, ParseError> {
        self.spaces();
        let start = self.at;
        if self.word() != name || !self.eat('[') {
            self.at = start;
            return Ok(None);
        }
        let mut settings = Vec::new();
        loop {
            self.spaces();
            if self.eat(']') {
                return Ok(Some(settings));
            }
            settings.push(self.setting("an option or ]")?);
        }
    }

    fn steps(&mut self, depth: usize) -> Result<Vec<Step>, ParseError> {
        let mut steps = Vec::new();
        loop {
            self.spaces();
            let start = self.at;
            let step = match self.peek() {
                None | Some('/' | ')') => return Ok(steps),
                Some('(') if depth == MAX_DEPTH => {
                    return Err(self.error(&format!("groups at most {MAX_DEPTH} deep"), None));
                }
                Some('(') => {
                    self.at += 1;
                    let inner = self.steps(depth + 1)?;
                    if !self.eat(')') {
                        return Err(self.error(&format!("{STEPS} or )"), Some("the group opened before is not closed")));
                    }
                    if inner.is_empty() {
                        self.at = start;
                        return Err(self.error("a group with at least one step", None));
                    }
                    let times = self.repeat()?.ok_or_else(|| {
                        self.error("× and a number", Some("a group is there to be repeated: (W1 P5)×20"))
                    })?;
                    steps.push(Step::Repeat(inner, times));
                    continue;
                }
                Some(_) => self.step()?,
            };
            match self.repeat()? {
                Some(times) => steps.push(Step::Repeat(vec![step], times)),
                None => steps.push(step),
            }
            if !matches!(self.peek(), None | Some(' ' | '\t' | '\n' | '/' | ')')) {
                return Err(self.error("a space", Some("steps are separated by spaces")));
            }
        }
    }

    fn step(&mut self) -> Result<Step, ParseError> {
        let start = self.at;
        let word = self.word();
        if word == "shutdown" {
            return Ok(Step::Shutdown);
        }
        let letter =
            if word.len() == 1 && self.peek().is_some_and(|c| c.is_ascii_digit()) { word.as_str() } else { "" };
        match letter {
            "W" => Ok(Step::Write(self.bytes()?)),
            "M" => Ok(Step::More(self.bytes()?)),
            "E" => Ok(Step::Record(self.bytes()?)),
            "V" => self.parts().map(Step::Vector),
            "Z" => self.parts().map(Step::ZeroCopy),
            "F" => {
                let length = self.bytes()?;
                let beyond = if self.eat('+') { self.bytes()? } else { 0 };
                Ok(Step::SendFile { length, beyond })
            }
            "R" => match self.bytes()? {
                0 => {
                    self.at = start;
                    Err(self.error("a read of at least one byte", None))
                }
                n => Ok(Step::Read(n)),
            },
            "P" => self.pause().map(Step::Pause),
            _ => {
                self.at = start;
                let setting = self.setting(STEPS)?;
                if setting.option == Opt::Mss {
                    self.at = start;
                    return Err(self.error(
                        "an option that can change later",
                        Some("the segment size is agreed in the handshake: write [mss=N] before the first step"),
                    ));
                }
                Ok(Step::Set(setting))
            }
        }
    }

    /// One number of bytes, or several with a plus between.
    fn parts(&mut self) -> Result<Vec<u32>, ParseError> {
        let mut parts = vec![self.bytes()?];
        while self.eat('+') {
            parts.push(self.bytes()?);
        }
        Ok(parts)
    }

    fn setting(&mut self, expected: &str) -> Result<Setting, ParseError> {
        let start = self.at;
        let word = self.word();
        if word == "uncork" {
            return Ok(Setting::new(Opt::Cork, 0));
        }
        let Some((option, _)) = Opt::WORDS.iter().find(|(_, name)| *name == word) else {
            self.at = start;
            return Err(self.error(expected, hint_for(&self.met_word())));
        };
        if self.eat('=') {
            return Ok(Setting::new(*option, self.value()?));
        }
        if option.is_switch() {
            return Ok(Setting::new(*option, 1));
        }
        Err(self.error("= and a number", Some("this option takes a value, such as mss=1000")))
    }

    fn value(&mut self) -> Result<i32, ParseError> {
        let start = self.at;
        let negative = self.eat('-');
        let digits = self.digits();
        let text = if negative { format!("-{digits}") } else { digits };
        text.parse().map_err(|_| {
            self.at = start;
            self.error("a number that fits a C int", None)
        })
    }

    fn bytes(&mut self) -> Result<u32, ParseError> {
        let start = self.at;
        let n = self.number()?;
        u32::try_from(n).ok().filter(|n| *n <= MAX_BYTES).ok_or_else(|| {
            self.at = start;
            self.error(&format!("at most {MAX_BYTES} bytes"), None)
        })
    }

    fn pause(&mut self) -> Result<u64, ParseError> {
        const LONGEST: u64 = 60_000_000;
        let start = self.at;
        let n = self.number()?;
        let unit = self.at;
        let microseconds = match self.word().as_str() {
            "" | "ms" => n.checked_mul(1000),
            "us" => Some(n),
            "s" => n.checked_mul(1_000_000),
            _ => {
                self.at = unit;
                return Err(self.error("ms, us, s or a space", None));
            }
        };
        microseconds.filter(|us| *us <= LONGEST).ok_or_else(|| {
            self.at = start;
            self.error("a pause of at most 60 s", None)
        })
    }

    fn repeat(&mut self) -> Result<Option<u32>, ParseError> {
        if !(self.eat('×') || self.eat('x') || self.eat('*')) {
            return Ok(None);
        }
        let start = self.at;
        match self.number()? {
            n @ 1..=1_000_000 => Ok(Some(n as u32)),
            _ => {
                self.at = start;
                Err(self.error("1 to 1000000 repetitions", None))
            }
        }
    }

    fn number(&mut self) -> Result<u64, ParseError> {
        let start = self.at;
        let digits = self.digits();
        if digits.is_empty() {
            return Err(self.error("a number", None));
        }
        digits.parse().map_err(|_| {
            self.at = start;
            self.error("a smaller number", None)
        })
    }

    fn digits(&mut self) -> String {
        self.take_while(|c| c.is_ascii_digit())
    }

    fn word(&mut self) -> String {
        let start = self.at;
        let word = self.take_while(|c| c.is_ascii_alphabetic() || c == '-');
        // "W30x10": the x belongs to the repetition, and a lone sign is no word.
        if word.starts_with('-') || (word == "x" && self.peek().is_some_and(|c| c.is_ascii_digit())) {
            self.at = start;
            return String::new();
        }
        word
    }

    fn met_word(&self) -> String {
        self.text[self.at..].iter().take_while(|c| !c.is_whitespace() && !matches!(c, '/' | ']' | ')')).collect()
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> String {
        let taken: String = self.text[self.at..].iter().copied().take_while(|c| keep(*c)).collect();
        self.at += taken.chars().count();
        taken
    }

    fn spaces(&mut self) {
        self.take_while(char::is_whitespace);
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let met = self.peek() == Some(wanted);
        self.at += usize::from(met);
        met
    }

    fn error(&self, expected: &str, hint: Option<&str>) -> ParseError {
        let rest = &self.text[self.at..];
        let met = match (self.met_word().as_str(), rest.first()) {
            _ if rest.iter().all(|c| c.is_whitespace()) => "the end".to_owned(),
            ("", Some(c)) => format!("{c:?}").replace('\'', "\""),
            (word, _) => format!("{:?}", word.chars().take(24).collect::<String>()),
        };
        ParseError { column: self.at + 1, met, expected: expected.to_owned(), hint: hint.map(str::to_owned) }
    }
}

#[cfg(test)]
mod tests;
