//! ORDER BY: the next rows behind a position, kept in a bounded heap while the items go by.
//!
//! Rows sort by their keys; ties go range by range, and inside a range by ordinal, against it when
//! the first key descends. What is kept of a row is its keys and its place: the row itself is made
//! when it is handed out.

use super::heap::Smallest;
use super::page::Page;
use super::reader::{Loaded, Reader};
use super::request::{ResumeFilter, ResumeValue};
use super::source::{Found, Source, Target};
use super::token::{KeyValue, OrderedPosition, Place, Position, Window};
use super::walk::{Group, Groups, OrderIndex};
use super::work::{Work, with_runtime};
use super::{Run, bounded, descends, failure, stream};
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::Epk;
use armilla_model::value::Value;
use armilla_sql::compiled::{Compiled, Order, OrderKey, Projection};
use armilla_sql::eval::{Runtime, compare_keys, order_keys, project, visit_rows};
use bytes::Bytes;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::Hasher;
use std::ops::ControlFlow;

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
    page.continuation = last.map(|entry| {
        run.token(&Position::Ordered(position_of(&run.source, &entry), cursor.window))
    });
    Ok(page)
}

/// The index to read in order, when that is better than sorting.
fn walk_index(run: &Run<'_>, cursor: &Cursor<'_>) -> Option<OrderIndex> {
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

/// Where the page begins.
pub(super) struct Cursor<'a> {
    keys: &'a [OrderKey],
    descending: bool,
    after: Option<OrderedPosition>,
    resume: Option<&'a ResumeFilter>,
    window: Window,
}

impl<'a> Cursor<'a> {
    fn begin(run: &'a Run<'_>) -> Result<Self> {
        let plan = run.plan();
        let Order::Keys { keys, .. } = &plan.order else {
            return Err(Error::Internal("an ordered query has no order".to_owned()));
        };
        let resume = run.request.resume.as_ref();
        if resume.is_some_and(|resume| resume.values.len() != keys.len()) {
            return Err(Error::bad_request("'resumeFilter' needs one value per ORDER BY key."));
        }
        let (after, window) = match &run.position {
            None => (None, Window::of(plan)),
            Some(Position::Ordered(after, window)) if after.values.len() == keys.len() => {
                (Some(after.clone()), *window)
            }
            Some(_) => {
                return Err(Error::bad_request("The continuation token is of another query."));
            }
        };
        Ok(Self { keys, descending: descends(plan), after, resume, window })
    }

    /// Replaces values that were too long for the token by those of the last item, if it is there.
    fn sharpen(&mut self, run: &Run<'_>, runtime: &mut Runtime<'_>, work: &mut Work) -> Result<()> {
        let Some(after) = &mut self.after else { return Ok(()) };
        if after.values.iter().all(KeyValue::is_exact) {
            return Ok(());
        }
        let Some(found) = run.source.find(&after.place) else { return Ok(()) };
        let loaded = run.source.reader().load(&found, work)?;
        let mut row = 0;
        let mut values = None;
        let wanted = after.row;
        let _stopped = visit_rows(run.plan(), &loaded.value, runtime, &mut |frame, runtime| {
            if row == wanted {
                values = order_keys(run.plan(), frame, runtime)?;
                return Ok(ControlFlow::Break(()));
            }
            row += 1;
            Ok(ControlFlow::Continue(()))
        })
        .map_err(failure)?;
        // Another state of the item is another position.
        let same = |values: &Vec<Value>| {
            after.values.iter().zip(values).all(|(known, value)| known.compare(value).is_eq())
        };
        if let Some(values) = values.filter(same) {
            after.values = values.into_iter().map(KeyValue::Exact).collect();
        }
        Ok(())
    }

    /// True when a row lies behind the position and is not yet handed out.
    fn admits(&self, values: &[Value], epk: &Epk, docno: u64, row: u32) -> bool {
        let behind_token = self
            .after
            .as_ref()
            .is_none_or(|after| self.compare_position(after, values, epk, docno, row).is_gt());
        behind_token && self.resume.is_none_or(|resume| self.is_resumed(resume, values, docno))
    }

    fn directed(&self, key: &OrderKey, order: Ordering) -> Ordering {
        if key.descending { order.reverse() } else { order }
    }

    fn tie(&self, order: Ordering) -> Ordering {
        if self.descending { order.reverse() } else { order }
    }

    /// The values of the position, as far as they are known.
    fn start(&self) -> Vec<Option<Value>> {
        if let Some(after) = &self.after {
            let known = |value: &KeyValue| match value {
                KeyValue::Exact(value) => Some(value.clone()),
                _ => None,
            };
            return after.values.iter().map(known).collect();
        }
        let known = |value: &ResumeValue| match value {
            ResumeValue::Exact(value) => Some(value.clone()),
            ResumeValue::OfType(_) => None,
        };
        self.resume.map(|resume| resume.values.iter().map(known).collect()).unwrap_or_default()
    }

    /// True when a document with the values of the position was handed out before it.
    fn is_passed(&self, epk: &[u8], docno: u64) -> bool {
        let Some(after) = &self.after else { return false };
        if epk < after.min.as_bytes() {
            return true;
        }
        let behind = after.max.as_ref().is_some_and(|max| max.as_bytes() <= epk);
        !behind && self.tie(docno.cmp(&after.place.docno)).is_lt()
    }

    fn compare_position(
        &self,
        after: &OrderedPosition,
        values: &[Value],
        epk: &Epk,
        docno: u64,
        row: u32,
    ) -> Ordering {
        for ((known, value), key) in after.values.iter().zip(values).zip(self.keys) {
            let order = self.directed(key, known.compare(value));
            if order.is_ne() {
                return order;
            }
        }
        if *epk < after.min {
            return Ordering::Less;
        }
        if after.max.as_ref().is_some_and(|max| max <= epk) {
            return Ordering::Greater;
        }
        self.tie(docno.cmp(&after.place.docno).then(row.cmp(&after.row)))
    }

    fn is_resumed(&self, resume: &ResumeFilter, values: &[Value], docno: u64) -> bool {
        for ((known, value), key) in resume.values.iter().zip(values).zip(self.keys) {
            let order = match known {
                ResumeValue::Exact(known) => value.order(known),
                ResumeValue::OfType(kind) => value.kind().cmp(kind),
            };
            match self.directed(key, order) {
                Ordering::Less => return false,
                Ordering::Greater => return true,
                Ordering::Equal => {}
            }
        }
        match resume.docno {
            _ if resume.exclude => false,
            Some(known) => self.tie(docno.cmp(&known)).is_gt(),
            None => true,
        }
    }

    pub(super) fn compare(&self, left: &Entry, right: &Entry) -> Ordering {
        compare_keys(&left.values, &right.values, self.keys)
            .then_with(|| left.target.cmp(&right.target))
            .then_with(|| {
                let left = (left.place.docno, left.row);
                self.tie(left.cmp(&(right.place.docno, right.row)))
            })
    }

    /// Rows that can be handed out at most, those to be skipped included, and one to know of more.
    fn wanted(&self, count_max: usize) -> usize {
        let page = self.window.take.min(count_max.max(1) as u64 + 1);
        usize::try_from(self.window.skip.saturating_add(page)).unwrap_or(usize::MAX)
    }
}

/// Calls a function with every row of every item: its keys and, where it is asked for, the row.
fn each_row(
    run: &Run<'_>,
    runtime: &mut Runtime<'_>,
    work: &mut Work,
    visit: &mut dyn FnMut(Entry, Option<Value>, &mut Work) -> Result<()>,
) -> Result<()> {
    let plan = run.plan();
    // A VALUE that is undefined is no row, so it must be known before rows are counted.
    let projects = plan.distinct || matches!(plan.projection, Projection::Value(_));
    let mut reader = run.source.reader();
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
            let item = reader.load(&found, work)?;
            work.charge += RequestCharge::load(item.size);
            loaded = Some((entry.place.clone(), item));
        }
        let Some((_, item)) = &loaded else { continue };
        let row = make_row(run.plan(), &entry, item, runtime)?;
        if !page.offer(row) {
            *window = before;
            return Ok(last);
        }
        last = Some(entry);
    }
    Ok(None)
}

/// The rows of one target in order, made one after the other.
struct Stream<'s> {
    target: usize,
    groups: Groups<'s>,
    group: Option<Group<'s>>,
    /// Rows of the document (or ambiguous group) at hand, the next one last.
    ready: Vec<(Entry, Bytes)>,
}

/// Fills the page from indexes read in order; gives the last row handed out if there is more.
fn walked(
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
            .filter_map(|(number, stream)| stream.ready.last().map(|(entry, _)| (number, entry)));
        let next = heads.min_by(|left, right| cursor.compare(left.1, right.1));
        let Some(number) = next.map(|(number, _)| number) else { return Ok(None) };
        if cursor.window.take == 0 {
            return Ok(None);
        }
        let before = cursor.window;
        if page.is_full() {
            return Ok(last);
        }
        let Some((entry, row)) = streams[number].ready.pop() else { return Ok(None) };
        if cursor.window.admit() {
            if !page.offer(row) {
                cursor.window = before;
                return Ok(last);
            }
            last = Some(entry);
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
                    self.ready.sort_by(|left, right| cursor.compare(&right.0, &left.0));
                }
            }
        }
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
        let found = Found { target: self.target, at: Some((part, local)), document, record: None };
        let item = reader.load(&found, work)?;
        work.items_visited += 1;
        runtime.document_id = document.docno;
        let place = found.place();
        let whole = stream::is_whole_item(plan);
        let (mut number, mut failed, mut matched) = (0, None, false);
        let ready = &mut self.ready;
        let target = self.target;
        let _stopped = visit_rows(plan, &item.value, runtime, &mut |frame, runtime| {
            let row = number;
            number += 1;
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
                    matched = true;
                    let checked = values.iter().try_for_each(bounded::check);
                    let entry = Entry { values, target, place: place.clone(), row };
                    let held = checked.and_then(|()| work.hold(entry.size() + bytes.len()));
                    if let Err(error) = held {
                        failed = Some(error);
                        return Ok(ControlFlow::Break(()));
                    }
                    work.release(entry.size() + bytes.len());
                    ready.push((entry, bytes));
                }
                Some(Err(error)) => {
                    failed = Some(error);
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })
        .map_err(failure)?;
        if matched {
            work.charge += RequestCharge::load(item.size);
        }
        failed.map_or(Ok(()), Err)
    }
}

fn make_row(
    plan: &Compiled,
    entry: &Entry,
    item: &Loaded,
    runtime: &mut Runtime<'_>,
) -> Result<Bytes> {
    if let Some(record) = &item.record
        && stream::is_whole_item(plan)
    {
        return Ok(record.text());
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
    let row = made.ok_or_else(|| Error::Internal("a row came out differently".to_owned()))?;
    bounded::row(&row)
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
