//! Top-k: ORDER BY without an index in order. The next rows behind a position are kept in a bounded heap while
//! all candidates go by.
//!
//! Rows sort by their keys; ties go range by range, and inside a range by ordinal, against it when
//! the first key descends. What is kept of a row is its keys and its place: the row itself is made
//! when it is handed out.
//!
//! Where the order is indexed a query pays for the rows it hands out, however many it went through;
//! otherwise, and for DISTINCT, the first page pays for all candidates.

use super::context::{Execution, PageRun, with_runtime};
use super::cursor::Cursor;
use super::heap::TopK;
use super::work::{Checkpoint, Work};
use super::{ordered_scan, workers};
use crate::query::bounded;
use crate::query::charge::{base_charge, may_match};
use crate::query::counters::Charges;
use crate::query::page::Page;
use crate::query::part::{PartRange, PartRow, RowsPart, unreadable};
use crate::query::plan::{Operator, Plan};
use crate::query::prepare::RawProjection;
use crate::query::read::Loaded;
use crate::query::token::{KeyValue, OrderedPosition, Place, Position, Window};
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::error::{Error, Result};
use armilla_model::json;
use armilla_model::value::Value;
use armilla_sql::compiled::{Compiled, Projection};
use armilla_sql::eval::{Runtime, order_keys, project};
use bytes::Bytes;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hasher;
use std::ops::ControlFlow;

/// What an entry holds besides its keys, roughly.
const ENTRY_SIZE: usize = 160;

/// A row that may be handed out.
#[derive(Clone)]
pub(super) struct SortedRow {
    pub(super) values: Vec<Value>,
    pub(super) target: usize,
    pub(super) place: Place,
    pub(super) row: u32,
}

impl SortedRow {
    pub(super) fn size(&self) -> usize {
        ENTRY_SIZE + self.values.iter().map(bounded::size).sum::<usize>()
    }
}

/// Answers a page of an ordered query.
pub(super) fn run(run: &PageRun<'_>, work: &mut Work) -> Result<Page> {
    let mut cursor = Cursor::begin(run)?;
    let mut page = Page::new(run.plan.count_max);
    let last = fill(run, &mut cursor, work, &mut page)?;
    if run.plan.position.is_none() {
        charge(run, work);
        if run.plan.pays_by_row {
            let count = run.plan.view.ranges.len();
            let rates = work.rates.clone();
            let of = |range| (may_match(run.plan, range), mean_load(run, range, &rates));
            work.charges.items +=
                other_ranges(run, &page, &rates, count, || (0..count).map(of).collect());
        }
    }
    page.continuation = last
        .map(|entry| run.token(&Position::Ordered(position_of(run.plan, &entry), cursor.window)));
    Ok(page)
}

/// The next rows of a part, for a page that is put together of parts.
pub(super) fn part(run: &PageRun<'_>, work: &mut Work) -> Result<RowsPart> {
    let mut cursor = Cursor::begin(run)?;
    let was_inexact = cursor.is_inexact();
    let mut page = Page::new(run.plan.count_max);
    work.part = Some(RowsPart::default());
    let last = fill(run, &mut cursor, work, &mut page)?;
    let is_first = run.plan.position.is_none();
    if is_first {
        charge(run, work);
    }
    let counts = is_first && run.plan.pays_by_row && Window::of(run.compiled()).take != u64::MAX;
    let mut part = work.part.take().unwrap_or_default();
    part.more = last.is_some() || page.rows.len() >= run.plan.count_max;
    part.exact = if was_inexact { cursor.exact_values() } else { None };
    part.ranges = (0..run.plan.view.ranges.len())
        .map(|number| {
            let range = &run.plan.view.ranges[number].partition.range;
            PartRange {
                min: range.min.clone(),
                max: range.max.clone(),
                may_match: if counts { may_match(run.plan, number) } else { 0 },
                load: mean_load(run, number, &work.rates),
            }
        })
        .collect();
    Ok(part)
}

/// Puts a page together of parts, which are in the order of their keys.
pub(super) fn merge(run: &PageRun<'_>, mut parts: Vec<RowsPart>, work: &mut Work) -> Result<Page> {
    let mut cursor = Cursor::begin(run)?;
    if cursor.is_inexact() {
        if let Some(exact) = parts.iter_mut().find_map(|part| part.exact.take()) {
            cursor.make_exact(exact);
        }
        let cursor = &cursor;
        for part in &mut parts {
            part.rows
                .retain(|row| cursor.admits(&row.values, &row.place.epk, row.place.docno, row.row));
        }
    }
    let mut page = Page::new(run.plan.count_max);
    let last = merge_rows(run, &mut cursor, &mut parts, work, &mut page)?;
    if run.plan.position.is_none() && run.plan.pays_by_row {
        let ranges: Vec<_> = parts.iter().flat_map(|part| &part.ranges).collect();
        let of = |range: &&PartRange| (range.may_match, range.load);
        work.charges.items +=
            other_ranges(run, &page, &work.rates, ranges.len(), || ranges.iter().map(of).collect());
    }
    page.continuation = last.map(|position| run.token(&Position::Ordered(position, cursor.window)));
    Ok(page)
}

/// Fills the page with the next rows of all parts; gives the place of the last one that was taken if there is more.
fn merge_rows(
    run: &PageRun<'_>,
    cursor: &mut Cursor<'_>,
    parts: &mut [RowsPart],
    work: &mut Work,
    page: &mut Page,
) -> Result<Option<OrderedPosition>> {
    let is_distinct = run.compiled().distinct;
    let mut seen: HashSet<u128> = parts.iter().flat_map(|part| &part.passed).copied().collect();
    let mut queues: Vec<VecDeque<PartRow>> =
        parts.iter_mut().map(|part| std::mem::take(&mut part.rows).into()).collect();
    let mut last: Option<(usize, PartRow)> = None;
    // A copy of an earlier row behind the last one.
    let mut copy: Option<(usize, PartRow)> = None;
    let more = loop {
        if cursor.window.take == 0 {
            break false;
        }
        // What a part has behind its last row may come next.
        if queues.iter().zip(&*parts).any(|(queue, part)| queue.is_empty() && part.more) {
            last = copy.or(last);
            break true;
        }
        let heads = queues.iter().enumerate().filter_map(|(at, queue)| Some((at, queue.front()?)));
        let next = heads
            .min_by(|(_, left), (_, right)| cursor.compare_values(&left.values, &right.values));
        let Some(number) = next.map(|(number, _)| number) else { break false };
        let Some(mut row) = queues[number].pop_front() else { break false };
        if is_distinct {
            let value = json::parse(&row.text).map_err(|_| unreadable())?;
            if !seen.insert(hash_of(&value, run.query.container.secret())) {
                copy = Some((number, row));
                continue;
            }
        }
        let before = cursor.window;
        if page.is_full() {
            break true;
        }
        if !cursor.window.admit() {
            if run.plan.pays_by_row {
                work.charges.items += parts[number].ranges[row.range].load;
            }
        } else if page.offer(std::mem::take(&mut row.text)) {
            work.charges += row.charges;
        } else {
            cursor.window = before;
            break true;
        }
        (last, copy) = (Some((number, row)), None);
    };
    if !more {
        return Ok(None);
    }
    let Some((number, row)) = last else { return Err(stuck()) };
    let PartRange { min, max, .. } = &parts[number].ranges[row.range];
    Ok(Some(OrderedPosition {
        values: KeyValue::shortened(&row.values),
        min: min.clone(),
        max: max.clone(),
        place: row.place,
        row: row.row,
    }))
}

/// More rows begin with the same long values than a part can hold, and the item that told them apart is gone.
fn stuck() -> Error {
    Error::bad_request(
        "The continuation token names a place between values that are too long to be told apart: begin the query anew.",
    )
}

/// Fills the page; gives the last row that was handed out if there is more.
fn fill(
    run: &PageRun<'_>,
    cursor: &mut Cursor<'_>,
    work: &mut Work,
    page: &mut Page,
) -> Result<Option<SortedRow>> {
    with_runtime(run.query, work, |execution| {
        cursor.sharpen(run, execution)?;
        if let Operator::OrderedScan(index) = &run.plan.operator {
            return ordered_scan::fill(run, index, cursor, execution, page);
        }
        let entries = if run.compiled().distinct {
            distinct_entries(run, cursor, execution)?
        } else {
            entries(run, cursor, execution)?
        };
        hand_out(run, entries, &mut cursor.window, execution, page)
    })
}

/// Charges what the first page pays for all of them, but for rows of ranges that are not handed out.
fn charge(run: &PageRun<'_>, work: &mut Work) {
    if run.plan.pays_by_row {
        let base = |range| base_charge(run.plan, range, &work.rates);
        let bases = (0..run.plan.view.ranges.len()).map(base).sum::<RequestCharge>();
        work.charges.ranges += bases;
        return;
    }
    work.settle_whole(run.plan);
    if run.compiled().distinct {
        work.charges.aggregation += work.rates.aggregate_item * work.bill.matched();
    }
}

/// What reading an item of a range costs in the mean.
fn mean_load(run: &PageRun<'_>, range: usize, rates: &Rates) -> RequestCharge {
    rates.load(run.plan.view.mean_size(range))
}

/// What the ranges would have handed out besides the rows that are merged: each is charged for as
/// many rows as TOP (or OFFSET and LIMIT) lets it find, whoever merges them. Of each range: how many rows may match, and what
/// reading one costs.
fn other_ranges(
    run: &PageRun<'_>,
    page: &Page,
    rates: &Rates,
    count: usize,
    ranges: impl FnOnce() -> Vec<(u64, RequestCharge)>,
) -> RequestCharge {
    let Window { skip, take } = Window::of(run.compiled());
    if take == u64::MAX || count < 2 || page.rows.is_empty() {
        return RequestCharge::ZERO;
    }
    let most = skip.saturating_add(take);
    let row = rates.output(page.size() / page.rows.len());
    let ranges = ranges();
    // The rows that are merged are paid for as they are handed out.
    let mut merged = most.min(ranges.iter().map(|(rows, _)| (*rows).min(most)).sum());
    let of = |(rows, load): &(u64, RequestCharge)| {
        let rows = (*rows).min(most);
        let paid = merged.min(rows);
        merged -= paid;
        (*load + row) * (rows - paid)
    };
    ranges.iter().map(of).sum()
}

/// Takes a row: its place in the order and, where it is asked for, the row itself.
type Visit<'v> = dyn FnMut(SortedRow, Option<Value>, &mut Work) -> Result<()> + 'v;

/// Calls a function with every row of every item: its keys and, where it is asked for, the row.
fn each_row(run: &PageRun<'_>, execution: &mut Execution<'_>, visit: &mut Visit<'_>) -> Result<()> {
    let plan = run.compiled();
    let counted = run.plan.position.is_none() && !run.plan.pays_by_row;
    // A VALUE that is undefined is no row, so it must be known before rows are counted.
    let copied = run.query.prepared.raw.is_some();
    let projects = plan.distinct || (matches!(plan.projection, Projection::Value(_)) && !copied);
    let mut reader = if projects { run.items.reader() } else { run.items.key_reader() };
    for found in run.items.documents() {
        let found = found?;
        let Loaded { value, size, .. } = reader.load(&found, &mut execution.work.loads)?;
        execution.work.items_visited += 1;
        execution.runtime.document_id = found.document.docno;
        let mut row = 0;
        let begun = execution.checkpoint();
        execution.visit_rows(plan, &value, &mut |frame, runtime, work| {
            let number = row;
            row += 1;
            let values = order_keys(plan, frame, runtime)?;
            let mut projected = None;
            if projects {
                projected = project(plan, frame, runtime)?;
                if projected.is_none() {
                    return Ok(ControlFlow::Continue(()));
                }
            }
            let entry =
                SortedRow { values, target: found.target, place: found.place(), row: number };
            entry.values.iter().try_for_each(bounded::check)?;
            visit(entry, projected, work)?;
            Ok(ControlFlow::Continue(()))
        })?;
        if counted {
            execution.item_done(found.target, (row > 0).then_some(size), begun);
        }
    }
    Ok(())
}

/// The first rows behind the position in order.
fn entries(
    run: &PageRun<'_>,
    cursor: &Cursor<'_>,
    execution: &mut Execution<'_>,
) -> Result<Vec<SortedRow>> {
    let of_share =
        |run: &PageRun<'_>, execution: &mut Execution<'_>| smallest(run, cursor, execution);
    match workers::by_items(run, execution, of_share) {
        Some(shares) => Ok(first_of(shares.concat(), run, cursor)),
        None => of_share(run, execution),
    }
}

/// The first of many rows in order.
fn first_of(mut entries: Vec<SortedRow>, run: &PageRun<'_>, cursor: &Cursor<'_>) -> Vec<SortedRow> {
    entries.sort_by(|left, right| cursor.compare(left, right));
    entries.truncate(cursor.wanted(run.plan.count_max));
    entries
}

fn smallest(
    run: &PageRun<'_>,
    cursor: &Cursor<'_>,
    execution: &mut Execution<'_>,
) -> Result<Vec<SortedRow>> {
    let wanted = cursor.wanted(run.plan.count_max);
    let mut smallest =
        TopK::new(wanted, |left: &SortedRow, right: &SortedRow| cursor.compare(left, right));
    each_row(run, execution, &mut |entry, _, work| {
        let Place { epk, docno } = &entry.place;
        if cursor.admits(&entry.values, epk, *docno, entry.row) {
            work.hold(entry.size())?;
            let dropped = smallest.push(entry);
            work.release(dropped.iter().map(SortedRow::size).sum());
        }
        Ok(())
    })?;
    Ok(smallest.into_sorted())
}

/// DISTINCT with an order: each row stands where its first copy stands.
fn distinct_entries(
    run: &PageRun<'_>,
    cursor: &Cursor<'_>,
    execution: &mut Execution<'_>,
) -> Result<Vec<SortedRow>> {
    let of_share =
        |run: &PageRun<'_>, execution: &mut Execution<'_>| first_copies(run, cursor, execution);
    let mut shares = match workers::by_items(run, execution, of_share) {
        Some(shares) => shares.into_iter(),
        None => vec![of_share(run, execution)?].into_iter(),
    };
    let mut first = shares.next().unwrap_or_default();
    for (key, entry) in shares.flatten() {
        match first.entry(key) {
            Slot::Vacant(slot) => drop(slot.insert(entry)),
            Slot::Occupied(mut slot) if cursor.compare(&entry, slot.get()).is_lt() => {
                slot.insert(entry);
            }
            Slot::Occupied(_) => {}
        }
    }
    let behind = |entry: &SortedRow| {
        cursor.admits(&entry.values, &entry.place.epk, entry.place.docno, entry.row)
    };
    if let Some(part) = &mut execution.work.part {
        let passed = first.iter().filter(|(_, entry)| !behind(entry));
        part.passed = passed.map(|(hash, _)| *hash).collect();
    }
    let entries = first.into_values().filter(behind).collect();
    Ok(first_of(entries, run, cursor))
}

/// The first copy of each row, by a hash of the row.
fn first_copies(
    run: &PageRun<'_>,
    cursor: &Cursor<'_>,
    execution: &mut Execution<'_>,
) -> Result<HashMap<u128, SortedRow>> {
    let secret = run.query.container.secret();
    let mut first: HashMap<u128, SortedRow> = HashMap::new();
    each_row(run, execution, &mut |entry, row, work| {
        let row = row.unwrap_or_default();
        bounded::check(&row)?;
        let key = hash_of(&row, secret);
        match first.get_mut(&key) {
            Some(known) if cursor.compare(&entry, known).is_lt() => *known = entry,
            Some(_) => {}
            None => {
                work.hold(entry.size())?;
                first.insert(key, entry);
            }
        }
        Ok(())
    })?;
    Ok(first)
}

fn hash_of(row: &Value, secret: (u64, u64)) -> u128 {
    let mut hasher = SipHasher13::new_with_keys(secret.0, secret.1);
    hasher.write(&armilla_sql::key::key(row));
    hasher.finish128().as_u128()
}

/// Fills the page with the rows of entries; gives the last one handed out if there is more.
fn hand_out(
    run: &PageRun<'_>,
    entries: Vec<SortedRow>,
    window: &mut Window,
    execution: &mut Execution<'_>,
    page: &mut Page,
) -> Result<Option<SortedRow>> {
    let mut last: Option<SortedRow> = None;
    let mut loaded: Option<(Place, Loaded)> = None;
    let raw = run.query.prepared.raw.as_ref();
    run.items.read_anywhere();
    let mut reader = run.items.reader();
    let by_row = run.plan.pays_by_row;
    for entry in entries {
        if window.take == 0 {
            return Ok(None);
        }
        let before = *window;
        if !window.admit() {
            if by_row {
                let mean = run.plan.view.mean_size(entry.target);
                execution.work.charges.items += execution.work.rates.load(mean);
            }
            continue;
        }
        if page.is_full() {
            *window = before;
            return Ok(last);
        }
        if loaded.as_ref().is_none_or(|(place, _)| *place != entry.place) {
            let found = run.items.find(&entry.place);
            let found = found.ok_or_else(|| {
                Error::Internal(format!("the item of a sorted row is gone: {}", entry.place.docno))
            })?;
            let item = if raw.is_some() {
                let record = reader.record(&found, &mut execution.work.loads)?;
                let size = record.size();
                Loaded { record: Some(record), value: Value::Undefined, size }
            } else {
                reader.load(&found, &mut execution.work.loads)?
            };
            loaded = Some((entry.place.clone(), item));
        }
        let Some((_, item)) = &loaded else { continue };
        let Some((row, evaluated)) = make_row(run.compiled(), raw, &entry, item, execution)? else {
            // A condition that throws dice has changed its mind.
            *window = before;
            continue;
        };
        if !page.offer(row) {
            *window = before;
            return Ok(last);
        }
        let charges = match by_row {
            true => Charges {
                items: execution.work.rates.load(item.size),
                evaluation: evaluated,
                ..Charges::default()
            },
            false => Charges::default(),
        };
        execution.work.hand_out(&entry, charges, page);
        last = Some(entry);
    }
    Ok(None)
}

/// The row of an entry, and what was evaluated for it.
fn make_row(
    plan: &Compiled,
    raw: Option<&RawProjection>,
    entry: &SortedRow,
    item: &Loaded,
    execution: &mut Execution<'_>,
) -> Result<Option<(Bytes, RequestCharge)>> {
    if let Some((raw, record)) = raw.zip(item.record.as_ref()) {
        return Ok(Some((raw.row(record.clone())?, RequestCharge::ZERO)));
    }
    let (mut number, mut made) = (0, None);
    let mut begun = execution.checkpoint();
    execution.runtime.document_id = entry.place.docno;
    execution.visit_rows(plan, &item.value, &mut |frame, runtime, work| {
        if number == entry.row {
            made = project(plan, frame, runtime)?;
            return Ok(ControlFlow::Break(()));
        }
        number += 1;
        begun = work.checkpoint(runtime);
        Ok(ControlFlow::Continue(()))
    })?;
    let evaluated = row_charge(entry.row, begun, &execution.runtime, execution.work);
    made.as_ref().map(|row| Ok((bounded::row(row)?, evaluated))).transpose()
}

/// What was evaluated for a row since the one before it: a row that is not an item's first is one
/// more of a JOIN.
pub(super) fn row_charge(
    row: u32,
    begun: Checkpoint,
    runtime: &Runtime<'_>,
    work: &Work,
) -> RequestCharge {
    let further = if row > 0 { work.rates.inner_row } else { RequestCharge::ZERO };
    work.evaluated_since(begun, runtime) + further
}

fn position_of(plan: &Plan, entry: &SortedRow) -> OrderedPosition {
    let range = &plan.view.ranges[entry.target].partition.range;
    OrderedPosition {
        values: KeyValue::shortened(&entry.values),
        min: range.min.clone(),
        max: range.max.clone(),
        place: entry.place.clone(),
        row: entry.row,
    }
}
