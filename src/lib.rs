//! What a Linux kernel really does with small TCP writes.

pub mod exchange;
pub mod model;
pub mod sys;
