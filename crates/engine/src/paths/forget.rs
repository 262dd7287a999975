//! Forgetting the paths that no item has: at a start, and by the janitor while the server runs.
//!
//! While it runs, terms that name a path may be on their way into the index, and queries may look at a
//! view of before. So the janitor forgets in two visits:
//!
//! 1. It *marks* the paths that no item has. Whoever makes terms from now on and asks for one of them
//!    takes its mark away.
//! 2. When every transaction that had begun before is in the index, and every query has ended
//!    ([`FORGOTTEN_AFTER`]), it *sweeps* the paths that still have their mark and that still no item has.
//!
//! Indexes in the making are seen by nobody; while there is one, both visits are put off.

use super::{GIVEN_OUT, Known, PathDictionary, PathsInUse, key};
use crate::container::Container;
use crate::limits::{
    FORGET_EVERY, FORGOTTEN_AFTER, FORGOTTEN_BATCH, FORGOTTEN_MIN, FORGOTTEN_SLICE,
};
use armilla_storage::{Batch, Completion, Keyspace, Submission};
use indexmap::IndexMap;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

/// A map is made smaller when this share of it, or less, is used.
const SHRUNK_SHARE: usize = 4;

/// A path, with its number.
type Entry = (u32, Arc<str>, u32);

/// Where the janitor is.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Nothing is looked for before this second.
    next: u32,
    marked: Option<Marked>,
}

#[derive(Debug)]
struct Marked {
    second: u32,
    /// Gone when all who began before the mark are through.
    before: Weak<()>,
}

impl PathDictionary {
    /// For whoever is about to make terms.
    pub(crate) fn in_use(&self) -> PathsInUse {
        PathsInUse { _epoch: Arc::clone(&self.known.read().epoch) }
    }

    /// The paths that may be forgotten: those with no number in `used`, and nothing used below them.
    fn unused(&self, used: &HashSet<u32>) -> Vec<Entry> {
        let mut parents = HashMap::new();
        self.visit(|parent, _, number| {
            parents.insert(number, parent);
        });
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
        let mut unused = Vec::new();
        self.visit(|parent, step, number| {
            // Those that came meanwhile are not looked at.
            if parents.contains_key(&number) && !kept.contains(&number) {
                unused.push((parent, step.clone(), number));
            }
        });
        unused
    }

    /// Shows all paths, a slice at a time: writers that bring a new one wait for a slice only, and readers
    /// behind them.
    fn visit(&self, mut show: impl FnMut(u32, &Arc<str>, u32)) {
        let (mut at, mut within) = (0, 0);
        loop {
            let known = self.known.read();
            let mut left = FORGOTTEN_SLICE;
            while left > 0 {
                let Some((parent, steps)) = known.numbers.get_index(at) else { return };
                let end = steps.len().min(within + left);
                for (step, number) in steps.get_range(within..end).into_iter().flatten() {
                    show(*parent, step, *number);
                }
                // An entry of the outer map is one, too.
                left = left.saturating_sub(end - within + 1);
                (at, within) = if end < steps.len() { (at, end) } else { (at + 1, 0) };
            }
        }
    }

    /// Marks paths. What is returned can be upgraded until all who began before are through.
    fn mark(&self, paths: &[Entry]) -> Weak<()> {
        let mut unwanted: HashSet<u32> = paths.iter().map(|(_, _, number)| *number).collect();
        let mut known = self.known.write();
        std::mem::swap(&mut known.unwanted, &mut unwanted);
        Arc::downgrade(&std::mem::take(&mut known.epoch))
    }

    /// Forgets those of some paths that still have their mark, and adds to a batch that they are
    /// forgotten. Their numbers are never given out again: files may name them for as long as they hold
    /// dead documents that had them. Returns how many were.
    fn sweep(&self, container: u32, paths: &[Entry], batch: &mut Batch) -> usize {
        let mut known = self.known.write();
        let mut swept = HashSet::new();
        for (parent, step, number) in paths {
            if known.unwanted.remove(number) && known.remove(*parent, step) {
                batch.delete(Keyspace::Meta, key(container, *parent, step));
                swept.insert(*number);
            }
        }
        known.unsaved.retain(|(_, _, number)| !swept.contains(number));
        let last = known.last.to_be_bytes().to_vec();
        batch.put(Keyspace::Meta, key(container, GIVEN_OUT, ""), last);
        swept.len()
    }

    /// No path is marked any more, and the memory of those that were swept is given back.
    fn unmark(&self) {
        drop(std::mem::take(&mut self.known.write().unwanted));
        let mut at = 0;
        loop {
            let mut known = self.known.write();
            for _ in 0..FORGOTTEN_SLICE {
                let Some((_, steps)) = known.numbers.get_index_mut(at) else {
                    return shrink(&mut known.numbers);
                };
                shrink(steps);
                at += 1;
            }
        }
    }
}

/// Gives memory back where most of it is empty: what is left is moved while others wait.
fn shrink<K, V, S>(map: &mut IndexMap<K, V, S>) {
    if map.capacity() / SHRUNK_SHARE >= map.len() {
        map.shrink_to_fit();
    }
}

impl Known {
    fn remove(&mut self, parent: u32, step: &str) -> bool {
        let Some(steps) = self.numbers.get_mut(&parent) else { return false };
        let removed = steps.swap_remove(step).is_some();
        if steps.is_empty() {
            self.numbers.swap_remove(&parent);
        }
        self.count -= usize::from(removed);
        removed
    }
}

impl Container {
    /// Forgets the paths that no item has, at once. For the moment before anybody writes or reads.
    /// Returns how many were.
    pub(crate) fn forget_paths(&self) -> usize {
        if self.paths.len() < FORGOTTEN_MIN {
            return 0;
        }
        let unused = self.paths.unused(&self.live_paths());
        if unused.len() < FORGOTTEN_MIN {
            return 0;
        }
        let _nobody = self.paths.mark(&unused);
        self.sweep_paths(&unused)
    }

    /// A visit of the janitor.
    pub(crate) fn forget_paths_later(&self) {
        if self.paths.len() < FORGOTTEN_MIN {
            return;
        }
        // Whoever builds or switches an index comes first.
        let Some(_not_switched) = self.try_replacing() else { return };
        if self.removals_are_kept() || self.check_alive().is_err() {
            return;
        }
        // Nobody else gets here meanwhile; other locks are taken below, so this one is not kept.
        let round = std::mem::take(&mut *self.paths.round.lock());
        let round = self.next_round(round, self.core.now_seconds());
        *self.paths.round.lock() = round;
    }

    fn next_round(&self, round: Round, now: u32) -> Round {
        let Some(marked) = &round.marked else {
            if now < round.next {
                return round;
            }
            let unused = self.paths.unused(&self.live_paths());
            if unused.len() < FORGOTTEN_MIN {
                return Round { next: now.saturating_add(FORGET_EVERY), marked: None };
            }
            let marked = Marked { second: now, before: self.paths.mark(&unused) };
            return Round { marked: Some(marked), ..round };
        };
        let is_over = now.saturating_sub(marked.second) >= FORGOTTEN_AFTER;
        if !is_over || marked.before.strong_count() > 0 {
            return round;
        }
        let unused = self.paths.unused(&self.live_paths());
        let count = self.sweep_paths(&unused);
        tracing::debug!(container = self.number, count, "paths were forgotten");
        Round { next: now.saturating_add(FORGET_EVERY), marked: None }
    }

    /// Forgets those of some paths that have their mark, a batch at a time: writers wait for one only.
    fn sweep_paths(&self, unused: &[Entry]) -> usize {
        let mut count = 0;
        for some in unused.chunks(FORGOTTEN_BATCH) {
            let mut batch = Batch::new();
            // A path that comes back has a new number, which must become durable behind this.
            let saving = self.paths.saving.lock();
            count += self.paths.sweep(self.number, some, &mut batch);
            self.core.committer.submit(Submission { batch, completion: Box::new(Nothing) });
            drop(saving);
        }
        self.paths.unmark();
        count
    }

    /// The numbers of all paths that an item has.
    fn live_paths(&self) -> HashSet<u32> {
        let mut used = HashSet::new();
        for partition in self.partitions().iter() {
            partition.view().view.live_paths(&mut |path| {
                used.insert(path);
            });
        }
        used
    }
}

/// What is forgotten is gone from memory already.
struct Nothing;

impl Completion for Nothing {
    fn apply(&mut self, _group: u64) {}

    fn notify(self: Box<Self>) {}
}

#[cfg(test)]
mod tests {
    use super::super::ROOT;
    use super::*;

    fn numbered(paths: &PathDictionary, path: &[&str]) -> u32 {
        path.iter().fold(ROOT, |parent, step| paths.number(parent, step, usize::MAX).unwrap())
    }

    fn found(paths: &PathDictionary, path: &[&str]) -> Option<u32> {
        path.iter().try_fold(ROOT, |parent, step| paths.find(parent, step))
    }

    fn forget(paths: &PathDictionary, used: &[u32]) -> Batch {
        let unused = paths.unused(&used.iter().copied().collect());
        let _nobody = paths.mark(&unused);
        let mut batch = Batch::new();
        paths.sweep(7, &unused, &mut batch);
        paths.unmark();
        batch
    }

    #[test]
    fn what_no_item_has_is_forgotten_and_its_number_never_comes_back() {
        let paths = PathDictionary::default();
        let kept = numbered(&paths, &[".a", ".b", "[]"]);
        let gone = numbered(&paths, &[".a", ".x"]);
        let last = numbered(&paths, &[".y", ".z"]);
        let batch = forget(&paths, &[kept]);
        assert_eq!(paths.len(), 3);
        assert_eq!(found(&paths, &[".a", ".b", "[]"]), Some(kept));
        assert_eq!(found(&paths, &[".a", ".x"]), None);
        let again = numbered(&paths, &[".a", ".x"]);
        assert!(again > last && again != gone);

        // The same after a restart: what is durable is the highest number and what was kept.
        let puts: Vec<_> = batch.iter().filter(|entry| entry.value.is_some()).collect();
        assert_eq!((puts.len(), batch.len()), (1, 4));
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
        forget(&paths, &[kept]);
        let mut batch = Batch::new();
        drop(paths.save(7, &mut batch));
        assert_eq!(batch.len(), 1);
        let mut batch = Batch::new();
        drop(paths.save(7, &mut batch));
        assert!(batch.is_empty());
    }

    #[test]
    fn a_path_that_is_asked_for_after_the_mark_stays_with_all_above_it() {
        let paths = PathDictionary::default();
        let wanted = numbered(&paths, &[".a", ".b"]);
        numbered(&paths, &[".a", ".c"]);
        let unused = paths.unused(&HashSet::new());
        let _nobody = paths.mark(&unused);
        // A query that asks is no reason to keep it, a write is.
        assert!(found(&paths, &[".a", ".c"]).is_some());
        assert_eq!(numbered(&paths, &[".a", ".b"]), wanted);
        let new = numbered(&paths, &[".new"]);
        assert_eq!(paths.sweep(7, &unused, &mut Batch::new()), 1);
        assert_eq!(found(&paths, &[".a", ".b"]), Some(wanted));
        assert_eq!(found(&paths, &[".a", ".c"]), None);
        assert_eq!(found(&paths, &[".new"]), Some(new));
    }

    /// More than a slice below one parent, and more parents than a slice.
    #[test]
    fn every_path_is_visited_once_however_many_there_are() {
        let paths = PathDictionary::default();
        let wide = numbered(&paths, &[".wide"]);
        for number in 0..2 * FORGOTTEN_SLICE + 1 {
            paths.number(wide, &format!(".{number}"), usize::MAX).unwrap();
            numbered(&paths, &[&format!(".p{number}"), ".below"]);
        }
        let mut seen = HashSet::new();
        paths.visit(|_, _, number| assert!(seen.insert(number)));
        assert_eq!(seen.len(), paths.len());
        let used: Vec<u32> = seen.iter().copied().filter(|number| number % 9 == 0).collect();
        forget(&paths, &used);
        let mut left = HashSet::new();
        paths.visit(|_, _, number| assert!(left.insert(number)));
        assert!(used.iter().all(|number| left.contains(number)));
        assert!(left.len() == paths.len() && left.len() < seen.len() / 3);
    }

    #[test]
    fn a_mark_knows_who_began_before_it() {
        let paths = PathDictionary::default();
        let before = paths.in_use();
        let mark = paths.mark(&[]);
        let after = paths.in_use();
        assert!(mark.upgrade().is_some());
        drop(before);
        assert!(mark.upgrade().is_none());
        drop(after);
    }
}
