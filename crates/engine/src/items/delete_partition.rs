//! Delete by partition key: every item of a logical partition, in one transaction.

use crate::listing::index_range;
use crate::ranges::EpkSpan;
use crate::txn::{Txn, parse_stored};
use armilla_index::Direction;
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::Epk;
use armilla_model::value::Value;

impl Txn {
    /// Stages the removal of everything in this logical partition. Readers see all of it or none.
    /// What the removals cost.
    pub fn delete_partition(&mut self) -> Result<RequestCharge> {
        self.check_writable()?;
        let container = self.container().clone();
        let partition = container.partition_of(self.epk());
        let (root, published) = container.core.consistent_view(&partition);
        let range = index_range(&EpkSpan::of_prefix(self.epk()));
        let mut ids = Vec::new();
        for located in published.view.documents(&range, None, Direction::Ascending) {
            let document = located.document;
            let epk = Epk::from_bytes(document.epk);
            if epk != *self.epk() {
                continue;
            }
            let found =
                container.find_by_docno(&*root.snapshot, &epk, document.hash, document.docno)?;
            let record = found.ok_or_else(|| {
                Error::Internal("the index names an item that is not there".to_owned())
            })?;
            let value = parse_stored(&record.text())?;
            ids.extend(value.get("id").and_then(Value::as_str).map(str::to_owned));
        }
        ids.iter().map(|id| self.stage_removal(id)).sum()
    }
}
