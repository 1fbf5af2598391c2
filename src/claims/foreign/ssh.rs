//! OpenSSH: a client and a daemon, both foreign, over one connection.

use super::{SECTION, answer, watched};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Stage, Twist};
use crate::exchange::Sides;
use crate::expect::Failure;
use crate::foreign::{Foreign, ForeignError, PORT, Program, Talk};
use crate::sys::options::{self, SocketOption};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

pub(super) static CLAIMS: &[Claim] = &[Claim {
    id: "ssh-sets-nodelay-when-interactive",
    document: Document::Chapter,
    section: SECTION,
    says: "ssh sets TCP_NODELAY for interactive sessions",
    expected: Expected::HoldsWithLimit(
        "for any session, with a terminal or without, at both ends, and not before it begins; the server of a \
         connection without a session (-N) leaves Nagle on",
    ),
    source: "OpenSSH, packet.c: ssh_packet_set_interactive",
    needs: &[Need::Program("ssh"), Need::Program("sshd"), Need::Program("ssh-keygen")],
    check: sets_nodelay,
    control: Control { breaks: "no session is asked for (-N)", twist: Twist::Check },
}];

/// Keys for one run, in the child's own folder; a daemon for them; a client with these options and this command.
const SCRIPT: &str = "
    set -e; cd /tmp; umask 077
    ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f key; cp key.pub allowed
    printf '%s\\n' 'Port 7007' 'ListenAddress 127.0.0.1' 'HostKey /tmp/host' 'AuthorizedKeysFile /tmp/allowed' \
        'PidFile none' 'StrictModes no' >config
    $(command -v sshd) -D -f /tmp/config -E /tmp/log &
    until grep -q 'Server listening' log 2>/dev/null; do kill -0 $! && sleep 0.01; done
    exec ssh -F none -i key -p 7007 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes \
        -o PermitLocalCommand=yes \"$@\"
";

/// What runs in the session: a word once it is there.
const COMMAND: &str = "echo open; exec sleep 600";

/// How long the ends may take to set their options once a session is open.
const PATIENCE: Duration = Duration::from_secs(20);

fn sets_nodelay(stage: &Stage<'_>) -> Judged {
    let early = before_a_session(stage)?;
    if early {
        return Err(answer("0 at the client before the session begins", "1"));
    }
    let (terminal, patience) = if stage.is_twisted() {
        (&["-N", "-o", "LocalCommand=echo open", "127.0.0.1"][..], Duration::from_secs(1))
    } else {
        (&["-tt", "127.0.0.1", COMMAND][..], PATIENCE)
    };
    let mut took = Vec::new();
    for (options, name) in [(terminal, "with a terminal"), (&["-T", "127.0.0.1", COMMAND][..], "without one")] {
        let started = Instant::now();
        let ends = in_a_session(stage, options, patience)?;
        for (end, set) in [("client", ends.client), ("server", ends.server)] {
            if !set {
                return Err(answer(&format!("1 at the {end} of a session {name}"), "0"));
            }
        }
        took.push(format!("{} ms {name}", started.elapsed().as_millis()));
    }
    Ok(Evidence::says(
        "TCP_NODELAY reads 0 at the client before a session, 1 at both ends in it, with a terminal and without",
        format!("from keys to a session: {}", took.join(", ")),
    ))
}

/// What the client's socket reads while it waits for the server's first line, which never comes.
fn before_a_session(stage: &Stage<'_>) -> Result<bool, Failure> {
    let program = Program::new("ssh").args(["-F", "none", "-o", "BatchMode=yes", "-p", &PORT.to_string(), "127.0.0.1"]);
    watched(stage, |lab| {
        let front = Foreign::listen(lab)?;
        let foreign = Foreign::start(&program)?;
        let mut talk = Talk::new(&foreign, foreign.accept(&front)?)?;
        talk.hear(|bytes| bytes.starts_with(b"SSH-2.0-") && bytes.ends_with(b"\n"))?;
        talk.nodelay()
    })
}

/// What both ends read in a session, or once `patience` is over.
fn in_a_session(stage: &Stage<'_>, options: &[&str], patience: Duration) -> Result<Sides<bool>, Failure> {
    let program = Program::new("sh").args(["-c", SCRIPT, "sh"]).args(options.iter().copied());
    watched(stage, |_| {
        let foreign = Foreign::start(&program)?;
        let opened = foreign.wait_for("a session was awaited", || {
            Ok(foreign.said().lines().any(|line| line.trim() == "open").then(Instant::now))
        })?;
        foreign.wait_for("both ends of the session were looked for", || {
            let settled = |ends: &Sides<bool>| ends.client && ends.server || opened.elapsed() > patience;
            Ok(read(&foreign)?.filter(settled))
        })
    })
}

/// The option of both ends, where both are there.
fn read(foreign: &Foreign) -> Result<Option<Sides<bool>>, ForeignError> {
    let client = foreign.sockets(|_, remote| remote == PORT)?;
    let server = foreign.sockets(|local, _| local == PORT)?;
    // Several processes of the daemon may hold the same socket.
    let reads = |sockets: &[OwnedFd]| Some(options::get(sockets.first()?, SocketOption::NoDelay).ok()? != 0);
    Ok(reads(&client).zip(reads(&server)).map(|(client, server)| Sides { client, server }))
}
