//! Queries that must be answered at once: ORDER BY RANK, and queries over ordered or grouped
//! queries. Every page computes all rows again and hands out the next ones by their count.

use super::page::Page;
use super::source::Source;
use super::token::Position;
use super::work::{Work, with_runtime};
use super::{Run, bounded, failure};
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::value::Value;
use armilla_sql::compiled::{Compiled, Expr, Input, Order};
use armilla_sql::eval::{Frame, Runtime, Sink, visit_rows};
use armilla_sql::rank::{Statistics, score_expressions};

/// Answers a page.
pub(super) fn run(run: Run<'_>, work: &mut Work) -> Result<Page> {
    let begun = match &run.position {
        None => 0,
        Some(Position::Count(count)) => *count,
        Some(_) => {
            return Err(Error::bad_request("The continuation token is of another query."));
        }
    };
    let rows = with_runtime(&run.source, work, |runtime, work| {
        rows_of(run.plan(), &run.source, runtime, work)
    })?;
    // Later pages make everything again, which is paid for.
    if begun == 0 {
        work.settle_whole(&run.source);
    } else {
        work.charge = RequestCharge::ZERO;
    }
    let mut page = Page::new(run.options.count_max);
    for row in rows.iter().skip(usize::try_from(begun).unwrap_or(usize::MAX)) {
        if page.is_full() || !page.offer(bounded::row(row)?) {
            let count = begun + page.rows.len() as u64;
            page.continuation = Some(run.token(&Position::Count(count)));
            break;
        }
    }
    Ok(page)
}

/// All rows of a query.
fn rows_of(
    query: &Compiled,
    source: &Source<'_>,
    runtime: &mut Runtime<'_>,
    work: &mut Work,
) -> Result<Vec<Value>> {
    let scores = scores(query, source, runtime, work)?;
    let mut sink = Sink::new(query, &scores);
    match &query.input {
        Input::Single => {
            push(query, &Value::Undefined, &mut sink, runtime)?;
        }
        Input::Query(inner) => {
            for (number, row) in rows_of(inner, source, runtime, work)?.iter().enumerate() {
                runtime.document_id = number as u64 + 1;
                if push(query, row, &mut sink, runtime)? {
                    break;
                }
            }
        }
        Input::Items => {
            let mut reader = source.reader();
            for found in source.documents(None) {
                let found = found?;
                let loaded = reader.load(&found, work)?;
                work.items_visited += 1;
                work.hold(loaded.size)?;
                runtime.document_id = found.document.docno;
                let then = work.moment(runtime);
                let stop = push(query, &loaded.value, &mut sink, runtime)?;
                work.item_done(found.target, Some(loaded.size), then, runtime);
                if stop {
                    break;
                }
            }
        }
    }
    sink.finish(&Frame::item(&Value::Undefined), runtime).map_err(failure)
}

/// Sends an input through a query; true when no further one can change the output.
fn push(
    query: &Compiled,
    input: &Value,
    sink: &mut Sink<'_>,
    runtime: &mut Runtime<'_>,
) -> Result<bool> {
    let flow = visit_rows(query, input, runtime, &mut |frame, runtime| sink.push(frame, runtime));
    flow.map(|flow| flow.is_break()).map_err(failure)
}

/// The score expressions of ORDER BY RANK, which need to know all items first.
fn scores(
    query: &Compiled,
    source: &Source<'_>,
    runtime: &mut Runtime<'_>,
    work: &mut Work,
) -> Result<Vec<Expr>> {
    let Order::Rank(rank) = &query.order else { return Ok(Vec::new()) };
    let mut statistics = Statistics::default();
    if matches!(query.input, Input::Items) {
        let mut reader = source.reader();
        for found in source.everything() {
            let loaded = reader.load(&found, work)?;
            statistics.add(rank, &loaded.value, runtime);
        }
    }
    Ok(score_expressions(rank, &statistics))
}
