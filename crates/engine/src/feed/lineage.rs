//! The logs that a range reads: its own and those of every range it came from.
//!
//! A split or merge moves nothing. The children's logs begin above their parents', so reading all
//! of them by (LSN, partition, sequence) is reading the history of the range, and a position is
//! still a plain LSN.

use crate::feed_entry::FeedEntry;
use crate::keys::{self, LogPosition};
use crate::limits::{FEED_FETCH_BYTES_MAX, FEED_FETCH_MAX, FEED_FETCH_MIN};
use crate::ranges::Range;
use crate::store_failure;
use armilla_model::error::{Error, Result};
use armilla_model::lsn::Lsn;
use armilla_storage::{Direction, KeyRange, Keyspace, Snapshot};
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};

/// Entries of several logs, in the order of their transactions.
pub(crate) struct Lineage<'s> {
    snapshot: &'s dyn Snapshot,
    keyspace: Keyspace,
    container: u32,
    head: Lsn,
    logs: Vec<Log>,
}

struct Log {
    partition: u32,
    next: LogPosition,
    fetched: VecDeque<(LogPosition, Bytes)>,
    fetch: usize,
    ended: bool,
}

impl<'s> Lineage<'s> {
    /// The history of a range behind a position and up to its head.
    pub(crate) fn new(
        snapshot: &'s dyn Snapshot,
        keyspace: Keyspace,
        container: u32,
        range: &Range,
        (after, head): (Lsn, Lsn),
    ) -> Self {
        let log = |partition: u32| Log {
            partition,
            next: LogPosition { partition, lsn: Lsn(after.0.saturating_add(1)), sequence: 0 },
            fetched: VecDeque::new(),
            fetch: FEED_FETCH_MIN,
            ended: after >= head,
        };
        let logs = lineage_of(range).map(log).collect();
        Self { snapshot, keyspace, container, head, logs }
    }

    /// The next entry.
    pub(crate) fn next(&mut self) -> Result<Option<(LogPosition, Bytes)>> {
        let mut first: Option<(usize, LogPosition)> = None;
        for at in 0..self.logs.len() {
            if self.logs[at].fetched.is_empty() && !self.logs[at].ended {
                self.fetch(at)?;
            }
            let Some(&(position, _)) = self.logs[at].fetched.front() else { continue };
            let order = |position: &LogPosition| (position.lsn, position.partition);
            if first.is_none_or(|(_, known)| order(&position) < order(&known)) {
                first = Some((at, position));
            }
        }
        Ok(first.and_then(|(at, _)| self.logs[at].fetched.pop_front()))
    }

    fn fetch(&mut self, at: usize) -> Result<()> {
        let log = &mut self.logs[at];
        let range = KeyRange {
            start: Bound::Included(keys::log(self.container, log.next)),
            end: keys::log_of(self.container, log.partition).end,
        };
        let (head, limit) = (self.head, log.fetch);
        let (mut bytes, mut malformed, mut full) = (0, false, false);
        let fetched = &mut log.fetched;
        let mut visit = |key: &[u8], value: Bytes| {
            let Ok(position) = keys::read_log(key) else {
                malformed = true;
                return ControlFlow::Break(());
            };
            if position.lsn > head {
                return ControlFlow::Break(());
            }
            bytes += value.len();
            fetched.push_back((position, value));
            full = fetched.len() >= limit || bytes >= FEED_FETCH_BYTES_MAX;
            if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.snapshot
            .scan(self.keyspace, &range, Direction::Forward, &mut visit)
            .map_err(store_failure)?;
        if malformed {
            return Err(Error::Internal("a key of a log is malformed".to_owned()));
        }
        log.ended = !full;
        log.fetch = (log.fetch * 2).min(FEED_FETCH_MAX);
        if let Some(&(last, _)) = log.fetched.back() {
            log.next = LogPosition { sequence: last.sequence.saturating_add(1), ..last };
        }
        Ok(())
    }
}

/// A range and its ancestors, by id.
pub(crate) fn lineage_of(range: &Range) -> impl Iterator<Item = u32> {
    range.parents.iter().copied().chain([range.id])
}

/// The position before the first change at or after a second. Commit seconds never go back inside a
/// log, so this is a search and not a walk.
pub(crate) fn before_second(
    snapshot: &dyn Snapshot,
    container: u32,
    range: &Range,
    head: Lsn,
    second: u64,
) -> Result<Lsn> {
    let mut before = head;
    for partition in lineage_of(range) {
        // Everything below `low` is too early; from `high` on nothing is.
        let (mut low, mut high) = (0, before.0.saturating_add(1));
        while low < high {
            let middle = low + (high - low) / 2;
            let from = keys::log_after(container, partition, Lsn(middle.saturating_sub(1)));
            let found =
                snapshot.first(Keyspace::Feed, &from, Direction::Forward).map_err(store_failure)?;
            let Some((key, value)) = found else {
                high = middle;
                continue;
            };
            let position = keys::read_log(&key)
                .map_err(|_| Error::Internal("a key of a log is malformed".to_owned()))?;
            let entry = FeedEntry::decode(&value).map_err(store_failure)?;
            if position.lsn.0 >= high || u64::from(entry.second) >= second {
                high = middle;
            } else {
                low = position.lsn.0 + 1;
            }
        }
        before = before.min(Lsn(low.saturating_sub(1)));
    }
    Ok(before)
}
