//! The settings that a run gives each of its labs: the host's, and what the user wants instead.
//!
//! A private namespace starts with the values that the kernel compiled in, so a run that is to say something about
//! the host has to carry the host's `net.ipv4.tcp_*` values in. The host itself is only read.

use super::conditions::in_thread;
use super::setup::setting;
use super::{LabError, PINS};
use crate::kernel::Kernel;
use crate::sys::{counters, device, namespace};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Where the settings of a run come from, and which they are; the default is the kernel's own defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings {
    changed: Vec<Changed>,
}

/// A setting that a run gives its labs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// The sysctl, dotted.
    pub name: String,
    /// Its value in the labs.
    pub value: String,
    /// Its value in a fresh namespace, as compiled into the kernel.
    pub default: Option<String>,
    /// Who wants it.
    pub origin: Origin,
    /// Why a lab could not be given it, where it could not.
    pub refused: Option<String>,
}

/// Who wants a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The host has it.
    Host,
    /// The user asked for it.
    Override,
}

impl Settings {
    /// The `net.ipv4.tcp_*` values of the calling thread's namespace, as far as they differ from a fresh namespace's.
    ///
    /// A setting that a namespace does not have is the whole host's and holds in labs anyway. One that cannot be
    /// written there is kept, with the reason.
    ///
    /// # Errors
    ///
    /// Where no private namespace can be had, so that the defaults cannot be read.
    ///
    /// ```no_run
    /// use smallwrites::lab::{self, Settings};
    ///
    /// lab::enter()?;
    /// for setting in Settings::of_host()?.changed() {
    ///     println!("{setting}"); // net.ipv4.tcp_autocorking=0 (default 1)
    /// }
    /// # Ok::<(), lab::LabError>(())
    /// ```
    pub fn of_host() -> Result<Self, LabError> {
        // Without /proc there is nothing to take over.
        let host = counters::tcp_sysctls().unwrap_or_default();
        fresh(|| {
            let compiled = counters::tcp_sysctls().unwrap_or_default();
            let mut changed = Vec::new();
            for (name, value) in host {
                let Some(default) = compiled.get(&name).filter(|default| **default != value) else { continue };
                if is_read_only(&name) {
                    continue;
                }
                let refused = counters::set_sysctl(&name, &value).err().map(|error| error.to_string());
                changed.push(Changed { name, value, default: Some(default.clone()), origin: Origin::Host, refused });
            }
            Ok(Self { changed })
        })
    }

    /// The same with the user's settings, which win over the host's and over [`PINS`]. Each is tried in a namespace
    /// that is thrown away.
    ///
    /// # Errors
    ///
    /// Where the kernel has no such setting or refuses the value.
    ///
    /// ```no_run
    /// use smallwrites::lab::{self, Settings};
    ///
    /// lab::enter()?;
    /// let settings = Settings::default().with([("net.ipv4.tcp_autocorking", "0")])?;
    /// assert_eq!(settings.changed()[0].default.as_deref(), Some("1"));
    /// # Ok::<(), lab::LabError>(())
    /// ```
    pub fn with<N, V>(mut self, overrides: impl IntoIterator<Item = (N, V)>) -> Result<Self, LabError>
    where
        N: Into<String>,
        V: Into<String>,
    {
        let wanted: Vec<(String, String)> =
            overrides.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        if wanted.is_empty() {
            return Ok(self);
        }
        let tried = fresh(|| {
            let mut defaults = BTreeMap::new();
            for (name, _) in &wanted {
                // The first look is at the default, whatever is written under the name afterwards.
                defaults.entry(name.clone()).or_insert_with(|| counters::sysctl(name).ok());
            }
            let tried = wanted.into_iter().map(|(name, value)| {
                counters::set_sysctl(&name, &value).map_err(|source| setting(&name, &value, source))?;
                // The kernel's own way of writing it, and what it made of it.
                let value = counters::sysctl(&name).unwrap_or(value);
                let default = defaults.get(&name).cloned().flatten();
                Ok(Changed { name, value, default, origin: Origin::Override, refused: None })
            });
            tried.collect::<Result<Vec<_>, LabError>>()
        })?;
        for new in tried {
            self.changed.retain(|old| old.name != new.name);
            self.changed.push(new);
        }
        self.changed.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(self)
    }

    /// Every setting, by name.
    #[must_use]
    pub fn changed(&self) -> &[Changed] {
        &self.changed
    }

    /// Whether the labs run under the kernel's defaults.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }

    /// The same without those that make no difference in a lab: refused, pinned over, or equal to the default.
    #[must_use]
    pub fn effective(&self) -> Vec<&Changed> {
        let acts = |setting: &&Changed| {
            setting.refused.is_none() && !setting.is_pinned() && setting.default.as_ref() != Some(&setting.value)
        };
        self.changed.iter().filter(acts).collect()
    }

    /// Only the setting of this name.
    #[must_use]
    pub fn only(&self, name: &str) -> Self {
        Self { changed: self.changed.iter().filter(|setting| setting.name == name).cloned().collect() }
    }

    /// The kernel's facts under these settings, nothing pinned.
    ///
    /// # Errors
    ///
    /// Where no private namespace can be had, or a setting is refused.
    pub fn kernel(&self) -> Result<Kernel, LabError> {
        fresh(|| {
            self.apply()?;
            Kernel::probe().map_err(|source| LabError::Step { doing: "probe the kernel under the settings", source })
        })
    }

    /// Whether the user wants this one.
    pub(super) fn overrides(&self, name: &str) -> bool {
        self.changed.iter().any(|setting| setting.name == name && setting.origin == Origin::Override)
    }

    /// Sets them in the thread's namespace, the host's before the user's, and says which.
    pub(super) fn apply(&self) -> Result<BTreeMap<String, String>, LabError> {
        let mut set = BTreeMap::new();
        for origin in [Origin::Host, Origin::Override] {
            for Changed { name, value, .. } in
                self.changed.iter().filter(|setting| setting.origin == origin && setting.refused.is_none())
            {
                counters::set_sysctl(name, value).map_err(|source| setting(name, value, source))?;
                set.insert(name.clone(), value.clone());
            }
        }
        Ok(set)
    }
}

impl Changed {
    /// Whether every lab pins it to something else.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.origin == Origin::Host && PINS.iter().any(|(name, _)| *name == self.name)
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)?;
        match &self.default {
            Some(default) if *default == self.value => write!(f, " (the default)")?,
            Some(default) => write!(f, " (default {default})")?,
            None => {}
        }
        if self.origin == Origin::Override {
            write!(f, ", as asked")?;
        }
        if self.is_pinned() {
            write!(f, ", pinned otherwise in labs")?;
        }
        match &self.refused {
            Some(reason) => write!(f, ", not taken over: {reason}"),
            None => Ok(()),
        }
    }
}

/// Works in a thread of its own in a namespace of its own, the loopback up and nothing else touched.
fn fresh<T: Send>(work: impl FnOnce() -> Result<T, LabError> + Send) -> Result<T, LabError> {
    in_thread(|| {
        namespace::enter_network_namespace().map_err(LabError::Refused)?;
        device::index_of("lo")
            .and_then(device::set_up)
            .map_err(|source| LabError::Step { doing: "bring the loopback up", source })?;
        work()
    })
}

/// Whether nobody could write it, as what the kernel only reports: `tcp_ehash_entries`.
fn is_read_only(name: &str) -> bool {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    let mode = fs::metadata(path).map(|entry| entry.permissions().mode());
    mode.unwrap_or(0) & 0o222 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(name: &str, value: &str, default: Option<&str>, origin: Origin) -> Changed {
        Changed {
            name: name.to_owned(),
            value: value.to_owned(),
            default: default.map(str::to_owned),
            origin,
            refused: None,
        }
    }

    #[test]
    fn a_setting_is_shown_with_its_default_and_who_wants_it() {
        let host = changed("net.ipv4.tcp_autocorking", "0", Some("1"), Origin::Host);
        assert_eq!(host.to_string(), "net.ipv4.tcp_autocorking=0 (default 1)");
        let asked = Changed { origin: Origin::Override, ..host };
        assert_eq!(asked.to_string(), "net.ipv4.tcp_autocorking=0 (default 1), as asked");
        let refused = Changed { refused: Some("Operation not permitted".to_owned()), origin: Origin::Host, ..asked };
        assert!(refused.to_string().ends_with("not taken over: Operation not permitted"));
    }

    #[test]
    fn only_what_acts_in_a_lab_can_be_to_blame() {
        let settings = Settings {
            changed: vec![
                changed("net.ipv4.tcp_autocorking", "0", Some("1"), Origin::Host),
                changed("net.ipv4.tcp_early_retrans", "4", Some("3"), Origin::Host),
                changed("net.ipv4.tcp_sack", "1", Some("1"), Origin::Override),
                Changed {
                    refused: Some("refused".to_owned()),
                    ..changed("net.ipv4.tcp_x", "1", Some("2"), Origin::Host)
                },
            ],
        };
        let names: Vec<_> = settings.effective().into_iter().map(|setting| setting.name.as_str()).collect();
        assert_eq!(names, ["net.ipv4.tcp_autocorking"]);
        assert_eq!(settings.only("net.ipv4.tcp_sack").changed().len(), 1);
    }

    #[test]
    fn an_override_of_a_pinned_setting_is_no_longer_pinned() {
        assert!(changed("net.ipv4.tcp_early_retrans", "4", None, Origin::Host).is_pinned());
        assert!(!changed("net.ipv4.tcp_early_retrans", "4", None, Origin::Override).is_pinned());
    }
}
