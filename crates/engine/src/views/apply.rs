//! A page of source changes written into a view.
//!
//! ```text
//! copies, with their notes ─► older copies of moved items ─► final notes and position
//! one transaction per key     one transaction per key        one batch
//! ```
//!
//! All of it goes into the committer's queue in this order without waiting between, so that a crash keeps
//! a beginning of it, and whatever is missing is found out from the notes when the page is read again.

use super::ContainerView;
use super::cap::CappedPage;
use super::elsewhere::Lookup;
use super::page::{SourceEntry, SourcePage};
use super::placement::{self, Placement};
use super::project;
use super::state::State;
use crate::address::ItemAddress;
use crate::container::Container;
use crate::feed_entry::Origin;
use crate::items::WriteOptions;
use crate::items::body::Body;
use crate::keys::{self, Meta};
use crate::locks::PartitionLock;
use crate::store_failure;
use crate::txn::{Txn, parse_stored};
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::{Epk, PartitionKey};
use armilla_model::rid;
use armilla_model::value::Value;
use armilla_storage::{Batch, Keyspace, Snapshot};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a page does to a view.
#[derive(Default)]
pub(super) struct PagePlan {
    /// Committed before everything else.
    pub(super) opening: Batch,
    pub(super) copies: BTreeMap<Epk, Vec<Copied>>,
    pub(super) removals: BTreeMap<Epk, Vec<String>>,
    pub(super) closing: Batch,
}

/// A copy of a source item.
pub(super) struct Copied {
    pub(super) key: PartitionKey,
    pub(super) item: Value,
    /// What is committed with it.
    pub(super) note: Option<(Vec<u8>, Vec<u8>)>,
}

/// Writes a page into a view and moves the view's position behind it.
pub(super) fn apply(
    (source, target): (&Container, &Arc<Container>),
    view: &ContainerView,
    page: &SourcePage,
    next: &State,
    lookup: &Lookup<'_>,
) -> Result<()> {
    let snapshot = target.core.snapshot();
    let mut plan = PagePlan::default();
    if let Some(cap) = &view.definition.cap {
        let mut capped = CappedPage::new((source, target), (view, cap), &*snapshot, lookup);
        capped.take_up()?;
        page.entries.iter().try_for_each(|entry| capped.add(entry, &mut plan))?;
        capped.close(&mut plan)?;
    } else {
        let mut entries = page.entries.iter();
        entries.try_for_each(|entry| plan.add((source, target), view, &*snapshot, entry))?;
    }
    let PagePlan { opening, copies, removals, closing } = plan;
    if !opening.is_empty() {
        target.core.commit_later(opening);
    }
    let refused = Refused::default();
    let mut copies = copies.into_iter();
    let mut removals = removals.into_iter();
    let written = copies
        .try_for_each(|(epk, copies)| {
            let lock = view.lock(target, &epk)?;
            copy(target, lock, copies, &refused)
        })
        .and_then(|()| {
            removals.try_for_each(|(epk, ids)| {
                let lock = view.lock(target, &epk)?;
                remove(target, lock, (&epk, &ids), &refused)
            })
        });
    close(target, (closing, next), written, &refused)
}

/// What went wrong in a transaction of a page.
pub(super) type Refused = Arc<Mutex<Option<Error>>>;

/// Ends a page whose transactions are queued: the position moves behind all of them with the last batch, or not at all.
pub(super) fn close(
    target: &Container,
    (mut closing, next): (Batch, &State),
    written: Result<()>,
    refused: &Refused,
) -> Result<()> {
    closing.put(Keyspace::Meta, keys::meta(Meta::View, &[target.number]), next.write());
    // A transaction is refused before it is queued or not at all, so this is known by now. Even then the
    // queue is waited for: the next page must see the notes of this one.
    let refused = written.err().or_else(|| refused.lock().take());
    let is_void = refused.is_some() || target.check_alive().is_err();
    let closing = if is_void { Batch::new() } else { closing };
    let committed = target.core.commit_and_wait(closing);
    match refused {
        Some(error) => Err(error),
        None if committed => Ok(()),
        None => Err(Error::Internal("the server is stopping".to_owned())),
    }
}

impl PagePlan {
    fn add(
        &mut self,
        (source, target): (&Container, &Container),
        view: &ContainerView,
        snapshot: &dyn Snapshot,
        entry: &SourceEntry,
    ) -> Result<()> {
        let rid = rid::encode(&rid::document(source.rid, entry.docno));
        let id = project::id_of(&rid);
        let known = placement::find(snapshot, target.number, entry.docno).map_err(store_failure)?;
        let wanted = entry.item.as_ref().and_then(|item| wanted(target, view, id, item));
        let note = placement::key(target.number, entry.docno);
        let is_done = |known: &Placement| known.lsn >= entry.lsn && known.leaving.is_empty();
        match (known, wanted) {
            (None, None) => {}
            (Some(known), Some(_)) if is_done(&known) => {}
            (known, Some((key, epk, item))) => {
                let places = known.iter().flat_map(Placement::places);
                let leaving: Vec<Epk> = places.filter(|place| **place != epk).cloned().collect();
                let mut placed = Placement { lsn: entry.lsn, epk: epk.clone(), leaving };
                let copied = Copied { key, item, note: Some((note.clone(), placed.write())) };
                self.copies.entry(epk).or_default().push(copied);
                if !placed.leaving.is_empty() {
                    for place in std::mem::take(&mut placed.leaving) {
                        self.removals.entry(place).or_default().push(id.to_owned());
                    }
                    self.closing.put(Keyspace::Meta, note, placed.write());
                }
            }
            (Some(known), None) => {
                for place in known.places() {
                    self.removals.entry(place.clone()).or_default().push(id.to_owned());
                }
                self.closing.delete(Keyspace::Meta, note);
            }
        }
        Ok(())
    }
}

/// The item that the view shall have here, with its key. An item whose key is too long to be one is left out:
/// nobody could write it to any container with this key. One whose key lies in another slice is that slice's.
pub(super) fn wanted(
    target: &Container,
    view: &ContainerView,
    id: &str,
    source: &Value,
) -> Option<(PartitionKey, Epk, Value)> {
    let item = view.definition.project(id, source)?;
    let definition = target.key_definition();
    let key = PartitionKey::of_item(&item, definition);
    definition.check_full(&key).ok()?;
    let epk = definition.epk(&key);
    target.check_slice(&epk).ok()?;
    Some((key, epk, item))
}

fn copy(
    target: &Arc<Container>,
    lock: PartitionLock,
    copies: Vec<Copied>,
    refused: &Refused,
) -> Result<()> {
    let Some(key) = copies.first().map(|copied| copied.key.clone()) else { return Ok(()) };
    let mut txn = begin(target, lock, key)?;
    let mut charge = RequestCharge::default();
    for Copied { item, note, .. } in copies {
        let body = Body::of_view(&item)?;
        charge += txn.stage(body, &WriteOptions::default())?.charge;
        if let Some((key, value)) = note {
            txn.note(key, value);
        }
    }
    commit(txn, charge, refused);
    Ok(())
}

fn remove(
    target: &Arc<Container>,
    lock: PartitionLock,
    (epk, ids): (&Epk, &[String]),
    refused: &Refused,
) -> Result<()> {
    let snapshot = target.core.snapshot();
    let mut found = Vec::new();
    for id in ids {
        found.extend(target.locate(&*snapshot, epk, id)?.record.map(|record| (id, record)));
    }
    // A removal that was done before the server stopped is not done again.
    let Some((_, record)) = found.first() else { return Ok(()) };
    let key = PartitionKey::of_item(&parse_stored(&record.text())?, target.key_definition());
    let mut txn = begin(target, lock, key)?;
    let charges = found.iter().map(|(id, _)| txn.stage_removal(id));
    let charge = charges.sum::<Result<RequestCharge>>()?;
    commit(txn, charge, refused);
    Ok(())
}

pub(super) fn begin(
    target: &Arc<Container>,
    lock: PartitionLock,
    key: PartitionKey,
) -> Result<Txn> {
    let mut txn = Txn::at(ItemAddress::of(target, key)?, lock)?;
    txn.set_origin(Origin { number: target.number, depth: 0 });
    Ok(txn)
}

pub(super) fn commit(txn: Txn, charge: RequestCharge, refused: &Refused) {
    let (container, refused) = (txn.container().clone(), refused.clone());
    let partition = container.partition_of(txn.epk());
    txn.commit(move |outcome| {
        if let Err(error) = outcome {
            refused.lock().get_or_insert(error);
        }
    });
    container.charge_background(&partition, charge);
}
