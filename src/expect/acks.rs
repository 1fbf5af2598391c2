//! Assertions about when a receiver acknowledges.

use super::{Expect, Failure, Kind};
use crate::exchange::Side;
use crate::observation::Request;

assertions! {
    /// In each request a side's delayed-ACK timer fires and sends a bare ACK; where others share the counters, a bare ACK of a
    /// side in pingpong mode has to do.
    acks_late = try_acks_late(receiver: Side) |this| {
        let other = this.first_on_time(|request| {
            let delayed = match request.delayed_acks {
                Some(fired) => fired > 0,
                None => request.receivers[receiver].pingpong == Some(true),
            };
            !delayed || request.bare_acks[receiver].is_none_or(|count| count == 0)
        });
        let Some(request) = other else {
            return Ok(this.fact(format!("the {receiver}'s ACK waits for the delayed-ACK timer in each request"), None));
        };
        let because = "a lone small segment that no reply follows is acknowledged by the timer (tcp_delack_timer_handler)";
        Err(this.acks(receiver, request, format!("a delayed ACK of the {receiver} in each request"), because))
    }

    /// A side that delays its ACKs sends none of its own: the reply carries it. A request in which the machine was late fits
    /// either way.
    reply_carries_ack = try_reply_carries_ack(replier: Side) |this| {
        let other = this.first_on_time(|request| {
            request.receivers[replier].pingpong == Some(true) && request.bare_acks[replier] != Some(0)
        });
        let delays = this.seen.requests.iter().any(|request| request.receivers[replier].pingpong == Some(true));
        match other.or(this.seen.requests.first().filter(|_| !delays)) {
            None => Ok(this.fact(format!("no bare ACK of a {replier} in pingpong mode: its reply carries the ACK"), None)),
            Some(request) => {
                let because = "a segment with data carries the ACK, which clears the delayed one (tcp_event_ack_sent)";
                Err(this.acks(replier, request, format!("a {replier} in pingpong mode whose reply carries the ACK"), because))
            }
        }
    }

    /// In each request a side sends a bare ACK and no delayed-ACK timer fires; one in which the machine was late fits either way.
    acks_at_once = try_acks_at_once(receiver: Side) |this| {
        let other = this.first_on_time(|request| {
            request.bare_acks[receiver].is_none_or(|count| count == 0) || request.delayed_acks.is_some_and(|fired| fired > 0)
        });
        let Some(request) = other else {
            return Ok(this.fact(format!("the {receiver} sends a bare ACK without the timer in each request"), None));
        };
        let because = "the data has to be acknowledged at once (__tcp_ack_snd_check, __tcp_cleanup_rbuf)";
        Err(this.acks(receiver, request, format!("an ACK of the {receiver} without the timer in each request"), because))
    }
}

impl Expect<'_> {
    fn acks(&self, side: Side, request: &Request, expected: String, because: &str) -> Failure {
        let count = |count: Option<String>| count.unwrap_or_else(|| "an unknown number of".to_owned());
        let saw = format!(
            "request {}: pingpong mode {:?}, {} bare ACKs, {} delayed ACKs",
            request.number,
            request.receivers[side].pingpong,
            count(request.bare_acks[side].map(|count| count.to_string())),
            count(request.delayed_acks.map(|count| count.to_string())),
        );
        self.failure(Kind::Law, expected, because, saw)
    }
}
