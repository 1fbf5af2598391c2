//! The thread in the middle of a wire: takes each frame from one end, keeps it for the delay, and puts it on the other.

use super::LabError;
use super::loss::Filter;
use super::wire::WireSpec;
use crate::exchange::{Side, Sides};
use crate::sys::capture::{Capture, RawFrame, Settings};
use crate::sys::transfer::{self, Interest};
use crate::sys::{clock, counters, device, namespace, veth};
use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

/// The ends' device; each is alone in its namespace.
pub(super) const DEVICE: &str = "wire";

/// Stack of the forwarding thread, bytes.
const STACK: usize = 256 << 10;

/// The longest frame that an end may send: the MTU of Ethernet and its header.
const LONGEST: usize = 1514;

/// The hardware address of an end.
pub(super) fn mac(side: Side) -> [u8; 6] {
    match side {
        Side::Client => [2, 0, 0, 0, 0, 1],
        Side::Server => [2, 0, 0, 0, 0, 2],
    }
}

/// A frame as it passed the middle.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) frame: RawFrame,
    /// Lost on purpose.
    pub(crate) dropped: bool,
    /// When it was put on the far end; `None` for one that was dropped or was still on its way.
    pub(crate) sent_at: Option<Duration>,
}

/// What passed since the last time that somebody asked.
#[derive(Debug, Default)]
pub(crate) struct Passage {
    /// Every frame, while recording was asked for.
    pub(crate) frames: Vec<Passed>,
    /// Frames lost on purpose.
    pub(crate) dropped: Sides<u64>,
    /// From the kernel's stamp on the way in until the frame was sent on, microseconds, one entry per frame.
    pub(crate) transit_us: Sides<Vec<u64>>,
    /// How much of it was neither asked for nor waiting for the line, microseconds.
    pub(crate) late_us: Sides<Vec<u64>>,
    /// Frames that the forwarder itself lost, or should never have been given.
    pub(crate) faults: Faults,
}

/// What makes a passage worthless.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Faults {
    /// The receive buffer was full.
    pub(crate) overflowed: u64,
    /// The far end took them not.
    pub(crate) unsent: u64,
    /// Without a time stamp, without a checksum, or longer than the link allows.
    pub(crate) malformed: u64,
}

impl Faults {
    pub(crate) fn any(self) -> bool {
        self != Self::default()
    }
}

/// A handle of the thread; it ends with the handle.
#[derive(Debug)]
pub(super) struct Forwarder {
    shared: Arc<Shared>,
    wake: PipeWriter,
    asks: SyncSender<SyncSender<Passage>>,
}

#[derive(Debug)]
struct Shared {
    /// For each loss of the wire the moment at which it began.
    armed: Mutex<Vec<Option<Duration>>>,
    recording: AtomicBool,
}

impl Forwarder {
    /// Starts the thread and returns when both ends have their device, named [`DEVICE`] and down.
    pub(super) fn start(spec: &WireSpec, namespaces: &Sides<OwnedFd>) -> Result<Self, LabError> {
        let step = |doing| move |source| LabError::Step { doing, source };
        let (wakened, wake) = io::pipe().map_err(step("make a pipe for the wire"))?;
        let (asks, asked) = sync_channel(1);
        let (ready, readied) = sync_channel(1);
        let shared =
            Arc::new(Shared { armed: Mutex::new(vec![None; spec.losses.len()]), recording: AtomicBool::new(false) });
        let ends = Sides {
            client: namespaces.client.try_clone().map_err(step("duplicate a namespace's handle"))?,
            server: namespaces.server.try_clone().map_err(step("duplicate a namespace's handle"))?,
        };
        let (spec, theirs) = (spec.clone(), Arc::clone(&shared));
        let thread = thread::Builder::new().name("wire".to_owned()).stack_size(STACK);
        // Not joined: closing a packet socket waits for the kernel's grace period, and nobody has to wait with it.
        let thread = thread.spawn(move || match middle(&ends) {
            Ok(captures) => {
                drop(ends);
                let _ = ready.send(Ok(()));
                Middle::new(&spec, captures, theirs).run(&wakened, &asked);
            }
            Err(error) => drop(ready.send(Err(error))),
        });
        thread.map_err(step("start a thread for the wire"))?;
        match readied.recv() {
            Ok(made) => made.map_err(step("lay the wire"))?,
            Err(_) => return Err(step("lay the wire")(io::Error::other("its thread is gone"))),
        }
        Ok(Self { shared, wake, asks })
    }

    /// Begins the losses of this index that have not begun.
    pub(super) fn arm(&self, losses: impl Iterator<Item = usize>) {
        let mut armed = self.shared.armed.lock().unwrap_or_else(PoisonError::into_inner);
        for index in losses {
            armed[index].get_or_insert_with(now);
        }
    }

    /// Whether frames are kept for the next [`Forwarder::passage`].
    pub(super) fn record(&self, on: bool) {
        self.shared.recording.store(on, Ordering::Relaxed);
    }

    /// What passed since the last call.
    pub(super) fn passage(&self) -> Result<Passage, LabError> {
        let gone = || LabError::Step { doing: "ask the wire", source: io::Error::other("its thread is gone") };
        let (answer, answered) = sync_channel(1);
        self.asks.send(answer).map_err(|_| gone())?;
        (&self.wake).write_all(&[0]).map_err(|source| LabError::Step { doing: "wake the wire", source })?;
        answered.recv().map_err(|_| gone())
    }
}

/// Moves the thread into a namespace of its own and lays both pairs from there.
fn middle(namespaces: &Sides<OwnedFd>) -> io::Result<Sides<Capture>> {
    namespace::enter_network_namespace()?;
    quiet_ipv6()?;
    clock::set_timer_slack(1)?;
    let end = |side: Side, name: &str| {
        let near = veth::End { name, mac: [2, 0, 0, 0, 1, mac(side)[5]] };
        let index = veth::create_pair(near, veth::End { name: DEVICE, mac: mac(side) }, &namespaces[side])?;
        device::set_up(index)?;
        // Up first: a packet socket bound to a link that is down loses its first frame.
        Capture::open(index, Settings { ignore_outgoing: true, ..Settings::default() })
    };
    Ok(Sides { client: end(Side::Client, "client")?, server: end(Side::Server, "server")? })
}

/// Without addresses of its own a device sends nothing by itself.
pub(super) fn quiet_ipv6() -> io::Result<()> {
    for name in ["net.ipv6.conf.all.disable_ipv6", "net.ipv6.conf.default.disable_ipv6"] {
        match counters::set_sysctl(name, "1") {
            // A kernel without IPv6 is quiet already.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// One direction's frames on their way.
#[derive(Debug)]
struct Lane {
    delay: Duration,
    rate: Option<u64>,
    /// When the line has sent what was given to it.
    free: Duration,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    due: Duration,
    stamp: Duration,
    bytes: Vec<u8>,
    /// Its place in the record, counted over all passages.
    recorded: Option<u64>,
}

struct Middle {
    captures: Sides<Capture>,
    lanes: Sides<Lane>,
    filter: Filter,
    shared: Arc<Shared>,
    passage: Passage,
    /// Frames recorded in passages that were given away.
    given: u64,
    /// Overflows already reported.
    overflowed: u64,
}

impl Middle {
    fn new(spec: &WireSpec, captures: Sides<Capture>, shared: Arc<Shared>) -> Self {
        let lane = |side: Side| Lane {
            delay: spec.delay[side],
            rate: spec.rate[side],
            free: Duration::ZERO,
            waiting: VecDeque::new(),
        };
        Self {
            captures,
            lanes: Sides::from_fn(lane),
            filter: Filter::new(&spec.losses),
            shared,
            passage: Passage::default(),
            given: 0,
            overflowed: 0,
        }
    }

    /// Forwards until the handle is gone.
    fn run(mut self, mut wakened: &PipeReader, asked: &Receiver<SyncSender<Passage>>) {
        loop {
            let due = Side::BOTH.iter().filter_map(|side| Some(self.lanes[*side].waiting.front()?.due)).min();
            let timeout = due.map(|due| due.saturating_sub(now()));
            let fds = [
                (self.captures.client.as_fd(), Interest::READ),
                (self.captures.server.as_fd(), Interest::READ),
                (wakened.as_fd(), Interest::READ),
            ];
            let ready = match transfer::wait(&fds, timeout) {
                Ok(ready) => ready,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            for (side, ready) in Side::BOTH.into_iter().zip(&ready) {
                if ready.any() {
                    self.take(side);
                }
            }
            self.send_due();
            if ready[2].any() {
                // The end of the pipe is the end of the lab.
                if !matches!(wakened.read(&mut [0]), Ok(1)) {
                    return;
                }
                if let Ok(answer) = asked.recv() {
                    let _ = answer.send(self.give());
                }
            }
        }
    }

    /// Takes every frame that waits at one end.
    fn take(&mut self, from: Side) {
        let recording = self.shared.recording.load(Ordering::Relaxed);
        loop {
            let frame = match self.captures[from].next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => return,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.passage.faults.malformed += 1;
                    continue;
                }
                // The far namespace is going away.
                Err(_) => return,
            };
            let is_multicast = frame.bytes.first().is_none_or(|byte| byte & 1 != 0);
            if is_multicast {
                continue;
            }
            if !frame.checksum_ready || frame.wire_length > LONGEST || frame.bytes.len() != frame.wire_length {
                self.passage.faults.malformed += 1;
                continue;
            }
            self.queue(from, frame, recording);
        }
    }

    fn queue(&mut self, from: Side, frame: RawFrame, recording: bool) {
        let dropped = {
            let armed = self.shared.armed.lock().unwrap_or_else(PoisonError::into_inner);
            self.filter.loses(from, &frame.bytes, frame.stamp, &armed)
        };
        self.passage.dropped[from] += u64::from(dropped);
        let recorded = recording.then(|| self.given + self.passage.frames.len() as u64);
        if !dropped {
            let lane = &mut self.lanes[from];
            if let Some(rate) = lane.rate {
                let bits = frame.wire_length as u64 * 8;
                lane.free = lane.free.max(frame.stamp) + Duration::from_nanos(bits * 1_000_000_000 / rate.max(1));
            } else {
                lane.free = frame.stamp;
            }
            // From the kernel's stamp on: what the thread needed to wake up costs nothing.
            let due = lane.free + lane.delay;
            lane.waiting.push_back(Waiting { due, stamp: frame.stamp, bytes: frame.bytes.clone(), recorded });
        }
        if recording {
            self.passage.frames.push(Passed { frame, dropped, sent_at: None });
        }
    }

    fn send_due(&mut self) {
        for from in Side::BOTH {
            while self.lanes[from].waiting.front().is_some_and(|first| first.due <= now()) {
                let Some(Waiting { due, stamp, bytes, recorded }) = self.lanes[from].waiting.pop_front() else { break };
                // The far end may answer before the call has returned.
                let sent = now();
                if self.captures[from.peer()].send(&bytes).is_err() {
                    self.passage.faults.unsent += 1;
                    continue;
                }
                let done = now();
                let since = |start: Duration| u64::try_from(done.saturating_sub(start).as_micros()).unwrap_or(u64::MAX);
                self.passage.transit_us[from].push(since(stamp));
                self.passage.late_us[from].push(since(due));
                let place = recorded.and_then(|place| usize::try_from(place.checked_sub(self.given)?).ok());
                if let Some(passed) = place.and_then(|place| self.passage.frames.get_mut(place)) {
                    passed.sent_at = Some(sent);
                }
            }
        }
    }

    fn give(&mut self) -> Passage {
        for side in Side::BOTH {
            // Not to know is as bad as to have lost.
            self.passage.faults.overflowed += self.captures[side].dropped().unwrap_or(u64::MAX / 4);
        }
        let total = self.passage.faults.overflowed;
        self.passage.faults.overflowed = total.saturating_sub(self.overflowed);
        self.overflowed = total;
        self.given += self.passage.frames.len() as u64;
        std::mem::take(&mut self.passage)
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
