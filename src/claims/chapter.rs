//! The chapter's claims, part by part.

mod lab_one;

use super::Claim;

/// Write-write-read: the pattern that the whole chapter is about.
pub(super) const WWR: &str = "C: W10 W10 R20 / S: R20 W20";

pub(super) fn claims() -> Vec<&'static Claim> {
    [lab_one::CLAIMS].into_iter().flatten().collect()
}
