//! Stream: rows that come one by one as items go by (filters, projections, JOINs, TOP, and such queries over such
//! queries).

use super::context::{Execution, PageRun, with_runtime};
use super::parallel_filter::{ParallelFilter, Progress, Rejected, Tried};
use super::work::Work;
use crate::query::bounded;
use crate::query::counters::LevelTally;
use crate::query::page::{Onward, Page};
use crate::query::plan::Plan;
use crate::query::plan::costs::LOOK_AHEAD_ITEMS;
use crate::query::read::{Certainty, Found, Loaded, Reader};
use crate::query::token::{Place, Position, Window};
use crate::record::Record;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::Epk;
use armilla_model::value::Value;
use armilla_sql::compiled::{Compiled, Input};
use armilla_sql::eval::{Runtime, Visited, project, visit_rows};
use bytes::Bytes;
use std::ops::ControlFlow;

/// Answers a page.
pub(super) fn run(run: &PageRun<'_>, work: &mut Work) -> Result<Page> {
    let levels = levels(run.compiled());
    let mut state = StreamState::begin(run, &levels)?;
    let start = state.last.clone();
    let mut page = Page::new(run.plan.count_max);
    let position =
        with_runtime(run.query, work, |execution| state.fill(run, &levels, execution, &mut page))?;
    let end = match &position {
        Some(position) => state.end_of(position),
        None if state.is_satisfied() => {
            Some(state.last.clone().unwrap_or_else(|| first_place(run.plan)))
        }
        None => None,
    };
    work.charges += work.bill.settle(run.plan, start.as_ref(), end.as_ref(), &work.rates);
    let mut position = position;
    if position.is_none() && run.query.in_turn {
        (page.onward, position) = state.onward();
    }
    if levels.len() > 1 {
        work.levels = state.tallies.into_iter().rev().collect();
    }
    page.continuation = position.map(|position| run.token(&position));
    Ok(page)
}

/// Before everything.
fn first_place(plan: &Plan) -> Place {
    let first = plan.view.ranges.first().map(|range| range.partition.range.min.clone());
    Place { epk: first.unwrap_or_else(|| Epk::from_bytes(&[])), docno: 0 }
}

/// The query and those inside it, innermost first.
fn levels(plan: &Compiled) -> Vec<&Compiled> {
    let mut levels = vec![plan];
    let mut query = plan;
    while let Input::Query(inner) = &query.input {
        levels.push(inner);
        query = inner;
    }
    levels.reverse();
    levels
}

/// Where a page is.
struct StreamState {
    /// The last item that is done.
    last: Option<Place>,
    /// An item that is not done, and how many of its rows were handed out.
    begun: Option<(Place, u32)>,
    windows: Vec<Window>,
    /// What went through each level, the innermost first.
    tallies: Vec<LevelTally>,
}

/// The windows as they were before an item; most queries have one level, and many items.
enum SavedWindows {
    One(Window),
    Several(Vec<Window>),
}

impl SavedWindows {
    fn of(windows: &[Window]) -> Self {
        match windows {
            [only] => Self::One(*only),
            several => Self::Several(several.to_vec()),
        }
    }

    fn into_vec(self) -> Vec<Window> {
        match self {
            Self::One(only) => vec![only],
            Self::Several(several) => several,
        }
    }
}

/// What became of an item.
enum ItemOutcome {
    /// All its rows are handed out.
    Done,
    /// The page was full before this row of it.
    Full(u32),
}

impl StreamState {
    fn begin(run: &PageRun<'_>, levels: &[&Compiled]) -> Result<Self> {
        let windows: Vec<_> = levels.iter().map(|query| Window::of(query)).collect();
        let tallies = vec![LevelTally::default(); levels.len()];
        match &run.plan.position {
            None => Ok(Self { last: None, begun: None, windows, tallies }),
            Some(Position::Item { place, rows, windows: saved })
                if saved.len() == windows.len() =>
            {
                let begun = rows.map(|rows| (place.clone(), rows));
                let windows = saved.clone();
                Ok(Self { last: run.plan.start.clone(), begun, windows, tallies })
            }
            Some(_) => Err(Error::bad_request("The continuation token is of another query.")),
        }
    }

    /// Fills the page; gives the position to go on from if there may be more.
    fn fill(
        &mut self,
        run: &PageRun<'_>,
        levels: &[&Compiled],
        execution: &mut Execution<'_>,
        page: &mut Page,
    ) -> Result<Option<Position>> {
        let (items, plan) = (&run.items, run.plan);
        let mut tried_behind = 0;
        let end = plan.range_by_range.then(|| items.end_of_range(plan.start.as_ref())).flatten();
        // Filters and inner windows may pass over more; then it is no worse than before.
        let rows = self.windows.iter().map(|window| window.skip.saturating_add(window.take)).min();
        let page_max = plan.count_max as u64 + 1;
        items.read_at_most(rows.map_or(page_max, |rows| rows.min(page_max)));
        let mut reader = items.key_reader();
        let mut documents = ParallelFilter::new(run, levels[0]);
        let mut count = 0u32;
        while let Some(tried) = documents.next(self.progress(page, plan.count_max), execution.work)
        {
            let Tried { found, rejected } = tried?;
            if self.is_satisfied() {
                return Ok(None);
            }
            let give_up = page.is_full() && tried_behind >= LOOK_AHEAD_ITEMS;
            if end.as_ref().is_some_and(|end| end.epk.as_bytes() <= found.document.epk) {
                break;
            }
            if give_up || (count > 0 && count.is_multiple_of(16) && execution.work.is_late()) {
                return Ok(self.position());
            }
            count = count.wrapping_add(1);
            tried_behind += u32::from(page.is_full());
            if let Some(rejected) = rejected {
                self.pass_over(&found, rejected, execution)?;
                continue;
            }
            let before = SavedWindows::of(&self.windows);
            let counted = (levels.len() > 1).then(|| self.tallies.clone());
            match self.item(&mut reader, levels, &found, execution, page)? {
                ItemOutcome::Done => self.last = Some(found.place()),
                ItemOutcome::Full(0) => {
                    self.windows = before.into_vec();
                    if let Some(counted) = counted {
                        self.tallies = counted;
                    }
                    return Ok(self.position());
                }
                ItemOutcome::Full(rows) => {
                    let (place, windows) = (found.place(), before.into_vec());
                    return Ok(Some(Position::Item { place, rows: Some(rows), windows }));
                }
            }
        }
        let windows = self.windows.clone();
        let open = windows.iter().all(|window| window.take > 0);
        Ok(end.filter(|_| open).map(|place| Position::Item { place, rows: None, windows }))
    }

    /// How far the page is.
    fn progress(&self, page: &Page, count_max: usize) -> Progress {
        let rows = page.rows.len() as u64;
        let room = if page.is_full() { 0 } else { (count_max as u64).saturating_sub(rows) };
        let windows = self.windows.iter().map(|window| window.take);
        Progress { rows, wanted: windows.fold(room, u64::min) }
    }

    /// Counts an item that is known to give no row as if it had been looked at.
    fn pass_over(
        &mut self,
        found: &Found<'_>,
        Rejected { read, rows }: Rejected,
        execution: &mut Execution<'_>,
    ) -> Result<()> {
        self.begun = None;
        let begun = execution.checkpoint();
        execution.work.items_visited += 1;
        read.map_or(Ok(()), |size| execution.work.loads.count(size))?;
        execution.work.taken.filtered_ahead += 1;
        self.tallies[0].taken += 1;
        execution.runtime.rows_visited += rows;
        execution.item_done(found.target, None, begun);
        self.last = Some(found.place());
        Ok(())
    }

    /// What the next slice goes on from, behind the last item of this one: what is left of the windows, where there are some.
    fn onward(&self) -> (Onward, Option<Position>) {
        if self.is_satisfied() {
            return (Onward::Nowhere, None);
        }
        let has_windows =
            self.windows.iter().any(|window| window.skip > 0 || window.take < u64::MAX);
        (Onward::NextSlice, if has_windows { self.position() } else { None })
    }

    /// True when no further row is wanted.
    fn is_satisfied(&self) -> bool {
        self.windows.iter().any(|window| window.take == 0)
    }

    /// How far the page went: the last item that is done.
    fn end_of(&self, position: &Position) -> Option<Place> {
        match position {
            Position::Item { place, rows: Some(_), .. } => Some(place.before()),
            Position::Item { place, rows: None, .. } => Some(place.clone()),
            _ => self.last.clone(),
        }
    }

    fn position(&self) -> Option<Position> {
        let place = self.last.clone()?;
        Some(Position::Item { place, rows: None, windows: self.windows.clone() })
    }

    fn item(
        &mut self,
        reader: &mut Reader<'_>,
        levels: &[&Compiled],
        found: &Found<'_>,
        execution: &mut Execution<'_>,
        page: &mut Page,
    ) -> Result<ItemOutcome> {
        let skip = match self.begun.take() {
            Some((place, rows)) if place == found.place() => rows,
            _ => 0,
        };
        let begun = execution.checkpoint();
        execution.work.items_visited += 1;
        execution.work.loads.enter(found.target);
        execution.runtime.document_id = found.document.docno;
        let mut emit = Emit { page, skip, rows: 0, full: false };
        let matched = match &reader.items().query.prepared.raw {
            Some(raw) => {
                let record = matching(levels[0], reader, found, execution)?;
                let size = record.as_ref().map(Record::size);
                if let Some(record) = record
                    && self.windows[0].admit()
                {
                    let _flow = emit.row(raw.row(record)?);
                }
                size
            }
            None => {
                let Loaded { value, size, .. } = reader.load(found, &mut execution.work.loads)?;
                let mut sink = |row: &Value| emit.value(row);
                let met_before = self.tallies[0].met;
                let (windows, tallies) = (&mut self.windows, &mut self.tallies);
                let runtime = &mut execution.runtime;
                let _stopped = feed(levels, windows, tallies, &value, runtime, &mut sink)?;
                (self.tallies[0].met > met_before).then_some(size)
            }
        };
        let Emit { rows, full, .. } = emit;
        if let Some(outermost) = self.tallies.last_mut() {
            outermost.made += u64::from(rows.saturating_sub(skip));
        }
        execution.work.bill.handed_out(found.target, rows.saturating_sub(skip).into());
        if full {
            // The item comes again with the next page, which pays for it.
            return Ok(ItemOutcome::Full(rows));
        }
        execution.item_done(found.target, matched, begun);
        Ok(ItemOutcome::Done)
    }
}

/// The item, if it meets the condition.
fn matching(
    query: &Compiled,
    reader: &mut Reader<'_>,
    found: &Found<'_>,
    execution: &mut Execution<'_>,
) -> Result<Option<Record>> {
    if query.filter.is_none() || found.certainty == Certainty::Matches {
        execution.runtime.rows_visited += 1;
        return reader.record(found, &mut execution.work.loads).map(Some);
    }
    let Loaded { record, value, .. } = reader.load(found, &mut execution.work.loads)?;
    let mut met = reader.has_key(found, &value);
    if met {
        execution.runtime.rows_visited += 1;
    } else {
        met = execution.visit_rows(query, &value, &mut |_, _, _| Ok(ControlFlow::Break(())))?;
    }
    match record {
        record if met && record.is_none() => {
            reader.record(found, &mut execution.work.loads).map(Some)
        }
        record => Ok(record.filter(|_| met)),
    }
}

/// Takes the rows of one item.
struct Emit<'p> {
    page: &'p mut Page,
    /// Rows that an earlier page handed out.
    skip: u32,
    rows: u32,
    full: bool,
}

impl Emit<'_> {
    fn value(&mut self, row: &Value) -> Visited<Error> {
        if self.rows < self.skip {
            self.rows += 1;
            return Ok(ControlFlow::Continue(()));
        }
        Ok(self.row(bounded::row(row)?))
    }

    fn row(&mut self, row: Bytes) -> ControlFlow<()> {
        if self.rows >= self.skip && !self.page.offer(row) {
            self.full = true;
            return ControlFlow::Break(());
        }
        self.rows += 1;
        ControlFlow::Continue(())
    }
}

/// Sends a value through the levels of a query, and counts what goes through each.
fn feed(
    levels: &[&Compiled],
    windows: &mut [Window],
    tallies: &mut [LevelTally],
    value: &Value,
    runtime: &mut Runtime<'_>,
    emit: &mut dyn FnMut(&Value) -> Visited<Error>,
) -> Visited<Error> {
    let (Some((query, outer)), Some((window, outer_windows)), Some((tally, outer_tallies))) =
        (levels.split_first(), windows.split_first_mut(), tallies.split_first_mut())
    else {
        return emit(value);
    };
    tally.taken += 1;
    visit_rows(query, value, runtime, &mut |frame, runtime| {
        tally.met += 1;
        if window.take == 0 {
            return Ok(ControlFlow::Break(()));
        }
        let Some(row) = project(query, frame, runtime)? else {
            return Ok(ControlFlow::Continue(()));
        };
        if !window.admit() {
            return Ok(ControlFlow::Continue(()));
        }
        // The rows of the outermost level are counted when they are handed out.
        tally.made += u64::from(!outer.is_empty());
        feed(outer, outer_windows, outer_tallies, &row, runtime, emit)
    })
}
