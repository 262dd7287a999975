//! Items that their writers excluded from the index (`x-ms-indexing-directive: Exclude`).
//!
//! Queries do not see them, whichever way items are found, unless they name them by id and
//! partition key. Reads, lists and the change feed do. Where the container has no index nothing is excluded.

use crate::query::read::columns::PathColumn;
use crate::query::read::items::{Found, Source};
use crate::query::view::Target;
use armilla_index::Part;

/// Local numbers of the excluded documents of a part, ascending.
pub(in crate::query) type Locals = Vec<u32>;

impl Source<'_> {
    /// True when a document is there for this query: alive, not removed by the open transaction, and
    /// not excluded from the index.
    pub(in crate::query) fn sees(&self, found: &Found<'_>) -> bool {
        self.is_alive(&found.document) && !self.is_gone(found) && !self.is_excluded(found)
    }

    fn is_excluded(&self, found: &Found<'_>) -> bool {
        if let Some(Some(record)) = self.laid_over(found) {
            return !record.is_indexed() && self.targets.get(found.target).is_some_and(is_indexed);
        }
        found.at.is_some_and(|(part, local)| self.is_excluded_at(found.target, part, local))
    }

    /// The same for a document of a part.
    pub(in crate::query) fn is_excluded_at(&self, target: usize, part: usize, local: u32) -> bool {
        let excluded = self.excluded.get_or_init(|| self.find_excluded());
        let locals = excluded.get(target).and_then(|parts| parts.get(part));
        locals.is_some_and(|locals| locals.binary_search(&local).is_ok())
    }

    /// By target; empty where no target has excluded documents, which is nearly always.
    fn find_excluded(&self) -> Vec<Vec<Locals>> {
        if !self.is_any_bare() {
            return Vec::new();
        }
        let of_target = |target: &Target| match is_indexed(target) {
            true => {
                target.published.view.parts().iter().map(|part| self.excluded_of(part)).collect()
            }
            false => Vec::new(),
        };
        self.targets.iter().map(of_target).collect()
    }

    /// Every indexed document has `_ts`.
    fn excluded_of(&self, part: &Part) -> Locals {
        if !self.is_bare(part) {
            return Locals::new();
        }
        match PathColumn::new(self.stamp, part) {
            Some(column) => {
                (0..part.len()).filter(|local| column.ordinal(*local).is_none()).collect()
            }
            None => Locals::new(),
        }
    }
}

fn is_indexed(target: &Target) -> bool {
    target.published.definition.policy.indexing.enabled
}
