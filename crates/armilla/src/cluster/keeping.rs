//! Backup, restore and verify of an account in a database, and the acceptance of a loss.

use super::StoreOptions;
use super::record::AccountRecord;
use super::slices::serve::slice_folder;
use super::visitor::Visitor;
use crate::offline::{self, refusal};
use crate::terminal::{note, say};
use armilla_engine::restore::{CutAccount, JoinedSlices};
use armilla_storage::backup::RestoreWriter;
use armilla_storage::ledger::{LedgerStore, Position, PostgresLedger};
use armilla_storage::{
    Direction, EmbeddedOptions, EmbeddedStore, KeyRange, Keyspace, Snapshot, Store, StoreError,
};
use bytes::Bytes;
use std::path::{Path, PathBuf, absolute};

/// Rows that are compared at once.
const COMPARED_ROWS: usize = 1000;

/// Whether a folder is that of a node whose account is cut into slices.
pub(crate) fn holds_slices(folder: &Path) -> bool {
    slice_folder(folder, 0).is_dir()
}

/// Where a node keeps its copy of a slice.
pub(crate) fn folder_of_slice(folder: &Path, slice: u32) -> PathBuf {
    slice_folder(folder, slice)
}

/// Writes a backup of the account as it is now. Nodes go on serving.
pub(crate) fn backup(store: &StoreOptions, to: &Path) -> Result<(), String> {
    let to = absolute(to).map_err(|error| error.to_string())?;
    let visitor = Visitor::copy(store)?;
    let snapshots: Vec<_> = visitor.stores().map(|store| store.snapshot()).collect();
    let places: Vec<_> = visitor.places().iter().map(ToString::to_string).collect();
    let at = match &snapshots[..] {
        [one] => {
            armilla_storage::backup::backup(&**one, &to).map_err(refusal)?;
            format!("the account at place {} of its journal", places.concat())
        }
        _ => {
            let joined = JoinedSlices::new(snapshots).map_err(refusal)?;
            armilla_storage::backup::backup(&joined, &to).map_err(refusal)?;
            format!("the slices of the account at places {} of their journals", places.join(", "))
        }
    };
    say(&format!("backup written to {}: {at}", to.display()));
    Ok(())
}

/// Fills an account that `armilla cluster init` has just made.
pub(crate) fn restore(store: &StoreOptions, from: &Path) -> Result<(), String> {
    let visitor = Visitor::copy(store)?;
    if visitor.places().iter().any(|place| place.0 > 0) {
        return Err("the database holds an account with data: restore into an empty database, after armilla cluster init".to_owned());
    }
    // Checked before anything is written.
    armilla_storage::backup::check(from).map_err(refusal)?;
    let record = visitor.record.clone();
    let cut = match record.slices() {
        1 => None,
        count => Some(plan_cut(from, count)?),
    };
    let unfinished = record.clone().unfinished();
    replace(&visitor.ledger, &record, &unfinished)?;
    let (ledger, _) = visitor.own("restore", |owned| {
        match (cut, owned) {
            (None, [owned]) => {
                drop(armilla_storage::backup::restore(from, owned).map_err(refusal)?)
            }
            (Some(cut), _) => restore_slices(from, cut, owned).map_err(refusal)?,
            (None, _) => return Err("the account was cut meanwhile".to_owned()),
        }
        raise_heads(owned)
    })?;
    replace(&ledger, &unfinished, &record)?;
    say(&format!("the account is restored from {}", from.display()));
    Ok(())
}

/// Clients may hold session tokens and feed positions of what is not there any more.
fn raise_heads(owned: &[LedgerStore]) -> Result<(), String> {
    let raise = |store: &LedgerStore| armilla_engine::restore::raise_heads(store).map_err(refusal);
    owned.iter().try_for_each(raise)
}

/// How a backup is cut into slices.
fn plan_cut(from: &Path, count: u32) -> Result<CutAccount, String> {
    let mut entries = Vec::new();
    let read = armilla_storage::backup::read(from, &[Keyspace::Meta], &mut |_, key, value| {
        entries.push((key.to_vec(), Bytes::copy_from_slice(value)));
        Ok(())
    });
    read.map_err(refusal)?;
    CutAccount::plan(entries, count).map_err(refusal)
}

/// Writes each entry of a backup into the slice of its key.
fn restore_slices(
    from: &Path,
    mut cut: CutAccount,
    owned: &[LedgerStore],
) -> Result<(), StoreError> {
    let meta = cut.take_meta();
    let mut writers: Vec<_> = owned.iter().map(|store| RestoreWriter::new(store)).collect();
    for (writer, entries) in writers.iter_mut().zip(meta) {
        entries.iter().try_for_each(|(key, value)| writer.put(Keyspace::Meta, key, value))?;
    }
    let others: Vec<_> =
        Keyspace::ALL.into_iter().filter(|keyspace| *keyspace != Keyspace::Meta).collect();
    armilla_storage::backup::read(from, &others, &mut |keyspace, key, value| {
        let slice = cut.slice_of(keyspace, key, value)?;
        match slice.and_then(|slice| writers.get_mut(slice as usize)) {
            Some(writer) => writer.put(keyspace, key, value),
            None => Ok(()),
        }
    })?;
    writers.into_iter().try_for_each(RestoreWriter::finish)
}

pub(super) fn replace(
    ledger: &PostgresLedger,
    before: &AccountRecord,
    after: &AccountRecord,
) -> Result<(), String> {
    let replaced = ledger.replace_settings(&before.encode(), &after.encode());
    match replaced.map_err(|error| error.to_string())? {
        true => Ok(()),
        false => Err("the settings in the database were changed by somebody else".to_owned()),
    }
}

/// Accepts that the database has lost acknowledged writes: the nodes' copies are thrown away at their next start.
pub(super) fn accept_loss(store: &StoreOptions, is_sure: bool) -> Result<(), String> {
    if !is_sure {
        return Err(
            "acknowledged writes that only the nodes' copies have will be gone for good, and every node copies the account \
             anew at its next start. Keep a copy first (armilla backup --data FOLDER; where the account is cut into slices, copy the \
             folder of a stopped node); then give --yes"
                .to_owned(),
        );
    }
    let visitor = Visitor::copy(store)?;
    let before = visitor.ledger.account().map_err(|error| error.to_string())?;
    let (ledger, record) = visitor.own("accept-loss", |owned| {
        raise_heads(owned)?;
        // A view lies in other slices than its source, which may have lost less.
        let empty =
            |store: &LedgerStore| armilla_engine::restore::empty_views(store).map_err(refusal);
        if owned.len() > 1 { owned.iter().try_for_each(empty) } else { Ok(()) }
    })?;
    let after = record.clone().with_loss_of(&before);
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| error.to_string())?;
    let replaced = ledger
        .replace_account((&before, u128::from_be_bytes(id)), (&record.encode(), &after.encode()));
    if !replaced.map_err(|error| error.to_string())? {
        return Err(
            "the settings in the database were changed by somebody else: look again".to_owned()
        );
    }
    say(
        "the loss is accepted. Start the nodes: each throws its copy away and copies the account anew",
    );
    Ok(())
}

/// Copies the account, checks all of it, and compares folders of nodes with it.
pub(crate) fn verify(store: &StoreOptions, against: &[PathBuf]) -> Result<(), String> {
    let first = Visitor::copy_slice(store, 0)?;
    let slices = first.record.slices();
    if slices == 1 {
        return verify_copy(&first, against);
    }
    for slice in 0..slices {
        say(&format!("slice {slice}"));
        let folder = |folder: &PathBuf| slice_folder(folder, slice);
        let against: Vec<_> = against.iter().map(folder).collect();
        verify_copy(&Visitor::copy_slice(store, slice)?, &against)?;
    }
    Ok(())
}

fn verify_copy(visitor: &Visitor, against: &[PathBuf]) -> Result<(), String> {
    let store = visitor.stores().next().ok_or("nothing was copied")?;
    let snapshot = store.snapshot();
    for folder in against {
        let scratch = offline::scratch()?;
        let options = EmbeddedOptions::default();
        let copy = EmbeddedStore::open_read_only(folder, scratch.path(), &options);
        let copy = copy.map_err(refusal)?.snapshot();
        compare(&*snapshot, &*copy).map_err(|reason| format!("{}: {reason}", folder.display()))?;
        say(&format!("{} is exactly the account", folder.display()));
    }
    drop(snapshot);
    offline::verify_store(store.clone(), None)?;
    for place in visitor.places() {
        say(&format!("base and journal agree up to place {place}"));
    }
    Ok(())
}

/// Byte by byte.
fn compare(truth: &dyn Snapshot, copy: &dyn Snapshot) -> Result<(), String> {
    let [expected, found] = [truth, copy].map(Position::read);
    let (expected, found) = (expected.map_err(refusal)?, found.map_err(refusal)?);
    if expected != found {
        let place = |position: Option<Position>| match position {
            Some(position) => format!("at place {}", position.place),
            None => "not complete".to_owned(),
        };
        return Err(format!(
            "the copy is {}, the database {}: stop the nodes when all have followed, then compare",
            place(found),
            place(expected)
        ));
    }
    for keyspace in Keyspace::ALL {
        compare_keyspace(truth, copy, keyspace)?;
    }
    Ok(())
}

fn compare_keyspace(
    truth: &dyn Snapshot,
    copy: &dyn Snapshot,
    keyspace: Keyspace,
) -> Result<(), String> {
    let mut range = KeyRange::all();
    loop {
        let page = |snapshot: &dyn Snapshot| {
            let page = snapshot.page(keyspace, &range, Direction::Forward, COMPARED_ROWS);
            page.map_err(refusal)
        };
        let (expected, found) = (page(truth)?, page(copy)?);
        if expected != found {
            let differs = expected.iter().zip(&found).position(|(one, other)| one != other);
            let at = differs.unwrap_or(expected.len().min(found.len()));
            note(&format!(
                "{} entries in the database, {} in the copy",
                expected.len(),
                found.len()
            ));
            return Err(format!("the copy differs in {keyspace:?}, entry {at} of a page"));
        }
        let Some((last, _)) = expected.last() else { return Ok(()) };
        range = KeyRange::all().starting_after(last.clone());
    }
}
