//! User and network namespaces (namespaces(7)).
//!
//! A network namespace belongs to a *thread*. New threads inherit it, the
//! others stay where they are, and a socket stays in the namespace it was made
//! in, whichever thread uses it. So the way back out of a namespace is to let
//! the thread end.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
};

use super::{check, context, malformed};

// `/proc/self/ns/net` would be the main thread's.
const NAMESPACE: &str = "/proc/thread-self/ns/net";

const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;

/// Makes this process root of a new user namespace: `unshare(CLONE_NEWUSER)`
/// (unshare(2), user_namespaces(7)). Needs no privileges, and afterwards
/// [`enter_network_namespace`] works in every thread. The process stays in
/// the network namespace it is in, so that the shared loopback stays the one
/// that everybody shares.
///
/// # Errors
///
/// The kernel lets only a single-threaded process do it, so call this before
/// any thread exists; the error says how many there are. Where it is refused
/// (a sysctl, a container's seccomp filter, AppArmor) the error says what to
/// look at.
///
/// # Examples
///
/// ```no_run
/// use smallwrites::sys::namespace;
///
/// fn main() -> std::io::Result<()> {
///     if !namespace::may_unshare_network() {
///         namespace::enter_user_namespace()?;
///     }
///     // Threads may start now.
///     Ok(())
/// }
/// ```
pub fn enter_user_namespace() -> io::Result<()> {
    // SAFETY: these two take nothing and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // There is no way back from a namespace whose maps cannot be written.
    fs::metadata("/proc/self/uid_map").map_err(|error| context(error, "find /proc/self/uid_map (mount /proc)"))?;
    // SAFETY: unshare takes a number and no pointer. It changes the namespaces
    // of this process alone, and no memory.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })
        .map_err(|error| context(explain_refusal(error), "enter a new user namespace"))?;
    // Without this an unprivileged process may not write gid_map.
    for (path, content) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ] {
        File::options()
            .write(true)
            .open(path)
            .and_then(|mut file| io::Write::write_all(&mut file, content.as_bytes()))
            .map_err(|error| context(error, format!("write {content:?} to {path}")))?;
    }
    Ok(())
}

/// Moves this thread into a new, empty network namespace (`lo` exists and is
/// down) and returns a handle of it for [`join_network_namespace`]. The
/// namespace lives as long as a thread, a socket or a handle of it does.
///
/// # Errors
///
/// `PermissionDenied` without `CAP_SYS_ADMIN`.
pub fn enter_network_namespace() -> io::Result<OwnedFd> {
    // SAFETY: unshare takes a number and no pointer. It changes the network
    // namespace of this thread alone, and no memory.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map_err(|error| {
        context(
            error,
            "enter a new network namespace (needs CAP_SYS_ADMIN: be root, \
             or enter a user namespace before any thread starts)",
        )
    })?;
    network_namespace()
}

/// Moves this thread into the namespace of a handle: `setns(CLONE_NEWNET)`
/// (setns(2)).
///
/// # Errors
///
/// `PermissionDenied` without `CAP_SYS_ADMIN` over both namespaces,
/// `InvalidInput` where the handle is of something else.
pub fn join_network_namespace(namespace: impl AsFd) -> io::Result<()> {
    // SAFETY: the descriptor is borrowed for the whole call; setns changes the
    // network namespace of this thread alone, and no memory.
    check(unsafe { libc::setns(namespace.as_fd().as_raw_fd(), libc::CLONE_NEWNET) })
        .map_err(|error| context(error, "join a network namespace"))?;
    Ok(())
}

/// A handle of the network namespace this thread is in. It is not inherited by
/// programs started later.
///
/// # Errors
///
/// Where `/proc` is not mounted.
pub fn network_namespace() -> io::Result<OwnedFd> {
    match File::open(NAMESPACE) {
        Ok(file) => Ok(file.into()),
        Err(error) => Err(context(error, format!("open {NAMESPACE}"))),
    }
}

/// The number that tells network namespaces apart while they live, the one in
/// `net:[4026531840]`.
///
/// # Errors
///
/// Where `/proc` is not mounted.
///
/// # Examples
///
/// ```
/// use smallwrites::sys::namespace::network_namespace_inode;
///
/// let here = network_namespace_inode()?;
/// let child = std::thread::spawn(network_namespace_inode).join().unwrap()?;
/// assert_eq!(here, child);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn network_namespace_inode() -> io::Result<u64> {
    let metadata = fs::metadata(NAMESPACE).map_err(|error| context(error, format!("stat {NAMESPACE}")))?;
    Ok(metadata.ino())
}

/// Whether this thread has the capabilities to make a network namespace and to
/// configure it: `CAP_SYS_ADMIN` and `CAP_NET_ADMIN` (capabilities(7)).
///
/// A seccomp filter may still refuse the call.
pub fn may_unshare_network() -> bool {
    let needed = 1 << CAP_SYS_ADMIN | 1 << CAP_NET_ADMIN;
    status_field("/proc/thread-self/status", "CapEff:")
        .ok()
        .and_then(|text| u64::from_str_radix(&text, 16).ok())
        .is_some_and(|effective| effective & needed == needed)
}

/// How many threads this process has.
///
/// # Errors
///
/// Where `/proc/self/status` is not readable.
pub fn thread_count() -> io::Result<usize> {
    let text = status_field("/proc/self/status", "Threads:")?;
    text.parse().map_err(|_| malformed(format!("/proc/self/status has {text:?} threads")))
}

fn status_field(path: &str, name: &str) -> io::Result<String> {
    let text = fs::read_to_string(path).map_err(|error| context(error, format!("read {path}")))?;
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .map(|value| value.trim().to_owned())
        .ok_or_else(|| malformed(format!("{path} has no line {name:?}")))
}

fn explain_refusal(error: io::Error) -> io::Error {
    let why = match error.raw_os_error() {
        Some(libc::EINVAL) => {
            let threads = thread_count().map_or("several".to_owned(), |count| count.to_string());
            format!(
                "the process has {threads} threads and must have one: \
                 do this before any thread starts, or run under `unshare -Urn`"
            )
        }
        Some(libc::EPERM) => "refused: look at the sysctls kernel.unprivileged_userns_clone and \
             kernel.apparmor_restrict_unprivileged_userns and at the container's seccomp \
             profile, or be root"
            .to_owned(),
        Some(libc::ENOSPC) => "none allowed: the sysctl user.max_user_namespaces or user.max_net_namespaces is \
             used up or 0"
            .to_owned(),
        Some(libc::ENOSYS) => "this kernel has no user namespaces: be root".to_owned(),
        _ => return error,
    };
    context(error, why)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_namespace_is_of_one_thread_and_can_be_joined() {
        if !may_unshare_network() {
            eprintln!("not tested: no CAP_SYS_ADMIN and CAP_NET_ADMIN");
            return;
        }
        let outside = network_namespace_inode().unwrap();
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let handle = enter_network_namespace().unwrap();
                let inode = network_namespace_inode().unwrap();
                assert_ne!(inode, outside);
                assert_eq!(File::from(handle.try_clone().unwrap()).metadata().unwrap().ino(), inode);
                (handle, inode)
            });
            let (handle, inode) = inside.join().unwrap();
            assert_eq!(network_namespace_inode().unwrap(), outside, "this thread stayed");
            let joined = scope.spawn(move || {
                join_network_namespace(&handle).unwrap();
                network_namespace_inode().unwrap()
            });
            assert_eq!(joined.join().unwrap(), inode);
        });
    }

    #[test]
    fn a_threaded_process_is_told_so() {
        // The test harness has at least its main thread and this one.
        let count = thread_count().unwrap();
        assert!(count >= 2, "{count}");
        let text = enter_user_namespace().unwrap_err().to_string();
        assert!(text.contains("threads and must have one"), "{text}");
    }

    #[test]
    fn joining_something_else_is_refused() {
        let file = File::open("/proc/self/status").unwrap();
        assert!(join_network_namespace(&file).is_err());
    }

    #[test]
    fn handles_are_closed_on_exec() {
        let handle = network_namespace().unwrap();
        // SAFETY: the descriptor is open; F_GETFD takes no pointer.
        let flags = unsafe { libc::fcntl(handle.as_raw_fd(), libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }

    #[test]
    fn refusals_say_what_to_look_at() {
        for (errno, word) in
            [(libc::EPERM, "apparmor_restrict"), (libc::ENOSPC, "max_user_namespaces"), (libc::ENOSYS, "be root")]
        {
            let error = explain_refusal(io::Error::from_raw_os_error(errno));
            assert!(error.to_string().contains(word), "{error}");
            assert_eq!(crate::sys::errno(&error), Some(errno));
        }
    }
}
