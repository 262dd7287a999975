//! Execution of a page: what every operator is given, and the runtime that evaluates.

use super::functions::Users;
use super::work::{Checkpoint, Work, has_left};
use crate::limits::QUERY_TIME_MAX;
use crate::query::Query;
use crate::query::plan::{Plan, WorkShare};
use crate::query::read::Items;
use crate::query::token::{self, Position};
use armilla_model::clock::monotonic;
use armilla_model::error::{Error, Result};
use armilla_model::value::Value;
use armilla_sql::Compiled;
use armilla_sql::effort::Effort;
use armilla_sql::eval::{Frame, Runtime, Visited, visit_rows};
use armilla_sql::functions::Context;

/// What every operator is given.
pub(in crate::query) struct PageRun<'a> {
    pub(in crate::query) query: &'a Query,
    pub(in crate::query) plan: &'a Plan,
    pub(in crate::query) items: Items<'a>,
}

impl<'a> PageRun<'a> {
    pub(in crate::query) fn new(query: &'a Query, plan: &'a Plan) -> Self {
        Self { query, plan, items: Items::new(query, plan) }
    }

    pub(in crate::query) fn compiled(&self) -> &'a Compiled {
        &self.query.prepared.compiled
    }

    /// The same over a share of its items.
    pub(in crate::query) fn for_share(&self, share: &WorkShare) -> Self {
        Self { query: self.query, plan: self.plan, items: self.items.for_share(share) }
    }

    pub(in crate::query) fn token(&self, position: &Position) -> String {
        token::write(self.query.binding, position)
    }
}

/// Ticks of the language's clock in a millisecond.
const TICKS_PER_MILLISECOND: i64 = 10_000;

/// A page being made: what evaluates its expressions, and what was done so far.
pub(in crate::query) struct Execution<'e> {
    pub(in crate::query) runtime: Runtime<'e>,
    pub(in crate::query) work: &'e mut Work,
}

/// Takes a row that meets the condition.
type TakeRow<'t> = dyn FnMut(&Frame<'_>, &mut Runtime<'_>, &mut Work) -> Visited<Error> + 't;

impl Execution<'_> {
    /// The counters as they are now.
    pub(in crate::query) fn checkpoint(&self) -> Checkpoint {
        self.work.checkpoint(&self.runtime)
    }

    /// Hands the rows of an item that meet the condition to a visitor; true when it stopped.
    pub(in crate::query) fn visit_rows(
        &mut self,
        query: &Compiled,
        item: &Value,
        take: &mut TakeRow<'_>,
    ) -> Result<bool> {
        let Self { runtime, work } = self;
        let flow =
            visit_rows(query, item, runtime, &mut |frame, runtime| take(frame, runtime, work));
        flow.map(|flow| flow.is_break())
    }

    /// Counts an item whose rows were all made: its size if any of them met the condition, and when
    /// it was begun.
    pub(in crate::query) fn item_done(
        &mut self,
        target: usize,
        matched: Option<usize>,
        begun: Checkpoint,
    ) {
        let Self { runtime, work } = self;
        work.charges.evaluation += match matched {
            Some(_) => work.evaluated_since(begun, runtime),
            None => work.called_since(begun),
        };
        work.bill.visited(target, matched, &work.rates);
    }
}

/// Calls a function with a runtime for the query's container.
pub(in crate::query) fn with_runtime<T>(
    query: &Query,
    work: &mut Work,
    run: impl FnOnce(&mut Execution<'_>) -> T,
) -> T {
    let core = &query.container.core;
    let now_ticks = || {
        let millis = i64::try_from(core.clock.now_millis()).unwrap_or(i64::MAX);
        millis.saturating_mul(TICKS_PER_MILLISECOND)
    };
    let mut seed = [0; 8];
    seed.copy_from_slice(&core.ids.next_etag().0[8..]);
    let mut state = u64::from_be_bytes(seed) ^ core.clock.now_millis();
    let mut random = || next_random(&mut state);
    let deadline = work.started + QUERY_TIME_MAX;
    let deadline = work.asker.map_or(deadline, |asker| deadline.min(asker.deadline));
    let budget = work.budget.clone();
    let client = work.client.clone();
    let brief = work.brief.clone();
    let interrupted = move || {
        if let Some(brief) = brief.as_ref().filter(|brief| monotonic() >= brief.until) {
            brief.outgrown.set(true);
            return true;
        }
        budget.as_ref().is_some_and(|budget| budget.is_over())
            || has_left(client.as_ref())
            || monotonic() >= deadline
    };
    let mut runtime = Runtime::new(Context {
        now_ticks: &now_ticks,
        now_static_ticks: now_ticks(),
        random: &mut random,
        geometry: query.prepared.schema.geometry(),
        vectors: query.prepared.schema.vectors(),
        effort: Effort::default().interrupted_by(&interrupted),
    });
    let started = work.asker.map_or(work.started, |asker| asker.started);
    let users = Users::new(&query.container, started, work.calls.clone());
    runtime.users = &users;
    let mut execution = Execution { runtime, work };
    let outcome = run(&mut execution);
    execution.work.rows_visited = execution.runtime.rows_visited;
    work.stopped = users.into_stop();
    outcome
}

/// A small generator (splitmix64): RAND promises nothing but a number in [0, 1).
fn next_random(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}
