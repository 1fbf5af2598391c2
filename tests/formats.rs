//! The written formats, read by parsers that are not this project's. Where one is not installed its test says so.

mod support {
    pub(crate) mod program;
    mod threads;
}

use std::io::Write;
use std::process::{Command, Stdio};
use support::program::{run, smallwrites};

/// A schema of JUnit XML as continuous integration reads it.
const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/junit.xsd");

/// A report in this format, of claims that pass and, on the shared loopback, of some that are ignored.
fn report(format: &str, options: &[&str]) -> String {
    let arguments = ["verify", "halves-segments", "counters-are-per", "--format", format];
    let ran = run(&mut smallwrites(arguments.into_iter().chain(options.iter().copied())));
    assert_eq!(ran.status, 0, "{ran}");
    ran.out
}

/// What a program says of a text on its standard input; `None` where it is not installed.
fn ask(program: &str, arguments: &[&str], text: &str) -> Option<(bool, String)> {
    let spawned = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            println!("SKIPPED: {program}: {error}");
            return None;
        }
    };
    // It may end before it has read everything, and then says why.
    let _ = child.stdin.take().expect("it is piped").write_all(text.as_bytes());
    let output = child.wait_with_output().expect("it was started");
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn junit_is_valid_by_its_schema() {
    for options in [&[] as &[&str], &["--shared"]] {
        let text = report("junit", options);
        let Some((valid, said)) = ask("xmllint", &["--noout", "--schema", SCHEMA, "-"], &text) else { return };
        assert!(valid, "{said}\n{text}");
    }
    // The schema can say no.
    let Some((valid, _)) = ask("xmllint", &["--noout", "--schema", SCHEMA, "-"], "<testsuites><claim/></testsuites>")
    else {
        return;
    };
    assert!(!valid);
}

#[test]
fn a_page_is_well_formed_to_xmllint() {
    let text = report("html", &[]);
    let Some((read, said)) = ask("xmllint", &["--noout", "--html", "-"], &text) else { return };
    // Its HTML is older than main, section, figure and svg, which it names as unknown.
    let other: Vec<&str> = said.lines().filter(|line| line.contains("error") && !line.contains("Tag ")).collect();
    assert!(read && other.is_empty(), "{other:?}");
}

/// By the formula of WCAG 2: 4.5 to 1 for text, 3 to 1 for what a picture is read by, in light, in dark and on paper.
#[test]
fn a_page_has_contrast() {
    const STYLE: &str = include_str!("../src/report/html/style.css");
    let grounds: Vec<&str> = STYLE.split(":root {").skip(1).filter_map(|rest| rest.split('}').next()).collect();
    assert_eq!(grounds.len(), 3, "light, dark and paper");
    for ground in grounds {
        let light = |name: &str| luminance(ground.split(&format!("--{name}: #")).nth(1).expect(name));
        let contrast = |one: &str, other: &str| {
            let (one, other) = (light(one) + 0.05, light(other) + 0.05);
            (one / other).max(other / one)
        };
        for text in ["text", "quiet", "link", "good", "bad", "open"] {
            for under in ["ground", "raised", "mark"] {
                assert!(contrast(text, under) >= 4.5, "{text} on {under}: {}{ground}", contrast(text, under));
            }
        }
        for drawn in ["fast", "bad", "client", "server", "quiet", "text", "grid"] {
            assert!(contrast(drawn, "raised") >= 3.0, "{drawn}: {}{ground}", contrast(drawn, "raised"));
        }
    }
}

/// How light a colour is, of `rrggbb` or `rgb` and what follows.
fn luminance(colour: &str) -> f64 {
    let digits: Vec<u32> = colour.chars().map_while(|digit| digit.to_digit(16)).collect();
    let parts: Vec<u32> = match digits.len() {
        3 => digits.iter().map(|digit| digit * 17).collect(),
        6 => digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect(),
        _ => panic!("no colour: {digits:?}"),
    };
    let linear = parts.into_iter().map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    });
    linear.zip([0.2126, 0.7152, 0.0722]).map(|(part, weight)| part * weight).sum()
}

#[test]
fn json_and_json_lines_are_read_by_jq() {
    let Some((read, said)) = ask("jq", &["-e", "[.claims[].outcome] | length"], &report("json", &[])) else { return };
    assert!(read && said.trim() == "4", "{said}");
    let lines = report("jsonl", &[]);
    let Some((read, said)) = ask("jq", &["-rc", ".event"], &lines) else { return };
    assert!(read && said == "started\nclaim\nclaim\nclaim\nclaim\nended\n", "{said}\n{lines}");
}

#[test]
fn ktap_is_read_by_tap_py() {
    const READ: &str = "
import collections, sys
try:
    from tap.parser import Parser
except ImportError:
    sys.exit(77)
seen = collections.Counter()
for line in Parser().parse_text(sys.stdin.read()):
    seen[line.category] += 1
    if line.category == 'test':
        assert line.ok and line.number == seen['test'], line
        seen['skip'] += line.skip
        if line.skip:
            assert line.directive.reason, line
print(dict(seen)['test'], seen['skip'], seen['plan'])
";
    for (options, skipped) in [(&[] as &[&str], None), (&["--shared"], Some("1"))] {
        let text = report("ktap", options);
        let Some((read, said)) = ask("python3", &["-c", READ], &text) else { return };
        if said.is_empty() && !read {
            println!("SKIPPED: python3 has no tap.parser; pip install tap.py");
            return;
        }
        let said: Vec<&str> = said.split_whitespace().collect();
        assert!(read && said[0] == "4" && said[2] == "1", "{said:?}\n{text}");
        assert!(skipped.is_none_or(|skipped| said[1] == skipped), "{said:?}\n{text}");
    }
}

/// The rules of the kernel's documentation, line by line.
#[test]
fn ktap_keeps_the_rules() {
    let text = report("ktap", &["--shared"]);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("KTAP version 1"));
    assert_eq!(lines.next(), Some("1..4"));
    let mut number = 0;
    for line in lines.filter(|line| !line.starts_with("# ")) {
        number += 1;
        let rest = line.strip_prefix("ok ").or_else(|| line.strip_prefix("not ok ")).expect("a result");
        let (count, rest) = rest.split_once(' ').expect("a number and a name");
        assert_eq!(count.parse(), Ok(number));
        let (name, directive) = rest.split_once(" # ").unwrap_or((rest, ""));
        assert!(!name.contains('#') && (directive.is_empty() || directive.starts_with("SKIP ")), "{line}");
    }
    assert_eq!(number, 4);
}

#[test]
fn kselftest_ends_with_the_kernels_codes() {
    let status = |arguments: &[&str]| run(&mut smallwrites(arguments.iter().copied())).status;
    assert_eq!(status(&["verify", "cork-halves", "--kselftest"]), 0);
    assert_eq!(status(&["verify", "counters-are-per", "--kselftest", "--shared"]), 4);
    assert_eq!(status(&["verify", "cork-halves", "--kselftest", "--out", "/nowhere/x"]), 1);
}
