//! Containers: create, replace and delete.

use super::views::{self, NewView};
use super::{Account, Change, rekey};
use crate::catalog::stored::StoredContainer;
use crate::container::{Container, KnownContainer, Settings};
use crate::dials::Turned;
use crate::generation::IndexDefinition;
use crate::index_files::{IndexName, index_failure};
use crate::indexing::PathDictionary;
use crate::keys::Meta;
use crate::names::check_name;
use crate::offers::{MANUAL_MIN, Throughput};
use crate::ordinals::Marks;
use crate::partition::{Partition, Sequencer};
use crate::views::definition::{MEMBER, Wish};
use crate::{ranges, reindex, store_failure};
use armilla_index::Index;
use armilla_model::error::{Error, Result};
use armilla_model::policy::ContainerPolicy;
use armilla_model::value::Value;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// What a client asks for.
pub struct NewContainer<'a> {
    /// The definition, `id` included.
    pub definition: &'a Value,
    /// Its own throughput.
    pub throughput: Option<Throughput>,
}

impl Account {
    /// Creates a container.
    pub fn create_container(
        &self,
        database: &str,
        new: &NewContainer<'_>,
    ) -> Result<Arc<Container>> {
        self.create_container_with(database, new, Turned::default())
    }

    /// Creates a container with dials of its own.
    pub fn create_container_with(
        &self,
        database: &str,
        new: &NewContainer<'_>,
        turned: Turned,
    ) -> Result<Arc<Container>> {
        self.create_follower(database, new, turned, None)
    }

    /// Creates a container, maybe one that is filled with another's items under its own key.
    pub(super) fn create_follower(
        &self,
        database: &str,
        new: &NewContainer<'_>,
        turned: Turned,
        rekeyed: Option<&Arc<Container>>,
    ) -> Result<Arc<Container>> {
        let name = name_of(new.definition)?;
        let (definition, wish) = Wish::take(new.definition)?;
        if rekeyed.is_some() {
            self.core.slice.require_whole("Re-keys")?;
        }
        let mut policy = ContainerPolicy::parse(&definition)?;
        crate::computed::check_computed(&policy, &[])?;
        self.change(move |change| {
            let database =
                change.catalog.database(database).cloned().ok_or_else(Error::parent_not_found)?;
            if database.containers.contains_key(name) {
                return Err(Error::conflict());
            }
            super::encryption_keys::check_keys(&database, &policy)?;
            let dials = change.account.core.dials.load().with(&turned);
            let resolve = |wish| views::resolve(wish, &database, &mut policy, dials.views);
            let view = match rekeyed {
                Some(source) => Some(rekey::follower_of(source, &mut policy)?),
                None => wish.as_ref().map(resolve).transpose()?,
            };
            let shared =
                change.catalog.offer_of(&database.self_link()).map(|offer| offer.throughput);
            let throughput = change.account.own_throughput(new.throughput, shared)?;
            let peak = throughput.or(shared).map_or(MANUAL_MIN, Throughput::peak);
            let (number, (etag, ts)) = (change.number(), change.stamp());
            let count = dials.partition_count(peak);
            let ranges = change.account.core.slice.ranges(&policy.partition_key, count);
            let stored = StoredContainer {
                name: name.into(),
                etag,
                ts,
                generation: 0,
                secret: fresh_secret(),
                definition: Value::object(policy.definition.clone()),
                ranges,
            };
            let (numbers, name_of) = ((database.number, number), &database.name);
            let container = change.account.build(numbers, name_of, &stored, policy)?;
            change.put(Meta::Container, &[database.number, number], stored.write());
            if let Some(NewView { source, view, state }) = view {
                change.put(Meta::View, &[number], state.write());
                container.set_view(view);
                change.show_view(source, &container);
            }
            for partition in container.partitions().iter() {
                // Clients may hold positions of a log that is still empty when the server restarts.
                let head = partition.lsn().0.to_be_bytes().to_vec();
                change.put(Meta::Head, &[number, partition.range.id], head);
            }
            if !turned.is_empty() {
                change.put(Meta::Dials, &[number], turned.write());
                container.set_turned(turned);
            }
            if let Some(throughput) = throughput {
                change.create_offer(&container.self_link, &container.rid_text, throughput);
            }
            let mut database = crate::catalog::Database::clone(&database);
            database.containers.insert(name.into(), container.clone());
            change.set_database(database);
            Ok(container)
        })
    }

    /// The throughput that a new container has of its own, given what was asked for and what its database shares.
    fn own_throughput(
        &self,
        given: Option<Throughput>,
        shared: Option<Throughput>,
    ) -> Result<Option<Throughput>> {
        Ok(match (given, shared) {
            (given, _) if self.options.serverless => {
                given.map_or(Ok(None), |_| Err(not_provisioned()))?
            }
            (Some(own), _) => Some(own),
            (None, Some(_)) => None,
            (None, None) => Some(Throughput::Manual(MANUAL_MIN)),
        })
    }

    pub(super) fn build(
        &self,
        (database, number): (u32, u32),
        database_name: &Arc<str>,
        stored: &StoredContainer,
        policy: ContainerPolicy,
    ) -> Result<Arc<Container>> {
        let head = self.first_head();
        let definition = Arc::new(IndexDefinition::new(stored.generation, policy.clone()));
        let partition = |range: &ranges::Range| {
            let name = IndexName { container: number, partition: range.id, id: definition.id };
            let index = match self.core.folders.files(name) {
                Some(files) => Index::create(self.core.folders.limits, files)
                    .map_err(|error| store_failure(index_failure(error)))?,
                None => Index::in_memory(self.core.folders.limits),
            };
            let sequencer = Sequencer::at(head);
            let definition = definition.clone();
            Ok(Arc::new(Partition::new(range.clone(), sequencer, index, definition)))
        };
        let partitions = stored.ranges.iter().map(partition).collect::<Result<_>>()?;
        let settings = Settings {
            database: database_name.clone(),
            name: stored.name.clone(),
            alt_link: format!("dbs/{database_name}/colls/{}", stored.name).into(),
            policy,
            etag: stored.etag,
            ts: stored.ts,
            generation: stored.generation,
        };
        let known = KnownContainer {
            database,
            number,
            secret: stored.secret,
            settings,
            paths: PathDictionary::default(),
            partitions,
            reserved: Marks::default(),
        };
        Ok(Arc::new(Container::new(self.core.clone(), known)))
    }

    /// Replaces the parts of a definition that may change.
    pub fn replace_container(
        &self,
        container: &Arc<Container>,
        definition: &Value,
        if_match: Option<&str>,
    ) -> Result<()> {
        let _only_one = container.replacing();
        let before = container.settings();
        before.etag.check(if_match)?;
        if name_of(definition)? != &*before.name {
            return Err(Error::bad_request("The id of a container cannot be changed."));
        }
        let (definition, wish) = Wish::take(definition)?;
        let definition = with_fixed_parts(&definition, &before.policy);
        let mut policy = ContainerPolicy::parse(&definition)?;
        rekey::check_replacement(container, &before.policy, &policy)?;
        match (container.view(), wish) {
            (Some(view), wish) => {
                wish.map_or(Ok(()), |wish| wish.check_unchanged(view.members()))?;
                if !view.is_rekey() {
                    views::check_policy(&policy)?;
                }
                policy.definition.insert(MEMBER, Value::object(view.members().clone()));
            }
            (None, None) => {}
            (None, Some(_)) => {
                return Err(Error::bad_request(
                    "A container cannot become a view. Create another container with this definition.",
                ));
            }
        }
        before.policy.check_replacement(&policy)?;
        crate::computed::check_computed(&policy, &before.policy.computed)?;
        let serving = container.index_definition();
        self.change(|change| {
            change.check_present(container)?;
            let (etag, ts) = change.stamp();
            let stored = StoredContainer {
                name: before.name.clone(),
                etag,
                ts,
                generation: before.generation + 1,
                secret: container.secret(),
                definition: Value::object(policy.definition.clone()),
                ranges: container.ranges(),
            };
            change.put(Meta::Container, &[container.database, container.number], stored.write());
            let current = serving.serves(&policy);
            reindex::note_serving(container.number, &serving, current, &mut change.batch);
            Ok((etag, ts))
        })
        .map(|(etag, ts)| {
            container.set_settings(Settings {
                database: before.database.clone(),
                name: before.name.clone(),
                alt_link: before.alt_link.clone(),
                policy,
                etag,
                ts,
                generation: before.generation + 1,
            });
            if before.policy.retention_minutes == 0
                && container.settings().policy.retention_minutes > 0
            {
                container.begin_versions();
            }
            reindex::request(container);
        })
    }

    /// Deletes a container and its items.
    pub fn delete_container(
        &self,
        container: &Arc<Container>,
        if_match: Option<&str>,
    ) -> Result<()> {
        let _not_replaced = container.replacing();
        container.settings().etag.check(if_match)?;
        self.change(|change| {
            change.check_present(container)?;
            let database = change.database(&container.settings().database)?;
            if let Some(target) = container.rekey_target() {
                return Err(Error::bad_request(format!(
                    "The container is being re-keyed into '{}'. Finish or undo that first.",
                    target.settings().name
                )));
            }
            if let Some(view) = container.views().first() {
                return Err(Error::bad_request(format!(
                    "The container has views, '{}' for one. Delete its views first.",
                    view.settings().name
                )));
            }
            let source =
                container.view().and_then(|view| database.container_of_rid(view.source_rid()));
            if let Some(source) = source.cloned() {
                let view = container.clone();
                change.show(move || source.remove_view(&view));
            }
            change.account.retire(container);
            change.drop_container(container);
            let mut database = crate::catalog::Database::clone(&database);
            database.containers.remove(&container.settings().name);
            change.set_database(database);
            Ok(())
        })?;
        container.mark_dropped();
        Ok(())
    }
}

impl<'a> Change<'a> {
    /// Has a view follow its source when the change is durable. Removals of the source are kept from before that: another slice may read
    /// in a copy that the view is there.
    pub(super) fn show_view(&mut self, source: Arc<Container>, view: &Arc<Container>) {
        let (kept, view) = (source.keep_removals(), view.clone());
        self.show(move || {
            source.add_view(&view);
            drop(kept);
        });
    }
}

impl Change<'_> {
    /// Refuses a container that was deleted before this change had its turn. A new one may have
    /// its name by then, so it is looked up by its rid.
    pub(super) fn check_present(&self, container: &Container) -> Result<()> {
        let database = self.database(&container.settings().database)?;
        database.container_of_rid(&container.rid_text).map(drop).ok_or_else(Error::not_found)
    }

    /// Removes a container's entries and leaves a note for the janitor to remove its data.
    pub(super) fn drop_container(&mut self, container: &Container) {
        self.delete(Meta::Container, &[container.database, container.number]);
        self.delete(Meta::Dials, &[container.number]);
        let scripts = container.scripts.load();
        for kind in [&scripts.procedures, &scripts.triggers, &scripts.functions] {
            for script in kind.values() {
                self.delete(Meta::Script, &[container.number, script.number]);
            }
        }
        for subscription in container.subscriptions.load().values() {
            self.delete(Meta::Subscription, &[container.number, subscription.number]);
        }
        self.drop_offer(&container.self_link);
        self.put(Meta::Garbage, &[container.number], Vec::new());
    }
}

/// What a body leaves out of the parts that cannot change means "unchanged".
fn with_fixed_parts(definition: &Value, before: &ContainerPolicy) -> Value {
    let mut object = definition.as_object().cloned().unwrap_or_default();
    for name in ["partitionKey", "uniqueKeyPolicy", "conflictResolutionPolicy"] {
        let given = object.get(name).is_some_and(|value| !matches!(value, Value::Null));
        if let (false, Some(value)) = (given, before.definition.get(name)) {
            object.insert(name, value.clone());
        }
    }
    Value::object(object)
}

fn name_of(definition: &Value) -> Result<&str> {
    let Some(Value::String(name)) = definition.get("id") else {
        return Err(Error::bad_request(
            "The input content is invalid because the required property 'id' is missing.",
        ));
    };
    check_name(name)?;
    Ok(name)
}

/// The answer to a client that wants throughput where none is provisioned.
pub(super) fn not_provisioned() -> Error {
    Error::bad_request(
        "Setting throughput is not supported for serverless accounts. Leave out the throughput and autoscale settings.",
    )
}

/// Hash keys nobody can guess: the standard library seeds its hasher from the system.
fn fresh_secret() -> (u64, u64) {
    let random = || RandomState::new().hash_one(0);
    (random(), random())
}
