//! The change feed: every item's last version, in the order of commits.
//!
//! A partition's log has exactly one entry per living item, at its last LSN. Reading from an LSN is
//! a scan; nothing expires from it. A page never ends inside a transaction, so the LSN alone is a
//! position, and it stays one when the partition is split or merged ([`lineage`]).

mod across;
pub(crate) mod lineage;

pub use across::{AcrossChanges, Positions};

use crate::container::Container;
use crate::feed_entry::FeedEntry;
use crate::items::read::Item;
use crate::keys::LogPosition;
use crate::partition::Partition;
use crate::ranges::{EpkSpan, Range};
use crate::store_failure;
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::limits::PAGE_SIZE_MAX;
use armilla_model::lsn::Lsn;
use armilla_storage::{Keyspace, Snapshot};
use bytes::Bytes;
use lineage::Lineage;

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the oldest change.
    Beginning,
    /// With what is written from now on.
    Now,
    /// With the first change after this second, which is left out: whoever resumes from the last `_ts` has
    /// seen it.
    AfterSecond(u64),
    /// Behind this transaction.
    After(Lsn),
}

/// A page of changes: items, or whole versions.
#[derive(Debug)]
pub struct Changes<Row = Item> {
    /// The changes, each with the transaction that made it.
    pub items: Vec<Row>,
    /// The position behind them.
    pub position: Lsn,
    /// What it costs.
    pub charge: RequestCharge,
}

/// What one page reads from a log.
pub(crate) struct LogPage<'p> {
    pub(crate) snapshot: &'p dyn Snapshot,
    pub(crate) keyspace: Keyspace,
    pub(crate) range: &'p Range,
    pub(crate) after: Lsn,
    pub(crate) head: Lsn,
    pub(crate) count_max: usize,
}

impl Container {
    /// Reads changes of one partition, limited to a span of keys.
    pub fn read_changes(
        &self,
        partition: &Partition,
        span: &EpkSpan,
        start: Start,
        count_max: usize,
    ) -> Result<Changes> {
        let (root, published) = self.core.consistent_view(partition);
        let head = Lsn(published.view.lsn());
        let range = &partition.range;
        let (after, not_before) = match start {
            Start::Beginning => (Lsn(0), 0),
            Start::Now => (head, 0),
            Start::AfterSecond(second) => {
                let next = second.saturating_add(1);
                (self.position_at(partition, next)?, next)
            }
            Start::After(lsn) => (lsn, 0),
        };
        let now = u64::from(self.core.now_seconds());
        let liveness = self.settings().policy.liveness(now);
        let snapshot = &*root.snapshot;
        let page = LogPage { snapshot, keyspace: Keyspace::Feed, range, after, head, count_max };
        let mut changes = self.read_log(&page, |_, value| {
            let entry = FeedEntry::decode(value).map_err(store_failure)?;
            if !span.contains(&entry.item.epk) || u64::from(entry.second) < not_before {
                return Ok(None);
            }
            let record = self.get(snapshot, &entry.item)?.ok_or_else(|| {
                Error::Internal("the feed names an item that is not there".to_owned())
            })?;
            Ok(record.is_alive(liveness).then(|| (record.size(), Item::of(&record))))
        })?;
        let rates = self.rates();
        let sizes = changes.items.iter().map(|item| rates.feed_item(item.text.len()));
        changes.charge = sizes.sum::<RequestCharge>().max(RequestCharge::ONE);
        Ok(changes)
    }

    /// The position before the first change at or after a second.
    pub(crate) fn position_at(&self, partition: &Partition, second: u64) -> Result<Lsn> {
        let (root, published) = self.core.consistent_view(partition);
        let (range, head) = (&partition.range, Lsn(published.view.lsn()));
        lineage::before_second(&*root.snapshot, self.number, range, head, second)
    }

    /// Reads a page of a log: rows with their sizes, until it is full and a transaction ends.
    pub(crate) fn read_log<Row>(
        &self,
        page: &LogPage<'_>,
        mut row: impl FnMut(LogPosition, &Bytes) -> Result<Option<(usize, Row)>>,
    ) -> Result<Changes<Row>> {
        let LogPage { after, head, .. } = *page;
        let mut changes =
            Changes { items: Vec::new(), position: after.max(head), charge: RequestCharge::ONE };
        let bounds = (after, head);
        let mut log = Lineage::new(page.snapshot, page.keyspace, self.number, page.range, bounds);
        let (mut bytes, mut last) = (0, after);
        while let Some((position, value)) = log.next()? {
            let full = changes.items.len() >= page.count_max || bytes >= PAGE_SIZE_MAX;
            if full && position.lsn != last {
                changes.position = last;
                break;
            }
            assert!(
                position.lsn >= last,
                "the log goes back from {} to {}",
                last.0,
                position.lsn.0
            );
            last = position.lsn;
            if let Some((size, row)) = row(position, &value)? {
                bytes += size;
                changes.items.push(row);
            }
        }
        Ok(changes)
    }

    /// How many transactions lie between a position and the head of a partition: what a page may
    /// have to walk through.
    pub fn changes_behind(&self, partition: &Partition, start: Start) -> u64 {
        match start {
            Start::Beginning | Start::AfterSecond(_) => partition.lsn().0,
            Start::Now => 0,
            Start::After(lsn) => partition.lsn().0.saturating_sub(lsn.0),
        }
    }
}
