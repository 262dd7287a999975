//! What the logs of one source range say behind a position: items that changed and items that are gone.
//!
//! Both logs are read from one snapshot in the order of their transactions, and a page never ends inside
//! one. An ordinal is in the feed or among the removals, never in both.

use crate::container::Container;
use crate::feed::lineage::Lineage;
use crate::feed_entry::FeedEntry;
use crate::keys::{ItemKey, LogPosition};
use crate::limits::{VIEW_PAGE_BYTES_MAX, VIEW_PAGE_ENTRIES_MAX};
use crate::partition::Partition;
use crate::ranges::Range;
use crate::record::Record;
use crate::store_failure;
use crate::txn::parse_stored;
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::lsn::Lsn;
use armilla_model::value::Value;
use armilla_storage::{Keyspace, Snapshot};
use bytes::Bytes;
use std::sync::Arc;

/// Changes of a source range.
pub(super) struct SourcePage {
    pub(super) entries: Vec<SourceEntry>,
    /// The position behind them.
    pub(super) position: Lsn,
    /// What reading them costs.
    pub(super) charge: RequestCharge,
}

/// One change.
pub(super) struct SourceEntry {
    /// Ordinal of the source item.
    pub(super) docno: u64,
    /// Where the source item is, or was.
    pub(super) key: ItemKey,
    /// Transaction.
    pub(super) lsn: Lsn,
    /// The item as it is now; nothing when it is gone.
    pub(super) item: Option<Value>,
    /// The same as it is stored.
    pub(super) record: Option<Record>,
}

/// A range of a source, here or in the copy of another slice, as of one moment.
pub(super) struct SourceRange<'r> {
    pub(super) range: &'r Range,
    pub(super) head: Lsn,
    pub(super) snapshot: Arc<dyn Snapshot>,
}

impl<'r> SourceRange<'r> {
    /// A partition of the source, as it is now.
    pub(super) fn of(source: &Container, partition: &'r Partition) -> Self {
        let (root, published) = source.core.consistent_view(partition);
        let head = Lsn(published.view.lsn());
        Self { range: &partition.range, head, snapshot: root.snapshot.clone() }
    }
}

/// Reads the changes of a range behind a position.
pub(super) fn read(source: &Container, from: &SourceRange<'_>, after: Lsn) -> Result<SourcePage> {
    let (snapshot, head) = (&*from.snapshot, from.head);
    let mut logs = MergedLogs::new(source, from, after);
    let rates = source.rates();
    let mut page = SourcePage {
        entries: Vec::new(),
        position: after.max(head),
        charge: RequestCharge::default(),
    };
    let (mut bytes, mut last) = (0, after);
    while let Some((keyspace, position, value)) = logs.next()? {
        let full = page.entries.len() >= VIEW_PAGE_ENTRIES_MAX || bytes >= VIEW_PAGE_BYTES_MAX;
        if full && position.lsn != last {
            page.position = last;
            break;
        }
        last = position.lsn;
        let entry = FeedEntry::decode(&value).map_err(store_failure)?;
        if !from.range.contains(&entry.item.epk) {
            continue;
        }
        let (item, record) = match keyspace {
            Keyspace::Gone => (None, None),
            _ => {
                let record = source.get(snapshot, &entry.item)?.ok_or_else(|| {
                    Error::Internal("the feed names an item that is not there".to_owned())
                })?;
                bytes += record.size();
                page.charge += rates.feed_item(record.size());
                (Some(parse_stored(&record.text())?), Some(record))
            }
        };
        let FeedEntry { docno, item: key, .. } = entry;
        page.entries.push(SourceEntry { docno, key, lsn: position.lsn, item, record });
    }
    page.charge = page.charge.max(RequestCharge::ONE);
    Ok(page)
}

/// The commit second of the first change behind a position.
pub(super) fn first_second(
    source: &Container,
    from: &SourceRange<'_>,
    after: Lsn,
) -> Result<Option<u32>> {
    let first = MergedLogs::new(source, from, after).next()?;
    let Some((_, _, value)) = first else { return Ok(None) };
    FeedEntry::decode(&value).map(|entry| Some(entry.second)).map_err(store_failure)
}

/// The feed and the removals of a range, merged.
struct MergedLogs<'s> {
    feed: LogCursor<'s>,
    gone: LogCursor<'s>,
}

struct LogCursor<'s> {
    keyspace: Keyspace,
    entries: Lineage<'s>,
    next: Option<(LogPosition, Bytes)>,
    begun: bool,
}

impl<'s> MergedLogs<'s> {
    fn new(source: &Container, from: &'s SourceRange<'_>, after: Lsn) -> Self {
        let (snapshot, bounds) = (&*from.snapshot, (after, from.head));
        let log = |keyspace| LogCursor {
            keyspace,
            entries: Lineage::new(snapshot, keyspace, source.number, from.range, bounds),
            next: None,
            begun: false,
        };
        Self { feed: log(Keyspace::Feed), gone: log(Keyspace::Gone) }
    }

    fn next(&mut self) -> Result<Option<(Keyspace, LogPosition, Bytes)>> {
        let order = |position: LogPosition| (position.lsn, position.partition, position.sequence);
        let (feed, gone) = (self.feed.peek()?, self.gone.peek()?);
        let from_feed = match (feed, gone) {
            (Some(feed), Some(gone)) => order(feed) < order(gone),
            (feed, _) => feed.is_some(),
        };
        if from_feed { self.feed.take() } else { self.gone.take() }
    }
}

impl LogCursor<'_> {
    fn peek(&mut self) -> Result<Option<LogPosition>> {
        if !self.begun {
            self.begun = true;
            self.next = self.entries.next()?;
        }
        Ok(self.next.as_ref().map(|(position, _)| *position))
    }

    fn take(&mut self) -> Result<Option<(Keyspace, LogPosition, Bytes)>> {
        let Some((position, value)) = self.next.take() else { return Ok(None) };
        self.next = self.entries.next()?;
        Ok(Some((self.keyspace, position, value)))
    }
}
