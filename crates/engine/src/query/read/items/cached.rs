//! Item cache: items that stand first in some order, and will again.

use super::{Found, Items};
use crate::item_cache::ItemVersion;
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
        let (container, DocumentRef { docno, lsn, .. }) = (&self.query.container, found.document);
        let version = ItemVersion { container: container.number, docno, lsn };
        let read = || self.search(found.target, &found.document);
        let record = container.core.hot.find_or_read(version, read)?;
        loads.count(record.size())?;
        Ok(record)
    }
}
