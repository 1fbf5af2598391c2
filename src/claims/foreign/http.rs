//! curl.

use super::{Lines, PROGRAMS, client, sends_at_once};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Expected, Need, Stage, Twist};
use crate::foreign::{PORT, Program};

/// The reply to a request over a connection that stays open.
pub(super) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

pub(super) static CLAIMS: &[Claim] = &[Claim {
    id: "curl-sets-nodelay",
    document: Document::Beyond,
    section: PROGRAMS,
    says: "curl sets TCP_NODELAY, and sends head and body of a small POST in one write",
    expected: Expected::Holds,
    source: "curl(1) --tcp-nodelay, the default since 7.50.2",
    needs: &[Need::Program("curl")],
    check: curl,
    control: Control { breaks: "--no-tcp-nodelay", twist: Twist::Check },
}];

fn curl(stage: &Stage<'_>) -> Judged {
    let url = format!("http://127.0.0.1:{PORT}/");
    let times = 4;
    let program = Program::new("curl")
        .args(["--disable", "--silent", "--data", "body."])
        .args(stage.is_twisted().then_some("--no-tcp-nodelay"))
        .args(vec![url; times as usize]);
    sends_at_once(&client(stage, &program, Lines { ours: OK, theirs: b"body.", times })?, "POST of 5 bytes", 1)
}
