//! When a node says that it lives, and when it looks who owns what.
//!
//! It beats ten times in a lease. It looks every second at least, however long the lease is: a node that has not seen the next owner
//! passes requests on to the one before, or takes nothing that is free.

use std::time::{Duration, Instant};

use armilla_storage::ledger::Lease;

/// The longest time between two looks.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(1);

/// The beats and looks of a node.
pub(super) struct Pace {
    beat_every: Duration,
    look_every: Duration,
    /// While something changes its owner: requests are held meanwhile.
    moving_every: Duration,
    next_beat: Instant,
}

impl Pace {
    pub(super) fn new(lease: &Lease, moving_every: Duration, now: Instant) -> Self {
        let beat_every = lease.beat_every();
        let look_every = beat_every.min(LOOK_EVERY_MAX);
        Self { beat_every, look_every, moving_every, next_beat: now }
    }

    /// Whether to beat before the look that is made now. While something changes its owner, others wait for what this node tells.
    pub(super) fn is_beat_due(&mut self, now: Instant, is_moving: bool) -> bool {
        let is_due = is_moving || now >= self.next_beat;
        if is_due {
            self.next_beat = now + self.beat_every;
        }
        is_due
    }

    /// How long to wait for the next look, when the last one was begun at this moment.
    pub(super) fn pause(&self, begun: Instant, now: Instant, is_moving: bool) -> Duration {
        let every =
            if is_moving { self.look_every.min(self.moving_every) } else { self.look_every };
        (begun + every).min(self.next_beat).saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use armilla_model::clock::monotonic;

    use super::*;

    /// Beats and looks in a time.
    fn counted(lease: Duration, time: Duration, is_moving: bool) -> (u32, u32) {
        let begun = monotonic();
        let mut now = begun;
        let mut pace = Pace::new(&Lease::new(lease), Duration::from_millis(10), begun);
        let (mut beats, mut looks) = (0, 0);
        while now < begun + time {
            beats += u32::from(pace.is_beat_due(now, is_moving));
            looks += 1;
            // A beat and a look take a moment.
            let done = now + Duration::from_millis(2);
            now = done + pace.pause(now, done, is_moving);
        }
        (beats, looks)
    }

    #[test]
    fn a_node_looks_every_second_however_long_its_lease_is() {
        let minute = Duration::from_secs(60);
        let (beats, looks) = counted(Duration::from_secs(300), minute, false);
        assert_eq!(beats, 2);
        assert!((60..=62).contains(&looks), "{looks} looks");
        let (beats, looks) = counted(Duration::from_secs(2), minute, false);
        assert_eq!((beats, looks), (300, 300), "each look has its beat");
        let (beats, _) = counted(Duration::from_secs(15), minute, false);
        assert_eq!(beats, 40, "beats are not late because of the looks");
    }

    #[test]
    fn while_something_moves_a_node_looks_and_tells_at_once() {
        let (beats, looks) = counted(Duration::from_secs(300), Duration::from_secs(1), true);
        assert_eq!((beats, looks), (100, 100));
    }
}
