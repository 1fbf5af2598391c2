//! Every claim of the catalogue as a test of its own name.
//!
//! This harness is not libtest's: what a machine cannot show is found out before the list is made, and listed as ignored
//! with its reason. Claims wait for kernel timers, not for a CPU, so many run at once unless told otherwise.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use smallwrites::claims::{self, Finding, Setting};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    // Before any thread: a user namespace can be entered by a single thread only.
    let entered = smallwrites::lab::enter();
    let setting = match Setting::probe() {
        Ok(setting) => Arc::new(setting),
        Err(error) => {
            eprintln!("cannot probe this kernel: {error}");
            return ExitCode::from(3);
        }
    };
    if let (Err(error), Some(_)) = (entered, setting.refused()) {
        eprintln!("claims that need a private namespace are ignored: {error}");
    }
    let trials = claims::catalogue().into_iter().map(|claim| {
        let missing = setting.missing(claim);
        let reason = missing.as_ref().map(|missing| format!("{}; {}", missing.reason, missing.remedy));
        let setting = Arc::clone(&setting);
        // nextest takes an ignore at run time for a pass, so it gets the flag; plain runs print the reason.
        let listed_as_ignored = missing.is_some() && std::env::var_os("NEXTEST").is_some();
        Trial::ignorable_test(claim.id, move || match reason {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => match claims::check(claim, &setting).finding {
                Finding::Passed(_) => Ok(Completion::Completed),
                Finding::Failed(failure) => Err(Failed::from(failure.to_string())),
                Finding::Ignored(missing) => Ok(Completion::ignored_with(missing.reason)),
            },
        })
        .with_ignored_flag(listed_as_ignored)
    });
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(claims::at_once());
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
