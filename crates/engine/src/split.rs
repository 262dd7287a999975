//! Where ranges are cut and joined: plans, made of bounds and sizes alone.
//!
//! Growth by throughput cuts the key space evenly, as a new container's ranges are cut; growth by
//! size cuts where the data has its middle. A merge joins neighbours, the smallest first. Clients
//! that still name a parent are told by `Container::partition` (410).

use crate::container::Container;
use crate::keys;
use crate::partition::Partition;
use crate::ranges::{EpkSpan, Range, cut, cut_evenly, ends};
use armilla_model::partition_key::{Definition, Epk};
use armilla_storage::{Direction, Keyspace, Snapshot, StoreError};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// Neighbouring partitions, and the spans that are to take their place.
pub(crate) struct Reshape {
    /// In the order of their keys, without gaps.
    pub(crate) old: Vec<Arc<Partition>>,
    /// Cover exactly the same keys.
    pub(crate) new: Vec<EpkSpan>,
}

/// Splits that bring a container to at least so many ranges, as far as its key space can be cut.
pub(crate) fn grow(
    definition: &Definition,
    partitions: &[Arc<Partition>],
    wanted: usize,
) -> Vec<Reshape> {
    let spans: Vec<_> = partitions.iter().map(|partition| partition.range.span()).collect();
    let parts = shares(definition, &spans, wanted);
    let reshape = |(partition, parts): (&Arc<Partition>, u32)| {
        let new = cut_evenly(definition, &partition.range.span(), parts);
        (new.len() > 1).then(|| Reshape { old: vec![partition.clone()], new })
    };
    partitions.iter().zip(parts).filter_map(reshape).collect()
}

/// Into how many parts each span is cut so that there are enough and they are of like width.
fn shares(definition: &Definition, spans: &[EpkSpan], wanted: usize) -> Vec<u32> {
    let widths: Vec<_> = spans.iter().map(|span| width(definition, span) as f64).collect();
    let mut parts = vec![1u32; spans.len()];
    for _ in spans.len()..wanted {
        let part = |at: usize| widths[at] / f64::from(parts[at]);
        let widest = (0..parts.len()).max_by(|left, right| {
            // Of two that are equal the first one is cut.
            part(*left).total_cmp(&part(*right)).then(right.cmp(left))
        });
        if let Some(widest) = widest {
            parts[widest] += 1;
        }
    }
    parts
}

fn width(definition: &Definition, span: &EpkSpan) -> u128 {
    let (low, high) = ends(definition, span);
    high.saturating_sub(low)
}

/// A split at the middle of a partition's data; nothing when it is a single logical partition,
/// which cannot be split.
pub(crate) fn halve(
    container: &Container,
    snapshot: &dyn Snapshot,
    partition: &Arc<Partition>,
) -> Result<Option<Reshape>, StoreError> {
    let span = partition.range.span();
    let settings = container.settings();
    let definition = &settings.policy.partition_key;
    let min = Bound::Included(&span.min);
    let range = keys::items_between(container.number, definition, min, span.max.as_ref());
    let half = partition.size() / 2;
    let (mut bytes, mut first, mut middle) = (0u64, None::<Epk>, None);
    snapshot.scan(Keyspace::Items, &range, Direction::Forward, &mut |key, value| {
        let Ok(key) = keys::read_item(key, definition) else {
            return ControlFlow::Continue(());
        };
        let is_first = *first.get_or_insert_with(|| key.epk.clone()) == key.epk;
        if bytes >= half && !is_first {
            middle = Some(key.epk);
            return ControlFlow::Break(());
        }
        if !is_first {
            // Should the second half be one logical partition, the cut is before it.
            middle = Some(key.epk);
        }
        bytes += value.len() as u64;
        ControlFlow::Continue(())
    })?;
    let new = cut(&span, middle.into_iter());
    Ok((new.len() > 1).then(|| Reshape { old: vec![partition.clone()], new }))
}

/// The merge of the two neighbours that are smallest together.
pub(crate) fn join(partitions: &[Arc<Partition>]) -> Option<Reshape> {
    let size = |pair: &&[Arc<Partition>]| pair[0].size() + pair[1].size();
    let pair = partitions.windows(2).min_by_key(size)?;
    let span = EpkSpan { min: pair[0].range.min.clone(), max: pair[1].range.max.clone() };
    Some(Reshape { old: pair.to_vec(), new: vec![span] })
}

/// The ranges that take the place of others: fresh ids, `step` apart, and everything before them as ancestors.
pub(crate) fn children(all: &[Arc<Partition>], reshape: &Reshape, step: u32) -> Vec<Range> {
    let known = all
        .iter()
        .flat_map(|partition| partition.range.parents.iter().copied().chain([partition.range.id]));
    let mut next = known.max().map_or(0, |newest| newest + step);
    let mut parents: Vec<u32> = Vec::new();
    for old in &reshape.old {
        parents.extend(&old.range.parents);
        parents.push(old.range.id);
    }
    // Ids only grow, so their order is that of age.
    parents.sort_unstable();
    parents.dedup();
    let range = |span: &EpkSpan| {
        let id = next;
        next += step;
        Range { id, min: span.min.clone(), max: span.max.clone(), parents: parents.clone() }
    };
    reshape.new.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::IndexDefinition;
    use crate::partition::Sequencer;
    use crate::ranges::initial;
    use armilla_index::{Index, Limits};
    use armilla_model::lsn::Lsn;
    use armilla_model::partition_key::Hashing;
    use armilla_model::path::Path;
    use armilla_model::policy::ContainerPolicy;

    fn definition(hashing: Hashing) -> Definition {
        Definition { paths: vec![Path::parse("/pk").unwrap()], hashing }
    }

    fn partition(range: Range) -> Partition {
        let text = br#"{"partitionKey":{"paths":["/pk"]}}"#;
        let policy = ContainerPolicy::parse(&armilla_model::json::parse(text).unwrap()).unwrap();
        let definition = Arc::new(IndexDefinition::new(0, policy));
        let index = Index::in_memory(Limits::default());
        Partition::new(range, Sequencer::at(Lsn(0)), index, definition)
    }

    fn partitions(ranges: Vec<Range>) -> Vec<Arc<Partition>> {
        ranges.into_iter().map(|range| Arc::new(partition(range))).collect()
    }

    #[test]
    fn a_range_is_cut_where_a_new_container_would_be() {
        for hashing in [Hashing::V1, Hashing::V2, Hashing::MultiHash] {
            let definition = definition(hashing);
            for count in [2, 3, 5, 8] {
                let one = partitions(initial(&definition, 1));
                let grown = grow(&definition, &one, count as usize);
                let new: Vec<_> = grown[0].new.iter().map(|span| span.min.to_string()).collect();
                let fresh = initial(&definition, count);
                let fresh: Vec<_> = fresh.iter().map(|range| range.min.to_string()).collect();
                assert_eq!(new, fresh, "{hashing:?} {count}");
            }
        }
    }

    #[test]
    fn growth_cuts_the_widest_and_covers_the_same_keys() {
        for hashing in [Hashing::V1, Hashing::V2] {
            let definition = definition(hashing);
            let three = partitions(initial(&definition, 3));
            let grown = grow(&definition, &three, 5);
            assert_eq!(grown.len(), 2);
            for reshape in &grown {
                let (old, new) = (reshape.old[0].range.span(), &reshape.new);
                assert_eq!((&new[0].min, &new[1].max), (&old.min, &old.max));
                assert_eq!(new[0].max.as_ref(), Some(&new[1].min));
            }
        }
    }

    #[test]
    fn ids_are_never_used_again_and_ancestors_are_all_named() {
        let definition = definition(Hashing::V2);
        let mut all = partitions(initial(&definition, 1));
        for (wanted, ids) in [(2, vec![1, 2]), (3, vec![2, 3, 4])] {
            let reshape = grow(&definition, &all, wanted).remove(0);
            let new = children(&all, &reshape, 1);
            let mut ranges: Vec<_> = all
                .iter()
                .filter(|old| !reshape.old.iter().any(|gone| Arc::ptr_eq(gone, old)))
                .map(|old| old.range.clone())
                .collect();
            ranges.extend(new);
            ranges.sort_by(|left, right| left.min.cmp(&right.min));
            all = partitions(ranges);
            let mut found: Vec<_> = all.iter().map(|partition| partition.range.id).collect();
            found.sort_unstable();
            assert_eq!(found, ids);
        }
        assert_eq!(all[0].range.parents, [0, 1]);
        let merge = join(&all[..2]).unwrap();
        let merged = children(&all, &merge, 1);
        assert_eq!((merged[0].id, &merged[0].parents[..]), (5, &[0, 1, 3, 4][..]));
    }
}
