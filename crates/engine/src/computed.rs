//! Computed properties: which definitions are refused, and their values as index terms.
//!
//! A computed property that an included path of the policy names is evaluated when an item is written,
//! and its value has terms like a property of the item, under a name that no property can have. All
//! others, and those that depend on more than the item (the time, system properties), are evaluated
//! row by row when a query asks for them (`sql::bind` puts the definition in the place of the name).

use crate::limits::COMPUTED_DEFINITIONS_MAX;
use crate::query::is_pure;
use armilla_model::error::{Error, Result};
use armilla_model::policy::{ComputedProperty, ContainerPolicy, Step};
use armilla_model::value::Value;
use armilla_sql::reference::{Options, run_compiled, with_runtime};
use armilla_sql::{Compiled, Schema, compile, parse, stable};
use quick_cache::sync::Cache;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// Compiled definitions by their text; nothing for those that cannot be indexed.
static DEFINITIONS: LazyLock<Cache<String, Option<Arc<Compiled>>>> =
    LazyLock::new(|| Cache::new(COMPUTED_DEFINITIONS_MAX));

/// Refuses computed properties that are no queries over one item, that share a name, or whose value is
/// not determined by the item. Those that the container has already are not judged by the last rule.
pub(crate) fn check_computed(policy: &ContainerPolicy, before: &[ComputedProperty]) -> Result<()> {
    Schema::new(policy)?;
    let mut names = HashSet::new();
    for property in &policy.computed {
        let name = &property.name;
        if !names.insert(name) {
            return Err(Error::bad_request(format!(
                "Computed property name '{name}' cannot be used in multiple definitions."
            )));
        }
        let query = parse(&property.query)?;
        let compiled = compile(&query, &[], &Schema::none())?;
        if !before.contains(property) && !is_pure(&compiled) {
            return Err(Error::bad_request(format!(
                "The computed property '{name}' is not determined by the item: user-defined functions, \
                 DOCUMENTID, and functions of time and chance such as NOW and RAND are not allowed \
                 in computed properties. Call them in the queries instead."
            )));
        }
    }
    Ok(())
}

/// True when the values of the computed property of this name have terms.
pub(crate) fn is_indexed(name: &str, policy: &ContainerPolicy) -> bool {
    let property = policy.computed.iter().find(|property| property.name == name);
    property.is_some_and(|property| evaluator(property, policy).is_some())
}

/// The computed properties that have terms, with their values for an item.
pub(crate) fn values<'p>(
    item: &'p Value,
    policy: &'p ContainerPolicy,
) -> impl Iterator<Item = (&'p str, Value)> {
    policy.computed.iter().filter_map(move |property| {
        let compiled = evaluator(property, policy)?;
        Some((property.name.as_str(), value(&compiled, item)))
    })
}

/// True when an included path of the policy names a computed property, so that its values may have
/// terms.
pub(crate) fn are_named(policy: &ContainerPolicy) -> bool {
    policy.computed.iter().any(|property| is_named(property, policy))
}

fn is_named(property: &ComputedProperty, policy: &ContainerPolicy) -> bool {
    policy.indexing.explicit.iter().any(
        |path| matches!(path.steps.first(), Some(Step::Name(first)) if *first == property.name),
    )
}

/// The compiled definition of a property, if it is one to index.
fn evaluator(property: &ComputedProperty, policy: &ContainerPolicy) -> Option<Arc<Compiled>> {
    if !is_named(property, policy) {
        return None;
    }
    if let Some(known) = DEFINITIONS.get(&property.query) {
        return known;
    }
    let query = parse(&property.query).ok().filter(stable::is_stable);
    let compiled = query.and_then(|query| compile(&query, &[], &Schema::none()).ok());
    let compiled = compiled.map(Arc::new);
    DEFINITIONS.insert(property.query.clone(), compiled.clone());
    compiled
}

/// What the definition gives for an item; undefined where it fails, as no query gets past that.
fn value(compiled: &Compiled, item: &Value) -> Value {
    let schema = Schema::none();
    let rows = with_runtime(Options::new(&schema), |runtime| {
        run_compiled(compiled, vec![item.clone()], runtime)
    });
    rows.ok().and_then(|rows| rows.into_iter().next()).unwrap_or_default()
}
