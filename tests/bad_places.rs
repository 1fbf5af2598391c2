//! The program where a machine gives it less than it wants: no namespaces, no `/proc`, nowhere to write. Each time one
//! line on standard error, and the documented status.
//!
//! Each place is made for the program alone, between fork and exec, in namespaces of its own: nothing of the host changes.

mod support {
    pub(crate) mod place;
    pub(crate) mod program;
}

use rstest::rstest;
use std::process::{Command, Stdio};
use support::place::{self, Place};
use support::program::{ran, run, smallwrites};

const WWR: &str = "C: W10 W10 R20 / S: R20 W20";

/// Puts the program into a place; where this machine cannot make it, says so and returns `None`.
fn in_place(place: Place, mut command: Command) -> Option<support::program::Ran> {
    match place::make(&mut command, place).output() {
        Ok(output) => Some(ran(&output)),
        Err(error) => {
            place::say_skipped(place, &error);
            None
        }
    }
}

/// Where namespaces are refused the shared loopback has to do, and the program says so.
#[rstest]
#[case::by_seccomp(Place::NoUnshare)]
#[case::by_sysctl(Place::NoNetworkNamespaces)]
fn without_namespaces_an_exchange_is_played_on_the_shared_loopback(#[case] place: Place) {
    let command = smallwrites(["try", WWR, "--requests", "4", "--format", "json"]);
    let Some(ran) = in_place(place, command) else { return };
    assert_eq!(ran.status, 0, "{ran}");
    let line = ran.one_line();
    assert!(line.starts_with("no private namespace here: "), "{ran}");
    assert!(line.contains("unshare -Urn") && line.ends_with("on the shared loopback meanwhile"), "{ran}");
    let json = ran.json();
    assert_eq!(json["observation"]["environment"]["place"], "shared loopback");
    assert_eq!(json["client"]["data_segments"], 8);
    assert!(json["delayed_acks"].is_null(), "counters that others move: {json}");
}

#[rstest]
#[case::by_seccomp(Place::NoUnshare)]
#[case::by_sysctl(Place::NoNetworkNamespaces)]
fn without_namespaces_claims_that_need_one_are_ignored_with_the_reason(#[case] place: Place) {
    let command = smallwrites(["verify", "delayed-acks-are-counted", "--format", "json"]);
    let Some(ran) = in_place(place, command) else { return };
    assert_eq!(ran.status, 0, "{ran}");
    ran.one_line();
    let json = ran.json();
    let claim = &json["claims"][0];
    assert_eq!(claim["outcome"], "ignored", "{ran}");
    assert!(claim["reason"].as_str().is_some_and(|reason| reason.starts_with("needs a private namespace: ")), "{ran}");
    assert!(claim["remedy"].as_str().is_some_and(|remedy| remedy.contains("unshare -Urn")), "{ran}");
}

#[rstest]
#[case::by_seccomp(Place::NoUnshare)]
#[case::by_sysctl(Place::NoNetworkNamespaces)]
fn without_namespaces_a_setting_of_ones_own_is_status_3(#[case] place: Place) {
    let command = smallwrites(["try", WWR, "--sysctl", "net.ipv4.tcp_sack=0"]);
    let Some(ran) = in_place(place, command) else { return };
    assert!(ran.refused(3).starts_with("no private namespace here: "), "{ran}");
}

#[rstest]
#[case::by_seccomp(Place::NoUnshare)]
#[case::by_sysctl(Place::NoNetworkNamespaces)]
fn without_namespaces_what_must_be_shown_is_status_3(#[case] place: Place) {
    let path = std::env::temp_dir().join(format!("smallwrites-{}-{place:?}", std::process::id()));
    let name = path.to_str().expect("UTF-8");
    let command = smallwrites(["verify", "delayed-acks-are-counted", "--require-all", "--out", name]);
    let Some(ran) = in_place(place, command) else { return };
    let _ = std::fs::remove_file(path);
    assert_eq!(ran.status, 3, "{ran}");
    assert!(ran.one_line().starts_with("1 claim ignored, first delayed-acks-are-counted: "), "{ran}");
}

/// Without `/proc` there are no namespaces and no counters, and the sockets still answer for themselves.
#[test]
fn without_proc_an_exchange_is_played_on_the_shared_loopback() {
    let command = smallwrites(["try", WWR, "--requests", "4", "--format", "json"]);
    let Some(ran) = in_place(Place::NoProc, command) else { return };
    assert_eq!(ran.status, 0, "{ran}");
    let line = ran.one_line();
    assert!(line.contains("/proc") && line.ends_with("on the shared loopback meanwhile"), "{ran}");
    let json = ran.json();
    assert_eq!(json["client"]["data_segments"], 8);
    assert!(json["delayed_acks"].is_null(), "unknown, not 0: {json}");
    assert!(json["observation"]["environment"]["pingpong_threshold"].is_null(), "unknown, not 0: {json}");
}

#[test]
fn without_proc_claims_are_checked_or_ignored_with_the_reason() {
    let Some(ran) = in_place(Place::NoProc, smallwrites(["verify", "nodelay-removes"])) else { return };
    assert_eq!(ran.status, 0, "{ran}");
    assert!(ran.one_line().contains("/proc"), "{ran}");
    let command = smallwrites(["verify", "delayed-acks-are-counted", "--require-all", "--out", "/dev/null"]);
    let Some(ran) = in_place(Place::NoProc, command) else { return };
    assert!(ran.refused(3).contains("/proc"), "{ran}");
}

#[test]
fn without_proc_the_kernels_facts_are_unknown_and_not_made_up() {
    let Some(ran) = in_place(Place::NoProc, smallwrites(["kernel"])) else { return };
    let row = |name: &str| ran.fine().lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(row("autocorking").ends_with("unknown"), "{ran}");
    assert!(row("private namespaces").contains("/proc"), "{ran}");
    let Some(ran) = in_place(Place::NoProc, smallwrites(["list"])) else { return };
    ran.fine();
}

#[test]
fn a_read_only_file_system_is_refused_before_anything_is_played() {
    let folder = std::env::temp_dir();
    let path = folder.join("report.json");
    let name = path.to_str().expect("UTF-8");
    let mut command = smallwrites(["verify", "nodelay-removes", "--out", name]);
    let made = place::make_read_only(&mut command, &folder).output();
    match made {
        Ok(output) => {
            let ran = ran(&output);
            let line = ran.refused(2);
            assert!(line.starts_with(&format!("cannot write {name}: Read-only file system")), "{ran}");
        }
        Err(error) => place::say_skipped(Place::ReadOnly, &error),
    }
}

#[rstest]
#[case::verify(&["verify", "nodelay-removes"])]
#[case::alone(&[])]
#[case::try_(&["try", WWR])]
#[case::list(&["list"])]
#[case::kernel(&["kernel"])]
#[case::help(&["--help"])]
fn a_closed_standard_output_is_refused_before_anything_is_played(#[case] arguments: &[&str]) {
    let mut command = smallwrites(arguments.iter().copied());
    let ran = run(place::make(&mut command, Place::StandardOutputClosed));
    assert!(ran.refused(2).starts_with("standard output is closed"), "{ran}");
}

#[test]
fn a_report_to_a_file_needs_no_standard_output() {
    let path = std::env::temp_dir().join(format!("smallwrites-{}-closed", std::process::id()));
    let mut command = smallwrites(["verify", "nodelay-removes", "--format", "canonical", "--out"]);
    command.arg(&path);
    let ran = run(place::make(&mut command, Place::StandardOutputClosed));
    ran.fine();
    let report = std::fs::read_to_string(&path).expect("the report");
    assert!(report.starts_with("nodelay-removes-stall: "), "{report}");
    let _ = std::fs::remove_file(path);
}

#[rstest]
#[case::verify(&["verify", "nodelay-removes"])]
#[case::try_(&["try", WWR, "--requests", "2"])]
#[case::list(&["list"])]
#[case::kernel(&["kernel"])]
#[case::help(&["--help"])]
fn a_reader_that_is_gone_is_told_in_one_line(#[case] arguments: &[&str]) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output =
        smallwrites(arguments.iter().copied()).stdout(writer).stderr(Stdio::piped()).output().expect("it runs");
    let ran = ran(&output);
    assert!(ran.refused(2).starts_with("cannot write to standard output: Broken pipe"), "{ran}");
}

#[test]
fn a_full_device_is_told_in_one_line() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("every Linux has it");
    let ran = ran(&smallwrites(["list"]).stdout(full).output().expect("it runs"));
    assert!(ran.refused(2).starts_with("cannot write to standard output: No space left on device"), "{ran}");
}

/// Where nobody reads the complaint either, the status still tells.
#[test]
fn a_closed_standard_error_does_not_change_the_status() {
    for (arguments, status) in [(&["list"][..], 0), (&["frobnicate"], 2)] {
        let mut command = smallwrites(arguments.iter().copied());
        let ran = run(place::make(&mut command, Place::StandardErrorClosed));
        assert_eq!(ran.status, status, "{arguments:?}\n{ran}");
    }
}
