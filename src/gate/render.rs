//! A comparison as text, Markdown, JSON and annotations.

use super::compare::{Comparison, Difference, Flip, Other};
use super::times::Shift;
use crate::report::{annotation, cell, escape};
use std::fmt;
use std::fmt::Write;

impl Comparison {
    /// For programs.
    #[must_use]
    pub fn json(&self) -> String {
        // Plain data with string keys: there is nothing in it that JSON cannot say.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// For a job's page or a comment on a change.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = format!("# Small writes: what changed\n\n{}\n", self.closing());
        let _ = write!(out, "\n- old: {}\n- new: {}\n", cell(&self.runs[0]), cell(&self.runs[1]));
        for (title, flips) in [("Verdict flips", &self.flips), ("Changed counts", &self.counts)] {
            if !flips.is_empty() {
                let _ = write!(out, "\n## {title}\n\n| claim | was | now |\n|---|---|---|\n");
            }
            for flip in flips {
                let setting = flip.setting.as_ref().map(|text| format!("; {text}")).unwrap_or_default();
                let _ = writeln!(
                    out,
                    "| `{}` | **{}** {} | **{}** {}{} |",
                    flip.claim,
                    flip.old.verdict,
                    cell(&flip.old.evidence),
                    flip.new.verdict,
                    cell(&flip.new.evidence),
                    cell(&setting)
                );
            }
        }
        if !self.vanished.is_empty() {
            let _ = write!(out, "\n## Vanished claims\n\n{}\n", ticked(&self.vanished));
        }
        if !self.appeared.is_empty() {
            let _ = write!(out, "\n## New claims\n\n{}\n", ticked(&self.appeared));
        }
        if !self.shifts.is_empty() {
            let _ = write!(out, "\n## Shifted times, median ± MAD\n\n| claim | time |\n|---|---|\n");
        }
        for shift in &self.shifts {
            let _ = writeln!(out, "| `{}` | {} |", shift.claim, cell(&shift.to_string()));
        }
        if !self.settings.is_empty() {
            let _ = write!(out, "\n## Settings\n\n| name | was | now |\n|---|---|---|\n");
        }
        for difference in &self.settings {
            let [old, new] = values(difference);
            let _ = writeln!(out, "| `{}` | {} | {} |", difference.name, cell(old), cell(new));
        }
        out
    }

    /// Annotations for GitHub: an error for what trips the gate, a notice for the rest.
    #[must_use]
    pub fn github(&self) -> String {
        let mut out = String::new();
        for (title, flips) in [("verdict flip", &self.flips), ("changed count", &self.counts)] {
            for flip in flips {
                out += &annotation("error", &format!("{title}: {}", flip.claim), &lines(flip).join("\n"));
            }
        }
        for claim in &self.vanished {
            out += &annotation("error", &format!("vanished: {claim}"), "the baseline has it and this run has not");
        }
        for shift in &self.shifts {
            out += &annotation("notice", &format!("shifted time: {}", shift.claim), &shift.to_string());
        }
        out += &annotation("notice", "small writes against the baseline", &self.closing());
        out
    }

    /// What comes first on a page with pictures, under the names that the two have there.
    #[must_use]
    pub fn html(&self, old: &str, new: &str) -> String {
        let [old, new] = [old, new].map(escape);
        let closing = escape(&self.closing());
        let mut out = format!("<section>\n<h2>What changed from {old} to {new}</h2>\n<p>{closing}</p>\n");
        let mut table = |title: &str, what: &str, rows: Vec<[String; 3]>| {
            if rows.is_empty() {
                return;
            }
            let _ = write!(
                out,
                "<div class=\"scroll\" role=\"region\" aria-label=\"{title}, {old} to {new}\" tabindex=\"0\">\n\
                 <table class=\"changes\">\n<caption>{title}</caption>\n<thead><tr>",
            );
            for name in [what, &old, &new] {
                let _ = write!(out, "<th scope=\"col\">{name}</th>");
            }
            out.push_str("</tr></thead>\n<tbody>\n");
            for [name, old, new] in rows {
                let _ = writeln!(out, "<tr><th scope=\"row\">{name}</th><td>{old}</td><td>{new}</td></tr>");
            }
            out.push_str("</tbody>\n</table>\n</div>\n");
        };
        let link = |claim: &str| format!("<a href=\"#claim-{claim}\">{claim}</a>", claim = escape(claim));
        for (title, flips) in [("Verdict flips", &self.flips), ("Changed counts", &self.counts)] {
            let side =
                |other: &Other| format!("<strong>{}</strong> {}", escape(&other.verdict), escape(&other.evidence));
            let row = |flip: &Flip| {
                let setting = flip.setting.as_ref().map(|text| format!("<br>{}", escape(text))).unwrap_or_default();
                [link(&flip.claim), side(&flip.old), side(&flip.new) + &setting]
            };
            table(title, "claim", flips.iter().map(row).collect());
        }
        let only = |claims: &[String], old: &str, new: &str| {
            claims.iter().map(|claim| [link(claim), old.to_owned(), new.to_owned()]).collect()
        };
        table("Vanished claims", "claim", only(&self.vanished, "checked", "not checked"));
        table("New claims", "claim", only(&self.appeared, "not checked", "checked"));
        let shift = |shift: &Shift| {
            let name = format!("{} <code>{}</code>", link(&shift.claim), escape(&shift.exchange));
            [name, shift.old.to_string(), format!("{} ({:+.0} %)", shift.new, shift.percent())]
        };
        table("Shifted times, median ± median absolute deviation", "claim", self.shifts.iter().map(shift).collect());
        let setting = |difference: &Difference| {
            let [old, new] = values(difference).map(escape);
            [escape(&difference.name), old, new]
        };
        table("Settings and facts", "name", self.settings.iter().map(setting).collect());
        out + "</section>\n"
    }

    fn closing(&self) -> String {
        let mut parts = vec![format!("{} unchanged", count(self.unchanged, "claim"))];
        for (number, what) in [
            (self.flips.len(), "flipped"),
            (self.counts.len(), "changed in a count"),
            (self.vanished.len(), "vanished"),
            (self.appeared.len(), "new"),
        ] {
            if number > 0 {
                parts.push(format!("{number} {what}"));
            }
        }
        for (number, what) in [(self.shifts.len(), "shifted time"), (self.settings.len(), "setting")] {
            if number > 0 {
                parts.push(count(number, what));
            }
        }
        parts.join(", ")
    }
}

/// For a person: what trips the gate first.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [old, new] = &self.runs;
        write!(f, "old  {old}\nnew  {new}\n")?;
        for (title, flips) in [("verdict flips", &self.flips), ("changed counts", &self.counts)] {
            if !flips.is_empty() {
                write!(f, "\n{title}\n")?;
            }
            for flip in flips {
                writeln!(f, "  {}", flip.claim)?;
                for line in lines(flip) {
                    writeln!(f, "    {}", line.replace('\n', "\n             "))?;
                }
            }
        }
        for (title, claims) in [("vanished claims", &self.vanished), ("new claims", &self.appeared)] {
            if !claims.is_empty() {
                write!(f, "\n{title}\n  {}\n", claims.join(" "))?;
            }
        }
        if !self.shifts.is_empty() {
            write!(f, "\nshifted times, median ± MAD\n")?;
        }
        let width = self.shifts.iter().map(|shift| shift.claim.len()).max().unwrap_or(0);
        for shift in &self.shifts {
            writeln!(f, "  {:<width$}  {shift}", shift.claim)?;
        }
        if !self.settings.is_empty() {
            write!(f, "\nsettings and facts\n")?;
        }
        for difference in &self.settings {
            let [old, new] = values(difference);
            writeln!(f, "  {}  {old} → {new}", difference.name)?;
        }
        writeln!(f, "\n{}", self.closing())
    }
}

fn lines(flip: &Flip) -> Vec<String> {
    let mut lines = vec![
        format!("was      {}: {}", flip.old.verdict, flip.old.evidence),
        format!("now      {}: {}", flip.new.verdict, flip.new.evidence),
    ];
    lines.extend(flip.setting.as_ref().map(|setting| format!("setting  {setting}")));
    lines
}

fn values(difference: &Difference) -> [&str; 2] {
    [&difference.old, &difference.new].map(|value| value.as_deref().unwrap_or("absent"))
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn ticked(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
