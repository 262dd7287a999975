//! Taking up the index of a partition when the account opens; a damaged one is built anew from its items.

use super::derive::{Derivation, Filling};
use crate::core::Core;
use crate::feed::lineage::lineage_of;
use crate::index_files::index_failure;
use crate::keys::{self, Meta};
use crate::ranges::Range;
use armilla_index::{Files, Index};
use armilla_model::lsn::Lsn;
use armilla_storage::{Batch, Durability, Keyspace, Snapshot, StoreError};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An index that is as new as the store, and what it took.
pub(crate) struct Opened {
    pub(crate) index: Index,
    /// Entries of the logs that were applied.
    pub(crate) replayed: u64,
    /// Items that were read, where the files could not be used.
    pub(crate) scanned: u64,
    /// Why the files could not be used, where there were some.
    pub(crate) damage: Option<String>,
}

/// What opening all indexes of an account took.
#[derive(Default)]
pub(crate) struct OpenedIndexes {
    replayed: AtomicU64,
    scanned: AtomicU64,
    damage: Mutex<Vec<String>>,
}

impl OpenedIndexes {
    pub(crate) fn add(&self, container: u32, partition: u32, opened: &Opened) {
        self.replayed.fetch_add(opened.replayed, Ordering::Relaxed);
        self.scanned.fetch_add(opened.scanned, Ordering::Relaxed);
        let about = |damage| format!("index of container {container}, range {partition}: {damage}");
        self.damage.lock().extend(opened.damage.as_ref().map(about));
    }

    /// Entries of logs that were applied.
    pub(crate) fn replayed(&self) -> u64 {
        self.replayed.load(Ordering::Relaxed)
    }

    /// Items that were read because files could not be used.
    pub(crate) fn scanned(&self) -> u64 {
        self.scanned.load(Ordering::Relaxed)
    }

    /// Why files could not be used.
    pub(crate) fn damage(&self) -> Vec<String> {
        self.damage.lock().clone()
    }
}

/// Opens the index of a partition from its files, or builds it from the items.
pub(crate) fn open(
    core: &Core,
    derivation: Derivation<'_>,
    snapshot: &dyn Snapshot,
    range: &Range,
    head: Lsn,
    files: Option<Arc<dyn Files>>,
) -> Result<Opened, StoreError> {
    let Some(files) = files else { return rebuild(core, derivation, snapshot, range, head, None) };
    let found = match Index::open(core.folders.limits, files.clone()) {
        Ok(index) => {
            let usable = usable(derivation.container, snapshot, range, head, &index)?;
            match usable {
                Ok(()) => Ok(index),
                Err(Unusable::Ahead(found)) if core.durability == Durability::Synced => {
                    return Err(lost_writes(derivation.container, range, found, head));
                }
                Err(unusable) => Err(unusable.to_string(head)),
            }
        }
        Err(error) => Err(error.to_string()),
    };
    let damage = match found {
        Ok(index) if index.found_lsn().is_some() => {
            return replay(derivation, snapshot, range, head, index);
        }
        Ok(_) => None,
        Err(damage) => {
            tracing::warn!(%damage, "an index is built anew from its items");
            Some(damage)
        }
    };
    let opened = rebuild(core, derivation, snapshot, range, head, Some(files))?;
    Ok(Opened { damage, ..opened })
}

/// Files from another time than the store's cannot be brought up to date.
fn usable(
    container: u32,
    snapshot: &dyn Snapshot,
    range: &Range,
    head: Lsn,
    index: &Index,
) -> Result<Result<(), Unusable>, StoreError> {
    let Some(found) = index.found_lsn() else { return Ok(Ok(())) };
    if found > head.0 {
        return Ok(Err(Unusable::Ahead(found)));
    }
    // Only the range's own log counts. What was forgotten of its ancestors' logs before the index was
    // begun was gone from the items that it was built of, and afterwards nothing is forgotten that
    // it does not cover; after a merge the ancestors' LSNs cannot be compared with each other.
    let trimmed =
        snapshot.get(Keyspace::Meta, &keys::meta(Meta::Trimmed, &[container, range.id]))?;
    let trimmed = trimmed.and_then(|bytes| bytes[..].try_into().ok()).map_or(0, u64::from_be_bytes);
    let covered = index.covered_lsn();
    if covered < trimmed {
        return Ok(Err(Unusable::Behind { covered, trimmed }));
    }
    Ok(Ok(()))
}

/// Why files cannot be brought up to date.
enum Unusable {
    /// They know this LSN, and the log ends before it.
    Ahead(u64),
    /// What they do not cover is partly forgotten.
    Behind { covered: u64, trimmed: u64 },
}

impl Unusable {
    fn to_string(&self, head: Lsn) -> String {
        match self {
            Self::Ahead(found) => format!("the index knows LSN {found} and the log ends at {head}"),
            Self::Behind { covered, trimmed } => {
                format!("the index covers LSN {covered} and removals up to {trimmed} are forgotten")
            }
        }
    }
}

/// An index only ever hears of writes that are durable: where it knows more than the log, the store has
/// lost writes that were acknowledged. To go on without a word would make that loss final.
fn lost_writes(container: u32, range: &Range, found: u64, head: Lsn) -> StoreError {
    StoreError::corruption(
        format!("the store (container {container}, range {})", range.id),
        format!(
            "acknowledged writes are gone: the index knows LSN {found} and the log ends at {head}. \
             To go on without them, move the folder index/{container:08x} away"
        ),
    )
}

fn replay(
    derivation: Derivation<'_>,
    snapshot: &dyn Snapshot,
    range: &Range,
    head: Lsn,
    mut index: Index,
) -> Result<Opened, StoreError> {
    let covered = Lsn(index.covered_lsn());
    let mut replayed = 0;
    // Several logs come one behind the other, and removals before the rest.
    index.limit_covered(Some(covered.0));
    for log in lineage_of(range) {
        let mut filling = Filling::new(&mut index);
        let visit = &mut |change| {
            filling.apply(change);
        };
        replayed += derivation.replay(snapshot, log, covered, &range.span(), visit)?.entries;
    }
    index.advance(head.0);
    index.limit_covered(None);
    Ok(Opened { index, replayed, scanned: 0, damage: None })
}

/// Builds the index from every item of the range.
fn rebuild(
    core: &Core,
    derivation: Derivation<'_>,
    snapshot: &dyn Snapshot,
    range: &Range,
    head: Lsn,
    files: Option<Arc<dyn Files>>,
) -> Result<Opened, StoreError> {
    let on_disk = files.is_some();
    let mut index = Index::begin(core.folders.limits, files).map_err(index_failure)?;
    let mut scanned = 0;
    let mut filling = Filling::new(&mut index);
    derivation.scan(snapshot, &range.span(), &mut |change| {
        scanned = filling.apply(change);
        ControlFlow::Continue(())
    })?;
    drop(filling);
    index.advance(head.0);
    index.limit_covered(None);
    if on_disk && scanned > 0 {
        save_paths(core, derivation);
        index.checkpoint().map_err(index_failure)?;
    }
    Ok(Opened { index, replayed: 0, scanned, damage: None })
}

/// Makes the numbers of paths durable: files must not name one that could be given out again.
pub(crate) fn save_paths(core: &Core, derivation: Derivation<'_>) {
    let mut batch = Batch::new();
    let saving = derivation.paths.save(derivation.container, &mut batch);
    // Also without a number of its own: others may be queued that are not durable yet.
    core.commit_and_wait(batch);
    drop(saving);
}
