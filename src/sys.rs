//! Every `unsafe` block and every libc or netlink detail of the crate.
//!
//! Nothing here knows what a small write is: these are the calls, files and
//! messages of the kernel, one concept a module, with their units and traps
//! written beside them.
//!
//! # Errors
//!
//! The calls on one socket ([`options`], [`transfer`], [`TcpInfo::read`])
//! return the kernel's error untouched, as socket2 does, because their caller
//! knows which socket and which option it was. Everything that prepares or
//! reads the surroundings (namespaces, devices, `/proc`) adds what was tried,
//! where, and what to do. That text hides
//! [`raw_os_error`](std::io::Error::raw_os_error), so ask [`errno`] instead:
//! it sees through the context.
//!
//! [`TcpInfo::read`]: tcp_info::TcpInfo::read

use std::{error::Error, fmt, io};

pub mod capture;
pub mod clock;
pub mod counters;
pub mod device;
pub mod diag;
pub mod messages;
pub mod namespace;
mod netlink;
pub mod options;
pub mod proc_tcp;
pub mod process;
pub mod tcp_info;
pub mod terminal;
pub mod transfer;
pub mod veth;

/// The errno behind an error, also when this module has put context around it.
///
/// `None` when the error did not come from a system call.
///
/// # Examples
///
/// ```
/// let missing = smallwrites::sys::counters::sysctl("net.ipv4.no_such_name").unwrap_err();
/// assert_eq!(smallwrites::sys::errno(&missing), Some(libc::ENOENT));
/// assert!(missing.to_string().contains("net.ipv4.no_such_name"));
/// ```
pub fn errno(error: &io::Error) -> Option<i32> {
    error.raw_os_error().or_else(|| {
        let inner = error.get_ref()?.downcast_ref::<Context>()?;
        errno(&inner.source)
    })
}

/// Whether the kernel refused an option because the socket is not TCP's or the option is unknown, by errno's name.
///
/// `ENOPROTOOPT` and `EOPNOTSUPP` say the same; which of the two depends on the socket's family.
///
/// # Examples
///
/// ```
/// use smallwrites::sys::{no_such_option, options::{self, SocketOption}};
///
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let refused = options::set(&socket, SocketOption::NoDelay, 1).unwrap_err();
/// assert!(no_such_option(&refused).is_some());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn no_such_option(error: &io::Error) -> Option<&'static str> {
    match errno(error)? {
        libc::ENOPROTOOPT => Some("ENOPROTOOPT"),
        libc::EOPNOTSUPP => Some("EOPNOTSUPP"),
        _ => None,
    }
}

/// An [`io::Error`] with what was tried in front of it.
#[derive(Debug)]
struct Context {
    doing: String,
    source: io::Error,
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.doing, self.source)
    }
}

impl Error for Context {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// Puts `doing` in front of an error; the kind and the errno stay available.
fn context(source: io::Error, doing: impl Into<String>) -> io::Error {
    let doing = doing.into();
    io::Error::new(source.kind(), Context { doing, source })
}

/// An answer of the kernel that does not have the shape it is documented to have.
fn malformed(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// Turns the `-1` of a system call into the error that errno holds.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_keeps_kind_and_errno_and_nests() {
        let bare = io::Error::from_raw_os_error(libc::ENOENT);
        let once = context(bare, "open x");
        let twice = context(once, "prepare y");
        assert_eq!(twice.kind(), io::ErrorKind::NotFound);
        assert_eq!(twice.raw_os_error(), None, "context hides it, so errno() is needed");
        assert_eq!(errno(&twice), Some(libc::ENOENT));
        assert!(twice.to_string().starts_with("prepare y: open x: "), "{twice}");
    }

    #[test]
    fn errno_is_none_where_no_system_call_failed() {
        assert_eq!(errno(&malformed("odd")), None);
    }
}
