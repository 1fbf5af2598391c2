//! What a wire did to the frames that it carried.

use super::Summary;
use serde::{Deserialize, Serialize};

/// One direction of a wire, as asked for and as measured over every frame of the play.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Direction {
    /// The delay asked for, microseconds.
    pub asked_us: u64,
    /// From the kernel's time stamp on the way in until the frame was sent on; `None` where none was. With a limited rate it
    /// includes the wait for the line.
    pub transit: Option<Summary>,
    /// How much later than asked for: what the load of the machine cost.
    pub late: Option<Summary>,
    /// Frames lost on purpose.
    pub dropped: u64,
}
