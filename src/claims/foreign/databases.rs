//! Clients and servers of databases: Redis and PostgreSQL.

use super::{PROGRAMS, Seen, sends_at_once, watched, without_nodelay};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Expected, Need, Stage, Twist};
use crate::expect::Failure;
use crate::foreign::{Foreign, PORT, Program, Talk};

const TAKEN_AWAY: Control = Control { breaks: "the option is taken away from outside", twist: Twist::Check };

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "redis-cli-sets-nodelay",
        document: Document::Beyond,
        section: PROGRAMS,
        says: "redis-cli sets TCP_NODELAY and sends a command in one write",
        expected: Expected::Holds,
        source: "hiredis, net.c: redisSetTcpNoDelay",
        needs: &[Need::Program("redis-cli")],
        check: redis_cli,
        control: TAKEN_AWAY,
    },
    Claim {
        id: "redis-server-sets-nodelay",
        document: Document::Beyond,
        section: PROGRAMS,
        says: "redis-server sets TCP_NODELAY on what it accepts and sends a reply in one write",
        expected: Expected::Holds,
        source: "Redis, networking.c: createClient, connEnableTcpNoDelay",
        needs: &[Need::Program("redis-server")],
        check: redis_server,
        control: TAKEN_AWAY,
    },
    Claim {
        id: "psql-sets-nodelay",
        document: Document::Beyond,
        section: PROGRAMS,
        says: "psql sets TCP_NODELAY and sends a query in one write",
        expected: Expected::Holds,
        source: "PostgreSQL, fe-connect.c: connectNoDelay",
        needs: &[Need::Program("psql")],
        check: psql,
        control: TAKEN_AWAY,
    },
    Claim {
        id: "postgres-sets-nodelay",
        document: Document::Beyond,
        section: PROGRAMS,
        says: "a PostgreSQL server sets TCP_NODELAY on what it accepts and sends the reply to a query in one write",
        expected: Expected::Holds,
        source: "PostgreSQL, pqcomm.c: pq_init, StreamConnection",
        needs: &[Need::Program("postgres"), Need::Program("initdb")],
        check: postgres,
        control: TAKEN_AWAY,
    },
];

const PONG: &[u8] = b"+PONG\r\n";

/// AuthenticationOk and ReadyForQuery of PostgreSQL's protocol 3.0.
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
/// What both servers write once they serve.
const READY_WORDS: &str = "eady to accept connections";

const READY: &[u8] = b"Z\0\0\0\x05I";
/// CommandComplete and ReadyForQuery.
const SELECTED: &[u8] = b"C\0\0\0\x0dSELECT 0\0Z\0\0\0\x05I";
/// A StartupMessage for user and database `postgres`.
const STARTUP: &[u8] = b"\0\0\0\x29\0\x03\0\0user\0postgres\0database\0postgres\0\0";
const QUERY: &[u8] = b"Q\0\0\0\x0dselect 1\0";

/// A cluster with nothing in it, made in the child's own folder. Nothing has to survive, so nothing is synced.
const POSTGRES: &str = "
    set -e
    initdb=$(command -v initdb || ls /usr/lib/postgresql/*/bin/initdb | tail -n 1)
    programs=$(dirname \"$(readlink -f \"$initdb\")\")
    \"$programs/initdb\" -D /tmp/data -A trust -U postgres --no-sync --no-locale -E SQL_ASCII --wal-segsize=1 >/dev/null
    exec \"$programs/postgres\" -D /tmp/data -p 7007 -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
        -c fsync=off -c shared_buffers=1MB -c max_connections=5 -c autovacuum=off
";

fn redis_cli(stage: &Stage<'_>) -> Judged {
    let program = Program::new("redis-cli").args(["-h", "127.0.0.1", "-p", &PORT.to_string(), "-r", "4", "PING"]);
    let turns = vec![(&b"PING\r\n"[..], PONG); 4];
    sends_at_once(&asked(stage, &program, &turns, 0)?, "command", 1)
}

fn redis_server(stage: &Stage<'_>) -> Judged {
    let port = PORT.to_string();
    let program = Program::new("redis-server").args(["--bind", "127.0.0.1", "--port", &port, "--save", ""]);
    sends_at_once(&answered(stage, &program, READY_WORDS, &[(&b"PING\r\n"[..], PONG); 4], 0)?, "reply", 1)
}

fn psql(stage: &Stage<'_>) -> Judged {
    let place = format!("host=127.0.0.1 port={PORT} user=u dbname=d sslmode=disable gssencmode=disable");
    let program = Program::new("psql").args(["-X", &place]).args(["-c", "select 1"].repeat(3));
    let turns = [(&b"\0\0"[..], WELCOME), (QUERY, SELECTED), (QUERY, SELECTED), (QUERY, SELECTED)];
    sends_at_once(&asked(stage, &program, &turns, 1)?, "query", 1)
}

fn postgres(stage: &Stage<'_>) -> Judged {
    let program = Program::new("sh").args(["-c", POSTGRES]);
    let turns = [(STARTUP, READY), (QUERY, READY), (QUERY, READY), (QUERY, READY)];
    sends_at_once(&answered(stage, &program, READY_WORDS, &turns, 1)?, "reply to a query", 1)
}

/// A client that says what ends so, and is answered that; its first messages, which open the session, are left out.
fn asked(stage: &Stage<'_>, program: &Program, turns: &[(&[u8], &[u8])], opening: usize) -> Result<Seen, Failure> {
    watched(stage, |lab| {
        let front = Foreign::listen(lab)?;
        let foreign = Foreign::start(program)?;
        let mut talk = Talk::new(&foreign, foreign.accept(&front)?)?;
        let mut messages = Vec::new();
        for (number, (ends, reply)) in turns.iter().enumerate() {
            messages.push(talk.hear(|bytes| bytes.ends_with(ends))?);
            // While it waits for an answer, so that it has done all it does to a new socket.
            if number == 0 {
                without_nodelay(stage, &talk)?;
            }
            if number + 1 < turns.len() {
                talk.say(reply)?;
            }
        }
        Ok(Seen { nodelay: talk.nodelay()?, messages: messages.split_off(opening) })
    })
}

/// A server that says when it is ready, is asked this, and answers what ends so.
fn answered(
    stage: &Stage<'_>,
    program: &Program,
    ready: &str,
    turns: &[(&[u8], &[u8])],
    opening: usize,
) -> Result<Seen, Failure> {
    watched(stage, |lab| {
        let foreign = Foreign::start(program)?;
        // A server may listen before it is ready to serve.
        foreign.wait_for("its being ready was awaited", || Ok(foreign.said().contains(ready).then_some(())))?;
        let mut talk = Talk::new(&foreign, foreign.connect(lab)?)?;
        let mut messages = Vec::new();
        for (number, (question, ends)) in turns.iter().enumerate() {
            talk.say(question)?;
            messages.push(talk.hear(|bytes| bytes.ends_with(ends))?);
            if number == 0 {
                without_nodelay(stage, &talk)?;
            }
        }
        Ok(Seen { nodelay: talk.nodelay()?, messages: messages.split_off(opening) })
    })
}
