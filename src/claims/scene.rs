//! An exchange of the catalogue, and the conditions that it asks for.

use crate::exchange::{Exchange, ParseError};
use crate::lab::Conditions;
use crate::observation::Order;
use crate::play::Play;
use std::time::Duration;

/// What a claim has played: an exchange, how often, and under which conditions.
#[derive(Debug, Clone)]
pub struct Scene {
    notation: String,
    requests: u32,
    order: Order,
    fresh: bool,
    listed: bool,
    capture: bool,
    deadline: Option<Duration>,
    under: Vec<fn(Conditions) -> Conditions>,
}

impl Scene {
    /// An exchange in the notation, one request.
    #[must_use]
    pub fn of(notation: impl Into<String>) -> Self {
        Self {
            notation: notation.into(),
            requests: 1,
            order: Order::default(),
            fresh: false,
            listed: false,
            capture: false,
            deadline: None,
            under: Vec::new(),
        }
    }

    /// So many requests.
    #[must_use]
    pub fn requests(mut self, requests: u32) -> Self {
        self.requests = requests;
        self
    }

    /// Who runs when.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// A connection of its own for every request.
    #[must_use]
    pub fn fresh(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// Asks `sock_diag` for both sockets when neither side can go on.
    #[must_use]
    pub fn listed(mut self) -> Self {
        self.listed = true;
        self
    }

    /// Records every segment.
    #[must_use]
    pub fn capture(mut self) -> Self {
        self.capture = true;
        self
    }

    /// The longest single wait.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// A change of the conditions that the stage offers.
    #[must_use]
    pub fn under(mut self, change: fn(Conditions) -> Conditions) -> Self {
        self.under.push(change);
        self
    }

    pub(super) fn instead(mut self, notation: &str) -> Self {
        notation.clone_into(&mut self.notation);
        self
    }

    pub(super) fn conditions(&self, base: Conditions) -> Conditions {
        self.under.iter().fold(base, |conditions, change| change(conditions))
    }

    pub(super) fn play(&self, twist: impl FnOnce(Exchange) -> Exchange) -> Result<Play, ParseError> {
        let mut play = Play::new(twist(self.notation.parse()?)).requests(self.requests).order(self.order);
        if self.fresh {
            play = play.fresh();
        }
        if self.listed {
            play = play.listed();
        }
        if self.capture {
            play = play.capture();
        }
        Ok(match self.deadline {
            Some(deadline) => play.deadline(deadline),
            None => play,
        })
    }
}

impl From<&str> for Scene {
    fn from(notation: &str) -> Self {
        Self::of(notation)
    }
}

/// An exchange in notation that the catalogue itself wrote.
pub(super) fn parsed(notation: &str) -> Exchange {
    notation.parse().unwrap_or_default()
}
