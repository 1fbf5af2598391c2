//! Why a lab cannot be had.

use std::io;

/// Why a lab cannot be had, with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// Namespaces are refused here.
    #[error(
        "no private namespace here: {0} (allow unprivileged user namespaces, run as root, or enter one first: unshare -Urn)"
    )]
    Refused(#[source] io::Error),
    /// The process started threads before it entered.
    #[error(
        "no private namespace: the process already has {0} threads (call lab::enter before any starts, or run under unshare -Urn)"
    )]
    Threads(usize),
    /// A setting could not be made.
    #[error("cannot set {name} to {value} in the lab: {source}")]
    Setting {
        /// The sysctl or option.
        name: String,
        /// The value wanted.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something that needs a private lab was asked of the shared loopback.
    #[error("{0} needs a private namespace, and this lab is the shared loopback")]
    Shared(&'static str),
    /// The wire or a capture lost frames that it was not asked to lose.
    #[error(
        "frames were lost that nobody asked to lose: {overflowed} in a full buffer, {unsent} not taken by the far end, {malformed} malformed \
         (repeat the trial, with fewer frames a second or a larger net.core.rmem_max)"
    )]
    Lossy {
        /// The receive buffer was full.
        overflowed: u64,
        /// The far end did not take them.
        unsent: u64,
        /// Without a time stamp, without a checksum, or longer than the link allows.
        malformed: u64,
    },
    /// Any other refusal on the way.
    #[error("cannot {doing}: {source}")]
    Step {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}
