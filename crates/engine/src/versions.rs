//! All versions and deletes: a second log that holds every change with its texts.
//!
//! A container that asks for it (`changeFeedPolicy.retentionDuration`) gets an entry per changed
//! item and transaction, written in the same batch as the change. Entries older than the retention
//! are trimmed; how far is written down per log, so that a reader who comes too late is told instead
//! of being shown a gap.

use crate::container::Container;
use crate::feed::lineage::lineage_of;
use crate::feed::{Changes, LogPage, Start};
use crate::feed_entry::{FeedOperation, Origin};
use crate::keys::{self, Meta};
use crate::limits::VERSIONS_TRIM_BATCH;
use crate::partition::Partition;
use crate::ranges::{EpkSpan, Range};
use crate::record::Record;
use crate::store_failure;
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::Epk;
use armilla_storage::{Batch, Direction, Keyspace, Snapshot, StoreError};
use bytes::Bytes;
use std::ops::ControlFlow;

/// What a client wrote.
const FORMAT: u8 = 1;
/// What the server wrote for a subscription: who it was stands behind the fixed fields.
const FORMAT_WITH_ORIGIN: u8 = 2;
/// Format, operation, second, LSN of the version before, length of the key.
const FIXED_LENGTH: usize = 1 + 1 + 4 + 8 + 2;
const ORIGIN_LENGTH: usize = 4;

/// How an item changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionKind {
    /// It was made.
    Create,
    /// It got a new version.
    Replace,
    /// A client removed it.
    Delete,
    /// Its time to live ran out.
    Expire,
}

/// A change with its texts.
#[derive(Clone, Debug)]
pub struct Version {
    /// What happened.
    pub kind: VersionKind,
    /// The transaction.
    pub lsn: Lsn,
    /// Its second.
    pub second: u32,
    /// The transaction that wrote the version before.
    pub previous_lsn: Option<Lsn>,
    /// The item after the change; nothing when it is gone.
    pub current: Option<Bytes>,
    /// The item before the change, where there was one.
    pub previous: Option<Bytes>,
}

/// An entry in the making.
pub(crate) struct VersionEntry<'e> {
    pub(crate) operation: FeedOperation,
    pub(crate) second: u32,
    pub(crate) origin: Origin,
    pub(crate) epk: &'e Epk,
    pub(crate) previous_lsn: Lsn,
    pub(crate) current: &'e [u8],
    pub(crate) previous: Option<&'e Record>,
}

impl VersionEntry<'_> {
    /// The stored form: fixed fields, origin if it is no client, key, length of the current text, current
    /// text, previous text.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let previous = self.previous.map(Record::text).unwrap_or_default();
        let epk = self.epk.as_bytes();
        let origin = (self.origin != Origin::default()).then(|| self.origin.encode().to_be_bytes());
        let origin = origin.as_ref().map(|bytes| &bytes[..]).unwrap_or_default();
        let length =
            FIXED_LENGTH + origin.len() + epk.len() + 4 + self.current.len() + previous.len();
        let mut out = Vec::with_capacity(length);
        out.push(if origin.is_empty() { FORMAT } else { FORMAT_WITH_ORIGIN });
        out.push(self.operation as u8);
        out.extend_from_slice(&self.second.to_be_bytes());
        out.extend_from_slice(&self.previous_lsn.0.to_be_bytes());
        out.extend_from_slice(&(epk.len() as u16).to_be_bytes());
        out.extend_from_slice(origin);
        out.extend_from_slice(epk);
        out.extend_from_slice(&(self.current.len() as u32).to_be_bytes());
        out.extend_from_slice(self.current);
        out.extend_from_slice(&previous);
        assert_eq!(out.len(), length, "a version's entry has the length of its parts");
        debug_assert!(
            decode(Lsn(0), &Bytes::copy_from_slice(&out))
                .is_ok_and(|(epk, read)| { epk == *self.epk && read.second == self.second }),
            "a version's entry reads back as it was written"
        );
        out
    }
}

/// Reads an entry of the log, without copying its texts.
pub(crate) fn decode(lsn: Lsn, bytes: &Bytes) -> Result<(Epk, Version), StoreError> {
    let corrupt = || StoreError::corruption("versions", "an entry is malformed");
    let fixed_length = match bytes.first() {
        Some(&FORMAT) => FIXED_LENGTH,
        Some(&FORMAT_WITH_ORIGIN) => FIXED_LENGTH + ORIGIN_LENGTH,
        _ => return Err(corrupt()),
    };
    if bytes.len() < fixed_length {
        return Err(corrupt());
    }
    let kind = match bytes[1] {
        0 => VersionKind::Create,
        1 => VersionKind::Replace,
        2 => VersionKind::Delete,
        3 => VersionKind::Expire,
        _ => return Err(corrupt()),
    };
    let previous_lsn = bytes[6..14].try_into().map(u64::from_be_bytes).map_err(|_| corrupt())?;
    let key_length = usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
    let texts_at = fixed_length + key_length + 4;
    let epk = bytes.get(fixed_length..texts_at - 4).ok_or_else(corrupt)?;
    let length = bytes.get(texts_at - 4..texts_at).and_then(|length| length.try_into().ok());
    let current_length = length.map(u32::from_be_bytes).ok_or_else(corrupt)? as usize;
    let previous_at = texts_at.checked_add(current_length).filter(|end| *end <= bytes.len());
    let previous_at = previous_at.ok_or_else(corrupt)?;
    let text = |text: Bytes| Some(text).filter(|text| !text.is_empty());
    let version = Version {
        kind,
        lsn,
        second: second_of(bytes),
        previous_lsn: Some(Lsn(previous_lsn)).filter(|lsn| lsn.0 > 0),
        current: text(bytes.slice(texts_at..previous_at)),
        previous: text(bytes.slice(previous_at..)),
    };
    Ok((Epk::from_bytes(epk), version))
}

/// True when an entry can be read.
pub(crate) fn is_readable(bytes: &Bytes) -> bool {
    decode(Lsn(0), bytes).is_ok()
}

/// Who wrote an entry.
pub(crate) fn origin_of(bytes: &[u8]) -> Origin {
    let word = bytes.get(FIXED_LENGTH..FIXED_LENGTH + ORIGIN_LENGTH);
    let word = word.filter(|_| bytes.first() == Some(&FORMAT_WITH_ORIGIN));
    let word = word.and_then(|word| word.try_into().ok());
    word.map_or_else(Origin::default, |word| Origin::decode(u32::from_be_bytes(word)))
}

fn second_of(bytes: &[u8]) -> u32 {
    let second = bytes.get(2..6).and_then(|second| second.try_into().ok());
    second.map_or(0, u32::from_be_bytes)
}

fn too_early() -> Error {
    Error::bad_request(
        "You must read the change feed from within the retention period. In the mode of all versions and deletes a reader begins now or with a continuation that is not older than the retention.",
    )
}

impl Container {
    /// Reads versions of one partition, limited to a span of keys.
    pub fn read_versions(
        &self,
        partition: &Partition,
        span: &EpkSpan,
        start: Start,
        count_max: usize,
    ) -> Result<Changes<Version>> {
        if self.settings().policy.retention_minutes == 0 {
            return Err(Error::bad_request(
                "The All Versions and Deletes change feed must be enabled for this container: give it a changeFeedPolicy with a retentionDuration.",
            ));
        }
        let (root, published) = self.core.consistent_view(partition);
        let head = Lsn(published.view.lsn());
        let after = match start {
            Start::Now => head,
            Start::After(lsn) => lsn,
            Start::Beginning | Start::AfterSecond(_) => return Err(too_early()),
        };
        let (snapshot, range) = (&*root.snapshot, &partition.range);
        if after < self.versions_floor(snapshot, range).map_err(store_failure)? {
            return Err(too_early());
        }
        let keyspace = Keyspace::Versions;
        let page = LogPage { snapshot, keyspace, range, after, head, count_max };
        let mut changes = self.read_log(&page, |position, value| {
            let (epk, version) = decode(position.lsn, value).map_err(store_failure)?;
            Ok(span.contains(&epk).then(|| (value.len(), version)))
        })?;
        // The state before a change counts as an item of its own.
        let rates = self.rates();
        let size = |version: &Version| {
            let texts = version.current.iter().chain(&version.previous);
            texts.map(|text| rates.feed_item(text.len())).sum::<RequestCharge>()
        };
        let sizes = changes.items.iter().map(size);
        changes.charge = sizes.sum::<RequestCharge>().max(RequestCharge::ONE);
        Ok(changes)
    }

    /// How far the logs of a range were trimmed: what lies at or below is not there any more.
    pub(crate) fn versions_floor(
        &self,
        snapshot: &dyn Snapshot,
        range: &Range,
    ) -> Result<Lsn, StoreError> {
        let mut floor = Lsn(0);
        for partition in lineage_of(range) {
            let key = keys::meta(Meta::VersionsFloor, &[self.number, partition]);
            let noted = snapshot.get(Keyspace::Meta, &key)?;
            let noted = noted.as_deref().and_then(|bytes| bytes.try_into().ok());
            floor = floor.max(Lsn(noted.map_or(0, u64::from_be_bytes)));
        }
        Ok(floor)
    }

    /// Notes that versions are kept from here on: what was written before is not in the log.
    pub(crate) fn begin_versions(&self) {
        let mut batch = Batch::new();
        for partition in self.partitions().iter() {
            let last = partition.sequence().last;
            let key = keys::meta(Meta::VersionsFloor, &[self.number, partition.range.id]);
            batch.put(Keyspace::Meta, key, last.0.to_be_bytes().to_vec());
        }
        self.core.commit_and_wait(batch);
    }

    /// Removes versions that are older than the retention; all of them when none is wanted.
    pub(crate) fn trim_versions(&self) -> Result<(), StoreError> {
        let minutes = self.settings().policy.retention_minutes;
        let now = self.core.clock.now_seconds();
        let oldest =
            if minutes == 0 { u64::MAX } else { now.saturating_sub(u64::from(minutes) * 60) };
        let mut logs: Vec<u32> = Vec::new();
        self.partitions().iter().for_each(|partition| logs.extend(lineage_of(&partition.range)));
        logs.sort_unstable();
        logs.dedup();
        for log in logs {
            while self.trim_log(log, oldest)? {}
        }
        Ok(())
    }

    /// Removes a batch of one log's oldest entries; true when there may be more.
    fn trim_log(&self, log: u32, oldest: u64) -> Result<bool, StoreError> {
        let snapshot = self.core.snapshot();
        let (mut batch, mut last) = (Batch::new(), None);
        let range = keys::log_of(self.number, log);
        snapshot.scan(Keyspace::Versions, &range, Direction::Forward, &mut |key, value| {
            if u64::from(second_of(&value)) >= oldest || batch.len() >= VERSIONS_TRIM_BATCH {
                return ControlFlow::Break(());
            }
            last = keys::read_log(key).ok();
            batch.delete(Keyspace::Versions, key.to_vec());
            ControlFlow::Continue(())
        })?;
        let Some(last) = last else { return Ok(false) };
        let full = batch.len() >= VERSIONS_TRIM_BATCH;
        let floor = keys::meta(Meta::VersionsFloor, &[self.number, log]);
        batch.put(Keyspace::Meta, floor, last.lsn.0.to_be_bytes().to_vec());
        Ok(self.core.commit_and_wait(batch) && full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_reads_back() {
        let epk = Epk::from_bytes(b"0123456789abcdef");
        let entry = VersionEntry {
            operation: FeedOperation::Replace,
            second: 9,
            origin: Origin::default(),
            epk: &epk,
            previous_lsn: Lsn(7),
            current: b"{\"id\":\"a\"}",
            previous: None,
        };
        let origin = Origin { number: 5, depth: 3 };
        let written = VersionEntry { origin, ..entry };
        let with_origin = Bytes::from(written.encode());
        assert_eq!((origin_of(&with_origin), with_origin[0]), (origin, FORMAT_WITH_ORIGIN));
        assert_eq!(decode(Lsn(8), &with_origin).unwrap().0, epk);
        let entry = VersionEntry { origin: Origin::default(), ..written };
        let bytes = Bytes::from(entry.encode());
        let (key, version) = decode(Lsn(8), &bytes).unwrap();
        assert_eq!((key, version.kind), (epk, VersionKind::Replace));
        assert_eq!((version.lsn, version.previous_lsn), (Lsn(8), Some(Lsn(7))));
        assert_eq!(version.current.as_deref(), Some(&b"{\"id\":\"a\"}"[..]));
        assert!(version.previous.is_none());
        for length in 0..bytes.len() - 10 {
            assert!(decode(Lsn(8), &bytes.slice(..length)).is_err(), "{length} bytes were read");
        }
    }
}
