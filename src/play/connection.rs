//! Opening connections: the options that come before, the handshake, the options that come after.

use super::endpoint::{Endpoint, set};
use super::{PlayError, Waiting, call};
use crate::exchange::{Exchange, Opt, Script, Setting, Side, Sides, Sockets};
use crate::lab::Lab;
use crate::observation::{Order, Socket as Name};
use crate::sys::options::{self, SocketOption};
use crate::sys::transfer::{self, Interest};
use socket2::{SockAddr, Socket};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Connections that may wait for `accept`; never more than one does.
const BACKLOG: i32 = 16;

/// The server's listening socket, and the relay's where there is one.
#[derive(Debug)]
pub(super) struct Listener {
    server: Socket,
    relay: Option<Socket>,
    blocking: bool,
}

/// An open connection with its scripts; a relay makes it two.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Endpoint,
    pub(super) server: Endpoint,
    pub(super) relay: Option<Between>,
    /// From `connect` to the accepted socket.
    pub(super) opened: Duration,
    /// `TCP_NODELAY`, `TCP_CORK` and `TCP_QUICKACK` before any option was set on the open connection.
    pub(super) inherited: Sockets<[Option<bool>; 3]>,
}

/// The relay's two sockets.
#[derive(Debug)]
pub(super) struct Between {
    pub(super) towards_client: Socket,
    pub(super) towards_server: Socket,
}

impl Listener {
    pub(super) fn open(lab: &Lab, exchange: &Exchange, order: Order) -> Result<Self, PlayError> {
        let blocking = order != Order::Ordered;
        let server = listen(lab, &exchange.server, Name::Server)?;
        let relay = match &exchange.relay {
            Some(_) => Some(listen(lab, &Script::default(), Name::RelayTowardsClient)?),
            None => None,
        };
        Ok(Self { server, relay, blocking })
    }

    /// The ports that connections of the exchange go to.
    pub(super) fn ports(&self) -> Vec<u16> {
        let port = |socket: &Socket| socket.local_addr().ok()?.as_socket().map(|address| address.port());
        [Some(&self.server), self.relay.as_ref()].into_iter().flatten().filter_map(port).collect()
    }
}

impl Connection {
    pub(super) fn open(
        lab: &Lab,
        listener: &Listener,
        exchange: &Exchange,
        deadline: Duration,
    ) -> Result<Self, PlayError> {
        let started = Instant::now();
        let (client, server, relay) = match &listener.relay {
            Some(front) => {
                let (client, towards_client) = connect(lab, front, &exchange.client, Name::Client, deadline)?;
                let (towards_server, server) =
                    connect(lab, &listener.server, &Script::default(), Name::RelayTowardsServer, deadline)?;
                (client, server, Some(Between { towards_client, towards_server }))
            }
            None => {
                let (client, server) = connect(lab, &listener.server, &exchange.client, Name::Client, deadline)?;
                (client, server, None)
            }
        };
        let opened = started.elapsed();
        let open = sockets(&client, &server, relay.as_ref());
        let inherited = open.map(|name| inherited(open[name]));
        if let (Some(options), Some(relay)) = (&exchange.relay, &relay) {
            set_all(&relay.towards_client, Name::RelayTowardsClient, &options.towards_client)?;
            set_all(&relay.towards_server, Name::RelayTowardsServer, &options.towards_server)?;
        }
        for (socket, script, name) in
            [(&client, &exchange.client, Name::Client), (&server, &exchange.server, Name::Server)]
        {
            set_all(socket, name, script.opened.iter().filter(|setting| setting.option != Opt::Mss))?;
            if listener.blocking {
                block(socket, deadline)?;
            }
        }
        Ok(Self {
            client: Endpoint::new(Side::Client, client, exchange.client.unrolled())?,
            server: Endpoint::new(Side::Server, server, exchange.server.unrolled())?,
            relay,
            opened,
            inherited,
        })
    }

    /// Ends the connection now, so that none of what ends it is counted in another request.
    pub(super) fn hang_up(self) {
        let open = sockets(&self.client.socket, &self.server.socket, self.relay.as_ref());
        open.names().for_each(|name| transfer::hang_up(open[name]));
    }
}

/// Every socket that is open.
pub(super) fn sockets<'a>(client: &'a Socket, server: &'a Socket, relay: Option<&'a Between>) -> Sockets<&'a Socket> {
    let relay = relay.map(|relay| Sides { client: &relay.towards_client, server: &relay.towards_server });
    Sockets { client, server, relay }
}

fn listen(lab: &Lab, script: &Script, name: Name) -> Result<Socket, PlayError> {
    let socket = lab.socket(Side::Server).map_err(call("make a listening socket"))?;
    early(&socket, script, name)?;
    let address = SocketAddr::new(lab.address(), 0);
    socket.bind(&address.into()).map_err(call("bind the listening socket"))?;
    socket.listen(BACKLOG).map_err(call("listen"))?;
    socket.set_nonblocking(true).map_err(call("make a socket non-blocking"))?;
    set_all(&socket, name, &script.listening)?;
    Ok(socket)
}

/// Connects, accepts, and returns both ends, non-blocking.
fn connect(
    lab: &Lab,
    listener: &Socket,
    script: &Script,
    name: Name,
    deadline: Duration,
) -> Result<(Socket, Socket), PlayError> {
    let address: SockAddr = listener.local_addr().map_err(call("read the listener's address"))?;
    let socket = lab.socket(Side::Client).map_err(call("make a socket"))?;
    early(&socket, script, name)?;
    // The write timeout bounds connect too (socket(7)).
    socket.set_write_timeout(Some(deadline)).map_err(call("set a timeout"))?;
    socket.connect(&address).map_err(call("connect"))?;
    socket.set_nonblocking(true).map_err(call("make a socket non-blocking"))?;
    let until = Instant::now() + deadline;
    loop {
        match listener.accept() {
            Ok((accepted, _)) => {
                accepted.set_nonblocking(true).map_err(call("make a socket non-blocking"))?;
                return Ok((socket, accepted));
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(call("accept")(error)),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let waiting = vec![Waiting { side: Side::Server, number: 0, step: None, done: 0 }];
            return Err(PlayError::Deadline { request: 0, after: deadline, waiting });
        }
        wait_readable(listener, left)?;
    }
}

fn wait_readable(socket: &Socket, left: Duration) -> Result<(), PlayError> {
    match transfer::wait(&[(socket.as_fd(), Interest::READ)], Some(left)) {
        Err(error) if error.kind() != ErrorKind::Interrupted => Err(call("wait for a connection")(error)),
        _ => Ok(()),
    }
}

/// What has to be set before the handshake.
fn early(socket: &Socket, script: &Script, name: Name) -> Result<(), PlayError> {
    if let Some(mss) = script.mss() {
        set(socket, name, Setting::new(Opt::Mss, mss))?;
    }
    set_all(socket, name, script.bound.iter().filter(|setting| setting.option != Opt::Mss))
}

fn set_all<'a>(socket: &Socket, name: Name, settings: impl IntoIterator<Item = &'a Setting>) -> Result<(), PlayError> {
    settings.into_iter().try_for_each(|setting| set(socket, name, *setting))
}

/// Blocking calls that end at the deadline.
fn block(socket: &Socket, deadline: Duration) -> Result<(), PlayError> {
    socket.set_nonblocking(false).map_err(call("make a socket blocking"))?;
    socket.set_read_timeout(Some(deadline)).map_err(call("set a read timeout"))?;
    socket.set_write_timeout(Some(deadline)).map_err(call("set a write timeout"))
}

fn inherited(socket: &Socket) -> [Option<bool>; 3] {
    [SocketOption::NoDelay, SocketOption::Cork, SocketOption::QuickAck]
        .map(|option| options::get(socket, option).ok().map(|value| value != 0))
}
