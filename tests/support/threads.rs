//! How many tests libtest runs at once.

/// Unless `RUST_TEST_THREADS` says otherwise: these tests wait for kernel timers, not for a CPU.
const THREADS: &str = "12";

/// Before `main`, where libtest looks it up.
#[ctor::ctor]
fn prepare() {
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        // SAFETY: no other thread exists yet that could read the environment.
        unsafe { std::env::set_var("RUST_TEST_THREADS", THREADS) };
    }
}
