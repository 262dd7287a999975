//! Aggregates, groups and distinct rows from the index alone.
//!
//! When the index has every value that a query needs, documents with the same values are the same
//! to it. So the documents of each part are counted by their values, which are compared as ordinals
//! in columns, and the query is evaluated once per combination of values in a range, however many
//! documents and parts have it. A count without values is no more than a subtraction.

mod combinations;

use crate::query::Run;
use crate::query::exec::context::{Execution, Work};
use crate::query::exec::group::Kept;
use crate::query::exec::index_aggregate::combinations::{Combinations, decoded};
use crate::query::exec::workers;
use crate::query::find::Selection;
use crate::query::read::columns::{Cover, PathColumn, Reader};
use crate::query::read::items::{Certainty, Found, PartPlan};
use crate::query::view::Target;
use armilla_model::error::Result;
use armilla_model::value::Value;
use armilla_sql::access::referenced_paths;
use armilla_sql::aggregate::AggregateKind;
use armilla_sql::compiled::{Aggregation, Compiled};
use armilla_sql::eval::{Frame, Runtime, evaluate, project};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Gathers the groups of all targets, and says how many items of each matched; nothing when the index
/// does not have what is needed.
pub(in crate::query) fn gather(
    run: &Run<'_>,
    groups: &mut Kept,
    execution: &mut Execution<'_>,
) -> Result<Option<Vec<u64>>> {
    let plan = run.plan();
    let source = &run.source;
    if !source.is_plain() || source.has_points() || !is_countable(plan) {
        return Ok(None);
    }
    let Some(cover) = Cover::new(source, &source.prepared.references) else {
        return Ok(None);
    };
    // Where the index has answered the condition, the paths of the condition do not matter.
    let unfiltered =
        Compiled { filter: None, checks: vec![None; plan.checks.len()], ..plan.clone() };
    let Some(bare_cover) = Cover::new(source, &referenced_paths(&unfiltered)) else {
        return Ok(None);
    };
    let ways = Ways { filtered: (&cover, plan), unfiltered: (&bare_cover, &unfiltered) };
    let ranges: Vec<RangePlan<'_>> =
        source.visited().map(|of| RangePlan::new(run, &ways, of)).collect();
    let looked_at = ranges.iter().map(RangePlan::looked_at).sum();
    let of_range = |run: &Run<'_>, execution: &mut Execution<'_>| {
        let mut own = groups.empty();
        let range = &ranges[run.source.visited.start];
        let matched = count(run, &ways, range, &mut own, execution)?;
        Ok((own, matched))
    };
    if let Some(made) = workers::by_range(run, looked_at, execution, of_range) {
        let merge = |(own, matched)| {
            groups.merge(own, execution.work);
            matched
        };
        return Ok(Some(made.into_iter().map(merge).collect()));
    }
    let matched = ranges.iter().map(|range| count(run, &ways, range, groups, execution));
    matched.collect::<Result<_>>().map(Some)
}

/// The documents of one range to be counted.
struct RangePlan<'s> {
    number: usize,
    target: &'s Target,
    /// The parts, and their counts where no document has to be looked at.
    parts: Vec<(PartPlan<'s>, Option<u64>)>,
}

impl<'s> RangePlan<'s> {
    fn new(run: &'s Run<'_>, ways: &Ways<'_>, (number, target): (usize, &'s Target)) -> Self {
        let expires = run.source.settings.policy.default_ttl.is_some();
        let is_plain = ways.unfiltered.0.paths.is_empty() && !expires;
        let with_count = |part: PartPlan<'s>| {
            let all_seen = is_plain && !run.source.is_bare(part.part);
            let is_known = all_seen && part.selector.may_be_exact();
            let count = if is_known { part.selector.count(&part.runs) } else { None };
            (part, count)
        };
        let parts = run.source.parts(target, None).into_iter().map(with_count).collect();
        Self { number, target, parts }
    }

    /// Documents that have to be looked at, about.
    fn looked_at(&self) -> u64 {
        let open = self.parts.iter().filter(|(_, count)| count.is_none());
        open.map(|(part, _)| part.size() as u64).sum()
    }
}

/// Counts the documents of one range; gives how many matched.
fn count(
    run: &Run<'_>,
    ways: &Ways<'_>,
    range: &RangePlan<'_>,
    groups: &mut Kept,
    execution: &mut Execution<'_>,
) -> Result<u64> {
    let mut counter = Counter { run, groups, execution, matched: 0 };
    let (mut unfiltered, mut filtered) = (Combinations::default(), Combinations::default());
    let mut reader = None;
    for (part, count) in &range.parts {
        match count {
            Some(0) => {}
            Some(count) => {
                unfiltered.count(&[], &[], *count);
            }
            None => {
                let reader = reader.get_or_insert_with(|| run.source.reader());
                let Selection { locals, exact } = part.selector.select(&part.runs);
                let (way, counted) = if exact {
                    (ways.unfiltered, &mut unfiltered)
                } else {
                    (ways.filtered, &mut filtered)
                };
                counter.part(way, counted, range, part, locals, reader)?;
            }
        }
    }
    counter.evaluate(ways.unfiltered, &mut unfiltered)?;
    counter.evaluate(ways.filtered, &mut filtered)?;
    Ok(counter.matched)
}

/// True when equal values give equal rows, in whatever order they come.
fn is_countable(plan: &Compiled) -> bool {
    let listed = |kind| matches!(kind, AggregateKind::MakeList | AggregateKind::MakeSet);
    let lists = plan.aggregation.iter().flat_map(|aggregation| &aggregation.aggregates);
    plan.sources.is_empty()
        && !lists.into_iter().any(|aggregate| listed(aggregate.kind))
        && crate::query::prepare::pure::is_pure(plan)
}

/// The query with its condition, and without it for documents that surely meet it.
struct Ways<'w> {
    filtered: Way<'w>,
    unfiltered: Way<'w>,
}

/// What is read of a document, and what is made of that.
type Way<'w> = (&'w Cover, &'w Compiled);

struct Counter<'c, 'r> {
    run: &'c Run<'c>,
    groups: &'c mut Kept,
    execution: &'c mut Execution<'r>,
    matched: u64,
}

impl Counter<'_, '_> {
    /// Counts documents of one part.
    fn part<'s>(
        &mut self,
        (cover, plan): Way<'_>,
        combinations: &mut Combinations<'s>,
        range: &RangePlan<'_>,
        part: &PartPlan<'s>,
        mut locals: Vec<u32>,
        reader: &mut Reader<'_>,
    ) -> Result<()> {
        let source = &self.run.source;
        if source.settings.policy.default_ttl.is_some() {
            locals.retain(|local| source.is_alive_at(part.part, *local));
        }
        if source.is_bare(part.part) {
            locals.retain(|local| !source.is_excluded_at(range.number, part.number, *local));
        }
        let Some(columns) = cover.columns(source, part.part) else {
            return self.each(plan, range, part, locals.into_iter(), reader);
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
        self.each(plan, range, part, rest.collect::<Vec<_>>().into_iter(), reader)
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
        range: &RangePlan<'_>,
        part: &PartPlan<'_>,
        locals: impl Iterator<Item = u32>,
        reader: &mut Reader<'_>,
    ) -> Result<()> {
        for local in locals {
            let document = range.target.published.view.parts()[part.number].document(local);
            let at = Some((part.number, local));
            let certainty = Certainty::Open;
            let found = Found { target: range.number, at, document, record: None, certainty };
            let loaded = reader.load(&found, self.execution.work)?;
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
    groups: &mut Kept,
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
