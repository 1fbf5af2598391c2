//! Claims that the field needs and no document makes.

mod options;
mod patterns;
mod releases;

use super::Claim;

pub(super) fn claims() -> Vec<&'static Claim> {
    [releases::CLAIMS, options::CLAIMS, patterns::CLAIMS].into_iter().flatten().collect()
}
