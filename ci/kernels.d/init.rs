//! PID 1 of a guest that `ci/kernels` boots: prepares the kernel, runs one command and reports.
//!
//! `/job` says what to do, one word and its value a line: `module PATH` (loaded in this order),
//! `env NAME=VALUE`, `uid N`, `arg WORD` (the command, word by word). The command's stdout goes to
//! the second serial port byte for byte, then comes the line `@@vm exit=N`; its stderr and whatever
//! init has to say go to the console. Built by plain rustc: libc comes with std's own linkage.

use std::ffi::{CString, c_char, c_int, c_long, c_ulong, c_void};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const AF_INET: c_int = 2;
const SOCK_DGRAM: c_int = 2;
const SIOCGIFFLAGS: c_ulong = 0x8913;
const SIOCSIFFLAGS: c_ulong = 0x8914;
const IFF_UP: u8 = 1;
const TCSANOW: c_int = 0;
const RB_AUTOBOOT: c_int = 0x0123_4567;
const SYS_FINIT_MODULE: c_long = 313;

/// Room for a `struct termios` (60 bytes), whose fields init has no need to name.
#[repr(C, align(8))]
struct Termios([u8; 64]);

/// `struct ifreq`: a name, then a union whose first byte holds the low flags.
#[repr(C, align(8))]
struct Ifreq {
    name: [u8; 16],
    value: [u8; 24],
}

unsafe extern "C" {
    fn mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, ...) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    fn tcgetattr(fd: c_int, termios: *mut Termios) -> c_int;
    fn tcsetattr(fd: c_int, when: c_int, termios: *const Termios) -> c_int;
    fn cfmakeraw(termios: *mut Termios);
    fn reboot(how: c_int) -> c_int;
}

/// What `/job` asks for.
#[derive(Default)]
struct Job {
    modules: Vec<String>,
    env: Vec<(String, String)>,
    uid: Option<u32>,
    words: Vec<String>,
}

fn main() {
    if let Err(error) = work() {
        eprintln!("init: {error}");
    }
    // SAFETY: takes no pointer; under QEMU's -no-reboot it ends the machine.
    unsafe { reboot(RB_AUTOBOOT) };
}

fn work() -> io::Result<()> {
    for (kind, target) in [
        ("devtmpfs", "/dev"),
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("tmpfs", "/tmp"),
    ] {
        mount_at(kind, target).map_err(|e| said(&format!("mount {target}"), &e))?;
    }
    let job = Job::read(&fs::read_to_string("/job")?)?;
    for module in &job.modules {
        // One module less may cost a claim, never the run: the claim then says what it misses.
        if let Err(error) = load(module) {
            eprintln!("init: {module}: {error}");
        }
    }
    loopback_up().map_err(|e| said("lo", &e))?;
    settle();
    let mut port = serial_port("/dev/ttyS1").map_err(|e| said("/dev/ttyS1", &e))?;
    let status = job.run(&port).unwrap_or_else(|error| {
        eprintln!("init: {}: {error}", job.words[0]);
        127
    });
    writeln!(port, "\n@@vm exit={status}")?;
    drain(&port)
}

impl Job {
    fn read(text: &str) -> io::Result<Self> {
        let mut job = Self::default();
        for line in text.lines() {
            let bad = || io::Error::other(format!("/job: unusable line {line:?}"));
            let (word, value) = line.split_once(' ').ok_or_else(bad)?;
            match word {
                "module" => job.modules.push(value.to_owned()),
                "env" => {
                    let (name, value) = value.split_once('=').ok_or_else(bad)?;
                    job.env.push((name.to_owned(), value.to_owned()));
                }
                "uid" => job.uid = Some(value.parse().map_err(|_| bad())?),
                "arg" => job.words.push(value.to_owned()),
                _ => return Err(bad()),
            }
        }
        match job.words.is_empty() {
            true => Err(io::Error::other("/job: no command")),
            false => Ok(job),
        }
    }

    /// Runs the command; a shell's convention for its status, 128 + N for a signal.
    fn run(&self, stdout: &File) -> io::Result<i32> {
        let mut command = Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .env_clear()
            .envs(self.env.iter().cloned())
            .current_dir("/tmp")
            .stdin(Stdio::null())
            .stdout(stdout.try_clone()?);
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        let status = command.status()?;
        Ok(status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }
}

fn mount_at(kind: &str, target: &str) -> io::Result<()> {
    let (kind, target) = (CString::new(kind)?, CString::new(target)?);
    // SAFETY: three NUL-terminated strings that outlive the call; no data.
    let done = unsafe {
        mount(
            kind.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            0,
            std::ptr::null(),
        )
    };
    // EBUSY: this kernel mounts devtmpfs by itself.
    match check(done) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(()),
        other => other,
    }
}

fn load(path: &str) -> io::Result<()> {
    let file = File::open(path)?;
    let options = c"";
    // SAFETY: an open file and a NUL-terminated string that outlive the call.
    let done = unsafe { syscall(SYS_FINIT_MODULE, file.as_raw_fd(), options.as_ptr(), 0) };
    check(done as c_int)
}

fn loopback_up() -> io::Result<()> {
    let mut request = Ifreq {
        name: [0; 16],
        value: [0; 24],
    };
    request.name[..2].copy_from_slice(b"lo");
    // SAFETY: takes no pointer; the descriptor lives as long as init.
    let fd = unsafe { socket(AF_INET, SOCK_DGRAM, 0) };
    check(fd)?;
    // SAFETY: the request is a whole, initialised ifreq.
    check(unsafe { ioctl(fd, SIOCGIFFLAGS, &raw mut request) })?;
    request.value[0] |= IFF_UP;
    // SAFETY: as above.
    check(unsafe { ioctl(fd, SIOCSIFFLAGS, &raw mut request) })
}

/// Waits until timers are punctual: right after boot the clock is still being calibrated and a
/// sleep can end 3 ms late. Costs guest time only, which is free while nothing runs.
fn settle() {
    let clock = || {
        fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .unwrap_or_default()
    };
    let start = Instant::now();
    while clock().trim() != "tsc" && start.elapsed() < Duration::from_secs(5) {
        sleep(Duration::from_millis(100));
    }
    let (mut punctual, mut worst) = (0, Duration::ZERO);
    while punctual < 50 && start.elapsed() < Duration::from_secs(10) {
        let (nap, before) = (Duration::from_millis(2), Instant::now());
        sleep(nap);
        worst = before.elapsed().saturating_sub(nap);
        punctual = if worst < Duration::from_micros(500) {
            punctual + 1
        } else {
            0
        };
    }
    eprintln!(
        "init: clocksource {}, settled after {} ms, last sleep {} us late",
        clock().trim(),
        start.elapsed().as_millis(),
        worst.as_micros(),
    );
}

/// The port in raw mode: what is written arrives unchanged.
fn serial_port(path: &str) -> io::Result<File> {
    let port = OpenOptions::new().read(true).write(true).open(path)?;
    let mut termios = Termios([0; 64]);
    // SAFETY: the buffer is larger than a termios and aligned for it, in all three calls.
    check(unsafe { tcgetattr(port.as_raw_fd(), &raw mut termios) })?;
    // SAFETY: as above.
    unsafe { cfmakeraw(&raw mut termios) };
    // SAFETY: as above.
    check(unsafe { tcsetattr(port.as_raw_fd(), TCSANOW, &raw const termios) })?;
    Ok(port)
}

/// Waits until the last byte has left, else the machine would go down on top of it.
fn drain(port: &File) -> io::Result<()> {
    const TCSBRK: c_ulong = 0x5409;
    // SAFETY: takes an open descriptor and a number (1: wait, send no break).
    check(unsafe { ioctl(port.as_raw_fd(), TCSBRK, 1 as c_int) })
}

fn check(done: c_int) -> io::Result<()> {
    match done {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn said(what: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("{what}: {error}"))
}
