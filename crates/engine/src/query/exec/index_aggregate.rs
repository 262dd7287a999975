//! Index-only aggregate: aggregates, groups and distinct rows from the columns of the index alone.
//!
//! When the index has every value that a query needs, documents with the same values are the same
//! to it. So the documents of each part are counted by their values, which are compared as ordinals
//! in columns, and the query is evaluated once per combination of values in a range, however many
//! documents and parts have it. When it is chosen is in `query::plan::choose`. A count without values is no more than a subtraction.

mod combinations;

use super::context::{Execution, PageRun};
use super::group::GroupTable;
use super::work::Work;
use super::workers;
use crate::query::find::{CoveringColumns, PathColumn, Selection};
use crate::query::plan::{IndexAggregate, PartPlan};
use crate::query::prepare::Unfiltered;
use crate::query::read::Reader;
use armilla_model::error::{Error, Result};
use armilla_model::value::Value;
use armilla_sql::compiled::{Aggregation, Compiled};
use armilla_sql::eval::{Frame, Runtime, evaluate, project};
use combinations::{Combinations, decoded};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Gathers the groups of all ranges, and says how many items of each matched.
pub(super) fn gather(
    run: &PageRun<'_>,
    covered: &IndexAggregate,
    groups: &mut GroupTable,
    execution: &mut Execution<'_>,
) -> Result<Vec<u64>> {
    let Some(Unfiltered { compiled: unfiltered, .. }) = &run.query.prepared.countable else {
        let message = "a query that was planned as an index-only aggregate cannot be counted";
        return Err(Error::Internal(message.to_owned()));
    };
    let ways = Ways {
        filtered: (&covered.filtered, run.compiled()),
        unfiltered: (&covered.unfiltered, unfiltered),
    };
    let ranges = 0..run.plan.view.ranges.len();
    let ranges: Vec<_> = ranges.map(|range| RangeCount::new(run, &ways, range)).collect();
    let looked_at = ranges.iter().map(RangeCount::looked_at).sum();
    let of_range = |run: &PageRun<'_>, execution: &mut Execution<'_>| {
        let mut own = groups.empty();
        let range = &ranges[run.items.visited.start];
        let matched = count(run, &ways, range, &mut own, execution)?;
        Ok((own, matched))
    };
    if let Some(made) = workers::by_range(run, looked_at, execution, of_range) {
        let merge = |(own, matched)| {
            groups.merge(own, execution.work);
            matched
        };
        return Ok(made.into_iter().map(merge).collect());
    }
    ranges.iter().map(|range| count(run, &ways, range, groups, execution)).collect()
}

/// The documents of one range to be counted.
struct RangeCount<'s> {
    number: usize,
    /// The parts, and their counts where no document has to be looked at.
    parts: Vec<(PartPlan<'s>, Option<u64>)>,
}

impl<'s> RangeCount<'s> {
    fn new(run: &PageRun<'s>, ways: &Ways<'_>, number: usize) -> Self {
        let view = &run.plan.view;
        let is_plain = ways.unfiltered.0.paths.is_empty() && !view.expires();
        let with_count = |part: PartPlan<'s>| {
            let all_seen = is_plain && !view.is_bare(part.part);
            let is_known = all_seen && part.selector.may_be_exact();
            let count = if is_known { part.selector.count(part.part, part.runs) } else { None };
            (part, count)
        };
        Self { number, parts: run.plan.parts(number).map(with_count).collect() }
    }

    /// Documents that have to be looked at, about.
    fn looked_at(&self) -> u64 {
        let open = self.parts.iter().filter(|(_, count)| count.is_none());
        open.map(|(part, _)| part.size() as u64).sum()
    }
}

/// Counts the documents of one range; gives how many matched.
fn count(
    run: &PageRun<'_>,
    ways: &Ways<'_>,
    range: &RangeCount<'_>,
    groups: &mut GroupTable,
    execution: &mut Execution<'_>,
) -> Result<u64> {
    execution.work.loads.enter(range.number);
    let mut counter = Counter { run, range, groups, execution, matched: 0 };
    let (mut unfiltered, mut filtered) = (Combinations::default(), Combinations::default());
    let mut reader = None;
    for (part, count) in &range.parts {
        match count {
            Some(0) => {}
            Some(count) => {
                unfiltered.count(&[], &[], *count);
            }
            None => {
                let reader = reader.get_or_insert_with(|| run.items.reader());
                let Selection { locals, exact } = part.select();
                let (way, counted) = if exact {
                    (ways.unfiltered, &mut unfiltered)
                } else {
                    (ways.filtered, &mut filtered)
                };
                counter.part(way, counted, part, locals, reader)?;
            }
        }
    }
    counter.evaluate(ways.unfiltered, &mut unfiltered)?;
    counter.evaluate(ways.filtered, &mut filtered)?;
    Ok(counter.matched)
}

/// The query with its condition, and without it for documents that surely meet it.
struct Ways<'w> {
    filtered: Way<'w>,
    unfiltered: Way<'w>,
}

/// What is read of a document, and what is made of that.
type Way<'w> = (&'w CoveringColumns, &'w Compiled);

struct Counter<'c, 'r> {
    run: &'c PageRun<'c>,
    range: &'c RangeCount<'c>,
    groups: &'c mut GroupTable,
    execution: &'c mut Execution<'r>,
    matched: u64,
}

impl Counter<'_, '_> {
    /// Counts documents of one part.
    fn part<'s>(
        &mut self,
        (cover, plan): Way<'_>,
        combinations: &mut Combinations<'s>,
        part: &PartPlan<'s>,
        mut locals: Vec<u32>,
        reader: &mut Reader<'_>,
    ) -> Result<()> {
        let view = &self.run.plan.view;
        let is_bare = view.is_bare(part.part);
        if view.expires() {
            locals.retain(|local| view.is_alive_at(part.part, *local));
        }
        if is_bare {
            locals.retain(|local| !view.is_excluded_at(self.range.number, part.number, *local));
        }
        let Some(columns) = cover.columns(part.part, is_bare) else {
            return self.each(plan, part, locals.into_iter(), reader);
        };
        let mut unknown = Vec::new();
        for (ordinals, count) in counted(&columns, &locals) {
            if !combinations.count(&columns, &ordinals, count) {
                unknown.push(ordinals);
            }
            if combinations.is_full() {
                self.evaluate((cover, plan), combinations)?;
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let unknown: std::collections::HashSet<_> = unknown.into_iter().collect();
        let rest = locals.into_iter().filter(|local| unknown.contains(&ordinals(&columns, *local)));
        self.each(plan, part, rest.collect::<Vec<_>>().into_iter(), reader)
    }

    /// Evaluates combinations of values.
    fn evaluate(
        &mut self,
        (cover, plan): Way<'_>,
        combinations: &mut Combinations<'_>,
    ) -> Result<()> {
        for (values, count) in combinations.take() {
            let item = cover.item(&mut |position| decoded(*values.get(position)?));
            self.item(plan, &item.unwrap_or_default(), count)?;
        }
        Ok(())
    }

    /// Evaluates items that must be read, one by one.
    fn each(
        &mut self,
        plan: &Compiled,
        part: &PartPlan<'_>,
        locals: impl Iterator<Item = u32>,
        reader: &mut Reader<'_>,
    ) -> Result<()> {
        for local in locals {
            let found = self.run.items.at(self.range.number, part.number, local);
            let loaded = reader.load(&found, &mut self.execution.work.loads)?;
            self.item(plan, &loaded.value, 1)?;
        }
        Ok(())
    }

    fn item(&mut self, plan: &Compiled, item: &Value, count: u64) -> Result<()> {
        let (groups, mut matched) = (&mut *self.groups, false);
        self.execution.work.items_visited += 1;
        self.execution.visit_rows(plan, item, &mut |frame, runtime, work| {
            matched = true;
            match &plan.aggregation {
                Some(aggregation) => add_many(groups, aggregation, frame, count, runtime, work)?,
                None => {
                    if let Some(row) = project(plan, frame, runtime)? {
                        groups.row(&row, work)?;
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if matched {
            self.matched += count;
        }
        Ok(())
    }
}

/// Adds equal rows to their group.
fn add_many(
    groups: &mut GroupTable,
    aggregation: &Aggregation,
    frame: &Frame<'_>,
    count: u64,
    runtime: &mut Runtime<'_>,
    work: &mut Work,
) -> Result<()> {
    let mut keys = Vec::with_capacity(aggregation.keys.len());
    for key in &aggregation.keys {
        let value = evaluate(key, frame, runtime)?.into_owned();
        crate::query::bounded::check(&value)?;
        keys.push(value);
    }
    let Some(group) = groups.group(&keys, aggregation, work)? else { return Ok(()) };
    for (accumulator, aggregate) in group.accumulators.iter_mut().zip(&aggregation.aggregates) {
        let value = evaluate(&aggregate.argument, frame, runtime)?;
        accumulator.add_many(&value, count);
    }
    Ok(())
}

/// Ordinals of a document, one more than they are, 0 for undefined.
fn ordinals(columns: &[PathColumn<'_>], local: u32) -> Box<[u32]> {
    columns.iter().map(|column| column.ordinal(local).map_or(0, |ordinal| ordinal + 1)).collect()
}

/// Every combination of ordinals, and how many documents have it.
fn counted(columns: &[PathColumn<'_>], locals: &[u32]) -> Vec<(Box<[u32]>, u64)> {
    match columns {
        [] => vec![(Box::default(), locals.len() as u64)],
        [only] => {
            let mut counts = vec![0u64; only.value_count() as usize + 1];
            for local in locals {
                counts[only.ordinal(*local).map_or(0, |ordinal| ordinal as usize + 1)] += 1;
            }
            let seen = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
            seen.map(|(ordinal, count)| (Box::from([ordinal as u32]), count)).collect()
        }
        _ => {
            let mut counts: HashMap<Box<[u32]>, u64> = HashMap::new();
            let mut key = vec![0; columns.len()];
            for local in locals {
                for (slot, column) in key.iter_mut().zip(columns) {
                    *slot = column.ordinal(*local).map_or(0, |ordinal| ordinal + 1);
                }
                match counts.get_mut(key.as_slice()) {
                    Some(count) => *count += 1,
                    None => {
                        counts.insert(key.as_slice().into(), 1);
                    }
                }
            }
            counts.into_iter().collect()
        }
    }
}
