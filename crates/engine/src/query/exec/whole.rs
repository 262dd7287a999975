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
use crate::query::read::{Found, Reader};
use crate::query::token::Position;
use armilla_model::error::{Error, Result};
use armilla_model::rid;
use armilla_model::value::Value;
use armilla_sql::compiled::{Compiled, CompiledExpr, Input, Order};
use armilla_sql::eval::{Frame, Runtime, Sink, visit_rows};
use armilla_sql::rank::{Statistics, score_expressions};

/// Answers a page.
pub(super) fn run(run: &PageRun<'_>, work: &mut Work) -> Result<Page> {
    let begun = match &run.plan.position {
        None => 0,
        Some(Position::Count(count)) => *count,
        Some(_) => {
            return Err(Error::bad_request("The continuation token is of another query."));
        }
    };
    let rows =
        with_runtime(run.query, work, |execution| rows_of(run.compiled(), run, 0, execution))?;
    // Later pages make everything again, which is paid for.
    if begun == 0 {
        work.settle_whole(run.plan);
    } else {
        work.charges = Charges::default();
    }
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

/// All rows of a query that lies so deep in others.
fn rows_of(
    query: &Compiled,
    run: &PageRun<'_>,
    depth: usize,
    execution: &mut Execution<'_>,
) -> Result<Vec<Value>> {
    let scores = scores(query, run, execution)?;
    let mut level = Level { query, sink: Sink::new(query, &scores), tally: LevelTally::default() };
    match &query.input {
        Input::Single => {
            level.push(&Value::Undefined, &mut execution.runtime)?;
        }
        Input::Query(inner) => {
            for (number, row) in rows_of(inner, run, depth + 1, execution)?.iter().enumerate() {
                execution.runtime.document_id = number as u64 + 1;
                if level.push(row, &mut execution.runtime)? {
                    break;
                }
            }
        }
        Input::Items => push_items(&mut level, run, execution)?,
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
    execution: &mut Execution<'_>,
) -> Result<Vec<CompiledExpr>> {
    let Order::Rank(rank) = &query.order else { return Ok(Vec::new()) };
    if !matches!(query.input, Input::Items) {
        return Ok(score_expressions(rank, &Statistics::default()));
    }
    let of_share = |run: &PageRun<'_>, execution: &mut Execution<'_>| {
        let mut statistics = Statistics::default();
        let mut reader = run.items.reader();
        for found in run.items.everything() {
            let loaded = reader.load(&found, &mut execution.work.loads)?;
            statistics.add(rank, &loaded.value, &mut execution.runtime);
        }
        Ok(statistics)
    };
    let mut statistics = Statistics::default();
    match workers::by_items(run, execution, of_share) {
        Some(shares) => shares.iter().for_each(|share| statistics.merge(share)),
        None => statistics = of_share(run, execution)?,
    }
    Ok(score_expressions(rank, &statistics))
}
