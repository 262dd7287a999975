//! Gather: the wanted items of one logical partition, looked for together.
//!
//! The index names them before the first is read. Items of a logical partition mostly lie side by side in one sorted file, so they are looked
//! for where one of them lies (`Snapshot::get_beside`), and copied into memory that they share, unless their block is kept anyway. That may show replaced versions and
//! miss items, so a value counts only if it is the version that the index names; what is missing is searched for (decisions 0067
//! and 0075).

use super::is_cheaper;
use crate::item_cache::{ItemVersion, Keeping};
use crate::keys::{self, ItemKey};
use crate::query::plan::costs::{CACHE_ASKED_MIN, GATHER_MIN, PREFETCH_BYTES_MAX, PREFETCH_MAX};
use crate::query::read::{Found, Items};
use crate::ranges::EpkSpan;
use crate::record::{HEADER_LENGTH, Record, version};
use armilla_index::DocumentRef;
use armilla_model::error::Result;
use armilla_model::partition_key::Epk;
use armilla_storage::{Keyspace, Shown, StoreError};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// An item that is wanted: the version that the index names.
struct Wanted {
    docno: u64,
    lsn: u64,
    hash: u64,
    ts: u32,
    size: u32,
}

impl Wanted {
    fn is(&self, value: &[u8]) -> bool {
        version(value) == Some((self.docno, self.lsn, self.ts, self.size as usize))
    }
}

/// The wanted items of one logical partition.
pub(super) struct Gather {
    target: usize,
    epk: Epk,
    /// In the order of their ordinals.
    wanted: Arc<[Wanted]>,
    /// Those that were found; empty before the first round.
    found: Vec<Option<Record>>,
    /// Those before were looked for.
    done: usize,
    /// Behind the one that was taken last: mostly that is wanted next.
    next: usize,
    /// A small part of the partition is wanted: the item cache may have it.
    asks_cache: bool,
}

impl Gather {
    /// Nothing where other partitions are addressed too, or hardly anything is wanted.
    pub(super) fn new(
        page: &Items<'_>,
        target: usize,
        documents: &[Found<'_>],
        scope: u64,
    ) -> Option<Self> {
        let (first, count) = (documents.first()?, documents.len() as u64);
        if !(GATHER_MIN..=PREFETCH_MAX).contains(&count) {
            return None;
        }
        let epk = Epk::from_bytes(first.document.epk);
        let is_partition = page.plan.view.ranges[target].spans == [EpkSpan::of_prefix(&epk)];
        let is_ordered = documents.is_sorted_by_key(|found| found.document.docno);
        if !is_partition || !is_ordered {
            return None;
        }
        let wanted = |found: &Found<'_>| {
            let DocumentRef { docno, lsn, hash, ts, size, .. } = found.document;
            Wanted { docno, lsn, hash, ts, size }
        };
        let wanted = documents.iter().map(wanted).collect();
        let asks_cache = !is_cheaper(count, scope);
        Some(Self { target, epk, wanted, found: Vec::new(), done: 0, next: 0, asks_cache })
    }

    /// The same for a thread that reads some of them.
    pub(super) fn for_worker(&self) -> Self {
        let Self { target, epk, wanted, asks_cache, .. } = self;
        let (epk, wanted) = (epk.clone(), Arc::clone(wanted));
        let (found, done, next) = (Vec::new(), 0, 0);
        Self { target: *target, epk, wanted, found, done, next, asks_cache: *asks_cache }
    }

    /// An item, if it was found; it is handed out once. The first call looks for all, but for no more than so many.
    pub(super) fn take(
        &mut self,
        page: &Items<'_>,
        target: usize,
        document: &DocumentRef<'_>,
        limit: u64,
    ) -> Result<Option<Record>> {
        let is_next = |wanted: &Wanted| wanted.docno == document.docno;
        let at = match self.wanted.get(self.next).is_some_and(is_next) {
            true => Ok(self.next),
            false => self.wanted.binary_search_by_key(&document.docno, |wanted| wanted.docno),
        };
        let (Ok(at), true) = (at, self.target == target) else { return Ok(None) };
        if at >= self.done {
            self.round(page, at, limit)?;
        }
        self.next = at + 1;
        Ok(self.found[at].take())
    }

    /// Looks for items from one of them on.
    fn round(&mut self, page: &Items<'_>, from: usize, limit: u64) -> Result<()> {
        self.found.resize(self.wanted.len(), None);
        let (mut bytes, mut missing) = (0, Vec::with_capacity(self.wanted.len() - from));
        let (container, cache) = (&page.query.container, &page.query.container.core.hot);
        let version_of = |wanted: &Wanted| ItemVersion {
            container: container.number,
            docno: wanted.docno,
            lsn: wanted.lsn,
        };
        self.done = self.wanted.len();
        for (at, wanted) in self.wanted.iter().enumerate().skip(from) {
            if (at - from) as u64 >= limit || bytes >= PREFETCH_BYTES_MAX {
                self.done = at;
                break;
            }
            bytes += wanted.size as usize;
            // Items that are read together are kept and pushed out together: where most are lacking, so are the rest.
            let (asked, lacking) = (at - from, missing.len());
            if self.asks_cache && (asked < CACHE_ASKED_MIN || lacking * 2 <= asked) {
                self.found[at] = cache.find(version_of(wanted));
            }
            if self.found[at].is_none() {
                missing.push(at);
            }
        }
        if (missing.len() as u64) < GATHER_MIN {
            return Ok(());
        }
        self.look(page, &mut missing)?;
        for at in missing.into_iter().filter(|_| self.asks_cache) {
            if let Some(record) = &self.found[at] {
                cache.note(version_of(&self.wanted[at]), Keeping::OnReturn, record);
            }
        }
        Ok(())
    }

    /// Looks for some of the items in the store.
    fn look(&mut self, page: &Items<'_>, numbers: &mut [usize]) -> Result<()> {
        let (range, container) = (&page.plan.view.ranges[self.target], &page.query.container);
        let wanted = &self.wanted;
        numbers.sort_unstable_by_key(|&at| wanted[at].hash);
        let definition = &page.query.settings.policy.partition_key;
        let mut key = ItemKey { epk: self.epk.clone(), hash: 0, probe: 0 };
        let mut written = keys::item(container.number, definition, &key);
        let (length, mut keys) = (written.len(), Vec::with_capacity(written.len() * numbers.len()));
        for &at in &*numbers {
            key.hash = wanted[at].hash;
            written = keys::item_in(written, container.number, definition, &key);
            keys.extend_from_slice(&written);
        }
        let keys: Vec<&[u8]> = keys.chunks_exact(length).collect();
        let mut copies: Vec<u8> = Vec::new();
        let mut copied: Vec<(usize, Range<usize>)> = Vec::with_capacity(numbers.len());
        let found = &mut self.found;
        let mut damage = None;
        let take = &mut |position: usize, value: &Shown<'_>| {
            let at = numbers[position];
            if !wanted[at].is(value.bytes()) {
                return false;
            }
            match value.share().map(Record::new) {
                Some(Ok(record)) => found[at] = Some(record),
                Some(Err(error)) => damage = Some(error),
                None => {
                    if copies.capacity() == 0 {
                        let length = |&at: &usize| wanted[at].size as usize + HEADER_LENGTH;
                        copies.reserve_exact(numbers.iter().map(length).sum());
                    }
                    let from = copies.len();
                    copies.extend_from_slice(value.bytes());
                    copied.push((at, from..copies.len()));
                }
            }
            true
        };
        let looked = range.snapshot().get_beside(Keyspace::Items, &keys, take);
        let copies = Bytes::from(copies);
        let read = looked.and(damage.map_or(Ok(()), Err)).and_then(|()| {
            for (at, bytes) in copied {
                self.found[at] = Some(Record::new(copies.slice(bytes))?);
            }
            Ok::<_, StoreError>(())
        });
        read.map_err(|error| container.failed_in(&range.partition, error))
    }
}
