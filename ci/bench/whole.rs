//! The whole catalogue: its wall time beside its longest claim's, and its memory.

use crate::Ratio;
use smallwrites::claims::{self, Setting};
use std::time::Instant;

/// Seconds that the whole catalogue may take.
const WALL_LIMIT_S: f64 = 8.0;

/// Peak memory, MiB.
const MEMORY_LIMIT_MIB: f64 = 64.0;

pub(crate) fn run() -> Vec<Ratio> {
    let Ok(setting) = Setting::probe() else { return Vec::new() };
    let started = Instant::now();
    let outcomes = claims::run(&claims::catalogue(), &setting, |_| {});
    let wall = started.elapsed().as_secs_f64();
    let apart: f64 = outcomes.iter().map(|outcome| outcome.took.as_secs_f64()).sum();
    let longest = outcomes.iter().map(|outcome| outcome.took.as_secs_f64()).fold(0.0, f64::max);
    let bound = 1.5 * longest + 2.0;
    let memory = peak_mib().unwrap_or(f64::NAN);
    vec![
        Ratio {
            name: "catalogue, wall",
            measured: (format!("{wall:.2} s side by side"), wall),
            beside: (format!("{WALL_LIMIT_S} s allowed ({apart:.0} s one by one)"), WALL_LIMIT_S),
            limit: 1.0,
        },
        Ratio {
            name: "catalogue, longest claim",
            measured: (format!("{wall:.2} s side by side"), wall),
            beside: (format!("{bound:.2} s: 1.5 × {longest:.2} s + 2 s"), bound),
            limit: 1.0,
        },
        Ratio {
            name: "catalogue, peak memory",
            measured: (format!("{memory:.1} MiB"), memory),
            beside: (format!("{MEMORY_LIMIT_MIB} MiB allowed"), MEMORY_LIMIT_MIB),
            limit: 1.0,
        },
    ]
}

/// The most memory that this process has had at once (proc(5), `VmHWM`).
fn peak_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1024.0)
}
