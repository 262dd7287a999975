//! Ordered index scan: rows from indexes that are read in order, merged over the ranges.

mod cached_order;
mod groups;
mod part_scan;

pub(crate) use cached_order::CachedOrders;
pub(super) use groups::Groups;

use super::context::{Execution, PageRun};
use super::cursor::Cursor;
use super::top_k::{SortedRow, row_charge};
use super::work::Work;
use super::workers;
use crate::query::bounded;
use crate::query::counters::Charges;
use crate::query::page::Page;
use crate::query::plan::OrderIndex;
use crate::query::read::{Found, Loaded, Reader};
use crate::query::token::Window;
use armilla_index::{Part, ValueRange};
use armilla_model::error::Result;
use armilla_model::value::Value;
use armilla_sql::eval::{order_keys, project};
use bytes::Bytes;
use groups::{Group, Passed};
use std::ops::ControlFlow;

/// What all streams of a page share.
struct MergedScan<'w, 's> {
    run: &'s PageRun<'s>,
    cursor: &'w Cursor<'w>,
    passed: &'w Passed<'w>,
}

impl<'s> MergedScan<'_, 's> {
    /// What reads items before rows are made, or for them.
    fn reader(&self) -> Reader<'s> {
        let items = &self.run.items;
        if self.run.query.prepared.raw.is_some() { items.key_reader() } else { items.reader() }
    }
}

/// The rows of one target in order, made one after the other.
struct Stream<'s> {
    target: usize,
    groups: Groups<'s>,
    group: Option<Group<'s>>,
    /// Rows of the document (or ambiguous group) at hand, the next one last.
    ready: Vec<Ready<'s>>,
}

/// A row that can be handed out.
struct Ready<'s> {
    entry: SortedRow,
    row: Row<'s>,
}

enum Row<'s> {
    /// Made, and what it costs besides its bytes.
    Made(Bytes, Charges),
    /// To be copied from an item, which is read when the row is handed out.
    Item(Found<'s>),
}

/// Fills the page from indexes read in order; gives the last row handed out if there is more.
pub(super) fn fill(
    run: &PageRun<'_>,
    index: &OrderIndex,
    cursor: &mut Cursor<'_>,
    execution: &mut Execution<'_>,
    page: &mut Page,
) -> Result<Option<SortedRow>> {
    let start = cursor.start();
    let position = index.position_bytes(&start);
    let mut window = cursor.window;
    let given = &*cursor;
    let passed = |value: Option<&[u8]>, part: &Part, local: u32| {
        position.as_ref().is_some_and(|position| position.as_deref() == value) && {
            let document = part.document(local);
            given.is_passed(document.epk, document.docno)
        }
    };
    let walk = MergedScan { run, cursor: given, passed: &passed };
    let mut reader = walk.reader();
    let range = index.range_from(&start);
    let wanted = cursor.wanted(run.plan.count_max) as u64;
    let mut streams = begin_streams(&walk, index, &range, wanted, &mut reader, execution)?;
    let last = hand_out(&walk, &mut streams, &mut window, &mut reader, execution, page)?;
    let modes = &mut execution.work.taken.scans;
    streams.iter().for_each(|stream| stream.groups.count_into(modes));
    cursor.window = window;
    Ok(last)
}

/// The streams of all targets, each with its first rows. Where that turns out to be a long way, because
/// candidates must be ranked or hardly an item matches, the rest of them begin side by side.
fn begin_streams<'s>(
    walk: &MergedScan<'_, 's>,
    index: &'s OrderIndex,
    range: &ValueRange,
    wanted: u64,
    reader: &mut Reader<'s>,
    execution: &mut Execution<'_>,
) -> Result<Vec<Stream<'s>>> {
    let ranges = walk.run.plan.view.ranges.len();
    let begin = |target: usize, reader: &mut Reader<'s>, execution: &mut Execution<'_>| {
        let groups = Groups::new(&walk.run.items, index, target, range, wanted);
        let mut stream = Stream { target, groups, group: None, ready: Vec::new() };
        stream.fill(walk, reader, execution).map(|()| stream)
    };
    let mut streams = Vec::with_capacity(ranges);
    let (visited_before, mut alone) = (execution.work.items_visited, false);
    while streams.len() < ranges {
        let (first, visited) = (streams.len(), execution.work.items_visited - visited_before);
        let rest = ranges - first;
        if !alone && rest > 1 && workers::is_long_scan(walk.run, visited, execution.work) {
            let begun = workers::share_out(walk.run.query, rest, execution, |number, execution| {
                begin(first + number, &mut walk.reader(), execution)
            });
            alone = begun.is_none();
            streams.extend(begun.into_iter().flatten());
        } else {
            streams.push(begin(first, reader, execution)?);
        }
    }
    Ok(streams)
}

/// Merges the streams into the page; gives the last row handed out if there is more.
fn hand_out<'s>(
    walk: &MergedScan<'_, 's>,
    streams: &mut [Stream<'s>],
    window: &mut Window,
    reader: &mut Reader<'s>,
    execution: &mut Execution<'_>,
    page: &mut Page,
) -> Result<Option<SortedRow>> {
    let mut last: Option<SortedRow> = None;
    loop {
        let heads = streams
            .iter()
            .enumerate()
            .filter_map(|(number, stream)| stream.ready.last().map(|ready| (number, &ready.entry)));
        let next = heads.min_by(|left, right| walk.cursor.compare(left.1, right.1));
        let Some(number) = next.map(|(number, _)| number) else { return Ok(None) };
        if window.take == 0 {
            return Ok(None);
        }
        let before = *window;
        if page.is_full() {
            return Ok(last);
        }
        let Some(Ready { entry, row }) = streams[number].ready.pop() else { return Ok(None) };
        if window.admit() {
            let (row, charges) = match row {
                Row::Made(row, charges) => (row, charges),
                Row::Item(found) => raw_row(walk.run, &found, reader, execution.work)?,
            };
            if !page.offer(row) {
                *window = before;
                return Ok(last);
            }
            debug_assert!(
                last.as_ref().is_none_or(|last| walk.cursor.compare(last, &entry).is_lt()),
                "rows are handed out in their order"
            );
            execution.work.hand_out(&entry, charges, page);
            last = Some(entry);
        } else {
            let mean = walk.run.plan.view.mean_size(entry.target);
            execution.work.charges.items += execution.work.rates.load(mean);
        }
        streams[number].fill(walk, reader, execution)?;
    }
}

/// Copies a row from an item, and says what that costs.
fn raw_row(
    run: &PageRun<'_>,
    found: &Found<'_>,
    reader: &Reader<'_>,
    work: &mut Work,
) -> Result<(Bytes, Charges)> {
    let record = reader.items().hot_record(found, &mut work.loads)?;
    let charges = Charges { items: work.rates.load(record.size()), ..Charges::default() };
    let row = match &run.query.prepared.raw {
        Some(raw) => raw.row(record)?,
        None => record.text(),
    };
    Ok((row, charges))
}

impl<'s> Stream<'s> {
    /// Makes the next rows, if none is ready.
    fn fill(
        &mut self,
        walk: &MergedScan<'_, 's>,
        reader: &mut Reader<'s>,
        execution: &mut Execution<'_>,
    ) -> Result<()> {
        execution.work.loads.enter(self.target);
        while self.ready.is_empty() {
            let Some(group) = &mut self.group else {
                match self.groups.next_group(walk.passed) {
                    Some(group) => self.group = Some(group),
                    None => return Ok(()),
                }
                continue;
            };
            let ambiguous = group.ambiguous;
            match group.pop() {
                None => self.groups.recycle(self.group.take()),
                Some((part, local)) => {
                    self.rows_of(walk, part, local, reader, execution)?;
                    while ambiguous
                        && let Some((part, local)) = self.group.as_mut().and_then(Group::pop)
                    {
                        self.rows_of(walk, part, local, reader, execution)?;
                    }
                    let cursor = walk.cursor;
                    self.ready.sort_by(|left, right| cursor.compare(&right.entry, &left.entry));
                }
            }
        }
        Ok(())
    }

    /// The value of the group, when its documents surely match and the index knows it.
    fn known_value(&self) -> Option<Value> {
        let group = self.group.as_ref().filter(|group| !group.ambiguous)?;
        if self.groups.is_exact() { self.groups.known_value(group) } else { None }
    }

    fn rows_of(
        &mut self,
        walk: &MergedScan<'_, 's>,
        part: usize,
        local: u32,
        reader: &mut Reader<'s>,
        execution: &mut Execution<'_>,
    ) -> Result<()> {
        let found = walk.run.items.at(self.target, part, local);
        execution.work.items_visited += 1;
        if walk.run.query.prepared.raw.is_none() {
            return self.made_rows(walk, &found, reader, execution);
        }
        let values = match self.known_value() {
            Some(value) => Some(vec![value]),
            None => values_of(walk.run, &found, reader, execution)?,
        };
        let Some(values) = values else { return Ok(()) };
        let entry = SortedRow { values, target: self.target, place: found.place(), row: 0 };
        if walk.cursor.admits(&entry.values, &entry.place.epk, entry.place.docno, 0) {
            self.ready.push(Ready { entry, row: Row::Item(found) });
        }
        Ok(())
    }

    /// Makes all rows of an item.
    fn made_rows(
        &mut self,
        walk: &MergedScan<'_, 's>,
        found: &Found<'_>,
        reader: &mut Reader<'s>,
        execution: &mut Execution<'_>,
    ) -> Result<()> {
        let (plan, cursor, target) = (walk.run.compiled(), walk.cursor, self.target);
        let item = reader.load(found, &mut execution.work.loads)?;
        execution.runtime.document_id = found.document.docno;
        let place = found.place();
        let mut number = 0;
        let mut begun = execution.checkpoint();
        let load = execution.work.rates.load(item.size);
        let ready = &mut self.ready;
        execution.visit_rows(plan, &item.value, &mut |frame, runtime, work| {
            let row = number;
            number += 1;
            let since = std::mem::replace(&mut begun, work.checkpoint(runtime));
            let values = order_keys(plan, frame, runtime)?;
            if !cursor.admits(&values, &place.epk, place.docno, row) {
                return Ok(ControlFlow::Continue(()));
            }
            let Some(made) = project(plan, frame, runtime)? else {
                return Ok(ControlFlow::Continue(()));
            };
            let evaluation = row_charge(row, since, runtime, work);
            let charges = Charges { items: load, evaluation, ..Charges::default() };
            begun = work.checkpoint(runtime);
            let entry = SortedRow { values, target, place: place.clone(), row };
            ready.push(ready_row(entry, &made, charges, work)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(())
    }
}

/// A row in its bounds.
fn ready_row<'s>(
    entry: SortedRow,
    made: &Value,
    charges: Charges,
    work: &mut Work,
) -> Result<Ready<'s>> {
    let bytes = bounded::row(made)?;
    entry.values.iter().try_for_each(bounded::check)?;
    let size = entry.size() + bytes.len();
    work.hold(size)?;
    work.release(size);
    Ok(Ready { entry, row: Row::Made(bytes, charges) })
}

/// The values that an item is ordered by, if it matches.
fn values_of(
    run: &PageRun<'_>,
    found: &Found<'_>,
    reader: &mut Reader<'_>,
    execution: &mut Execution<'_>,
) -> Result<Option<Vec<Value>>> {
    let Loaded { value, .. } = reader.load(found, &mut execution.work.loads)?;
    execution.runtime.document_id = found.document.docno;
    let mut values = None;
    execution.visit_rows(run.compiled(), &value, &mut |frame, runtime, _| {
        values = Some(order_keys(run.compiled(), frame, runtime)?);
        Ok(ControlFlow::Break(()))
    })?;
    values.iter().flatten().try_for_each(bounded::check)?;
    Ok(values)
}
