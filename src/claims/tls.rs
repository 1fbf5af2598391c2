//! Small writes under TLS: each record is a write, and so is each flight of the handshake.

mod session;

use super::stage::Judged;
use super::{Claim, Control, Document, Evidence, Expected, Need, Stage, Twist};
use crate::expect::{Failure, Kind};
use session::{Request, Session};

/// The article's claim.
pub(super) static ARTICLE: &[Claim] = &[Claim {
    id: "nodelay-under-tls",
    document: Document::Article,
    section: "questions",
    says: "TCP_NODELAY works under TLS, whether it is set before the handshake or after it",
    expected: Expected::Holds,
    source: "tcp_nagle_test; RFC 8446 §5.1: a record is written as it is sealed",
    needs: &[Need::PrivateLab],
    check: nodelay,
    control: Control { breaks: "head and body in one record: nothing to hold", twist: Twist::Check },
}];

/// What no document says.
pub(super) static BEYOND: &[Claim] = &[Claim {
    id: "tls-handshake-holds-the-first-request",
    document: Document::Beyond,
    section: "under TLS",
    says: "the client's last flight of a TLS 1.3 handshake and its first request are two writes in a row: the request, \
           one write by itself, is held behind the flight until the server's delayed ACK",
    expected: Expected::HoldsWithLimit(
        "where the server answers the flight with nothing: session tickets, sent at once, carry the ACK; TCP_NODELAY on the \
         client ends it too",
    ),
    source: "RFC 8446 §2 figure 1, §4.6.1; tcp_nagle_check",
    needs: &[Need::PrivateLab],
    check: first_request,
    control: Control { breaks: "the server sends session tickets at once", twist: Twist::Check },
}];

const REQUESTS: usize = 10;

/// Enough that a thread which is kept from its CPU now and then still shows one request on time.
const CONNECTIONS: usize = 4;

/// Head and body; a record of TLS 1.3 makes either 22 bytes longer.
const PARTS: [usize; 2] = [10, 10];
const RECORD: u32 = 32;

fn nodelay(stage: &Stage<'_>) -> Judged {
    let parts: &[usize] = if stage.is_twisted() { &[20] } else { &PARTS };
    let requests = |nodelay: bool, then: bool| {
        played(stage, move |lab| {
            let mut session = Session::open(lab, nodelay, 2)?;
            if then {
                session.set_nodelay()?;
            }
            // The request that follows the handshake is another claim's.
            session.request(&[1])?;
            (0..REQUESTS).map(|_| session.request(parts)).collect()
        })
    };
    let plain = requests(false, false)?;
    let told = plain.iter().filter(|request| !request.late());
    if !plain.iter().any(Request::stalled) || told.clone().any(|request| !request.stalled() || request.held != RECORD) {
        let because = "the second record is a small segment behind an unacknowledged one (tcp_nagle_check)";
        let expected = format!("every request stalls with {RECORD} bytes held");
        return Err(Failure::plain(Kind::Pattern, expected, because, figures(&plain)));
    }
    two_segments_each(&plain)?;
    for (requests, when) in [(requests(true, false)?, "before"), (requests(false, true)?, "after")] {
        if requests.iter().any(|request| request.held > 0) {
            let expected = format!("nothing held with TCP_NODELAY set {when} the handshake");
            return Err(Failure::plain(Kind::Held, expected, "tcp_nagle_test", figures(&requests)));
        }
        two_segments_each(&requests)?;
    }
    Ok(Evidence::says(
        format!(
            "without it every request of two records stalls, {RECORD} bytes held until the delayed ACK; with it, set before \
             the handshake or after it, none is held; 2 segments a request throughout"
        ),
        figures(&plain),
    ))
}

fn first_request(stage: &Stage<'_>) -> Judged {
    let fresh = |nodelay: bool, tickets: usize| {
        played(stage, move |lab| {
            (0..CONNECTIONS).map(|_| Session::open(lab, nodelay, tickets)?.request(&[20])).collect()
        })
    };
    let silent = fresh(false, if stage.is_twisted() { 2 } else { 0 })?;
    let told = silent.iter().filter(|request| !request.late());
    if !silent.iter().any(Request::stalled) || told.clone().any(|request| !request.stalled()) {
        let because = "the handshake's last flight is small and unacknowledged (tcp_nagle_check)";
        return Err(Failure::plain(Kind::Stall, "the first request stalls", because, figures(&silent)));
    }
    let nodelay = fresh(true, 0)?;
    if nodelay.iter().any(|request| request.held > 0) {
        let expected = "nothing held with TCP_NODELAY on the client";
        return Err(Failure::plain(Kind::Held, expected, "tcp_nagle_test", figures(&nodelay)));
    }
    let tickets = fresh(false, 2)?;
    if tickets.iter().any(Request::stalled) {
        let because = "the tickets carry the ACK of the flight, as any reply does";
        return Err(Failure::plain(Kind::Stall, "no stall behind session tickets", because, figures(&tickets)));
    }
    Ok(Evidence::says(
        "the first request of a fresh connection is held until the delayed ACK; it is not with TCP_NODELAY, and does not \
         wait where session tickets answer the flight",
        format!("{}; with tickets {}", figures(&silent), figures(&tickets)),
    ))
}

/// Plays a session in a lab of its own.
fn played(
    stage: &Stage<'_>,
    play: impl FnOnce(&crate::lab::Lab) -> std::io::Result<Vec<Request>> + Send,
) -> Result<Vec<Request>, Failure> {
    stage.lab(|base| base, play)?.map_err(|error| {
        let because = "a claim is judged on an exchange that was played";
        Failure::plain(Kind::Play, "the TLS session can be played to its end", because, error.to_string())
    })
}

fn two_segments_each(requests: &[Request]) -> Result<(), Failure> {
    if requests.iter().all(|request| request.segments == Some(2)) {
        return Ok(());
    }
    let because = "each record is a write, and neither joins the other";
    Err(Failure::plain(Kind::Segments, "2 data segments a request", because, figures(requests)))
}

fn figures(requests: &[Request]) -> String {
    let list = |figure: fn(&Request) -> String| requests.iter().map(figure).collect::<Vec<_>>().join(" ");
    let known = |count: Option<i64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    let acks: Vec<String> = requests.iter().map(|request| known(request.delayed_acks)).collect();
    let segments: Vec<String> = requests.iter().map(|request| known(request.segments.map(i64::from))).collect();
    format!(
        "of {} requests: bytes held {}, delayed ACKs {}, segments {}",
        requests.len(),
        list(|request| request.held.to_string()),
        acks.join(" "),
        segments.join(" "),
    )
}
