//! Groups: aggregates, GROUP BY and DISTINCT, the next groups behind a key.
//!
//! Groups (and distinct rows) come out in the order of their keys, so that a token needs to hold
//! only the last one, and so that a page needs to keep only as many as it can hand out: a group
//! beyond those is dropped as soon as enough smaller ones are known.

use super::context::{Execution, PageRun, with_runtime};
use super::work::Work;
use super::{index_aggregate, min_max, workers};
use crate::indexing::write_joined;
use crate::query::bounded;
use crate::query::charge::may_match;
use crate::query::counters::Charges;
use crate::query::page::Page;
use crate::query::part::{GroupsPart, PartGroup};
use crate::query::plan::{IndexAggregate, Operator};
use crate::query::token::{GroupKey, KEY_PREFIX_MAX, Position, Window};
use armilla_model::error::{Error, Result};
use armilla_model::ordered;
use armilla_model::value::Value;
use armilla_sql::aggregate::{Accumulator, AggregateKind, Group};
use armilla_sql::compiled::{Aggregation, Compiled};
use armilla_sql::eval::{Frame, Runtime, evaluate, project, project_group};
use bytes::Bytes;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::Hasher;
use std::ops::ControlFlow;

/// What a group holds besides its values, roughly.
const GROUP_SIZE: usize = 256;

/// Answers a page.
pub(super) fn run(run: &PageRun<'_>, work: &mut Work) -> Result<Page> {
    let (mut groups, window) = begin(run)?;
    let page = with_runtime(run.query, work, |execution| {
        gather(run, &mut groups, execution)?;
        page_of(run, groups, window, execution)
    })?;
    charge(run, work);
    Ok(page)
}

/// The next groups of a part, for a page that is put together of parts.
pub(super) fn part(run: &PageRun<'_>, work: &mut Work) -> Result<GroupsPart> {
    let (mut groups, _) = begin(run)?;
    with_runtime(run.query, work, |execution| gather(run, &mut groups, execution))?;
    charge(run, work);
    let sent = |(key, content)| match content {
        Content::Group(group) => (key, PartGroup::Group(group)),
        Content::Row(row) => (key, PartGroup::Row(row)),
    };
    Ok(GroupsPart { groups: groups.map.into_iter().map(sent).collect(), more: groups.left_out })
}

/// Puts a page together of parts, which are in the order of their keys.
pub(super) fn merge(run: &PageRun<'_>, parts: Vec<GroupsPart>, work: &mut Work) -> Result<Page> {
    let (mut groups, window) = begin(run)?;
    // Nobody knows what lies behind the last group of a part that has more.
    let ends = parts.iter().filter(|part| part.more).filter_map(|part| part.groups.last());
    let end = ends.map(|(key, _)| key.clone()).min();
    for part in parts {
        let mut own = groups.empty();
        own.left_out = part.more;
        for (key, group) in part.groups {
            let content = match group {
                PartGroup::Group(group) => Content::Group(group),
                PartGroup::Row(row) => Content::Row(row),
            };
            work.hold(content.size())?;
            own.map.insert(key, content);
        }
        groups.merge(own, work);
    }
    if let Some(end) = end {
        groups.map.retain(|key, _| *key <= end);
    }
    with_runtime(run.query, work, |execution| page_of(run, groups, window, execution))
}

/// A table without groups, and the rows that are wanted of it.
fn begin(run: &PageRun<'_>) -> Result<(GroupTable, Window)> {
    let (after, window) = match &run.plan.position {
        None => (None, Window::of(run.compiled())),
        Some(Position::Key(key, window)) => (Some(key.clone()), *window),
        Some(_) => {
            return Err(Error::bad_request("The continuation token is of another query."));
        }
    };
    let wanted = window.skip.saturating_add(window.take.min(run.plan.count_max.max(1) as u64));
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).saturating_add(1);
    Ok((GroupTable::new(after, wanted, run.query.container.secret()), window))
}

/// Makes the page of all groups that are wanted.
fn page_of(
    run: &PageRun<'_>,
    mut groups: GroupTable,
    mut window: Window,
    execution: &mut Execution<'_>,
) -> Result<Page> {
    let compiled = run.compiled();
    let mut page = Page::new(run.plan.count_max);
    if let Some(aggregation) = &compiled.aggregation
        && !aggregation.grouped
    {
        page.free_of_output();
        groups.group(&[], aggregation, execution.work)?;
    }
    let last = hand_out(compiled, groups, &mut window, execution, &mut page)?;
    page.continuation = last.map(|key| run.token(&Position::Key(key, window)));
    Ok(page)
}

/// Charges the first page for everything. Later pages go through everything again, which is paid for.
fn charge(run: &PageRun<'_>, work: &mut Work) {
    if run.plan.position.is_some() {
        work.charges = Charges::default();
        return;
    }
    let aggregation = run.compiled().aggregation.as_ref();
    let each = work.rates.aggregated_item(aggregation.map_or(0, |all| all.aggregates.len()));
    work.charges.aggregation += each * work.bill.matched();
    work.settle_whole(run.plan);
}

/// Gathers all groups in the way that the plan says.
fn gather(run: &PageRun<'_>, groups: &mut GroupTable, execution: &mut Execution<'_>) -> Result<()> {
    let covered: Option<&IndexAggregate> = match &run.plan.operator {
        Operator::MinMax { ends, fallback } => {
            if min_max::gather(run, ends, groups, execution.work)? {
                for range in 0..run.plan.view.ranges.len() {
                    count_unseen(run, range, may_match(run.plan, range), execution.work);
                }
                return Ok(());
            }
            execution.work.taken.min_max_missed = true;
            fallback.as_ref()
        }
        Operator::IndexAggregate(covered) => Some(covered),
        _ => None,
    };
    let Some(covered) = covered else { return from_items(run, groups, execution) };
    let matched = index_aggregate::gather(run, covered, groups, execution)?;
    for (range, matched) in matched.into_iter().enumerate() {
        count_unseen(run, range, matched, execution.work);
    }
    Ok(())
}

/// Groups or rows by key, no more than are wanted.
pub(super) struct GroupTable {
    after: Option<GroupKey>,
    wanted: usize,
    secret: (u64, u64),
    map: BTreeMap<GroupKey, Content>,
    /// A group behind those that are kept was left out: there is more than this page.
    left_out: bool,
}

enum Content {
    Group(Group),
    Row(Bytes),
}

impl GroupTable {
    fn new(after: Option<GroupKey>, wanted: usize, secret: (u64, u64)) -> Self {
        Self { after, wanted, secret, map: BTreeMap::new(), left_out: false }
    }

    /// The same without any group: what another thread begins with.
    pub(super) fn empty(&self) -> Self {
        Self::new(self.after.clone(), self.wanted, self.secret)
    }

    /// Takes in the groups of later items.
    pub(super) fn merge(&mut self, other: Self, work: &mut Work) {
        self.left_out |= other.left_out;
        for (key, content) in other.map {
            if !self.is_wanted(&key) {
                work.release(content.size());
                continue;
            }
            match self.map.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(content);
                }
                Entry::Occupied(mut known) => {
                    work.release(content.size());
                    known.get_mut().merge(content);
                }
            }
            self.trim(work);
        }
    }

    /// The key if it lies behind the last page and before what is surely not wanted.
    fn key(&mut self, values: &[Value]) -> Option<GroupKey> {
        let key = group_key(values, self.secret);
        let behind = self.after.as_ref().is_none_or(|after| *after < key);
        (behind && self.is_wanted(&key)).then_some(key)
    }

    fn is_wanted(&mut self, key: &GroupKey) -> bool {
        let wanted = self.map.len() < self.wanted
            || self.map.last_key_value().is_some_and(|(last, _)| key <= last);
        self.left_out |= !wanted;
        wanted
    }

    fn trim(&mut self, work: &mut Work) {
        while self.map.len() > self.wanted {
            if let Some((_, content)) = self.map.pop_last() {
                self.left_out = true;
                work.release(content.size());
            }
        }
    }

    /// The accumulators of a group; nothing when the group is not wanted.
    pub(super) fn group(
        &mut self,
        keys: &[Value],
        aggregation: &Aggregation,
        work: &mut Work,
    ) -> Result<Option<&mut Group>> {
        let Some(key) = self.key(keys) else { return Ok(None) };
        if !self.map.contains_key(&key) {
            let kinds = aggregation.aggregates.iter().map(|aggregate| aggregate.kind);
            let accumulators = kinds.map(Accumulator::new).collect();
            let content = Content::Group(Group { keys: keys.to_vec(), accumulators });
            work.hold(content.size())?;
            self.map.insert(key.clone(), content);
            self.trim(work);
        }
        Ok(match self.map.get_mut(&key) {
            Some(Content::Group(group)) => Some(group),
            _ => None,
        })
    }

    pub(super) fn row(&mut self, row: &Value, work: &mut Work) -> Result<()> {
        bounded::check(row)?;
        let Some(key) = self.key(std::slice::from_ref(row)) else { return Ok(()) };
        if let Entry::Vacant(place) = self.map.entry(key) {
            let content = Content::Row(bounded::row(row)?);
            work.hold(content.size())?;
            place.insert(content);
            self.trim(work);
        }
        Ok(())
    }
}

impl Content {
    /// Takes in the same group of later items; the same row is already here.
    fn merge(&mut self, other: Self) {
        if let (Self::Group(group), Self::Group(other)) = (self, other) {
            let pairs = group.accumulators.iter_mut().zip(other.accumulators);
            pairs.for_each(|(accumulator, other)| accumulator.merge(other));
        }
    }

    fn size(&self) -> usize {
        GROUP_SIZE
            + match self {
                Self::Group(group) => group.keys.iter().map(bounded::size).sum(),
                Self::Row(row) => row.len(),
            }
    }
}

/// Bytes that sort like the values, cut, and a hash of all of them.
fn group_key(values: &[Value], secret: (u64, u64)) -> GroupKey {
    let mut prefix = Vec::with_capacity(32);
    values.iter().for_each(|value| write_prefix(value, &mut prefix));
    prefix.truncate(KEY_PREFIX_MAX);
    let mut whole = Vec::with_capacity(32);
    values.iter().for_each(|value| armilla_sql::key::write_key(value, &mut whole));
    let mut hasher = SipHasher13::new_with_keys(secret.0, secret.1);
    hasher.write(&whole);
    GroupKey { prefix, hash: hasher.finish128().as_u128() }
}

fn write_prefix(value: &Value, out: &mut Vec<u8>) {
    if out.len() >= KEY_PREFIX_MAX {
        return;
    }
    write_joined(&ordered::term(value), false, out);
    match value {
        Value::Array(elements) => elements.iter().for_each(|element| write_prefix(element, out)),
        Value::Object(object) => {
            // Equal objects have equal members, in whatever order.
            let mut members: Vec<_> =
                object.iter().filter(|(_, value)| value.is_defined()).collect();
            members.sort_by_key(|(name, _)| *name);
            members.iter().for_each(|(_, value)| write_prefix(value, out));
        }
        _ => {}
    }
}

/// Counts items of a target that the index has answered for as if they had been read.
fn count_unseen(run: &PageRun<'_>, target: usize, matched: u64, work: &mut Work) {
    let (size, rates) = (run.plan.view.mean_size_in_scope(target), work.rates.clone());
    work.bill.matched_unseen(target, matched, size, &rates);
}

/// Gathers all groups, item by item or in shares side by side.
fn from_items(
    run: &PageRun<'_>,
    groups: &mut GroupTable,
    execution: &mut Execution<'_>,
) -> Result<()> {
    let of_share = |run: &PageRun<'_>, execution: &mut Execution<'_>| {
        let mut own = groups.empty();
        fold(run, &mut own, execution).map(|()| own)
    };
    if let Some(shares) = workers::by_items(run, execution, of_share) {
        shares.into_iter().for_each(|share| groups.merge(share, execution.work));
        return Ok(());
    }
    fold(run, groups, execution)
}

/// Folds the items into groups.
fn fold(run: &PageRun<'_>, groups: &mut GroupTable, execution: &mut Execution<'_>) -> Result<()> {
    let plan = run.compiled();
    let mut reader = run.items.reader();
    for found in run.items.documents() {
        let found = found?;
        let loaded = reader.load_to_test(&found, &mut execution.work.loads)?;
        execution.work.items_visited += 1;
        let begun = execution.checkpoint();
        execution.runtime.document_id = found.document.docno;
        let mut matched = false;
        execution.visit_rows(plan, &loaded.value, &mut |frame, runtime, work| {
            matched = true;
            match &plan.aggregation {
                Some(aggregation) => add(groups, aggregation, frame, runtime, work)?,
                None => {
                    if let Some(row) = project(plan, frame, runtime)? {
                        groups.row(&row, work)?;
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        execution.item_done(found.target, matched.then_some(loaded.size), begun);
    }
    Ok(())
}

fn add(
    groups: &mut GroupTable,
    aggregation: &Aggregation,
    frame: &Frame<'_>,
    runtime: &mut Runtime<'_>,
    work: &mut Work,
) -> Result<()> {
    let mut keys = Vec::with_capacity(aggregation.keys.len());
    for key in &aggregation.keys {
        let value = evaluate(key, frame, runtime)?.into_owned();
        bounded::check(&value)?;
        keys.push(value);
    }
    // Evaluated for groups of other pages too: what a query costs does not depend on its pages.
    let mut values = Vec::with_capacity(aggregation.aggregates.len());
    for aggregate in &aggregation.aggregates {
        values.push(evaluate(&aggregate.argument, frame, runtime)?);
    }
    let Some(group) = groups.group(&keys, aggregation, work)? else { return Ok(()) };
    let mut held = 0;
    let with_values = aggregation.aggregates.iter().zip(values);
    for (accumulator, (aggregate, value)) in group.accumulators.iter_mut().zip(with_values) {
        if matches!(aggregate.kind, AggregateKind::MakeList | AggregateKind::MakeSet) {
            bounded::check(&value)?;
            held += bounded::size(&value);
        }
        accumulator.add(&value);
    }
    work.hold(held)
}

/// Fills the page; gives the last key that was looked at if there is more.
fn hand_out(
    plan: &Compiled,
    groups: GroupTable,
    window: &mut Window,
    execution: &mut Execution<'_>,
    page: &mut Page,
) -> Result<Option<GroupKey>> {
    let mut last = None;
    for (key, content) in groups.map {
        if window.take == 0 {
            return Ok(None);
        }
        if page.is_full() {
            return Ok(last);
        }
        let row = match content {
            Content::Row(row) => Some(row),
            Content::Group(group) => {
                let row = project_group(plan, &group.finish(), &mut execution.runtime)?;
                row.as_ref().map(bounded::row).transpose()?
            }
        };
        if let Some(row) = row {
            let before = *window;
            if window.admit() && !page.offer(row) {
                *window = before;
                return Ok(last);
            }
        }
        last = Some(key);
    }
    // Groups whose VALUE is undefined are no rows: the page may have come to the end of what was
    // kept before it was full.
    Ok(last.filter(|_| groups.left_out && window.take > 0))
}
