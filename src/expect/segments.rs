//! Assertions about how many segments a side sends.

use super::{Expect, Failure, Kind};
use crate::exchange::Side;
use crate::observation::Request;
use crate::verdict::was_late;

assertions! {
    /// A side sends so many data segments in all, retransmissions left out, and each request as many as the next. Requests
    /// in which the machine was late may send more.
    data_segments = try_data_segments(side: Side, count: u32) |this| {
        let requests = this.seen.requests.len() as u32;
        let seen = this.seen.sockets[side].data_segments;
        let mut late = this.seen.requests.iter().filter(|request| was_late(this.seen, request)).peekable();
        let explained = seen != Some(count)
            && late.peek().is_some()
            && requests > 0
            && count.is_multiple_of(requests)
            && this.first_on_time(|request| request.data_segments[side] != Some(count / requests)).is_none();
        if seen == Some(count) || explained {
            return Ok(this.fact(format!("{side} {count} data segments"), None));
        }
        let saw = seen.map_or_else(|| "unknown: the kernel does not count them".to_owned(), |seen| format!("{seen} data segments"));
        let because = "tcpi_data_segs_out less tcpi_total_retrans, after the last request less before the first";
        Err(this.failure(Kind::Segments, format!("{count} data segments from the {side}"), because, saw))
    }

    /// A side sends so many data segments in each request; one in which the machine was late may send more.
    segments_per_request = try_segments_per_request(side: Side, count: u32) |this| {
        let Some(other) = this.first_on_time(|request| request.data_segments[side] != Some(count)) else {
            return Ok(this.fact(format!("{side} {count} data segment{} a request", plural(count)), None));
        };
        Err(this.segments(side, other, format!("{count} data segment{} from the {side} in each request", plural(count))))
    }

    /// A side sends fewer data segments than so many in each request; one in which the machine was late may send more.
    fewer_segments_per_request = try_fewer_segments_per_request(side: Side, count: u32) |this| {
        let wrong = this.first_on_time(|request| request.data_segments[side].is_none_or(|seen| seen >= count));
        let Some(other) = wrong else {
            return Ok(this.fact(format!("{side} fewer than {count} data segments a request"), None));
        };
        Err(this.segments(side, other, format!("fewer than {count} data segments from the {side} in each request")))
    }

    /// A side sends so many segments without data in all.
    bare_acks = try_bare_acks(side: Side, count: u32) |this| {
        let seen = this.seen.sockets[side].bare_acks;
        if seen == Some(count) {
            return Ok(this.fact(format!("{side} {count} bare ACKs"), None));
        }
        let saw = seen.map_or_else(|| "unknown: the kernel does not count them".to_owned(), |seen| format!("{seen} bare ACKs"));
        let because = "tcpi_segs_out less tcpi_data_segs_out, after the last request less before the first";
        Err(this.failure(Kind::Segments, format!("{count} bare ACKs from the {side}"), because, saw))
    }

    /// Nothing was sent twice, by either side.
    nothing_resent = try_nothing_resent() |this| {
        let resent = Side::BOTH.map(|side| this.seen.sockets[side].retransmitted);
        if resent == [Some(0), Some(0)] {
            return Ok(this.fact("nothing sent twice", None));
        }
        let saw = format!("segments sent again: client {:?}, server {:?}", resent[0], resent[1]);
        Err(this.failure(Kind::Segments, "nothing sent twice", "tcpi_total_retrans of both sockets", saw))
    }
}

impl Expect<'_> {
    fn segments(&self, side: Side, request: &Request, expected: String) -> Failure {
        let seen =
            request.data_segments[side].map_or_else(|| "an unknown number of".to_owned(), |seen| seen.to_string());
        let saw = format!("{seen} data segments in request {}", request.number);
        let because = "tcpi_data_segs_out less tcpi_total_retrans, before and after each request";
        self.failure(Kind::Segments, expected, because, saw)
    }
}

fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}
