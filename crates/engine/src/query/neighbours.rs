//! Items of a small logical partition, read together.
//!
//! They lie side by side in the store, in the order of their hashes. A query that wants a good part of
//! them gets them by one pass over their blocks instead of a search for each. Whether it wants that
//! many is known only when it goes on reading, so the first few are searched for all the same.

use super::source::{Source, Target};
use crate::keys;
use crate::record::Record;
use crate::store_failure;
use armilla_model::error::Result;
use armilla_storage::{Direction, Keyspace, Snapshot};
use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};

/// Items that are searched for one by one before the others are fetched.
const SINGLE_READS: usize = 6;
/// Logical partitions with more items than this are not read whole.
const ITEMS_MAX: u64 = 512;
/// Nor those with more bytes.
const BYTES_MAX: u64 = 512 << 10;
/// One item in so many must be wanted.
const SHARE: u64 = 3;

/// The items that were read together, by ordinal.
#[derive(Default)]
pub(super) struct Neighbours {
    reads: usize,
    records: HashMap<u64, Record>,
}

impl Neighbours {
    /// Takes an item out that was read with others. Call this for every item that is wanted: it
    /// notices when reading them together is worth it.
    pub(super) fn take(&mut self, source: &Source<'_>, docno: u64) -> Result<Option<Record>> {
        self.reads += 1;
        if self.reads == SINGLE_READS
            && let [target] = source.targets.as_slice()
            && is_worth_it(source, target)
        {
            self.records = read_all(source, target, target.snapshot())?;
        }
        Ok(self.records.remove(&docno))
    }
}

fn is_worth_it(source: &Source<'_>, target: &Target) -> bool {
    let scope = source.scope_of(target);
    let bytes = scope * (target.partition.size() / target.partition.document_count().max(1));
    target.spans.len() == 1
        && scope <= ITEMS_MAX
        && bytes <= BYTES_MAX
        && source.candidates_of(target) * SHARE >= scope
}

fn read_all(
    source: &Source<'_>,
    target: &Target,
    snapshot: &dyn Snapshot,
) -> Result<HashMap<u64, Record>> {
    let mut records = HashMap::new();
    let mut damaged = None;
    for span in &target.spans {
        let definition = &source.settings.policy.partition_key;
        let (min, max) = (Bound::Included(&span.min), span.max.as_ref());
        let range = keys::items_between(source.container.number, definition, min, max);
        let visit = &mut |_: &[u8], value| match Record::new(value) {
            Ok(record) if record.is_tombstone() => ControlFlow::Continue(()),
            Ok(record) => {
                records.insert(record.docno(), record);
                ControlFlow::Continue(())
            }
            Err(error) => {
                damaged = Some(error);
                ControlFlow::Break(())
            }
        };
        snapshot.scan(Keyspace::Items, &range, Direction::Forward, visit).map_err(store_failure)?;
    }
    match damaged {
        Some(error) => Err(store_failure(error)),
        None => Ok(records),
    }
}
