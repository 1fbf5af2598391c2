//! The two sides of a connection.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Index, IndexMut};

/// One side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The side that connects.
    Client,
    /// The side that accepts.
    Server,
}

impl Side {
    /// Both sides, the client first.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The other side.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// One value for each side; indexed by [`Side`].
///
/// ```
/// use smallwrites::exchange::{Side, Sides};
///
/// let segments = Sides { client: 100, server: 50 };
/// assert_eq!(segments[Side::Server], 50);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Sides<T> {
    /// The client's.
    pub client: T,
    /// The server's.
    pub server: T,
}

impl<T> Sides<T> {
    /// Builds both values from a function of the side.
    pub fn from_fn(mut f: impl FnMut(Side) -> T) -> Self {
        Self { client: f(Side::Client), server: f(Side::Server) }
    }

    /// Both values, each with its side.
    pub fn each(&self) -> [(Side, &T); 2] {
        [(Side::Client, &self.client), (Side::Server, &self.server)]
    }
}

impl<T> Index<Side> for Sides<T> {
    type Output = T;

    fn index(&self, side: Side) -> &T {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}

impl<T> IndexMut<Side> for Sides<T> {
    fn index_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}
