//! The terminal, and what standard output was when the program started.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before `main`, and before Rust opens the null device in place of a closed standard stream: afterwards nobody
/// can tell a closed one from one that was sent there on purpose.
#[used]
// SAFETY: the section holds pointers to C functions that the loader calls once, with one thread running; this one only
// makes a system call and stores a flag.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: F_GETFD takes no argument and touches no memory; a closed descriptor is an error, not undefined.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags < 0, Ordering::Relaxed);
}

/// Whether the process was started with an open standard output.
///
/// ```
/// assert!(smallwrites::sys::terminal::standard_output_was_open());
/// ```
#[must_use]
pub fn standard_output_was_open() -> bool {
    !CLOSED.load(Ordering::Relaxed)
}

/// Columns of a terminal (`TIOCGWINSZ`); `None` where it is none, or does not know.
#[must_use]
pub fn width(terminal: impl AsFd) -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request writes one winsize, which outlives the call.
    let answer = unsafe { libc::ioctl(terminal.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (answer == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_no_width() {
        assert_eq!(width(std::fs::File::open("/dev/null").unwrap()), None);
    }
}
