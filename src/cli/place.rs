//! Where claims are checked, as the arguments want it.

use super::{Trouble, output};
use smallwrites::claims::Setting;
use smallwrites::lab::{LabError, Settings};

/// Private labs under the host's settings or the defaults, with what the user wants instead; the shared loopback where
/// namespaces are refused and nothing was asked that needs them, which is said unless `quiet`.
pub(super) fn probe(
    shared: bool,
    defaults: bool,
    sysctls: &[(String, String)],
    quiet: bool,
    entered: Result<(), LabError>,
) -> Result<Setting, Trouble> {
    let unknown = |error| Trouble::Machine(format!("cannot probe this kernel: {error}"));
    if shared {
        return Setting::shared().map_err(unknown);
    }
    if defaults || !sysctls.is_empty() {
        let base = if defaults { Ok(Settings::default()) } else { Settings::of_host() };
        return base.and_then(|base| base.with(sysctls.iter().cloned())).and_then(Setting::under).map_err(|error| {
            match error {
                // A name that the kernel does not have, or a value that it does not take.
                LabError::Setting { .. } => Trouble::Usage(error.to_string()),
                // Why the process could not enter says more than that a lab then could not be had.
                other => Trouble::Machine(entered.err().unwrap_or(other).to_string()),
            }
        });
    }
    let setting = Setting::probe().map_err(unknown)?;
    if let (Some(refused), false) = (setting.refused(), quiet) {
        let why = entered.err().map_or(refused, |error| error.to_string());
        output::complain(&format!("{why}; on the shared loopback meanwhile"));
    }
    Ok(setting)
}
