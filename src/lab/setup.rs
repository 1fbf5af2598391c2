//! Making the namespaces of a lab and everything in them.

use super::wire::{Wire, WireSpec};
use super::{Conditions, LabError, Origin, PINS, forwarder, loopback};
use crate::sys::device::{self, RouteMetrics};
use crate::sys::{counters, namespace, veth};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

/// Moves the thread into a namespace of its own and sets it up; says what was pinned.
pub(super) fn open_private(conditions: &Conditions) -> Result<BTreeMap<String, String>, LabError> {
    enter_namespace()?;
    let mut pinned = prepare(conditions)?;
    if let Some(mtu) = conditions.mtu {
        let set = device::index_of("lo").and_then(|index| device::set_mtu(index, mtu));
        set.map_err(|source| setting("the loopback's MTU", &mtu.to_string(), source))?;
        pinned.insert("lo mtu".to_owned(), mtu.to_string());
    }
    if let Some(metrics) = metrics(conditions, &mut pinned) {
        device::replace_local_route(loopback(conditions.family), &metrics)
            .map_err(|source| setting("the local route's metrics", &format!("{metrics:?}"), source))?;
    }
    if conditions.quickack_subnet {
        let metrics = RouteMetrics { quickack: true, ..RouteMetrics::default() };
        device::replace_loopback_subnet(&metrics)
            .map_err(|source| setting("the metrics of the local route to 127.0.0.0/8", "quickack 1", source))?;
        pinned.insert("route 127.0.0.0/8 quickack".to_owned(), "1".to_owned());
    }
    shape("lo", conditions, &mut pinned)?;
    Ok(pinned)
}

/// The same for two namespaces with a wire between them.
pub(super) fn open_wire(
    conditions: &Conditions,
    spec: &WireSpec,
) -> Result<(BTreeMap<String, String>, Wire), LabError> {
    let mut pinned = BTreeMap::new();
    let wire = Wire::open(spec, conditions.family, || {
        pinned = prepare(conditions)?;
        Ok(())
    })?;
    wire.spec().describe(&mut pinned);
    if let Some(mtu) = conditions.mtu {
        wire.set_mtu(mtu).map_err(|source| setting("the wire's MTU", &mtu.to_string(), source))?;
        pinned.insert("wire mtu".to_owned(), mtu.to_string());
    }
    if let Some(metrics) = metrics(conditions, &mut pinned) {
        wire.set_metrics(conditions.family, &metrics)
            .map_err(|source| setting("the metrics of the wire's routes", &format!("{metrics:?}"), source))?;
    }
    shape(forwarder::DEVICE, conditions, &mut pinned)?;
    Ok((pinned, wire))
}

/// Puts the token bucket on a device of the thread's namespace, if there is to be one.
fn shape(name: &str, conditions: &Conditions, pinned: &mut BTreeMap<String, String>) -> Result<(), LabError> {
    if let Some(bucket) = conditions.shaping {
        let said = format!("{} B/s, burst {} B, limit {} B", bucket.rate, bucket.burst, bucket.limit);
        // The bucket drops what is longer than itself, again and again.
        let longest = conditions.mtu.unwrap_or(if conditions.wire.is_some() { 1_500 } else { 65_536 }) + 14;
        if bucket.burst < longest {
            let why = format!("a frame may have {longest} bytes; raise the burst or set a smaller MTU");
            return Err(setting("a token bucket", &said, io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let shaped = device::index_of(name).and_then(|index| veth::shape(index, bucket));
        shaped.map_err(|source| setting("a token bucket", &said, source))?;
        pinned.insert(format!("{name} tbf"), said);
    }
    if conditions.mptcp {
        pinned.insert("protocol".to_owned(), "MPTCP".to_owned());
    }
    Ok(())
}

/// Moves the thread into a new network namespace.
pub(super) fn enter_namespace() -> Result<OwnedFd, LabError> {
    namespace::enter_network_namespace().map_err(|source| match namespace::thread_count() {
        Ok(count) if !namespace::may_unshare_network() && count > 2 => LabError::Threads(count - 1),
        _ => LabError::Refused(source),
    })
}

/// Brings up the loopback of the thread's namespace and sets its sysctls; says which.
fn prepare(conditions: &Conditions) -> Result<BTreeMap<String, String>, LabError> {
    device::index_of("lo")
        .and_then(device::set_up)
        .map_err(|source| LabError::Step { doing: "bring the loopback up", source })?;
    let mut pinned = conditions.settings.apply()?;
    for (name, value) in PINS {
        // A kernel without the setting has nothing to pin, and what the user asked for is what is measured.
        if !conditions.settings.overrides(name) && counters::sysctl(name).is_ok() {
            counters::set_sysctl(name, value).map_err(|source| setting(name, value, source))?;
            pinned.insert(name.to_owned(), value.to_owned());
        }
    }
    for (name, value) in &conditions.sysctls {
        counters::set_sysctl(name, value).map_err(|source| setting(name, value, source))?;
        pinned.insert(name.clone(), value.clone());
    }
    Ok(pinned)
}

/// What the routes are to say, if anything.
fn metrics(conditions: &Conditions, pinned: &mut BTreeMap<String, String>) -> Option<RouteMetrics> {
    let metrics = RouteMetrics {
        quickack: conditions.quickack_route,
        rto_min_ms: conditions.rto_min_ms,
        initcwnd: conditions.initcwnd,
    };
    if metrics.quickack {
        pinned.insert("route quickack".to_owned(), "1".to_owned());
    }
    if let Some(ms) = metrics.rto_min_ms {
        pinned.insert("route rto_min".to_owned(), format!("{ms}ms"));
    }
    if let Some(segments) = metrics.initcwnd {
        pinned.insert("route initcwnd".to_owned(), segments.to_string());
    }
    (metrics != RouteMetrics::default()).then_some(metrics)
}

/// The shared loopback takes no settings.
pub(super) fn refuse_settings(conditions: &Conditions) -> Result<BTreeMap<String, String>, LabError> {
    if !conditions.sysctls.is_empty() || conditions.settings.changed().iter().any(|one| one.origin == Origin::Override)
    {
        return Err(LabError::Shared("a sysctl of the lab's own"));
    }
    if conditions.mtu.is_some() {
        return Err(LabError::Shared("another MTU"));
    }
    if metrics(conditions, &mut BTreeMap::new()).is_some() || conditions.quickack_subnet {
        return Err(LabError::Shared("a route of the lab's own"));
    }
    if conditions.shaping.is_some() {
        return Err(LabError::Shared("a token bucket"));
    }
    if conditions.wire.is_some() {
        return Err(LabError::Shared("a wire"));
    }
    Ok(BTreeMap::new())
}

/// What a refused setting comes to.
pub(super) fn setting(name: &str, value: &str, source: io::Error) -> LabError {
    LabError::Setting { name: name.to_owned(), value: value.to_owned(), source }
}
