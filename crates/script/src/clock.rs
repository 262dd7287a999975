//! The monotonic clock of this crate, which knows no other one.

use std::time::Instant;

/// Now, for deadlines and durations. The one place that asks for it.
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}
