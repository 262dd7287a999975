//! Damaged data: what happens when the store finds that stored bytes are not what was written.
//!
//! Every block is checked when it is read, so a damaged one is never an answer. Whoever meets it is told
//! where it is and what to do. The physical partition it lies in takes no more writes from then on: what
//! they build on cannot be trusted. It goes on with reads, which are checked one by one, so that what is
//! whole can be read and exported; other partitions do not notice. One line in the log and a metric tell
//! of each damaged partition. A restart tries again (`docs/decisions/0016-damaged-blocks.md`).

use crate::account::Account;
use crate::container::Container;
use crate::partition::Partition;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::Epk;
use armilla_storage::StoreError;
use std::sync::Arc;

/// A failing store is this server's fault, whatever the client asked.
pub(crate) fn store_failure(error: StoreError) -> Error {
    if error.is_corruption() {
        return Error::Damaged(with_advice(format!("Stored data is damaged: {error}"), &error));
    }
    Error::Internal(format!("the store failed: {error}"))
}

fn with_advice(mut text: String, error: &StoreError) -> String {
    if let Some(advice) = error.advice() {
        text.push_str("; ");
        text.push_str(advice);
    }
    text.push('.');
    text
}

impl Container {
    /// What a client hears of a failure to read data with this key; damage is noted.
    pub(crate) fn failed_at(&self, epk: &Epk, error: StoreError) -> Error {
        self.failed_in(&self.partition_of(epk), error)
    }

    /// The same for data of a partition.
    pub(crate) fn failed_in(&self, partition: &Partition, error: StoreError) -> Error {
        if !error.is_corruption() {
            return store_failure(error);
        }
        let settings = self.settings();
        let place = format!("partition {} of container '{}'", partition.range.id, settings.name);
        if partition.note_damage(error.to_string()) {
            tracing::error!(
                database = &*settings.database,
                container = &*settings.name,
                partition = partition.range.id,
                %error,
                "stored data is damaged; the partition takes no more writes"
            );
        }
        Error::Damaged(with_advice(format!("The data of {place} is damaged: {error}"), &error))
    }

    /// Refuses writes to a partition in which damage was found.
    pub(crate) fn check_whole(&self, partition: &Partition) -> Result<()> {
        let Some(damage) = partition.damage() else { return Ok(()) };
        Err(Error::Damaged(format!(
            "Partition {} of container '{}' takes no writes, because its data is damaged: {damage}. \
             Export what can be read, or restore a backup.",
            partition.range.id,
            self.settings().name
        )))
    }
}

impl Account {
    /// Partitions in which damage was found since the start.
    pub fn damaged_partitions(&self) -> usize {
        let partitions = self.containers().into_iter().map(|container| container.partitions());
        let is_damaged = |partition: &&Arc<Partition>| partition.damage().is_some();
        partitions.map(|partitions| partitions.iter().filter(is_damaged).count()).sum()
    }
}
