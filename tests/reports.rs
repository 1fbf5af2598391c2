//! Reports: the live catalogue in canonical words, one snapshot for each document, and each renderer on fixed outcomes.
//!
//! To take the snapshots anew: `INSTA_UPDATE=always cargo test --test reports`.

mod support {
    pub(crate) mod fixed;
    mod namespaces;
    pub(crate) mod snapshots;
    mod threads;
}

use rstest::rstest;
use serde_json::Value;
use smallwrites::claims::{
    self, Claim, Control, Document, Evidence, Expected, Finding, Missing, Outcome, Sample, Setting, Twist,
};
use smallwrites::exchange::Sides;
use smallwrites::expect::{Kind, expect};
use smallwrites::kernel::{DELACK_MIN, Kernel};
use smallwrites::lab::Settings;
use smallwrites::observation::Observation;
use smallwrites::report::html::{Column, Page};
use smallwrites::report::sequence::Sequence;
use smallwrites::report::{Format, Record, Report, Style, canonical};
use smallwrites::verdict::Verdict;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;
use support::fixed::{fine, stalled};
use support::snapshots::snapshots;

/// Checks a document's claims on the running kernel and holds what they came to against the snapshot.
#[rstest]
#[case::chapter(Document::Chapter)]
#[case::article(Document::Article)]
#[case::echo_lab(Document::EchoLab)]
#[case::beyond(Document::Beyond)]
fn the_catalogue_in_canonical_words(#[case] document: Document) {
    let claims: Vec<&'static Claim> =
        claims::catalogue().into_iter().filter(|claim| claim.document == document).collect();
    if claims.is_empty() {
        return;
    }
    let setting = Setting::probe().expect("the kernel can be probed");
    if let Some(reason) = other_kernel(&setting) {
        say(&format!("SKIPPED the canonical report of {document}: {reason}"));
        return;
    }
    let outcomes = claims::run(&claims, &setting, |_| {});
    // A failure is never put on record, and its own text says more than a line that differs.
    let failures = outcomes.iter().filter_map(|outcome| match &outcome.finding {
        Finding::Failed(failure) => Some(failure.to_string()),
        _ => None,
    });
    let failures: Vec<String> = failures.collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    let name = format!("canonical_{document}");
    let report = report_of(&outcomes, &recorded(&name));
    snapshots().bind(|| insta::assert_snapshot!(name, report));
}

/// Why the snapshots, which were taken on one kernel under its defaults, are not what this one has to answer.
fn other_kernel(setting: &Setting) -> Option<String> {
    if let Some(refused) = setting.refused() {
        return Some(refused);
    }
    let kernel = setting.base.run(|lab| lab.kernel().clone()).expect("a lab was just to be had");
    if kernel.pingpong_threshold != Some(1) {
        return Some(format!("the pingpong threshold is {:?}, and they were taken with 1", kernel.pingpong_threshold));
    }
    if kernel.delayed_ack() != DELACK_MIN {
        return Some(format!("the shortest delayed ACK is {:?}, and they were taken with 40 ms", kernel.delayed_ack()));
    }
    None
}

/// The canonical lines of one document, section by section.
///
/// A claim that cannot be shown here keeps the line on record, and one that could not be shown when the record was made
/// has nothing to be held against: both are said on standard error.
fn report_of(outcomes: &[Outcome], recorded: &BTreeMap<String, String>) -> String {
    let taking =
        std::env::var("INSTA_UPDATE").is_ok_and(|update| matches!(update.as_str(), "always" | "force" | "new"));
    let mut out = String::new();
    let mut section = "";
    let mut outcomes: Vec<&Outcome> = outcomes.iter().collect();
    let sections: Vec<&str> = outcomes.iter().map(|outcome| outcome.claim.section).collect();
    outcomes.sort_by_key(|outcome| sections.iter().position(|section| *section == outcome.claim.section));
    for outcome in outcomes {
        let claim = outcome.claim;
        if claim.section != section {
            let _ = writeln!(out, "{}{}:", if out.is_empty() { "" } else { "\n" }, claim.section);
            section = claim.section;
        }
        let line = canonical(outcome);
        let ignored = |line: &str| line.starts_with(&format!("{}: ignored ", claim.id));
        let line = match recorded.get(claim.id) {
            Some(known) if ignored(&line) && !ignored(known) => {
                say(&format!("SKIPPED {line}"));
                known.clone()
            }
            Some(known) if ignored(known) && !taking => {
                say(&format!("not on record yet: {line}"));
                known.clone()
            }
            _ => line,
        };
        let _ = writeln!(out, "  {line}");
    }
    out
}

/// The lines of a snapshot, by the claim's id.
fn recorded(name: &str) -> BTreeMap<String, String> {
    let path = format!("{}/snapshots/{name}.snap", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
    lines.filter_map(|line| Some((line.split_once(": ")?.0.to_owned(), line.to_owned()))).collect()
}

/// On standard error for good: libtest keeps what a passing test prints with `eprintln!`.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Wherever in the catalogue the claims of a section stand, a report has one heading for them.
#[test]
fn a_section_has_one_heading() {
    let (kernel, settings) = (kernel(), Settings::default());
    let missing = Missing { reason: "no clock".to_owned(), remedy: "wind it up".to_owned() };
    let again =
        Outcome { claim: &REFUTED, finding: Finding::Ignored(missing), took: Duration::ZERO, samples: Vec::new() };
    let mut outcomes = outcomes();
    outcomes.push(again);
    let report = Report {
        kernel: &kernel,
        settings: &settings,
        shared: None,
        outcomes: &outcomes,
        took: Duration::ZERO,
        sequences: &[],
    };
    let text = report.render(Format::Text, Style::default());
    let headings = |name: &str| text.lines().filter(|line| line.trim() == name).count();
    assert_eq!((headings("lab 1"), headings("languages"), headings("measurements")), (1, 1, 1), "{text}");
}

static HOLDS: Claim = Claim {
    id: "two-writes-stall",
    document: Document::Chapter,
    section: "lab 1",
    says: "two small writes, then a read: every request but the first waits",
    expected: Expected::Holds,
    source: "tcp_nagle_check",
    needs: &[],
    check: |_| unreachable!("its outcome is fixed"),
    control: CONTROL,
};

static LIMITED: Claim = Claim {
    id: "cork-halves",
    section: "lab 1",
    says: "cork | uncork halves the segments",
    expected: Expected::HoldsWithLimit("only with nothing in flight"),
    ..HOLDS
};

static REFUTED: Claim = Claim {
    id: "echo-is-slow",
    document: Document::Article,
    section: "measurements",
    says: "one write per turn takes 42 ms with Nagle",
    expected: Expected::Refuted("one write has nothing to wait for"),
    ..HOLDS
};

static IGNORED: Claim = Claim {
    id: "node-sets-nodelay",
    document: Document::Article,
    section: "languages",
    says: "Node's http server sets TCP_NODELAY",
    ..HOLDS
};

const CONTROL: Control = Control { breaks: "nothing: its outcome is fixed", twist: Twist::Check };

fn sample(seen: &Observation) -> Sample {
    Sample {
        exchange: seen.exchange.to_string(),
        order: seen.order,
        place: seen.environment.place.clone(),
        verdict: Verdict::of(seen),
        latencies_us: seen.latencies_us(),
        data_segments: Sides::from_fn(|side| seen.sockets[side].data_segments),
        segments_by_request: Sides::from_fn(|side| {
            seen.requests.iter().map(|request| request.data_segments[side]).collect()
        }),
        bare_acks: Sides::from_fn(|side| seen.sockets[side].bare_acks),
        counters: Some(BTreeMap::from([("TcpExtDelayedACKs".to_owned(), 4)])),
    }
}

/// One claim that holds, one that holds with a limit, one that fails, one that cannot be shown.
fn outcomes() -> Vec<Outcome> {
    let outcome = |claim, finding, seen: Option<Observation>| Outcome {
        claim,
        finding,
        took: Duration::from_millis(223),
        samples: seen.iter().map(sample).collect(),
    };
    let evidence = Evidence::says("all-but-first, client 10 data segments", "median 44.0 ms, n 4, worst 47.3 ms");
    let mut failure = expect(&stalled()).try_no_stall().map(drop).expect_err("four requests stall");
    failure.claim = Some(format!("{}: {}", REFUTED.id, REFUTED.says));
    assert_eq!(failure.kind, Kind::Stall);
    let missing = Missing { reason: "node is not installed".to_owned(), remedy: "install it".to_owned() };
    vec![
        outcome(&HOLDS, Finding::Passed(evidence), Some(stalled())),
        outcome(&LIMITED, Finding::Passed(Evidence::says("no stall, client 5 data segments", "")), Some(fine())),
        outcome(&REFUTED, Finding::Failed(failure), Some(stalled())),
        outcome(&IGNORED, Finding::Ignored(missing), None),
    ]
}

fn kernel() -> Kernel {
    Kernel {
        release: "6.18.2".to_owned(),
        jiffy_us: 4_000,
        tcp_info_bytes: 280,
        pingpong_threshold: Some(1),
        delack_max_us: Some(200_000),
        rto_min_us: Some(200_000),
        loss_probe: Some(true),
        autocorking: Some(true),
        backlog_ack_defer: Some(true),
        congestion_control: Some("cubic".to_owned()),
        sysctls: BTreeMap::from([("net.ipv4.tcp_pingpong_thresh".to_owned(), "1".to_owned())]),
    }
}

fn rendered(format: Format, style: Style, shared: Option<String>) -> String {
    let (kernel, outcomes, settings) = (kernel(), outcomes(), Settings::default());
    let took = Duration::from_millis(2_345);
    let report = Report { kernel: &kernel, settings: &settings, shared, outcomes: &outcomes, took, sequences: &[] };
    // The version is no part of the form.
    report.render(format, style).replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

#[rstest]
#[case::text(Format::Text, "text")]
#[case::json(Format::Json, "json")]
#[case::markdown(Format::Markdown, "markdown")]
#[case::canonical(Format::Canonical, "canonical")]
#[case::ktap(Format::Ktap, "ktap")]
#[case::junit(Format::Junit, "junit")]
#[case::github(Format::Github, "github")]
#[case::json_lines(Format::JsonLines, "jsonl")]
fn each_format_of_fixed_outcomes(#[case] format: Format, #[case] name: &str) {
    snapshots().bind(|| insta::assert_snapshot!(format!("report_{name}"), rendered(format, Style::default(), None)));
}

#[test]
fn a_narrow_terminal_cuts_evidence_and_never_names() {
    let style = Style { colour: false, width: Some(80) };
    let text = rendered(Format::Text, style, Some("namespaces are refused".to_owned()));
    snapshots().bind(|| insta::assert_snapshot!("report_text_narrow", text));
}

/// Colour is all that colour changes.
#[test]
fn colour_changes_no_letter() {
    let plain = rendered(Format::Text, Style::default(), None);
    let painted = rendered(Format::Text, Style { colour: true, width: None }, None);
    assert!(painted.contains("\x1b[31mFAILED") && painted.contains("\x1b[32mok"), "{painted}");
    let mut bare = String::new();
    let mut rest = painted.as_str();
    while let Some((before, code)) = rest.split_once("\x1b[") {
        bare.push_str(before);
        rest = code.split_once('m').expect("a code ends").1;
    }
    bare.push_str(rest);
    assert_eq!(bare, plain);
}

/// What programs read: the keys that are promised, on each outcome.
#[test]
fn json_has_the_promised_keys_on_every_outcome() {
    let report: Value = serde_json::from_str(&rendered(Format::Json, Style::default(), None)).expect("it is JSON");
    assert_eq!(report["schema"], 1);
    let claims = report["claims"].as_array().expect("an array");
    let outcomes: Vec<&str> = claims.iter().filter_map(|claim| claim["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["passed", "passed", "failed", "ignored"]);
    for claim in claims {
        for key in ["id", "document", "expected", "outcome", "reason", "evidence"] {
            assert!(claim.get(key).is_some(), "{key} is missing in {claim}");
        }
        assert_eq!(claim["reason"].is_string(), claim["outcome"] != "passed", "{claim}");
    }
    assert_eq!(claims[0]["evidence"]["samples"][0]["latencies_us"].as_array().map(Vec::len), Some(5));
    assert_eq!(report["counts"], serde_json::json!({ "passed": 2, "failed": 1, "ignored": 1 }));
}

/// What is shown in a picture is in its words too, and nothing comes from elsewhere; so for one run and for several.
#[test]
fn a_page_stands_alone_and_says_what_it_shows() {
    let page = rendered(Format::Html, Style::default(), None);
    assert!(page.contains("4 of 5 stalled") && page.contains("40 ms") && page.contains("200 ms"), "{page}");
    assert!(page.contains("<th scope=\"row\">failed</th><td><a href=\"#claim-echo-is-slow\">"), "{page}");
    keeps_the_rules_of_pages(&page);

    let (kernel, outcomes, settings) = (kernel(), outcomes(), Settings::default());
    let sequences =
        [Sequence { request: 2, title: "request 2 of <C>".to_owned(), rows: Vec::new(), latency_us: 44_000 }];
    let (took, sequences) = (Duration::ZERO, &sequences);
    let report = Report { kernel: &kernel, settings: &settings, shared: None, outcomes: &outcomes, took, sequences };
    let record = Record::of(&report);
    let mut other = record.clone();
    other.claims[0].canonical = "two-writes-stall: passed (holds): no stall".to_owned();
    let columns = [("old & slow", &record), ("new", &other), ("newer", &record)];
    let columns = columns.map(|(name, record)| Column { name: name.to_owned(), record }).to_vec();
    let page = Page { columns, lead: String::new() }.render();
    keeps_the_rules_of_pages(&page);
    for shown in [
        "<title>Small writes: old &amp; slow, new, newer</title>",
        "<th scope=\"col\">newer</th>",
        // A row that differs says so by a mark and to a screen reader, not by its ground alone.
        "≠</span> <span class=\"heard\">differs: </span><a href=\"#claim-two-writes-stall\">",
        "<caption>Claims: 2; differing, marked ≠: 1</caption>",
        "<strong>new</strong>: request 2 of &lt;C&gt;",
        "\">new: request 2 of &lt;C&gt;</title>",
    ] {
        assert!(page.contains(shown), "{shown}\n{page}");
    }
}

fn keeps_the_rules_of_pages(page: &str) {
    for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let pictures = page.matches("<svg ").count();
    assert!(pictures >= 3 && pictures == page.matches("role=\"img\" aria-labelledby=\"").count());
    let after = |mark: &str| -> Vec<String> {
        page.split(mark).skip(1).map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect()
    };
    let ids = after(" id=\"");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    let names =
        after("aria-labelledby=\"").into_iter().flat_map(|both| both.split(' ').map(str::to_owned).collect::<Vec<_>>());
    for target in after("href=\"#").into_iter().chain(names) {
        assert!(ids.contains(&target), "nothing is called {target}");
    }
    let levels: Vec<u32> = page.split("<h").filter_map(|rest| rest.chars().next()?.to_digit(10)).collect();
    assert!(levels[0] == 1 && levels.iter().filter(|level| **level == 1).count() == 1, "{levels:?}");
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
    assert_eq!(page.matches("<table").count(), page.matches("<caption>").count());
    assert_eq!(page.matches("<th").count(), page.matches("<th scope=").count() + page.matches("<thead").count());
    for open in ["article", "section", "table", "figure", "svg", "main", "tr"] {
        let ends = page.matches(&format!("</{open}>")).count();
        let begins = page.matches(&format!("<{open}>")).count() + page.matches(&format!("<{open} ")).count();
        assert_eq!(begins, ends, "{open}");
    }
}

/// The written report is a baseline, and read again it is the same.
#[test]
fn what_is_written_is_read() {
    let (kernel, outcomes, settings) = (kernel(), outcomes(), Settings::default());
    let took = Duration::from_millis(2_345);
    let report =
        Report { kernel: &kernel, settings: &settings, shared: None, outcomes: &outcomes, took, sequences: &[] };
    let record = Record::of(&report);
    assert_eq!(Record::read(&record.to_string()).expect("it was written here"), record);
    assert_eq!(record.claims.len(), outcomes.len());
}
