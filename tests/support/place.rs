//! Bad places for one program, made between fork and exec.

use std::ffi::{CStr, CString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr;

/// What the program has to do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A seccomp filter refuses `unshare`, as container runtimes do.
    NoUnshare,
    /// `user.max_net_namespaces` is 0, as hardened systems have it; here within a user namespace of the program's own.
    NoNetworkNamespaces,
    /// An empty file system covers `/proc`.
    NoProc,
    /// A read-only file system covers the folder that the program writes to.
    ReadOnly,
    /// Standard output is closed.
    StandardOutputClosed,
    /// Standard error is closed.
    StandardErrorClosed,
}

/// Says on standard error that this machine cannot make the place.
pub(crate) fn say_skipped(place: Place, error: &io::Error) {
    let _ = writeln!(io::stderr(), "SKIPPED {place:?}: {error}");
}

/// Starts the command in the place; where it cannot be made, starting it fails.
pub(crate) fn make(command: &mut Command, place: Place) -> &mut Command {
    let ids = Ids::own();
    let work = move || match place {
        Place::NoUnshare => refuse_unshare(),
        Place::NoNetworkNamespaces => {
            ids.enter_user_namespace(0)?;
            write(c"/proc/sys/user/max_net_namespaces", b"0")
        }
        Place::NoProc => {
            ids.enter_user_namespace(libc::CLONE_NEWNS)?;
            cover(c"/proc", 0)
        }
        Place::ReadOnly => Err(io::ErrorKind::Unsupported.into()),
        Place::StandardOutputClosed => close(libc::STDOUT_FILENO),
        Place::StandardErrorClosed => close(libc::STDERR_FILENO),
    };
    // SAFETY: the closure runs in the child, which has one thread. It makes system calls on memory of its own and on
    // strings made before the fork; it takes no lock and allocates nothing.
    unsafe { command.pre_exec(work) }
}

/// Starts the command where this folder is covered by an empty read-only file system.
pub(crate) fn make_read_only<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    let ids = Ids::own();
    let folder = CString::new(folder.as_os_str().as_bytes()).expect("a path has no zero byte");
    let work = move || {
        ids.enter_user_namespace(libc::CLONE_NEWNS)?;
        cover(&folder, libc::MS_RDONLY)
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(work) }
}

/// What the maps of a new user namespace say, made before the fork.
struct Ids {
    users: Vec<u8>,
    groups: Vec<u8>,
}

impl Ids {
    fn own() -> Self {
        // SAFETY: these two take nothing and cannot fail.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        Self { users: format!("0 {user} 1").into_bytes(), groups: format!("0 {group} 1").into_bytes() }
    }

    /// Makes the child root of a user namespace, with other new namespaces.
    fn enter_user_namespace(&self, others: libc::c_int) -> io::Result<()> {
        // SAFETY: unshare takes a number and no pointer.
        check(unsafe { libc::unshare(libc::CLONE_NEWUSER | others) })?;
        write(c"/proc/self/setgroups", b"deny")?;
        write(c"/proc/self/uid_map", &self.users)?;
        write(c"/proc/self/gid_map", &self.groups)
    }
}

/// Lays an empty file system over a folder, for the child alone.
fn cover(folder: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: every string outlives the calls, and null is allowed where it stands.
    unsafe {
        check(libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), private, ptr::null()))?;
        check(libc::mount(c"none".as_ptr(), folder.as_ptr(), c"tmpfs".as_ptr(), flags, ptr::null()))
    }
}

/// From now on `unshare` answers EPERM.
fn refuse_unshare() -> io::Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let instruction = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        // The number of the system call is the first word of struct seccomp_data.
        instruction(LOAD, 0, 0, 0),
        instruction(EQUAL, 0, 1, libc::SYS_unshare as u32),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program during the call; the other arguments are numbers.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        check(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program))
    }
}

fn close(descriptor: libc::c_int) -> io::Result<()> {
    // SAFETY: the child execs next, and nothing in it uses the descriptor.
    check(unsafe { libc::close(descriptor) })
}

fn write(path: &CStr, content: &[u8]) -> io::Result<()> {
    // SAFETY: path and content outlive the calls, and the length is the content's own.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        check(file)?;
        let written = libc::write(file, content.as_ptr().cast(), content.len());
        let result = if written == content.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) };
        libc::close(file);
        result
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
