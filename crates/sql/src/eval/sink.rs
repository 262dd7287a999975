//! Where rows end up: grouped, ordered, made distinct, cut to TOP, OFFSET and LIMIT.

use super::rows::{order_keys, project, visit};
use super::{Frame, Runtime, evaluate};
use crate::aggregate::{Accumulator, Distinct, Group, Groups};
use crate::compiled::{Aggregation, Compiled, CompiledExpr, Order, OrderKey};
use crate::error::{Result, SqlError};
use crate::limits::SUBQUERY_ROWS_MAX;
use crate::rank;
use armilla_model::Value;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Takes the rows of a query and gives its output.
#[derive(Debug)]
pub struct Sink<'q> {
    query: &'q Compiled,
    scores: &'q [CompiledExpr],
    state: State,
}

#[derive(Debug)]
enum State {
    Plain { rows: Vec<Value>, distinct: Option<Distinct>, wanted: u64 },
    Ordered(Vec<(Vec<Value>, Value)>),
    Grouped(Groups),
}

impl<'q> Sink<'q> {
    /// An empty sink. `scores` are the expressions of an ORDER BY RANK, ready to evaluate; see
    /// [`rank::score_expressions`].
    pub fn new(query: &'q Compiled, scores: &'q [CompiledExpr]) -> Self {
        let state = if query.aggregation.is_some() {
            State::Grouped(Groups::new())
        } else if matches!(query.order, Order::None) {
            let (skipped, taken) = query.window();
            let distinct = query.distinct.then(Distinct::default);
            State::Plain { rows: Vec::new(), distinct, wanted: skipped.saturating_add(taken) }
        } else {
            State::Ordered(Vec::new())
        };
        Self { query, scores, state }
    }

    /// Takes one row in; `Break` when no further row can change the output.
    pub fn push(
        &mut self,
        frame: &Frame<'_>,
        runtime: &mut Runtime<'_>,
    ) -> Result<ControlFlow<()>> {
        match &mut self.state {
            State::Grouped(groups) => {
                if let Some(aggregation) = &self.query.aggregation {
                    add_row(groups, aggregation, frame, runtime)?;
                }
            }
            State::Ordered(rows) => {
                let mut keys = order_keys(self.query, frame, runtime)?;
                for score in self.scores {
                    keys.push(evaluate(score, frame, runtime)?.into_owned());
                }
                if let Some(row) = project(self.query, frame, runtime)? {
                    rows.push((keys, row));
                }
            }
            State::Plain { rows, distinct, wanted } => {
                if rows.len() as u64 >= *wanted {
                    return Ok(ControlFlow::Break(()));
                }
                if let Some(row) = project(self.query, frame, runtime)?
                    && distinct.as_mut().is_none_or(|seen| seen.is_new(&row))
                {
                    rows.push(row);
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Rows or groups held.
    pub fn held(&self) -> usize {
        match &self.state {
            State::Plain { rows, .. } => rows.len(),
            State::Ordered(rows) => rows.len(),
            State::Grouped(groups) => groups.len(),
        }
    }

    /// The output. `base` is the frame the query was started from.
    pub fn finish(self, base: &Frame<'_>, runtime: &mut Runtime<'_>) -> Result<Vec<Value>> {
        let rows = match self.state {
            State::Plain { rows, .. } => return Ok(window(self.query, rows)),
            State::Grouped(groups) => finish_groups(self.query, groups, base, runtime)?,
            State::Ordered(rows) => match &self.query.order {
                Order::Keys { keys, .. } => sort(rows, keys),
                Order::Rank(rank) => rank::fuse(rank, rows),
                Order::None => rows.into_iter().map(|(_, row)| row).collect(),
            },
        };
        let rows = if self.query.distinct { distinct(rows) } else { rows };
        Ok(window(self.query, rows))
    }
}

/// Runs a sub-query in the frame around it.
pub(super) fn collect<'v>(
    query: &'v Compiled,
    base: &'v Frame<'v>,
    runtime: &mut Runtime<'_>,
) -> Result<Vec<Value>> {
    let mut sink = Sink::new(query, &[]);
    let _stopped = visit(query, base, runtime, &mut |frame, runtime| {
        if sink.held() > SUBQUERY_ROWS_MAX {
            return Err(SqlError::refused("A subquery has more rows than it may hold."));
        }
        sink.push(frame, runtime)
    })?;
    sink.finish(base, runtime)
}

/// Adds a row to the groups.
pub fn add_row(
    groups: &mut Groups,
    aggregation: &Aggregation,
    frame: &Frame<'_>,
    runtime: &mut Runtime<'_>,
) -> Result<()> {
    let mut keys: SmallVec<[Value; 4]> = SmallVec::with_capacity(aggregation.keys.len());
    for key in &aggregation.keys {
        keys.push(evaluate(key, frame, runtime)?.into_owned());
    }
    let kinds = aggregation.aggregates.iter().map(|aggregate| aggregate.kind);
    let group = groups.group(&keys, kinds);
    for (accumulator, aggregate) in group.accumulators.iter_mut().zip(&aggregation.aggregates) {
        accumulator.add(&*evaluate(&aggregate.argument, frame, runtime)?);
    }
    Ok(())
}

fn finish_groups(
    query: &Compiled,
    groups: Groups,
    base: &Frame<'_>,
    runtime: &mut Runtime<'_>,
) -> Result<Vec<Value>> {
    let mut rows = Vec::with_capacity(groups.len());
    for slots in sort_groups(query, finished_slots(query, groups), base, runtime)? {
        let frame = Frame::on(base, &slots);
        rows.extend(project(query, &frame, runtime)?);
    }
    Ok(rows)
}

/// The slots of every group. Without GROUP BY there is always exactly one group.
pub fn finished_slots(query: &Compiled, groups: Groups) -> Vec<Value> {
    let mut groups = groups.into_groups();
    if let Some(aggregation) = &query.aggregation
        && groups.is_empty()
        && !aggregation.grouped
    {
        let kinds = aggregation.aggregates.iter().map(|aggregate| aggregate.kind);
        groups
            .push(Group { keys: Vec::new(), accumulators: kinds.map(Accumulator::new).collect() });
    }
    groups.into_iter().map(Group::finish).collect()
}

/// Finished groups in the order that the query asks for.
fn sort_groups(
    query: &Compiled,
    slots: Vec<Value>,
    base: &Frame<'_>,
    runtime: &mut Runtime<'_>,
) -> Result<Vec<Value>> {
    let keys = query.aggregation.as_ref().map_or(&[][..], |aggregation| &aggregation.order);
    if keys.is_empty() {
        return Ok(slots);
    }
    let mut keyed = Vec::with_capacity(slots.len());
    for group in slots {
        let frame = Frame::on(base, &group);
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            values.push(evaluate(&key.expr, &frame, runtime)?.into_owned());
        }
        keyed.push((values, group));
    }
    keyed.sort_by(|left, right| compare_keys(&left.0, &right.0, keys));
    Ok(keyed.into_iter().map(|(_, group)| group).collect())
}

/// Sorts rows; equal ones stay in the order they came, or in reverse when the first key descends.
fn sort(rows: Vec<(Vec<Value>, Value)>, keys: &[OrderKey]) -> Vec<Value> {
    let reverse_ties = keys.first().is_some_and(|key| key.descending);
    let mut rows: Vec<_> = rows.into_iter().enumerate().collect();
    rows.sort_by(|(left_position, left), (right_position, right)| {
        compare_keys(&left.0, &right.0, keys).then_with(|| {
            let order = left_position.cmp(right_position);
            if reverse_ties { order.reverse() } else { order }
        })
    });
    rows.into_iter().map(|(_, (_, row))| row).collect()
}

/// The order of two rows by their ORDER BY keys.
pub fn compare_keys(left: &[Value], right: &[Value], keys: &[OrderKey]) -> Ordering {
    for ((left, right), key) in left.iter().zip(right).zip(keys) {
        let order = left.order(right);
        if order.is_ne() {
            return if key.descending { order.reverse() } else { order };
        }
    }
    Ordering::Equal
}

fn distinct(rows: Vec<Value>) -> Vec<Value> {
    let mut seen = Distinct::default();
    rows.into_iter().filter(|row| seen.is_new(row)).collect()
}

fn window(query: &Compiled, rows: Vec<Value>) -> Vec<Value> {
    let (skipped, taken) = query.window();
    let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
    let taken = usize::try_from(taken).unwrap_or(usize::MAX);
    rows.into_iter().skip(skipped).take(taken).collect()
}
