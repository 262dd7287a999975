//! MIN and MAX from the ends of an index: the first value from one end that a matching item has.

use super::context::PageRun;
use super::group::GroupTable;
use super::ordered_scan::Groups;
use super::work::Work;
use crate::query::plan::OrderIndex;
use armilla_index::ValueRange;
use armilla_model::error::Result;
use armilla_model::ordered::tag;
use armilla_model::value::{Type, Value};

/// Finds the extremes at these ends of indexes, one per aggregate; false when only the items know one.
pub(super) fn gather(
    run: &PageRun<'_>,
    ends: &[OrderIndex],
    groups: &mut GroupTable,
    work: &mut Work,
) -> Result<bool> {
    let loads = &mut work.loads;
    let mut of_end = |end| -> Option<Vec<Value>> {
        let of_range = |range| {
            loads.enter(range);
            extreme(run, end, range)
        };
        let extremes = (0..run.plan.view.ranges.len()).map(of_range);
        Some(extremes.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
    };
    let found: Option<Vec<Vec<Value>>> = ends.iter().map(&mut of_end).collect();
    let (Some(found), Some(aggregation)) = (found, &run.compiled().aggregation) else {
        return Ok(false);
    };
    if let Some(group) = groups.group(&[], aggregation, work)? {
        for (accumulator, values) in group.accumulators.iter_mut().zip(found) {
            values.iter().for_each(|value| accumulator.add(value));
        }
    }
    Ok(true)
}

/// The extreme of one range; the outer option is nothing when only the items know.
fn extreme(run: &PageRun<'_>, index: &OrderIndex, range: usize) -> Option<Option<Value>> {
    let marker = [tag(Type::Array)];
    let mut arrays = Groups::new(&run.items, index, range, &ValueRange::at_least(marker), 1);
    if !arrays.is_exact() {
        return None;
    }
    while let Some(mut group) = arrays.next_group(&|_, _, _| false) {
        if group.pop().is_some() {
            // An array or object makes the result undefined.
            return arrays.is_exact().then(|| Some(Value::array(Vec::new())));
        }
    }
    let mut scalars = Groups::new(&run.items, index, range, &ValueRange::below(marker), 1);
    while let Some(mut group) = scalars.next_group(&|_, _, _| false) {
        if group.pop().is_some() {
            if group.ambiguous || !scalars.is_exact() {
                return None;
            }
            return scalars.known_value(&group).map(Some);
        }
    }
    Some(None)
}
