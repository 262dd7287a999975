//! The path dictionary of a container: indexed paths and their numbers.
//!
//! Terms and index files name paths by number. Numbers are given out once, in the order in which paths
//! are met, and are durable in `meta` before any file that names one. A path that no item has any more
//! is forgotten when the account opens ([`Container::forget_paths`]), else a client could fill the memory
//! for ever with names it uses once. Its number is not: it may still stand in an index file beside a
//! dead document, so it is never given out again, and the highest number is kept by itself.

use crate::container::Container;
use crate::keys;
use crate::limits::{FORGOTTEN_BATCH, FORGOTTEN_MIN};
use crate::ranked::{Rank, RankedGuard, RankedLock};
use armilla_storage::{Batch, Keyspace};
use parking_lot::RwLock;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Number of the root path, below which all others hang.
pub(crate) const ROOT: u32 = 0;

/// Where the highest number stands in `meta`: no path has this one as its parent.
const GIVEN_OUT: u32 = u32::MAX;

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
}

/// Numbers are on their way to the disk; to be dropped when their batch is queued, not before.
#[must_use]
pub struct Saving<'p> {
    _until_queued: RankedGuard<'p, ()>,
}

#[derive(Debug, Default)]
struct Known {
    numbers: HashMap<u32, HashMap<Arc<str>, u32>>,
    // How many those are.
    count: usize,
    // The highest that was ever given out.
    last: u32,
    // Given out, and in no batch yet.
    unsaved: Vec<(u32, Arc<str>, u32)>,
}

impl Default for PathDictionary {
    fn default() -> Self {
        Self { known: RwLock::default(), saving: RankedLock::new(Rank::Paths, ()) }
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
        if let Some(number) = self.find(parent, step) {
            return Some(number);
        }
        let mut known = self.known.write();
        if let Some(number) = known.numbers.get(&parent).and_then(|steps| steps.get(step)) {
            return Some(*number);
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

    /// The paths that may be forgotten: those with no number in `used`, and nothing used below them.
    pub(crate) fn unused(&self, used: &HashSet<u32>) -> Vec<(u32, Arc<str>)> {
        let known = self.known.read();
        let parents: HashMap<u32, u32> =
            known.entries().map(|(parent, _, number)| (number, parent)).collect();
        let mut kept = HashSet::new();
        for number in used {
            let mut number = *number;
            // Ends at the root, which is nobody's child, or at one whose ancestors are kept.
            while let Some(parent) = parents.get(&number)
                && kept.insert(number)
            {
                number = *parent;
            }
        }
        let unused = known.entries().filter(|(_, _, number)| !kept.contains(number));
        unused.map(|(parent, step, _)| (parent, step.clone())).collect()
    }

    /// Adds to a batch that some paths are forgotten. Their numbers are never given out again: files
    /// may name them for as long as they hold dead documents that had them.
    pub(crate) fn save_forgotten(
        &self,
        container: u32,
        paths: &[(u32, Arc<str>)],
        batch: &mut Batch,
    ) {
        let last = self.known.read().last;
        batch.put(Keyspace::Meta, key(container, GIVEN_OUT, ""), last.to_be_bytes().to_vec());
        for (parent, step) in paths {
            batch.delete(Keyspace::Meta, key(container, *parent, step));
        }
    }

    /// Forgets paths. Nobody may be staging items, or hold terms that were made before.
    pub(crate) fn forget(&self, paths: &[(u32, Arc<str>)]) {
        let mut known = self.known.write();
        for (parent, step) in paths {
            let Some(steps) = known.numbers.get_mut(parent) else { continue };
            let removed = steps.remove(step).is_some();
            if steps.is_empty() {
                known.numbers.remove(parent);
            }
            known.count -= usize::from(removed);
        }
        let forgotten: HashSet<_> = paths.iter().collect();
        known.unsaved.retain(|(parent, step, _)| !forgotten.contains(&(*parent, step.clone())));
        known.numbers.shrink_to_fit();
        known.numbers.values_mut().for_each(HashMap::shrink_to_fit);
    }
}

impl Known {
    fn insert(&mut self, parent: u32, step: Arc<str>, number: u32) {
        let before = self.numbers.entry(parent).or_default().insert(step, number);
        self.count += usize::from(before.is_none());
    }

    fn entries(&self) -> impl Iterator<Item = (u32, &Arc<str>, u32)> {
        self.numbers.iter().flat_map(|(parent, steps)| {
            steps.iter().map(move |(step, number)| (*parent, step, *number))
        })
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
    step.push('.');
    step.push_str(name);
    step
}

/// The dictionary's name for a computed property: properties of items begin with a dot.
pub(crate) fn computed_step(name: &str) -> String {
    format!("computed {name}")
}

/// The dictionary's name for a spatial index, by its place in the policy.
pub(crate) fn spatial_step(number: usize) -> String {
    format!("spatial {number}")
}

/// The dictionary's name for a composite index, by its place in the policy.
pub(crate) fn composite_step(number: usize) -> String {
    format!("composite {number}")
}

impl Container {
    /// Forgets the paths that no item has. For the moment before anybody writes: terms that were made
    /// earlier and not yet applied would name what is forgotten. Returns how many were.
    pub(crate) fn forget_paths(&self) -> usize {
        if self.paths.len() < FORGOTTEN_MIN {
            return 0;
        }
        let mut used = HashSet::new();
        for partition in self.partitions().iter() {
            partition.view().view.live_paths(&mut |path| {
                used.insert(path);
            });
        }
        let unused = self.paths.unused(&used);
        if unused.len() < FORGOTTEN_MIN {
            return 0;
        }
        for some in unused.chunks(FORGOTTEN_BATCH) {
            let mut batch = Batch::new();
            self.paths.save_forgotten(self.number, some, &mut batch);
            if !self.core.commit_and_wait(batch) {
                return 0;
            }
        }
        self.paths.forget(&unused);
        unused.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(paths: &PathDictionary, path: &[&str]) -> u32 {
        path.iter().fold(ROOT, |parent, step| paths.number(parent, step, usize::MAX).unwrap())
    }

    fn found(paths: &PathDictionary, path: &[&str]) -> Option<u32> {
        path.iter().try_fold(ROOT, |parent, step| paths.find(parent, step))
    }

    #[test]
    fn what_no_item_has_is_forgotten_and_its_number_never_comes_back() {
        let paths = PathDictionary::default();
        let kept = numbered(&paths, &[".a", ".b", "[]"]);
        let gone = numbered(&paths, &[".a", ".x"]);
        let last = numbered(&paths, &[".y", ".z"]);
        let unused = paths.unused(&HashSet::from([kept]));
        assert_eq!(unused.len(), 3, "{unused:?}");
        let mut batch = Batch::new();
        paths.save_forgotten(7, &unused, &mut batch);
        paths.forget(&unused);
        assert_eq!(paths.len(), 3);
        assert_eq!(found(&paths, &[".a", ".b", "[]"]), Some(kept));
        assert_eq!(found(&paths, &[".a", ".x"]), None);
        let again = numbered(&paths, &[".a", ".x"]);
        assert!(again > last && again != gone);

        // The same after a restart: what is durable is the highest number and what was kept.
        let puts: Vec<_> = batch.iter().filter(|entry| entry.value.is_some()).collect();
        assert_eq!(puts.len(), 1);
        let reopened = PathDictionary::default();
        reopened.restore(GIVEN_OUT, "", last);
        reopened.restore(ROOT, ".a", 1);
        assert_eq!(reopened.len(), 1);
        assert_eq!(numbered(&reopened, &[".new"]), last + 1);
    }

    #[test]
    fn forgotten_paths_are_not_saved_any_more() {
        let paths = PathDictionary::default();
        let kept = numbered(&paths, &[".kept"]);
        numbered(&paths, &[".gone"]);
        paths.forget(&paths.unused(&HashSet::from([kept])));
        let mut batch = Batch::new();
        drop(paths.save(7, &mut batch));
        assert_eq!(batch.len(), 1);
        let mut batch = Batch::new();
        drop(paths.save(7, &mut batch));
        assert!(batch.is_empty());
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
    fn a_full_dictionary_gives_out_no_new_numbers() {
        let paths = PathDictionary::default();
        let first = numbered(&paths, &[".a"]);
        assert_eq!(paths.number(ROOT, ".b", 1), None);
        assert_eq!(paths.number(ROOT, ".a", 1), Some(first));
        assert_eq!(paths.len(), 1);
    }
}
