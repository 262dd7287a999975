//! Plans for clients that send a query to every range and merge the rows themselves.

use crate::container::Container;
use crate::query::{ClientPlan, Request, prepare};
use armilla_model::error::Result;
use armilla_model::partition_key::{Definition, PartitionKey};
use armilla_sql::access::{IndexUsage, index_usage};
use armilla_sql::advice::advise;
use armilla_sql::ast::FromItem;
use armilla_sql::plan::{Features, PlanRange, PlanRequest, partitioned_plan};
use std::sync::Arc;

/// The plan of a query for a client that merges its rows. `features` is the list of what the
/// client can merge, or nothing when it did not say; `for_one_key`: it names a partition key. It does
/// not depend on the number of ranges: a query that works today must not fail, or page by other
/// tokens, once the container has grown.
pub fn plan(
    container: &Container,
    request: &Request,
    features: Option<&str>,
    for_one_key: bool,
) -> Result<Arc<ClientPlan>> {
    let settings = container.settings();
    let parsed = prepare::parsed(container, &settings, request)?;
    let definition = &settings.policy.partition_key;
    let range_of = |key: &PartitionKey| range_of(definition, key);
    parsed.client_plan(features, for_one_key, || {
        Ok(partitioned_plan(PlanRequest {
            query: &parsed.query,
            parameters: &request.parameters,
            schema: &parsed.schema,
            partition_key: &definition.paths,
            features: &features.map_or_else(classic_features, Features::parse),
            range_of: &range_of,
            for_one_key,
        })?)
    })
}

/// What a client can merge that does not say: everything, in the older form.
fn classic_features() -> Features {
    Features::all().without("HybridSearchSkipOrderByRewrite")
}

/// The numbers of the rules of advice that a query breaks.
pub fn advice(container: &Container, request: &Request) -> Result<Vec<&'static str>> {
    let parsed = prepare::parsed(container, &container.settings(), request)?;
    Ok(advise(&parsed.query, &request.parameters))
}

/// The names that stand for items and for elements of their arrays in a query.
///
/// # Errors
///
/// When the text cannot be read.
pub fn aliases(container: &Container, request: &Request) -> Result<Vec<String>> {
    let parsed = prepare::parsed(container, &container.settings(), request)?;
    let names = parsed.query.from.iter().filter_map(FromItem::effective_alias);
    Ok(names.map(ToString::to_string).collect())
}

/// The plan of a query that clients have to merge, if it is one. What no client can merge is refused.
pub fn client_merge(container: &Container, request: &Request) -> Result<Option<Arc<ClientPlan>>> {
    let made = plan(container, request, None, false)?;
    Ok(Some(made).filter(|made| made.plan.needs_merging()))
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
