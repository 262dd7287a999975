//! Scripts that had to be stopped, remembered by their body.
//!
//! After a handful of stops a script is refused until it is replaced: the key is a hash of the
//! source, so a new body starts with a clean sheet. The table is bounded; when it is full the
//! script with the fewest stops is forgotten.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bodies remembered at most.
const OFFENDERS_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Offenders {
    stops: Mutex<HashMap<u64, u32>>,
}

impl Offenders {
    /// Adds stops to a body.
    pub(crate) fn record(&self, body_hash: u64, stops: u32) {
        let mut table = self.table();
        if table.len() >= OFFENDERS_MAX && !table.contains_key(&body_hash) {
            let least = table.iter().min_by_key(|(_, stops)| **stops).map(|(hash, _)| *hash);
            if let Some(hash) = least {
                table.remove(&hash);
            }
        }
        let count = table.entry(body_hash).or_default();
        *count = count.saturating_add(stops);
    }

    /// How often a body was stopped.
    pub(crate) fn stops(&self, body_hash: u64) -> u32 {
        self.table().get(&body_hash).copied().unwrap_or(0)
    }

    /// Forgets a body.
    pub(crate) fn forgive(&self, body_hash: u64) {
        self.table().remove(&body_hash);
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_bounded_and_keeps_the_worst() {
        let offenders = Offenders::default();
        offenders.record(u64::MAX, 3);
        for hash in 0..2 * OFFENDERS_MAX as u64 {
            offenders.record(hash, 1);
        }
        assert_eq!(offenders.table().len(), OFFENDERS_MAX);
        assert_eq!(offenders.stops(u64::MAX), 3);
        offenders.forgive(u64::MAX);
        assert_eq!(offenders.stops(u64::MAX), 0);
    }
}
