//! Views as containers: what a new one needs, and the ties between a source and its views.

use crate::catalog::{Catalog, Database};
use crate::container::Container;
use crate::items::body::SYSTEM;
use crate::limits::VIEWS_MAX;
use crate::partition::Partition;
use crate::views::ContainerView;
use crate::views::definition::{Dialect, MEMBER, QUERY, SOURCE_RID, ViewDefinition, Wish};
use crate::views::rekey::REKEY;
use crate::views::state::State;
use armilla_model::error::{Error, Result};
use armilla_model::policy::ContainerPolicy;
use armilla_model::value::{Object, Value};
use armilla_storage::{Snapshot, StoreError};
use std::sync::Arc;

/// A view that may be made.
pub(super) struct NewView {
    pub(super) source: Arc<Container>,
    pub(super) view: ContainerView,
    pub(super) state: State,
}

/// Finds the source of a view and checks what the view says. The policy is that of the view's container,
/// to which the definition is added.
pub(super) fn resolve(
    wish: &Wish,
    database: &Database,
    policy: &mut ContainerPolicy,
    dialect: Dialect,
) -> Result<NewView> {
    check_policy(policy)?;
    let definition = ViewDefinition::parse(&wish.query, dialect)?;
    check_names(&definition, policy)?;
    let Some(source) = database.containers.get(&wish.source).cloned() else {
        return Err(Error::bad_request(format!(
            "The source of the view, '{}', is not a container of this database.",
            wish.source
        )));
    };
    if wish.source_rid.as_ref().is_some_and(|rid| *rid != source.rid_text) {
        return Err(Error::bad_request(format!(
            "'{SOURCE_RID}' is not the _rid of the container '{}', which is {}. Read the container and try again.",
            wish.source, source.rid_text
        )));
    }
    check_source(&source, database, dialect)?;
    let stored = wish.stored(&source.rid_text);
    policy.definition.insert(MEMBER, Value::object(stored.clone()));
    let head = |partition: &Arc<Partition>| (partition.range.id, partition.lsn());
    let state = State::targeting(source.partitions().iter().map(head));
    let view = ContainerView::new(definition, stored, state.clone());
    Ok(NewView { source, view, state })
}

/// Refuses names that a view has for itself: what is copied under one of them is lost, and a key under one
/// would not be the key of the item that is stored.
fn check_names(definition: &ViewDefinition, policy: &ContainerPolicy) -> Result<()> {
    let key_names = policy.partition_key.paths.iter().filter_map(|path| path.0.first());
    let mut names = key_names.map(String::as_str).chain(definition.column_names());
    match names.find(|name| SYSTEM.contains(name)) {
        None => definition.check_columns(),
        Some(name) => Err(Error::bad_request(format!(
            "'{name}' of a view is its own and not that of the source: it can neither be copied nor be the partition key."
        ))),
    }
}

fn check_source(source: &Container, database: &Database, dialect: Dialect) -> Result<()> {
    let name = &source.settings().name;
    let is_view_of_view = || {
        let above = source.view().and_then(|view| database.container_of_rid(view.source_rid()));
        above.is_some_and(|above| above.view().is_some())
    };
    if source.view().is_some_and(|view| view.is_rekey()) {
        return Err(Error::bad_request(format!(
            "'{name}' is being filled with the items of another container. Create views of it when it has taken that container's place."
        )));
    }
    if source.rekeyed_into().is_some() {
        return Err(Error::bad_request(format!(
            "'{name}' was re-keyed and does not change any more. Create the view of the container that has taken its place."
        )));
    }
    if source.view().is_some() && dialect == Dialect::Service {
        return Err(Error::bad_request(format!(
            "'{name}' is a view, and a view cannot be the source of another (the dial views=extended allows it)."
        )));
    }
    if is_view_of_view() {
        return Err(Error::bad_request(format!(
            "'{name}' is a view of a view, and cannot be the source of another."
        )));
    }
    if source.views().len() >= VIEWS_MAX {
        return Err(Error::bad_request(format!(
            "'{name}' has {VIEWS_MAX} views already, which is the most. Delete one of them first."
        )));
    }
    Ok(())
}

/// Refuses policies that a view cannot keep: when an item ends and what is unique is up to the source.
pub(super) fn check_policy(policy: &ContainerPolicy) -> Result<()> {
    if policy.default_ttl.is_some_and(|seconds| seconds != -1) {
        return Err(Error::bad_request(
            "A view takes no 'defaultTtl' but -1: its items end when those of the source end.",
        ));
    }
    if !policy.unique_keys.is_empty() {
        return Err(Error::bad_request(
            "A view takes no 'uniqueKeyPolicy': two items of the source may have the same values. Put it on the source.",
        ));
    }
    Ok(())
}

/// The view that a stored container is, if it is one.
pub(super) fn restore(
    snapshot: &dyn Snapshot,
    number: u32,
    policy: &ContainerPolicy,
) -> Result<Option<ContainerView>, StoreError> {
    let Some(stored) = policy.definition.get(MEMBER).and_then(Value::as_object) else {
        return Ok(None);
    };
    let query = stored.get(QUERY).and_then(Value::as_str).unwrap_or_default();
    let parsed = match query {
        REKEY => Ok(ViewDefinition::everything()),
        query => ViewDefinition::parse(query, Dialect::Extended),
    };
    let definition = parsed.map_err(|error| {
        StoreError::corruption("meta", format!("the definition of a view is malformed: {error}"))
    })?;
    let state = crate::views::stored_state(snapshot, number)?;
    Ok(Some(ContainerView::new(definition, Object::clone(stored), state)))
}

/// Ties every view to its source, when an account is opened.
pub(super) fn tie(catalog: &Catalog) {
    for database in catalog.databases.values() {
        for container in database.containers.values() {
            let Some(view) = container.view() else { continue };
            match database.container_of_rid(view.source_rid()) {
                Some(source) => source.add_view(container),
                None => {
                    let name = &container.settings().name;
                    tracing::error!(view = %name, "the source of a view is missing; the view stays as it is");
                }
            }
        }
    }
}
