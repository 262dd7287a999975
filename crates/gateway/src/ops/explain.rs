//! `POST /_armilla/explain`: how a query is answered, without making a page or with one.
//!
//! A page is made as that of any query: its partitions are asked for throughput and pay for it, and it runs
//! where queries run, under their limits. A plan alone reads nothing and costs nothing.

use super::addressed::ItemTarget;
use super::{EngineService, metered, query};
use crate::auth::Principal;
use crate::headers::{Client, ExplainForm, PartitionKeyHeader};
use crate::routes::{ContainerPath, Operation};
use crate::wire::{self, explain::ExplainRequest};
use crate::{Call, Reply, RequestContext};
use armilla_model::Result;

/// Answers with the page of a query and how it was made, if the request wants it made.
pub(super) async fn answer(service: &EngineService, call: Call<'_>) -> Reply {
    let asked = match ExplainRequest::parse(&call.body) {
        Ok(asked) if asked.run => asked,
        // A plan alone, or a refusal.
        _ => return metered::call(service, call).await,
    };
    match context_of(&asked, &call) {
        Ok(context) => metered::call(service, as_query(&asked, &context, call.principal)).await,
        Err(error) => Reply::error(error),
    }
}

/// Answers with the plan of a query.
pub(super) async fn plan(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    let asked = ExplainRequest::parse(&call.body)?;
    let context = context_of(&asked, call)?;
    let query = as_query(&asked, &context, call.principal);
    match ItemTarget::find(service, &query) {
        Some(target) => query::explain(service, &query, target?).await,
        None => Err(wire::misrouted(call)),
    }
}

fn path(asked: &ExplainRequest) -> ContainerPath<'_> {
    ContainerPath { database: &asked.database, container: &asked.container }
}

/// What the headers of a request for a page of the query that is to be explained would say.
fn context_of<'a>(asked: &'a ExplainRequest, call: &Call<'a>) -> Result<RequestContext<'a>> {
    let key = asked.partition_key.as_deref();
    let key = key.map(|text| PartitionKeyHeader::parse("partitionKey", text.as_bytes()));
    Ok(RequestContext {
        partition_key: key.transpose()?,
        max_item_count: asked.count_max,
        continuation: asked.continuation.as_deref(),
        enable_cross_partition: true,
        explain: Some(ExplainForm::Body),
        // The server merges, whoever asks.
        client: Client::Other,
        ..call.context.clone()
    })
}

/// The request for a page of the query that is to be explained.
fn as_query<'a>(
    asked: &'a ExplainRequest,
    context: &'a RequestContext<'a>,
    principal: &'a Principal,
) -> Call<'a> {
    let operation = Operation::QueryItems(path(asked));
    let body = asked.query.clone().into();
    Call { operation, context, principal, body }
}
