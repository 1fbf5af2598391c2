//! What programs that everybody has do about TCP_NODELAY, and how they write one message.
//!
//! Each runs as it is installed. Its socket is read from outside, so nothing rests on its documentation.

mod databases;
mod go;
mod http;
mod node;
mod python;
mod ssh;

use super::stage::Judged;
use super::{Claim, Evidence, Stage};
use crate::expect::{Failure, Kind};
use crate::foreign::{Foreign, ForeignError, Message, Program, Talk};
use crate::lab::Lab;

/// The chapter's claims about programs.
pub(super) fn chapter() -> Vec<&'static Claim> {
    [node::CLAIMS, go::CLAIMS, ssh::CLAIMS].into_iter().flatten().collect()
}

/// Programs that no document names.
pub(super) fn beyond() -> Vec<&'static Claim> {
    [python::CLAIMS, http::CLAIMS, databases::CLAIMS].into_iter().flatten().collect()
}

/// Where the chapter speaks of programs.
const SECTION: &str = "knobs, cases and traps";

/// Where no document does.
const PROGRAMS: &str = "programs as they are";

/// What a program and we say to each other, over and over.
#[derive(Debug, Clone, Copy)]
struct Lines<'a> {
    /// Ours.
    ours: &'a [u8],
    /// How each of its messages ends.
    theirs: &'a [u8],
    /// How often.
    times: u32,
}

/// What a program's socket did.
#[derive(Debug)]
struct Seen {
    nodelay: bool,
    messages: Vec<Message>,
}

/// A program that connects to us and speaks first.
fn client(stage: &Stage<'_>, program: &Program, lines: Lines<'_>) -> Result<Seen, Failure> {
    watched(stage, |lab| {
        let front = Foreign::listen(lab)?;
        let foreign = Foreign::start(program)?;
        let mut talk = Talk::new(&foreign, foreign.accept(&front)?)?;
        let mut messages = vec![talk.hear(|bytes| bytes.ends_with(lines.theirs))?];
        let nodelay = talk.nodelay()?;
        for _ in 1..lines.times {
            talk.say(lines.ours)?;
            messages.push(talk.hear(|bytes| bytes.ends_with(lines.theirs))?);
        }
        Ok(Seen { nodelay, messages })
    })
}

/// A program that listens for us and answers.
fn server(stage: &Stage<'_>, program: &Program, lines: Lines<'_>) -> Result<Seen, Failure> {
    watched(stage, |lab| {
        let foreign = Foreign::start(program)?;
        let mut talk = Talk::new(&foreign, foreign.connect(lab)?)?;
        let mut messages = Vec::new();
        for _ in 0..lines.times {
            talk.say(lines.ours)?;
            messages.push(talk.hear(|bytes| bytes.ends_with(lines.theirs))?);
        }
        Ok(Seen { nodelay: talk.nodelay()?, messages })
    })
}

/// Watches a program in a lab of its own.
fn watched<T: Send>(
    stage: &Stage<'_>,
    watch: impl FnOnce(&Lab) -> Result<T, ForeignError> + Send,
) -> Result<T, Failure> {
    stage.lab(|base| base, watch)?.map_err(|error| {
        let because = "a claim about a program is judged on what its socket did";
        Failure::plain(Kind::Play, "the program does its part", because, error.to_string())
    })
}

/// Takes an option away that a program has no switch for, so that its control has something to find.
fn without_nodelay(stage: &Stage<'_>, talk: &Talk<'_>) -> Result<(), ForeignError> {
    if stage.is_twisted() { talk.take_nodelay_away() } else { Ok(()) }
}

/// The option is set, and every message leaves as so many segments, at once.
fn sends_at_once(seen: &Seen, what: &str, segments: u32) -> Judged {
    if !seen.nodelay {
        return Err(answer("1", "0"));
    }
    if let Some(held) = seen.messages.iter().find(|message| message.held > 0) {
        let because = "with the option set a small segment waits for nothing (tcp_nagle_test)";
        let saw = format!("{} bytes held", held.held);
        return Err(Failure::plain(Kind::Held, format!("no part of a {what} is held"), because, saw));
    }
    in_segments(seen, what, segments)?;
    let leaves = if segments == 1 { "1 segment".to_owned() } else { format!("{segments} segments") };
    Ok(Evidence::says(format!("TCP_NODELAY reads 1; a {what} leaves as {leaves}, none held"), figures(seen)))
}

/// The option is not set, and the second of a message's two writes waits for our delayed ACK.
fn stalls(seen: &Seen, what: &str, second: u32) -> Judged {
    if seen.nodelay {
        return Err(answer("0", "1"));
    }
    // A program that was kept from its CPU between the two writes finds the first acknowledged: not every one stalls.
    if !seen.messages.iter().any(|message| message.stalled() && message.held == second) {
        let expected = format!("the last {second} bytes of a {what} held until the delayed ACK");
        return Err(Failure::plain(Kind::Stall, expected, "an earlier small segment is unacknowledged", figures(seen)));
    }
    in_segments(seen, what, 2)?;
    let holds = format!(
        "TCP_NODELAY reads 0; a {what} leaves as 2 segments, the last {second} bytes held until the delayed ACK"
    );
    Ok(Evidence::says(holds, figures(seen)))
}

fn in_segments(seen: &Seen, what: &str, segments: u32) -> Result<(), Failure> {
    match seen.messages.iter().find(|message| message.segments != Some(segments)) {
        None => Ok(()),
        Some(_) => {
            let expected = format!("each {what} in {segments} data segments");
            let because = "tcpi_data_segs_out less tcpi_total_retrans of the program's socket, from message to message";
            Err(Failure::plain(Kind::Segments, expected, because, figures(seen)))
        }
    }
}

fn answer(expected: &str, saw: &str) -> Failure {
    let because = "getsockopt(TCP_NODELAY) on a duplicate of the program's own socket (pidfd_getfd)";
    Failure::plain(Kind::Answer, format!("TCP_NODELAY reads {expected}"), because, format!("it reads {saw}"))
}

fn figures(seen: &Seen) -> String {
    let list = |figure: fn(&Message) -> String| seen.messages.iter().map(figure).collect::<Vec<_>>().join(" ");
    format!(
        "of {} messages: segments {}, bytes held {}, delayed ACKs {}",
        seen.messages.len(),
        list(|message| message.segments.map_or_else(|| "?".to_owned(), |segments| segments.to_string())),
        list(|message| message.held.to_string()),
        list(|message| message.delayed_acks.map_or_else(|| "?".to_owned(), |fired| fired.to_string())),
    )
}
