//! Go's `net`, seen in two programs that every installation of Go has: the `go` command, which dials, and `pprof`, which
//! listens. So nothing has to be compiled.

use super::{Lines, SECTION, Seen, sends_at_once, watched, without_nodelay};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Expected, Need, Stage, Twist};
use crate::expect::Failure;
use crate::foreign::{Foreign, ForeignError, PORT, Program, Talk};

pub(super) static CLAIMS: &[Claim] = &[Claim {
    id: "go-net-sets-nodelay",
    document: Document::Chapter,
    section: SECTION,
    says: "Go sets TCP_NODELAY on every TCP connection, dialled or accepted",
    expected: Expected::Holds,
    source: "Go, net: newTCPConn calls setNoDelay(fd, true)",
    needs: &[Need::Program("go")],
    check: sets_nodelay,
    control: Control { breaks: "the option is taken away from outside", twist: Twist::Check },
}];

/// A profile in the old text form, with one sample: something for pprof to serve.
const PPROF: &str = "
    printf 'heap profile: 1: 1 [1: 1] @ heap/1\\n1: 1 [1: 1] @ 0x1\\n' >/tmp/profile
    exec \"$(go env GOTOOLDIR)/pprof\" -http=127.0.0.1:7007 -no_browser /tmp/profile
";

fn sets_nodelay(stage: &Stage<'_>) -> Judged {
    let mut evidence = sends_at_once(&dialled(stage)?, "request of the dialling end", 1)?;
    match accepted(stage)? {
        Some(seen) => {
            let accepted = sends_at_once(&seen, "reply of the accepting end", 1)?;
            evidence.canonical = format!("{}; {}", evidence.canonical, accepted.canonical);
            evidence.measured = format!("{}; {}", evidence.measured, accepted.measured);
            Ok(evidence)
        }
        None => Ok(evidence.and("no program of this Go listens without being compiled")),
    }
}

/// The go command asks us, as its module proxy, for a module's versions.
fn dialled(stage: &Stage<'_>) -> Result<Seen, Failure> {
    let program = Program::new("go")
        .args(["list", "-m", "-versions", "example.com/module"])
        .variable("GOPROXY", format!("http://127.0.0.1:{PORT}"))
        .variable("GOFLAGS", "-mod=mod")
        .variable("GONOSUMDB", "*")
        .variable("GOTOOLCHAIN", "local")
        .variable("GOTELEMETRY", "off");
    watched(stage, |lab| {
        let front = Foreign::listen(lab)?;
        let foreign = Foreign::start(&program)?;
        let mut talk = Talk::new(&foreign, foreign.accept(&front)?)?;
        let message = talk.hear(|bytes| bytes.ends_with(b"\r\n\r\n"))?;
        without_nodelay(stage, &talk)?;
        Ok(Seen { nodelay: talk.nodelay()?, messages: vec![message] })
    })
}

/// `None` where this Go has no pprof that is compiled already.
fn accepted(stage: &Stage<'_>) -> Result<Option<Seen>, Failure> {
    let lines = Lines { ours: b"GET /favicon.ico HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", theirs: b"\n", times: 3 };
    watched(stage, |lab| {
        let foreign = Foreign::start(&Program::new("sh").args(["-c", PPROF]))?;
        let ours = match foreign.connect(lab) {
            Err(ForeignError::Ended { .. }) => return Ok(None),
            other => other?,
        };
        let mut talk = Talk::new(&foreign, ours)?;
        let mut messages = Vec::new();
        for _ in 0..lines.times {
            talk.say(lines.ours)?;
            messages.push(talk.hear(|bytes| bytes.ends_with(lines.theirs))?);
        }
        without_nodelay(stage, &talk)?;
        Ok(Some(Seen { nodelay: talk.nodelay()?, messages }))
    })
}
