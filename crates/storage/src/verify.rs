//! Walks every key, so that damage is found before it is needed.
//!
//! Reading an entry makes the engine check the block it lies in, so a walk over everything is a
//! check of everything. Beside what the engine notices itself, keys must come in strictly rising
//! order, and a read by key must find what the walk saw. What the bytes *mean* is checked by the
//! engine above.

use std::ops::ControlFlow;

use crate::{Direction, KeyRange, Keyspace, Snapshot, StoreError};

/// Every so many entries one is read by its key as well.
const POINT_READ_EVERY: u64 = 64;

/// What the walk found in one keyspace.
#[derive(Clone, Debug)]
pub struct KeyspaceReport {
    /// The keyspace.
    pub keyspace: Keyspace,
    /// Entries that were read.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// What ended the walk early, if anything did.
    pub damage: Option<StoreError>,
}

/// Walks every keyspace, also after one of them turned out to be damaged.
pub fn verify(snapshot: &dyn Snapshot) -> Vec<KeyspaceReport> {
    Keyspace::ALL.into_iter().map(|keyspace| verify_keyspace(snapshot, keyspace)).collect()
}

/// The first damage in a report.
///
/// # Errors
///
/// That damage.
pub fn first_damage(reports: &[KeyspaceReport]) -> Result<(), StoreError> {
    let damage = reports.iter().find_map(|report| report.damage.clone());
    damage.map_or(Ok(()), Err)
}

fn verify_keyspace(snapshot: &dyn Snapshot, keyspace: Keyspace) -> KeyspaceReport {
    let mut report = KeyspaceReport { keyspace, entries: 0, bytes: 0, damage: None };
    let mut last: Vec<u8> = Vec::new();
    let mut wrong = None;
    let walked =
        snapshot.scan(keyspace, &KeyRange::all(), Direction::Forward, &mut |key, value| {
            if key <= last.as_slice() {
                wrong = Some(out_of_order(keyspace, key));
            } else if report.entries.is_multiple_of(POINT_READ_EVERY) {
                wrong = match snapshot.get(keyspace, key) {
                    Ok(found) if found.as_ref() == Some(&value) => None,
                    Ok(_) => Some(not_found(keyspace, key)),
                    Err(error) => Some(error),
                };
            }
            last.clear();
            last.extend_from_slice(key);
            report.entries += 1;
            report.bytes += (key.len() + value.len()) as u64;
            if wrong.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    report.damage = walked.err().or(wrong);
    report
}

fn out_of_order(keyspace: Keyspace, key: &[u8]) -> StoreError {
    StoreError::corruption(keyspace.name(), format!("key {} is out of order", hex(key)))
}

fn not_found(keyspace: Keyspace, key: &[u8]) -> StoreError {
    let reason = format!("key {} reads differently by key and in order", hex(key));
    StoreError::corruption(keyspace.name(), reason)
}

fn hex(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
