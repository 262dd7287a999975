//! Dictionary filter: a predicate evaluated on every distinct value of a path, once per dictionary and page.
//!
//! A predicate such as CONTAINS leaves the values that pass to be found by trying them all, which is
//! much work where values are many. The search and the charge ask for the same, so what was found is kept as
//! long as the condition.

use crate::query::find::condition::known_value;
use armilla_index::{Part, PathIndex};
use armilla_model::ordered::tag;
use armilla_model::value::Type;
use armilla_sql::access::Predicate;
use armilla_sql::limits::TRIED_STEPS_MAX;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A predicate on the values of one path. Clones share what they have found.
#[derive(Clone, Debug)]
pub(in crate::query) struct DictionaryFilter {
    predicate: Predicate,
    /// By the address of the part: the parts outlive the condition, which is made for them.
    found: Arc<Mutex<HashMap<usize, Arc<MatchingValues>>>>,
    /// Steps that are left for trying. Without any, whatever was not tried may pass, and the items are
    /// looked at, which can be stopped at any time.
    steps_left: Arc<AtomicU64>,
}

/// The values of a dictionary that may pass.
#[derive(Debug)]
pub(in crate::query) struct MatchingValues {
    /// Ascending and disjoint.
    pub(in crate::query) ordinals: Vec<Range<u32>>,
    /// All of them surely do.
    pub(in crate::query) exact: bool,
}

impl DictionaryFilter {
    pub(in crate::query) fn new(predicate: Predicate) -> Self {
        let steps_left = Arc::new(AtomicU64::new(TRIED_STEPS_MAX));
        Self { predicate, found: Arc::default(), steps_left }
    }

    /// The values of a part's dictionary that may pass.
    pub(in crate::query) fn matching(
        &self,
        part: &Part,
        index: &PathIndex<'_>,
    ) -> Arc<MatchingValues> {
        let address = std::ptr::from_ref(part).addr();
        if let Some(known) = self.found.lock().get(&address) {
            return known.clone();
        }
        // Not under the lock: other threads try other dictionaries.
        let matching = Arc::new(self.try_all(index));
        self.found.lock().insert(address, matching.clone());
        matching
    }

    fn try_all(&self, index: &PathIndex<'_>) -> MatchingValues {
        let (mut ordinals, mut exact): (Vec<Range<u32>>, bool) = (Vec::new(), true);
        let mut steps_left = self.steps_left.load(Relaxed);
        for ordinal in 0..index.value_count() {
            let value = index.value(ordinal);
            let known = known_value(value);
            let tried = known.as_ref().map(|known| self.predicate.holds(known, &mut steps_left));
            let passes = match tried {
                Some(Some(passes)) => passes,
                Some(None) => {
                    ordinals.push(ordinal..index.value_count());
                    exact = false;
                    break;
                }
                None => {
                    let first = value.bytes.first();
                    let is_marker = first.is_some_and(|first| *first >= tag(Type::Array));
                    let passes = !is_marker || self.predicate.non_scalars;
                    exact &= !passes;
                    passes
                }
            };
            if passes {
                match ordinals.last_mut() {
                    Some(last) if last.end == ordinal => last.end += 1,
                    _ => ordinals.push(ordinal..ordinal + 1),
                }
            }
        }
        self.steps_left.store(steps_left, Relaxed);
        MatchingValues { ordinals, exact }
    }
}
