//! Whether packets were handled inside the system call that sent them.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

/// How many times the ksoftirqd threads have run: what they handle is handled after the call that sent it (`__do_softirq`
/// leaves to them what comes when there is something else to run). 0 where they can't be seen, as in a container.
pub(crate) fn turns() -> u64 {
    static ACCOUNTS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let turns = |account: &PathBuf| fs::read_to_string(account).ok()?.split_whitespace().nth(2)?.parse::<u64>().ok();
    ACCOUNTS.get_or_init(accounts).iter().filter_map(turns).sum()
}

/// The scheduler's accounts of these threads.
fn accounts() -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flat_map(Iterator::flatten);
    let is_ksoftirqd =
        |folder: &PathBuf| fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.starts_with("ksoftirqd/"));
    processes.map(|entry| entry.path()).filter(is_ksoftirqd).map(|folder| folder.join("schedstat")).collect()
}
