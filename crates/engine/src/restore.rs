//! After a restore: every log goes on far ahead of where the backup ended, and every view is gone through
//! again.
//!
//! Clients may hold session tokens and feed positions from after the backup was taken. Raising the
//! heads keeps those satisfied instead of refusing them for ever.

mod cut;
mod joined;

pub use cut::CutAccount;
pub use joined::JoinedSlices;

use crate::feed::lineage::lineage_of;
use crate::keys::{self, Meta};
use crate::limits::JANITOR_BATCH_KEYS;
use crate::ranges::Range;
use crate::views::definition::{MEMBER, SOURCE_RID};
use crate::views::state::State;
use armilla_model::lsn::Lsn;
use armilla_model::rid;
use armilla_model::value::Value;
use armilla_storage::{
    Batch, Direction, Durability, KeyRange, Keyspace, Snapshot, Store, StoreError,
};
use std::collections::{HashMap, HashSet};

/// By how much the heads are raised.
const RAISE: u64 = 1 << 32;

/// Raises the log head of every partition of every container, and lets views begin anew.
pub fn raise_heads(store: &dyn Store) -> Result<(), StoreError> {
    let snapshot = store.snapshot();
    let mut batch = Batch::new();
    let (mut heads, mut views) = (HashMap::new(), Vec::new());
    let prefix = KeyRange::prefix(&keys::meta(Meta::Container, &[]));
    for (key, value) in snapshot.page(Keyspace::Meta, &prefix, Direction::Forward, usize::MAX)? {
        let number = key.get(5..9).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
        let Some(container) = number else { continue };
        let entry = crate::catalog::stored::StoredEntry::read(&value)?;
        let stored = crate::catalog::stored::StoredContainer::read(&entry)?;
        let view = stored.definition.get(MEMBER).and_then(|view| view.get(SOURCE_RID));
        if let Some(source) = view.and_then(Value::as_str).and_then(rid::decode) {
            views.push((container, source));
        }
        let database = key.get(1..5).and_then(|bytes| bytes.try_into().ok());
        let database = database.map_or(0, u32::from_be_bytes);
        let known: &mut Vec<(u32, Lsn)> =
            heads.entry(rid::container(database, container).to_vec()).or_default();
        for range in stored.ranges {
            let head = head_of(&*snapshot, container, &range)?;
            known.push((range.id, Lsn(head)));
            let key = keys::meta(Meta::Head, &[container, range.id]);
            batch.put(Keyspace::Meta, key, (head + RAISE).to_be_bytes().to_vec());
        }
    }
    for (view, source) in views {
        if let Some(heads) = heads.get(&source) {
            let state = State::after_restore(heads.iter().copied());
            batch.put(Keyspace::Meta, keys::meta(Meta::View, &[view]), state.write());
        }
    }
    if batch.is_empty() { Ok(()) } else { store.commit(batch, Durability::Synced) }
}

/// Empties every view, so that it is built anew: where slices have lost different things, a view may show what its source has lost. Heads
/// are raised before, because logs go with the items.
///
/// # Errors
///
/// When the store cannot be read or written.
pub fn empty_views(store: &dyn Store) -> Result<(), StoreError> {
    let snapshot = store.snapshot();
    let prefix = KeyRange::prefix(&keys::meta(Meta::Container, &[]));
    let mut views = HashSet::new();
    for (key, value) in snapshot.page(Keyspace::Meta, &prefix, Direction::Forward, usize::MAX)? {
        let entry = crate::catalog::stored::StoredEntry::read(&value)?;
        let stored = crate::catalog::stored::StoredContainer::read(&entry)?;
        if stored.definition.get(MEMBER).is_some() {
            let number = key.get(5..9).and_then(|bytes| bytes.try_into().ok());
            views.extend(number.map(u32::from_be_bytes));
        }
    }
    let all = KeyRange::all();
    for view in &views {
        for keyspace in Keyspace::ALL {
            match keyspace {
                Keyspace::Meta => {
                    for kind in [Meta::ViewPlacement, Meta::ViewOrder] {
                        let notes = KeyRange::prefix(&keys::meta(kind, &[*view]));
                        remove(store, keyspace, &notes, |_| true)?;
                    }
                }
                // Begins with the second.
                Keyspace::Expiry => {
                    let is_of_view =
                        |key: &[u8]| joined::container_of(keyspace, key) == Some(*view);
                    remove(store, keyspace, &all, is_of_view)?;
                }
                _ => remove(store, keyspace, &keys::items_of(*view), |_| true)?,
            }
        }
    }
    Ok(())
}

/// Removes the entries of a range that are meant, some at a time.
fn remove(
    store: &dyn Store,
    keyspace: Keyspace,
    range: &KeyRange,
    is_meant: impl Fn(&[u8]) -> bool,
) -> Result<(), StoreError> {
    let snapshot = store.snapshot();
    let mut rest = range.clone();
    loop {
        let page = snapshot.page(keyspace, &rest, Direction::Forward, JANITOR_BATCH_KEYS)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        rest = rest.starting_after(last.clone());
        let mut batch = Batch::new();
        for (key, _) in page.into_iter().filter(|(key, _)| is_meant(key)) {
            batch.delete(keyspace, key);
        }
        if !batch.is_empty() {
            store.commit(batch, Durability::Synced)?;
        }
    }
}

/// The furthest that a range or one it came from has ever been.
fn head_of(snapshot: &dyn Snapshot, container: u32, range: &Range) -> Result<u64, StoreError> {
    let mut head = 0;
    for partition in lineage_of(range) {
        let noted =
            snapshot.get(Keyspace::Meta, &keys::meta(Meta::Head, &[container, partition]))?;
        let noted = noted.as_deref().and_then(|bytes| bytes.try_into().ok());
        head = head.max(noted.map_or(0, u64::from_be_bytes));
        for log in [Keyspace::Feed, Keyspace::Gone] {
            let log_of = keys::log_of(container, partition);
            let last = snapshot.first(log, &log_of, Direction::Backward)?;
            let lsn = last
                .and_then(|(key, _)| keys::read_log(&key).ok())
                .map_or(0, |position| position.lsn.0);
            head = head.max(lsn);
        }
    }
    Ok(head)
}
