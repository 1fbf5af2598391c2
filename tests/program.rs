//! The program: its commands, its statuses, what it says to arguments that it cannot use.

mod support {
    pub(crate) mod program;
    mod threads;
}

use rstest::rstest;
use serde_json::Value;
use smallwrites::claims;
use std::path::PathBuf;
use support::program::{run, smallwrites};

const WWR: &str = "C: W10 W10 R20 / S: R20 W20";

const COMMANDS: [&str; 7] = ["verify", "whatif", "compare", "try", "list", "kernel", "help"];

/// A file name of this test's own; what an earlier run left there is gone.
fn file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("smallwrites-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// A page of several files has a column for each, by its name alone while no other has it.
#[test]
fn a_page_of_several_files_names_each() {
    let (old, new) = (file("old.json"), file("new.json"));
    let [old, new] = [&old, &new].map(|path| path.to_str().expect("UTF-8"));
    run(&mut smallwrites(["verify", "counters-are-per", "--shared", "--save", old])).fine();
    std::fs::copy(old, new).expect("a second file");
    let stem = |path: &str| path.rsplit('/').next().and_then(|name| name.strip_suffix(".json")).map(str::to_owned);
    let (first, second) = (stem(old).expect("a stem"), stem(new).expect("a stem"));
    let ran = run(&mut smallwrites(["compare", old, new, "--format", "html"]));
    for shown in [format!("<h1>Small writes: {first}, {second}</h1>"), format!("What changed from {first} to {second}")]
    {
        assert!(ran.fine().contains(&shown), "{shown}\n{ran}");
    }
    let ran = run(&mut smallwrites(["compare", old, new, old, "--format", "html"]));
    assert!(ran.fine().contains(&format!("<h1>Small writes: {old}, {second}, {old}</h1>")), "{ran}");
    let _ = (std::fs::remove_file(old), std::fs::remove_file(new));
}

#[rstest]
#[case::option(&["--help"])]
#[case::short(&["-h"])]
#[case::command(&["help"])]
fn help_names_every_command_and_status(#[case] arguments: &[&str]) {
    let ran = run(&mut smallwrites(arguments.iter().copied()));
    let help = ran.fine();
    for command in COMMANDS {
        assert!(help.contains(&format!("smallwrites {command}")), "{command} is missing\n{help}");
    }
    for status in ["  0  ", "  1  ", "  2  ", "  3  "] {
        assert!(help.contains(status), "status{status}is missing\n{help}");
    }
}

#[rstest]
#[case::verify("verify", &["--format", "--out", "--save", "--against", "--times", "--sysctl", "--defaults", "--kselftest", "--require-all", "--shared"])]
#[case::compare("compare", &["--times", "--format", "--out"])]
#[case::whatif("whatif", &["--sysctl", "--defaults", "--times", "--format", "--out"])]
#[case::try_("try", &["--requests", "--fresh", "--order", "--mss", "--ipv6", "--sysctl", "--quickack-route", "--shared", "--format"])]
#[case::list("list", &["--format"])]
#[case::kernel("kernel", &["--format"])]
#[case::notation("notation", &["W10", "M10", "E10", "V10+10", "F1000", "R20", "P5", "shutdown", "bound[", "listening[", "relay:"])]
fn help_on_each_topic_shows_all_of_it_by_example(#[case] topic: &str, #[case] shown: &[&str]) {
    let ran = run(&mut smallwrites(["help", topic]));
    let help = ran.fine();
    for word in shown {
        assert!(help.contains(word), "{word} is missing\n{help}");
    }
    if topic != "notation" {
        assert!(help.contains(&format!("smallwrites {topic}")), "no example\n{help}");
        assert_eq!(run(&mut smallwrites([topic, "--help"])).fine(), help);
    }
}

/// Every exchange that the help shows can be played.
#[test]
fn the_notations_examples_parse() {
    let help = run(&mut smallwrites(["help", "notation"]));
    let mut examples = help.fine().lines().map(str::trim).filter(|line| line.starts_with("C:")).peekable();
    assert!(examples.peek().is_some());
    for example in examples {
        example.parse::<smallwrites::exchange::Exchange>().unwrap_or_else(|error| panic!("{example}: {error}"));
    }
}

#[test]
fn the_version_is_the_packages() {
    for option in ["--version", "-V"] {
        assert_eq!(run(&mut smallwrites([option])).fine(), format!("smallwrites {}\n", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn list_shows_every_claim_and_filters() {
    let ran = run(&mut smallwrites(["list"]));
    for claim in claims::catalogue() {
        assert!(ran.fine().contains(claim.id), "{} is missing", claim.id);
    }
    let entries = run(&mut smallwrites(["list", "--format", "json", "quickack"])).json();
    let ids: Vec<&str> =
        entries.as_array().expect("an array").iter().filter_map(|entry| entry["id"].as_str()).collect();
    let expected: Vec<&str> =
        claims::catalogue().iter().map(|claim| claim.id).filter(|id| id.contains("quickack")).collect();
    assert_eq!(ids, expected);
    for entry in entries.as_array().expect("an array") {
        for key in ["id", "document", "section", "says", "expected", "source", "control"] {
            assert!(entry[key].is_string(), "{key} is missing in {entry}");
        }
    }
}

#[test]
fn kernel_tells_the_facts_in_words_and_in_json() {
    let text = run(&mut smallwrites(["kernel"]));
    for fact in ["jiffy", "shortest delayed ACK", "pingpong threshold", "struct tcp_info", "private namespaces"] {
        assert!(text.fine().contains(fact), "{fact} is missing\n{}", text.out);
    }
    let json = run(&mut smallwrites(["kernel", "--format", "json"])).json();
    let probed = smallwrites::kernel::Kernel::probe().expect("the kernel can be probed");
    assert_eq!(json["release"], probed.release.as_str());
    assert_eq!(json["jiffy_us"], probed.jiffy_us);
    assert_eq!(json["tcp_info_bytes"], probed.tcp_info_bytes);
}

#[test]
fn try_in_words_names_verdict_cause_remedy_and_every_fix() {
    let ran = run(&mut smallwrites(["try", WWR, "--requests", "6"]));
    let text = ran.fine();
    for word in
        ["exchange", "verdict", "latency", "segments", "place", "as written", "one write", "TCP_CORK", "MSG_MORE"]
    {
        assert!(text.contains(word), "{word} is missing\n{text}");
    }
    for fix in smallwrites::exchange::Fix::ALL {
        assert!(text.lines().any(|line| line.starts_with(&fix.to_string())), "{fix} is missing\n{text}");
    }
}

#[test]
fn try_in_json_has_the_promised_keys() {
    let json = run(&mut smallwrites(["try", WWR, "--requests", "6", "--format", "json"])).json();
    for key in ["verdict", "stalled_requests", "delayed_acks", "held_bytes", "cause", "remedy", "client", "server"] {
        assert!(json.get(key).is_some(), "{key} is missing in {json}");
    }
    assert_eq!(json["schema"], 1);
    assert_eq!(json["requests"], 6);
    assert_eq!(json["client"]["data_segments"], 12);
    assert_eq!(json["server"]["data_segments"], 6);
    assert_eq!(json["observation"]["requests"].as_array().map(Vec::len), Some(6));
    // Each fix by name, with what it changes; one write has nothing that could leave by itself, however late the machine.
    let fixes = json["fixes"].as_array().expect("an array");
    let one_write = fixes.iter().find(|fix| fix["fix"] == "one write").expect("a row for it");
    assert_eq!(
        (&one_write["verdict"], &one_write["client"]["data_segments"]),
        (&"none".into(), &6.into()),
        "{one_write}"
    );
    for fix in fixes {
        assert!(fix["exchange"].as_str().is_some_and(|exchange| exchange != WWR), "{fix}");
    }
}

/// Without a socket, so on any machine: a relay's two are predicted like the ends'.
#[test]
fn a_prediction_covers_the_sockets_of_a_relay() {
    let exchange = "C: [nodelay] W75 R83 / relay: / S: [nodelay] R75 W79 P1 W4";
    let arguments = ["try", exchange, "--predict-only", "--requests", "8"];
    let ran = run(&mut smallwrites(arguments));
    let text = ran.fine();
    for line in [
        "model     all-but-first · 1×40ms",
        "segments  client 8, relay towards the client 16, relay towards the server 8, server 16 with data",
        "      2     0 relay towards the client holds 4",
        "      2    11 client                   delayed-ACK timer",
    ] {
        assert!(text.lines().any(|written| written == line), "{line} is missing\n{text}");
    }
    let json = run(&mut smallwrites(arguments.into_iter().chain(["--format", "json"]))).json();
    assert_eq!(json["relay"]["client"]["data_segments"], 16, "towards the client");
    assert_eq!(json["relay"]["server"]["data_segments"], 8, "towards the server");
}

/// Each option reaches the exchange.
#[rstest]
#[case::ipv6(&["--ipv6"], "/observation/environment/family", "IPv6".into())]
#[case::short_ipv6(&["-6"], "/observation/environment/family", "IPv6".into())]
#[case::order(&["--order", "turns"], "/observation/order", "turns".into())]
#[case::fresh(&["--fresh"], "/observation/fresh", true.into())]
#[case::mss(&["--mss", "1000"], "/observation/exchange", "C: [mss=1000] W10 W10 R20 / S: [mss=1000] R20 W20".into())]
#[case::shared(&["--shared"], "/observation/environment/place", "shared loopback".into())]
#[case::requests(&["-n", "3"], "/requests", 3.into())]
fn an_option_of_try_does_what_it_says(#[case] options: &[&str], #[case] pointer: &str, #[case] expected: Value) {
    let arguments = ["try", WWR, "-n", "2", "--format", "json"].into_iter().chain(options.iter().copied());
    let json = run(&mut smallwrites(arguments)).json();
    assert_eq!(json.pointer(pointer), Some(&expected), "{json}");
}

#[test]
fn verify_in_json_has_the_promised_keys() {
    let json = run(&mut smallwrites(["verify", "halves-segments", "--format", "json"])).json();
    assert_eq!(json["schema"], 1);
    let claims = json["claims"].as_array().expect("an array");
    assert_eq!(claims.len(), claims::catalogue().iter().filter(|claim| claim.id.contains("halves-segments")).count());
    for claim in claims {
        for key in ["id", "document", "expected", "outcome", "reason", "evidence"] {
            assert!(claim.get(key).is_some(), "{key} is missing in {claim}");
        }
        assert_eq!(claim["outcome"], "passed", "{claim}");
        assert!(claim["reason"].is_null(), "{claim}");
        assert!(claim["evidence"]["canonical"].is_string(), "{claim}");
        assert!(claim["evidence"]["samples"].as_array().is_some_and(|samples| !samples.is_empty()), "{claim}");
    }
}

/// Options before any command belong to verify, and a filter may be part of a name.
#[rstest]
#[case::text(&["verify", "nodelay-removes"], "as expected")]
#[case::markdown(&["verify", "nodelay-removes", "--format", "markdown"], "| `nodelay-removes-stall` |")]
#[case::canonical(&["verify", "nodelay-removes", "--format=canonical"], "nodelay-removes-stall: passed")]
#[case::no_command(&["--format", "canonical", "nodelay-removes"], "nodelay-removes-stall: passed")]
fn verify_in_each_format(#[case] arguments: &[&str], #[case] shown: &str) {
    let ran = run(&mut smallwrites(arguments.iter().copied()));
    assert!(ran.fine().contains(shown), "{ran}");
    assert!(!ran.out.contains('\x1b'), "colour where nobody sees it\n{ran}");
}

#[test]
fn a_report_goes_to_a_file_and_nowhere_else() {
    let path = file("report.json");
    let name = path.to_str().expect("UTF-8");
    let ran = run(&mut smallwrites(["verify", "nodelay-removes", "--format", "json", "--out", name]));
    assert_eq!(ran.fine(), "");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&path).expect("it was written")).expect("JSON");
    assert_eq!(report["claims"][0]["id"], "nodelay-removes-stall");
    let _ = std::fs::remove_file(path);
}

/// What cannot be used is status 2, and one line that says what and what to do.
#[rstest]
#[case::unknown_command(&["frobnicate"], "no command \"frobnicate\"; there are verify, ")]
#[case::exchange_as_command(&[WWR], "an exchange is played with try")]
#[case::unknown_option(&["verify", "--frob"], "verify does not know --frob; smallwrites help verify")]
#[case::unknown_option_of_try(&["try", WWR, "--frob"], "try does not know --frob; smallwrites help try")]
#[case::unknown_option_alone(&["--frob"], "--frob")]
#[case::unknown_filter(&["verify", "nodelay", "no-such-claim"], "no claim has \"no-such-claim\" in its name; smallwrites list")]
#[case::unknown_filter_of_list(&["list", "no-such-claim"], "no claim has \"no-such-claim\" in its name")]
#[case::unknown_format(&["verify", "--format", "xml"], "--format xml: met \"xml\", expected one of text, json")]
#[case::format_of_try(&["try", WWR, "--format", "markdown"], "try prints --format text or json")]
#[case::no_value(&["verify", "--out"], "--out")]
#[case::no_exchange(&["try"], "try needs an exchange, such as 'C: W10 W10 R20 / S: R20 W20'")]
#[case::bad_notation(&["try", "C: W10 w10 / S: R20"], "column 8: met \"w10\", expected a step")]
#[case::half_an_exchange(&["try", "C: W10"], "column 7: met the end, expected a step")]
#[case::no_requests(&["try", WWR, "--requests", "0"], "--requests takes 1 to 100000, not 0")]
#[case::many_requests(&["try", WWR, "--requests", "many"], "--requests many: ")]
#[case::odd_order(&["try", WWR, "--order", "random"], "--order random: expected ordered, turns or free")]
#[case::odd_mss(&["try", WWR, "--mss", "tiny"], "--mss tiny: ")]
#[case::impossible_mss(&["try", WWR, "--mss", "1"], "refuses mss=1")]
#[case::sysctl_without_value(&["try", WWR, "--sysctl", "net.ipv4.tcp_sack"], "expected NAME=VALUE, such as net.ipv4.tcp_pingpong_thresh=3")]
#[case::sysctl_of_another_kind(&["try", WWR, "--sysctl", "kernel.hostname=x"], "expected NAME=VALUE")]
#[case::sysctl_with_no_number(&["try", WWR, "--sysctl", "net.ipv4.tcp_early_retrans=some"], "cannot set net.ipv4.tcp_early_retrans to some")]
#[case::sysctl_outside(&["try", WWR, "--sysctl", "net./../../etc/passwd=x"], "is not a sysctl name")]
#[case::deadlock(&["try", "C: W10 R20 / S: R11 W20"], "request 1 is stuck: the client waits in step 2 (R20), the server waits in step 1 (R11)")]
#[case::shutdown(&["try", "C: W10 shutdown R20 / S: R10 W20"], "request 2: the client waits in step 1 (W10), and the client has shut down")]
#[case::relay_out_of_order(&["try", "C: W10 R20 / relay: / S: R10 W20", "--order", "free"], "a relay plays in order `ordered` only")]
#[case::unknown_topic(&["help", "frob"], "help knows verify, ")]
#[case::sysctl_on_the_shared_loopback(&["try", WWR, "--shared", "--sysctl", "net.ipv4.tcp_sack=0"], "needs a private namespace")]
fn unusable_arguments_are_refused_in_one_line(#[case] arguments: &[&str], #[case] said: &str) {
    let ran = run(&mut smallwrites(arguments.iter().copied()));
    let line = ran.refused(2);
    assert!(line.contains(said), "expected it to say: {said}\n{ran}");
}

#[test]
fn a_name_that_is_no_text_is_refused_in_one_line() {
    use std::os::unix::ffi::OsStrExt;
    let mut command = smallwrites(["try"]);
    command.arg(std::ffi::OsStr::from_bytes(b"C: W10 \xff / S: R10"));
    run(&mut command).refused(2);
}

/// What another kernel may have is this machine's lack: status 3.
#[test]
fn a_sysctl_that_this_kernel_lacks_is_status_3() {
    let ran = run(&mut smallwrites(["try", WWR, "--sysctl", "net.ipv4.tcp_no_such_setting=1"]));
    assert!(ran.refused(3).contains("net.ipv4.tcp_no_such_setting"), "{ran}");
}

/// A sysctl reaches the lab, and only the lab.
#[test]
fn a_sysctl_is_set_in_the_lab_and_not_on_the_host() {
    let here = || smallwrites::sys::counters::sysctl("net.ipv4.tcp_sack").expect("every kernel has it");
    let before = here();
    let json =
        run(&mut smallwrites(["try", WWR, "-n", "2", "--format", "json", "--sysctl", "net.ipv4.tcp_sack=0"])).json();
    assert_eq!(json["observation"]["environment"]["pinned"]["net.ipv4.tcp_sack"], "0");
    assert_eq!(here(), before);
}

#[rstest]
#[case::folder(std::env::temp_dir())]
#[case::no_such_folder(std::env::temp_dir().join("no-such-folder").join("report"))]
#[case::full_device(PathBuf::from("/dev/full"))]
#[case::below_a_file(PathBuf::from("/dev/null/report"))]
fn an_output_file_that_cannot_be_written_is_refused_in_one_line(#[case] path: PathBuf) {
    let name = path.to_str().expect("UTF-8");
    let ran = run(&mut smallwrites(["verify", "nodelay-removes", "--out", name]));
    let line = ran.refused(2);
    assert!(line.contains(&format!("cannot write {name}: ")), "{ran}");
}
