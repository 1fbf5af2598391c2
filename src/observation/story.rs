//! Which of the captured segments tell how held bytes left.

use super::{Frame, Hold, Observation, Release, Rule, milliseconds};

/// The segments around one hold, as indices into the capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// The hold.
    pub hold: Hold,
    /// The last segment that left before the bytes were held: what they waited for.
    pub header: usize,
    /// The last segment of the peer that came before they left, where one did.
    pub releaser: Option<usize>,
    /// The segment in which they left.
    pub body: usize,
    /// The peer's first data after that.
    pub reply: Option<usize>,
}

impl Observation {
    /// How the bytes that one request held left, where a capture was made; the first request is 1.
    #[must_use]
    pub fn stories(&self, number: u32) -> Vec<Story> {
        let holds = self.requests.iter().filter(|request| request.number == number).flat_map(|request| &request.holds);
        holds.filter_map(|hold| self.story(number, hold)).collect()
    }

    fn story(&self, number: u32, hold: &Hold) -> Option<Story> {
        let frames = self.frames.as_ref()?;
        let side = hold.socket.side();
        let holders = self.exchange.relay.is_some().then_some(hold.socket);
        let belongs = |frame: &Frame| holders.is_none_or(|socket| frame.connection % 2 == socket.pair());
        let of_request = || frames.range_of(number).filter(|i| belongs(&frames[*i]));
        let header = of_request().take_while(|i| frames[*i].at_us < hold.at_us);
        let header = header.filter(|i| frames[*i].from == side && frames[*i].is_data()).last()?;
        let sent = frames[header].end();
        let is_body = |frame: &Frame| frame.from == side && frame.is_data() && frame.end() > sent;
        let body = of_request().find(|i| *i > header && is_body(&frames[*i]))?;
        let held = hold.at_us..=frames[body].at_us;
        let came = |i: &usize| frames[*i].there_us().is_some_and(|there| held.contains(&there));
        let releaser = of_request().filter(|i| *i < body && frames[*i].from != side).rfind(came);
        let reply = of_request().find(|i| *i > body && frames[*i].from != side && frames[*i].is_data());
        Some(Story { hold: hold.clone(), header, releaser, body, reply })
    }

    /// A sentence for each segment that tells the story of a request, in the order in which they left.
    #[must_use]
    pub fn comments(&self) -> Vec<(usize, String)> {
        let Some(frames) = &self.frames else { return Vec::new() };
        let mut comments = Vec::new();
        for request in &self.requests {
            for story in self.stories(request.number) {
                self.tell(request.number, &story, &mut comments);
            }
        }
        let dropped = frames.iter().enumerate().filter(|(_, frame)| frame.dropped);
        comments.extend(dropped.map(|(i, _)| (i, "lost by the wire on purpose".to_owned())));
        comments.sort_by_key(|(i, _)| *i);
        comments
    }

    fn tell(&self, request: u32, story: &Story, comments: &mut Vec<(usize, String)>) {
        let Some(frames) = &self.frames else { return };
        let Hold { socket, bytes, rule, released_by, .. } = &story.hold;
        let waits = if *rule == Rule::SendBuffer { "waits for room" } else { "is held" };
        let apart = |from: Option<i64>, to: i64| milliseconds(u64::try_from(to - from.unwrap_or(to)).unwrap_or(0));
        let (header, body) = (&frames[story.header], &frames[story.body]);
        comments.push((
            story.header,
            format!(
                "request {request}: the header, {} bytes; the next write {waits} in the {socket}'s socket, {bytes} bytes ({})",
                header.payload,
                rule.words()
            ),
        ));
        if let Some(releaser) = story.releaser {
            let frame = &frames[releaser];
            let gap = apart(header.there_us(), frame.at_us);
            let what = if frame.is_bare_ack() { "bare ACK" } else { "data with an ACK" };
            let by = release(*released_by);
            comments.push((releaser, format!("request {request}: {what}, {gap} after the header came ({by})")));
        }
        let held = apart(Some(story.hold.at_us), body.at_us);
        comments.push((story.body, format!("request {request}: the body, {held} after it was written")));
        if let Some(reply) = story.reply {
            comments.push((reply, format!("request {request}: the reply")));
        }
    }
}

impl super::Socket {
    /// Which connection of a relay's pair it is on: the client's is opened first.
    fn pair(self) -> u32 {
        match self {
            Self::Client | Self::RelayTowardsClient => 0,
            Self::Server | Self::RelayTowardsServer => 1,
        }
    }
}

/// What ended a hold, in a word or two.
#[must_use]
pub fn release(release: Release) -> &'static str {
    match release {
        Release::DelayedAck => "delayed ACK",
        Release::Ack => "ACK at once",
        Release::Reply => "reply",
        Release::PersistTimer => "persist timer",
        Release::LossProbe => "tail loss probe",
        Release::OwnStep => "own step",
        Release::Never => "never",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::exchange::Side;
    use crate::observation::capture::tests::stalled;
    use crate::observation::{Bytes, Environment, Frames, Order, Request, Rule, SCHEMA, Socket, Write};
    use std::time::Duration;

    /// One stalled request over a wire of 10 ms, with bytes for every frame.
    pub(crate) fn observation() -> Observation {
        let write = |at_us, socket, bytes, held| Write {
            at_us,
            socket,
            bytes,
            held: Some(held),
            data_segments: None,
            since_received_ms: None,
        };
        let hold = Hold {
            at_us: 60,
            socket: Socket::Client,
            step: crate::exchange::Step::Write(10),
            bytes: 10,
            unacked: Some(1),
            cwnd: Some(10),
            rule: Rule::Nagle,
            released_by: Release::DelayedAck,
            waited: true,
            lasted_us: 73_000,
        };
        let bytes = |i: usize| Bytes { stamp: Duration::new(7, i as u32), bytes: vec![i as u8; 60 + i] };
        Observation {
            schema: SCHEMA,
            exchange: "C: W10 W10 R20 / S: R20 W20".parse().unwrap(),
            order: Order::Ordered,
            fresh: false,
            environment: Environment { place: "wire".to_owned(), ..Environment::default() },
            requests: vec![Request {
                number: 1,
                at_us: 0,
                latency_us: 84_090,
                receivers: Default::default(),
                writes: vec![
                    write(30, Socket::Client, 10, 0),
                    write(60, Socket::Client, 10, 10),
                    write(73_960, Socket::Server, 20, 0),
                ],
                holds: vec![hold],
                blocked: None,
                listed: None,
                longest_step_us: None,
                relay: None,
                data_segments: Default::default(),
                bare_acks: Default::default(),
                delayed_acks: Some(1),
                run_queue_us: None,
            }],
            sockets: Default::default(),
            relay: None,
            opened_us: Vec::new(),
            counters: None,
            cpu_us: None,
            elapsed_us: 84_090,
            wire: None,
            frames: Some(Frames::new(stalled().into_iter().zip((0..).map(bytes)).collect())),
        }
    }

    #[test]
    fn header_ack_body_and_reply_are_found() {
        let seen = observation();
        let stories = seen.stories(1);
        assert_eq!(stories.len(), 1);
        let Story { header, releaser, body, reply, .. } = stories[0];
        assert_eq!((header, releaser, body, reply), (0, Some(1), 2, Some(4)));
        assert_eq!(
            seen.comments(),
            [
                (
                    0,
                    "request 1: the header, 10 bytes; the next write is held in the client's socket, 10 bytes (Nagle)"
                        .to_owned()
                ),
                (1, "request 1: bare ACK, 43.7 ms after the header came (delayed ACK)".to_owned()),
                (2, "request 1: the body, 63.8 ms after it was written".to_owned()),
                (4, "request 1: the reply".to_owned()),
            ]
        );
        assert!(seen.stories(2).is_empty());
    }

    #[test]
    fn a_lost_ack_releases_nothing() {
        let mut seen = observation();
        let mut frames: Vec<_> = stalled();
        frames[1].dropped = true;
        assert_eq!(frames[1].from, Side::Server);
        let raw = seen.frames.take().unwrap().raw().to_vec();
        seen.frames = Some(Frames::new(frames.into_iter().zip(raw).collect()));
        assert_eq!(seen.stories(1)[0].releaser, None);
        assert!(seen.comments().contains(&(1, "lost by the wire on purpose".to_owned())));
    }
}
