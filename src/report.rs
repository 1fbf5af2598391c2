//! What a person reads: pure functions of what was seen.

pub mod sequence;
