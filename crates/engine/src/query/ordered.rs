//! ORDER BY: the next rows behind a position, kept in a bounded heap while the items go by.
//!
//! Rows sort by their keys; ties go range by range, and inside a range by ordinal, against it when
//! the first key descends. What is kept of a row is its keys and its place: the row itself is made
//! when it is handed out.

mod cursor;
mod walked;

use super::heap::Smallest;
use super::page::Page;
use super::reader::{Loaded, Reader};
use super::source::{Source, Target};
use super::token::{KeyValue, OrderedPosition, Place, Position, Window};
use super::work::{Work, with_runtime};
use super::{Run, bounded, failure, stream};
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::value::Value;
use armilla_sql::compiled::{Compiled, Projection};
use armilla_sql::eval::{Runtime, order_keys, project, visit_rows};
use bytes::Bytes;
use cursor::Cursor;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::HashMap;
use std::hash::Hasher;
use std::ops::ControlFlow;
use walked::{walk_index, walked};

/// What an entry holds besides its keys, roughly.
const ENTRY_SIZE: usize = 160;
/// Up to so many items are read and sorted without asking for an index in order.
const SORT_MAX: u64 = 64;

/// A row that may be handed out.
#[derive(Clone)]
pub(super) struct Entry {
    values: Vec<Value>,
    target: usize,
    place: Place,
    row: u32,
}

impl Entry {
    fn size(&self) -> usize {
        ENTRY_SIZE + self.values.iter().map(bounded::size).sum::<usize>()
    }
}

/// Answers a page.
pub(super) fn run(run: Run<'_>, work: &mut Work) -> Result<Page> {
    let plan = run.plan();
    let mut cursor = Cursor::begin(&run)?;
    if run.position.is_none() {
        work.charge += run.source.base_charge(None);
    }
    let mut page = Page::new(run.options.count_max);
    let last = with_runtime(&run.source, work, |runtime, work| {
        cursor.sharpen(&run, runtime, work)?;
        if let Some(index) = walk_index(&run, &cursor) {
            return walked(&run, &index, &mut cursor, runtime, work, &mut page);
        }
        let entries = if plan.distinct {
            distinct_entries(&run, &cursor, runtime, work)?
        } else {
            entries(&run, &cursor, runtime, work)?
        };
        hand_out(&run, entries, &mut cursor.window, runtime, work, &mut page)
    })?;
    if run.position.is_none() {
        work.charge += other_ranges(&run, &page);
    }
    page.continuation = last.map(|entry| {
        run.token(&Position::Ordered(position_of(&run.source, &entry), cursor.window))
    });
    Ok(page)
}

/// What the ranges would have handed out besides the merged page: each is charged for as many rows
/// as TOP (or OFFSET and LIMIT) lets it find, whoever merges them.
fn other_ranges(run: &Run<'_>, page: &Page) -> RequestCharge {
    let Window { skip, take } = Window::of(run.plan());
    if take == u64::MAX || run.source.targets.len() < 2 || page.rows.is_empty() {
        return RequestCharge::ZERO;
    }
    let most = skip.saturating_add(take);
    let reader = run.source.reader();
    let bytes: usize = page.rows.iter().map(Bytes::len).sum();
    let row = RequestCharge::output(bytes / page.rows.len());
    let handed_out = page.rows.len() as u64;
    let mut left = handed_out;
    let of = |(number, target): (usize, &Target)| {
        let rows = run.source.candidates_of(target).min(most);
        // The rows of the page are paid for already.
        let paid = left.min(rows);
        left -= paid;
        (RequestCharge::load(reader.mean_size(number)) + row) * (rows - paid)
    };
    run.source.targets.iter().enumerate().map(of).sum()
}

/// Takes a row: its place in the order and, where it is asked for, the row itself.
type Visit<'v> = dyn FnMut(Entry, Option<Value>, &mut Work) -> Result<()> + 'v;

/// Calls a function with every row of every item: its keys and, where it is asked for, the row.
fn each_row(
    run: &Run<'_>,
    runtime: &mut Runtime<'_>,
    work: &mut Work,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let plan = run.plan();
    // A VALUE that is undefined is no row, so it must be known before rows are counted.
    let projects = plan.distinct || matches!(plan.projection, Projection::Value(_));
    let mut reader = if projects {
        run.source.reader()
    } else {
        Reader::new(&run.source, &run.source.prepared.key_references)
    };
    for found in run.source.documents(None) {
        let found = found?;
        let Loaded { value, .. } = reader.load(&found, work)?;
        work.items_visited += 1;
        runtime.document_id = found.document.docno;
        let mut row = 0;
        let mut failed = None;
        let _stopped = visit_rows(plan, &value, runtime, &mut |frame, runtime| {
            let number = row;
            row += 1;
            let Some(values) = order_keys(plan, frame, runtime)? else {
                return Ok(ControlFlow::Continue(()));
            };
            let projected = if projects {
                let Some(projected) = project(plan, frame, runtime)? else {
                    return Ok(ControlFlow::Continue(()));
                };
                Some(projected)
            } else {
                None
            };
            let entry = Entry { values, target: found.target, place: found.place(), row: number };
            let checked = entry.values.iter().try_for_each(bounded::check);
            match checked.and_then(|()| visit(entry, projected, work)) {
                Ok(()) => Ok(ControlFlow::Continue(())),
                Err(error) => {
                    failed = Some(error);
                    Ok(ControlFlow::Break(()))
                }
            }
        })
        .map_err(failure)?;
        failed.map_or(Ok(()), Err)?;
    }
    Ok(())
}

fn entries(
    run: &Run<'_>,
    cursor: &Cursor<'_>,
    runtime: &mut Runtime<'_>,
    work: &mut Work,
) -> Result<Vec<Entry>> {
    let wanted = cursor.wanted(run.options.count_max);
    let mut smallest =
        Smallest::new(wanted, |left: &Entry, right: &Entry| cursor.compare(left, right));
    each_row(run, runtime, work, &mut |entry, _, work| {
        let Place { epk, docno } = &entry.place;
        if cursor.admits(&entry.values, epk, *docno, entry.row) {
            work.hold(entry.size())?;
            let dropped = smallest.push(entry);
            work.release(dropped.iter().map(Entry::size).sum());
        }
        Ok(())
    })?;
    Ok(smallest.into_sorted())
}

/// DISTINCT with an order: each row stands where its first copy stands.
fn distinct_entries(
    run: &Run<'_>,
    cursor: &Cursor<'_>,
    runtime: &mut Runtime<'_>,
    work: &mut Work,
) -> Result<Vec<Entry>> {
    let secret = run.source.container.secret();
    let mut first: HashMap<u128, Entry> = HashMap::new();
    each_row(run, runtime, work, &mut |entry, row, work| {
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
    let behind = |entry: &Entry| {
        cursor.admits(&entry.values, &entry.place.epk, entry.place.docno, entry.row)
    };
    let mut entries: Vec<_> = first.into_values().filter(behind).collect();
    entries.sort_by(|left, right| cursor.compare(left, right));
    entries.truncate(cursor.wanted(run.options.count_max));
    Ok(entries)
}

/// Fills the page with the rows of entries; gives the last one handed out if there is more.
fn hand_out(
    run: &Run<'_>,
    entries: Vec<Entry>,
    window: &mut Window,
    runtime: &mut Runtime<'_>,
    work: &mut Work,
    page: &mut Page,
) -> Result<Option<Entry>> {
    let mut last: Option<Entry> = None;
    let mut loaded: Option<(Place, Loaded)> = None;
    let whole = stream::is_whole_item(run.plan());
    let mut reader = run.source.reader();
    for entry in entries {
        if window.take == 0 {
            return Ok(None);
        }
        let before = *window;
        if !window.admit() {
            continue;
        }
        if page.is_full() {
            *window = before;
            return Ok(last);
        }
        if loaded.as_ref().is_none_or(|(place, _)| *place != entry.place) {
            let found = run.source.find(&entry.place);
            let found = found.ok_or_else(|| Error::Internal("a row lost its item".to_owned()))?;
            let item = if whole {
                let record = reader.record(&found, work)?;
                let size = record.size();
                Loaded { record: Some(record), value: Value::Undefined, size }
            } else {
                reader.load(&found, work)?
            };
            work.charge += RequestCharge::load(item.size);
            loaded = Some((entry.place.clone(), item));
        }
        let Some((_, item)) = &loaded else { continue };
        let Some(row) = make_row(run.plan(), &entry, item, runtime)? else {
            // A condition that throws dice has changed its mind.
            *window = before;
            continue;
        };
        if !page.offer(row) {
            *window = before;
            return Ok(last);
        }
        last = Some(entry);
    }
    Ok(None)
}

fn make_row(
    plan: &Compiled,
    entry: &Entry,
    item: &Loaded,
    runtime: &mut Runtime<'_>,
) -> Result<Option<Bytes>> {
    if let Some(record) = &item.record
        && stream::is_whole_item(plan)
    {
        return Ok(Some(record.text()));
    }
    let (mut number, mut made) = (0, None);
    runtime.document_id = entry.place.docno;
    let _stopped = visit_rows(plan, &item.value, runtime, &mut |frame, runtime| {
        if number == entry.row {
            made = project(plan, frame, runtime)?;
            return Ok(ControlFlow::Break(()));
        }
        number += 1;
        Ok(ControlFlow::Continue(()))
    })
    .map_err(failure)?;
    made.as_ref().map(bounded::row).transpose()
}

fn position_of(source: &Source<'_>, entry: &Entry) -> OrderedPosition {
    let range = &source.targets[entry.target].partition.range;
    OrderedPosition {
        values: KeyValue::shortened(&entry.values),
        min: range.min.clone(),
        max: range.max.clone(),
        place: entry.place.clone(),
        row: entry.row,
    }
}
