//! What a Linux kernel really does with small TCP writes, as executable claims.
//!
//! A program that writes a message in two pieces and then waits for the answer may lose 40 ms on every request: Nagle's
//! algorithm keeps the second piece back until the first is acknowledged, and the receiver delays that acknowledgement.
//! This crate plays such exchanges on real sockets in private network namespaces, judges them by what the sockets
//! held and what let it go, and checks every statement that people make about the subject on the kernel that runs.
//!
//! ```no_run
//! use smallwrites::exchange::Side;
//! use smallwrites::expect::expect;
//! use smallwrites::lab::{self, Conditions};
//! use smallwrites::play::Play;
//!
//! lab::enter()?; // while the process has one thread; without it labs share the loopback
//! let play = Play::new("C: W100 W50 R20 / S: R150 W20".parse()?).requests(10);
//! let seen = Conditions::default().run(|lab| play.run(lab))??;
//! println!("{}", smallwrites::verdict::Verdict::of(&seen)); // all-but-first · 1×40ms
//! expect(&seen).held(Side::Client, 50);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where things are
//!
//! Data flows one way, each arrow a module:
//!
//! ```text
//! notation ─► exchange ─► play, in a lab ─► observation ─► verdict ─► claims ─► report ─► gate
//!                 └─────► model ──────────► agreement ◄───────┘
//! ```
//!
//! Everything left of `play` and right of `observation` is pure: no clock, no socket, no file. [`sys`] holds every
//! `unsafe` block, [`kernel`] the probed facts of the running kernel.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod agreement;
pub mod claims;
pub mod exchange;
pub mod expect;
pub mod foreign;
pub mod gate;
pub mod kernel;
pub mod lab;
pub mod model;
pub mod observation;
pub mod play;
pub mod report;
pub mod sys;
pub mod verdict;
