//! What the feed of one range says behind a position, as groups of entries.

use super::definition::{Definition, FeedMode};
use super::entry::{DeliveryFailure, EntryKey, EntryOperation, Group, SubscriptionEntry};
use super::position::KeyPositions;
use super::selection::Selected;
use crate::container::Container;
use crate::feed::lineage::Lineage;
use crate::feed_entry::{FeedEntry, FeedOperation, Origin};
use crate::keys::LogPosition;
use crate::limits::{SUBSCRIPTION_DEPTH_MAX, VIEW_PAGE_BYTES_MAX, VIEW_PAGE_ENTRIES_MAX};
use crate::partition::Partition;
use crate::store_failure;
use crate::txn::parse_stored;
use crate::versions::{self, VersionKind};
use armilla_model::charge::RequestCharge;
use armilla_model::clock::monotonic;
use armilla_model::error::{Error, Result};
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::{Epk, PartitionKey};
use armilla_model::value::Value;
use armilla_storage::{Keyspace, Snapshot};
use bytes::Bytes;
use std::time::Instant;

/// A page of a feed.
pub(super) struct FeedPage {
    /// What is to be delivered.
    pub(super) groups: Vec<Group>,
    /// The position behind them.
    pub(super) position: Lsn,
    /// Entries that were left out.
    pub(super) filtered: u64,
    /// What reading them costs.
    pub(super) charge: RequestCharge,
}

/// A change as the log has it.
pub(super) struct LoggedChange {
    pub(super) operation: EntryOperation,
    pub(super) epk: Epk,
    pub(super) second: u32,
    origin: Origin,
    pub(super) item: Option<Value>,
    pub(super) previous: Option<Value>,
    bytes: usize,
}

/// Where a page is read.
pub(super) struct Reading<'r> {
    pub(super) container: &'r Container,
    pub(super) partition: &'r Partition,
    pub(super) definition: &'r Definition,
    /// Number of the subscription.
    pub(super) number: u32,
}

impl Reading<'_> {
    /// Reads a page behind a position, which ends with the first transaction behind a moment; nothing when the
    /// log does not reach back to the position.
    pub(super) fn page(
        &self,
        after: Lsn,
        done: &KeyPositions,
        until: Instant,
    ) -> Result<Option<FeedPage>> {
        let (root, published) = self.container.core.consistent_view(self.partition);
        let (snapshot, head) = (&*root.snapshot, Lsn(published.view.lsn()));
        if self.is_lost(snapshot, after)? {
            return Ok(None);
        }
        let mut log = self.log(snapshot, (after, head));
        let charge = RequestCharge::default();
        let position = after.max(head);
        let mut page = FeedPage { groups: Vec::new(), position, filtered: 0, charge };
        let (mut bytes, mut seen, mut last) = (0, 0, after);
        while let Some((position, value)) = log.next()? {
            let full = seen >= VIEW_PAGE_ENTRIES_MAX
                || bytes >= VIEW_PAGE_BYTES_MAX
                || (seen > 0 && monotonic() >= until);
            if full && position.lsn != last {
                page.position = last;
                break;
            }
            last = position.lsn;
            seen += 1;
            let Some(change) = self.change(snapshot, position, &value)? else { continue };
            let key = key_of(position);
            if !self.partition.range.contains(&change.epk) || done.is_done(&change.epk, &key) {
                continue;
            }
            bytes += change.bytes;
            page.charge += self.container.rates().feed_item(change.bytes);
            self.take(&mut page, key, change);
        }
        page.charge = page.charge.max(RequestCharge::ONE);
        Ok(Some(page))
    }

    /// Commit second of the first change behind a position.
    pub(super) fn first_second(&self, after: Lsn) -> Result<Option<u32>> {
        let (root, published) = self.container.core.consistent_view(self.partition);
        let (snapshot, head) = (&*root.snapshot, Lsn(published.view.lsn()));
        let mut log = self.log(snapshot, (after, head));
        while let Some((position, value)) = log.next()? {
            if let Some(change) = self.change(snapshot, position, &value)?
                && self.partition.range.contains(&change.epk)
            {
                return Ok(Some(change.second));
            }
        }
        Ok(None)
    }

    /// The last changes, the newest first.
    pub(super) fn last(&self, count: usize) -> Result<Vec<(EntryKey, LoggedChange)>> {
        let (root, published) = self.container.core.consistent_view(self.partition);
        let (snapshot, head) = (&*root.snapshot, Lsn(published.view.lsn()));
        let mut found = Vec::new();
        // From the end back, in steps that double, until there are enough.
        let mut step = count as u64;
        loop {
            let after = Lsn(head.0.saturating_sub(step));
            if self.is_lost(snapshot, after)? {
                break;
            }
            found.clear();
            let mut log = self.log(snapshot, (after, head));
            while let Some((position, value)) = log.next()? {
                if let Some(change) = self.change(snapshot, position, &value)?
                    && self.partition.range.contains(&change.epk)
                {
                    found.push((key_of(position), change));
                }
            }
            if found.len() >= count || after.0 == 0 {
                break;
            }
            step = step.saturating_mul(4);
        }
        found.reverse();
        found.truncate(count);
        Ok(found)
    }

    fn log<'s>(&self, snapshot: &'s dyn Snapshot, bounds: (Lsn, Lsn)) -> Lineage<'s> {
        let keyspace = match self.definition.mode {
            FeedMode::Latest => Keyspace::Feed,
            FeedMode::AllVersions => Keyspace::Versions,
        };
        Lineage::new(snapshot, keyspace, self.container.number, &self.partition.range, bounds)
    }

    /// Whether versions behind a position were trimmed, or are not kept at all.
    fn is_lost(&self, snapshot: &dyn Snapshot, after: Lsn) -> Result<bool> {
        if self.definition.mode == FeedMode::Latest {
            return Ok(false);
        }
        let kept = self.container.settings().policy.retention_minutes > 0;
        let floor = self.container.versions_floor(snapshot, &self.partition.range);
        Ok(!kept || after < floor.map_err(store_failure)?)
    }

    /// Reads an entry of the log; nothing for an item whose time has run out.
    fn change(
        &self,
        snapshot: &dyn Snapshot,
        position: LogPosition,
        value: &Bytes,
    ) -> Result<Option<LoggedChange>> {
        if self.definition.mode == FeedMode::AllVersions {
            return version(position, value).map(Some);
        }
        let entry = FeedEntry::decode(value).map_err(store_failure)?;
        let record = self.container.get(snapshot, &entry.item)?.ok_or_else(|| {
            Error::Internal("the feed names an item that is not there".to_owned())
        })?;
        let now = self.container.core.clock.now_seconds();
        if !record.is_alive(self.container.settings().policy.liveness(now)) {
            return Ok(None);
        }
        Ok(Some(LoggedChange {
            operation: operation_of(entry.operation),
            epk: entry.item.epk,
            second: entry.second,
            origin: entry.origin,
            bytes: record.size(),
            item: Some(parse_stored(&record.text())?),
            previous: None,
        }))
    }

    /// Adds a change to a page, unless it is left out.
    fn take(&self, page: &mut FeedPage, key: EntryKey, change: LoggedChange) {
        let is_own = self.definition.skip_own_writes && change.origin.number == self.number;
        let (selected, broken) = match self.select(&change) {
            _ if is_own => (Selected::No, None),
            Ok(Selected::As(_)) if change.origin.depth >= SUBSCRIPTION_DEPTH_MAX => {
                let told =
                    format!("loop: subscriptions caused one another {} times", change.origin.depth);
                (Selected::As(change.item.clone()), Some(DeliveryFailure::told(told)))
            }
            Ok(selected) => (selected, None),
            Err(error) => {
                (Selected::As(change.item.clone()), Some(DeliveryFailure::told(error.to_string())))
            }
        };
        let Selected::As(item) = selected else {
            page.filtered += 1;
            return;
        };
        let whole = change.item.as_ref().or(change.previous.as_ref()).unwrap_or(&Value::Undefined);
        let id = whole.get("id").and_then(Value::as_str).unwrap_or_default();
        let entry = SubscriptionEntry {
            key,
            operation: change.operation,
            second: change.second,
            partition_key: PartitionKey::of_item(whole, self.container.key_definition()),
            id: id.into(),
            item,
            previous: change.previous,
        };
        match page.groups.last_mut() {
            Some(group) if group.is_of(&key) && group.broken.is_some() == broken.is_some() => {
                group.entries.push(entry);
                group.bytes += change.bytes;
                group.depth = group.depth.max(change.origin.depth);
            }
            _ => page.groups.push(Group {
                lsn: key.lsn,
                epk: change.epk,
                second: change.second,
                entries: vec![entry],
                bytes: change.bytes,
                depth: change.origin.depth,
                broken,
            }),
        }
    }

    pub(super) fn select(&self, change: &LoggedChange) -> Result<Selected> {
        let (item, previous) = (change.item.as_ref(), change.previous.as_ref());
        self.definition.selection.judge(change.operation, item, previous)
    }
}

impl Group {
    fn is_of(&self, key: &EntryKey) -> bool {
        self.entries
            .first()
            .is_some_and(|entry| (entry.key.lsn, entry.key.log) == (key.lsn, key.log))
    }
}

fn key_of(position: LogPosition) -> EntryKey {
    EntryKey { lsn: position.lsn, log: position.partition, sequence: position.sequence }
}

fn operation_of(operation: FeedOperation) -> EntryOperation {
    match operation {
        FeedOperation::Create => EntryOperation::Create,
        FeedOperation::Replace => EntryOperation::Replace,
        FeedOperation::Delete => EntryOperation::Delete,
        FeedOperation::Expire => EntryOperation::Expire,
    }
}

fn version(position: LogPosition, value: &Bytes) -> Result<LoggedChange> {
    let (epk, version) = versions::decode(position.lsn, value).map_err(store_failure)?;
    let text = |text: Option<Bytes>| text.map(|text| parse_stored(&text)).transpose();
    Ok(LoggedChange {
        operation: match version.kind {
            VersionKind::Create => EntryOperation::Create,
            VersionKind::Replace => EntryOperation::Replace,
            VersionKind::Delete => EntryOperation::Delete,
            VersionKind::Expire => EntryOperation::Expire,
        },
        epk,
        second: version.second,
        origin: versions::origin_of(value),
        bytes: value.len(),
        item: text(version.current)?,
        previous: text(version.previous)?,
    })
}
