//! The logical partition keys that requests spend most on, by container.
//!
//! A space-saving sketch for each container: so many keys are counted, and one that is not among them takes the place of the
//! smallest, with what that had. So whichever key has more than its share of the units is among them, whatever the number of keys.
//! Two windows are kept, this one and the one before, so what is told is of the last five to ten minutes.
//! Noting a request takes one short lock that nobody waits for: whoever meets another leaves his request out.

use crate::limits::{
    HOT_KEY_CONTAINERS_MAX, HOT_KEY_WINDOW_SECONDS, HOT_KEYS_KEPT, LOGGED_TEXT_MAX,
};
use crate::word_hash::WordHash;
use arc_swap::ArcSwap;
use armilla_model::charge::RequestCharge;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

/// What was seen of a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HotKey {
    /// As the header names it.
    pub(crate) key: String,
    /// Units of its requests, and at most so many that may be of others.
    pub(crate) units: f64,
    pub(crate) units_of_others_max: f64,
    pub(crate) requests: u64,
}

type WindowsByContainer = HashMap<u32, Arc<Mutex<Windows>>, WordHash>;

/// The sketches by the number of the container.
#[derive(Default)]
pub(crate) struct HotKeys {
    containers: ArcSwap<WindowsByContainer>,
    hasher: RandomState,
}

/// This window and the one before.
#[derive(Default)]
struct Windows {
    number: u64,
    now: Sketch,
    before: Sketch,
}

/// The keys that are counted; hashes and steps stand apart, since they are looked through for each request.
#[derive(Default)]
struct Sketch {
    hashes: Vec<u64>,
    steps: Vec<u64>,
    counts: Vec<KeyCount>,
}

#[derive(Clone, Default)]
struct KeyCount {
    key: String,
    steps_of_others: u64,
    requests: u64,
}

impl HotKeys {
    /// Counts a request that named a key of a container.
    pub(crate) fn note(&self, container: u32, key: &str, charge: RequestCharge, now_seconds: u64) {
        if key.len() > LOGGED_TEXT_MAX {
            return;
        }
        let known = self.containers.load();
        let windows = match known.get(&container) {
            Some(windows) => windows,
            None => &match self.make_windows(container) {
                Some(windows) => windows,
                None => return,
            },
        };
        let hash = self.hasher.hash_one(key);
        let Some(mut windows) = windows.try_lock() else { return };
        windows.turn(now_seconds / HOT_KEY_WINDOW_SECONDS);
        windows.now.note(hash, key, charge.steps());
    }

    /// The keys of a container, the hottest first.
    pub(crate) fn of(&self, container: u32, count_max: usize, now_seconds: u64) -> Vec<HotKey> {
        let Some(windows) = self.containers.load().get(&container).cloned() else {
            return Vec::new();
        };
        let mut windows = windows.lock();
        windows.turn(now_seconds / HOT_KEY_WINDOW_SECONDS);
        let mut sums: HashMap<&str, (u64, KeyCount)> = HashMap::new();
        for (one, steps) in windows.now.counted().chain(windows.before.counted()) {
            let (steps_in_all, sum) = sums.entry(&one.key).or_default();
            *steps_in_all += steps;
            sum.steps_of_others += one.steps_of_others;
            sum.requests += one.requests;
        }
        let units = |steps| RequestCharge::from_steps(steps).units();
        let hot = |(key, (steps, sum)): (&str, (u64, KeyCount))| HotKey {
            key: key.to_owned(),
            units: units(steps),
            units_of_others_max: units(sum.steps_of_others),
            requests: sum.requests,
        };
        let mut all: Vec<HotKey> = sums.into_iter().map(hot).collect();
        all.sort_by(|one, other| other.units.total_cmp(&one.units).then(one.key.cmp(&other.key)));
        all.truncate(count_max);
        all
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.containers.store(Arc::default());
    }

    /// The windows of a container that has none yet; nothing when there are too many containers.
    fn make_windows(&self, container: u32) -> Option<Arc<Mutex<Windows>>> {
        self.containers.rcu(|known| {
            let mut known = HashMap::clone(known);
            if known.len() < HOT_KEY_CONTAINERS_MAX {
                known.entry(container).or_default();
            }
            known
        });
        self.containers.load().get(&container).cloned()
    }
}

impl Windows {
    fn turn(&mut self, number: u64) {
        if number == self.number {
            return;
        }
        let ended = std::mem::take(&mut self.now);
        self.before = if number == self.number + 1 { ended } else { Sketch::default() };
        self.number = number;
    }
}

impl Sketch {
    fn note(&mut self, hash: u64, key: &str, steps: u64) {
        let known = self.hashes.iter().position(|one| *one == hash);
        if let Some(at) = known {
            self.steps[at] += steps;
            self.counts[at].requests += 1;
            return;
        }
        if self.counts.len() < HOT_KEYS_KEPT {
            self.hashes.push(hash);
            self.steps.push(steps);
            self.counts.push(KeyCount { key: key.to_owned(), steps_of_others: 0, requests: 1 });
            return;
        }
        let smallest = self.steps.iter().enumerate().min_by_key(|(_, steps)| **steps);
        let Some((at, _)) = smallest else { return };
        let count = &mut self.counts[at];
        count.key.clear();
        count.key.push_str(key);
        count.steps_of_others = self.steps[at];
        count.requests = 1;
        self.steps[at] += steps;
        self.hashes[at] = hash;
    }

    /// The keys with their steps.
    fn counted(&self) -> impl Iterator<Item = (&KeyCount, u64)> {
        self.counts.iter().zip(self.steps.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: RequestCharge = RequestCharge::ONE;

    #[test]
    fn a_hot_key_is_found_among_many() {
        let keys = HotKeys::default();
        for number in 0..20_000_u64 {
            keys.note(1, &format!("[{number}]"), ONE, 0);
            if number % 4 == 0 {
                keys.note(1, r#"["hot"]"#, ONE, 0);
            }
        }
        let found = keys.of(1, 3, 0);
        assert_eq!(found.len(), 3);
        let hot = &found[0];
        assert_eq!(hot.key, r#"["hot"]"#);
        assert!(hot.units >= 5_000.0 && hot.units - hot.units_of_others_max <= 5_000.0, "{hot:?}");
        assert!(keys.of(2, 3, 0).is_empty());
    }

    #[test]
    fn what_is_told_is_of_two_windows() {
        let keys = HotKeys::default();
        keys.note(1, "[1]", ONE, 0);
        keys.note(1, "[1]", ONE, HOT_KEY_WINDOW_SECONDS);
        assert_eq!(keys.of(1, 9, HOT_KEY_WINDOW_SECONDS)[0].requests, 2);
        assert_eq!(keys.of(1, 9, 2 * HOT_KEY_WINDOW_SECONDS)[0].requests, 1);
        assert!(keys.of(1, 9, 9 * HOT_KEY_WINDOW_SECONDS).is_empty());
        keys.note(1, "[2]", ONE, 9 * HOT_KEY_WINDOW_SECONDS);
        keys.clear();
        assert!(keys.of(1, 9, 9 * HOT_KEY_WINDOW_SECONDS).is_empty());
    }

    #[test]
    fn containers_are_bounded() {
        let keys = HotKeys::default();
        for container in 0..2 * HOT_KEY_CONTAINERS_MAX as u32 {
            keys.note(container, "[1]", ONE, 0);
        }
        assert!(keys.of(HOT_KEY_CONTAINERS_MAX as u32 + 1, 9, 0).is_empty());
        assert_eq!(keys.of(1, 9, 0).len(), 1);
    }
}
