//! Node: its http server, and its raw sockets.

use super::{Lines, SECTION, Seen, answer, client, sends_at_once, server, stalls};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Expected, Need, Stage, Twist};
use crate::foreign::Program;

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "node-http-server-sets-nodelay",
        document: Document::Chapter,
        section: SECTION,
        says: "Node's http server sets TCP_NODELAY on its connections, since version 18",
        expected: Expected::Holds,
        source: "Node, http.createServer: options.noDelay; getsockopt on the accepted socket",
        needs: &[Need::Program("node")],
        check: http_server,
        control: Control { breaks: "noDelay: false", twist: Twist::Check },
    },
    Claim {
        id: "node-net-socket-does-not",
        document: Document::Chapter,
        section: SECTION,
        says: "a raw net.Socket of Node starts with Nagle's algorithm on",
        expected: Expected::Holds,
        source: "Node, net.Socket: setNoDelay; getsockopt on the connected socket",
        needs: &[Need::Program("node")],
        check: net_socket,
        control: Control { breaks: "setNoDelay(true)", twist: Twist::Check },
    },
];

/// The reply's parts are written in two turns of the event loop: what one turn writes, Node joins.
const HTTP_SERVER: &str = "
    const options = process.argv[1] == 'off' ? { noDelay: false } : {};
    require('http').createServer(options, (request, response) => {
        response.writeHead(200, { 'Content-Length': 10, 'Node': process.versions.node });
        response.write('head.');
        setImmediate(() => response.end('body.'));
    }).listen(7007, '127.0.0.1');
";

const NET_SOCKET: &str = "
    const say = () => { socket.write('head.'); socket.write('body.'); };
    const socket = require('net').connect(7007, '127.0.0.1', say);
    if (process.argv[1] == 'on') socket.setNoDelay(true);
    socket.on('data', say);
";

fn node(script: &str, argument: Option<&str>) -> Program {
    Program::new("node").args(["-e", script]).args(argument)
}

fn http_server(stage: &Stage<'_>) -> Judged {
    let lines = Lines { ours: b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", theirs: b"\r\n\r\nhead.body.", times: 4 };
    let seen = server(stage, &node(HTTP_SERVER, stage.is_twisted().then_some("off")), lines)?;
    // Before 18 the default was the other one, and so is what the claim says of it.
    if major(&seen).is_some_and(|major| major < 18) {
        return if seen.nodelay {
            Err(answer("0 before Node 18", "1"))
        } else {
            stalls(&seen, "reply in two parts", 5)
        };
    }
    sends_at_once(&seen, "reply in two parts", 2)
}

/// The version that the server itself wrote into its replies.
fn major(seen: &Seen) -> Option<u32> {
    let reply = String::from_utf8_lossy(&seen.messages.first()?.bytes).into_owned();
    reply.lines().find_map(|line| line.strip_prefix("Node: "))?.split('.').next()?.parse().ok()
}

fn net_socket(stage: &Stage<'_>) -> Judged {
    let lines = Lines { ours: b"ok", theirs: b"head.body.", times: 4 };
    stalls(&client(stage, &node(NET_SOCKET, stage.is_twisted().then_some("on")), lines)?, "message of two writes", 5)
}
