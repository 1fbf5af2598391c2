//! The sockets of an exchange: two, or four where a relay stands between.

use super::Exchange;
use super::side::{Side, Sides};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Index, IndexMut};

/// One of the sockets of an exchange; a relay has two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Socket {
    /// The client's.
    Client,
    /// The server's.
    Server,
    /// The relay's, towards the client.
    RelayTowardsClient,
    /// The relay's, towards the server.
    RelayTowardsServer,
}

impl Socket {
    /// The side of its own connection that the socket is on.
    #[must_use]
    pub fn side(self) -> Side {
        match self {
            Self::Client | Self::RelayTowardsServer => Side::Client,
            Self::Server | Self::RelayTowardsClient => Side::Server,
        }
    }
}

impl From<Side> for Socket {
    fn from(side: Side) -> Self {
        match side {
            Side::Client => Self::Client,
            Side::Server => Self::Server,
        }
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::RelayTowardsClient => "relay towards the client",
            Self::RelayTowardsServer => "relay towards the server",
        })
    }
}

/// One value for each socket of an exchange; indexed by [`Socket`].
///
/// ```
/// use smallwrites::exchange::{Sides, Socket, Sockets};
///
/// let direct = Sockets::from(Sides { client: 100, server: 50 });
/// assert_eq!(direct.peer(Socket::Client), Socket::Server);
/// let relayed = Sockets { relay: Some(Sides { client: 50, server: 100 }), ..direct };
/// assert_eq!(relayed.peer(Socket::Client), Socket::RelayTowardsClient);
/// assert_eq!(relayed[Socket::RelayTowardsServer], 100);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Sockets<T> {
    /// The client's.
    pub client: T,
    /// The server's.
    pub server: T,
    /// The relay's, towards the client and towards the server, where there is one.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub relay: Option<Sides<T>>,
}

const DIRECT: [Socket; 2] = [Socket::Client, Socket::Server];
const RELAYED: [Socket; 4] = [Socket::Client, Socket::RelayTowardsClient, Socket::RelayTowardsServer, Socket::Server];

fn none<T>() -> Option<T> {
    None
}

impl<T> Sockets<T> {
    /// The sockets in the order of the path from the client to the server.
    pub fn names(&self) -> impl Iterator<Item = Socket> + use<T> {
        let names: &'static [Socket] = if self.relay.is_some() { &RELAYED } else { &DIRECT };
        names.iter().copied()
    }

    /// Builds a value for each of the sockets that this has from a function of the socket.
    pub fn map<U>(&self, mut f: impl FnMut(Socket) -> U) -> Sockets<U> {
        Sockets {
            client: f(Socket::Client),
            relay: self
                .relay
                .is_some()
                .then(|| Sides { client: f(Socket::RelayTowardsClient), server: f(Socket::RelayTowardsServer) }),
            server: f(Socket::Server),
        }
    }

    /// The other end of a socket's connection.
    #[must_use]
    pub fn peer(&self, of: Socket) -> Socket {
        match of {
            Socket::RelayTowardsClient => Socket::Client,
            Socket::RelayTowardsServer => Socket::Server,
            Socket::Client if self.relay.is_some() => Socket::RelayTowardsClient,
            Socket::Server if self.relay.is_some() => Socket::RelayTowardsServer,
            Socket::Client => Socket::Server,
            Socket::Server => Socket::Client,
        }
    }

    /// The two ends' values without the relay's.
    #[must_use]
    pub fn ends(self) -> Sides<T> {
        Sides { client: self.client, server: self.server }
    }

    /// The value of a socket; `None` for one that the exchange does not have.
    #[must_use]
    pub fn get(&self, socket: Socket) -> Option<&T> {
        match socket {
            Socket::Client => Some(&self.client),
            Socket::Server => Some(&self.server),
            Socket::RelayTowardsClient => self.relay.as_ref().map(|relay| &relay.client),
            Socket::RelayTowardsServer => self.relay.as_ref().map(|relay| &relay.server),
        }
    }

    fn get_mut(&mut self, socket: Socket) -> Option<&mut T> {
        match socket {
            Socket::Client => Some(&mut self.client),
            Socket::Server => Some(&mut self.server),
            Socket::RelayTowardsClient => self.relay.as_mut().map(|relay| &mut relay.client),
            Socket::RelayTowardsServer => self.relay.as_mut().map(|relay| &mut relay.server),
        }
    }
}

impl<T> From<Sides<T>> for Sockets<T> {
    fn from(ends: Sides<T>) -> Self {
        Self { client: ends.client, server: ends.server, relay: None }
    }
}

/// Panics for a relay's socket where there is no relay.
impl<T> Index<Socket> for Sockets<T> {
    type Output = T;

    fn index(&self, socket: Socket) -> &T {
        self.get(socket).unwrap_or_else(|| panic!("no {socket}"))
    }
}

/// Panics for a relay's socket where there is no relay.
impl<T> IndexMut<Socket> for Sockets<T> {
    fn index_mut(&mut self, socket: Socket) -> &mut T {
        self.get_mut(socket).unwrap_or_else(|| panic!("no {socket}"))
    }
}

impl Exchange {
    /// The sockets that the exchange has.
    #[must_use]
    pub fn sockets(&self) -> Sockets<()> {
        Sockets { client: (), server: (), relay: self.relay.as_ref().map(|_| Sides::default()) }
    }
}
