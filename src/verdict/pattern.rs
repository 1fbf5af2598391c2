//! Which requests of a run stalled, in a word.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Which requests of a run stalled.
///
/// ```
/// use smallwrites::verdict::Pattern;
///
/// assert_eq!(Pattern::of(&[false, true, true, true], &[false; 4]), Pattern::AllButFirst);
/// assert_eq!("every-3rd".parse(), Ok(Pattern::EveryNth(3)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// No request.
    None,
    /// Every request.
    Every,
    /// Every request but the first.
    AllButFirst,
    /// The nth request and every later one; n is 3 or more.
    FromNth(u32),
    /// One request only, the nth.
    Once(u32),
    /// Every nth request, counted from the first that stalls.
    EveryNth(u32),
    /// Some requests, in no pattern known here.
    Mixed,
}

impl Pattern {
    /// The pattern of a run; where `late` is set, a request may have stalled or not.
    #[must_use]
    pub fn of(stalled: &[bool], late: &[bool]) -> Self {
        let count = u32::try_from(stalled.len()).unwrap_or(u32::MAX);
        let fits = |expects: &dyn Fn(u32) -> bool| {
            stalled.iter().zip(late).zip(1..).all(|((stalled, late), number)| *late || *stalled == expects(number))
        };
        // Where every request is late, what they did is all there is to tell the pattern by.
        let all_late = late.iter().all(|late| *late);
        let counts = |late: bool| all_late || !late;
        let sure = || stalled.iter().zip(late).zip(1..).filter(|((stalled, late), _)| **stalled && counts(**late));
        let Some(first) = sure().map(|(_, number)| number).next() else { return Self::None };
        let last = sure().map(|(_, number)| number).last().unwrap_or(first);
        if fits(&|_| true) {
            Self::Every
        } else if fits(&|number| number >= 2) {
            Self::AllButFirst
        } else if first == last {
            Self::Once(first)
        } else if let Some(n) = (3..count).find(|n| fits(&|number| number >= *n)) {
            Self::FromNth(n)
        } else if let Some(n) =
            (2..count).find(|n| fits(&|number| number >= first && (number - first).is_multiple_of(*n)))
        {
            Self::EveryNth(n)
        } else {
            Self::Mixed
        }
    }

    /// Whether a request fits into the pattern as one that stalls; undecided patterns expect what was seen nowhere.
    #[must_use]
    pub fn expects(self, number: u32) -> bool {
        match self {
            Self::None | Self::Mixed | Self::EveryNth(_) => false,
            Self::Every => true,
            Self::AllButFirst => number >= 2,
            Self::FromNth(n) => number >= n,
            Self::Once(n) => number == n,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Every => f.pad("every"),
            Self::AllButFirst => f.pad("all-but-first"),
            Self::FromNth(n) => f.pad(&format!("from-{}", ordinal(*n))),
            Self::Once(_) => f.pad("once"),
            Self::EveryNth(n) => f.pad(&format!("every-{}", ordinal(*n))),
            Self::Mixed => f.pad("mixed"),
        }
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |rest: &str| rest.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok();
        let parsed = match text {
            "none" => Some(Self::None),
            "every" => Some(Self::Every),
            "all-but-first" => Some(Self::AllButFirst),
            "once" => Some(Self::Once(0)),
            "mixed" => Some(Self::Mixed),
            _ => match text.split_once('-') {
                Some(("from", rest)) => number(rest).map(Self::FromNth),
                Some(("every", rest)) => number(rest).map(Self::EveryNth),
                _ => None,
            },
        };
        parsed.ok_or_else(|| {
            format!("met \"{text}\", expected none, every, all-but-first, from-3rd, once, every-2nd or mixed")
        })
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

fn ordinal(n: u32) -> String {
    let suffix = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(requests: &str) -> Pattern {
        let stalled: Vec<bool> = requests.chars().map(|c| c == 'x' || c == 'X').collect();
        let late: Vec<bool> = requests.chars().map(|c| c == '?' || c == 'X').collect();
        Pattern::of(&stalled, &late)
    }

    #[test]
    fn patterns_are_read_off_the_requests() {
        for (requests, expected) in [
            ("....", Pattern::None),
            ("xxxx", Pattern::Every),
            ("x", Pattern::Every),
            (".xxx", Pattern::AllButFirst),
            (".x", Pattern::AllButFirst),
            ("..xx", Pattern::FromNth(3)),
            ("..x.", Pattern::Once(3)),
            ("...x..x..x", Pattern::EveryNth(3)),
            ("..x.x.x", Pattern::EveryNth(2)),
            (".x..xx.", Pattern::Mixed),
            ("", Pattern::None),
        ] {
            assert_eq!(pattern(requests), expected, "{requests}");
        }
    }

    #[test]
    fn a_late_request_fits_either_way_but_never_makes_a_pattern() {
        assert_eq!(pattern(".x?xx?x"), Pattern::AllButFirst);
        assert_eq!(pattern("...x?"), Pattern::Once(4));
        assert_eq!(pattern("..X."), Pattern::None);
        assert_eq!(pattern(".xXx"), Pattern::AllButFirst);
        assert_eq!(pattern(".???"), Pattern::None);
        assert_eq!(pattern(".x.xx"), Pattern::Mixed);
    }

    #[test]
    fn words_parse_as_they_print() {
        for pattern in
            [Pattern::None, Pattern::Every, Pattern::AllButFirst, Pattern::FromNth(11), Pattern::EveryNth(22)]
        {
            assert_eq!(pattern.to_string().parse(), Ok(pattern));
        }
    }
}
