//! From text to a compiled query, kept for the next time.
//!
//! Both caches are keyed by the container's settings themselves: every change of a container makes
//! new settings, so nothing that was compiled for old ones can be found again.

pub(in crate::query) mod feedback;
pub(in crate::query) mod pure;
pub(in crate::query) mod raw_projection;

use crate::container::Settings;
use crate::query::Request;
use crate::query::plan::costs::{
    CACHED_QUERIES_ESTIMATED, CACHED_QUERIES_WEIGHT, CACHED_QUERY_BYTE_WEIGHT, CACHED_SCHEMAS_MAX,
    CACHED_TEXT_MAX,
};
use crate::query::prepare::feedback::Habit;
use crate::query::prepare::raw_projection::Copied;
use armilla_model::error::{Error, Result};
use armilla_model::limits::QUERY_LENGTH_MAX;
use armilla_model::partition_key::Definition;
use armilla_sql::access::{self, KeyConstraint, Node, PathStep};
use armilla_sql::ast::Query;
use armilla_sql::compiled::{Input, Order};
use armilla_sql::{Compiled, Schema};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::{Arc, LazyLock};

/// A query ready to run, and what it was compiled for.
#[derive(Clone)]
pub(in crate::query) struct Prepared {
    pub(in crate::query) compiled: Arc<Compiled>,
    pub(in crate::query) schema: Arc<Schema>,
    /// The condition, as the index sees it.
    pub(in crate::query) node: Arc<Node>,
    /// Every path of the item that the query reads.
    pub(in crate::query) references: Arc<Vec<Vec<PathStep>>>,
    /// Those that it reads before it makes rows, where that is a step of its own (ORDER BY, copies of
    /// items): for its condition and its order.
    pub(in crate::query) key_references: Arc<Vec<Vec<PathStep>>>,
    /// The partition keys that the condition pins.
    pub(in crate::query) constraint: Arc<KeyConstraint>,
    /// How rows are made of the texts of items, if they are.
    pub(in crate::query) copied: Option<Arc<Copied>>,
    /// What was learnt by reading in order.
    pub(in crate::query) habit: Arc<Habit>,
}

impl Prepared {
    fn new(
        compiled: Compiled,
        schema: Arc<Schema>,
        definition: &Definition,
        habit: Arc<Habit>,
    ) -> Self {
        // Of a query over another query's rows, the innermost one is about items.
        let mut inner = &compiled;
        while let Input::Query(query) = &inner.input {
            inner = query;
        }
        let node = Arc::new(access::analyse(inner));
        let references = Arc::new(access::referenced_paths(&compiled));
        let constraint = match inner.input {
            Input::Items => access::pinned_keys(&node, &definition.paths),
            _ => access::partition_keys(inner, &definition.paths),
        };
        let constraint = Arc::new(constraint);
        let copied = Copied::of(&compiled).map(Arc::new);
        let key_references = match &compiled.order {
            Order::Keys { .. } => Arc::new(access::deciding_paths(&compiled)),
            Order::None if copied.is_some() => Arc::new(access::deciding_paths(&compiled)),
            _ => references.clone(),
        };
        let compiled = Arc::new(compiled);
        Self { compiled, schema, node, references, key_references, constraint, copied, habit }
    }
}

/// A parsed query, and its compiled form when that does not depend on parameters.
#[derive(Clone)]
struct Kept {
    settings: Arc<Settings>,
    schema: Arc<Schema>,
    query: Arc<Query>,
    plain: Option<Prepared>,
    habit: Arc<Habit>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    settings: usize,
    text: Box<str>,
}

#[derive(Hash)]
struct KeyRef<'k> {
    settings: usize,
    text: &'k str,
}

impl quick_cache::Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.settings == key.settings && *self.text == *key.text
    }
}

#[derive(Clone)]
struct ByText;

impl Weighter<Key, Kept> for ByText {
    fn weight(&self, key: &Key, _: &Kept) -> u64 {
        (key.text.len() as u64 + 32) * CACHED_QUERY_BYTE_WEIGHT
    }
}

static QUERIES: LazyLock<Cache<Key, Kept, ByText>> =
    LazyLock::new(|| Cache::with_weighter(CACHED_QUERIES_ESTIMATED, CACHED_QUERIES_WEIGHT, ByText));

type SchemaEntry = (Arc<Settings>, Arc<Schema>);
static SCHEMAS: LazyLock<Cache<usize, SchemaEntry>> =
    LazyLock::new(|| Cache::new(CACHED_SCHEMAS_MAX));

/// Parses and compiles a query for a container.
pub(in crate::query) fn prepare(settings: &Arc<Settings>, request: &Request) -> Result<Prepared> {
    let kept = find_or_parse(settings, request)?;
    let is_plain = request.parameters.is_empty();
    if let Some(plain) = kept.plain.as_ref().filter(|_| is_plain) {
        return Ok(plain.clone());
    }
    let Kept { query, schema, habit, .. } = &kept;
    let compiled = armilla_sql::compile(query, &request.parameters, schema)?;
    let definition = &settings.policy.partition_key;
    let prepared = Prepared::new(compiled, schema.clone(), definition, habit.clone());
    if is_plain {
        keep(request, Kept { plain: Some(prepared.clone()), ..kept });
    }
    Ok(prepared)
}

/// Parses a query for a container.
pub(in crate::query) fn parsed(
    settings: &Arc<Settings>,
    request: &Request,
) -> Result<(Arc<Query>, Arc<Schema>)> {
    let Kept { query, schema, .. } = find_or_parse(settings, request)?;
    Ok((query, schema))
}

fn address(settings: &Arc<Settings>) -> usize {
    Arc::as_ptr(settings) as usize
}

/// A text that is known, or is from now on.
fn find_or_parse(settings: &Arc<Settings>, request: &Request) -> Result<Kept> {
    if request.text.len() > QUERY_LENGTH_MAX {
        return Err(Error::bad_request(format!(
            "The query text is longer than {QUERY_LENGTH_MAX} bytes."
        )));
    }
    let key = KeyRef { settings: address(settings), text: &request.text };
    // The kept settings hold their address, so an equal address is the same settings.
    if let Some(kept) = QUERIES.get(&key).filter(|kept| Arc::ptr_eq(&kept.settings, settings)) {
        return Ok(kept);
    }
    let query = Arc::new(armilla_sql::parse(&request.text)?);
    let (settings, schema) = (settings.clone(), schema(settings)?);
    let kept = Kept { settings, schema, query, plain: None, habit: Arc::default() };
    keep(request, kept.clone());
    Ok(kept)
}

fn keep(request: &Request, kept: Kept) {
    if request.text.len() <= CACHED_TEXT_MAX {
        let key = Key { settings: address(&kept.settings), text: request.text.as_str().into() };
        QUERIES.insert(key, kept);
    }
}

fn schema(settings: &Arc<Settings>) -> Result<Arc<Schema>> {
    let address = address(settings);
    if let Some((kept, schema)) = SCHEMAS.get(&address)
        && Arc::ptr_eq(&kept, settings)
    {
        return Ok(schema);
    }
    let schema = Arc::new(Schema::new(&settings.policy)?);
    SCHEMAS.insert(address, (settings.clone(), schema.clone()));
    Ok(schema)
}
