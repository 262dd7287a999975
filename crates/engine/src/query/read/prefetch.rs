//! Prefetch: items that lie side by side in the store, read together before they are asked for.
//!
//! The store keeps the items of a logical partition next to each other, in the order of their hashes,
//! and logical partitions in the order in which queries go through them. A query that wants a good
//! part of what lies on its way gets it by passes over the store, some whole partitions at a time,
//! instead of by a search for each item. How many it wants it mostly knows before it reads the first;
//! where it does not, the first few are searched for, and only a small partition is read whole.

use super::Items;
use crate::keys;
use crate::query::plan::costs::{
    PREFETCH_BYTES_MAX, PREFETCH_MAX, PREFETCH_MIN, PREFETCH_READS_MIN, PREFETCH_SHARE,
};
use crate::record::Record;
use crate::store_failure;
use armilla_index::DocumentRef;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::Epk;
use armilla_storage::{Direction, Keyspace};
use std::ops::{Bound, ControlFlow};

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
        }
    }
}

impl Prefetch {
    /// The same for a thread that reads so many items of those to come, and no more.
    pub(in crate::query) fn for_worker(&self, items: u64) -> Self {
        let expected = self.expected;
        Self { expected, limit: items, is_stretch: true, pass: PREFETCH_MAX, ..Self::default() }
    }

    /// Says how many items will be read from now on, in the order of their partitions, if nobody
    /// stops; and among how many they lie.
    pub(in crate::query) fn expect(&mut self, items: u64, scope: u64) {
        self.expected = Some((items, scope));
        self.behind = None;
        self.given_up = false;
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
        if let Some(record) = self.find(document.docno) {
            return Ok(Some(record));
        }
        if self.given_up || !self.is_ahead(target, document.epk) {
            return Ok(None);
        }
        let Some(items) = self.worth_reading(page, target) else {
            return Ok(None);
        };
        self.pass(page, target, &Epk::from_bytes(document.epk), items)?;
        Ok(self.find(document.docno))
    }

    fn find(&mut self, docno: u64) -> Option<Record> {
        let at = self.records.binary_search_by_key(&docno, |(docno, _)| *docno).ok()?;
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
            let worth = all <= PREFETCH_MAX
                && page.plan.candidates_of(target).saturating_mul(PREFETCH_SHARE) >= all;
            return worth.then_some(all);
        };
        // A limit that was reached was wrong: items had to be read that gave no row.
        let left = expected.min(match self.limit {
            limit if self.reads > limit => u64::MAX,
            limit if self.is_stretch => limit - self.reads + 1,
            limit => limit,
        });
        if left < PREFETCH_READS_MIN || expected.saturating_mul(PREFETCH_SHARE) < scope {
            return None;
        }
        let ahead = left.saturating_mul(scope) / expected.max(1);
        let items = self.pass.min(ahead);
        self.pass = (self.pass * 2).min(PREFETCH_MAX);
        Some(items)
    }

    /// Reads about so many items from a partition on: whole partitions only.
    fn pass(&mut self, page: &Items<'_>, target: usize, from: &Epk, items: u64) -> Result<()> {
        let number = target;
        let target = &page.plan.view.ranges[number];
        let definition = &page.query.settings.policy.partition_key;
        let inside = |max: &Option<Epk>| max.as_ref().is_none_or(|max| from < max);
        let end = target.spans.iter().map(|span| &span.max).find(|max| inside(max));
        let max = end.and_then(Option::as_ref);
        let piece = page.piece.as_ref().and_then(|piece| piece.max.as_ref());
        let max = max.into_iter().chain(piece).min();
        let range = keys::items_between(
            page.query.container.number,
            definition,
            Bound::Included(from),
            max,
        );
        let mut records: Vec<(u64, Record)> = Vec::new();
        // The partition at hand, where its items begin, and a key of the one before it.
        let (mut partition, mut first, mut last) = (Vec::new(), 0, None);
        let (mut bytes, mut cut, mut damaged) = (0, false, None);
        let visit = &mut |key: &[u8], value| {
            let prefix = &key[..key.len().saturating_sub(KEY_TAIL)];
            if !partition.starts_with(prefix) || partition.len() != key.len() {
                if records.len() as u64 >= items {
                    cut = true;
                    first = records.len();
                    last = Some(std::mem::take(&mut partition));
                    return ControlFlow::Break(());
                }
                last = (!partition.is_empty()).then(|| std::mem::take(&mut partition));
                partition = key.to_vec();
                first = records.len();
            }
            match Record::new(value) {
                Ok(record) if record.is_tombstone() => {}
                Ok(record) => {
                    bytes += record.size();
                    records.push((record.docno(), record));
                }
                Err(error) => {
                    damaged = Some(error);
                    return ControlFlow::Break(());
                }
            }
            if records.len() as u64 >= PREFETCH_MAX || bytes >= PREFETCH_BYTES_MAX {
                cut = true;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let scanned = target.snapshot().scan(Keyspace::Items, &range, Direction::Forward, visit);
        scanned.map_err(store_failure)?;
        if let Some(error) = damaged {
            return Err(store_failure(error));
        }
        // Of a partition that was not read to its end nothing is kept: it is the next to be begun,
        // or, when it is the first, it is too large.
        let behind = match (cut, last) {
            (false, _) => max.cloned(),
            (true, None) => Some(from.clone()),
            (true, Some(key)) => {
                let key = keys::read_item(&key, definition);
                Some(key.map_err(|error| Error::Internal(error.to_string()))?.epk)
            }
        };
        if cut {
            records.truncate(first);
        }
        records.sort_unstable_by_key(|(docno, _)| *docno);
        (self.records, self.used) = (records, 0);
        self.behind = Some((number, behind));
        Ok(())
    }
}
