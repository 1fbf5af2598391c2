//! `smallwrites explain`: one claim, what the kernel does about it, and one request drawn in time.

use super::arguments::Explain;
use super::output::{self, Saved};
use super::{Status, Trouble, place};
use smallwrites::claims::{self, Claim, Explained, Finding};
use smallwrites::lab::LabError;
use smallwrites::report::sequence::Sequence;
use std::fmt::Write;

/// Checks the claim with a capture, and tells about it.
pub(super) fn run(options: &Explain, entered: Result<(), LabError>) -> Result<Status, Trouble> {
    let claim = claims::find(&options.id).ok_or_else(|| unknown(&options.id))?;
    let file = options.pcap.as_deref().map(Saved::open).transpose()?;
    let setting = place::probe(options.shared, false, &[], false, entered)?;
    let explained = claims::explain(claim, &setting);
    if let Some(file) = file {
        let Some((seen, _)) = &explained.shown else {
            return Err(Trouble::Machine(format!(
                "nothing to capture: {} plays no exchange in a private lab",
                claim.id
            )));
        };
        let mut bytes = Vec::new();
        seen.write_pcapng(&mut bytes)
            .map_err(|error| Trouble::Machine(format!("cannot write the capture: {error}")))?;
        file.write(&bytes)?;
    }
    output::print(&text(claim, &explained))?;
    Ok(match explained.outcome.finding {
        Finding::Failed(_) => Status::Failed,
        Finding::Passed(_) | Finding::Ignored(_) => Status::Fine,
    })
}

fn unknown(id: &str) -> Trouble {
    let near: Vec<&str> = claims::catalogue().iter().map(|claim| claim.id).filter(|known| known.contains(id)).collect();
    let hint = if near.is_empty() {
        "smallwrites list shows them all".to_owned()
    } else {
        format!("did you mean {}", near.join(", "))
    };
    Trouble::Usage(format!("no claim \"{id}\"; {hint}"))
}

fn text(claim: &Claim, explained: &Explained) -> String {
    let mut out = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(out, "{name:<10}{}", value.replace('\n', "\n          "));
    };
    row("claim", claim.id);
    row("says", &format!("{} ({}, {})", claim.says, claim.document, claim.section));
    match claim.expected.detail() {
        Some(detail) => row(claim.expected.word(), detail),
        None => row("kernel", "does so"),
    }
    row("source", claim.source);
    row("control", &format!("must fail where: {}", claim.control.breaks));
    match &explained.outcome.finding {
        Finding::Passed(evidence) => {
            row("evidence", &evidence.canonical);
            if !evidence.measured.is_empty() {
                row("measured", &evidence.measured);
            }
        }
        Finding::Failed(failure) => row("FAILED", &failure.to_string()),
        Finding::Ignored(missing) => row("ignored", &format!("{}; {}", missing.reason, missing.remedy)),
    }
    if let Some((seen, number)) = &explained.shown {
        row("exchange", &seen.exchange.to_string());
        if let Some(sequence) = Sequence::of(seen, *number) {
            let _ = write!(out, "\n{sequence}");
        }
    }
    out
}
