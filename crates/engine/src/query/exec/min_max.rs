//! MIN and MAX of indexed paths: the first value from one end that a matching item has.

use crate::query::Run;
use crate::query::exec::context::Work;
use crate::query::exec::group::Kept;
use crate::query::exec::ordered_scan::groups::Groups;
use crate::query::find::path_number;
use crate::query::plan::order_index::OrderIndex;
use crate::query::view::Target;
use armilla_index::ValueRange;
use armilla_model::error::Result;
use armilla_model::ordered::tag;
use armilla_model::value::{Type, Value};
use armilla_sql::access::PathStep;
use armilla_sql::aggregate::AggregateKind;
use armilla_sql::compiled::{Compiled, Expr, Order, Step};

/// Finds the extremes that a query asks for, if it asks for nothing else and the index knows them.
pub(in crate::query) fn gather(run: &Run<'_>, groups: &mut Kept, work: &mut Work) -> Result<bool> {
    let Some(found) = extremes(run) else { return Ok(false) };
    let Some(aggregation) = &run.plan().aggregation else { return Ok(false) };
    if let Some(group) = groups.group(&[], aggregation, work)? {
        for (accumulator, values) in group.accumulators.iter_mut().zip(found) {
            values.iter().for_each(|value| accumulator.add(value));
        }
    }
    Ok(true)
}

/// For each aggregate the extremes of the targets.
fn extremes(run: &Run<'_>) -> Option<Vec<Vec<Value>>> {
    let source = &run.source;
    if !source.is_plain() || source.has_points() || source.is_any_bare() {
        return None;
    }
    let mut found = Vec::new();
    for (steps, largest) in asked_for(run.plan())? {
        let path = path_number(&steps, source.container, &source.index.policy)?;
        let index = OrderIndex::of_path(path, largest);
        let mut values = Vec::new();
        for target in source.targets {
            values.extend(extreme(run, &index, target)?);
        }
        found.push(values);
    }
    Some(found)
}

/// The paths of a query that asks for extremes only, and whether the largest is wanted.
fn asked_for(plan: &Compiled) -> Option<Vec<(Vec<PathStep>, bool)>> {
    let aggregation = plan.aggregation.as_ref().filter(|aggregation| !aggregation.grouped)?;
    if !plan.sources.is_empty() || !matches!(plan.order, Order::None) {
        return None;
    }
    let aggregates = aggregation.aggregates.iter();
    aggregates
        .map(|aggregate| {
            let largest = match aggregate.kind {
                AggregateKind::Min => false,
                AggregateKind::Max => true,
                _ => return None,
            };
            let Expr::Path(path) = &aggregate.argument else { return None };
            let name = |step: &Step| match step {
                Step::Member(name) => Some(PathStep::Name(name.clone())),
                Step::Element(_) => None,
            };
            let steps: Option<Vec<_>> = path.steps.iter().map(name).collect();
            Some((steps.filter(|steps| !steps.is_empty() && path.hops == 0)?, largest))
        })
        .collect()
}

/// The extreme of one target; the outer option is nothing when only the items know.
fn extreme(run: &Run<'_>, index: &OrderIndex, target: &Target) -> Option<Option<Value>> {
    let marker = [tag(Type::Array)];
    let mut arrays = Groups::new(&run.source, index, target, &ValueRange::at_least(marker), 1);
    if !arrays.is_exact() {
        return None;
    }
    while let Some(mut group) = arrays.next_group(&|_, _, _| false) {
        if group.pop().is_some() {
            // An array or object makes the result undefined.
            return arrays.is_exact().then(|| Some(Value::array(Vec::new())));
        }
    }
    let mut scalars = Groups::new(&run.source, index, target, &ValueRange::below(marker), 1);
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
