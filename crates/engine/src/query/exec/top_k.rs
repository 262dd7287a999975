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
use crate::query::page::Page;
use crate::query::plan::{Operator, Plan};
use crate::query::prepare::RawProjection;
use crate::query::read::Loaded;
use crate::query::token::{KeyValue, OrderedPosition, Place, Position, Window};
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::error::{Error, Result};
use armilla_model::value::Value;
use armilla_sql::compiled::{Compiled, Projection};
use armilla_sql::eval::{Runtime, order_keys, project};
use bytes::Bytes;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
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
    let compiled = run.compiled();
    let mut cursor = Cursor::begin(run)?;
    let mut page = Page::new(run.plan.count_max);
    let last = with_runtime(run.query, work, |execution| {
        cursor.sharpen(run, execution)?;
        if let Operator::OrderedScan(index) = &run.plan.operator {
            return ordered_scan::fill(run, index, &mut cursor, execution, &mut page);
        }
        let entries = if compiled.distinct {
            distinct_entries(run, &cursor, execution)?
        } else {
            entries(run, &cursor, execution)?
        };
        hand_out(run, entries, &mut cursor.window, execution, &mut page)
    })?;
    if run.plan.position.is_none() {
        charge(run, &page, work);
    }
    page.continuation = last
        .map(|entry| run.token(&Position::Ordered(position_of(run.plan, &entry), cursor.window)));
    Ok(page)
}

/// Charges what the first page pays for all of them.
fn charge(run: &PageRun<'_>, page: &Page, work: &mut Work) {
    if run.plan.pays_by_row {
        let base = |range| base_charge(run.plan, range, &work.rates);
        let bases = (0..run.plan.view.ranges.len()).map(base).sum::<RequestCharge>();
        work.charges.ranges += bases;
        work.charges.items += other_ranges(run, page, &work.rates);
        return;
    }
    work.settle_whole(run.plan);
    if run.compiled().distinct {
        work.charges.aggregation += work.rates.aggregate_item * work.bill.matched();
    }
}

/// What the ranges would have handed out besides the rows that are merged: each is charged for as
/// many rows as TOP (or OFFSET and LIMIT) lets it find, whoever merges them.
fn other_ranges(run: &PageRun<'_>, page: &Page, rates: &Rates) -> RequestCharge {
    let Window { skip, take } = Window::of(run.compiled());
    let ranges = run.plan.view.ranges.len();
    if take == u64::MAX || ranges < 2 || page.rows.is_empty() {
        return RequestCharge::ZERO;
    }
    let most = skip.saturating_add(take);
    let row = rates.output(page.size() / page.rows.len());
    let rows: Vec<u64> = (0..ranges).map(|range| may_match(run.plan, range).min(most)).collect();
    // The rows that are merged are paid for as they are handed out.
    let mut merged = most.min(rows.iter().sum());
    let of = |(range, rows): (usize, &u64)| {
        let paid = merged.min(*rows);
        merged -= paid;
        (rates.load(run.plan.view.mean_size(range)) + row) * (rows - paid)
    };
    rows.iter().enumerate().map(of).sum()
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
        let mut hasher = SipHasher13::new_with_keys(secret.0, secret.1);
        hasher.write(&armilla_sql::key::key(&row));
        let key = hasher.finish128().as_u128();
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
        execution.work.bill.handed_out(entry.target, 1);
        if by_row {
            execution.work.charges.items += execution.work.rates.load(item.size);
            execution.work.charges.evaluation += evaluated;
        }
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
        return Ok(Some((raw.row(record)?, RequestCharge::ZERO)));
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
