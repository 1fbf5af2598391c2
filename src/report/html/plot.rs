//! Latency as dots and segments as bars: SVG with words that say the same.
//!
//! All figures have the same size, and text that is readable where a figure fills a small screen.

use super::{Place, picture};
use crate::claims::Sample;
use crate::exchange::Side;
use crate::observation::{Summary, milliseconds};
use std::fmt::Write;

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 332.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 142.0;

/// The two waits that everything here is about, with their names: the shortest delayed ACK and the smallest RTO.
const LINES: [(f64, &str); 2] = [(40_000.0, "40 ms"), (200_000.0, "200 ms")];

/// What the figures of one exchange have in common, so that columns can be compared by eye.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    requests: usize,
    least_us: f64,
    most_us: f64,
    segments: u32,
}

impl Scale {
    /// A scale that everything fits in.
    pub(super) fn of<'a>(samples: impl Iterator<Item = &'a Sample> + Clone) -> Self {
        let times = || samples.clone().flat_map(|sample| &sample.latencies_us).map(|us| (*us).max(1) as f64);
        let segments = samples
            .clone()
            .flat_map(|sample| Side::BOTH.into_iter().flat_map(|side| &sample.segments_by_request[side]))
            .filter_map(|count| *count);
        Self {
            requests: samples.clone().map(|sample| sample.latencies_us.len()).max().unwrap_or(1).max(1),
            // Whole powers of ten, and always both lines.
            least_us: times().fold(10_000.0_f64, f64::min).log10().floor(),
            most_us: times().fold(300_000.0_f64, f64::max).log10().max(5.6),
            segments: segments.max().unwrap_or(1).max(1),
        }
    }

    fn x(&self, request: usize) -> f64 {
        LEFT + (request as f64 - 0.5) / self.requests as f64 * (RIGHT - LEFT)
    }

    fn y(&self, us: f64) -> f64 {
        BOTTOM - (us.max(1.0).log10() - self.least_us) / (self.most_us - self.least_us) * (BOTTOM - TOP)
    }
}

/// Latency of every request on a logarithmic scale, with the lines of the two waits.
pub(super) fn dots(sample: &Sample, scale: &Scale, place: &Place<'_>) -> String {
    let latency = Summary::of(sample.latencies_us.iter().copied()).map(|latency| latency.to_string());
    let words = format!(
        "{} requests on a logarithmic scale: {}; {} stalled, {}",
        sample.latencies_us.len(),
        latency.unwrap_or_default(),
        sample.verdict.stalled.len(),
        sample.verdict,
    );
    let mut out = picture(WIDTH, HEIGHT, place, format_args!("Latency by request of {}", sample.exchange), &words);
    let mut decade = scale.least_us;
    while decade <= scale.most_us {
        let us = 10_f64.powf(decade);
        // Between the two lines there is no room for its name.
        let between = LINES[0].0 < us && us < LINES[1].0;
        grid(&mut out, scale.y(us), &if between { String::new() } else { axis(us) });
        decade += 1.0;
    }
    for (us, name) in LINES {
        let y = scale.y(us);
        let _ = write!(out, "<path class=\"line\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
        aside(&mut out, "name", y, name);
    }
    let stalled = |request: usize| sample.verdict.stalled.iter().any(|number| *number as usize == request);
    for (class, wanted) in [("fast", false), ("stalled", true)] {
        // One path of points with round ends, however many requests there are.
        let mut path = String::new();
        for (request, us) in (1..).zip(&sample.latencies_us).filter(|(request, _)| stalled(*request) == wanted) {
            let _ = write!(path, "M{:.1} {:.1}h0", scale.x(request), scale.y(*us as f64));
        }
        if !path.is_empty() {
            let _ = write!(out, "<path class=\"{class}\" d=\"{path}\"/>");
        }
    }
    foot(&mut out, scale);
    out + "</svg>"
}

/// Data segments of every request: the client's above the middle, the server's below. `None` where the kernel does not
/// count them.
pub(super) fn bars(sample: &Sample, scale: &Scale, place: &Place<'_>) -> Option<String> {
    let counted = Side::BOTH.into_iter().any(|side| sample.segments_by_request[side].iter().any(Option::is_some));
    if !counted {
        return None;
    }
    let name = format_args!("Data segments by request of {}", sample.exchange);
    let mut out = picture(WIDTH, HEIGHT, place, name, &segments_in_words(sample));
    let middle = f64::midpoint(TOP, BOTTOM);
    let unit = (BOTTOM - TOP) / 2.0 / f64::from(scale.segments);
    let width = ((RIGHT - LEFT) / scale.requests as f64 * 0.7).clamp(0.5, 24.0);
    for count in [scale.segments, 0] {
        let height = f64::from(count) * unit;
        grid(&mut out, middle - height, &count.to_string());
        if count > 0 {
            grid(&mut out, middle + height, &count.to_string());
        }
    }
    for (side, class, up) in [(Side::Client, "client", true), (Side::Server, "server", false)] {
        let mut path = String::new();
        for (request, count) in (1..).zip(&sample.segments_by_request[side]) {
            let height = f64::from(count.unwrap_or(0)) * unit;
            if height > 0.0 {
                let x = scale.x(request) - width / 2.0;
                let height = if up { -height } else { height };
                let _ = write!(path, "M{x:.1} {middle:.1}v{height:.1}h{width:.1}v{:.1}z", -height);
            }
        }
        let _ = write!(out, "<path class=\"bar {class}\" d=\"{path}\"/>");
        let half = (BOTTOM - TOP) / 4.0;
        aside(&mut out, "name", if up { middle - half } else { middle + half }, class);
    }
    foot(&mut out, scale);
    Some(out + "</svg>")
}

/// The bars in words: `client 2 in each, server 1 in each`.
pub(super) fn segments_in_words(sample: &Sample) -> String {
    let side = |side: Side| {
        let counts: Vec<u32> = sample.segments_by_request[side].iter().filter_map(|count| *count).collect();
        let (least, most) = (counts.iter().min()?, counts.iter().max()?);
        let counts = if least == most { format!("{least} in each") } else { format!("{least} to {most}") };
        Some(format!("{side} {counts}"))
    };
    Side::BOTH.into_iter().filter_map(side).collect::<Vec<_>>().join(", ")
}

fn grid(out: &mut String, y: f64, name: &str) {
    let _ = write!(out, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
    if !name.is_empty() {
        aside(out, "axis", y, name);
    }
}

/// Text left of the picture, where no dot or bar can lie under it.
fn aside(out: &mut String, class: &str, y: f64, text: &str) {
    let _ = write!(out, "<text class=\"{class}\" x=\"{}\" y=\"{:.1}\">{text}</text>", LEFT - 6.0, y + 4.0);
}

fn foot(out: &mut String, scale: &Scale) {
    let _ = write!(out, "<text class=\"first\" x=\"{LEFT}\" y=\"160\">request 1</text>");
    if scale.requests > 1 {
        let _ = write!(out, "<text class=\"axis\" x=\"{RIGHT}\" y=\"160\">{}</text>", scale.requests);
    }
}

fn axis(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us:.0} µs"),
        us if us < 1_000_000.0 => format!("{:.0} ms", us / 1_000.0),
        us => milliseconds(us as u64),
    }
}
