//! Merges of physical partitions, and what is told of them while they are under way.
//!
//! A merge is asked for, never begun by the server itself. It joins neighbours one pair after another, each as a split does it
//! ([`partitions`](super::partitions)), so requests go on and what was joined stays joined when a later pair fails.

use super::Account;
use crate::catalog::Database;
use crate::container::Container;
use crate::partition::PartitionMerge;
use crate::split::{self, Reshape};
use armilla_model::error::{Error, Result};
use std::sync::Arc;

/// A merge that was promised and is not done.
pub struct PromisedMerge {
    account: Arc<Account>,
    container: Arc<Container>,
    merge: Arc<PartitionMerge>,
}

impl PromisedMerge {
    /// Does it. How it went is told by [`Container::merge`].
    pub fn run(self) {
        let joined = self.account.join_partitions(&self.container);
        self.merge.finish(joined.map_err(|error| error.message().to_owned()));
    }
}

impl Drop for PromisedMerge {
    fn drop(&mut self) {
        // Nobody shall wait for one that never ran; of one that did, the first word counts.
        self.merge.finish(Err("It was given up.".to_owned()));
    }
}

impl Account {
    /// Promises to merge neighbours until a container has no more partitions than its throughput and its data need. From now on
    /// [`Container::merge`] tells of it. Nothing when a merge is under way.
    ///
    /// # Errors
    ///
    /// When there is no such container.
    pub fn promise_merge(
        self: &Arc<Self>,
        database: &str,
        container: &str,
    ) -> Result<Option<PromisedMerge>> {
        let container = self.container(database, container).map_err(|_| Error::not_found())?;
        let database = self.database_of(&container)?;
        let wanted = self.wanted_partitions(&database, &container);
        let from = container.partitions().len();
        let merge = Arc::new(PartitionMerge::new(from, wanted));
        let last = container.merge.load();
        if last.as_ref().is_some_and(|last| last.end().is_none()) {
            return Ok(None);
        }
        let found = container.merge.compare_and_swap(&last, Some(merge.clone()));
        let is_first = found.as_ref().map(Arc::as_ptr) == last.as_ref().map(Arc::as_ptr);
        drop((found, last));
        Ok(is_first.then(|| PromisedMerge { account: self.clone(), container, merge }))
    }

    /// Merges neighbours until a container has no more partitions than its throughput and its data
    /// need. Returns how many it has then.
    pub fn merge_partitions(&self, database: &str, container: &str) -> Result<usize> {
        let container = self.container(database, container).map_err(|_| Error::not_found())?;
        self.join_partitions(&container)
    }

    fn join_partitions(&self, container: &Arc<Container>) -> Result<usize> {
        let database = self.database_of(container)?;
        let _alone = container.reshaping();
        loop {
            let partitions = container.partitions();
            let wanted = self.wanted_partitions(&database, container);
            let fits = |reshape: &Reshape| {
                let size: u64 = reshape.old.iter().map(|old| old.size()).sum();
                size <= self.options.partition_size
            };
            match split::join(&partitions).filter(fits) {
                Some(reshape) if partitions.len() > wanted => {
                    let old = reshape.old.clone();
                    old.iter().for_each(|partition| partition.announce_merge(true));
                    let merged = self.repartition(container, reshape);
                    old.iter().for_each(|partition| partition.announce_merge(false));
                    merged?;
                }
                _ => return Ok(partitions.len()),
            }
        }
    }

    fn database_of(&self, container: &Container) -> Result<Arc<Database>> {
        self.database(&container.settings().database)
    }
}
