//! Every claim's control: its check under a condition that breaks the claim must fail, and fail for the claim's own
//! reason, not because the exchange could not be played.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use smallwrites::claims::{self, Finding, Setting};
use smallwrites::expect::Kind;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let _ = smallwrites::lab::enter();
    let setting = match Setting::probe() {
        Ok(setting) => Arc::new(setting),
        Err(error) => {
            eprintln!("cannot probe this kernel: {error}");
            return ExitCode::from(3);
        }
    };
    let trials = claims::catalogue().into_iter().map(|claim| {
        let setting = Arc::clone(&setting);
        Trial::ignorable_test(claim.id, move || match claims::control(claim, &setting).finding {
            Finding::Failed(failure) if failure.kind == Kind::Play => {
                Err(Failed::from(format!("the control could not be played:\n{failure}")))
            }
            Finding::Failed(_) => Ok(Completion::Completed),
            Finding::Passed(evidence) => {
                let breaks = claim.control.breaks;
                Err(Failed::from(format!("passed although {breaks}: {} ({})", evidence.canonical, evidence.measured)))
            }
            Finding::Ignored(missing) => Ok(Completion::ignored_with(missing.reason)),
        })
    });
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(claims::at_once());
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
