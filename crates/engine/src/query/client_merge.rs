//! Plans for clients that send a query to every range and merge the rows themselves.

use crate::container::Container;
use crate::query::{Request, prepare};
use armilla_model::error::Result;
use armilla_model::partition_key::{Definition, PartitionKey};
use armilla_model::value::Value;
use armilla_sql::access::{IndexUsage, index_usage};
use armilla_sql::advice::advise;
use armilla_sql::plan::{Features, PlanRange, PlanRequest, partitioned_plan};

/// The plan of a query, as the document that clients read. `features` is the list of what the
/// client can merge, or nothing when it did not say; `for_one_key`: it names a partition key. It does not depend on the number of ranges: a
/// query that works today must not fail, or page by other tokens, once the container has grown.
pub fn plan(
    container: &Container,
    request: &Request,
    features: Option<&str>,
    for_one_key: bool,
) -> Result<Value> {
    let settings = container.settings();
    let (query, schema) = prepare::parsed(container, &settings, request)?;
    let definition = &settings.policy.partition_key;
    let range_of = |key: &PartitionKey| range_of(definition, key);
    let plan = partitioned_plan(PlanRequest {
        query: &query,
        parameters: &request.parameters,
        schema: &schema,
        partition_key: &definition.paths,
        features: &features.map_or_else(classic_features, Features::parse),
        range_of: &range_of,
        for_one_key,
    });
    Ok(plan?.to_value())
}

/// What a client can merge that does not say: everything, in the older form.
fn classic_features() -> Features {
    Features::all().without("HybridSearchSkipOrderByRewrite")
}

/// The numbers of the rules of advice that a query breaks.
pub fn advice(container: &Container, request: &Request) -> Result<Vec<&'static str>> {
    let (query, _) = prepare::parsed(container, &container.settings(), request)?;
    Ok(advise(&query, &request.parameters))
}

/// What a client has to do that merges a query over ranges by itself.
pub struct ClientMerge {
    /// The plan.
    pub plan: Value,
    /// The rows of ranges must be grouped again.
    pub groups: bool,
}

/// The merge of a query, if it needs one: filters and projections do not. What no client can merge
/// is refused.
pub fn client_merge(container: &Container, request: &Request) -> Result<Option<ClientMerge>> {
    let plan = plan(container, request, None, false)?;
    let Some(info) = plan.get("queryInfo") else {
        return Ok(Some(ClientMerge { plan, groups: false }));
    };
    let listed =
        |name: &str| info.get(name).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let given = |name: &str| info.get(name).is_some_and(|value| !matches!(value, Value::Null));
    let aggregates = info.get("groupByAliasToAggregateType").and_then(Value::as_object);
    let distinct = info.get("distinctType").and_then(Value::as_str).unwrap_or("None") != "None";
    let needed = distinct
        || ["orderBy", "aggregates", "groupByExpressions"].iter().any(|name| listed(name))
        || ["top", "offset", "limit", "dCountInfo"].iter().any(|name| given(name))
        || aggregates.is_some_and(|aggregates| !aggregates.is_empty());
    let groups = listed("groupByExpressions");
    Ok(needed.then_some(ClientMerge { plan, groups }))
}

/// A key's own place, or all places below a prefix.
fn range_of(definition: &Definition, key: &PartitionKey) -> PlanRange {
    let min = definition.epk(key).to_string();
    if definition.is_prefix(key) {
        let max = format!("{min}FF");
        PlanRange { min, max, max_inclusive: false }
    } else {
        PlanRange { max: min.clone(), min, max_inclusive: true }
    }
}

impl crate::query::Query {
    /// Which indexes the query uses, and which would help it.
    pub fn index_usage(&self) -> IndexUsage {
        let mut usage = index_usage(&self.prepared.compiled, &self.prepared.schema);
        // The partition key that the client named beside the query is a condition too.
        if self.scope_key.is_some() {
            for path in &self.settings.policy.partition_key.paths {
                let text = format!("{path}/?");
                if !usage.utilized.contains(&text) {
                    usage.utilized.push(text);
                }
            }
        }
        usage
    }
}
