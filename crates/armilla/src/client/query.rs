//! Queries, plans, ranges and the change feed: what an SDK asks for to fan out.

use super::items::{ContainerName, Key, PARTITION_KEY, RANGE_ID};
use super::{Answer, Call, Client, ClientError, Outcome};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

/// What this client can do with a plan; the same names that the SDKs send.
const FEATURES: &str = "Aggregate,CompositeAggregate,Distinct,GroupBy,MultipleAggregates,\
                        MultipleOrderBy,NonValueAggregate,OffsetAndLimit,OrderBy,Top";

/// Where a query looks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'a> {
    /// In one logical partition.
    Key(&'a Key),
    /// In one physical range.
    Range(&'a str),
    /// Everywhere, merged by the server where it can.
    Everywhere,
}

/// A query and its parameters.
#[derive(Clone, Debug)]
pub(crate) struct QueryText {
    body: String,
}

/// Which page of a query, and how it is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Page<'a> {
    /// Rows at most; the server's choice otherwise.
    pub(crate) count_max: Option<u32>,
    /// Where the page before ended.
    pub(crate) continuation: Option<&'a str>,
    /// With the server's words on how the rows were found.
    pub(crate) explained: bool,
}

/// A physical range of effective partition keys, as hexadecimal text.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Range {
    /// Its id.
    pub(crate) id: String,
    /// First key in it.
    pub(crate) min_inclusive: String,
    /// First key beyond it.
    pub(crate) max_exclusive: String,
}

impl QueryText {
    /// A query with `(name, value)` parameters, names with their `@`.
    pub(crate) fn new(query: &str, parameters: &[(String, Value)]) -> Self {
        let parameters: Vec<Value> = parameters
            .iter()
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        Self { body: json!({ "query": query, "parameters": parameters }).to_string() }
    }
}

impl Client {
    /// One page of a query.
    pub(crate) async fn query_page(
        &self,
        container: ContainerName<'_>,
        scope: Scope<'_>,
        query: &QueryText,
        page: Page<'_>,
    ) -> Outcome<Answer> {
        self.send(page_call(container, scope, query, page)).await
    }

    /// Every page of a query; the first refusal ends it.
    #[cfg(test)]
    pub(crate) async fn query_all(
        &self,
        container: ContainerName<'_>,
        scope: Scope<'_>,
        query: &QueryText,
        count_max: Option<u32>,
    ) -> Outcome<Vec<Answer>> {
        let mut pages: Vec<Answer> = Vec::new();
        let mut continuation: Option<String> = None;
        loop {
            let wanted =
                Page { count_max, continuation: continuation.as_deref(), explained: false };
            let page = self.query_page(container, scope, query, wanted).await?.success()?;
            continuation = page.continuation();
            pages.push(page);
            if continuation.is_none() {
                return Ok(pages);
            }
        }
    }

    /// The plan of a query, as an SDK asks for it before it fans out.
    pub(crate) async fn query_plan(
        &self,
        container: ContainerName<'_>,
        query: &QueryText,
    ) -> Outcome<Answer> {
        let call = container.call(Method::POST, &["docs"]);
        let call = call
            .header("content-type", "application/query+json")
            .header("x-ms-documentdb-isquery", "True")
            .header(CROSS_PARTITION, "True")
            .header("x-ms-cosmos-is-query-plan-request", "True")
            .header("x-ms-cosmos-supported-query-features", FEATURES)
            .body(query.body.clone());
        self.send(call).await
    }

    /// The physical ranges of a container.
    pub(crate) async fn ranges(&self, container: ContainerName<'_>) -> Outcome<Vec<Range>> {
        #[derive(Deserialize)]
        struct Ranges {
            #[serde(rename = "PartitionKeyRanges")]
            ranges: Vec<Range>,
        }
        let answer = self.send(container.call(Method::GET, &["pkranges"])).await?.success()?;
        let found: Ranges =
            serde_json::from_slice(&answer.body).map_err(ClientError::unreadable)?;
        Ok(found.ranges)
    }

    /// The first page of the change feed of a range; 304 when nothing was written.
    #[cfg(test)]
    pub(crate) async fn oldest_changes(
        &self,
        container: ContainerName<'_>,
        range: &str,
    ) -> Outcome<Answer> {
        let call = container.call(Method::GET, &["docs"]);
        self.send(call.header("a-im", "Incremental feed").header(RANGE_ID, range)).await
    }
}

const CROSS_PARTITION: &str = "x-ms-documentdb-query-enablecrosspartition";

/// The request for one page of a query.
fn page_call(
    container: ContainerName<'_>,
    scope: Scope<'_>,
    query: &QueryText,
    page: Page<'_>,
) -> Call {
    let call = container.call(Method::POST, &["docs"]);
    let call = call
        .header("content-type", "application/query+json")
        .header("x-ms-documentdb-isquery", "True")
        .header_if("x-ms-max-item-count", page.count_max.map(|count| count.to_string()))
        .header_if("x-ms-continuation", page.continuation)
        .header_if("x-armilla-explain", page.explained.then_some("text"))
        .body(query.body.clone());
    match scope {
        Scope::Key(key) => call.header(PARTITION_KEY, key.header()),
        Scope::Range(range) => call.header(CROSS_PARTITION, "True").header(RANGE_ID, range),
        Scope::Everywhere => call.header(CROSS_PARTITION, "True"),
    }
}
