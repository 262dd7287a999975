//! Rows from indexes that are read in order, merged over the ranges.

use super::cursor::Cursor;
use super::{Entry, SORT_MAX, row_charge};
use crate::query::page::Page;
use crate::query::reader::Reader;
use crate::query::source::{Certainty, Found, Target};
use crate::query::walk::{Group, Groups, OrderIndex};
use crate::query::work::Work;
use crate::query::{Run, bounded, failure, stream};
use armilla_model::charge::RequestCharge;
use armilla_model::error::Result;
use armilla_model::value::Value;
use armilla_sql::compiled::Compiled;
use armilla_sql::eval::{Runtime, order_keys, project, visit_rows};
use bytes::Bytes;
use std::ops::ControlFlow;

/// More documents than this are not brought in order at once.
const HEAP_MAX: u64 = 1 << 20;

/// The index to read in order, when that is better than sorting.
pub(super) fn walk_index(run: &Run<'_>, cursor: &Cursor<'_>) -> Option<OrderIndex> {
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

/// The rows of one target in order, made one after the other.
struct Stream<'s> {
    target: usize,
    groups: Groups<'s>,
    group: Option<Group<'s>>,
    /// Rows of the document (or ambiguous group) at hand, the next one last.
    ready: Vec<Ready>,
}

/// A row that can be handed out, and what it costs besides its bytes.
struct Ready {
    entry: Entry,
    row: Bytes,
    charge: RequestCharge,
}

/// Fills the page from indexes read in order; gives the last row handed out if there is more.
pub(super) fn walked(
    run: &Run<'_>,
    index: &OrderIndex,
    cursor: &mut Cursor<'_>,
    runtime: &mut Runtime<'_>,
    work: &mut Work,
    page: &mut Page,
) -> Result<Option<Entry>> {
    let start = cursor.start();
    let mut reader = run.source.reader();
    let mut streams = Vec::new();
    for (number, target) in run.source.targets.iter().enumerate() {
        let groups = groups_of(run, index, cursor, &start, target);
        streams.push(Stream { target: number, groups, group: None, ready: Vec::new() });
    }
    let mut last: Option<Entry> = None;
    for stream in &mut streams {
        stream.fill(run, index, cursor, &start, &mut reader, runtime, work)?;
    }
    loop {
        let heads = streams
            .iter()
            .enumerate()
            .filter_map(|(number, stream)| stream.ready.last().map(|ready| (number, &ready.entry)));
        let next = heads.min_by(|left, right| cursor.compare(left.1, right.1));
        let Some(number) = next.map(|(number, _)| number) else { return Ok(None) };
        if cursor.window.take == 0 {
            return Ok(None);
        }
        let before = cursor.window;
        if page.is_full() {
            return Ok(last);
        }
        let Some(ready) = streams[number].ready.pop() else { return Ok(None) };
        if cursor.window.admit() {
            if !page.offer(ready.row) {
                cursor.window = before;
                return Ok(last);
            }
            work.charge += ready.charge;
            last = Some(ready.entry);
        } else {
            work.charge += work.rates.load(run.source.mean_size(ready.entry.target));
        }
        streams[number].fill(run, index, cursor, &start, &mut reader, runtime, work)?;
    }
}

/// Chooses how a target's documents are brought in order.
fn groups_of<'s>(
    run: &'s Run<'s>,
    index: &'s OrderIndex,
    cursor: &Cursor<'_>,
    start: &[Option<Value>],
    target: &'s Target,
) -> Groups<'s> {
    let source = &run.source;
    let range = index.range_from(start);
    let candidates: u64 = source.parts(target, None).iter().map(|plan| plan.size() as u64).sum();
    let wanted = cursor.wanted(run.options.count_max) as u64;
    let steps = wanted.saturating_mul(index.documents(target)) / candidates.max(1);
    if steps > candidates
        && candidates <= HEAP_MAX
        && let Some(groups) = Groups::heap(source, index, target, &range)
    {
        return groups;
    }
    Groups::walk(source, index, target, &range)
}

impl<'s> Stream<'s> {
    /// Makes the next rows, if none is ready.
    #[allow(clippy::too_many_arguments, reason = "they are the state of the page")]
    fn fill(
        &mut self,
        run: &'s Run<'s>,
        index: &OrderIndex,
        cursor: &Cursor<'_>,
        start: &[Option<Value>],
        reader: &mut Reader<'s>,
        runtime: &mut Runtime<'_>,
        work: &mut Work,
    ) -> Result<()> {
        let position = index.position_bytes(start);
        let passed = |value: Option<&[u8]>, epk: &[u8], docno: u64| {
            position.as_ref().is_some_and(|position| position.as_deref() == value)
                && cursor.is_passed(epk, docno)
        };
        while self.ready.is_empty() {
            let Some(group) = &mut self.group else {
                match self.groups.next_group(&passed) {
                    Some(group) => self.group = Some(group),
                    None => return Ok(()),
                }
                continue;
            };
            let ambiguous = group.ambiguous;
            match group.pop() {
                None => self.group = None,
                Some((part, local)) => {
                    self.rows_of(run, cursor, part, local, reader, runtime, work)?;
                    while ambiguous
                        && let Some((part, local)) = self.group.as_mut().and_then(Group::pop)
                    {
                        self.rows_of(run, cursor, part, local, reader, runtime, work)?;
                    }
                    self.ready.sort_by(|left, right| cursor.compare(&right.entry, &left.entry));
                }
            }
        }
        Ok(())
    }

    /// The value of the group, when its documents surely match and each is a row as it is.
    fn whole_value(&self, plan: &Compiled) -> Option<Value> {
        let group = self.group.as_ref().filter(|group| !group.ambiguous)?;
        if !self.groups.is_exact() || !stream::is_whole_item(plan) {
            return None;
        }
        self.groups.known_value(group)
    }

    /// Makes a row of an item without looking into it.
    fn whole_row(
        &mut self,
        cursor: &Cursor<'_>,
        value: Value,
        found: &Found<'_>,
        reader: &Reader<'_>,
        work: &mut Work,
    ) -> Result<()> {
        let entry =
            Entry { values: vec![value], target: self.target, place: found.place(), row: 0 };
        if !cursor.admits(&entry.values, &entry.place.epk, entry.place.docno, 0) {
            return Ok(());
        }
        let record = reader.record(found, work)?;
        work.items_visited += 1;
        let charge = work.rates.load(record.size());
        self.ready.push(Ready { entry, row: record.text(), charge });
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "they are the state of the page")]
    fn rows_of(
        &mut self,
        run: &'s Run<'s>,
        cursor: &Cursor<'_>,
        part: usize,
        local: u32,
        reader: &mut Reader<'s>,
        runtime: &mut Runtime<'_>,
        work: &mut Work,
    ) -> Result<()> {
        let plan = run.plan();
        let view = &run.source.targets[self.target].published.view;
        let document = view.parts()[part].document(local);
        let at = Some((part, local));
        let certainty = Certainty::Open;
        let found = Found { target: self.target, at, document, record: None, certainty };
        if let Some(value) = self.whole_value(plan) {
            return self.whole_row(cursor, value, &found, reader, work);
        }
        let item = reader.load(&found, work)?;
        work.items_visited += 1;
        runtime.document_id = document.docno;
        let place = found.place();
        let whole = stream::is_whole_item(plan);
        let (mut number, mut failed) = (0, None);
        let mut begun = work.moment(runtime);
        let load = work.rates.load(item.size);
        let ready = &mut self.ready;
        let target = self.target;
        let _stopped = visit_rows(plan, &item.value, runtime, &mut |frame, runtime| {
            let row = number;
            number += 1;
            let since = std::mem::replace(&mut begun, work.moment(runtime));
            let Some(values) = order_keys(plan, frame, runtime)? else {
                return Ok(ControlFlow::Continue(()));
            };
            if !cursor.admits(&values, &place.epk, place.docno, row) {
                return Ok(ControlFlow::Continue(()));
            }
            let made = match &item.record {
                Some(record) if whole => Some(Ok(record.text())),
                _ => project(plan, frame, runtime)?.as_ref().map(bounded::row),
            };
            match made {
                None => {}
                Some(Ok(bytes)) => {
                    let charge = match whole && item.record.is_some() {
                        true => load,
                        false => load + row_charge(row, since, runtime, work),
                    };
                    begun = work.moment(runtime);
                    let checked = values.iter().try_for_each(bounded::check);
                    let entry = Entry { values, target, place: place.clone(), row };
                    let held = checked.and_then(|()| work.hold(entry.size() + bytes.len()));
                    if let Err(error) = held {
                        failed = Some(error);
                        return Ok(ControlFlow::Break(()));
                    }
                    work.release(entry.size() + bytes.len());
                    ready.push(Ready { entry, row: bytes, charge });
                }
                Some(Err(error)) => {
                    failed = Some(error);
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })
        .map_err(failure)?;
        failed.map_or(Ok(()), Err)
    }
}
