//! Building new indexes while the old ones serve, and the switch.

use super::IndexDefinition;
use super::derive::{Derivation, Filling};
use super::open::save_paths;
use crate::container::{Container, RemovalsKept};
use crate::index_files::{IndexName, index_failure};
use crate::limits::{BUILD_LAST_ROUND_ENTRIES, BUILD_PROGRESS_EVERY, BUILD_ROUNDS_MAX};
use crate::partition::{Partition, Sequencer};
use crate::ranges::Range;
use crate::ranked::RankedGuard;
use crate::store_failure;
use armilla_index::Index;
use armilla_model::lsn::Lsn;
use armilla_storage::{Batch, Snapshot, StoreError};
use std::ops::ControlFlow;
use std::sync::Arc;

/// An index in the making, for one range of keys.
pub(crate) struct NewIndex {
    /// The range it is for: that of a partition, or of a child to be.
    pub(crate) range: Range,
    definition: Arc<IndexDefinition>,
    index: Index,
    /// How far each log was taken up.
    logs: Vec<(u32, Lsn)>,
    _removals: RemovalsKept,
}

/// Why indexes were not built.
#[derive(Debug)]
pub(crate) enum BuildError {
    /// Whoever wanted them does not any more.
    Stopped,
    /// The store or the disk failed.
    Store(StoreError),
}

impl From<StoreError> for BuildError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Is asked now and then while building, with the number of items done; says whether to go on.
pub(crate) type GoOn<'a> = &'a dyn Fn(u64) -> bool;

/// What holds while the writers wait.
pub(crate) struct Switch<'s> {
    /// The sequencers of the sources, in their order: heads, seconds, reserved ordinals.
    pub(crate) sequencers: Vec<RankedGuard<'s, Sequencer>>,
    /// The finished indexes, in the order in which they were given.
    pub(crate) indexes: Vec<Finished>,
    /// What is committed with the switch.
    pub(crate) batch: Batch,
}

/// An index that is ready to serve.
pub(crate) struct Finished {
    /// The range it is for.
    pub(crate) range: Range,
    /// What it was built for.
    pub(crate) definition: Arc<IndexDefinition>,
    /// The index.
    pub(crate) index: Index,
    _removals: RemovalsKept,
}

impl Finished {
    /// A new partition that this index serves.
    pub(crate) fn into_partition(self, sequencer: Sequencer) -> Partition {
        Partition::new(self.range, sequencer, self.index, self.definition)
    }
}

impl NewIndex {
    /// Builds indexes for some ranges out of what the sources hold now, and catches up until little
    /// is missing. The ranges lie inside the sources'. Takes long; nobody waits for it.
    pub(crate) fn build(
        container: &Arc<Container>,
        definition: &Arc<IndexDefinition>,
        sources: &[Arc<Partition>],
        ranges: &[Range],
        go_on: GoOn<'_>,
    ) -> Result<Vec<Self>, BuildError> {
        let mut done = 0;
        let mut new = Vec::with_capacity(ranges.len());
        for range in ranges {
            new.push(Self::start(container, definition, sources, range, &mut done, go_on)?);
        }
        for _ in 0..BUILD_ROUNDS_MAX {
            if !go_on(done) {
                return Err(BuildError::Stopped);
            }
            let snapshot = container.core.snapshot();
            let mut entries = 0;
            for index in &mut new {
                entries += index.catch_up(container, &*snapshot)?;
            }
            if entries < BUILD_LAST_ROUND_ENTRIES {
                break;
            }
        }
        Ok(new)
    }

    fn start(
        container: &Arc<Container>,
        definition: &Arc<IndexDefinition>,
        sources: &[Arc<Partition>],
        range: &Range,
        done: &mut u64,
        go_on: GoOn<'_>,
    ) -> Result<Self, BuildError> {
        let removals = container.keep_removals();
        let derivation = derivation(container, definition);
        let name =
            IndexName { container: container.number, partition: range.id, id: definition.id };
        let files = container.core.folders.files(name);
        let on_disk = files.is_some();
        let mut index =
            Index::begin(container.core.folders.limits, files).map_err(index_failure)?;
        let snapshot = container.core.snapshot();
        let mut logs = Vec::with_capacity(sources.len());
        let concerned = |source: &&Arc<Partition>| source.range.overlap(&range.span()).is_some();
        for source in sources.iter().filter(concerned) {
            logs.push((source.range.id, derivation.head(&*snapshot, source.range.id)?));
        }
        let mut stopped = false;
        let before = *done;
        let mut filling = Filling::new(&mut index);
        derivation.scan(&*snapshot, &range.span(), &mut |change| {
            *done = before + filling.apply(change);
            stopped = done.is_multiple_of(BUILD_PROGRESS_EVERY) && !go_on(*done);
            if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        drop(filling);
        if stopped {
            return Err(BuildError::Stopped);
        }
        let covered = logs.iter().map(|(_, position)| position.0).min().unwrap_or(0);
        index.limit_covered(Some(covered));
        if on_disk {
            save_paths(&container.core, derivation);
            index.checkpoint().map_err(index_failure)?;
        }
        let (range, definition) = (range.clone(), definition.clone());
        Ok(Self { range, definition, index, logs, _removals: removals })
    }

    /// Applies what the logs say since the last time; returns how many entries that were.
    fn catch_up(
        &mut self,
        container: &Container,
        snapshot: &dyn Snapshot,
    ) -> Result<u64, StoreError> {
        let derivation = derivation(container, &self.definition);
        let span = self.range.span();
        let mut entries = 0;
        for (log, position) in &mut self.logs {
            let mut filling = Filling::new(&mut self.index);
            let replayed = derivation.replay(snapshot, *log, *position, &span, &mut |change| {
                filling.apply(change);
            })?;
            *position = replayed.last;
            entries += replayed.entries;
        }
        Ok(entries)
    }

    /// Makes the writers of the sources wait, takes up what is still missing, and puts the indexes
    /// in place: `act` sees the sequencers and the finished indexes, adds to the batch what has to be
    /// durable with the switch, and returns what the committer's thread does before it publishes.
    pub(crate) fn switch<A>(
        container: &Arc<Container>,
        sources: &[Arc<Partition>],
        mut new: Vec<Self>,
        act: impl FnOnce(&mut Switch<'_>) -> armilla_model::Result<A>,
    ) -> armilla_model::Result<()>
    where
        A: FnOnce() + Send + 'static,
    {
        let sequencers: Vec<_> = sources.iter().map(|partition| partition.sequence()).collect();
        // Everything queued before is applied when this returns.
        container.core.commit_and_wait(Batch::new());
        let snapshot = container.core.snapshot();
        for index in &mut new {
            index.catch_up(container, &*snapshot).map_err(store_failure)?;
        }
        let heads: Vec<_> = sources
            .iter()
            .zip(&sequencers)
            .map(|(source, sequencer)| (source.range.id, sequencer.last))
            .collect();
        let indexes = new.into_iter().map(|new| new.finish(&heads)).collect();
        let mut switch = Switch { sequencers, indexes, batch: Batch::new() };
        let act = act(&mut switch)?;
        let Switch { sequencers, mut batch, .. } = switch;
        let saving = container.paths.save(container.number, &mut batch);
        container.core.commit_and_apply(batch, act);
        drop(saving);
        drop(sequencers);
        Ok(())
    }

    /// All of the logs are in; what comes from now on is newer and comes in order. Only the heads of
    /// the logs that it came from count: another log may be far ahead of them.
    fn finish(self, heads: &[(u32, Lsn)]) -> Finished {
        let Self { range, definition, mut index, logs, _removals } = self;
        let own = heads.iter().filter(|(log, _)| logs.iter().any(|(known, _)| known == log));
        index.advance(own.map(|(_, head)| head.0).max().unwrap_or(0));
        index.limit_covered(None);
        Finished { range, definition, index, _removals }
    }

    /// Removes what was built of an index that will not serve.
    pub(crate) fn discard(container: &Container, definition: &IndexDefinition, ranges: &[Range]) {
        for range in ranges {
            let (container_number, partition, id) = (container.number, range.id, definition.id);
            let name = IndexName { container: container_number, partition, id };
            container.core.folders.remove(name);
        }
    }
}

fn derivation<'a>(container: &'a Container, definition: &'a IndexDefinition) -> Derivation<'a> {
    let (container, policy, paths) = (container.number, &definition.policy, &container.paths);
    Derivation { container, policy, paths }
}
