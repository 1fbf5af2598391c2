//! What a tick decides, and so neither the rules nor a prediction can.

/// Two spans that differ by no more are a close call, in ticks.
const CLOSE: u64 = 2;

/// A comparison that a tick decided: whether more time has passed since the last data than the retransmission timeout.
///
/// A 200 ms hold ends a tick after the sender's retransmission timeout, and what it lets go is granted quick ACKs if that
/// was longer than the receiver's own. Both timeouts follow measured round trips, so a microsecond can decide which of
/// the two is a tick longer.
///
/// Kernel: `tcp_event_data_recv`, `tcp_rtt_estimator`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CloseCall {
    /// The request in which it was made, from 0.
    pub request: u32,
    /// Whether the time that had passed counted as the longer.
    pub longer: bool,
    /// Whether that is not what the model's own round trips come to.
    pub turned: bool,
}

/// The close calls of a prediction; what the first ones come to may be given.
#[derive(Debug)]
pub(super) struct CloseCalls {
    given: Vec<bool>,
    pub(super) made: Vec<CloseCall>,
}

impl CloseCalls {
    pub(super) fn new(given: &[bool]) -> Self {
        Self { given: given.to_vec(), made: Vec::new() }
    }

    /// Whether one span of so many ticks counts as longer than another.
    pub(super) fn is_longer(&mut self, request: u32, span: u64, than: u64) -> bool {
        let computed = span > than;
        if span.abs_diff(than) > CLOSE {
            return computed;
        }
        let longer = self.given.get(self.made.len()).copied().unwrap_or(computed);
        self.made.push(CloseCall { request, longer, turned: longer != computed });
        longer
    }
}
