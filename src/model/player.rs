//! Plays the two scripts, and a relay between them, against their sockets, in a fixed order, on a virtual clock.

use super::facts::Facts;
use super::host::Host;
use super::prediction::{Ended, Prediction, Request, Stuck, Unpredictable, Wait};
use super::progress::{Progress, supported};
use super::relay::Forward;
use super::rules::Rules;
use crate::exchange::{Exchange, Opt, Setting, Side, Sides, Socket as Name, Sockets};

/// [`predict_with`](super::predict_with) where the first [close calls](Prediction::close_calls) come to what is given: for each, whether the
/// time that had passed counts as longer.
///
/// ```
/// use smallwrites::model::{Facts, Rules, predict_deciding};
///
/// let exchange = "C: W10 W10 R20 / S: [cork] R20 W20".parse()?;
/// let facts = Facts::default();
/// let usual = predict_deciding(&exchange, &facts, Rules::all(), 3, &[])?;
/// let first = usual.close_calls[0];
/// let other = predict_deciding(&exchange, &facts, Rules::all(), 3, &[!first.longer])?;
/// assert!(other.close_calls[0].turned);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As for [`predict`](super::predict).
pub fn predict_deciding(
    exchange: &Exchange,
    facts: &Facts,
    rules: Rules,
    requests: u32,
    close_calls: &[bool],
) -> Result<Prediction, Unpredictable> {
    let sockets = exchange.sockets();
    let mut player = Player {
        host: Host::new(sockets, facts, rules, close_calls),
        scripts: Sides {
            client: Progress::new(Name::Client, &exchange.client)?,
            server: Progress::new(Name::Server, &exchange.server)?,
        },
        relay: sockets.relay.map_or(Vec::new(), |_| Forward::both().to_vec()),
        request: Request::of(sockets),
    };
    player.open(exchange)?;
    let mut done = Vec::with_capacity(requests as usize);
    let mut stuck = None;
    for number in 0..requests {
        match player.play_request(number) {
            Ok(request) => done.push(request),
            Err(steps) => {
                stuck = Some(Stuck { request: number, steps });
                break;
            }
        }
    }
    let Host { timeline, close_calls, .. } = player.host;
    Ok(Prediction { requests: done, stuck, timeline, close_calls: close_calls.made })
}

struct Player {
    host: Host,
    scripts: Sides<Progress>,
    /// What runs between the two scripts.
    relay: Vec<Forward>,
    request: Request,
}

impl Player {
    /// Sets the options of the groups before the first step: what an accepted socket inherits, then what is set on
    /// the open connections, a relay's first, then the client's.
    fn open(&mut self, exchange: &Exchange) -> Result<(), Unpredictable> {
        for side in Side::BOTH {
            let script = exchange.script(side);
            for setting in script.bound.iter().chain(&script.listening) {
                let listens = side == Side::Server && script.bound.contains(setting);
                // `listen` forgets it (`inet_csk_delack_init`).
                if !(listens && setting.option == Opt::QuickAck) {
                    self.set_all(side.into(), std::slice::from_ref(setting))?;
                }
            }
        }
        if let Some(relay) = &exchange.relay {
            self.set_all(Name::RelayTowardsClient, &relay.towards_client)?;
            self.set_all(Name::RelayTowardsServer, &relay.towards_server)?;
        }
        Side::BOTH.into_iter().try_for_each(|side| self.set_all(side.into(), &exchange.script(side).opened))
    }

    fn set_all(&mut self, at: Name, settings: &[Setting]) -> Result<(), Unpredictable> {
        for setting in settings {
            if supported(*setting)? {
                self.host.set(at, *setting);
            }
        }
        Ok(())
    }

    /// Plays one request: each program in turn runs until it must wait; if none got on, the clock moves to the next
    /// timer or the end of the next pause. `Err` says where both sides stand if that leads nowhere.
    ///
    /// The request is over when both scripts are, whatever a relay may still have to forward.
    fn play_request(&mut self, number: u32) -> Result<Request, Sides<usize>> {
        self.host.timeline.begin(number);
        let before = self.host.counts;
        self.request.pingpong_before = self.pingpong();
        for side in Side::BOTH {
            self.scripts[side].next = 0;
        }
        let mut waiting_since = None;
        let mut released = Vec::new();
        loop {
            let got_on = self.run();
            if got_on && let Some(tick) = waiting_since.take() {
                self.waited(self.host.env.now - tick, std::mem::take(&mut released));
            }
            if self.scripts.client.finished() && self.scripts.server.finished() {
                break;
            }
            if !got_on {
                waiting_since.get_or_insert(self.host.env.now);
                released = self.wait().ok_or(Sides::from_fn(|side| self.scripts[side].next))?;
            }
        }
        let sockets = before.map(|_| ());
        let mut request = std::mem::replace(&mut self.request, Request::of(sockets));
        for at in sockets.names() {
            let (now, then) = (self.host.counts[at], before[at]);
            request.delayed_acks[at] = now.delayed_acks - then.delayed_acks;
            request.data_segments[at] = now.data_segments - then.data_segments;
            request.bare_acks[at] = now.bare_acks - then.bare_acks;
            request.quick_acks[at] = self.host.sockets[at].receiver.quick;
        }
        request.pingpong_after = self.pingpong();
        Ok(request)
    }

    fn pingpong(&self) -> Sockets<bool> {
        self.host.sockets.map(|at| self.host.sockets[at].receiver.in_pingpong_mode(&self.host.env))
    }

    /// Runs every program once, along the path from the client to the server. Returns whether any got on.
    fn run(&mut self) -> bool {
        let Self { host, scripts, relay, request } = self;
        let mut got_on = scripts.client.run(host, request);
        for forward in relay {
            got_on |= forward.run(host, request);
        }
        got_on | scripts.server.run(host, request)
    }

    /// Moves the clock to whatever comes next, and says what let go of held bytes then. `None` if nothing will come.
    fn wait(&mut self) -> Option<Vec<Ended>> {
        self.poll();
        let timer = self.host.next_timer().map(|tick| self.host.env.tick_us(tick));
        let pauses = [self.scripts.client.until_us, self.scripts.server.until_us];
        let next = pauses.into_iter().chain([timer]).flatten().min()?;
        self.host.env.advance(next);
        Some(self.host.run_timers())
    }

    /// The programs wait on every socket but those whose side pauses or has finished.
    fn poll(&mut self) {
        for at in self.host.sockets.names() {
            let waits = match at {
                Name::Client => self.scripts.client.waits(),
                Name::Server => self.scripts.server.waits(),
                Name::RelayTowardsClient | Name::RelayTowardsServer => true,
            };
            if waits {
                self.host.sockets[at].sender.poll(&self.host.env);
            }
        }
    }

    /// A wait is over.
    fn waited(&mut self, ticks: u64, released: Vec<Ended>) {
        let mut ended_by = released.into_iter();
        let first = ended_by.next().unwrap_or(Ended::Pause);
        self.request.waits.push(Wait { ticks, ended_by: first });
        self.request.waits.extend(ended_by.map(|ended_by| Wait { ticks: 0, ended_by }));
    }
}
