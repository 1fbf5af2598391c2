//! A request as a sequence in time: a lane for each side, the segments between them, and a thick lane where bytes wait.
//!
//! Rows have one height whatever time lies between them: a stall of 40 ms beside segments 10 µs apart fits no scale. A
//! silence has a row of its own that says how long it was.

use super::super::junit::escape;
use super::{Place, picture};
use crate::exchange::Side;
use crate::observation::milliseconds;
use crate::report::sequence::{Event, Row, Sequence, time};
use std::fmt::Write;

// As wide as a plot, so that its letters are as large on a small screen.
const WIDTH: f64 = 340.0;
const CLIENT: f64 = 62.0;
const SERVER: f64 = 278.0;
const MIDDLE: f64 = (CLIENT + SERVER) / 2.0;
const TOP: f64 = 26.0;
const ROW: f64 = 30.0;

/// The drawing, with every row of it in its words.
pub(super) fn svg(sequence: &Sequence, place: &Place<'_>) -> String {
    let height = TOP + ROW * (sequence.rows.len() as f64 + 1.0);
    let mut out = picture(WIDTH, height, place, &sequence.title, &words(sequence));
    for (x, name) in [(CLIENT, Side::Client), (SERVER, Side::Server)] {
        let _ = write!(out, "<text class=\"name mid\" x=\"{x}\" y=\"16\">{name}</text>");
    }
    for (row, number) in sequence.rows.iter().zip(0_u32..) {
        let y = TOP + ROW * f64::from(number);
        lanes(&mut out, row, y);
        event(&mut out, &row.event, y);
    }
    let y = TOP + ROW * sequence.rows.len() as f64;
    let _ = write!(
        out,
        "<path class=\"lane\" d=\"M{CLIENT} {y:.0}v10M{SERVER} {y:.0}v10\"/><text class=\"axis\" x=\"{}\" y=\"{:.0}\">{}</text>\
         <text class=\"first\" x=\"{}\" y=\"{:.0}\">the client has what it waited for</text></svg>",
        CLIENT - 8.0,
        y + 18.0,
        milliseconds(sequence.latency_us),
        CLIENT + 6.0,
        y + 18.0,
    );
    out
}

fn lanes(out: &mut String, row: &Row, y: f64) {
    let silent = matches!(row.event, Event::Silence { .. });
    for (side, x) in [(Side::Client, CLIENT), (Side::Server, SERVER)] {
        let class = match (row.holds[side], silent) {
            (true, _) => "lane holds",
            (false, true) => "lane silent",
            (false, false) => "lane",
        };
        let _ = write!(out, "<path class=\"{class}\" d=\"M{x} {y:.0}v{ROW}\"/>");
    }
}

fn event(out: &mut String, event: &Event, y: f64) {
    let mut text = |class: &str, x: f64, y: f64, text: &str| {
        let _ = write!(out, "<text class=\"{class}\" x=\"{x:.0}\" y=\"{y:.0}\">{}</text>", escape(text));
    };
    match event {
        Event::Held { side, at_us, label } => {
            let (lane, inside, outside) = match side {
                Side::Client => (CLIENT, ("first held", CLIENT + 8.0), ("axis", CLIENT - 8.0)),
                Side::Server => (SERVER, ("axis held", SERVER - 8.0), ("first", SERVER + 8.0)),
            };
            text(inside.0, inside.1, y + 18.0, label);
            text(outside.0, outside.1, y + 18.0, &time(*at_us));
            let _ = write!(out, "<path class=\"stalled\" d=\"M{lane} {:.0}h0\"/>", y + 14.0);
        }
        Event::Silence { lasted_us } => {
            text("name mid", MIDDLE, y + 19.0, &format!("· · ·  {}  · · ·", time(*lasted_us)));
        }
        Event::Segment { from, left_us, came_us, label } => {
            let (start, end) = match from {
                Side::Client => (CLIENT, SERVER),
                Side::Server => (SERVER, CLIENT),
            };
            let way = (end - start).signum();
            // One that was lost ends half way, in a cross.
            let (tip, drop) = if came_us.is_some() { (end - way * 4.0, 6.0) } else { (MIDDLE + way * 60.0, 3.0) };
            text("mid", MIDDLE, y + 11.0, label);
            let (left, came) = (time(*left_us), came_us.map(time).unwrap_or_default());
            let (client, server) = if *from == Side::Client { (left, came) } else { (came, left) };
            text("axis", CLIENT - 8.0, y + if *from == Side::Client { 18.0 } else { 25.0 }, &client);
            text("first", SERVER + 8.0, y + if *from == Side::Client { 25.0 } else { 18.0 }, &server);
            let (from_y, tip_y) = (y + 15.0, y + 15.0 + drop);
            let head = if came_us.is_some() {
                format!(
                    "M{:.0} {:.0}L{tip:.0} {tip_y:.0}L{:.0} {:.0}",
                    tip - way * 8.0,
                    tip_y - 4.5,
                    tip - way * 8.0,
                    tip_y + 4.0
                )
            } else {
                format!("M{:.0} {:.0}l8 8m0 -8l-8 8", tip - 4.0, tip_y - 4.0)
            };
            let class = if *from == Side::Client { "sent client" } else { "sent server" };
            let _ = write!(out, "<path class=\"{class}\" d=\"M{start:.0} {from_y:.0}L{tip:.0} {tip_y:.0}{head}\"/>");
        }
    }
}

fn words(sequence: &Sequence) -> String {
    let mut words: Vec<String> = sequence
        .rows
        .iter()
        .map(|row| match &row.event {
            Event::Held { side, at_us, label } => format!("{} the {side} {label}", time(*at_us)),
            Event::Silence { lasted_us } => format!("nothing for {}", time(*lasted_us)),
            Event::Segment { from, left_us, came_us, label } => {
                let lost = if came_us.is_none() { ", lost" } else { "" };
                format!("{} the {from} sends {label}{lost}", time(*left_us))
            }
        })
        .collect();
    words.push(format!("{} the client has what it waited for", milliseconds(sequence.latency_us)));
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Sides;

    #[test]
    fn the_words_say_what_is_drawn() {
        let row = |event| Row { event, holds: Sides { client: true, server: false } };
        let sequence = Sequence {
            request: 2,
            title: "request 2 of C: W10 W10 R20 / S: R20 W20".to_owned(),
            rows: vec![
                row(Event::Segment {
                    from: Side::Client,
                    left_us: 10,
                    came_us: Some(20),
                    label: "10 bytes".to_owned(),
                }),
                row(Event::Silence { lasted_us: 43_700 }),
                row(Event::Segment {
                    from: Side::Server,
                    left_us: 43_900,
                    came_us: None,
                    label: "ACK of 10".to_owned(),
                }),
            ],
            latency_us: 44_000,
        };
        let drawn = svg(&sequence, &Place { id: "drawing".to_owned(), column: None });
        assert!(drawn.contains("nothing for 43.7 ms; 43.9 ms the server sends ACK of 10, lost"), "{drawn}");
        assert_eq!(drawn.matches("lane holds").count(), 3);
    }
}
