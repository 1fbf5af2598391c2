//! Python: its HTTP client and server, and plain sockets.

use super::{Lines, PROGRAMS, client, sends_at_once, server, stalls};
use crate::claims::stage::Judged;
use crate::claims::{Claim, Control, Document, Expected, Need, Stage, Twist};
use crate::foreign::Program;

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "python-http-client-sets-nodelay",
        document: Document::Beyond,
        section: PROGRAMS,
        says: "Python's http.client sets TCP_NODELAY, and needs it: it sends head and body of a POST in two writes",
        expected: Expected::Holds,
        source: "Python, http.client: HTTPConnection.connect, _send_output",
        needs: &[Need::Program("python3")],
        check: http_client,
        control: Control { breaks: "the option is cleared on the open connection", twist: Twist::Check },
    },
    Claim {
        id: "python-http-server-leaves-nagle-on",
        document: Document::Beyond,
        section: PROGRAMS,
        says: "Python's http.server leaves Nagle on and writes head and body apart: kept-alive replies stall",
        expected: Expected::Holds,
        source: "Python, socketserver: StreamRequestHandler.disable_nagle_algorithm",
        needs: &[Need::Program("python3")],
        check: http_server,
        control: Control { breaks: "disable_nagle_algorithm = True", twist: Twist::Check },
    },
    Claim {
        id: "python-socket-leaves-nagle-on",
        document: Document::Beyond,
        section: PROGRAMS,
        says: "a plain socket of Python leaves Nagle on: two sendall, then recv, is the pattern that stalls",
        expected: Expected::Holds,
        source: "Python, socket.create_connection; tcp_nagle_test",
        needs: &[Need::Program("python3")],
        check: plain_socket,
        control: Control { breaks: "setsockopt(TCP_NODELAY, 1)", twist: Twist::Check },
    },
];

const HTTP_CLIENT: &str = "
import http.client, socket, sys
connection = http.client.HTTPConnection('127.0.0.1', 7007)
connection.connect()
if 'twisted' in sys.argv: connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
while True:
    connection.request('POST', '/', body=b'body.')
    connection.getresponse().read()
";

const HTTP_SERVER: &str = "
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = 'twisted' in sys.argv or http.server.BaseHTTPRequestHandler.disable_nagle_algorithm
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '5')
        self.end_headers()
        self.wfile.write(b'body.')
http.server.HTTPServer(('127.0.0.1', 7007), Handler).serve_forever()
";

const PLAIN_SOCKET: &str = "
import socket, sys
connection = socket.create_connection(('127.0.0.1', 7007))
if 'twisted' in sys.argv: connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while True:
    connection.sendall(b'head.')
    connection.sendall(b'body.')
    connection.recv(2)
";

/// Without `site`: nothing that the machine's user has installed is loaded.
fn python(stage: &Stage<'_>, script: &str) -> Program {
    Program::new("python3").args(["-I", "-S", "-c", script]).args(stage.is_twisted().then_some("twisted"))
}

fn http_client(stage: &Stage<'_>) -> Judged {
    let lines = Lines { ours: super::http::OK, theirs: b"\r\n\r\nbody.", times: 4 };
    sends_at_once(&client(stage, &python(stage, HTTP_CLIENT), lines)?, "POST of 5 bytes", 2)
}

fn http_server(stage: &Stage<'_>) -> Judged {
    let lines = Lines { ours: b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", theirs: b"\r\n\r\nbody.", times: 4 };
    stalls(&server(stage, &python(stage, HTTP_SERVER), lines)?, "reply with a body of 5 bytes", 5)
}

fn plain_socket(stage: &Stage<'_>) -> Judged {
    let lines = Lines { ours: b"ok", theirs: b"head.body.", times: 4 };
    stalls(&client(stage, &python(stage, PLAIN_SOCKET), lines)?, "message of two sendall", 5)
}
