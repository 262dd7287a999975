//! Whole: queries that must be answered at once (ORDER BY RANK, and queries over ordered or grouped queries).
//!
//! Every page computes all rows again and hands out the next ones by their count. Items may be read side by
//! side; rows are made of them one after the other.

use super::context::{Execution, PageRun, with_runtime};
use super::work::Work;
use super::workers;
use crate::query::bounded;
use crate::query::counters::{Charges, LevelTally};
use crate::query::page::Page;
use crate::query::part::{ItemsPart, PartItem};
use crate::query::read::{Found, Loaded, Reader};
use crate::query::token::Position;
use armilla_model::error::{Error, Result};
use armilla_model::rid;
use armilla_model::value::Value;
use armilla_sql::compiled::{Compiled, CompiledExpr, Input, Order, Rank};
use armilla_sql::eval::{Frame, Runtime, Sink, visit_rows};
use armilla_sql::rank::{Statistics, score_expressions};
use std::ops::ControlFlow;

/// Answers a page.
pub(super) fn run(run: &PageRun<'_>, work: &mut Work) -> Result<Page> {
    let begun = begun(run)?;
    let rows = with_runtime(run.query, work, |execution| {
        rows_of(run.compiled(), run, 0, &mut ItemSource::Ranges, execution)
    })?;
    // Later pages make everything again, which is paid for.
    if begun == 0 {
        work.settle_whole(run.plan);
    } else {
        work.charges = Charges::default();
    }
    page_of(run, begun, &rows)
}

/// The items of a part that meet the innermost condition, for a page that is put together of parts.
pub(super) fn part(run: &PageRun<'_>, work: &mut Work) -> Result<ItemsPart> {
    let begun = begun(run)?;
    let mut query = run.compiled();
    while let Input::Query(inner) = &query.input {
        query = inner;
    }
    let part = match &query.input {
        Input::Items => with_runtime(run.query, work, |execution| items_of(query, run, execution))?,
        _ => ItemsPart::default(),
    };
    if begun == 0 {
        work.settle_whole(run.plan);
    } else {
        work.charges = Charges::default();
    }
    Ok(part)
}

/// Puts a page together of parts, which are in the order of their keys.
pub(super) fn merge(run: &PageRun<'_>, parts: Vec<ItemsPart>, work: &mut Work) -> Result<Page> {
    let begun = begun(run)?;
    let (mut items, mut statistics) = (Vec::new(), Statistics::default());
    for part in parts {
        statistics.merge(&part.statistics);
        items.extend(part.items);
    }
    let mut source = ItemSource::Parts(items, statistics);
    let rows = with_runtime(run.query, work, |execution| {
        rows_of(run.compiled(), run, 0, &mut source, execution)
    })?;
    if begun > 0 {
        work.charges = Charges::default();
    }
    page_of(run, begun, &rows)
}

/// Rows that earlier pages handed out.
fn begun(run: &PageRun<'_>) -> Result<u64> {
    match &run.plan.position {
        None => Ok(0),
        Some(Position::Count(count)) => Ok(*count),
        Some(_) => Err(Error::bad_request("The continuation token is of another query.")),
    }
}

fn page_of(run: &PageRun<'_>, begun: u64, rows: &[Value]) -> Result<Page> {
    let mut page = Page::new(run.plan.count_max);
    for row in rows.iter().skip(usize::try_from(begun).unwrap_or(usize::MAX)) {
        if page.is_full() || !page.offer(bounded::row(row)?) {
            let count = begun + page.rows.len() as u64;
            page.continuation = Some(run.token(&Position::Count(count)));
            break;
        }
    }
    Ok(page)
}

/// Where items come from.
enum ItemSource {
    /// From the ranges of this account.
    Ranges,
    /// From the slices of an account, which have paid for them.
    Parts(Vec<PartItem>, Statistics),
}

/// Reads the items that give the innermost query rows.
fn items_of(
    query: &Compiled,
    run: &PageRun<'_>,
    execution: &mut Execution<'_>,
) -> Result<ItemsPart> {
    let statistics = match &query.order {
        Order::Rank(rank) => statistics(rank, run, execution)?,
        _ => Statistics::default(),
    };
    // As many rows as can be wanted of one slice, where the first ones are.
    let (skip, take) = query.window();
    let is_plain =
        query.aggregation.is_none() && matches!(query.order, Order::None) && !query.distinct;
    let wanted = if is_plain { skip.saturating_add(take) } else { u64::MAX };
    let mut items = Vec::new();
    let (mut reader, mut made) = (run.items.reader(), 0u64);
    for found in run.items.documents() {
        if made >= wanted {
            break;
        }
        let found = found?;
        let Loaded { value, size, .. } = reader.load(&found, &mut execution.work.loads)?;
        let docno = found.document.docno;
        execution.work.items_visited += 1;
        execution.runtime.document_id = docno;
        let then = execution.checkpoint();
        let made_before = made;
        execution.visit_rows(query, &value, &mut |_, _, _| {
            made += 1;
            let is_enough = wanted == u64::MAX;
            Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if made == made_before {
            execution.item_done(found.target, Some(size), then);
            continue;
        }
        // What is evaluated for it is counted where its rows are made.
        let Work { bill, rates, .. } = &mut *execution.work;
        bill.visited(found.target, Some(size), rates);
        execution.work.hold(size)?;
        items.push(PartItem { docno, size, value });
    }
    Ok(ItemsPart { items, statistics })
}

/// All rows of a query that lies so deep in others.
fn rows_of(
    query: &Compiled,
    run: &PageRun<'_>,
    depth: usize,
    source: &mut ItemSource,
    execution: &mut Execution<'_>,
) -> Result<Vec<Value>> {
    let scores = scores(query, run, source, execution)?;
    let mut level = Level { query, sink: Sink::new(query, &scores), tally: LevelTally::default() };
    match &query.input {
        Input::Single => {
            level.push(&Value::Undefined, &mut execution.runtime)?;
        }
        Input::Query(inner) => {
            for (number, row) in
                rows_of(inner, run, depth + 1, source, execution)?.iter().enumerate()
            {
                execution.runtime.document_id = number as u64 + 1;
                if level.push(row, &mut execution.runtime)? {
                    break;
                }
            }
        }
        Input::Items => match source {
            ItemSource::Ranges => push_items(&mut level, run, execution)?,
            ItemSource::Parts(items, _) => {
                push_gathered(&mut level, run, std::mem::take(items), execution)?;
            }
        },
    }
    let Level { sink, mut tally, .. } = level;
    let rows = sink.finish(&Frame::item(&Value::Undefined), &mut execution.runtime)?;
    tally.made = rows.len() as u64;
    let levels = &mut execution.work.levels;
    levels.resize(levels.len().max(depth + 1), LevelTally::default());
    levels[depth] = tally;
    Ok(rows)
}

/// A query that takes its input one by one.
struct Level<'q> {
    query: &'q Compiled,
    sink: Sink<'q>,
    tally: LevelTally,
}

impl Level<'_> {
    /// Sends an input through the query; true when no further one can change the output.
    fn push(&mut self, input: &Value, runtime: &mut Runtime<'_>) -> Result<bool> {
        let Self { query, sink, tally } = self;
        tally.taken += 1;
        let flow = visit_rows(query, input, runtime, &mut |frame, runtime| {
            tally.met += 1;
            sink.push(frame, runtime)
        })?;
        Ok(flow.is_break())
    }
}

/// Sends all items through a query.
fn push_items(
    level: &mut Level<'_>,
    run: &PageRun<'_>,
    execution: &mut Execution<'_>,
) -> Result<()> {
    // Where no row can be the last one wanted, all items are read whoever reads them.
    let all = level.query.aggregation.is_some() || !matches!(level.query.order, Order::None);
    let is_ranked = matches!(level.query.order, Order::Rank(_));
    let mut push = |item: ReadItem, execution: &mut Execution<'_>| -> Result<bool> {
        execution.work.items_visited += 1;
        execution.runtime.document_id = item.docno;
        let then = execution.checkpoint();
        let stop = level.push(&item.value, &mut execution.runtime)?;
        execution.item_done(item.target, Some(item.size), then);
        Ok(stop)
    };
    let read_all = |run: &PageRun<'_>, execution: &mut Execution<'_>| {
        let mut reader = run.items.reader();
        let read = |found: Result<Found<'_>>| ReadItem::read(&found?, &mut reader, execution.work);
        run.items.documents().map(read).collect::<Result<Vec<_>>>()
    };
    let shares = all.then(|| workers::by_items(run, execution, read_all)).flatten();
    let mut read: Option<Vec<_>> = shares.map(|shares| shares.into_iter().flatten().collect());
    if is_ranked {
        let items = match read.take() {
            Some(items) => items,
            None => read_all(run, execution)?,
        };
        read = Some(by_rid(items, run.query.container.rid));
    }
    if let Some(items) = read {
        for item in items {
            push(item, execution)?;
        }
        return Ok(());
    }
    let mut reader = run.items.reader();
    for found in run.items.documents() {
        let item = ReadItem::read(&found?, &mut reader, execution.work)?;
        if push(item, execution)? {
            break;
        }
    }
    Ok(())
}

/// Sends the items of all slices through a query.
fn push_gathered(
    level: &mut Level<'_>,
    run: &PageRun<'_>,
    mut items: Vec<PartItem>,
    execution: &mut Execution<'_>,
) -> Result<()> {
    if matches!(level.query.order, Order::Rank(_)) {
        let container = run.query.container.rid;
        items.sort_by_cached_key(|item| rid::encode(&rid::document(container, item.docno)));
    }
    for item in items {
        execution.work.items_visited += 1;
        execution.work.hold(item.size)?;
        execution.runtime.document_id = item.docno;
        let then = execution.checkpoint();
        let stop = level.push(&item.value, &mut execution.runtime)?;
        let evaluated = execution.work.evaluated_since(then, &execution.runtime);
        execution.work.charges.evaluation += evaluated;
        if stop {
            break;
        }
    }
    Ok(())
}

/// Clients that merge rankings themselves let the text of `_rid` decide between equal ones; so do we.
fn by_rid(mut items: Vec<ReadItem>, container: [u8; 8]) -> Vec<ReadItem> {
    items.sort_by_cached_key(|item| rid::encode(&rid::document(container, item.docno)));
    items
}

/// An item that was read.
struct ReadItem {
    target: usize,
    docno: u64,
    size: usize,
    value: Value,
}

impl ReadItem {
    fn read(found: &Found<'_>, reader: &mut Reader<'_>, work: &mut Work) -> Result<Self> {
        let loaded = reader.load(found, &mut work.loads)?;
        work.hold(loaded.size)?;
        let (target, docno) = (found.target, found.document.docno);
        Ok(Self { target, docno, size: loaded.size, value: loaded.value })
    }
}

/// The score expressions of ORDER BY RANK, which need to know all items first.
fn scores(
    query: &Compiled,
    run: &PageRun<'_>,
    source: &ItemSource,
    execution: &mut Execution<'_>,
) -> Result<Vec<CompiledExpr>> {
    let Order::Rank(rank) = &query.order else { return Ok(Vec::new()) };
    let statistics = match (&query.input, source) {
        (Input::Items, ItemSource::Parts(_, statistics)) => statistics.clone(),
        (Input::Items, ItemSource::Ranges) => statistics(rank, run, execution)?,
        _ => Statistics::default(),
    };
    Ok(score_expressions(rank, &statistics))
}

/// What ORDER BY RANK must know of all items.
fn statistics(rank: &Rank, run: &PageRun<'_>, execution: &mut Execution<'_>) -> Result<Statistics> {
    let of_share = |run: &PageRun<'_>, execution: &mut Execution<'_>| {
        let mut statistics = Statistics::default();
        let mut reader = run.items.reader();
        for found in run.items.everything() {
            let loaded = reader.load(&found, &mut execution.work.loads)?;
            statistics.add(rank, &loaded.value, &mut execution.runtime);
        }
        Ok(statistics)
    };
    let Some(shares) = workers::by_items(run, execution, of_share) else {
        return of_share(run, execution);
    };
    let mut statistics = Statistics::default();
    shares.iter().for_each(|share| statistics.merge(share));
    Ok(statistics)
}
