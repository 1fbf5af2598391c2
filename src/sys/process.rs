//! A program of somebody else's in namespaces of its own, and its sockets seen from outside.
//!
//! A child shares the network namespace of the thread that starts it. Everything else that it could leave behind
//! is private to it: its processes are a PID namespace, which the kernel empties when the first of them dies
//! (pid_namespaces(7)), its files are a tmpfs that only it sees, all else being read-only to it (mount_namespaces(7)),
//! and its shared memory is an IPC namespace. The first process dies with the thread that keeps it
//! (`PR_SET_PDEATHSIG`), so nothing outlives this process, however it ends.

use std::{
    ffi::CStr,
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
        unix::{
            fs::{FileExt, MetadataExt},
            process::CommandExt,
        },
    },
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{self, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{
    check, context, malformed,
    transfer::{self, Interest},
};

/// The user that a child sees itself as. Some programs refuse to be root, and others act differently as root, so a
/// child never is, whoever started it: its user namespace maps this number to whoever that was.
pub const USER: u32 = 1000;

/// The folder that is empty for each child and gone with it.
pub const FOLDER: &str = "/tmp";

/// The users and groups that a child finds in `/etc`: its own and no other, since no other number is mapped.
const NAMES: [(&CStr, &CStr, &str); 2] = [
    (c"/tmp/.passwd", c"/etc/passwd", "user:x:1000:1000::/tmp:/bin/sh\n"),
    (c"/tmp/.group", c"/etc/group", "user:x:1000:\n"),
];

/// The stack of a thread that only waits, bytes.
const STACK: usize = 128 << 10;

/// A running program; dropping it kills it and everything that it started.
#[derive(Debug)]
pub struct Process {
    handle: OwnedFd,
    output: File,
    keeper: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Process {
    /// Starts a program in the network namespace of the calling thread, with nothing to read on its standard input.
    ///
    /// # Errors
    ///
    /// Where the program or the namespaces cannot be had (both take `CAP_SYS_ADMIN` in this thread's user namespace).
    pub fn start(command: Command) -> io::Result<Process> {
        let output = transfer::memory_file("output", 0)?;
        let mut command = command;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?).current_dir("/");
        confine(&mut command)?;
        let (started, answer) = mpsc::channel();
        let (stay, end) = mpsc::channel();
        // A thread of its own: after this unshare it can start no thread, and the child dies when it does.
        let keeper = thread::Builder::new().name("keeper".to_owned()).stack_size(STACK).spawn(move || {
            let mut start = || {
                // SAFETY: unshare takes a number and no pointer; it decides where this thread's children go.
                check(unsafe { libc::unshare(libc::CLONE_NEWPID) })
                    .map_err(|error| context(error, "make a PID namespace (needs CAP_SYS_ADMIN)"))?;
                let mut child = command.spawn()?;
                match open(child.id()) {
                    Ok(handle) => Ok((child, handle)),
                    Err(error) => {
                        let _ = child.kill();
                        let _ = child.wait();
                        Err(error)
                    }
                }
            };
            match start() {
                Ok((mut child, handle)) => {
                    let _ = started.send(Ok(handle));
                    // Until the sender is dropped.
                    let _: Result<(), _> = end.recv();
                    let _ = child.kill();
                    let _ = child.wait();
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            }
        })?;
        let handle = answer.recv().map_err(|_| malformed("the thread that starts a program ended"))??;
        Ok(Process { handle, output, keeper: Some((stay, keeper)) })
    }

    /// Whether it comes to its end within `timeout`.
    ///
    /// # Errors
    ///
    /// The kernel's own.
    pub fn ends_within(&self, timeout: Duration) -> io::Result<bool> {
        Ok(transfer::wait(&[(self.handle.as_fd(), Interest::READ)], Some(timeout))?[0].any())
    }

    /// What it has written so far, on both of its outputs.
    pub fn output(&self) -> String {
        let length = self.output.metadata().map_or(0, |metadata| metadata.len());
        let mut text = vec![0; usize::try_from(length).unwrap_or(0)];
        // The child's position in the file is this one's too, so reading must not move it.
        let read = self.output.read_at(&mut text, 0).unwrap_or(0);
        String::from_utf8_lossy(&text[..read]).trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some((stay, keeper)) = self.keeper.take() {
            drop(stay);
            let _ = keeper.join();
        }
    }
}

/// Sends `bytes` on a socket from a process of its own, a copy of this one that does nothing else, and waits for its end.
///
/// # Errors
///
/// Where no process can be had, or it could not send all of them.
pub fn send_from_another(socket: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the child makes two system calls, on memory that this process prepared, and is gone.
    let child = check(unsafe {
        let child = libc::fork();
        if child == 0 {
            let sent = libc::send(descriptor, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL);
            libc::_exit(i32::from(usize::try_from(sent) != Ok(bytes.len())));
        }
        child
    })
    .map_err(|error| context(error, "start another process"))?;
    let mut status = 0;
    loop {
        // SAFETY: one number is written through the pointer; the child is this process's own.
        match check(unsafe { libc::waitpid(child, &raw mut status, 0) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) if status == 0 => return Ok(()),
            Ok(_) => return Err(malformed("the other process could not send")),
        }
    }
}

/// The processes that share this thread's network namespace and that it may look into, this one left out.
///
/// # Errors
///
/// Where `/proc` is not mounted.
pub fn neighbours() -> io::Result<Vec<u32>> {
    let here = super::namespace::network_namespace_inode()?;
    let shares = |path: &Path| fs::metadata(path.join("ns/net")).is_ok_and(|metadata| metadata.ino() == here);
    let folder = fs::read_dir("/proc").map_err(|error| context(error, "read /proc"))?;
    let processes = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    Ok(processes.filter(|id| *id != std::process::id() && shares(&Path::new("/proc").join(id.to_string()))).collect())
}

/// The sockets that a process holds: each with its descriptor there and its inode number.
///
/// # Errors
///
/// Where the process may not be looked into, or is gone.
pub fn sockets_of(process: u32) -> io::Result<Vec<(i32, u64)>> {
    let path = format!("/proc/{process}/fd");
    let folder = fs::read_dir(&path).map_err(|error| context(error, format!("read {path}")))?;
    let socket = |entry: fs::DirEntry| {
        let target = fs::read_link(entry.path()).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, inode))
    };
    Ok(folder.filter_map(|entry| socket(entry.ok()?)).collect())
}

/// A descriptor of another process, for the same open file: `pidfd_getfd(2)`, Linux 5.6.
///
/// # Errors
///
/// `PermissionDenied` where that process may not be traced, `ESRCH` where it is gone, `EBADF` where it has no such
/// descriptor.
pub fn duplicate(process: u32, descriptor: i32) -> io::Result<OwnedFd> {
    let handle = open(process)?;
    // SAFETY: the syscall takes two descriptors and flags, and no pointer.
    let copy = unsafe { libc::syscall(libc::SYS_pidfd_getfd, handle.as_raw_fd(), descriptor, 0) };
    owned(copy).map_err(|error| context(error, format!("duplicate descriptor {descriptor} of process {process}")))
}

/// Duplicates of the sockets with these inode numbers that [`neighbours`] hold, one a holder.
///
/// # Errors
///
/// `PermissionDenied` where a holder may not be traced.
pub fn duplicate_sockets(inodes: &[u64]) -> io::Result<Vec<OwnedFd>> {
    let mut found = Vec::new();
    for process in neighbours()? {
        // A process that has just gone holds nothing, and gives nothing away.
        for (descriptor, _) in
            sockets_of(process).unwrap_or_default().iter().filter(|(_, inode)| inodes.contains(inode))
        {
            match duplicate(process, *descriptor) {
                Ok(socket) => found.push(socket),
                Err(error) if matches!(super::errno(&error), Some(libc::ESRCH | libc::EBADF)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

fn open(process: u32) -> io::Result<OwnedFd> {
    // SAFETY: the syscall takes two numbers and no pointer.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })
        .map_err(|error| context(error, format!("open a handle of process {process}")))
}

fn owned(descriptor: libc::c_long) -> io::Result<OwnedFd> {
    let descriptor = check(libc::c_int::try_from(descriptor).unwrap_or(-1))?;
    // SAFETY: the kernel has just made this descriptor for the caller alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Puts the child into namespaces of its own between fork and exec.
fn confine(command: &mut Command) -> io::Result<()> {
    let parent = open(std::process::id())?;
    // SAFETY: these two take nothing and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let users = format!("{USER} {user} 1");
    let groups = format!("{USER} {group} 1");
    let inside = move || {
        // SAFETY: unshare takes a number and no pointer, and the child has one thread.
        check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWIPC) })?;
        put(c"/proc/self/setgroups", libc::O_WRONLY, b"deny")?;
        put(c"/proc/self/uid_map", libc::O_WRONLY, users.as_bytes())?;
        put(c"/proc/self/gid_map", libc::O_WRONLY, groups.as_bytes())?;
        // Not before: a change of credentials takes it back (prctl(2)).
        // SAFETY: this prctl takes a number and no pointer.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
        // The parent may have died before; its handle is readable then.
        let mut gone = libc::pollfd { fd: parent.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, alive during the call, which does not wait.
        if check(unsafe { libc::poll(&raw mut gone, 1, 0) })? > 0 {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        mount(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE, c"")?;
        read_only()?;
        mount(c"tmpfs", c"/tmp", Some(c"tmpfs"), libc::MS_NOSUID | libc::MS_NODEV, c"mode=1777,size=256m")?;
        for (file, name, content) in NAMES {
            put(file, libc::O_WRONLY | libc::O_CREAT, content.as_bytes())?;
            mount(file, name, None, libc::MS_BIND, c"")?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made, on memory that was prepared before: no allocation,
    // no lock.
    unsafe { command.pre_exec(inside) };
    Ok(())
}

/// Writes a file by system calls alone.
fn put(path: &CStr, flags: libc::c_int, content: &[u8]) -> io::Result<()> {
    // SAFETY: the path ends with a zero and outlives the call.
    let file = check(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o644) })?;
    // SAFETY: the pointer and the length are those of one slice, which outlives the call.
    let written = unsafe { libc::write(file, content.as_ptr().cast(), content.len()) };
    let error = io::Error::last_os_error();
    // SAFETY: the descriptor was opened above and is used nowhere else.
    unsafe { libc::close(file) };
    if written == content.len() as isize { Ok(()) } else { Err(error) }
}

/// Makes every mount of this mount namespace read-only: what a child writes anywhere but in its folder would stay.
fn read_only() -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the path ends with a zero; the structure outlives the call and the size is its own.
    let set = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            c"/".as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    match check(libc::c_int::try_from(set).unwrap_or(-1)) {
        // Before Linux 5.12 a child is only asked to keep to its folder.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        other => other.map(|_| ()),
    }
}

fn mount(source: &CStr, target: &CStr, kind: Option<&CStr>, flags: libc::c_ulong, options: &CStr) -> io::Result<()> {
    let kind = kind.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: every string ends with a zero and outlives the call; the kind may be null, as for a bind mount.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, options.as_ptr().cast()) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::namespace::may_unshare_network;

    const DEADLINE: Duration = Duration::from_secs(30);

    fn shell(script: &str) -> Option<Process> {
        // Without the capabilities there is nothing to test.
        if !may_unshare_network() {
            return None;
        }
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Some(Process::start(command).unwrap())
    }

    #[test]
    fn a_child_is_an_ordinary_user_in_an_empty_folder() {
        let script = "id -u; echo $$; ls /tmp; echo x >/tmp/x && cat /tmp/x; echo ~user; echo x 2>/dev/null >/var/tmp/x || echo ro";
        let Some(child) = shell(script) else { return };
        assert!(child.ends_within(DEADLINE).unwrap());
        let output = child.output();
        assert!(output.starts_with("1000\n1\nx\n/tmp") && output.ends_with("ro"), "{output}");
        assert!(!Path::new("/tmp/x").exists());
    }

    #[test]
    fn what_a_child_started_dies_with_it() {
        let Some(child) = shell("sleep 1000 & sleep 1000 & echo started; wait") else { return };
        let handle = child.handle.try_clone().unwrap();
        drop(child);
        assert!(transfer::wait(&[(handle.as_fd(), Interest::READ)], Some(Duration::ZERO)).unwrap()[0].any());
    }

    #[test]
    fn a_descriptor_of_a_child_can_be_duplicated() {
        let Some(child) = shell("exec sleep 1000") else { return };
        let status = fs::read_to_string(format!("/proc/self/fdinfo/{}", child.handle.as_raw_fd())).unwrap();
        let id = status.lines().find_map(|line| line.strip_prefix("Pid:")).unwrap().trim().parse().unwrap();
        let null = File::from(duplicate(id, 0).unwrap());
        assert_eq!(null.metadata().unwrap().ino(), fs::metadata("/dev/null").unwrap().ino());
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        if may_unshare_network() {
            let error = Process::start(Command::new("/no/such/program")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
    }
}
