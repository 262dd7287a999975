//! Item cache: items that stand first in some order, and will again, and items that were searched for before.

use super::{Found, Items};
use crate::item_cache::{ItemVersion, Keeping};
use crate::query::read::Loads;
use crate::record::Record;
use armilla_index::DocumentRef;
use armilla_model::error::Result;

impl Items<'_> {
    /// Reads such an item.
    pub(in crate::query) fn hot_record(
        &self,
        found: &Found<'_>,
        loads: &mut Loads,
    ) -> Result<Record> {
        if found.record.is_some() || self.plan.overlay.is_some() {
            return self.record(found, loads);
        }
        loads.enter(found.target);
        let record = self.kept_or_searched(found.target, &found.document, Keeping::AtOnce)?;
        loads.count(record.size())?;
        Ok(record)
    }

    /// A document's item as it was committed: kept from an earlier query, or searched for in the store.
    pub(super) fn kept_or_searched(
        &self,
        target: usize,
        document: &DocumentRef<'_>,
        keeping: Keeping,
    ) -> Result<Record> {
        let (container, DocumentRef { docno, lsn, .. }) = (&self.query.container, *document);
        let version = ItemVersion { container: container.number, docno, lsn };
        let search = || self.search(target, document);
        container.core.hot.find_or_read(version, keeping, search)
    }
}
