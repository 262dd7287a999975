//! Plan cache: compiled queries of an account, by container, version of its definition, and text.
//!
//! Every change of a container counts its generation up, so nothing that was compiled for an older definition
//! can be found again.

use super::{ExecutionFeedback, Prepared};
use crate::container::{Container, Settings};
use crate::query::Request;
use crate::query::plan::costs::{
    CACHED_QUERIES_ESTIMATED, CACHED_QUERIES_WEIGHT, CACHED_QUERY_BYTE_WEIGHT, CACHED_SCHEMAS_MAX,
    CACHED_TEXT_MAX,
};
use armilla_model::error::{Error, Result};
use armilla_model::limits::QUERY_LENGTH_MAX;
use armilla_sql::Schema;
use armilla_sql::ast::Query;
use armilla_sql::plan::QueryPlan;
use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::{Arc, OnceLock};

/// Compiled queries and schemas of an account's containers.
pub(crate) struct QueryCache {
    queries: Cache<QueryKey, CachedQuery, ByText>,
    schemas: Cache<DefinitionVersion, Arc<Schema>>,
}

impl Default for QueryCache {
    fn default() -> Self {
        Self {
            queries: Cache::with_weighter(CACHED_QUERIES_ESTIMATED, CACHED_QUERIES_WEIGHT, ByText),
            schemas: Cache::new(CACHED_SCHEMAS_MAX),
        }
    }
}

/// A parsed query, and its compiled form when that does not depend on parameters.
#[derive(Clone)]
struct CachedQuery {
    schema: Arc<Schema>,
    query: Arc<Query>,
    plain: Option<Arc<Prepared>>,
    feedback: Arc<ExecutionFeedback>,
    client_plan: Arc<OnceLock<CachedClientPlan>>,
}

/// A plan for clients that merge rows by themselves, and the text that they are sent.
pub struct ClientPlan {
    /// The plan.
    pub plan: QueryPlan,
    /// As JSON.
    pub text: Bytes,
}

/// The plan that was asked for first, and by whom: most clients of a query are of one kind.
struct CachedClientPlan {
    features: Option<Box<str>>,
    for_one_key: bool,
    plan: Arc<ClientPlan>,
}

/// A query that was parsed for a container.
pub(in crate::query) struct Parsed {
    pub(in crate::query) query: Arc<Query>,
    pub(in crate::query) schema: Arc<Schema>,
    /// Nothing when the plan depends on parameters.
    client_plan: Option<Arc<OnceLock<CachedClientPlan>>>,
}

impl Parsed {
    /// The plan for a client that can merge this, and names a partition key or does not; made by `make` if
    /// it is not known.
    pub(in crate::query) fn client_plan(
        &self,
        features: Option<&str>,
        for_one_key: bool,
        make: impl FnOnce() -> Result<QueryPlan>,
    ) -> Result<Arc<ClientPlan>> {
        let cell = self.client_plan.as_ref();
        let same = |cached: &&CachedClientPlan| {
            cached.features.as_deref() == features && cached.for_one_key == for_one_key
        };
        if let Some(cached) = cell.and_then(|cell| cell.get()).filter(same) {
            return Ok(cached.plan.clone());
        }
        let plan = make()?;
        let text = plan.to_value().to_json().into();
        let plan = Arc::new(ClientPlan { plan, text });
        if let Some(cell) = cell {
            let features = features.map(Box::from);
            // Whoever comes second keeps nothing.
            let _taken = cell.set(CachedClientPlan { features, for_one_key, plan: plan.clone() });
        }
        Ok(plan)
    }
}

/// A container's number, and the generation of its definition.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct DefinitionVersion {
    container: u32,
    generation: u64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct QueryKey {
    version: DefinitionVersion,
    text: Box<str>,
}

#[derive(Hash)]
struct QueryKeyRef<'k> {
    version: DefinitionVersion,
    text: &'k str,
}

impl quick_cache::Equivalent<QueryKey> for QueryKeyRef<'_> {
    fn equivalent(&self, key: &QueryKey) -> bool {
        self.version == key.version && *self.text == *key.text
    }
}

#[derive(Clone)]
struct ByText;

impl Weighter<QueryKey, CachedQuery> for ByText {
    fn weight(&self, key: &QueryKey, _: &CachedQuery) -> u64 {
        (key.text.len() as u64 + 32) * CACHED_QUERY_BYTE_WEIGHT
    }
}

/// Parses and compiles a query for a container.
pub(in crate::query) fn prepare(
    container: &Container,
    settings: &Settings,
    request: &Request,
) -> Result<Arc<Prepared>> {
    let cached = find_or_parse(container, settings, request)?;
    let is_plain = request.parameters.is_empty();
    if let Some(plain) = cached.plain.as_ref().filter(|_| is_plain) {
        return Ok(plain.clone());
    }
    let CachedQuery { query, schema, feedback, .. } = &cached;
    let compiled = armilla_sql::compile(query, &request.parameters, schema)?;
    let definition = &settings.policy.partition_key;
    let prepared = Prepared::new(compiled, schema.clone(), definition, feedback.clone());
    let prepared = Arc::new(prepared);
    if is_plain {
        let cached = CachedQuery { plain: Some(prepared.clone()), ..cached };
        keep(container, version(container, settings), request, cached);
    }
    Ok(prepared)
}

/// Parses a query for a container.
pub(in crate::query) fn parsed(
    container: &Container,
    settings: &Settings,
    request: &Request,
) -> Result<Parsed> {
    let CachedQuery { query, schema, client_plan, .. } =
        find_or_parse(container, settings, request)?;
    let client_plan = request.parameters.is_empty().then_some(client_plan);
    Ok(Parsed { query, schema, client_plan })
}

fn version(container: &Container, settings: &Settings) -> DefinitionVersion {
    DefinitionVersion { container: container.number, generation: settings.generation }
}

/// A text that is known, or is from now on.
fn find_or_parse(
    container: &Container,
    settings: &Settings,
    request: &Request,
) -> Result<CachedQuery> {
    if request.text.len() > QUERY_LENGTH_MAX {
        return Err(Error::bad_request(format!(
            "The query text is longer than {QUERY_LENGTH_MAX} bytes."
        )));
    }
    let version = version(container, settings);
    let key = QueryKeyRef { version, text: &request.text };
    if let Some(cached) = container.core.queries.queries.get(&key) {
        return Ok(cached);
    }
    let query = Arc::new(armilla_sql::parse(&request.text)?);
    let schema = schema(container, settings)?;
    let cached = CachedQuery {
        schema,
        query,
        plain: None,
        feedback: Arc::default(),
        client_plan: Arc::default(),
    };
    keep(container, version, request, cached.clone());
    Ok(cached)
}

fn keep(container: &Container, version: DefinitionVersion, request: &Request, cached: CachedQuery) {
    if request.text.len() <= CACHED_TEXT_MAX {
        let key = QueryKey { version, text: request.text.as_str().into() };
        container.core.queries.queries.insert(key, cached);
    }
}

fn schema(container: &Container, settings: &Settings) -> Result<Arc<Schema>> {
    let (schemas, version) = (&container.core.queries.schemas, version(container, settings));
    if let Some(schema) = schemas.get(&version) {
        return Ok(schema);
    }
    let schema = Arc::new(Schema::new(&settings.policy)?);
    schemas.insert(version, schema.clone());
    Ok(schema)
}
