//! `smallwrites kernel`: the probed facts.

use super::{Status, Trouble, output};
use smallwrites::kernel::Kernel;
use smallwrites::lab::{self, Conditions};
use smallwrites::observation::milliseconds;
use smallwrites::report::Format;
use std::fmt::Write;

/// Prints the facts.
pub(super) fn run(format: Format) -> Result<Status, Trouble> {
    let kernel = Kernel::probe().map_err(|error| Trouble::Machine(format!("cannot probe this kernel: {error}")))?;
    let labs = lab::available();
    if format == Format::Json {
        let text = serde_json::to_string_pretty(&kernel).unwrap_or_default();
        return output::print(&(text + "\n"));
    }
    let mut out = String::new();
    let unknown = || "unknown".to_owned();
    let switch = |fact: Option<bool>| fact.map_or_else(unknown, |on| if on { "on" } else { "off" }.to_owned());
    let rows = [
        ("kernel", kernel.release.clone()),
        ("jiffy", format!("{} (HZ {})", milliseconds(kernel.jiffy_us), 1_000_000 / kernel.jiffy_us.max(1))),
        ("shortest delayed ACK", milliseconds(u64::try_from(kernel.delayed_ack().as_micros()).unwrap_or(u64::MAX))),
        (
            "pingpong threshold",
            kernel.pingpong_threshold.map_or_else(|| "a constant of the kernel".to_owned(), |n| n.to_string()),
        ),
        (
            "TCP_DELACK_MAX_US",
            kernel.delack_max_us.map_or_else(|| "no such option".to_owned(), |us| milliseconds(us.into())),
        ),
        ("smallest RTO", kernel.rto_min_us.map_or_else(|| "a constant of the kernel".to_owned(), milliseconds)),
        ("tail loss probe", switch(kernel.loss_probe)),
        ("autocorking", switch(kernel.autocorking)),
        ("deferred ACKs", switch(kernel.backlog_ack_defer)),
        ("congestion control", kernel.congestion_control.clone().unwrap_or_else(unknown)),
        ("struct tcp_info", format!("{} bytes", kernel.tcp_info_bytes)),
        ("private namespaces", labs.map_or_else(|error| error.to_string(), |()| "available".to_owned())),
    ];
    for (name, value) in rows {
        let _ = writeln!(out, "{name:<22}{value}");
    }
    let changed = changed(&kernel);
    if !changed.is_empty() {
        let _ = writeln!(out, "\nnet.ipv4.tcp_* settings that differ from a fresh namespace's:");
        for (name, here, fresh) in changed {
            let _ = writeln!(out, "  {name} = {here} ({fresh})");
        }
    }
    output::print(&out)
}

/// Settings that differ between the process's namespace and a new one, whose values the kernel compiled in.
fn changed(kernel: &Kernel) -> Vec<(String, String, String)> {
    let pinned = |name: &str| lab::PINS.iter().any(|(pin, _)| *pin == name);
    let Ok(fresh) = Conditions::default().run(|lab| lab.kernel().sysctls.clone()) else { return Vec::new() };
    let differs = kernel.sysctls.iter().filter_map(|(name, here)| {
        let fresh = fresh.get(name)?;
        (fresh != here && !pinned(name)).then(|| (name.clone(), here.clone(), fresh.clone()))
    });
    differs.collect()
}
