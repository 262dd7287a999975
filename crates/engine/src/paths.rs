//! The path dictionary of a container: indexed paths and their numbers.
//!
//! Terms and index files name paths by number. Numbers are given out once, in the order in which paths
//! are met, and are durable in `meta` before any file that names one. A path that no item has any more
//! is forgotten ([`forget`]), else a client could fill the memory for ever with names it uses once. Its
//! number is not: it may still stand in an index file beside a dead document, so it is never given out
//! again, and the highest number is kept by itself.

mod forget;
mod memo;

pub(crate) use memo::PathMemo;

use crate::keys;
use crate::quick_hash::QuickHash;
use crate::ranked::{Rank, RankedGuard, RankedLock};
use armilla_storage::{Batch, KEY_LENGTH_MAX, Keyspace};
use forget::Round;
use indexmap::IndexMap;
use parking_lot::{Mutex, RwLock};
use std::collections::HashSet;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

/// Number of the root path, below which all others hang.
pub(crate) const ROOT: u32 = 0;

/// Where the highest number stands in `meta`: no path has this one as its parent.
const GIVEN_OUT: u32 = u32::MAX;

/// Bytes of a step that is written as it is: what fits into a key of the store, behind [`KEY_HEAD`].
const STEP_LENGTH_MAX: usize = KEY_LENGTH_MAX - KEY_HEAD;

/// Bytes of an entry's key before its step.
const KEY_HEAD: usize = 9;

/// No number is higher.
const NUMBER_MAX: u32 = u32::MAX - 1;

/// How a step is written in the dictionary: a name behind `.`, any element as `[]`.
pub(crate) const ELEMENT: &str = "[]";

/// The numbers of a container's paths: a tree of (parent, step).
#[derive(Debug)]
pub struct PathDictionary {
    known: RwLock<Known>,
    /// Held from the moment when new numbers are put into a batch until that batch is queued.
    saving: RankedLock<()>,
    /// How far the janitor is with forgetting.
    round: Mutex<Round>,
}

/// Held by whoever makes terms, until they are in an index that everybody sees. Numbers that were looked
/// up under it stay, also those that no item has yet.
#[derive(Debug)]
pub(crate) struct PathsInUse {
    _epoch: Arc<()>,
}

/// Numbers are on their way to the disk; to be dropped when their batch is queued, not before.
#[must_use]
pub struct Saving<'p> {
    _until_queued: RankedGuard<'p, ()>,
}

#[derive(Debug, Default)]
struct Known {
    // By parent and step. Entries have positions, which only sweeping changes.
    numbers: IndexMap<u32, IndexMap<Arc<str>, u32, QuickHash>, QuickHash>,
    // How many those are.
    count: usize,
    // The highest that was ever given out.
    last: u32,
    // Given out, and in no batch yet.
    unsaved: Vec<(u32, Arc<str>, u32)>,
    // Numbers that no item had a while ago, and that nobody has asked for since.
    unwanted: HashSet<u32>,
    // Held by all who began to make terms since the last mark.
    epoch: Arc<()>,
}

impl Default for PathDictionary {
    fn default() -> Self {
        let saving = RankedLock::new(Rank::Paths, ());
        Self { known: RwLock::default(), saving, round: Mutex::default() }
    }
}

impl PathDictionary {
    /// Takes up a path read from `meta`: key tail (parent, step) and number.
    pub fn restore(&self, parent: u32, step: &str, number: u32) {
        let mut known = self.known.write();
        known.last = known.last.max(number);
        if parent != GIVEN_OUT {
            known.insert(parent, step.into(), number);
        }
    }

    /// How many paths are known.
    pub fn len(&self) -> usize {
        self.known.read().count
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of a property below a path, if any item has ever had it.
    pub fn find_name(&self, parent: u32, name: &str) -> Option<u32> {
        self.find(parent, name_step(name, &mut String::new()))
    }

    /// The number of the elements below a path, if any item has ever had them.
    pub fn find_element(&self, parent: u32) -> Option<u32> {
        self.find(parent, ELEMENT)
    }

    /// The number of a composite index, by its place in the policy.
    pub fn find_composite(&self, number: usize) -> Option<u32> {
        self.find(ROOT, &composite_step(number))
    }

    /// The number of a computed property that has terms.
    pub fn find_computed(&self, name: &str) -> Option<u32> {
        self.find(ROOT, &computed_step(name))
    }

    /// The number of a spatial index, by its place in the policy.
    pub fn find_spatial(&self, number: usize) -> Option<u32> {
        self.find(ROOT, &spatial_step(number))
    }

    fn find(&self, parent: u32, step: &str) -> Option<u32> {
        self.known.read().numbers.get(&parent)?.get(step).copied()
    }

    /// The number of a path, given out now if it is new; nothing if as many are known as may be.
    pub(crate) fn number(&self, parent: u32, step: &str, count_max: usize) -> Option<u32> {
        if let Some(number) = self.known.read().wanted(parent, step) {
            return Some(number);
        }
        let mut known = self.known.write();
        if let Some(number) = known.numbers.get(&parent).and_then(|steps| steps.get(step)) {
            let number = *number;
            known.unwanted.remove(&number);
            return Some(number);
        }
        if known.count >= count_max || known.last >= NUMBER_MAX {
            return None;
        }
        known.last += 1;
        let (number, step): (u32, Arc<str>) = (known.last, step.into());
        known.insert(parent, step.clone(), number);
        known.unsaved.push((parent, step, number));
        Some(number)
    }

    /// Adds every number to a batch that is in none yet. Batches become durable in the order in which
    /// they are queued, so whatever this batch makes durable, the numbers of its paths are durable with it
    /// or were before, and no index file can name one that is given out again. The batch must be queued,
    /// and before the return value is dropped: another batch may name the same numbers without
    /// bringing them.
    pub fn save(&self, container: u32, batch: &mut Batch) -> Saving<'_> {
        let saving = Saving { _until_queued: self.saving.lock() };
        if self.known.read().unsaved.is_empty() {
            return saving;
        }
        let unsaved = std::mem::take(&mut self.known.write().unsaved);
        for (parent, step, number) in unsaved {
            batch.put(Keyspace::Meta, key(container, parent, &step), number.to_be_bytes().to_vec());
        }
        saving
    }
}

impl Known {
    fn wanted(&self, parent: u32, step: &str) -> Option<u32> {
        let number = *self.numbers.get(&parent)?.get(step)?;
        (self.unwanted.is_empty() || !self.unwanted.contains(&number)).then_some(number)
    }

    fn insert(&mut self, parent: u32, step: Arc<str>, number: u32) {
        let before = self.numbers.entry(parent).or_default().insert(step, number);
        self.count += usize::from(before.is_none());
    }
}

fn key(container: u32, parent: u32, step: &str) -> Vec<u8> {
    let mut path = parent.to_be_bytes().to_vec();
    path.extend_from_slice(step.as_bytes());
    keys::index_path(container, &path)
}

/// The dictionary's name for a property, written where the last one was.
pub(crate) fn name_step<'s>(name: &str, step: &'s mut String) -> &'s str {
    step.clear();
    if name.len() < STEP_LENGTH_MAX {
        step.push('.');
        step.push_str(name);
    } else {
        *step = long_step(name);
    }
    step
}

/// The dictionary's name for a property whose own is too long for a key of the store. Who makes up two names
/// with one hash confuses queries on his own items alone.
fn long_step(name: &str) -> String {
    format!("long {} {:032x}", name.len(), xxh3_128(name.as_bytes()))
}

/// The dictionary's name for a computed property: properties of items begin with a dot.
pub(crate) fn computed_step(name: &str) -> String {
    let step = format!("computed {name}");
    if step.len() <= STEP_LENGTH_MAX { step } else { format!("computed {}", long_step(name)) }
}

/// The dictionary's name for a spatial index, by its place in the policy.
pub(crate) fn spatial_step(number: usize) -> String {
    format!("spatial {number}")
}

/// The dictionary's name for a composite index, by its place in the policy.
pub(crate) fn composite_step(number: usize) -> String {
    format!("composite {number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(paths: &PathDictionary, path: &[&str]) -> u32 {
        path.iter().fold(ROOT, |parent, step| paths.number(parent, step, usize::MAX).unwrap())
    }

    /// Otherwise many writes of many new names at once would each bring the names of all.
    #[test]
    fn a_number_is_saved_by_the_first_batch_that_is_queued_after_it() {
        let paths = PathDictionary::default();
        let sizes = [".a", ".b", ".c"].map(|name| {
            numbered(&paths, &[name]);
            let mut batch = Batch::new();
            drop(paths.save(7, &mut batch));
            batch.len()
        });
        assert_eq!(sizes, [1, 1, 1]);
    }

    #[test]
    fn names_of_any_length_fit_into_a_key() {
        assert_eq!(key(7, 7, "").len(), KEY_HEAD);
        let step = |length: usize| name_step(&"n".repeat(length), &mut String::new()).to_owned();
        for length in [0, 1, STEP_LENGTH_MAX - 1, STEP_LENGTH_MAX, STEP_LENGTH_MAX + 1, 1 << 20] {
            assert!(key(7, 7, &step(length)).len() <= KEY_LENGTH_MAX, "{length}");
            let computed = computed_step(&"n".repeat(length));
            assert!(key(7, 7, &computed).len() <= KEY_LENGTH_MAX, "{length}");
        }
        assert!(step(STEP_LENGTH_MAX - 1).starts_with(".nnn"));
        assert_ne!(step(STEP_LENGTH_MAX), step(STEP_LENGTH_MAX + 1));
    }

    #[test]
    fn a_full_dictionary_gives_out_no_new_numbers() {
        let paths = PathDictionary::default();
        let first = numbered(&paths, &[".a"]);
        assert_eq!(paths.number(ROOT, ".b", 1), None);
        assert_eq!(paths.number(ROOT, ".a", 1), Some(first));
        assert_eq!(paths.len(), 1);
    }
}
