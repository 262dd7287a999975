//! The change feed: every item's last version, in the order of commits.
//!
//! A partition's log has exactly one entry per living item, at its last LSN. Reading from an LSN is
//! a scan; nothing expires from it. A page never ends inside a transaction, so the LSN alone is a
//! position.

use crate::container::Container;
use crate::feed_entry::FeedEntry;
use crate::items::read::Item;
use crate::keys;
use crate::partition::Partition;
use crate::ranges::EpkSpan;
use crate::store_failure;
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::limits::PAGE_SIZE_MAX;
use armilla_model::lsn::Lsn;
use armilla_storage::{Direction, Keyspace};
use std::ops::ControlFlow;

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the oldest change.
    Beginning,
    /// With what is written from now on.
    Now,
    /// With the first change at or after this second.
    At(u64),
    /// Behind this transaction.
    After(Lsn),
}

/// A page of changes.
#[derive(Debug)]
pub struct Changes {
    /// The items, each with the transaction that wrote it.
    pub items: Vec<Item>,
    /// The position behind them.
    pub position: Lsn,
    /// What it costs.
    pub charge: RequestCharge,
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
        let (after, not_before) = match start {
            Start::Beginning => (Lsn(0), 0),
            Start::Now => (head, 0),
            Start::At(second) => (Lsn(0), second),
            Start::After(lsn) => (lsn, 0),
        };
        let mut page =
            Changes { items: Vec::new(), position: after.max(head), charge: RequestCharge::ONE };
        if after >= head {
            page.position = after;
            return Ok(page);
        }
        let settings = self.settings();
        let default_ttl = settings.policy.default_ttl;
        let now = u64::from(self.core.now_seconds());
        let (mut bytes, mut last, mut failure) = (0, after, None);
        let range = keys::log_after(self.number, partition.range.id, after);
        let mut visit = |key: &[u8], value: &[u8]| -> Result<ControlFlow<()>> {
            let position = keys::read_log(key)
                .map_err(|_| Error::Internal("a feed key is malformed".to_owned()))?;
            if position.lsn > head {
                return Ok(ControlFlow::Break(()));
            }
            let full = page.items.len() >= count_max || bytes >= PAGE_SIZE_MAX;
            if full && position.lsn != last {
                page.position = last;
                return Ok(ControlFlow::Break(()));
            }
            last = position.lsn;
            let entry = FeedEntry::decode(value).map_err(store_failure)?;
            let inside = span.min <= entry.item.epk
                && span.max.as_ref().is_none_or(|max| entry.item.epk < *max);
            if !inside || u64::from(entry.second) < not_before {
                return Ok(ControlFlow::Continue(()));
            }
            let record = self.get(&*root.snapshot, &entry.item)?;
            let record = record.ok_or_else(|| {
                Error::Internal("the feed names an item that is not there".to_owned())
            })?;
            if record.expires_at(default_ttl).is_none_or(|deadline| now < deadline) {
                bytes += record.size();
                page.items.push(Item::of(&record));
            }
            Ok(ControlFlow::Continue(()))
        };
        root.snapshot
            .scan(Keyspace::Feed, &range, Direction::Forward, &mut |key, value| {
                visit(key, &value).unwrap_or_else(|error| {
                    failure = Some(error);
                    ControlFlow::Break(())
                })
            })
            .map_err(store_failure)?;
        if let Some(error) = failure {
            return Err(error);
        }
        let sizes = page.items.iter().map(|item| RequestCharge::feed_item(item.text.len()));
        page.charge = sizes.sum::<RequestCharge>().max(RequestCharge::ONE);
        Ok(page)
    }
}
