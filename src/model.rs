//! Why Linux holds a small segment, and when it lets go: the rules as a state machine on a virtual clock.
//!
//! ```
//! use smallwrites::model::{Facts, predict};
//!
//! let exchange = "C: W10 W10 R20 / S: R20 W20".parse()?;
//! let prediction = predict(&exchange, &Facts::default(), 6)?;
//! let quanta: Vec<usize> = prediction.requests.iter().map(|request| request.quanta()).collect();
//! assert_eq!(quanta, [0, 1, 1, 1, 1, 1]); // every request but the first waits for a delayed ACK
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! There are no sockets here, no clock and no files, so the model runs on any operating system. What differs from
//! kernel to kernel and from path to path comes in as [`Facts`].
//!
//! # One stall, rule by rule
//!
//! The client of `C: W10 W10 R20 / S: R20 W20` sends a request in two small writes and waits for the answer. The
//! second request goes like this:
//!
//! ```
//! # use smallwrites::model::{Facts, predict};
//! # let exchange = "C: W10 W10 R20 / S: R20 W20".parse()?;
//! # let timeline = predict(&exchange, &Facts::default(), 2)?.timeline.to_string();
//! # let second = timeline.lines().filter(|line| line.starts_with("  2")).collect::<Vec<_>>().join("\n");
//! assert_eq!(format!("\n{second}"), "
//!   2     0 client writes 10
//!   2     0 client sends 10
//!   2     0 client writes 10
//!   2     0 client holds 10
//!   2     0 server reads 10
//!   2    11 server delayed-ACK timer
//!   2    11 server sends ACK
//!   2    11 client sends 10
//!   2    11 server sends ACK
//!   2    11 server reads 10
//!   2    11 server writes 20
//!   2    11 server sends 20
//!   2    11 client reads 20");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! (The columns: request, tick, side, event; a tick is 4 ms here.)
//!
//! 1. The first write leaves at once, since nothing is in flight. It is a *small* segment: less than the maximum
//!    segment size.
//! 2. The second write is held. **Nagle's algorithm** (RFC 896) lets at most one small segment be unacknowledged, so
//!    that a program that writes single bytes doesn't fill the network with headers. The bytes wait for the ACK of
//!    the first segment, or for enough further bytes to fill a segment.
//! 3. The server has read half a request and has nothing to answer yet. It doesn't acknowledge either: in the first
//!    request it answered soon after it had received, so the kernel takes the connection for an interactive one
//!    (**pingpong mode**) and expects an answer to carry the ACK.
//! 4. So each side waits for the other, until the **delayed-ACK timer** fires, 40 ms and up to one tick after the
//!    segment arrived. The ACK releases the second write. Because an ACK had to be sent, the server leaves pingpong
//!    mode, so that the second write is acknowledged at arrival; but its answer, soon after, enters it again, and
//!    the next request stalls too.
//!
//! The first request didn't stall because a fresh connection isn't in pingpong mode and has sixteen **quick ACKs**
//! to give.
//!
//! # The sender: what holds bytes, what releases them
//!
//! Only the last, small segment is ever held; anything before it, and anything full, leaves as the windows allow.
//! It is held while `TCP_CORK` is set, or `MSG_MORE` was given with the last write, or Nagle's algorithm is on and
//! an earlier *small* segment is unacknowledged. That last word is **Minshall's change**: in Nagle's own text any
//! unacknowledged data would do, but a small segment behind full ones only, as at the end of a long write, would
//! then wait for nothing.
//!
//! It is released by an ACK of the small segment before it, by writes that fill it, by `TCP_NODELAY` (a cork's bytes
//! too, if they are queued already), by clearing the cork (unless Nagle's algorithm then holds it), and, if nothing
//! is in flight so that no ACK can come, by the **persist timer** after 200 ms. That timer was made for probing a
//! closed window; for a forgotten cork it is the ceiling.
//!
//! A write itself waits, with `TCP_NODELAY` too, while what is unacknowledged takes the whole **send buffer**, the memory
//! around each segment included. By itself that buffer has room for two congestion windows, so this is rare; where a
//! program gave it room for one message only (`SO_SNDBUF`), the next one waits for the delayed ACK. Byte for byte:
//!
//! ```
//! use smallwrites::model::{Facts, predict};
//!
//! let stalls = |text: &str| {
//!     let exchange = text.parse()?;
//!     let second = predict(&exchange, &Facts::loopback_for(&exchange), 2)?.requests.remove(1);
//!     Ok::<_, Box<dyn std::error::Error>>(second.quanta())
//! };
//! assert_eq!(stalls("C: [nodelay sndbuf=1] W3775 W1 R1 / S: R3776 W1")?, 0);
//! assert_eq!(stalls("C: [nodelay sndbuf=1] W3776 W1 R1 / S: R3777 W1")?, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The receiver: when it acknowledges
//!
//! * **At arrival**, if more than one segment's worth of bytes is unacknowledged and the window can move on, or if
//!   quick ACKs are left outside pingpong mode. What a segment's worth is, is an estimate: 536 bytes at first, then
//!   the largest segment seen.
//! * **On a read** that leaves more than that unacknowledged; or that empties the queue, after two small segments
//!   in any mode, after one outside pingpong mode.
//! * **With its own data**, which acknowledges everything.
//! * **On the delayed-ACK timer** otherwise.
//!
//! So a held tail never stalls if the receiver isn't in pingpong mode, or more than a segment's worth waits with it,
//! or two small segments do, or the receiver writes. Everything else in these files decides which of these is the
//! case around the segment size, where windows, their growth and the memory that a segment costs come into play.
//!
//! # What happens during a system call
//!
//! Over loopback a segment is delivered inside the `send` that sent it, and so is the ACK that it provokes. But a
//! socket that is in a system call is locked, and what arrives for it waits in its **backlog** until the call ends.
//! So an ACK provoked by the first part of a long write changes nothing for the rest of that write.
//!
//! # The order of steps
//!
//! Who runs when decides what is held, so a prediction is for one order: each side in turn, the client first, runs
//! its script until it must wait. When neither can go on, time moves to the next timer or to the end of a pause.
//! All reads and writes are free, and the path takes no time.
//!
//! # A relay
//!
//! A relay makes two connections of one, on the same clock and the same loopback device. It runs between the two sides
//! and writes on what it has read, so a message that arrives in two pieces leaves it in two writes, and Nagle's
//! algorithm at the relay holds the second. `TCP_NODELAY` at both ends doesn't help against that:
//!
//! ```
//! use smallwrites::exchange::Socket;
//! use smallwrites::model::{Ended, Facts, predict};
//!
//! let exchange = "C: [nodelay] W75 R83 / relay: / S: [nodelay] R75 W79 P1 W4".parse()?;
//! let second = predict(&exchange, &Facts::loopback_for(&exchange), 2)?.requests.remove(1);
//! assert_eq!(second.held[Socket::Server], [0, 0]);
//! assert_eq!(second.held[Socket::RelayTowardsClient], [0, 4]);
//! assert_eq!(second.waits[0].ended_by, Ended::Pause);
//! assert_eq!(second.waits[1].ended_by, Ended::DelayedAck(Socket::Client));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What the rules promise
//!
//! Held against ten thousand exchanges each, with the model alone: every byte leaves once and in order; no request is
//! held for ever; `TCP_NODELAY` never lets a message of its side stall, corks and full send buffers aside; a quick-ACK
//! route does the same for both sides; and a message split into however many writes stalls for one quantum at most, and
//! for one more each time that it fills the send buffer, as `C: [nodelay sndbuf=1] W4000 W4000 W8000 R1 / S: R16000 W1`
//! does twice. A message that is one write doesn't stall *if every message is answered*: the answer carries the ACK.
//! `C: W1 R1 W1 / S: R1 W1 R1` is the smallest exchange without that, and stalls. Two split messages in one direction
//! cost two quanta, as in `C: W1 W1 R1 W1 W1 R1 / S: R2 W1 R2 W1`.
//!
//! # What is left out
//!
//! Loss, reordering, closing, urgent data, other congestion control than reno, automatic receive buffers, segments
//! held back for better segmentation offload, and autocorking, which needs a device that is slower than loopback;
//! `tcp_notsent_lowat`, `tcp_min_tso_segs` and `tcp_shrink_window` where they are not what the kernel sets. Windows
//! without scaling are followed, but not always where hundreds of kilobytes are unread.
//!
//! # What a tick decides
//!
//! After a wait of 200 ms the kernel grants new quick ACKs if the gap was longer than the receiver's retransmission
//! timeout, and both are within a tick or two of each other and follow measured round trips. A prediction says what its
//! own round trips come to and lists such [close calls](Prediction::close_calls); [`predict_deciding`] says what else may
//! come of them, and [`agreement::predicted`](crate::agreement::predicted) which of it did.
//!
//! A relay's two connections may each wait for a timer, both set within one tick. Here they fire together; a kernel whose
//! clock ticked between the two fires one of them a tick earlier, and what that lets go reaches the relay before the other
//! fires. Between two delayed ACKs of a request without a pause there are microseconds, so that is rare. A pause shorter
//! than a tick between the two leaves it open, since the model starts at the beginning of a tick and a kernel anywhere in
//! one; and so do two 200 ms holds, whose timeouts follow measured round trips.
//!
//! # Where to read on
//!
//! Each rule is one function that names the kernel function and the RFC section that it follows: the sender's in
//! `model/sender.rs`, `model/send_buffer.rs` and `model/acknowledged.rs`, the receiver's in `model/receiver.rs`,
//! `model/delayed_ack.rs` and `model/window.rs`. `model/host.rs` says who calls them when; the programs that play on the
//! sockets are in `model/progress.rs` and `model/relay.rs`. [`Rule`] lists those that can be taken out.

mod acknowledged;
mod close_call;
mod delayed_ack;
mod env;
mod facts;
mod host;
mod player;
mod prediction;
mod progress;
mod receiver;
mod relay;
mod round_trip;
mod rules;
mod segment;
mod send_buffer;
mod sender;
mod socket;
mod system_call;
mod timeline;
mod window;

#[cfg(test)]
mod tests;

pub use close_call::CloseCall;
pub use facts::{Facts, Start};
pub use player::predict_deciding;
pub use prediction::{Ended, Prediction, Request, Stuck, Unpredictable, Wait};
pub use rules::{Rule, Rules};
pub use timeline::{Event, Moment, Timeline};

use crate::exchange::Exchange;

/// Predicts what will be seen of so many requests of an exchange.
///
/// # Errors
///
/// [`Unpredictable`] if the exchange has a step or an option that the model has no rules for.
pub fn predict(exchange: &Exchange, facts: &Facts, requests: u32) -> Result<Prediction, Unpredictable> {
    predict_with(exchange, facts, Rules::all(), requests)
}

/// [`predict`] where each request has a connection of its own. The timeline has the first one only.
///
/// # Errors
///
/// As for [`predict`].
pub fn predict_fresh(exchange: &Exchange, facts: &Facts, requests: u32) -> Result<Prediction, Unpredictable> {
    let one = predict(exchange, facts, 1)?;
    // Each connection begins alike.
    let requests = (0..requests).flat_map(|_| one.requests.iter().cloned()).collect();
    Ok(Prediction { requests, ..one })
}

/// [`predict`] with some of the rules taken out, to see what they are worth.
///
/// # Errors
///
/// As for [`predict`].
pub fn predict_with(
    exchange: &Exchange,
    facts: &Facts,
    rules: Rules,
    requests: u32,
) -> Result<Prediction, Unpredictable> {
    predict_deciding(exchange, facts, rules, requests, &[])
}
