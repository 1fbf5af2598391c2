//! Namespaces of the test process's own.

/// Before `main`, while the process has one thread: afterwards nobody may enter a user namespace any more.
#[ctor::ctor]
fn enter() {
    // Where it is refused, each test finds out and says so.
    let _ = smallwrites::lab::enter();
}
