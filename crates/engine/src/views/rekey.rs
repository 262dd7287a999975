//! A container that is being filled under another partition key: the same items, whole, with their ids, versions and
//! times.
//!
//! It follows the logs of its source as a view does, but its items have the source's ids, so two things are
//! different. A place (key and id) can be wanted by two items, for an instant because one of them is about to leave, or for
//! good. And what lies at a place need not be what was put there on behalf of an item that leaves. Both are decided
//! by the copy itself: it has the source's key and id in it, so its owner can be looked up, and the source's etag, so it is
//! known whether it still shows its owner. Of a place that shows its owner nobody takes anything away.
//!
//! ```text
//! removals of places that are left ─► copies, each with its note ─► notes of items that are gone, position
//! one transaction per key              one transaction per key       one batch
//! ```
//!
//! Nobody reads the container before it takes its source's place, so removals may come first: a note then names one place,
//! and a page that is read again after a crash finds either the old place or the new one
//! ([decision 0033](../../../../docs/decisions/0033-rekey.md)).

mod check;

pub use check::RekeyCheck;

use super::ContainerView;
use super::apply::{Refused, begin, close, commit};
use super::page::{SourceEntry, SourcePage};
use super::placement;
use super::state::State;
use crate::container::Container;
use crate::items::WriteOptions;
use crate::items::body::Body;
use crate::locks::PartitionLock;
use crate::record::Record;
use crate::store_failure;
use crate::txn::{Txn, parse_stored};
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::{Epk, PartitionKey};
use armilla_model::value::Value;
use armilla_storage::{Batch, Keyspace, Snapshot, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The stored definition of such a container. No client can write it: it is no query.
pub(crate) const REKEY: &str = "REKEY";

/// The form of a note; those of views have another.
const NOTE_FORMAT: u8 = 3;

/// Where the copy of a source item lies.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CopyNote {
    /// Transaction of the source that the copy shows.
    lsn: Lsn,
    epk: Epk,
    id: Arc<str>,
}

/// What a page does.
#[derive(Default)]
struct RekeyPage<'p> {
    /// Places that source items leave, by key: ordinal and id.
    removals: BTreeMap<Epk, Vec<(u64, Arc<str>)>>,
    copies: BTreeMap<Epk, Vec<Copying<'p>>>,
    closing: Batch,
}

/// An item that is copied.
struct Copying<'p> {
    entry: &'p SourceEntry,
    record: &'p Record,
    key: PartitionKey,
    id: Arc<str>,
    note: (Vec<u8>, Vec<u8>),
}

/// Source and target, and the source as it is now.
struct Rekeying<'r> {
    source: &'r Container,
    target: &'r Arc<Container>,
    snapshot: &'r dyn Snapshot,
}

/// Writes a page of the source's changes and moves the position behind it.
pub(super) fn apply(
    source: &Container,
    target: &Arc<Container>,
    view: &ContainerView,
    page: &SourcePage,
    next: &State,
) -> Result<()> {
    let snapshot = target.core.snapshot();
    let rekeying = Rekeying { source, target, snapshot: &*snapshot };
    let mut plan = RekeyPage::default();
    page.entries.iter().try_for_each(|entry| rekeying.plan(entry, &mut plan))?;
    let RekeyPage { removals, copies, closing } = plan;
    let refused = Refused::default();
    let mut removals = removals.into_iter();
    let mut copies = copies.into_iter();
    let written = removals
        .try_for_each(|(epk, places)| {
            let lock = view.lock(target, &epk)?;
            rekeying.remove(lock, (&epk, &places), &refused)
        })
        .and_then(|()| {
            copies.try_for_each(|(epk, copies)| {
                let lock = view.lock(target, &epk)?;
                rekeying.copy(lock, copies, &refused)
            })
        });
    close(target, (closing, next), written, &refused)
}

impl<'r> Rekeying<'r> {
    fn plan<'p>(&self, entry: &'p SourceEntry, plan: &mut RekeyPage<'p>) -> Result<()> {
        let note = placement::key(self.target.number, entry.docno);
        let known = self.snapshot.get(Keyspace::Meta, &note).map_err(store_failure)?;
        let known = known.map(|bytes| CopyNote::read(&bytes)).transpose().map_err(store_failure)?;
        let wanted = match (&entry.item, &entry.record) {
            (Some(item), Some(record)) => Some((self.place_of(item)?, record)),
            _ => None,
        };
        if let Some(known) = &known {
            let stays = wanted
                .as_ref()
                .is_some_and(|((_, epk, id), _)| *epk == known.epk && *id == known.id);
            if !stays {
                let places = plan.removals.entry(known.epk.clone()).or_default();
                places.push((entry.docno, known.id.clone()));
            }
        }
        match wanted {
            Some(((key, epk, id), record)) => {
                let placed = CopyNote { lsn: entry.lsn, epk: epk.clone(), id: id.clone() };
                let note = (note, placed.write());
                let copying = Copying { entry, record, key, id, note };
                plan.copies.entry(epk).or_default().push(copying);
            }
            None if known.is_some() => plan.closing.delete(Keyspace::Meta, note),
            None => {}
        }
        Ok(())
    }

    /// Key and id that an item has in the target.
    fn place_of(&self, item: &Value) -> Result<(PartitionKey, Epk, Arc<str>)> {
        place_of(self.target, item)
    }

    /// Whether a copy shows a source item that lives, and which.
    fn shows(&self, copy: &Value, etag: ETag) -> Result<Option<u64>> {
        let Some(id) = copy.get("id").and_then(Value::as_str) else { return Ok(None) };
        let definition = self.source.key_definition();
        let epk = definition.epk(&PartitionKey::of_item(copy, definition));
        let now = self.source.core.clock.now_seconds();
        let liveness = self.source.settings().policy.liveness(now);
        let owner = self.source.locate(self.snapshot, &epk, id)?.record;
        let owner = owner.filter(|owner| !owner.is_tombstone() && owner.is_alive(liveness));
        Ok(owner.filter(|owner| owner.etag() == etag).map(|owner| owner.docno()))
    }

    /// Removes copies from places that their items have left, unless somebody else's copy is there by now.
    fn remove(
        &self,
        lock: PartitionLock,
        (epk, places): (&Epk, &[(u64, Arc<str>)]),
        refused: &Refused,
    ) -> Result<()> {
        let snapshot = self.target.core.snapshot();
        let mut left = Vec::new();
        let mut key = None;
        for (docno, id) in places {
            let Some(record) = self.target.locate(&*snapshot, epk, id)?.record else { continue };
            if record.is_tombstone() {
                continue;
            }
            let copy = parse_stored(&record.text())?;
            if self.shows(&copy, record.etag())?.is_some_and(|owner| owner != *docno) {
                continue;
            }
            key.get_or_insert_with(|| PartitionKey::of_item(&copy, self.target.key_definition()));
            left.push(id);
        }
        let Some(key) = key else { return Ok(()) };
        let mut txn = begin(self.target, lock, key)?;
        let charges = left.into_iter().map(|id| txn.stage_removal(id));
        let charge = charges.sum::<Result<RequestCharge>>()?;
        commit(txn, charge, refused);
        Ok(())
    }

    fn copy(&self, lock: PartitionLock, copies: Vec<Copying<'_>>, refused: &Refused) -> Result<()> {
        let Some(key) = copies.first().map(|copying| copying.key.clone()) else { return Ok(()) };
        let mut txn = begin(self.target, lock, key)?;
        let mut charge = RequestCharge::default();
        for copying in copies {
            charge += self.stage(&mut txn, &copying)?;
            let (key, value) = copying.note;
            txn.note(key, value);
        }
        commit(txn, charge, refused);
        Ok(())
    }

    /// Puts a copy where it belongs. What is there already goes, if it does not show its owner any more.
    fn stage(&self, txn: &mut Txn, copying: &Copying<'_>) -> Result<RequestCharge> {
        let Copying { entry, record, id, .. } = copying;
        if let Some(current) = txn.find(id)? {
            let (copy, etag) = (current.value()?, current.etag());
            if self.shows(&copy, etag)?.is_some_and(|owner| owner != entry.docno) {
                return Err(self.clash(copying, &copy, "the same id"));
            }
        }
        let options =
            WriteOptions { exclude_from_index: !record.is_indexed(), ..WriteOptions::default() };
        loop {
            let body = Body::of_copy(&record.text())?;
            let rival = txn.unique_rival(&body)?;
            let Some((rival_id, copy, etag)) = rival else {
                txn.set_stamp(record.etag(), record.ts());
                return Ok(txn.stage(body, &options)?.charge);
            };
            if self.shows(&copy, etag)?.is_some_and(|owner| owner != entry.docno) {
                return Err(self.clash(copying, &copy, "the same values of a unique key"));
            }
            txn.stage_removal(&rival_id)?;
        }
    }

    fn clash(&self, copying: &Copying<'_>, other: &Value, what: &str) -> Error {
        let source = self.source.key_definition();
        let name = |item: &Value| {
            let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
            format!("'{id}' of {}", PartitionKey::of_item(item, source).to_header())
        };
        let own = copying.entry.item.as_ref().map(name).unwrap_or_default();
        Error::Conflict(format!(
            "The items {own} and {} would have {what} in the logical partition {} of '{}'. Change or delete one of them; the re-key goes on by itself.",
            name(other),
            copying.key.to_header(),
            self.target.settings().name
        ))
    }
}

/// Key and id that an item of the source has in the target.
fn place_of(target: &Container, item: &Value) -> Result<(PartitionKey, Epk, Arc<str>)> {
    let definition = target.key_definition();
    let key = PartitionKey::of_item(item, definition);
    let Some(Value::String(id)) = item.get("id") else {
        return Err(Error::Internal("a stored item has no id".to_owned()));
    };
    definition.check_full(&key).map_err(|error| {
        Error::Conflict(format!(
            "The item '{id}' cannot have its key in '{}': {error} Change or delete it; the re-key goes on by itself.",
            target.settings().name
        ))
    })?;
    let epk = definition.epk(&key);
    Ok((key, epk, id.clone()))
}

impl CopyNote {
    /// The stored form: format, LSN, the key with its length, the id.
    fn write(&self) -> Vec<u8> {
        let mut out = vec![NOTE_FORMAT];
        out.extend_from_slice(&self.lsn.0.to_be_bytes());
        let epk = self.epk.as_bytes();
        let length = u16::try_from(epk.len()).expect("an effective key is short");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(epk);
        out.extend_from_slice(self.id.as_bytes());
        debug_assert!(
            Self::read(&out).is_ok_and(|read| read == *self),
            "a note reads back as it was written"
        );
        out
    }

    fn read(bytes: &[u8]) -> Result<Self, StoreError> {
        let corrupt =
            || StoreError::corruption("meta", "the note where a re-keyed item lies is malformed");
        let (&format, rest) = bytes.split_first().ok_or_else(corrupt)?;
        let (lsn, rest) = rest.split_first_chunk::<8>().ok_or_else(corrupt)?;
        let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(corrupt)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (epk, id) = rest.split_at_checked(length).ok_or_else(corrupt)?;
        let id = std::str::from_utf8(id).map_err(|_| corrupt())?;
        if format != NOTE_FORMAT || id.is_empty() {
            return Err(corrupt());
        }
        let lsn = Lsn(u64::from_be_bytes(*lsn));
        Ok(Self { lsn, epk: Epk::from_bytes(epk), id: id.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_back_and_nonsense_does_not() {
        let note = CopyNote { lsn: Lsn(7), epk: Epk::from_bytes(&[1; 16]), id: "ä".into() };
        let bytes = note.write();
        assert_eq!(CopyNote::read(&bytes).unwrap(), note);
        for length in 0..bytes.len() {
            assert!(CopyNote::read(&bytes[..length]).is_err(), "{length}");
        }
        assert!(CopyNote::read(&[1; 40]).is_err());
    }
}
