//! Aggregates, groups and distinct rows from the index alone.
//!
//! When the index has every value that a query needs, documents with the same values are the same
//! to it. So the documents of each part are counted by their values, which are compared as ordinals
//! in columns, and the query is evaluated once per combination of values, however many documents
//! have it. A count without values is no more than a subtraction.

use super::access::Selection;
use super::grouped::Kept;
use super::reader::{Cover, PathColumn, Reader};
use super::source::{Certainty, Found, PartPlan, Target};
use super::work::Work;
use super::{Run, failure};
use armilla_model::error::Result;
use armilla_model::number::INTEGER_EXACT_MAX;
use armilla_model::value::Value;
use armilla_sql::access::referenced_paths;
use armilla_sql::aggregate::AggregateKind;
use armilla_sql::compiled::Compiled;
use armilla_sql::eval::{Frame, Runtime, evaluate, order_keys, project, visit_rows};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// What became of the attempt.
pub(super) enum Outcome {
    /// All groups are there; so many items of each target matched.
    Done(Vec<u64>),
    /// Sums of fractions depend on their order: the items must be gone through one by one.
    Inexact,
    /// The index does not have what is needed.
    NotCovered,
}

/// Gathers the groups of all targets.
pub(super) fn gather(
    run: &Run<'_>,
    groups: &mut Kept,
    runtime: &mut Runtime<'_>,
    work: &mut Work,
) -> Result<Outcome> {
    let plan = run.plan();
    let source = &run.source;
    if !source.is_plain() || source.has_points() || !is_countable(plan) {
        return Ok(Outcome::NotCovered);
    }
    let Some(cover) = Cover::new(source, &source.prepared.references) else {
        return Ok(Outcome::NotCovered);
    };
    // Where the index has answered the condition, the paths of the condition do not matter.
    let unfiltered =
        Compiled { filter: None, checks: vec![None; plan.checks.len()], ..plan.clone() };
    let Some(bare_cover) = Cover::new(source, &referenced_paths(&unfiltered)) else {
        return Ok(Outcome::NotCovered);
    };
    let ways = Ways { filtered: (&cover, plan), unfiltered: (&bare_cover, &unfiltered) };
    let mut counter = Counter { run, groups, runtime, work, matched: 0, total: 0.0 };
    let mut reader = source.reader();
    let mut matched = Vec::with_capacity(source.targets.len());
    for (number, target) in source.targets.iter().enumerate() {
        let before = counter.matched;
        for part in source.parts(target, None) {
            if !counter.part(&ways, number, target, &part, &mut reader)? {
                return Ok(Outcome::Inexact);
            }
        }
        matched.push(counter.matched - before);
    }
    Ok(Outcome::Done(matched))
}

/// True when equal values give equal rows, in whatever order they come.
fn is_countable(plan: &Compiled) -> bool {
    let listed = |kind| matches!(kind, AggregateKind::MakeList | AggregateKind::MakeSet);
    let lists = plan.aggregation.iter().flat_map(|aggregation| &aggregation.aggregates);
    plan.sources.is_empty()
        && !lists.into_iter().any(|aggregate| listed(aggregate.kind))
        && super::pure::is_pure(plan)
}

/// The query with its condition, and without it for documents that surely meet it.
struct Ways<'w> {
    filtered: (&'w Cover, &'w Compiled),
    unfiltered: (&'w Cover, &'w Compiled),
}

struct Counter<'c, 'r> {
    run: &'c Run<'c>,
    groups: &'c mut Kept,
    runtime: &'c mut Runtime<'r>,
    work: &'c mut Work,
    matched: u64,
    /// The sum of the magnitudes of all that was added up.
    total: f64,
}

impl Counter<'_, '_> {
    /// Counts the documents of one part; false when sums would depend on their order.
    fn part(
        &mut self,
        ways: &Ways<'_>,
        number: usize,
        target: &Target,
        part: &PartPlan<'_>,
        reader: &mut Reader<'_>,
    ) -> Result<bool> {
        let source = &self.run.source;
        let expires = source.settings.policy.default_ttl.is_some();
        let (cover, plan) = ways.unfiltered;
        if cover.paths.is_empty()
            && !expires
            && part.selector.may_be_exact()
            && let Some(count) = part.selector.count(&part.runs)
        {
            return self.add(cover, plan, &[], &[], count);
        }
        let Selection { mut locals, exact } = part.selector.select(&part.runs);
        let (cover, plan) = if exact { ways.unfiltered } else { ways.filtered };
        if expires {
            locals.retain(|local| source.is_alive_at(part.part, *local));
        }
        let Some(columns) = cover.columns(source, part.part) else {
            return self.each(plan, number, target, part, locals.into_iter(), reader);
        };
        let mut unknown = Vec::new();
        for (ordinals, count) in counted(&columns, &locals) {
            if !self.is_known(&columns, &ordinals) {
                unknown.push(ordinals);
            } else if !self.add(cover, plan, &columns, &ordinals, count)? {
                return Ok(false);
            }
        }
        if unknown.is_empty() {
            return Ok(true);
        }
        let unknown: std::collections::HashSet<_> = unknown.into_iter().collect();
        let rest = locals.into_iter().filter(|local| unknown.contains(&ordinals(&columns, *local)));
        self.each(plan, number, target, part, rest.collect::<Vec<_>>().into_iter(), reader)
    }

    fn is_known(&self, columns: &[PathColumn<'_>], ordinals: &[u32]) -> bool {
        let known = |(column, ordinal): (&PathColumn<'_>, &u32)| {
            ordinal.checked_sub(1).is_none_or(|ordinal| column.value(Some(ordinal)).is_some())
        };
        columns.iter().zip(ordinals).all(known)
    }

    /// Evaluates one combination of values.
    fn add(
        &mut self,
        cover: &Cover,
        plan: &Compiled,
        columns: &[PathColumn<'_>],
        ordinals: &[u32],
        count: u64,
    ) -> Result<bool> {
        if count == 0 {
            return Ok(true);
        }
        let item = cover.item(&mut |position| {
            let ordinal = ordinals.get(position).and_then(|ordinal| ordinal.checked_sub(1));
            columns.get(position)?.value(ordinal)
        });
        self.item(plan, &item.unwrap_or_default(), count)
    }

    /// Evaluates items that must be read, one by one.
    fn each(
        &mut self,
        plan: &Compiled,
        number: usize,
        target: &Target,
        part: &PartPlan<'_>,
        locals: impl Iterator<Item = u32>,
        reader: &mut Reader<'_>,
    ) -> Result<bool> {
        for local in locals {
            let document = target.published.view.parts()[part.number].document(local);
            let at = Some((part.number, local));
            let certainty = Certainty::Open;
            let found = Found { target: number, at, document, record: None, certainty };
            let loaded = reader.load(&found, self.work)?;
            if !self.item(plan, &loaded.value, 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn item(&mut self, plan: &Compiled, item: &Value, count: u64) -> Result<bool> {
        let (mut failed, mut matched, mut exact) = (None, false, true);
        self.work.items_visited += 1;
        let (groups, work, total) = (&mut *self.groups, &mut *self.work, &mut self.total);
        let _stopped = visit_rows(plan, item, self.runtime, &mut |frame, runtime| {
            matched = true;
            let added = match &plan.aggregation {
                Some(_) => add_many(groups, plan, frame, count, total, runtime, work),
                None => match project(plan, frame, runtime)? {
                    Some(row) => groups.row(&row, work).map(|()| true),
                    None => Ok(true),
                },
            };
            match added {
                Ok(true) => Ok(ControlFlow::Continue(())),
                Ok(false) => {
                    exact = false;
                    Ok(ControlFlow::Break(()))
                }
                Err(error) => {
                    failed = Some(error);
                    Ok(ControlFlow::Break(()))
                }
            }
        })
        .map_err(failure)?;
        if matched {
            self.matched += count;
        }
        failed.map_or(Ok(exact), Err)
    }
}

/// Adds equal rows to their group; false when their sum would depend on the order.
fn add_many(
    groups: &mut Kept,
    plan: &Compiled,
    frame: &Frame<'_>,
    count: u64,
    total: &mut f64,
    runtime: &mut Runtime<'_>,
    work: &mut Work,
) -> Result<bool> {
    let Some(aggregation) = &plan.aggregation else { return Ok(true) };
    if order_keys(plan, frame, runtime).map_err(failure)?.is_none() {
        return Ok(true);
    }
    let mut keys = Vec::with_capacity(aggregation.keys.len());
    for key in &aggregation.keys {
        let value = evaluate(key, frame, runtime).map_err(failure)?.into_owned();
        super::bounded::check(&value)?;
        keys.push(value);
    }
    let Some(group) = groups.group(&keys, aggregation, work)? else { return Ok(true) };
    for (accumulator, aggregate) in group.accumulators.iter_mut().zip(&aggregation.aggregates) {
        let value = evaluate(&aggregate.argument, frame, runtime).map_err(failure)?;
        if matches!(aggregate.kind, AggregateKind::Sum | AggregateKind::Average)
            && let Some(number) = value.as_f64()
        {
            *total += number.abs() * count as f64;
            if number.fract() != 0.0 || *total >= INTEGER_EXACT_MAX {
                return Ok(false);
            }
        }
        accumulator.add_many(&value, count);
    }
    Ok(true)
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
