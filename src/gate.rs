//! Baselines, and what changed since.
//!
//! A baseline is a written report ([`Record`]). [`Comparison`] holds two of them against each other: verdicts and
//! counts are the same in every run on a kernel, so a change of either is the kernel's or the settings' and trips the
//! gate; times are the machine's too and are only reported, unless a limit is asked for.
//!
//! ```no_run
//! use smallwrites::gate::{self, Comparison};
//!
//! let old = gate::read("baseline.json".as_ref())?;
//! let new = gate::read("today.json".as_ref())?;
//! let changed = Comparison::of(&old, &new);
//! print!("{changed}");
//! assert!(!changed.trips(None));
//! # Ok::<(), gate::GateError>(())
//! ```

mod compare;
mod render;
mod times;

pub use compare::{Comparison, Difference, Flip, Other};
pub use times::{Shift, Spread};

use crate::report::{Record, RecordError};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The most that is read of a file, bytes: a report of a thousand claims has a tenth of that.
const LARGEST: u64 = 32 << 20;

/// Why a file is no baseline: one line that names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is too long to be one.
    #[error("{} has more than {LARGEST} bytes: no report of smallwrites", .0.display())]
    TooLong(PathBuf),
    /// It is no record of this program, or not the one that was written.
    #[error("{}: {source}", path.display())]
    Record {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: RecordError,
    },
}

/// Reads a baseline.
///
/// # Errors
///
/// Where the file cannot be read, is cut short, was edited, or is of another schema version or another program.
pub fn read(path: &Path) -> Result<Record, GateError> {
    let failed = |source| GateError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        return Err(GateError::TooLong(path.to_owned()));
    }
    parse(&bytes).map_err(|source| GateError::Record { path: path.to_owned(), source })
}

/// Reads a baseline from its bytes.
///
/// # Errors
///
/// As [`read`], without the file's name.
pub fn parse(bytes: &[u8]) -> Result<Record, RecordError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Record::read(text),
        // Cut within a character: the text up to it says where.
        Err(error) if error.error_len().is_none() => {
            let text = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            Record::read(text)
        }
        Err(error) => Err(RecordError::Malformed(format!("it is not UTF-8 from byte {} on", error.valid_up_to()))),
    }
}

#[cfg(test)]
mod tests;
