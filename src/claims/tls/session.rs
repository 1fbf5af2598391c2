//! A TLS session of rustls with both ends in one thread: the client runs until it blocks, then the server, and round
//! again, so nothing is left to the scheduler.

use crate::exchange::{Side, Sides};
use crate::lab::Lab;
use crate::sys::counters;
use crate::sys::options::{self, SocketOption};
use crate::sys::tcp_info::TcpInfo;
use crate::sys::transfer::{self, Interest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, ServerConfig, ServerConnection, SignatureScheme};
use socket2::Socket;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The reply to every request, plain bytes.
const REPLY: usize = 20;

/// No single wait lasts longer.
const DEADLINE: Duration = Duration::from_secs(10);

/// An Ed25519 key (RFC 8410 §7). Nothing is protected by it, and a bare key never expires (RFC 7250).
const KEY: [u8; 48] = {
    let head = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
    let mut key = [0x5a; 48];
    let mut at = 0;
    while at < head.len() {
        key[at] = head[at];
        at += 1;
    }
    key
};

/// An open connection whose client has just finished its part of the handshake.
#[derive(Debug)]
pub(super) struct Session {
    client: ClientConnection,
    server: ServerConnection,
    sockets: Sides<Socket>,
    /// Delayed ACKs when the client's last flight left: the first request's own, as it is written behind that flight.
    since: Option<u64>,
}

/// How one request left the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// Bytes held behind unacknowledged ones when its last write returned.
    pub(super) held: u32,
    /// Whether both ends then had to wait for the kernel.
    pub(super) waited: bool,
    /// Delayed ACKs that went out meanwhile.
    pub(super) delayed_acks: Option<i64>,
    /// Its data segments.
    pub(super) segments: Option<u32>,
}

impl Request {
    /// Whether held bytes waited for a delayed ACK.
    pub(super) fn stalled(&self) -> bool {
        self.held > 0 && self.waited && self.delayed_acks.is_some_and(|fired| fired > 0)
    }

    /// Whether the timer fired while there was something left to do: this thread was kept from its CPU between two steps.
    pub(super) fn late(&self) -> bool {
        !self.waited && self.delayed_acks.is_some_and(|fired| fired > 0)
    }
}

impl Session {
    /// Connects and shakes hands, up to the client's last flight; the server has not read that yet.
    ///
    /// The server delays every ACK that it may delay, whatever the kernel's threshold for that is. `tickets` is how many
    /// session tickets it sends once it has read the client's last flight.
    pub(super) fn open(lab: &Lab, nodelay: bool, tickets: usize) -> io::Result<Self> {
        let front = lab.socket(Side::Server)?;
        front.bind(&SocketAddr::new(lab.address(), 0).into())?;
        front.listen(1)?;
        let client = lab.socket(Side::Client)?;
        client.connect(&front.local_addr()?)?;
        let (server, _) = front.accept()?;
        for socket in [&client, &server] {
            socket.set_nonblocking(true)?;
        }
        if nodelay {
            options::set(&client, SocketOption::NoDelay, 1)?;
        }
        let (ours, theirs) = configurations(tickets).map_err(io::Error::other)?;
        let name = ServerName::from(lab.address());
        let mut session = Self {
            client: ClientConnection::new(Arc::new(ours), name).map_err(io::Error::other)?,
            server: ServerConnection::new(Arc::new(theirs)).map_err(io::Error::other)?,
            sockets: Sides { client, server },
            since: None,
        };
        session.shake_hands()?;
        Ok(session)
    }

    /// Sets `TCP_NODELAY` on the client.
    pub(super) fn set_nodelay(&self) -> io::Result<()> {
        options::set(&self.sockets.client, SocketOption::NoDelay, 1)
    }

    /// One request, a record and a write for each part, and its reply.
    pub(super) fn request(&mut self, parts: &[usize]) -> io::Result<Request> {
        let (acks, before) = (self.since.take().or_else(delayed_acks), self.sent()?);
        for part in parts {
            self.client.writer().write_all(&vec![b'x'; *part])?;
            self.client.write_tls(&mut &self.sockets.client)?;
        }
        let info = TcpInfo::read(&self.sockets.client)?;
        let held = if info.unacked > Some(0) { info.notsent_bytes.unwrap_or(0) } else { 0 };
        let wanted: usize = parts.iter().sum();
        let mut done = Sides { client: 0, server: 0 };
        let mut waited = false;
        let mut replied = false;
        let started = Instant::now();
        while done.client < REPLY {
            let heard = take_in(&mut self.server, &self.sockets.server)?;
            done.server += heard;
            if done.server == wanted && !replied {
                self.server.writer().write_all(&[b'y'; REPLY])?;
                replied = true;
            }
            let told = self.server_flushes()?;
            let answer = take_in(&mut self.client, &self.sockets.client)?;
            done.client += answer;
            if heard == 0 && !told && answer == 0 {
                waited = true;
                self.wait(started)?;
            }
        }
        let segments = self.sent()?.zip(before).map(|(now, then)| now.saturating_sub(then));
        let delayed_acks = delayed_acks().zip(acks).map(|(now, then)| now as i64 - then as i64);
        Ok(Request { held, waited, delayed_acks, segments })
    }

    fn shake_hands(&mut self) -> io::Result<()> {
        let started = Instant::now();
        loop {
            take_in(&mut self.client, &self.sockets.client)?;
            self.since = delayed_acks();
            while self.client.wants_write() {
                self.client.write_tls(&mut &self.sockets.client)?;
            }
            if !self.client.is_handshaking() {
                return Ok(());
            }
            take_in(&mut self.server, &self.sockets.server)?;
            if !self.server_flushes()? {
                self.wait(started)?;
            }
        }
    }

    /// Sends what the server has to send, and has it delay its next ACK: a reply may have come late and ended that.
    fn server_flushes(&mut self) -> io::Result<bool> {
        let wants = self.server.wants_write();
        while self.server.wants_write() {
            self.server.write_tls(&mut &self.sockets.server)?;
        }
        options::set(&self.sockets.server, SocketOption::QuickAck, 0)?;
        Ok(wants)
    }

    fn wait(&self, started: Instant) -> io::Result<()> {
        let ends = [&self.sockets.client, &self.sockets.server].map(|socket| (socket.as_fd(), Interest::READ));
        let left = DEADLINE.saturating_sub(started.elapsed());
        match transfer::wait(&ends, Some(left)) {
            Ok(ready) if ready.iter().any(|ready| ready.any()) => Ok(()),
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
            _ if left.is_zero() => Err(io::Error::new(ErrorKind::TimedOut, "neither end of the TLS session can go on")),
            _ => Ok(()),
        }
    }

    fn sent(&self) -> io::Result<Option<u32>> {
        Ok(TcpInfo::read(&self.sockets.client)?.data_segments())
    }
}

impl Drop for Session {
    /// Ends the connection now, as a play does: another session's delayed ACKs are counted in the same namespace.
    fn drop(&mut self) {
        transfer::hang_up(&self.sockets.client);
        transfer::hang_up(&self.sockets.server);
    }
}

/// Reads what has come, and returns how many plain bytes that made.
fn take_in<D>(
    end: &mut impl std::ops::DerefMut<Target = rustls::ConnectionCommon<D>>,
    socket: &Socket,
) -> io::Result<usize> {
    let mut plain = 0;
    loop {
        match end.read_tls(&mut &*socket) {
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "an end of the TLS session closed it")),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(plain),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        let state = end.process_new_packets().map_err(io::Error::other)?;
        let mut bytes = vec![0; state.plaintext_bytes_to_read()];
        end.reader().read_exact(&mut bytes)?;
        plain += bytes.len();
    }
}

fn configurations(tickets: usize) -> Result<(ClientConfig, ServerConfig), rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(&KEY[..]))?;
    let public = key.public_key().map(|public| CertificateDer::from(public.as_ref().to_vec()));
    let certified = CertifiedKey::new(public.into_iter().collect(), key);
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyKey))
        .with_no_client_auth();
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified))));
    server.send_tls13_tickets = tickets;
    Ok((client, server))
}

/// Takes whatever key the server shows: both ends are this process.
#[derive(Debug)]
struct AnyKey;

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

fn delayed_acks() -> Option<u64> {
    counters::read_named(&["TcpExtDelayedACKs"]).ok()?.first().copied().flatten()
}
