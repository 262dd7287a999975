//! Prefetch: items that lie side by side in the store, read together before they are asked for.
//!
//! The store keeps the items of a logical partition next to each other, in the order of their hashes,
//! and logical partitions in the order in which queries go through them. A query that wants a good
//! part of what lies on its way gets it by passes over the store, some whole partitions at a time,
//! instead of by a search for each item. How many it wants it mostly knows before it reads the first;
//! where it does not, the first few are searched for, and only a small partition is read whole.
//!
//! Where a query addresses one logical partition and knows which of its items it wants, those are gathered: see [`gather`].

mod gather;

use super::{Found, Items};
use crate::keys;
use crate::query::plan::costs::{
    PREFETCH_BYTES_MAX, PREFETCH_MAX, PREFETCH_MIN, PREFETCH_READS_MIN, PREFETCH_SHARE,
    PREFETCH_START,
};
use crate::record::Record;
use armilla_index::DocumentRef;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::Epk;
use armilla_storage::{Direction, Keyspace, StoreError};
use gather::Gather;
use std::ops::{Bound, ControlFlow};

/// True when a pass over so many items costs less than searching for those of them that are wanted.
const fn is_cheaper(wanted: u64, items: u64) -> bool {
    wanted.saturating_mul(PREFETCH_SHARE) >= items.saturating_add(PREFETCH_START)
}

/// Bytes of a key behind the logical partition: hash and probe.
const KEY_TAIL: usize = 9;

/// The items that were read together last, and what is known of those to come.
pub(in crate::query) struct Prefetch {
    reads: u64,
    /// Items that will be read if nobody stops, and items on the way to them.
    expected: Option<(u64, u64)>,
    /// Items that will be read at most.
    limit: u64,
    /// Exactly so many will be read.
    is_stretch: bool,
    /// Items of the next pass.
    pass: u64,
    given_up: bool,
    /// By ordinal.
    records: Vec<(u64, Record)>,
    /// How many of them were wanted.
    used: u64,
    /// In this range partitions up to this one were gone through, or all of them.
    behind: Option<(usize, Option<Epk>)>,
    /// The items of one logical partition that are wanted.
    gather: Option<Gather>,
}

impl Default for Prefetch {
    fn default() -> Self {
        Self {
            reads: 0,
            expected: None,
            limit: u64::MAX,
            is_stretch: false,
            pass: PREFETCH_MIN,
            given_up: false,
            records: Vec::new(),
            used: 0,
            behind: None,
            gather: None,
        }
    }
}

impl Prefetch {
    /// The same for a thread that reads so many items of those to come, and no more.
    pub(in crate::query) fn for_worker(&self, items: u64) -> Self {
        Self {
            expected: self.expected,
            limit: items,
            is_stretch: true,
            pass: PREFETCH_MAX,
            gather: self.gather.as_ref().map(Gather::for_worker),
            ..Self::default()
        }
    }

    /// Says how many items will be read from now on, in the order of their partitions, if nobody
    /// stops; and among how many they lie.
    pub(in crate::query) fn expect(&mut self, items: u64, scope: u64) {
        self.expected = Some((items, scope));
        self.behind = None;
        self.given_up = false;
        self.gather = None;
    }

    /// Says which documents of one logical partition will be read, in this order.
    pub(in crate::query) fn expect_these(
        &mut self,
        page: &Items<'_>,
        target: usize,
        documents: &[Found<'_>],
    ) {
        let scope = self.expected.map_or(u64::MAX, |(_, scope)| scope);
        self.gather = Gather::new(page, target, documents, scope);
    }

    /// Says how many items will be read at most.
    pub(in crate::query) fn limit(&mut self, items: u64) {
        self.limit = items;
    }

    /// Says that items will be read in another order from now on.
    pub(in crate::query) fn leave_order(&mut self) {
        self.given_up = true;
    }

    /// An item that was read with others. Call this for every item that is wanted: it notices when
    /// reading them together is worth it.
    pub(in crate::query) fn take(
        &mut self,
        page: &Items<'_>,
        target: usize,
        document: &DocumentRef<'_>,
    ) -> Result<Option<Record>> {
        self.reads += 1;
        if let Some(gather) = self.gather.as_mut().filter(|_| !self.given_up) {
            let limit = if self.reads > self.limit { u64::MAX } else { self.limit };
            return gather.take(page, target, document, limit);
        }
        if let Some(record) = self.find(document) {
            return Ok(Some(record));
        }
        if self.given_up || !self.is_ahead(target, document.epk) {
            return Ok(None);
        }
        let Some(items) = self.worth_reading(page, target) else {
            return Ok(None);
        };
        self.pass(page, target, document, items)?;
        Ok(self.find(document))
    }

    fn find(&mut self, document: &DocumentRef<'_>) -> Option<Record> {
        let at = self.records.binary_search_by_key(&document.docno, |(docno, _)| *docno).ok()?;
        self.used += 1;
        Some(self.records[at].1.clone())
    }

    fn is_ahead(&self, target: usize, epk: &[u8]) -> bool {
        let passed = |(last, behind): &(usize, Option<Epk>)| {
            *last == target && behind.as_ref().is_none_or(|behind| epk <= behind.as_bytes())
        };
        !self.behind.as_ref().is_some_and(passed)
    }

    /// How many items to read together from here on, if that is worth it.
    fn worth_reading(&mut self, page: &Items<'_>, target: usize) -> Option<u64> {
        // Of those read last, too few were wanted.
        if self.used.saturating_mul(PREFETCH_SHARE) < self.records.len() as u64 {
            self.given_up = true;
            return None;
        }
        let Some((expected, scope)) = self.expected else {
            let ranges = &page.plan.view.ranges;
            let one = ranges.len() == 1 && ranges[target].spans.len() == 1;
            if self.reads != PREFETCH_READS_MIN || !one {
                return None;
            }
            let all = ranges[target].scope();
            let worth = all <= PREFETCH_MAX && is_cheaper(page.plan.candidates_of(target), all);
            return worth.then_some(all);
        };
        // A limit that was reached was wrong: items had to be read that gave no row.
        let left = expected.min(match self.limit {
            limit if self.reads > limit => u64::MAX,
            limit if self.is_stretch => limit - self.reads + 1,
            limit => limit,
        });
        let ahead = left.saturating_mul(scope) / expected.max(1);
        if left < PREFETCH_READS_MIN || !is_cheaper(left, ahead) {
            return None;
        }
        let items = self.pass.min(ahead);
        self.pass = (self.pass * 2).min(PREFETCH_MAX);
        Some(items)
    }

    /// Reads items together from a document's partition on: whole partitions only.
    fn pass(
        &mut self,
        page: &Items<'_>,
        target: usize,
        document: &DocumentRef<'_>,
        items: u64,
    ) -> Result<()> {
        let pass = read_together(page, target, document, items)?;
        let (from, definition) =
            (Epk::from_bytes(document.epk), &page.query.settings.policy.partition_key);
        // Of a partition that was not read to its end nothing is kept: it is the next to be begun,
        // or, when it is the first, it is too large.
        let behind = match (pass.cut, &pass.last) {
            (false, _) => last_key(page, target, &from).cloned(),
            (true, None) => Some(from),
            (true, Some(key)) => {
                let key = keys::read_item(key, definition);
                Some(key.map_err(|error| Error::Internal(error.to_string()))?.epk)
            }
        };
        (self.records, self.used) = (pass.finish(), 0);
        self.behind = Some((target, behind));
        Ok(())
    }
}

/// Where the keys that are gone through end.
fn last_key<'p>(page: &'p Items<'_>, target: usize, from: &Epk) -> Option<&'p Epk> {
    let inside = |max: &Option<Epk>| max.as_ref().is_none_or(|max| from < max);
    let spans = &page.plan.view.ranges[target].spans;
    let max = spans.iter().map(|span| &span.max).find(|max| inside(max)).and_then(Option::as_ref);
    let piece = page.piece.as_ref().and_then(|piece| piece.max.as_ref());
    max.into_iter().chain(piece).min()
}

fn read_together(
    page: &Items<'_>,
    target: usize,
    document: &DocumentRef<'_>,
    items: u64,
) -> Result<Pass> {
    let (range, from) = (&page.plan.view.ranges[target], Epk::from_bytes(document.epk));
    let definition = &page.query.settings.policy.partition_key;
    let container = page.query.container.number;
    let max = last_key(page, target, &from);
    let keys = keys::items_between(container, definition, Bound::Included(&from), max);
    let mut pass = Pass::new(items);
    let visit = &mut |key: &[u8], value| pass.visit(key, Record::new(value));
    let scanned = range.snapshot().scan(Keyspace::Items, &keys, Direction::Forward, visit);
    let damaged = pass.damaged.take();
    match scanned.err().or(damaged) {
        Some(error) => Err(page.query.container.failed_in(&range.partition, error)),
        None => Ok(pass),
    }
}

/// One pass over the store: items of whole partitions, until there are enough.
struct Pass {
    items: u64,
    records: Vec<(u64, Record)>,
    bytes: usize,
    /// A key of the partition at hand, and where its items begin.
    partition: Vec<u8>,
    first: usize,
    /// A key of the partition before it.
    last: Option<Vec<u8>>,
    /// It ended before the range did.
    cut: bool,
    damaged: Option<StoreError>,
}

impl Pass {
    fn new(items: u64) -> Self {
        Self {
            items,
            records: Vec::new(),
            bytes: 0,
            partition: Vec::new(),
            first: 0,
            last: None,
            cut: false,
            damaged: None,
        }
    }

    fn visit(
        &mut self,
        key: &[u8],
        record: std::result::Result<Record, StoreError>,
    ) -> ControlFlow<()> {
        if !self.is_in_partition(key) && self.leave_partition(key).is_break() {
            return ControlFlow::Break(());
        }
        match record {
            Ok(record) if record.is_tombstone() => {}
            Ok(record) => {
                self.bytes += record.size();
                self.records.push((record.docno(), record));
            }
            Err(error) => {
                self.damaged = Some(error);
                return ControlFlow::Break(());
            }
        }
        if self.records.len() as u64 >= PREFETCH_MAX || self.bytes >= PREFETCH_BYTES_MAX {
            self.cut = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn is_in_partition(&self, key: &[u8]) -> bool {
        let prefix = &key[..key.len().saturating_sub(KEY_TAIL)];
        self.partition.starts_with(prefix) && self.partition.len() == key.len()
    }

    /// The partition at hand is whole. The next one begins, unless there are enough.
    fn leave_partition(&mut self, key: &[u8]) -> ControlFlow<()> {
        let left = std::mem::take(&mut self.partition);
        self.first = self.records.len();
        if self.records.len() as u64 >= self.items {
            self.cut = true;
            self.last = Some(left);
            return ControlFlow::Break(());
        }
        self.last = (!left.is_empty()).then_some(left);
        self.partition = key.to_vec();
        ControlFlow::Continue(())
    }

    /// The items of whole partitions, by ordinal.
    fn finish(mut self) -> Vec<(u64, Record)> {
        if self.cut {
            self.records.truncate(self.first);
        }
        self.records.sort_unstable_by_key(|(docno, _)| *docno);
        self.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_for_those_who_want_a_good_part_of_it() {
        // Comments and likes of a post: 12 and 50 of 63 items.
        assert!(!is_cheaper(12, 63));
        assert!(is_cheaper(50, 63));
        // So few that beginning a pass costs more than it saves, and so many that it does not count.
        assert!(!is_cheaper(6, 7));
        assert!(is_cheaper(10_000, 39_000));
        assert!(!is_cheaper(10_000, 41_000));
        assert!(is_cheaper(u64::MAX, u64::MAX - PREFETCH_START));
    }
}
