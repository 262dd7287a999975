//! `POST /_armilla/explain`: how a query is answered, without making a page or with one.
//!
//! A page is made as that of any query: its partitions are asked for throughput and pay for it, and it runs
//! where queries run, under their limits. A plan alone reads nothing and costs nothing.

use super::addressed::ItemTarget;
use super::{EngineService, metered, query};
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
    match as_query(&asked, &call) {
        Ok(query) => metered::call(service, query).await,
        Err(error) => Reply::error(error),
    }
}

/// Answers with the plan of a query.
pub(super) async fn plan(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    let asked = ExplainRequest::parse(&call.body)?;
    let query = as_query(&asked, call)?;
    match ItemTarget::find(service, &query) {
        Some(target) => query::explain(service, &query, target?).await,
        None => Err(wire::misrouted(call)),
    }
}

fn path(asked: &ExplainRequest) -> ContainerPath<'_> {
    ContainerPath { database: &asked.database, container: &asked.container }
}

/// The request for a page of the query that is to be explained.
fn as_query<'a>(asked: &'a ExplainRequest, call: &Call<'a>) -> Result<Call<'a>> {
    let key = asked.partition_key.as_deref();
    let key = key.map(|text| PartitionKeyHeader::parse("partitionKey", text.as_bytes()));
    let context = RequestContext {
        partition_key: key.transpose()?,
        max_item_count: asked.count_max,
        continuation: asked.continuation.as_deref(),
        enable_cross_partition: true,
        explain: Some(ExplainForm::Body),
        // The server merges, whoever asks.
        client: Client::Other,
        ..call.context.clone()
    };
    let operation = Operation::QueryItems(path(asked));
    let body = asked.query.clone().into();
    Ok(Call { operation, context, principal: call.principal, body })
}
