//! What a Linux kernel really does with small TCP writes.

pub mod claims;
pub mod exchange;
pub mod expect;
pub mod kernel;
pub mod lab;
pub mod observation;
pub mod play;
pub mod report;
pub mod sys;
pub mod verdict;
