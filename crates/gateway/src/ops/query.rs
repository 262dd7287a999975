//! Queries over items, and the plans that clients ask for before they fan out.

use super::EngineService;
use super::addressed::{ItemTarget, Scope};
use super::placement::{self, Place};
use crate::auth::{Belongs, SEAL_LENGTH};
use crate::headers::{Client, ExplainForm, token_over_limit};
use crate::reply::{Fact, FeedBody, FeedKind};
use crate::wire::{diagnostics, explain};
use crate::{Call, Reply, wire};
use armilla_engine::Container;
use armilla_engine::limits::PAGE_TIME_MAX;
use armilla_engine::query::explain::Explanation;
use armilla_engine::query::{
    self, INVALID_TOKEN, IndexUsage, Limit, Metrics, Onward, Page, PageOptions, PartPage, Plan,
    Query,
};
use armilla_model::charge::RequestCharge;
use armilla_model::limits::QUERY_PAGE_DEFAULT;
use armilla_model::{Error, Result};
use http::{HeaderValue, StatusCode};
use std::sync::Arc;

/// Answers with a page of rows, merged over all partitions that the query addresses.
pub(super) async fn query(
    service: &EngineService,
    call: &Call<'_>,
    target: ItemTarget,
) -> Result<Reply> {
    if call.context.feed_mode.is_some() {
        return Err(Error::bad_request(
            "The change feed takes no query: send a-im with GET, or the query without a-im.",
        ));
    }
    let (container, scope) = (&target.container, target.scope()?);
    if let Some(refusal) = target.session_refusal() {
        return Ok(refusal);
    }
    let refusal = match plan_for_merging_client(service, call, container, scope).await {
        Ok(None) => None,
        Ok(Some(plan)) => {
            let message = "Cross partition query can not be directly served by the gateway; merge it by its plan.";
            Some(Error::CrossPartitionQuery { message: message.to_owned(), plan })
        }
        Err(error) => Some(error),
    };
    if let Some(error) = refusal {
        return Ok(target.with_positions(Reply::error(error).charge(RequestCharge::ONE)));
    }
    match page(service, call, container, scope).await {
        Ok(Made::Page(page, _)) if token_is_too_long(call, &page) => {
            Ok(target.with_positions(Reply::error(token_over_limit())))
        }
        Ok(Made::Page(page, facts)) => {
            let seal =
                |token: &str| service.authenticator.seal().close(belongs(container, scope), token);
            let continuation = page.continuation.as_deref().map(seal);
            let reply = reply(call, container, scope, &page, &facts, continuation);
            Ok(target.with_positions(reply).shared(page.shares))
        }
        Ok(Made::Part(part)) => {
            let reply = Reply::other(StatusCode::OK, part.bytes, OCTETS).fact(Fact::Part, "true");
            Ok(target.with_positions(reply).charge(part.charge).shared(part.shares))
        }
        Err(error) => Ok(target.with_positions(Reply::error(error).charge(RequestCharge::ONE))),
    }
}

/// What was made of a query.
#[expect(
    clippy::large_enum_variant,
    reason = "almost all of them are pages, which are moved twice"
)]
enum Made {
    Page(Page, QueryFacts),
    /// What this slice of the account has for a page.
    Part(PartPage),
}

const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Whether a query is for all slices of an account, of which this is one.
fn is_in_turn(container: &Container, scope: &Scope) -> bool {
    container.is_sliced() && scope.range.is_none() && !scope.has_key
}

/// The plan to hand to a client that merges by itself: its pipeline, its continuation tokens and its
/// metrics are what its users and its tests know.
async fn plan_for_merging_client(
    service: &EngineService,
    call: &Call<'_>,
    container: &Arc<Container>,
    scope: &Scope,
) -> Result<Option<String>> {
    let client = call.context.client;
    if !matches!(client, Client::Python | Client::JavaScript)
        || scope.limited
        || !call.context.enable_cross_partition
    {
        return Ok(None);
    }
    // JavaScript's pipeline waits for more than -1 rows in its buffer, for ever.
    if client == Client::JavaScript && call.context.any_item_count {
        return Ok(None);
    }
    let (container, body) = (container.clone(), call.body.clone());
    compiling(service, &call.body, move || {
        let request = wire::query::parse(&body)?;
        let merge = query::client_merge(&container, &request)?;
        // Python's pipeline hands out the rows of single ranges as they are.
        let merge = merge.filter(|merge| client != Client::Python || !merge.plan.regroups());
        Ok(merge.map(|merge| String::from_utf8_lossy(&merge.text).into_owned()))
    })
    .await
}

/// Compiles the query of a body: here when that is done in a moment, else on the pool.
async fn compiling<T: Send + 'static>(
    service: &EngineService,
    body: &[u8],
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if query::compiles_briefly(body) { work() } else { service.reading(work).await }
}

/// What is told beside a page.
struct QueryFacts {
    descending: bool,
    /// Somebody has to merge, or to go on from what other pages held.
    distributed: bool,
    explained: Option<Explanation>,
    usage: Option<IndexUsage>,
    advice: Vec<&'static str>,
}

/// Makes the page here when it is sure to be quick, and on the pool otherwise.
async fn page(
    service: &EngineService,
    call: &Call<'_>,
    container: &Arc<Container>,
    scope: &Scope,
) -> Result<Made> {
    let context = call.context;
    // Dropped with this task when the client goes away.
    let here = Arc::new(());
    let (query, facts) = compiled(service, call, container, scope, &here).await?;
    let count_max = context.max_item_count.map_or(QUERY_PAGE_DEFAULT, |count| count as usize);
    let explain = context.explain.is_some();
    // Python counts the pages of a query, and knows of one per range at least.
    let range_by_range = context.client == Client::Python && !scope.limited;
    let continuation =
        context.continuation.map(|token| own_token(service, container, scope, token));
    let continuation = continuation.transpose()?;
    if query.is_gathered() {
        let token = continuation.as_deref();
        let options = PageOptions { count_max, continuation: token, range_by_range };
        let made = gathered(service, call, (query, facts), options).await;
        drop(here);
        return made;
    }
    let plan_of = move |query: &Query| {
        let continuation = continuation.as_deref();
        query.plan(PageOptions { count_max, continuation, range_by_range })
    };
    // What is long to compile is long to plan.
    let is_brief = query::compiles_briefly(&call.body);
    let plan = is_brief.then(|| plan_of(&query)).transpose()?;
    let brief = match &plan {
        Some(plan) if placement::of_query(plan.cost()) == Place::Here => query.run_briefly(plan)?,
        _ => None,
    };
    let finish = move |query: &Query, plan: &Plan, page: Page| {
        let explained = explain.then(|| query.explain(plan, Some(&page)));
        (page, explained)
    };
    let made = match (brief, plan) {
        (Some(page), Some(plan)) => Ok(finish(&query, &plan, page)),
        (_, plan) => {
            let work = move || {
                let plan = plan.map_or_else(|| plan_of(&query), Ok)?;
                let page = query.run(&plan)?;
                Ok(finish(&query, &plan, page))
            };
            service.reading(work).await
        }
    };
    drop(here);
    made.map(|(page, explained)| Made::Page(page, QueryFacts { explained, ..facts }))
}

/// Makes this slice's part of a page, or the page of the parts of all slices.
async fn gathered(
    service: &EngineService,
    call: &Call<'_>,
    (query, facts): (Query, QueryFacts),
    options: PageOptions<'_>,
) -> Result<Made> {
    let (parts, explain) = (call.context.gathered.to_vec(), call.context.explain.is_some());
    if parts.is_empty() && !call.context.part {
        return Err(Error::bad_request(
            "The node that passed this query on asks for pages that this version puts together of parts: start it with the version of this one.",
        ));
    }
    let PageOptions { count_max, range_by_range, .. } = options;
    let token = options.continuation.map(str::to_owned);
    let work = move || {
        let continuation = token.as_deref();
        let options = PageOptions { count_max, continuation, range_by_range };
        if parts.is_empty() {
            return query.part(options).map(Made::Part);
        }
        let page = query.merge(options, &parts)?;
        // As this slice goes about its part.
        let plan = explain.then(|| query.plan(options)).transpose()?;
        let explained = plan.map(|plan| query.explain(&plan, None));
        Ok(Made::Page(page, QueryFacts { explained, ..facts }))
    };
    service.reading(work).await
}

fn token_is_too_long(call: &Call<'_>, page: &Page) -> bool {
    let (limit, token) = (call.context.continuation_limit_kb, &page.continuation);
    let long = |limit: u32| {
        token.as_ref().is_some_and(|token| token.len() + SEAL_LENGTH > limit as usize * 1024)
    };
    limit.is_some_and(long)
}

/// The query of a call, and what is known of it before it runs.
async fn compiled(
    service: &EngineService,
    call: &Call<'_>,
    container: &Arc<Container>,
    scope: &Scope,
    here: &Arc<()>,
) -> Result<(Query, QueryFacts)> {
    let context = call.context;
    let wants_advice = context.populate_query_advice;
    let wants_usage = (context.populate_index_metrics || context.populate_index_metrics_v2)
        && context.continuation.is_none();
    let (container, body) = (container.clone(), call.body.clone());
    let in_turn = is_in_turn(&container, scope);
    let (scope, client) = (query_scope(call, scope), Arc::downgrade(here));
    let is_explained = context.explain.is_some();
    let page_time_max = context.page_time_max.unwrap_or(PAGE_TIME_MAX);
    compiling(service, &call.body, move || {
        let request = wire::query::parse(&body)?;
        let advice = match wants_advice {
            true => query::advice(&container, &request)?,
            false => Vec::new(),
        };
        let query = Query::new(container, request, &scope)?.for_client(client).in_turn(in_turn);
        let query = query.measured(is_explained);
        let query = query.within(page_time_max);
        let usage = wants_usage.then(|| query.index_usage());
        let facts = QueryFacts {
            descending: query.is_descending(),
            distributed: query.needs_merging(),
            explained: None,
            usage,
            advice,
        };
        Ok((query, facts))
    })
    .await
}

/// The engine's token inside a client's.
fn own_token(
    service: &EngineService,
    container: &Container,
    scope: &Scope,
    token: &str,
) -> Result<String> {
    let open = |token: &str| {
        // A token of the service itself, kept by a client that was pointed here: the engine begins anew.
        if query::is_of_the_service(token) {
            return Ok(token.to_owned());
        }
        let seal = service.authenticator.seal();
        let opened = seal.open(belongs(container, scope), token).or_else(|refused| {
            // The token of a range goes on by a key in it, and the other way round between ranges.
            let further: &[&[u8]] =
                if scope.one_key().is_some() { &[RANGE] } else { &[RANGE, b""] };
            let open =
                |scope: &&[u8]| seal.open(Belongs { scope, ..belongs_to(container) }, token).ok();
            further.iter().find_map(open).ok_or(refused)
        })?;
        Ok(opened.to_owned())
    };
    if !token.starts_with('{') {
        return open(token);
    }
    let wrapped = armilla_model::json::parse(token.as_bytes()).ok();
    let inner = wrapped.as_ref().and_then(|wrapped| wrapped.get("token")?.as_str());
    open(inner.ok_or_else(|| Error::bad_request(INVALID_TOKEN))?)
}

/// The scope of tokens of a range of keys, which is not named: it may be split between two pages.
const RANGE: &[u8] = b"range";

/// What a query's token is bound to beside its text, which the engine binds: the container, and whether
/// one partition key, a range or the whole container was asked for.
fn belongs<'a>(container: &'a Container, scope: &'a Scope) -> Belongs<'a> {
    let whole: &[u8] = if scope.limited { RANGE } else { b"" };
    Belongs { scope: scope.one_key().unwrap_or(whole), ..belongs_to(container) }
}

fn belongs_to(container: &Container) -> Belongs<'_> {
    Belongs { kind: "query", owner: &container.rid_text, scope: b"" }
}

/// The token of a query over the whole container, in the form that clients know from a gateway.
fn gateway_token(token: &str) -> String {
    format!(
        "{{\"token\":{},\"range\":{{\"min\":\"\",\"max\":\"FF\"}}}}",
        diagnostics::quoted(token)
    )
}

fn query_scope(call: &Call<'_>, scope: &Scope) -> query::Scope {
    let limit = match scope.limited {
        true if scope.has_key => Limit::Key,
        true => Limit::Range,
        false => Limit::Container,
    };
    let cross_partition = call.context.enable_cross_partition;
    query::Scope { span: scope.span.clone(), limit, cross_partition }
}

fn reply(
    call: &Call<'_>,
    container: &Container,
    scope: &Scope,
    page: &Page,
    facts: &QueryFacts,
    continuation: Option<String>,
) -> Reply {
    let continuation = match continuation {
        Some(token) if !scope.limited => Some(gateway_token(&token)),
        token => token,
    };
    let reply = match (&facts.explained, call.context.explain) {
        (Some(explanation), Some(ExplainForm::Body)) => {
            let body = explain::answer(explanation, Some(page), continuation.as_deref());
            Reply::ok(body).item_count(page.rows.len())
        }
        _ => Reply::feed(FeedBody::of(FeedKind::Items, &container.rid_text, &page.rows)),
    };
    let info = match facts.descending {
        true => r#"{"reverseRidEnabled":false,"reverseIndexScan":true}"#,
        false => r#"{"reverseRidEnabled":false,"reverseIndexScan":false}"#,
    };
    let reply = reply.charge(page.charge).continuation(continuation);
    let mut reply = reply.fact(Fact::QueryExecutionInfo, info);
    reply = match page.onward {
        Onward::Here => reply,
        Onward::NextSlice => reply.fact(Fact::Turn, "next"),
        Onward::Nowhere => reply.fact(Fact::Turn, "end"),
    };
    let context = call.context;
    if context.populate_query_metrics {
        reply = reply.fact(Fact::QueryMetrics, metrics(&page.metrics));
    }
    // A client that tried a page before it asked for a plan takes silence for true, and asks again.
    if context.optimistic {
        let value = if facts.distributed { "True" } else { "False" };
        reply = reply.fact(Fact::RequiresDistribution, value);
    }
    match (&facts.explained, context.explain) {
        (Some(explanation), Some(ExplainForm::Json)) => {
            reply = reply.fact(Fact::Explain, explain::header(explanation));
        }
        (Some(explanation), Some(ExplainForm::Text)) => {
            let text = diagnostics::percent_encode(&explain::header_text(explanation));
            reply = reply.fact(Fact::Explain, text);
        }
        _ => {}
    }
    if let Some(usage) = &facts.usage {
        let text = if context.populate_index_metrics {
            diagnostics::index_metrics_v1(usage)
        } else {
            diagnostics::index_metrics_v2(usage)
        };
        reply = reply.fact(Fact::IndexUtilization, text);
    }
    if !facts.advice.is_empty() {
        reply = reply.fact(Fact::QueryAdvice, diagnostics::query_advice(&facts.advice));
    }
    reply
}

/// Times in milliseconds and counts, as all SDKs split them.
///
/// Items are read and looked at in one walk, so its time is also that of loading them. Java and .NET take a
/// zero for a time that was not measured: no phase that took place is told to have taken none.
fn metrics(metrics: &Metrics) -> String {
    const SHORTEST: f64 = 0.01;
    let millis = |time: std::time::Duration| (time.as_secs_f64() * 1000.0).max(SHORTEST);
    let compile = millis(metrics.compile_time);
    let execution = millis(metrics.total_time);
    let total = execution + compile;
    let load = if metrics.retrieved_count == 0 { 0.0 } else { execution };
    format!(
        "totalExecutionTimeInMs={total:.2};queryCompileTimeInMs={compile:.2};\
         queryLogicalPlanBuildTimeInMs=0.00;queryPhysicalPlanBuildTimeInMs=0.00;\
         queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs={execution:.2};indexLookupTimeInMs=0.00;\
         documentLoadTimeInMs={load:.2};systemFunctionExecuteTimeInMs=0.00;\
         userFunctionExecuteTimeInMs=0.00;retrievedDocumentCount={};retrievedDocumentSize={};\
         outputDocumentCount={};outputDocumentSize={};writeOutputTimeInMs=0.00;\
         indexUtilizationRatio={:.2}",
        metrics.retrieved_count,
        metrics.retrieved_size,
        metrics.output_count,
        metrics.output_size,
        if metrics.retrieved_count == 0 {
            1.0
        } else {
            (metrics.output_count as f64 / metrics.retrieved_count as f64).min(1.0)
        },
    )
}

/// Answers with how a page would be made, without making it.
pub(super) async fn explain(
    service: &EngineService,
    call: &Call<'_>,
    target: ItemTarget,
) -> Result<Reply> {
    let (container, scope) = (&target.container, target.scope()?);
    let here = Arc::new(());
    let (query, _) = compiled(service, call, container, scope, &here).await?;
    let count_max = call.context.max_item_count.map_or(QUERY_PAGE_DEFAULT, |count| count as usize);
    let token = call.context.continuation;
    let token = token.map(|token| own_token(service, container, scope, token)).transpose()?;
    let body = compiling(service, &call.body, move || {
        let continuation = token.as_deref();
        let plan = query.plan(PageOptions { count_max, continuation, range_by_range: false })?;
        Ok(explain::answer(&query.explain(&plan, None), None, None))
    });
    let reply = Reply::ok(body.await?).charge(RequestCharge::ZERO);
    Ok(target.with_owner(reply))
}

/// Answers with a plan.
pub(super) async fn plan(
    service: &EngineService,
    call: &Call<'_>,
    target: ItemTarget,
) -> Result<Reply> {
    // A whole key beside the query: one range answers, and skips for itself.
    let levels = target.container.key_definition().levels();
    let key = call.context.partition_key.as_ref();
    let for_one_key = key.is_some_and(|header| header.key.0.len() == levels);
    let (asked, body) = (target.container.clone(), call.body.clone());
    let features = call.context.query_features.map(str::to_owned);
    let plan = compiling(service, &call.body, move || {
        let request = wire::query::parse(&body)?;
        Ok(query::plan(&asked, &request, features.as_deref(), for_one_key)?.text.clone())
    });
    let plan = plan.await?;
    Ok(target.with_owner(Reply::ok(plan).charge(RequestCharge::ZERO)))
}
