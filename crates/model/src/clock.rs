//! Time is handed in, never asked for: tests move it, and one place decides what "now" is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The wall clock.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970.
    fn now_millis(&self) -> u64;

    /// Whole seconds since 1970, the unit of `_ts` and of time to live.
    fn now_seconds(&self) -> u64 {
        self.now_millis() / 1000
    }
}

/// The system's clock. The one place that asks for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the clock everybody else is handed")]
    fn now_millis(&self) -> u64 {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since_1970.map_or(0, |duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

/// The monotonic clock, for deadlines and durations. The one place that asks for it.
pub fn monotonic() -> Instant {
    Instant::now()
}

/// A clock that tests set and move.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that stands at this second.
    pub fn at_seconds(seconds: u64) -> Self {
        Self(AtomicU64::new(seconds * 1000))
    }

    /// Moves the clock on by less than a second, or more.
    pub fn advance(&self, time: std::time::Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_add(millis, Ordering::SeqCst);
    }

    /// Moves the clock back, as somebody who corrects a wrong one does.
    pub fn go_back_seconds(&self, seconds: u64) {
        self.0.fetch_sub(seconds * 1000, Ordering::SeqCst);
    }

    /// Moves the clock on.
    pub fn advance_seconds(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1000, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_millis(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}
