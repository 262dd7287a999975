//! Items that stand first in some order, and will again.

use crate::hot::Version;
use crate::query::exec::context::Work;
use crate::query::read::items::{Found, Source};
use crate::record::Record;
use armilla_index::DocumentRef;
use armilla_model::error::Result;

impl Source<'_> {
    /// Reads such an item.
    pub(in crate::query) fn hot_record(
        &self,
        found: &Found<'_>,
        work: &mut Work,
    ) -> Result<Record> {
        if found.record.is_some() || self.overlay.is_some() {
            return self.record(found, work);
        }
        let DocumentRef { docno, lsn, .. } = found.document;
        let version = Version { container: self.container.number, docno, lsn };
        let read = || self.search(found.target, &found.document);
        let record = self.container.core.hot.find_or_read(version, read)?;
        work.loaded(record.size())?;
        Ok(record)
    }
}
