//! One request as a sequence in time: two lanes, the segments between them, and the bytes that a socket held meanwhile.
//!
//! [`Sequence::of`] lays it out and knows nothing of characters; its `Display` draws it for a terminal.

use crate::exchange::{Side, Sides};
use crate::observation::{Frame, Hold, Observation, Rule, Socket, Story, milliseconds, release};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A time in which nothing was on its way is shown from this length on, microseconds.
const SILENCE_US: i64 = 1_000;

/// One request, laid out in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// The request; the first is 1.
    pub request: u32,
    /// What was played and where.
    pub title: String,
    /// What happened, in order.
    pub rows: Vec<Row>,
    /// From the request's start to the end of the client's script, microseconds.
    pub latency_us: u64,
}

/// Something that happened, with the bytes that each side's socket held afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// What.
    pub event: Event,
    /// Whether each side's socket holds bytes.
    pub holds: Sides<bool>,
}

/// Something that happened. Times are microseconds from the request's start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A write left bytes in the socket.
    Held {
        /// Whose.
        side: Side,
        /// When the call returned.
        at_us: i64,
        /// What it says.
        label: String,
    },
    /// A segment.
    Segment {
        /// Who sent it.
        from: Side,
        /// When it left.
        left_us: i64,
        /// When it came; `None` for one that was lost.
        came_us: Option<i64>,
        /// What it says.
        label: String,
    },
    /// Nothing was on its way.
    Silence {
        /// How long.
        lasted_us: i64,
    },
}

impl Sequence {
    /// Lays out one request, the first being 1; of a relay's two connections the one that held bytes.
    ///
    /// `None` where there was no capture, or no such request.
    #[must_use]
    pub fn of(seen: &Observation, number: u32) -> Option<Self> {
        let request = seen.requests.iter().find(|request| request.number == number)?;
        let start = i64::try_from(request.at_us).ok()?;
        let all = seen.frames.as_ref()?;
        let stories = seen.stories(number);
        let range = all.range_of(number);
        let connection =
            stories.first().map_or_else(|| all[range.clone()].first(), |story| all.get(story.header))?.connection;
        let mut labels = Labels::new(&all[range.clone()], connection);
        let mut events = Vec::new();
        for i in range.filter(|i| all[*i].connection == connection) {
            let frame = &all[i];
            events.push(Event::Segment {
                from: frame.from,
                left_us: frame.at_us - start,
                came_us: frame.there_us().map(|there| there - start),
                label: labels.label(frame, &stories, i),
            });
        }
        let shown =
            |socket: Socket| seen.exchange.relay.is_none() || stories.iter().any(|story| story.hold.socket == socket);
        for write in request.writes.iter().filter(|write| shown(write.socket)) {
            let Some(held) = write.held.filter(|held| *held > 0) else { continue };
            let rule = request.holds.iter().rev().find(|hold| hold.socket == write.socket && hold.at_us <= write.at_us);
            let rule = rule.map_or(String::new(), |hold| format!(" ({})", hold.rule.words()));
            events.push(Event::Held {
                side: write.socket.side(),
                at_us: write.at_us - start,
                label: format!("writes {}: {held} held{rule}", write.bytes),
            });
        }
        let full = |hold: &&Hold| hold.rule == Rule::SendBuffer && shown(hold.socket);
        events.extend(request.holds.iter().filter(full).map(|hold| Event::Held {
            side: hold.socket.side(),
            at_us: hold.at_us - start,
            label: format!("{} ({})", hold.kept(), hold.rule.words()),
        }));
        events.sort_by_key(Event::at_us);
        let delays = seen.wire.as_ref().map(|wire| Side::BOTH.map(|side| milliseconds(wire[side].asked_us)));
        let path = match delays {
            Some([there, back]) if there == back => format!("a wire of {there} each way"),
            Some([there, back]) => format!("a wire of {there} there and {back} back"),
            None => seen.environment.place.clone(),
        };
        let title = format!("request {number} of {}, {path}", seen.exchange);
        let rows = rows(events, &holding(all, &stories, start));
        Some(Self { request: number, title, rows, latency_us: request.latency_us })
    }
}

impl Event {
    /// When it began; silences are put in afterwards.
    fn at_us(&self) -> i64 {
        match self {
            Self::Held { at_us, .. } => *at_us,
            Self::Segment { left_us, .. } => *left_us,
            Self::Silence { .. } => 0,
        }
    }
}

/// From when to when each side's socket held bytes.
fn holding(frames: &[Frame], stories: &[Story], start: i64) -> Vec<(Side, i64, i64)> {
    let span = |story: &Story| (story.hold.socket.side(), story.hold.at_us - start, frames[story.body].at_us - start);
    stories.iter().map(span).collect()
}

fn rows(events: Vec<Event>, holding: &[(Side, i64, i64)]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut quiet_from: Option<i64> = None;
    for event in events {
        let at = event.at_us();
        let holds = Sides::from_fn(|side| holding.iter().any(|(of, from, to)| *of == side && *from <= at && at < *to));
        if let Some(lasted_us) = quiet_from.map(|from| at - from).filter(|lasted| *lasted >= SILENCE_US) {
            let before = rows.last().map_or(holds, |row: &Row| row.holds);
            rows.push(Row { event: Event::Silence { lasted_us }, holds: before });
        }
        let end = match &event {
            Event::Segment { left_us, came_us, .. } => came_us.unwrap_or(*left_us),
            event => event.at_us(),
        };
        quiet_from = Some(quiet_from.map_or(end, |from| from.max(end)));
        rows.push(Row { event, holds });
    }
    rows
}

/// Says what a segment is, counting bytes from the request's start.
struct Labels {
    first: Sides<u32>,
    sent: Sides<u32>,
}

impl Labels {
    fn new(frames: &[Frame], connection: u32) -> Self {
        let of = |side: Side| move |frame: &&Frame| frame.connection == connection && frame.from == side;
        let own = |side: Side| frames.iter().find(of(side)).map(|frame| frame.seq);
        let acked = |side: Side| frames.iter().find(of(side.peer())).and_then(|frame| frame.ack);
        // Whoever spoke first says where both stand.
        let first = Sides::from_fn(|side| match (own(side), acked(side)) {
            (Some(own), Some(acked)) => own.min(acked),
            (own, acked) => own.or(acked).unwrap_or(0),
        });
        Self { first, sent: first }
    }

    fn label(&mut self, frame: &Frame, stories: &[Story], i: usize) -> String {
        let from = frame.from;
        let mut label = if frame.payload > 0 {
            let again = if frame.seq < self.sent[from] { "again " } else { "" };
            format!("{again}{} bytes", frame.payload)
        } else if frame.flags.syn {
            "SYN".to_owned()
        } else if frame.flags.rst {
            "RST".to_owned()
        } else if frame.flags.fin {
            "FIN".to_owned()
        } else {
            let acked = frame.ack.unwrap_or(0).saturating_sub(self.first[from.peer()]);
            format!("ACK of {acked}")
        };
        if frame.flags.psh {
            label.push_str(", PSH");
        }
        if let Some(story) = stories.iter().find(|story| story.releaser == Some(i)) {
            label.push_str(&format!(" ({})", release(story.hold.released_by)));
        }
        self.sent[from] = self.sent[from].max(frame.end());
        label
    }
}

/// Columns between the lanes.
const WIDTH: usize = 46;

/// Columns of a time.
const TIME: usize = 9;

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        writeln!(f, "{:>TIME$}  {:WIDTH$}  server", "client", "")?;
        for row in &self.rows {
            let (left, between, right) = drawn(&row.event);
            let lane = |side| if row.holds[side] { '┃' } else { '│' };
            let line = format!("{left:>TIME$} {}{between}{} {right}", lane(Side::Client), lane(Side::Server),);
            writeln!(f, "{}", line.trim_end())?;
        }
        writeln!(f, "{:>TIME$} the client has what it waited for", milliseconds(self.latency_us))
    }
}

/// The client's time, what stands between the lanes, and the server's time.
fn drawn(event: &Event) -> (String, String, String) {
    let none = String::new;
    match event {
        Event::Held { side: Side::Client, at_us, label } => {
            (time(*at_us), format!("{:<WIDTH$}", format!(" {label}")), none())
        }
        Event::Held { side: Side::Server, at_us, label } => {
            (none(), format!("{:>WIDTH$}", format!("{label} ")), time(*at_us))
        }
        Event::Silence { lasted_us } => {
            (none(), format!("{:^WIDTH$}", format!("· · ·  {}  · · ·", time(*lasted_us))), none())
        }
        Event::Segment { from, left_us, came_us, label } => {
            const LINE: usize = WIDTH - 3;
            let text = format!(" {label} ");
            let (left, came) = (time(*left_us), came_us.map(time).unwrap_or_default());
            let head = |arrow| if came_us.is_some() { arrow } else { "✗" };
            match from {
                Side::Client => (left, format!("──{text:─<LINE$}{}", head("▶")), came),
                Side::Server => (came, format!("{}{text:─>LINE$}──", head("◀")), left),
            }
        }
    }
}

/// A time from the request's start, which what came before it precedes.
pub(super) fn time(us: i64) -> String {
    let text = milliseconds(us.unsigned_abs());
    if us < 0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::story_tests::observation;

    #[test]
    fn a_stalled_request_is_drawn() {
        let drawn = Sequence::of(&observation(), 1).unwrap().to_string();
        insta::assert_snapshot!(drawn, @r"
        request 1 of C: W10 W10 R20 / S: R20 W20, wire
           client                                                  server
          0.01 ms │── 10 bytes, PSH ────────────────────────────▶│ 10.1 ms
          0.06 ms ┃ writes 10: 10 held (Nagle)                   │
                  ┃            · · ·  43.7 ms  · · ·             │
          63.9 ms ┃◀────────────────── ACK of 10 (delayed ACK) ──│ 53.8 ms
          63.9 ms │── 10 bytes, PSH ────────────────────────────▶│ 73.9 ms
          84.0 ms │◀──────────────────────────────── ACK of 20 ──│ 73.9 ms
          84.0 ms │◀──────────────────────────── 20 bytes, PSH ──│ 74.0 ms
          84.1 ms the client has what it waited for
        ");
        assert!(Sequence::of(&observation(), 2).is_none());
    }

    #[test]
    fn without_a_capture_there_is_no_sequence() {
        let seen = Observation { frames: None, ..observation() };
        assert_eq!(Sequence::of(&seen, 1), None);
    }
}
