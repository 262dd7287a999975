//! Queries: what the language decides, run on what the partitions hold.
//!
//! ```text
//! request ─► prepare (parse, bind; cached) ─► targets (ranges, one view each) ─► one of
//!     stream   rows as items go by, in the order of (effective key, ordinal)
//!     ordered  ORDER BY: the next rows behind a position, from a bounded heap
//!     grouped  aggregates, GROUP BY and DISTINCT: the next groups behind a key
//!     whole    everything at once: ORDER BY RANK, queries over such queries
//! ─► page (rows, continuation, charge, metrics)
//! ```
//!
//! Every page takes a fresh view of each partition and keeps nothing between pages: a continuation
//! names a position in the data ([`token`]), so it survives restarts, merges and splits.

mod bounded;
mod charge;
mod client_merge;
mod exec;
pub mod explain;
mod find;
mod page;
mod plan;
mod prepare;
mod read;
mod request;
mod token;
mod view;

pub use armilla_sql::access::IndexUsage;
pub use client_merge::{ClientMerge, advice, client_merge, plan};
pub(crate) use exec::context::Clock;
pub use page::{Metrics, Page};
use plan::costs::{BRIEF_TEXT_MAX, SMALL_COPIES_MAX, SMALL_ITEMS_MAX};
pub(crate) use read::items::Overlay;
pub use request::{Request, ResumeFilter};
pub use token::{INVALID_TOKEN, is_of_the_service};

use crate::container::{Container, Settings};
use crate::ranges::EpkSpan;
use crate::scripts::Client;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::{Epk, Hashing};
use armilla_model::policy::{ComputedProperty, ContainerPolicy};
use armilla_model::value::Value;
use armilla_sql::Schema;
use armilla_sql::access::KeyConstraint;
use armilla_sql::compiled::{Compiled, Input, Order};
use armilla_sql::reference::{self, Options as ListOptions};
use exec::context::Work;
use exec::workers;
use parking_lot::Mutex;
use prepare::Prepared;
use read::items::{Source, overlap};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use view::Target;

/// How long a page may run before it ends where it is. Clients in Direct mode give a request five seconds.
const PAGE_TIME_MAX: Duration = Duration::from_secs(4);
/// How long a query may run that cannot end in the middle: a sort, a group, an aggregate.
const QUERY_TIME_MAX: Duration = Duration::from_secs(60);
/// Bytes that a query may hold while it sorts, groups or gathers; all together may hold
/// [`QUERIES_MEMORY_MAX`](crate::limits::QUERIES_MEMORY_MAX).
const QUERY_MEMORY_MAX: usize = crate::limits::QUERIES_MEMORY_MAX / 8;
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
pub struct Options<'o> {
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
    prepared: Prepared,
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
    /// What was looked at to see whether the query is small: the next page goes on from there.
    looked_at: Mutex<Option<Vec<Target>>>,
}

impl Query {
    /// Compiles a query for a container, and finds the partitions it must visit.
    pub fn new(container: Arc<Container>, request: Request, scope: &Scope) -> Result<Self> {
        let started = Instant::now();
        let settings = container.settings();
        let prepared = prepare::prepare(&settings, &request)?;
        let spans = spans(&prepared.constraint, &settings.policy, scope)?;
        let binding = token::binding(&request, scope);
        let compiled_in = started.elapsed();
        let scope_key = scope_key(&settings.policy, scope);
        let access = Access::ByCost;
        let is_habitual = request.parameters.is_empty() && scope.limit != Limit::Key;
        Ok(Self {
            container,
            settings,
            request,
            prepared,
            spans,
            scope_key,
            access,
            threads: Threads::ByCost,
            is_habitual,
            binding,
            compiled_in,
            client: None,
            looked_at: Mutex::new(None),
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

    /// Answers one page on the thread that took the request, if that is done in a moment: nothing
    /// when there are too many items to look at, and when there turn out to be too many bytes, or
    /// too much to evaluate. Then the page is to be made where work may take its time.
    pub fn brief_page(&self, options: Options<'_>) -> Result<Option<Page>> {
        if !self.is_small() {
            return Ok(None);
        }
        let mut work = self.work(None).briefly();
        match self.page_of(options, None, &mut work) {
            Err(_) if work.is_outgrown() => Ok(None),
            page => page.map(Some),
        }
    }

    /// True when few items have to be looked at.
    fn is_small(&self) -> bool {
        let plan = &self.prepared.compiled;
        if plan.calls_user_functions || plan.multiplies {
            return false;
        }
        if self.is_habitual && self.prepared.habit.is_quick() {
            return true;
        }
        let most = if self.prepared.copied.is_some() { SMALL_COPIES_MAX } else { SMALL_ITEMS_MAX };
        let targets = self.targets();
        let source = self.source(&targets);
        let is_small =
            source.scope() <= most || (!source.tries_values() && source.estimate() <= most);
        *self.looked_at.lock() = Some(targets);
        is_small
    }

    /// True when rows come as items go by, in the order of (effective key, ordinal): those of one
    /// logical partition are neighbours.
    pub fn follows_items(&self) -> bool {
        matches!(shape(&self.prepared.compiled), Shape::Stream)
    }

    /// True when its rows are not simply those of one range, one after the other: several ranges are
    /// addressed, or equal rows and groups come together over pages.
    pub fn needs_merging(&self) -> bool {
        let plan = &self.prepared.compiled;
        plan.distinct || plan.aggregation.is_some() || self.targets().len() > 1
    }

    /// The first ORDER BY key descends.
    pub fn is_descending(&self) -> bool {
        descends(&self.prepared.compiled)
    }

    /// Answers one page.
    pub fn page(&self, options: Options<'_>) -> Result<Page> {
        self.page_over(options, None, None)
    }

    /// Answers one page as an open transaction sees it: the items that were there when it began,
    /// as they are now. A script asks with what is left of its time.
    pub(crate) fn page_over(
        &self,
        options: Options<'_>,
        overlay: Option<&Overlay>,
        asker: Option<Clock>,
    ) -> Result<Page> {
        self.page_of(options, overlay, &mut self.work(asker))
    }

    fn work(&self, asker: Option<Clock>) -> Work {
        Work::new(Instant::now(), self.compiled_in, self.container.rates())
            .sharing(&self.container.core.shares.queries)
            .of_script(asker)
            .for_client(self.client.clone())
    }

    fn page_of(
        &self,
        options: Options<'_>,
        overlay: Option<&Overlay>,
        work: &mut Work,
    ) -> Result<Page> {
        let plan = &*self.prepared.compiled;
        let read = |text| token::read(text, self.binding);
        let position = options.continuation.map(read).transpose()?.flatten();
        let targets = self.targets();
        let run = Run {
            request: &self.request,
            source: self.source(&targets).over(overlay),
            binding: self.binding,
            position,
            options,
        };
        work.bill.over(&run.source);
        let shape = shape(plan);
        if !matches!(shape, Shape::Stream) {
            workers::try_values(&run.source, 0..targets.len());
        }
        let page = match shape {
            Shape::Stream => exec::stream::run(run, work),
            Shape::Ordered => exec::top_k::run(run, work),
            Shape::Grouped => exec::group::run(run, work),
            Shape::Whole => exec::whole::run(run, work),
        };
        let mut page = page.map_err(|error| work.stopped.take().unwrap_or(error))?;
        page.finish(work, token::is_rewritten(&self.request.text));
        if self.is_habitual {
            self.prepared.habit.took(page.metrics.total_time);
        }
        Ok(page)
    }

    /// How the query finds its items, in words: the kind of answer, then a line per range, then
    /// what a page has cost.
    pub fn explain(&self, page: &Page) -> String {
        let kind = match shape(&self.prepared.compiled) {
            Shape::Stream => "rows as items go by",
            Shape::Ordered => "rows in order",
            Shape::Grouped => "groups",
            Shape::Whole => "everything at once",
        };
        let mut lines = vec![kind.to_owned()];
        lines.extend(self.source(&self.targets()).describe());
        let metrics = &page.metrics;
        lines.push(format!(
            "{} item(s) of {} bytes read, {} row(s), {} RU",
            metrics.retrieved_count, metrics.retrieved_size, metrics.output_count, page.charge
        ));
        lines.join("\n")
    }

    /// The ranges as they are now, or as they were looked at a moment ago.
    fn targets(&self) -> Vec<Target> {
        let targets = self.looked_at.lock().take();
        targets.unwrap_or_else(|| Source::look_at(&self.container, &self.spans))
    }

    fn source<'q>(&'q self, targets: &'q [Target]) -> Source<'q> {
        let key = self.scope_key.as_ref();
        let source = Source::new(&self.container, &self.settings, &self.prepared, targets, key);
        source.by(self.access).on(self.threads)
    }
}

/// What every way of running is given.
struct Run<'a> {
    request: &'a Request,
    source: Source<'a>,
    binding: token::Binding,
    position: Option<token::Position>,
    options: Options<'a>,
}

impl Run<'_> {
    fn plan(&self) -> &Compiled {
        &self.source.prepared.compiled
    }

    /// The same over a share of its items.
    fn only(&self, share: &workers::Share) -> Run<'_> {
        Run { source: self.source.only(share), position: self.position.clone(), ..*self }
    }

    fn token(&self, position: &token::Position) -> String {
        token::write(self.binding, position)
    }
}

/// How a query is run.
enum Shape {
    Stream,
    Ordered,
    Grouped,
    Whole,
}

fn shape(plan: &Compiled) -> Shape {
    if plan.is_streaming() && starts_from_items(plan) {
        return Shape::Stream;
    }
    match (&plan.input, &plan.order) {
        // Groups in an order of their own are all made before the first is handed out.
        (Input::Items, _) if plan.aggregation.as_ref().is_some_and(|all| !all.order.is_empty()) => {
            Shape::Whole
        }
        (Input::Items, _) if plan.aggregation.is_some() && !plan.distinct => Shape::Grouped,
        (Input::Items, Order::Keys { .. }) if plan.aggregation.is_none() => Shape::Ordered,
        (Input::Items, Order::None) if plan.distinct && plan.aggregation.is_none() => {
            Shape::Grouped
        }
        _ => Shape::Whole,
    }
}

fn starts_from_items(plan: &Compiled) -> bool {
    match &plan.input {
        Input::Items => true,
        Input::Single => false,
        Input::Query(inner) => starts_from_items(inner),
    }
}

fn descends(plan: &Compiled) -> bool {
    match &plan.order {
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
            return Err(Error::bad_request(
                "Cross partition query is required but disabled. Please set \
                 x-ms-documentdb-query-enablecrosspartition to true, specify \
                 x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
            ));
        }
        KeyConstraint::Any => return Ok(vec![scope.span.clone()]),
        KeyConstraint::Keys(keys) => keys
            .iter()
            .filter_map(|key| overlap(&EpkSpan::of_prefix(&definition.epk(key)), &scope.span))
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
    Ok(reference::meets(&query, item, ListOptions::new(&schema))?)
}

/// Refuses computed properties that are no queries over one item, that share a name, or whose value is
/// not determined by the item. Those that the container has already are not judged by the last rule.
pub fn check_computed(policy: &ContainerPolicy, before: &[ComputedProperty]) -> Result<()> {
    Schema::new(policy)?;
    let mut names = HashSet::new();
    for property in &policy.computed {
        let name = &property.name;
        if !names.insert(name) {
            return Err(Error::bad_request(format!(
                "Computed property name '{name}' cannot be used in multiple definitions."
            )));
        }
        let query = armilla_sql::parse(&property.query)?;
        let compiled = armilla_sql::compile(&query, &[], &Schema::none())?;
        if !before.contains(property) && !prepare::pure::is_pure(&compiled) {
            return Err(Error::bad_request(format!(
                "The computed property '{name}' is not determined by the item: user-defined functions, \
                 DOCUMENTID, and functions of time and chance such as NOW and RAND are not allowed \
                 in computed properties. Call them in the queries instead."
            )));
        }
    }
    Ok(())
}

/// True when a request is so short that it is compiled in a moment, on whichever thread.
pub fn compiles_briefly(body: &[u8]) -> bool {
    body.len() <= BRIEF_TEXT_MAX
}

/// A query over a small list, such as the databases of an account.
pub fn over_list(body: &[u8], rows: Vec<Value>) -> Result<Vec<Value>> {
    let request = Request::parse(body)?;
    let query = armilla_sql::parse(&request.text)?;
    let schema = Schema::none();
    let options = ListOptions::new(&schema);
    Ok(reference::run(&query, &request.parameters, rows.into_iter(), options)?)
}
