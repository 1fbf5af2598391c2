//! What a test program does before libtest starts its threads.

/// Tests at once, unless `RUST_TEST_THREADS` says otherwise: they wait for kernel timers, not for a CPU.
const THREADS: &str = "32";

/// Before `main`, while the process has one thread: an ordinary user gets a user namespace, and libtest its threads.
#[ctor::ctor]
fn prepare() {
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        // SAFETY: no other thread exists yet that could read the environment.
        unsafe { std::env::set_var("RUST_TEST_THREADS", THREADS) };
    }
    // Where it is refused, each test finds out and says so.
    let _ = smallwrites::lab::enter();
}
