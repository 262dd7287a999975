//! Rows from indexes that are read in order, merged over the ranges.

mod cached_order;
pub(in crate::query) mod groups;
mod part_scan;

use crate::query::exec::context::{Execution, Work};
use crate::query::exec::cursor::Cursor;
use crate::query::exec::ordered_scan::groups::{Group, Groups, Passed};
use crate::query::exec::top_k::{Entry, row_charge};
use crate::query::exec::workers;
use crate::query::page::Page;
use crate::query::plan::costs::SORT_MAX;
use crate::query::plan::order_index::OrderIndex;
use crate::query::read::columns::{Loaded, Reader};
use crate::query::read::items::{Certainty, Found, Source};
use crate::query::token::Window;
use crate::query::{Run, bounded};
use armilla_index::{Part, ValueRange};
use armilla_model::charge::RequestCharge;
use armilla_model::error::Result;
use armilla_model::value::Value;
use armilla_sql::eval::{order_keys, project};
use bytes::Bytes;
use std::ops::ControlFlow;

/// The index to read in order, when that is better than sorting.
pub(in crate::query) fn walk_index(run: &Run<'_>, cursor: &Cursor<'_>) -> Option<OrderIndex> {
    let source = &run.source;
    if !source.is_plain() || run.plan().distinct || source.has_points() {
        return None;
    }
    let few = (cursor.wanted(run.options.count_max) as u64).max(SORT_MAX);
    if source.estimate() <= source.threshold(few) {
        return None;
    }
    OrderIndex::find(source, run.plan())
}

/// What all streams of a page share.
struct Walk<'w, 's> {
    run: &'s Run<'s>,
    cursor: &'w Cursor<'w>,
    passed: &'w Passed<'w>,
}

impl<'s> Walk<'_, 's> {
    /// What reads items before rows are made, or for them.
    fn reader(&self) -> Reader<'s> {
        let source = &self.run.source;
        if source.prepared.copied.is_some() { source.key_reader() } else { source.reader() }
    }
}

/// The rows of one target in order, made one after the other.
struct Stream<'s> {
    target: usize,
    groups: Groups<'s>,
    group: Option<Group<'s>>,
    /// Rows of the document (or ambiguous group) at hand, the next one last.
    ready: Vec<Ready>,
}

/// A row that can be handed out.
struct Ready {
    entry: Entry,
    row: Row,
}

enum Row {
    /// Made, and what it costs besides its bytes.
    Made(Bytes, RequestCharge),
    /// To be copied from an item, which is read when the row is handed out.
    Item(usize, u32),
}

/// Fills the page from indexes read in order; gives the last row handed out if there is more.
pub(in crate::query) fn walked(
    run: &Run<'_>,
    index: &OrderIndex,
    cursor: &mut Cursor<'_>,
    execution: &mut Execution<'_>,
    page: &mut Page,
) -> Result<Option<Entry>> {
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
    let walk = Walk { run, cursor: given, passed: &passed };
    let mut reader = walk.reader();
    let range = index.range_from(&start);
    let wanted = cursor.wanted(run.options.count_max) as u64;
    let mut streams = begin_streams(&walk, index, &range, wanted, &mut reader, execution)?;
    let last = hand_out(&walk, &mut streams, &mut window, &mut reader, execution, page)?;
    cursor.window = window;
    Ok(last)
}

/// The streams of all targets, each with its first rows. Where that turns out to be a long way, because
/// candidates must be ranked or hardly an item matches, the rest of them begin side by side.
fn begin_streams<'s>(
    walk: &Walk<'_, 's>,
    index: &'s OrderIndex,
    range: &ValueRange,
    wanted: u64,
    reader: &mut Reader<'s>,
    execution: &mut Execution<'_>,
) -> Result<Vec<Stream<'s>>> {
    let source = &walk.run.source;
    let begin = |target: usize, reader: &mut Reader<'s>, execution: &mut Execution<'_>| {
        let groups = Groups::new(source, index, &source.targets[target], range, wanted);
        let mut stream = Stream { target, groups, group: None, ready: Vec::new() };
        stream.fill(walk, reader, execution).map(|()| stream)
    };
    let mut streams = Vec::with_capacity(source.targets.len());
    let (visited_before, mut alone) = (execution.work.items_visited, false);
    while streams.len() < source.targets.len() {
        let (first, visited) = (streams.len(), execution.work.items_visited - visited_before);
        let rest = source.targets.len() - first;
        if !alone && rest > 1 && workers::is_long_walk(walk.run, visited, execution.work) {
            let begun = workers::share_out(source, rest, execution, |number, execution| {
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
    walk: &Walk<'_, 's>,
    streams: &mut [Stream<'s>],
    window: &mut Window,
    reader: &mut Reader<'s>,
    execution: &mut Execution<'_>,
    page: &mut Page,
) -> Result<Option<Entry>> {
    let source = &walk.run.source;
    let mut last: Option<Entry> = None;
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
            let (row, charge) = match row {
                Row::Made(row, charge) => (row, charge),
                Row::Item(part, local) => {
                    let found = found_at(source, entry.target, part, local);
                    copied_row(walk.run, &found, reader, execution.work)?
                }
            };
            if !page.offer(row) {
                *window = before;
                return Ok(last);
            }
            execution.work.charge += charge;
            last = Some(entry);
        } else {
            execution.work.charge += execution.work.rates.load(source.mean_size(entry.target));
        }
        streams[number].fill(walk, reader, execution)?;
    }
}

/// A document of a part.
fn found_at<'s>(source: &'s Source<'_>, target: usize, part: usize, local: u32) -> Found<'s> {
    let document = source.targets[target].published.view.parts()[part].document(local);
    let at = Some((part, local));
    Found { target, at, document, record: None, certainty: Certainty::Open }
}

/// Copies a row from an item, and says what that costs.
fn copied_row(
    run: &Run<'_>,
    found: &Found<'_>,
    reader: &Reader<'_>,
    work: &mut Work,
) -> Result<(Bytes, RequestCharge)> {
    let record = reader.source().hot_record(found, work)?;
    let charge = work.rates.load(record.size());
    let row = match &run.source.prepared.copied {
        Some(copied) => copied.row(run.plan(), &record)?,
        None => record.text(),
    };
    Ok((row, charge))
}

impl<'s> Stream<'s> {
    /// Makes the next rows, if none is ready.
    fn fill(
        &mut self,
        walk: &Walk<'_, 's>,
        reader: &mut Reader<'s>,
        execution: &mut Execution<'_>,
    ) -> Result<()> {
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
                None => self.group = None,
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
        walk: &Walk<'_, 's>,
        part: usize,
        local: u32,
        reader: &mut Reader<'s>,
        execution: &mut Execution<'_>,
    ) -> Result<()> {
        let source = &walk.run.source;
        let found = found_at(source, self.target, part, local);
        execution.work.items_visited += 1;
        if source.prepared.copied.is_none() {
            return self.made_rows(walk, &found, reader, execution);
        }
        let values = match self.known_value() {
            Some(value) => Some(vec![value]),
            None => values_of(walk.run, &found, reader, execution)?,
        };
        let Some(values) = values else { return Ok(()) };
        let entry = Entry { values, target: self.target, place: found.place(), row: 0 };
        if walk.cursor.admits(&entry.values, &entry.place.epk, entry.place.docno, 0) {
            self.ready.push(Ready { entry, row: Row::Item(part, local) });
        }
        Ok(())
    }

    /// Makes all rows of an item.
    fn made_rows(
        &mut self,
        walk: &Walk<'_, 's>,
        found: &Found<'_>,
        reader: &mut Reader<'s>,
        execution: &mut Execution<'_>,
    ) -> Result<()> {
        let (plan, cursor, target) = (walk.run.plan(), walk.cursor, self.target);
        let item = reader.load(found, execution.work)?;
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
            let charge = load + row_charge(row, since, runtime, work);
            begun = work.checkpoint(runtime);
            let entry = Entry { values, target, place: place.clone(), row };
            ready.push(ready_row(entry, &made, charge, work)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(())
    }
}

/// A row in its bounds.
fn ready_row(entry: Entry, made: &Value, charge: RequestCharge, work: &mut Work) -> Result<Ready> {
    let bytes = bounded::row(made)?;
    entry.values.iter().try_for_each(bounded::check)?;
    let size = entry.size() + bytes.len();
    work.hold(size)?;
    work.release(size);
    Ok(Ready { entry, row: Row::Made(bytes, charge) })
}

/// The values that an item is ordered by, if it matches.
fn values_of(
    run: &Run<'_>,
    found: &Found<'_>,
    reader: &mut Reader<'_>,
    execution: &mut Execution<'_>,
) -> Result<Option<Vec<Value>>> {
    let Loaded { value, .. } = reader.load(found, execution.work)?;
    execution.runtime.document_id = found.document.docno;
    let mut values = None;
    execution.visit_rows(run.plan(), &value, &mut |frame, runtime, _| {
        values = Some(order_keys(run.plan(), frame, runtime)?);
        Ok(ControlFlow::Break(()))
    })?;
    values.iter().flatten().try_for_each(bounded::check)?;
    Ok(values)
}
