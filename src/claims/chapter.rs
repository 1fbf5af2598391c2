//! The chapter's claims, part by part.

mod corks;
mod knobs;
mod lab_one;
mod lab_three;
mod lab_two;
mod rules_receiver;
mod rules_sender;
mod ss;

use super::Claim;

pub(super) fn claims() -> Vec<&'static Claim> {
    let parts = [
        rules_sender::CLAIMS,
        rules_receiver::CLAIMS,
        super::wire::RULES,
        lab_one::CLAIMS,
        lab_two::CLAIMS,
        lab_three::CLAIMS,
        super::wire::LAB_THREE,
        corks::CLAIMS,
        knobs::CLAIMS,
    ];
    parts.into_iter().flatten().chain(super::foreign::chapter()).collect()
}
