//! Predicates tried on every value of a dictionary, each dictionary once in a page.
//!
//! A predicate such as CONTAINS leaves the values that pass to be found by trying them all, which is
//! much work where values are many. Estimates, the search itself and the charge all ask for the same,
//! so what was found is kept as long as the condition.

use super::known_value;
use armilla_index::{Part, PathIndex};
use armilla_model::ordered::tag;
use armilla_model::value::Type;
use armilla_sql::access::Predicate;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A predicate on the values of one path. Clones share what they have found.
#[derive(Clone, Debug)]
pub(in crate::query) struct Tried {
    predicate: Predicate,
    /// By the address of the part: the parts outlive the condition, which is made for them.
    found: Arc<Mutex<HashMap<usize, Arc<Passing>>>>,
}

/// The values of a dictionary that may pass.
#[derive(Debug)]
pub(super) struct Passing {
    /// Ascending and disjoint.
    pub(super) ordinals: Vec<Range<u32>>,
    /// All of them surely do.
    pub(super) exact: bool,
}

impl Tried {
    pub(super) fn new(predicate: Predicate) -> Self {
        Self { predicate, found: Arc::default() }
    }

    /// The values of a part's dictionary that may pass.
    pub(super) fn passing(&self, part: &Part, index: &PathIndex<'_>) -> Arc<Passing> {
        let address = std::ptr::from_ref(part).addr();
        if let Some(known) = self.found.lock().get(&address) {
            return known.clone();
        }
        // Not under the lock: other threads try other dictionaries.
        let passing = Arc::new(self.try_all(index));
        self.found.lock().insert(address, passing.clone());
        passing
    }

    fn try_all(&self, index: &PathIndex<'_>) -> Passing {
        let (mut ordinals, mut exact): (Vec<Range<u32>>, bool) = (Vec::new(), true);
        for ordinal in 0..index.value_count() {
            let value = index.value(ordinal);
            let passes = match known_value(value) {
                Some(known) => self.predicate.holds(&known),
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
        Passing { ordinals, exact }
    }
}
