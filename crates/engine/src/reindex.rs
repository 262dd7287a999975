//! A changed indexing policy: a new index is built in the background and then takes over.
//!
//! The definition counts at once; the index of before serves queries and takes writes until its
//! successor has caught up. Which of the two serves is an entry in `meta`: after a crash the old
//! index is taken up again, and the new one is begun anew.

use crate::catalog::stored;
use crate::container::Container;
use crate::generation::IndexDefinition;
use crate::generation::build::{BuildError, NewIndex};
use crate::index_files::IndexName;
use crate::keys::{self, Meta};
use crate::limits::{REINDEX_ATTEMPT_PAUSE, REINDEX_ATTEMPTS_MAX};
use crate::ranges::Range;
use armilla_storage::{Batch, Keyspace};
use std::sync::Arc;
use std::thread;

/// Notes which index serves a container whose definition changes.
pub(crate) fn note_serving(
    container: u32,
    serving: &IndexDefinition,
    current: bool,
    batch: &mut Batch,
) {
    let definition = (!current).then(|| serving.policy.definition.clone());
    let entry = stored::StoredIndex { id: serving.id, definition };
    batch.put(Keyspace::Meta, keys::meta(Meta::Index, &[container]), entry.write());
}

/// Has the index brought into line with the settings, if it is not.
pub(crate) fn request(container: &Arc<Container>) {
    if container.index_definition().serves(&container.settings().policy) {
        return;
    }
    container.set_index_progress(0);
    let task = container.clone();
    container.core.build_later(move || run(&task));
}

/// Why an index does not serve.
#[derive(Debug)]
enum ReindexFailure {
    Build(#[allow(dead_code, reason = "for the log")] BuildError),
    Switch(#[allow(dead_code, reason = "for the log")] armilla_model::Error),
}

fn run(container: &Arc<Container>) {
    for attempt in 1..=REINDEX_ATTEMPTS_MAX {
        loop {
            match attempt_once(container) {
                Ok(true) => return container.set_index_progress(100),
                // The settings changed meanwhile.
                Ok(false) => {}
                Err(ReindexFailure::Build(BuildError::Stopped)) => return,
                Err(failure) => {
                    tracing::error!(?failure, attempt, "a new index could not be built");
                    break;
                }
            }
        }
        thread::sleep(REINDEX_ATTEMPT_PAUSE);
    }
}

/// Builds the index that the settings of now want, if it does not serve yet. Says whether it serves.
fn attempt_once(container: &Arc<Container>) -> Result<bool, ReindexFailure> {
    let settings = container.settings();
    if container.index_definition().serves(&settings.policy) {
        return Ok(true);
    }
    let id = settings.generation;
    let definition = Arc::new(IndexDefinition::new(id, settings.policy.clone()));
    let sources = container.partitions();
    let ranges: Vec<Range> = sources.iter().map(|source| source.range.clone()).collect();
    let total = sources.iter().map(|source| source.document_count()).sum::<u64>().max(1);
    let go_on = |done: u64| {
        let percent = (done.min(total) * 99 / total) as u8;
        container.set_index_progress(percent);
        is_wanted(container) && definition.serves(&container.settings().policy)
    };
    let built = NewIndex::build(container, &definition, &sources, &ranges, &go_on);
    let new = match built {
        Ok(new) => new,
        Err(error) => {
            NewIndex::discard(container, &definition, &ranges);
            let replaced = matches!(error, BuildError::Stopped) && is_wanted(container);
            return if replaced { Ok(false) } else { Err(ReindexFailure::Build(error)) };
        }
    };
    let serves = switch(container, &definition, &sources, new).map_err(ReindexFailure::Switch)?;
    if !serves {
        NewIndex::discard(container, &definition, &ranges);
    }
    Ok(serves)
}

fn is_wanted(container: &Container) -> bool {
    !container.core.background.is_stopping() && container.check_alive().is_ok()
}

/// Puts the new indexes in place, unless they are out of date.
fn switch(
    container: &Arc<Container>,
    definition: &Arc<IndexDefinition>,
    sources: &Arc<Vec<Arc<crate::partition::Partition>>>,
    new: Vec<NewIndex>,
) -> armilla_model::Result<bool> {
    let _not_replaced = container.replacing();
    let same = Arc::ptr_eq(sources, &container.partitions());
    if !same || !definition.serves(&container.settings().policy) {
        return Ok(false);
    }
    let before = container.index_definition();
    NewIndex::switch(container, sources, new, |switch| {
        note_serving(container.number, definition, true, &mut switch.batch);
        let finished = std::mem::take(&mut switch.indexes);
        let (core, sources) = (container.core.clone(), sources.clone());
        Ok(move || {
            for (partition, finished) in sources.iter().zip(finished) {
                partition.serve(finished.index, finished.definition);
                core.mark_dirty(partition);
            }
        })
    })?;
    for source in sources.iter() {
        let (partition, id) = (source.range.id, before.id);
        container.core.folders.remove(IndexName { container: container.number, partition, id });
    }
    Ok(true)
}
