//! Work of a page: time, counts, memory and charge so far, on one thread or several.

use super::functions::Calls;
use super::top_k::SortedRow;
use super::workers::SharedBudget;
use crate::admission::MemoryShare;
use crate::limits::{PAGE_TIME_MAX, QUERY_MEMORY_FREE, QUERY_MEMORY_MAX};
use crate::query::charge::Bill;
use crate::query::counters::{Charges, Counters, LevelTally, Taken};
use crate::query::page::{Metrics, Page};
use crate::query::part::{PartRow, RowsPart};
use crate::query::plan::Plan;
use crate::query::plan::costs::{BRIEF_BYTES_MAX, BRIEF_TIME_MAX};
use crate::query::read::{LoadCounts, Loads};
use crate::scripts::Client;
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::clock::monotonic;
use armilla_model::error::{Error, Result};
use armilla_sql::SqlError;
use armilla_sql::eval::Runtime;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The work of one page.
pub(in crate::query) struct Work {
    pub(in crate::query) started: Instant,
    pub(in crate::query) compiled_in: Duration,
    /// Items read from the store.
    pub(in crate::query) loads: Loads,
    /// Items that were looked at, read or not.
    pub(in crate::query) items_visited: u64,
    /// Rows of FROM and JOIN, sub-queries included.
    pub(in crate::query) rows_visited: u64,
    /// What stopped a user function, when that is more than an error of the query.
    pub(in crate::query) stopped: Option<Error>,
    /// The script that asks, whose time this is.
    pub(super) asker: Option<ScriptDeadline>,
    /// Who waits for the page, if that is known.
    pub(super) client: Option<Client>,
    /// How long the page may run before it ends where it is.
    page_time_max: Duration,
    /// Bytes held by sorts and groups.
    held: usize,
    /// The most that was held at a time.
    held_most: usize,
    /// What all queries share, and the bytes of it that are counted as this one's.
    memory: Option<Arc<MemoryShare>>,
    counted: usize,
    /// The work of other threads for the same page, if this is one of several.
    pub(super) budget: Option<Arc<SharedBudget>>,
    /// The charge so far, without rows handed out.
    pub(in crate::query) charges: Charges,
    /// The items that are charged.
    pub(in crate::query) bill: Bill,
    /// What things cost.
    pub(in crate::query) rates: Arc<Rates>,
    /// Which of the plan's alternatives were taken.
    pub(in crate::query) taken: Taken,
    /// What went through each level of a query over queries.
    pub(in crate::query) levels: Vec<LevelTally>,
    /// Calls of user functions.
    pub(super) calls: Rc<Calls>,
    /// The rows of a part, where a page is put together of parts: they are charged when they are handed out.
    pub(super) part: Option<RowsPart>,
    /// The work is done on a thread that has no time for more than a little of it.
    pub(super) brief: Option<Brief>,
}

/// Work that is given up when it turns out to be much, to be begun anew elsewhere.
#[derive(Clone)]
pub(super) struct Brief {
    pub(super) until: Instant,
    pub(super) outgrown: Rc<Cell<bool>>,
}

/// The counters of a page at some moment: how many rows and calls there had been.
#[derive(Clone, Copy, Debug)]
pub(in crate::query) struct Checkpoint {
    rows: u64,
    pub(super) calls: u64,
    ticks: u64,
}

/// The time of a script that asks for a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptDeadline {
    /// When the script began.
    pub(crate) started: Instant,
    /// When it is stopped.
    pub(crate) deadline: Instant,
}

impl Work {
    pub(in crate::query) fn new(
        started: Instant,
        compiled_in: Duration,
        rates: Arc<Rates>,
    ) -> Self {
        Self {
            started,
            compiled_in,
            loads: Loads::default(),
            items_visited: 0,
            rows_visited: 0,
            stopped: None,
            asker: None,
            client: None,
            page_time_max: PAGE_TIME_MAX,
            held: 0,
            held_most: 0,
            memory: None,
            counted: 0,
            budget: None,
            charges: Charges::default(),
            bill: Bill::default(),
            rates,
            taken: Taken::default(),
            levels: Vec::new(),
            calls: Rc::default(),
            part: None,
            brief: None,
        }
    }

    /// Counts a row that the page has taken, and what it costs besides its bytes.
    pub(super) fn hand_out(&mut self, entry: &SortedRow, charges: Charges, page: &mut Page) {
        self.bill.handed_out(entry.target, 1);
        let Some(part) = &mut self.part else {
            self.charges += charges;
            return;
        };
        page.count_beside(entry.size());
        let SortedRow { values, target, place, row } = entry.clone();
        let text = page.rows.last().cloned().unwrap_or_default();
        part.rows.push(PartRow { range: target, values, place, row, charges, text });
    }

    /// The same work on a thread that others wait for: see [`Work::is_outgrown`].
    pub(in crate::query) fn briefly(mut self) -> Self {
        let until = self.started + BRIEF_TIME_MAX;
        self.brief = Some(Brief { until, outgrown: Rc::default() });
        self.loads.limit(BRIEF_BYTES_MAX);
        self
    }

    /// True when brief work was given up because there is too much of it; its error says nothing.
    pub(in crate::query) fn is_outgrown(&self) -> bool {
        self.loads.is_outgrown() || self.brief.as_ref().is_some_and(|brief| brief.outgrown.get())
    }

    /// The same work for a script, which has less time.
    pub(in crate::query) fn of_script(mut self, asker: Option<ScriptDeadline>) -> Self {
        self.asker = asker;
        self
    }

    /// The same work for a client that may go away.
    pub(in crate::query) fn for_client(mut self, client: Option<Client>) -> Self {
        self.client = client;
        self
    }

    /// The same work for a client that waits no longer than this.
    pub(in crate::query) fn within(mut self, page_time_max: Duration) -> Self {
        self.page_time_max = page_time_max;
        self
    }

    /// The same work, whose memory is counted with that of all other queries.
    pub(in crate::query) fn sharing(mut self, memory: &Arc<MemoryShare>) -> Self {
        self.memory = Some(memory.clone());
        self
    }

    /// The same work, measured if it will be explained.
    pub(in crate::query) fn measured(mut self, is_measured: bool) -> Self {
        if is_measured {
            self.loads.measure();
        }
        self
    }

    /// True when a script asks.
    pub(in crate::query) fn is_of_script(&self) -> bool {
        self.asker.is_some()
    }

    /// What begins the same work on other threads.
    pub(in crate::query) fn seed(&self) -> WorkerSeed {
        WorkerSeed {
            started: self.started,
            rates: self.rates.clone(),
            client: self.client.clone(),
            page_time_max: self.page_time_max,
            memory: self.memory.clone(),
            budget: Arc::default(),
            is_measured: self.loads.is_measured(),
        }
    }

    /// Takes in what another thread has result.
    pub(in crate::query) fn absorb(&mut self, result: &WorkerResult, runtime: &mut Runtime<'_>) {
        self.loads.absorb(&result.loads);
        self.items_visited += result.items_visited;
        self.held += result.held;
        // The other thread has given back what was counted as its own.
        self.count_anyway();
        self.charges += result.charges;
        self.bill.absorb(&result.bill);
        runtime.rows_visited += result.rows_visited;
    }

    /// What was done, for the thread that began it.
    pub(in crate::query) fn into_result(mut self) -> WorkerResult {
        WorkerResult {
            loads: self.loads.take_counts(),
            items_visited: self.items_visited,
            rows_visited: self.rows_visited,
            held: self.held,
            charges: self.charges,
            bill: std::mem::take(&mut self.bill),
        }
    }

    /// Where the page is now.
    pub(in crate::query) fn checkpoint(&self, runtime: &Runtime<'_>) -> Checkpoint {
        let (calls, ticks) = self.calls.so_far();
        Checkpoint { rows: runtime.rows_visited, calls, ticks }
    }

    /// What was evaluated since a moment: rows of JOINs and sub-queries but for the first, and
    /// calls of user functions.
    pub(in crate::query) fn evaluated_since(
        &self,
        then: Checkpoint,
        runtime: &Runtime<'_>,
    ) -> RequestCharge {
        let inner = (runtime.rows_visited - then.rows).saturating_sub(1);
        self.rates.inner_row * inner + self.called_since(then)
    }

    /// Calls of user functions since a moment.
    pub(in crate::query) fn called_since(&self, then: Checkpoint) -> RequestCharge {
        let (calls, ticks) = self.calls.so_far();
        self.rates.function_call * (calls - then.calls)
            + self.rates.script_tick * (ticks - then.ticks)
    }

    /// Charges everything that the whole query went through.
    pub(in crate::query) fn settle_whole(&mut self, plan: &Plan) {
        self.charges += self.bill.settle(plan, None, None, &self.rates);
    }

    /// Closes the books of a page; `wrapped` says that a client merges its rows by itself.
    pub(in crate::query) fn finish(&mut self, page: &mut Page, wrapped: bool) {
        self.charges.output += page.output_charge(&self.rates, wrapped);
        let missing = RequestCharge::ONE.steps().saturating_sub(self.charges.total().steps());
        self.charges.output += RequestCharge::from_steps(missing);
        page.charge = self.charges.total();
        debug_assert!(page.charge >= RequestCharge::ONE, "no page costs less than one unit");
        debug_assert_eq!(
            page.size(),
            page.rows.iter().map(|row| row.len()).sum(),
            "rows are counted"
        );
        page.shares = self.bill.shares(page.charge);
        page.metrics = Metrics {
            total_time: self.started.elapsed(),
            compile_time: self.compiled_in,
            retrieved_count: self.loads.items,
            retrieved_size: self.loads.bytes,
            output_count: page.rows.len() as u64,
            output_size: page.size() as u64,
        };
        page.counters = Counters {
            charges: self.charges,
            taken: self.taken,
            visited: self.items_visited,
            levels: std::mem::take(&mut self.levels),
            times: self.loads.take_times(),
            rows_of_ranges: self.bill.take_handed_out(),
            tallies: std::mem::take(&mut self.bill).into_tallies(),
        };
    }

    /// True when a page that can end anywhere should end here.
    pub(in crate::query) fn is_late(&self) -> bool {
        has_left(self.client.as_ref())
            || self.started.elapsed() >= self.page_time_max
            || self.asker.is_some_and(|asker| monotonic() >= asker.deadline)
    }

    /// Counts bytes that must be held until the end, and refuses too many.
    pub(in crate::query) fn hold(&mut self, bytes: usize) -> Result<()> {
        self.held += bytes;
        let fits = match &self.budget {
            None => self.held <= QUERY_MEMORY_MAX,
            Some(budget) => budget.may_hold(self.held.saturating_sub(self.held_most)),
        };
        self.held_most = self.held_most.max(self.held);
        if fits {
            return self.count();
        }
        Err(SqlError::refused(format!(
            "The query would have to hold more than {QUERY_MEMORY_MAX} bytes to sort, group or \
             gather its rows. Ask for fewer rows, or filter more."
        ))
        .into())
    }

    /// Counts what is held with what all other queries hold, and refuses what is too much together.
    fn count(&mut self) -> Result<()> {
        let Some((memory, more)) = self.uncounted() else { return Ok(()) };
        memory.take_for_query(more)?;
        self.counted += more;
        Ok(())
    }

    fn count_anyway(&mut self) {
        let Some((memory, more)) = self.uncounted() else { return };
        memory.take_anyway(more);
        self.counted += more;
    }

    /// What is held and not counted yet, in large pieces: little is not worth counting.
    fn uncounted(&self) -> Option<(Arc<MemoryShare>, usize)> {
        let memory = self.memory.as_ref()?;
        let more =
            self.held.checked_sub(self.counted + QUERY_MEMORY_FREE).filter(|more| *more > 0)?;
        Some((memory.clone(), more.next_multiple_of(QUERY_MEMORY_FREE)))
    }

    /// Gives back what was held.
    pub(in crate::query) fn release(&mut self, bytes: usize) {
        self.held = self.held.saturating_sub(bytes);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            memory.give_back(self.counted);
        }
    }
}

/// What work on several threads begins with.
pub(in crate::query) struct WorkerSeed {
    started: Instant,
    rates: Arc<Rates>,
    pub(super) client: Option<Client>,
    page_time_max: Duration,
    memory: Option<Arc<MemoryShare>>,
    pub(in crate::query) budget: Arc<SharedBudget>,
    is_measured: bool,
}

impl WorkerSeed {
    /// The work of one thread.
    pub(in crate::query) fn work(&self) -> Work {
        let mut work = Work::new(self.started, Duration::ZERO, self.rates.clone());
        work.budget = Some(self.budget.clone());
        work.client = self.client.clone();
        work.page_time_max = self.page_time_max;
        work.memory = self.memory.clone();
        work.measured(self.is_measured)
    }
}

/// What a thread has done for a page.
pub(in crate::query) struct WorkerResult {
    loads: LoadCounts,
    items_visited: u64,
    rows_visited: u64,
    held: usize,
    charges: Charges,
    bill: Bill,
}

/// True when nobody waits for the answer any more.
pub(super) fn has_left(client: Option<&Client>) -> bool {
    client.is_some_and(|client| client.strong_count() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: usize = 1 << 20;

    fn work(memory: &Arc<MemoryShare>) -> Work {
        Work::new(Instant::now(), Duration::ZERO, Rates::article()).sharing(memory)
    }

    #[test]
    fn queries_together_hold_no_more_than_their_share() {
        let memory = Arc::new(MemoryShare::new(8 * MEGABYTE));
        let (mut one, mut other) = (work(&memory), work(&memory));
        one.hold(6 * MEGABYTE).unwrap();
        let refused = other.hold(6 * MEGABYTE);
        assert!(matches!(refused, Err(Error::Overloaded { .. })), "{refused:?}");
        drop(other);
        // Little is always allowed.
        work(&memory).hold(MEGABYTE).unwrap();
        drop(one);
        assert_eq!(memory.taken(), 0);
        work(&memory).hold(6 * MEGABYTE).unwrap();
        assert_eq!(memory.taken(), 0, "given back with the work");
    }

    #[test]
    fn what_other_threads_hold_is_counted_once() {
        let memory = Arc::new(MemoryShare::new(8 * MEGABYTE));
        let mut work = work(&memory);
        let mut helper = work.seed().work();
        helper.hold(4 * MEGABYTE).unwrap();
        assert_eq!(memory.taken(), 3 * MEGABYTE);
        let result = helper.into_result();
        work.held += result.held;
        work.count_anyway();
        assert_eq!(memory.taken(), 3 * MEGABYTE);
        drop(work);
        assert_eq!(memory.taken(), 0);
    }
}
