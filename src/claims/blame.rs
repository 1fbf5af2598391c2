//! Which settings turn a claim false, found out by checking it again without them.

use super::run::judge;
use super::{Claim, Finding, Setting};
use crate::lab::{Place, Settings};
use std::thread;

/// What to say of a failed claim's settings; `None` where it fails under the kernel's defaults too.
///
/// The claim is checked again as it was and under the defaults. Only where the first fails again and the second passes
/// are settings to blame, and then each that makes it fail alone is named; all of them where none does.
pub(super) fn settings(claim: &'static Claim, setting: &Setting) -> Option<String> {
    let effective = setting.settings().effective();
    if effective.is_empty() || setting.base.place == Place::Shared {
        return None;
    }
    let [again, without] =
        side_by_side([setting.settings().clone(), Settings::default()].map(|settings| (claim, settings)));
    if again != Some(false) || without != Some(true) {
        return None;
    }
    let alone = effective.iter().map(|one| (claim, setting.settings().only(&one.name)));
    let alone: Vec<Option<bool>> = match effective.len() {
        1 => vec![Some(false)],
        _ => thread::scope(|scope| {
            let threads: Vec<_> = alone.map(|(claim, settings)| scope.spawn(move || passes(claim, settings))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or(None)).collect()
        }),
    };
    let fails = |alone: &Option<bool>| *alone == Some(false);
    let together = !alone.iter().any(fails);
    let blamed: Vec<String> = effective
        .iter()
        .zip(&alone)
        .filter(|(_, alone)| together || fails(alone))
        .map(|(one, _)| match &one.default {
            Some(default) => format!("{}={} differs from the default {default}", one.name, one.value),
            None => format!("{}={}", one.name, one.value),
        })
        .collect();
    let rest = if together { "; only together do they make a difference" } else { "" };
    Some(format!("{}; under the kernel's defaults the claim passes{rest}", blamed.join("\n")))
}

fn side_by_side<const N: usize>(checks: [(&'static Claim, Settings); N]) -> [Option<bool>; N] {
    thread::scope(|scope| {
        let threads = checks.map(|(claim, settings)| scope.spawn(move || passes(claim, settings)));
        threads.map(|thread| thread.join().unwrap_or(None))
    })
}

/// Whether the claim passes under these settings; `None` where that cannot be told.
fn passes(claim: &'static Claim, settings: Settings) -> Option<bool> {
    match judge(claim, &Setting::under(settings).ok()?, None).finding {
        Finding::Passed(_) => Some(true),
        Finding::Failed(_) => Some(false),
        Finding::Ignored(_) => None,
    }
}
