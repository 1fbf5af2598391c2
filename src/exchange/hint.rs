//! Advice for what people write instead of the notation.

/// Advice for the words that people write instead.
pub(super) fn hint_for(word: &str) -> Option<&'static str> {
    let lower = word.to_ascii_lowercase();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| lower.starts_with(prefix));
    // What follows the first character; in a text of one's own that may be a long one, such as ×.
    let rest = &word[word.chars().next().map_or(0, char::len_utf8)..];
    if !rest.is_empty() && lower != word && rest.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
        Some("options are written in lower case")
    } else if !rest.is_empty()
        && rest.chars().all(|c| c.is_ascii_digit())
        && starts(&["w", "m", "e", "v", "z", "f", "r", "p"])
    {
        Some("steps are written with a capital letter, such as W10")
    } else if matches!(word, "W" | "M" | "E" | "V" | "Z" | "F" | "R" | "P") {
        Some("the number follows the letter without a space, such as W10")
    } else if starts(&["tcp_"]) {
        Some("options are written without TCP_, such as nodelay or cork")
    } else if starts(&["send", "write"]) {
        Some("a write of ten bytes is W10")
    } else if starts(&["recv", "read"]) {
        Some("a read of ten bytes is R10")
    } else if starts(&["sleep", "wait", "pause"]) {
        Some("a pause of five milliseconds is P5")
    } else if starts(&["bound[", "listening[", "["]) {
        Some("option groups stand before the first step, in the order bound[…] listening[…] […]")
    } else if starts(&["c:", "s:"]) {
        Some("the two scripts are separated by a slash")
    } else {
        None
    }
}
