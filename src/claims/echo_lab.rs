//! The echo lab's claims.

use super::Claim;

pub(super) fn claims() -> Vec<&'static Claim> {
    Vec::new()
}
