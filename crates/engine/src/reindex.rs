//! A changed indexing policy: the index is built anew from the stored items.
//!
//! Reads and queries go on with the old index until the new one is published. Writers of this
//! container wait meanwhile at the sequencer, so that none of their changes can fall between the
//! two; a transaction that was staged under the old policy makes its terms again when it commits.

use crate::container::Container;
use armilla_storage::Batch;

/// Rebuilds the index of every partition of a container.
pub(crate) fn run(container: &Container) {
    let partitions = container.partitions();
    let _writers_wait: Vec<_> = partitions.iter().map(|partition| partition.sequence()).collect();
    // Everything queued before is applied when this returns.
    container.core.commit_and_wait(Batch::new());
    let root = container.core.root.load_full();
    for partition in partitions.iter() {
        partition.reset_index();
    }
    if let Err(error) = container.fill_index(&*root.snapshot) {
        tracing::error!(%error, "the index could not be rebuilt");
    }
}
