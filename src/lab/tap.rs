//! Everything that passes a device while an exchange is played.

use super::LabError;
use super::forwarder::Passed;
use crate::sys::capture::{Capture, Settings};
use crate::sys::device;
use crate::sys::transfer::{self, Interest};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the frames are fetched: rarely, so that fetching does not disturb what is played, and often enough that the
/// buffer never fills.
const PERIOD: Duration = Duration::from_millis(5);

/// Stack of the fetching thread, bytes.
const STACK: usize = 128 << 10;

/// A capture on the loopback of the namespace that it was opened in.
#[derive(Debug)]
pub(super) struct Tap {
    stop: PipeWriter,
    thread: JoinHandle<io::Result<(Vec<Passed>, u64)>>,
}

impl Tap {
    pub(super) fn open() -> Result<Self, LabError> {
        let step = |doing| move |source| LabError::Step { doing, source };
        let capture = device::index_of("lo").and_then(|index| Capture::open(index, Settings::default()));
        let capture = capture.map_err(step("capture on the loopback"))?;
        let (stopped, stop) = io::pipe().map_err(step("make a pipe for the capture"))?;
        let thread = thread::Builder::new().name("tap".to_owned()).stack_size(STACK);
        let thread = thread.spawn(move || fetch(capture, &stopped)).map_err(step("start a thread for the capture"))?;
        Ok(Self { stop, thread })
    }

    /// Ends the capture: every frame since it began, each once.
    pub(super) fn finish(self) -> Result<Vec<Passed>, LabError> {
        drop(self.stop);
        let fetched = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (frames, overflowed) =
            fetched.map_err(|source| LabError::Step { doing: "capture on the loopback", source })?;
        if overflowed > 0 { Err(LabError::Lossy { overflowed, unsent: 0, malformed: 0 }) } else { Ok(frames) }
    }
}

fn fetch(mut capture: Capture, stopped: &PipeReader) -> io::Result<(Vec<Passed>, u64)> {
    let mut frames = Vec::new();
    loop {
        let ready = transfer::wait(&[(stopped.as_fd(), Interest::READ)], Some(PERIOD));
        while let Some(frame) = capture.next_frame()? {
            // Loopback shows each frame on its way out and again on its way in.
            if frame.outgoing {
                frames.push(Passed { frame, dropped: false, sent_at: None });
            }
        }
        match ready {
            Ok(ready) if ready[0].any() => return Ok((frames, capture.dropped()?)),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
}
