//! The kernel's clocks and what the scheduler did to this thread.

use std::{ffi::CStr, fs, io, mem, time::Duration};

use super::{check, context, malformed};

/// The kernel's tick, `1/CONFIG_HZ`: the resolution of delayed ACK and
/// retransmission timers.
///
/// From `clock_getres(CLOCK_MONOTONIC_COARSE)`, which works without
/// privileges. `sysconf(_SC_CLK_TCK)` is not it: that is the fixed `USER_HZ`.
///
/// # Errors
///
/// The kernel's own.
///
/// # Examples
///
/// ```
/// let jiffy = smallwrites::sys::clock::jiffy()?;
/// assert!(jiffy >= std::time::Duration::from_micros(900));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn jiffy() -> io::Result<Duration> {
    let mut resolution = timespec();
    // SAFETY: the kernel writes one timespec through the pointer.
    check(unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) })?;
    duration(resolution)
}

/// How long this thread has been ready to run without running, in all: the
/// second field of `/proc/thread-self/schedstat` (nanoseconds there).
///
/// The difference over a measurement tells how much of it is the machine's
/// load and not the network's.
///
/// # Errors
///
/// `NotFound` where the kernel keeps no such account (`CONFIG_SCHED_INFO`).
pub fn run_queue_delay() -> io::Result<Duration> {
    const PATH: &str = "/proc/thread-self/schedstat";
    let text = fs::read_to_string(PATH)
        .map_err(|error| context(error, format!("read {PATH} (needs a kernel with CONFIG_SCHED_INFO)")))?;
    let nanoseconds = text
        .split_ascii_whitespace()
        .nth(1)
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| malformed(format!("{PATH} has no second number: {text:?}")))?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// The processor time this thread has used: `CLOCK_THREAD_CPUTIME_ID`
/// (clock_gettime(2)).
///
/// # Errors
///
/// The kernel's own.
pub fn thread_cpu_time() -> io::Result<Duration> {
    let mut now = timespec();
    // SAFETY: the kernel writes one timespec through the pointer.
    check(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) })?;
    duration(now)
}

/// How late the kernel may wake this thread up, in nanoseconds:
/// `prctl(PR_SET_TIMERSLACK)` (prctl(2)). The default is 50000; 0 goes back to
/// it.
///
/// # Errors
///
/// The kernel's own.
pub fn set_timer_slack(nanoseconds: u64) -> io::Result<()> {
    let slack = libc::c_ulong::try_from(nanoseconds).unwrap_or(libc::c_ulong::MAX);
    // SAFETY: this prctl takes a number and no pointer, and changes this
    // thread alone.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack, 0, 0, 0) })?;
    Ok(())
}

/// The running kernel's release, for example `6.18.44-generic`: `uname(2)`.
///
/// # Errors
///
/// The kernel's own.
pub fn kernel_release() -> io::Result<String> {
    // SAFETY: utsname is arrays of characters only, for which zero is valid.
    let mut name: libc::utsname = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes one utsname through the pointer.
    check(unsafe { libc::uname(&raw mut name) })?;
    // SAFETY: uname terminates each field with a zero inside its array, and
    // `name` outlives the borrow.
    let release = unsafe { CStr::from_ptr(name.release.as_ptr()) };
    Ok(release.to_string_lossy().into_owned())
}

fn timespec() -> libc::timespec {
    libc::timespec { tv_sec: 0, tv_nsec: 0 }
}

fn duration(time: libc::timespec) -> io::Result<Duration> {
    match (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec)) {
        (Ok(seconds), Ok(nanoseconds)) => Ok(Duration::new(seconds, nanoseconds)),
        _ => Err(malformed(format!("clock value {}s {}ns", time.tv_sec, time.tv_nsec))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_jiffy_belongs_to_a_hz_the_kernel_can_be_built_with() {
        let jiffy = jiffy().unwrap();
        let hz = 1e9 / jiffy.as_nanos() as f64;
        assert!([100.0, 250.0, 300.0, 1000.0].iter().any(|known| (hz - known).abs() < 1.0), "{jiffy:?} is {hz} Hz");
    }

    #[test]
    fn cpu_time_grows_with_work_and_not_with_sleep() {
        let before = thread_cpu_time().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let slept = thread_cpu_time().unwrap();
        assert!(slept - before < Duration::from_millis(15), "{:?}", slept - before);
        let start = Instant::now();
        while thread_cpu_time().unwrap() - slept < Duration::from_millis(5) {
            assert!(start.elapsed() < Duration::from_secs(30), "processor time stands still");
        }
    }

    #[test]
    fn run_queue_delay_never_falls() {
        let Ok(before) = run_queue_delay() else {
            eprintln!("not tested: this kernel has no schedstat");
            return;
        };
        std::thread::yield_now();
        assert!(run_queue_delay().unwrap() >= before);
    }

    #[test]
    fn timer_slack_is_this_threads() {
        let slack = || {
            fs::read_to_string("/proc/thread-self/timerslack_ns").ok().and_then(|text| text.trim().parse::<u64>().ok())
        };
        set_timer_slack(12_345).unwrap();
        // /proc shows it only where the kernel lets a thread look.
        if let Some(shown) = slack() {
            assert_eq!(shown, 12_345);
        }
        // SAFETY: this prctl takes no pointer.
        let told = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
        assert_eq!(told, 12_345);
    }

    #[test]
    fn the_release_is_what_proc_says() {
        let shown = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(kernel_release().unwrap(), shown.trim_end());
    }
}
