//! Queries: what the language decides, run on what the partitions hold.
//!
//! ```text
//! request ─► prepare  text to compiled query, cached
//!         ─► view     the ranges it addresses, one consistent view of each
//!         ─► plan     how the page is answered: operator, access per range, threads, cost
//!         ─► exec     the operator runs; find says who may match, read gets values
//!         ─► page     rows, continuation, charge, metrics
//! ```
//!
//! Every page takes a fresh view of each partition and keeps nothing between pages: a continuation
//! names a position in the data ([`token`]), so it survives restarts, merges and splits.
//!
//! Modules know each other downwards only: `exec`, then `charge` and `read`, then `plan`, `view`, `find`, `prepare`
//! (`xtask/tests/house_rules.rs` checks it).

mod bounded;
mod charge;
mod client_merge;
mod counters;
mod exec;
pub mod explain;
mod explained;
mod find;
mod gathered;
pub mod language;
mod page;
mod part;
mod plan;
mod prepare;
mod read;
mod request;
mod stopwatch;
mod token;
mod view;

pub use armilla_sql::access::IndexUsage;
pub use client_merge::{advice, aliases, client_merge, plan};
pub(crate) use exec::{CachedOrders, ScriptDeadline};
pub use gathered::PartPage;
pub use page::{Metrics, Onward, Page};
pub(crate) use plan::Overlay;
pub use plan::{Cost, Plan};
pub use prepare::ClientPlan;
pub(crate) use prepare::{QueryCache, is_pure};
pub use request::{Request, ResumeFilter, ResumeValue};
pub use token::{INVALID_TOKEN, is_of_the_service};

use crate::container::{Container, Settings};
use crate::limits::PAGE_TIME_MAX;
use crate::partition::Partition;
use crate::ranges::EpkSpan;
use crate::scripts::Client;
use armilla_model::clock::monotonic;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::{Epk, Hashing};
use armilla_model::policy::ContainerPolicy;
use armilla_model::value::Value;
use armilla_sql::Schema;
use armilla_sql::access::KeyConstraint;
use armilla_sql::compiled::{Compiled, Order};
use armilla_sql::plan::is_rewritten_order;
use armilla_sql::reference::{self, Options as ListOptions};
use exec::Work;
use plan::costs::BRIEF_TEXT_MAX;
use prepare::{Prepared, Shape};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of one level of a hierarchical effective key.
const KEY_LEVEL_LENGTH: usize = 16;

/// Which items a query may see.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The part of the key space.
    pub span: EpkSpan,
    /// What the client limited the query to.
    pub limit: Limit,
    /// The client allows a query over all partitions.
    pub cross_partition: bool,
}

/// What a client limited its query to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing: the whole container.
    Container,
    /// A range of effective keys.
    Range,
    /// A partition key or a prefix of one.
    Key,
}

/// How a page is wanted.
#[derive(Clone, Copy, Debug)]
pub struct PageOptions<'o> {
    /// Rows at most.
    pub count_max: usize,
    /// Where the last page ended.
    pub continuation: Option<&'o str>,
    /// A page of rows that come as items go by holds rows of one range only.
    pub range_by_range: bool,
}

/// How items are found. The answer is the same; tests compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// By whichever way seems cheapest.
    #[default]
    ByCost,
    /// By going through the items.
    Items,
    /// By the index wherever it can help, however few the items.
    Index,
}

/// On how many threads ranges are gone through. The answer is the same; tests compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// On several where that is worth it, and where others are idle.
    #[default]
    ByCost,
    /// On the one that asks.
    One,
    /// Side by side wherever that can be done, however few the items.
    Many,
}

/// A query that is understood and routed, ready to give pages.
pub struct Query {
    container: Arc<Container>,
    settings: Arc<Settings>,
    request: Request,
    prepared: Arc<Prepared>,
    spans: Vec<EpkSpan>,
    /// The full key that the client limited the query to.
    scope_key: Option<Epk>,
    access: Access,
    threads: Threads,
    /// The query asks the same whenever its text is asked: it has no parameters, and is not about one
    /// logical partition.
    is_habitual: bool,
    binding: token::Binding,
    compiled_in: Duration,
    /// Who waits for the answer, if that is known.
    client: Option<Client>,
    /// Its pages will be explained, with times.
    is_measured: bool,
    /// It is for all slices of an account, of which this is one.
    in_turn: bool,
    /// How long a page may run before it ends where it is.
    page_time_max: Duration,
}

impl Query {
    /// Compiles a query for a container, and finds the parts of the key space it must visit.
    pub fn new(container: Arc<Container>, request: Request, scope: &Scope) -> Result<Self> {
        let started = monotonic();
        let settings = container.settings();
        let prepared = prepare::prepare(&container, &settings, &request)?;
        let spans = spans(&prepared.constraint, &settings.policy, scope)?;
        let binding = token::binding(&request, scope);
        let compiled_in = started.elapsed();
        let scope_key = scope_key(&settings.policy, scope);
        let is_habitual = request.parameters.is_empty() && scope.limit != Limit::Key;
        Ok(Self {
            container,
            settings,
            request,
            prepared,
            spans,
            scope_key,
            access: Access::ByCost,
            threads: Threads::ByCost,
            is_habitual,
            binding,
            compiled_in,
            client: None,
            is_measured: false,
            in_turn: false,
            page_time_max: PAGE_TIME_MAX,
        })
    }

    /// The same query with another choice of how items are found.
    #[must_use]
    pub fn by(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// The same query with another choice of how many threads there may be.
    #[must_use]
    pub fn on(self, threads: Threads) -> Self {
        Self { threads, ..self }
    }

    /// The same query for a client that may go away: once it has, a page ends where it is.
    #[must_use]
    pub fn for_client(self, client: Client) -> Self {
        Self { client: Some(client), ..self }
    }

    /// The same query, whose pages are measured: their explanations tell times.
    #[must_use]
    pub fn measured(self, is_measured: bool) -> Self {
        Self { is_measured, ..self }
    }

    /// The same query for a client that waits no longer than this: a page then ends where it is.
    #[must_use]
    pub fn within(self, page_time_max: Duration) -> Self {
        Self { page_time_max, ..self }
    }

    /// True when rows come as items go by, in the order of (effective key, ordinal): those of one
    /// logical partition are neighbours.
    pub fn follows_items(&self) -> bool {
        self.prepared.shape == Shape::Stream
    }

    /// True when its rows are not simply those of one range, one after the other: several ranges are
    /// addressed, or equal rows and groups come together over pages.
    pub fn needs_merging(&self) -> bool {
        let compiled = &self.prepared.compiled;
        let addressed = |partition: &&Arc<Partition>| {
            self.spans.iter().any(|span| partition.range.overlap(span).is_some())
        };
        compiled.distinct
            || compiled.aggregation.is_some()
            || (self.in_turn && self.spans.len() != 1)
            || (self.in_turn && self.prepared.constraint == KeyConstraint::Any)
            || self.container.partitions().iter().filter(addressed).count() > 1
    }

    /// The first ORDER BY key descends.
    pub fn is_descending(&self) -> bool {
        descends(&self.prepared.compiled)
    }

    /// Chooses how a page is answered. The plan holds what the page will see, whenever it is run.
    pub fn plan(&self, options: PageOptions<'_>) -> Result<Plan> {
        Plan::choose(self, options, None)
    }

    /// Answers a planned page.
    pub fn run(&self, plan: &Plan) -> Result<Page> {
        self.page_of(plan, &mut self.work(None))
    }

    /// Answers a planned page on the thread that took the request, if that is done in a moment: nothing
    /// when there turn out to be too many bytes, or too much to evaluate. Then the plan is to be run
    /// where work may take its time.
    pub fn run_briefly(&self, plan: &Plan) -> Result<Option<Page>> {
        let mut work = self.work(None).briefly();
        match self.page_of(plan, &mut work) {
            Err(_) if work.is_outgrown() => Ok(None),
            page => page.map(Some),
        }
    }

    /// Answers one page, wherever that is done.
    pub fn page(&self, options: PageOptions<'_>) -> Result<Page> {
        self.run(&self.plan(options)?)
    }

    /// Answers one page if its cost is small.
    pub fn brief_page(&self, options: PageOptions<'_>) -> Result<Option<Page>> {
        let plan = self.plan(options)?;
        if plan.cost().is_small() { self.run_briefly(&plan) } else { Ok(None) }
    }

    /// Answers one page as an open transaction sees it: the items that were there when it began,
    /// as they are now. A script asks with what is left of its time.
    pub(crate) fn page_over(
        &self,
        options: PageOptions<'_>,
        overlay: Option<Overlay>,
        asker: ScriptDeadline,
    ) -> Result<Page> {
        let plan = Plan::choose(self, options, overlay)?;
        self.page_of(&plan, &mut self.work(Some(asker)))
    }

    fn work(&self, asker: Option<ScriptDeadline>) -> Work {
        Work::new(monotonic(), self.compiled_in, self.container.rates())
            .sharing(&self.container.core.shares.queries)
            .of_script(asker)
            .for_client(self.client.clone())
            .measured(self.is_measured)
            .within(self.page_time_max)
    }

    fn page_of(&self, plan: &Plan, work: &mut Work) -> Result<Page> {
        let page = exec::run(self, plan, work);
        let mut page = page.map_err(|error| work.stopped.take().unwrap_or(error))?;
        work.finish(&mut page, is_rewritten_order(&self.request.text));
        if self.is_habitual {
            self.prepared.feedback.took(page.metrics.total_time);
        }
        Ok(page)
    }
}

fn descends(compiled: &Compiled) -> bool {
    match &compiled.order {
        Order::Keys { keys, .. } => keys.first().is_some_and(|key| key.descending),
        _ => false,
    }
}

/// The parts of the key space to visit, in order: those that the condition leaves of the scope.
fn spans(
    constraint: &KeyConstraint,
    policy: &ContainerPolicy,
    scope: &Scope,
) -> Result<Vec<EpkSpan>> {
    if scope.limit == Limit::Key {
        return Ok(vec![scope.span.clone()]);
    }
    let definition = &policy.partition_key;
    let mut spans = match constraint {
        KeyConstraint::Any if scope.limit == Limit::Container && !scope.cross_partition => {
            return Err(Error::CrossPartitionDisabled);
        }
        KeyConstraint::Any => return Ok(vec![scope.span.clone()]),
        KeyConstraint::Keys(keys) => keys
            .iter()
            .filter_map(|key| EpkSpan::of_prefix(&definition.epk(key)).overlap(&scope.span))
            .collect::<Vec<_>>(),
    };
    spans.sort_by(|left, right| left.min.cmp(&right.min));
    spans.dedup();
    Ok(spans)
}

/// The scope's key, if it is a full one and not the prefix of many.
fn scope_key(policy: &ContainerPolicy, scope: &Scope) -> Option<Epk> {
    let definition = &policy.partition_key;
    let is_full = definition.hashing != Hashing::MultiHash
        || scope.span.min.as_bytes().len() == definition.levels() * KEY_LEVEL_LENGTH;
    (scope.limit == Limit::Key && is_full).then(|| scope.span.min.clone())
}

/// True when an item meets the condition of a patch.
pub fn condition_holds(condition: &str, item: &Value) -> Result<bool> {
    let query = armilla_sql::parse_condition(condition)?;
    let schema = Schema::none();
    Ok(reference::meets(&query, item, ListOptions::bounded(&schema))?)
}

/// True when a request is so short that it is compiled in a moment, on whichever thread.
pub fn compiles_briefly(body: &[u8]) -> bool {
    body.len() <= BRIEF_TEXT_MAX
}

/// A query over a small list, such as the databases of an account.
pub fn over_list(request: &Request, rows: Vec<Value>) -> Result<Vec<Value>> {
    let query = armilla_sql::parse(&request.text)?;
    let schema = Schema::none();
    let options = ListOptions::bounded(&schema);
    Ok(reference::run(&query, &request.parameters, rows.into_iter(), options)?)
}
