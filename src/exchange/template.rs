//! An exchange with one size left open.

use super::{Exchange, MAX_BYTES, ParseError};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// An exchange in which one number is a range, and a read may take whatever the other side wrote.
///
/// ```
/// use smallwrites::exchange::Template;
///
/// let template: Template = "C: W{1..3000} W10 R20 / S: R{} W20".parse()?;
/// assert_eq!(template.sizes(), 1..=3000);
/// assert_eq!(template.at(500)?.to_string(), "C: W500 W10 R20 / S: R510 W20");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    sizes: RangeInclusive<u32>,
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// Nothing is left open.
    #[error("no size is left open; write one as a range, such as W{{1..3000}}")]
    Closed,
    /// More than one size is.
    #[error("two sizes are left open, and one is what can be swept; close all but one")]
    Twice,
    /// The range cannot be read.
    #[error(
        "column {column}: met \"{met}\", expected a range of bytes such as {{1..3000}}, the first not above the last"
    )]
    Range {
        /// Column in characters, the first being 1.
        column: usize,
        /// What stands between the braces.
        met: String,
    },
    /// Filled in, it is no exchange.
    #[error("with {size} filled in: {source}")]
    Exchange {
        /// The size.
        size: u32,
        /// Why not; the column counts in the text with the size filled in.
        source: ParseError,
    },
    /// A read that takes what was written has nothing to take.
    #[error("R{{}} of the {0} has nothing to read: the other side writes no more than the other reads take")]
    Nothing(super::Side),
}

/// Stands for a read whose size is not known yet: more than any script may read, so it is never met.
const WHATEVER: &str = "{}";

impl Template {
    /// The sizes that the open number goes through.
    #[must_use]
    pub fn sizes(&self) -> RangeInclusive<u32> {
        self.sizes.clone()
    }

    /// The exchange with one size filled in.
    ///
    /// # Errors
    ///
    /// Where the result is no exchange.
    pub fn at(&self, size: u32) -> Result<Exchange, TemplateError> {
        let (from, to) = braces(&self.text, |inside| !inside.is_empty()).ok_or(TemplateError::Closed)?;
        let mut text = format!("{}{size}{}", &self.text[..from], &self.text[to..]);
        // One pass for each side's R{}: first as one byte, to learn what all the others take.
        while let Some((from, to)) = braces(&text, str::is_empty) {
            let fill =
                |text: &str, bytes: &str| format!("{}{bytes}{}", &text[..from], text[to..].replace(WHATEVER, "1"));
            let parse = |text: &str| text.parse().map_err(|source| TemplateError::Exchange { size, source });
            let probe: Exchange = parse(&fill(&text, "1"))?;
            // The slash before the server tells whose read it is.
            let side = if text[..from].contains('/') { super::Side::Server } else { super::Side::Client };
            let others = probe.script(side).read() - 1;
            let bytes = probe.script(side.peer()).written().saturating_sub(others);
            if bytes == 0 {
                return Err(TemplateError::Nothing(side));
            }
            text = format!("{}{bytes}{}", &text[..from], &text[to..]);
        }
        text.parse().map_err(|source| TemplateError::Exchange { size, source })
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let (from, to) = braces(text, |inside| !inside.is_empty()).ok_or(TemplateError::Closed)?;
        if braces(&text[to..], |inside| !inside.is_empty()).is_some() {
            return Err(TemplateError::Twice);
        }
        let inside = &text[from + 1..to - 1];
        let bounds = inside.split_once("..").and_then(|(first, last)| {
            let number = |text: &str| text.trim_start_matches('=').trim().parse::<u32>().ok();
            Some((number(first)?, number(last)?)).filter(|(first, last)| first <= last && *last <= MAX_BYTES)
        });
        let Some((first, last)) = bounds else {
            return Err(TemplateError::Range { column: text[..from].chars().count() + 1, met: inside.to_owned() });
        };
        let template = Self { text: text.to_owned(), sizes: first..=last };
        template.at(first)?;
        Ok(template)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Where the first pair of braces stands whose inside is as wanted, the braces included.
fn braces(text: &str, wanted: impl Fn(&str) -> bool) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| from + at) {
        let close = open + text[open..].find('}')?;
        if wanted(&text[open + 1..close]) {
            return Some((open, close + 1));
        }
        from = close + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, size: u32) -> String {
        text.parse::<Template>().unwrap().at(size).unwrap().to_string()
    }

    #[test]
    fn reads_take_what_the_other_side_wrote_and_nobody_else_reads() {
        assert_eq!(at("C: W{1..9} W10 R20 / S: R5 R{} W20", 7), "C: W7 W10 R20 / S: R5 R12 W20");
        assert_eq!(at("C: W{1..9} R{} / S: R{} W20 W1", 3), "C: W3 R21 / S: R3 W20 W1");
        assert_eq!(at("C: W20 R{1..9} / S: R20 W9", 9), "C: W20 R9 / S: R20 W9");
    }

    #[test]
    fn what_cannot_be_swept_says_why() {
        let error = |text: &str| text.parse::<Template>().unwrap_err().to_string();
        assert!(error("C: W10 R20 / S: R10 W20").contains("no size is left open"));
        assert!(error("C: W{1..2} W{1..2} / S: R2").contains("two sizes"));
        assert!(error("C: W{9..2} / S: R2").contains("column 5: met \"9..2\""));
        assert!(error("C: W{1..2} X / S: R{}").contains("with 1 filled in: column 7"));
        assert!(error("C: R{} W{1..2} / S: R2").contains("R{} of the client has nothing to read"));
    }
}
