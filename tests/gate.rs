//! Baselines, comparisons and settings as a CI uses them: the program, its files and its statuses.

mod support {
    pub(crate) mod program;
    mod threads;
}

use rstest::rstest;
use smallwrites::sys::counters;
use std::path::PathBuf;
use support::program::{run, smallwrites};

const THRESHOLD: &str = "net.ipv4.tcp_pingpong_thresh";
const STALLS: &str = "default-pattern-stalls";

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("smallwrites-gate-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder for files");
    path
}

/// Why the threshold cannot be tried here, if it cannot.
fn skip() -> Option<String> {
    let private = smallwrites::lab::Conditions::default().run(|_| ());
    let reason = match (private, counters::sysctl(THRESHOLD)) {
        (Err(error), _) => error.to_string(),
        (_, Err(_)) => format!("this kernel has no {THRESHOLD}"),
        (_, Ok(value)) if value != "1" => format!("{THRESHOLD} is {value} here"),
        _ => return None,
    };
    println!("SKIPPED: {reason}");
    Some(reason)
}

fn set(value: u32) -> String {
    format!("{THRESHOLD}={value}")
}

#[test]
fn a_run_against_its_own_baseline_changes_nothing() {
    let folder = folder("same");
    let file = folder.join("baseline.json");
    let file = file.to_str().expect("UTF-8");
    run(&mut smallwrites(["verify", "halves-segments", "--save", file])).fine();
    let ran = run(&mut smallwrites(["verify", "halves-segments", "--against", file]));
    assert!(ran.fine().contains("3 claims unchanged"), "{ran}");
    let ran = run(&mut smallwrites(["compare", file, file, "--times", "0"]));
    assert!(ran.fine().ends_with("\n3 claims unchanged\n"), "{ran}");
    // A filter compares what it chose, and nothing vanishes by it.
    let ran = run(&mut smallwrites(["verify", "cork-halves", "--against", file]));
    assert!(ran.fine().contains("1 claim unchanged"), "{ran}");
    assert_eq!(std::fs::read_dir(&folder).expect("it is there").count(), 1, "a part was left behind");
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn a_setting_that_turns_a_claim_false_is_named() {
    if skip().is_some() {
        return;
    }
    let before = counters::sysctl(THRESHOLD).expect("it has been read");
    let ran = run(&mut smallwrites(["verify", "default-pattern", "--defaults", "--sysctl", &set(3)]));
    assert!(ran.status == 1, "{ran}");
    assert!(ran.out.contains("net.ipv4.tcp_pingpong_thresh=3 differs from the default 1"), "{ran}");
    assert!(ran.out.contains("settings: net.ipv4.tcp_pingpong_thresh=3 (default 1), as asked"), "{ran}");
    assert_eq!(counters::sysctl(THRESHOLD).expect("still there"), before, "the host was touched");
}

#[test]
fn whatif_flips_what_the_setting_turns_false_and_nothing_else() {
    if skip().is_some() {
        return;
    }
    let ran = run(&mut smallwrites(["whatif", "--sysctl", &set(3), "--format", "json", "default-pattern", "halves"]));
    assert!(ran.status == 1, "{ran}");
    let changed: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(changed["flips"][0]["claim"], STALLS, "{ran}");
    assert_eq!(changed["flips"].as_array().map(Vec::len), Some(1), "{ran}");
    assert_eq!(changed["unchanged"], 3, "{ran}");
    assert_eq!(changed["settings"][0]["name"], THRESHOLD, "{ran}");
    assert_eq!(changed["settings"][0]["new"], "3", "{ran}");
}

#[test]
fn a_baseline_trips_on_a_verdict_and_says_which() {
    if skip().is_some() {
        return;
    }
    let folder = folder("trips");
    let file = folder.join("baseline.json");
    let file = file.to_str().expect("UTF-8");
    run(&mut smallwrites(["verify", "default-pattern", "--defaults", "--save", file])).fine();
    let whole = ["verify", "default-pattern", "--defaults", "--sysctl", &set(3), "--against", file, "--format"];
    for (format, shown) in [
        ("text", "verdict flips\n  default-pattern-stalls"),
        ("markdown", "| `default-pattern-stalls` | **passed (holds)**"),
        ("github", "::error title=verdict flip%3A default-pattern-stalls::"),
        ("html", "<caption>Verdict flips</caption>"),
    ] {
        let ran = run(&mut smallwrites(whole.into_iter().chain([format])));
        assert!(ran.status == 1 && ran.out.contains(shown), "{format}\n{ran}");
    }
    let _ = std::fs::remove_dir_all(folder);
}

/// What a setting of the user's pins is what is measured, also where every lab would pin it otherwise.
#[test]
fn what_the_user_asks_for_wins_over_what_labs_pin() {
    if skip().is_some() {
        return;
    }
    let asked = ["verify", "default-pattern", "--sysctl", "net.ipv4.tcp_early_retrans=3", "--format", "json"];
    let ran = run(&mut smallwrites(asked));
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(report["settings"][0]["name"], "net.ipv4.tcp_early_retrans", "{ran}");
    assert_eq!(report["settings"][0]["origin"], "override", "{ran}");
    assert_eq!(report["kernel"]["loss_probe"], true, "{ran}");
}

#[rstest]
#[case::no_such_setting(&["verify", "--sysctl", "net.ipv4.tcp_nope=1"], "cannot set net.ipv4.tcp_nope to 1")]
#[case::a_value_out_of_range(&["whatif", "--sysctl", "net.ipv4.tcp_pingpong_thresh=999999"], "cannot set")]
#[case::not_of_the_net(&["verify", "--sysctl", "kernel.hostname=x"], "--sysctl kernel.hostname=x: expected NAME=VALUE")]
#[case::nothing_to_try(&["whatif"], "whatif needs a setting to try")]
#[case::one_file(&["compare", "a.json"], "compare needs two files or more")]
#[case::no_such_file(&["compare", "/nowhere/a.json", "/nowhere/b.json"], "cannot read /nowhere/a.json")]
#[case::a_folder(&["verify", "--against", "/"], "cannot read /: ")]
#[case::not_a_report(&["compare", "/proc/version", "/proc/version"], "/proc/version: not a report of smallwrites")]
#[case::empty(&["verify", "--against", "/dev/null"], "/dev/null: cut short")]
#[case::endless(&["compare", "/dev/zero", "/dev/zero"], "/dev/zero")]
#[case::no_place_to_save(&["verify", "--save", "/nowhere/a.json"], "cannot write /nowhere/a.json")]
#[case::times_of_nothing(&["verify", "--times", "5"], "--times limits a comparison")]
#[case::times_that_are_none(&["compare", "a", "b", "--times", "-3"], "--times -3")]
#[case::a_form_without_comparison(&["verify", "--against", "x", "--format", "ktap"], "a comparison is printed as")]
#[case::defaults_on_loopback(&["verify", "--shared", "--defaults"], "--defaults needs private namespaces")]
fn what_cannot_be_used_is_refused_in_one_line(#[case] arguments: &[&str], #[case] says: &str) {
    let ran = run(&mut smallwrites(arguments.iter().copied()));
    if ran.status == 3 && skip().is_some() {
        return;
    }
    assert!(ran.refused(2).contains(says), "{ran}");
}
