//! Re-keys: a container filled with another's items under another partition key, which then takes the other's place.
//!
//! ```text
//! begin ─► copies follow the feed ─► check, as often as wanted ─► swap: clients are put off, the last changes follow,
//!            undo: delete the target                                    names change in one batch of the catalog
//! ```
//!
//! Everything that must survive a crash is the target's definition, its position and its notes; a swap is one batch. So a server
//! that is killed goes on copying, or has swapped, and there is nothing between
//! ([decision 0033](../../../../docs/decisions/0033-rekey.md)).

use super::views::NewView;
use super::{Account, Change, NewContainer, NewPermission};
use crate::catalog::stored::{StoredContainer, write_script};
use crate::catalog::{Catalog, Database};
use crate::container::{Container, Settings};
use crate::keys::{self, Meta};
use crate::limits::{REKEY_FENCE_MAX, REKEY_LOOK};
use crate::names::check_name;
use crate::offers::Throughput;
use crate::partition::Partition;
use crate::scripts::{Kind, Script, Scripts};
use crate::users::Permission;
use crate::views::definition::{MEMBER, QUERY, SOURCE_ID, SOURCE_RID, ViewDefinition};
use crate::views::rekey::{REKEY, RekeyCheck};
use crate::views::state::State;
use crate::views::{ContainerView, Lag};
use armilla_model::clock::monotonic;
use armilla_model::error::{Error, Result};
use armilla_model::policy::ContainerPolicy;
use armilla_model::value::{Object, Value};
use armilla_storage::{Batch, Keyspace, Snapshot, StoreError};
use std::sync::Arc;

/// What a client asks for.
#[derive(Clone, Debug)]
pub struct NewRekey {
    /// The partition key, as in a container's definition.
    pub partition_key: Value,
    /// Name of the container that is filled; `{name}-rekey` without it.
    pub name: Option<String>,
    /// Its throughput; that of the source without it.
    pub throughput: Option<Throughput>,
}

/// How far a re-key has come.
#[derive(Clone)]
pub struct RekeyStatus {
    /// The container that is filled.
    pub target: Arc<Container>,
    /// Percent of the first copy.
    pub progress: u8,
    /// Everything that the source held at the beginning was copied once.
    pub is_following: bool,
    /// How far it is behind.
    pub lag: Lag,
    /// Items of the source.
    pub source_items: u64,
    /// Items of the target.
    pub target_items: u64,
    /// What it is held up by.
    pub failure: Option<String>,
}

/// How an attempt at a swap ended.
enum Attempt {
    Swapped,
    /// Something is still to be followed.
    NotYet(String),
}

impl Account {
    /// Begins to copy a container under another key; one that was begun with the same key is gone on with.
    pub fn begin_rekey(&self, source: &Arc<Container>, new: &NewRekey) -> Result<Arc<Container>> {
        let settings = source.settings();
        check_source(source)?;
        let name = match &new.name {
            Some(name) => name.clone(),
            None => format!("{}-rekey", settings.name),
        };
        check_name(&name)?;
        let mut definition = settings.policy.definition.clone();
        definition.insert("id", name.as_str().into());
        definition.insert("partitionKey", new.partition_key.clone());
        let definition = Value::object(definition);
        let key = ContainerPolicy::parse(&definition)?.partition_key;
        if key == *source.key_definition() {
            return Err(Error::bad_request("The container has this partition key already."));
        }
        if let Some(target) = source.rekey_target() {
            if key == *target.key_definition() {
                return Ok(target);
            }
            return Err(Error::Conflict(format!(
                "The container is being re-keyed into '{}' already. Finish or undo that first.",
                target.settings().name
            )));
        }
        let own = self.catalog().offer_of(&source.self_link).map(|offer| offer.throughput);
        let throughput = new.throughput.or(own);
        let new = NewContainer { definition: &definition, throughput };
        self.create_follower(&settings.database, &new, source.turned(), Some(source))
    }

    /// How far a container's re-key has come.
    pub fn rekey_status(&self, source: &Arc<Container>) -> Result<RekeyStatus> {
        let target = target_of(source)?;
        let view = target.view().cloned().ok_or_else(no_rekey)?;
        let status = view.status();
        Ok(RekeyStatus {
            progress: status.percent(),
            is_following: status == crate::views::Status::Active,
            lag: source.view_lag(&view),
            source_items: source.document_count(),
            target_items: target.document_count(),
            failure: view.failure(),
            target,
        })
    }

    /// Compares a page of items with their copies.
    pub fn check_rekey(&self, source: &Arc<Container>, after: Option<&[u8]>) -> Result<RekeyCheck> {
        let target = target_of(source)?;
        let view = target.view().cloned().ok_or_else(no_rekey)?;
        RekeyCheck::page(source, &target, &view, after)
    }

    /// Gives up a re-key: the target is deleted, the source stays as it is.
    pub fn undo_rekey(&self, source: &Arc<Container>) -> Result<()> {
        self.delete_container(&target_of(source)?, None)
    }

    /// Lets the target take its source's name. The source stays, read-only, under another one.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when something stands against it, or when it cannot follow within a few seconds: then nothing has
    /// changed, and clients go on.
    pub fn swap_rekey(
        &self,
        source: &Arc<Container>,
        old_name: Option<&str>,
    ) -> Result<Arc<Container>> {
        let target = target_of(source)?;
        let view = target.view().cloned().ok_or_else(no_rekey)?;
        let old_name = match old_name {
            Some(name) => name.to_owned(),
            None => format!("{}-before-rekey", source.settings().name),
        };
        check_name(&old_name)?;
        check_views(source)?;
        let deadline = monotonic() + REKEY_FENCE_MAX;
        let _fence = source.fence();
        loop {
            // The thread of the views may be busy elsewhere, and clients wait.
            self.follow_view(source, &target, &view);
            let what = match self.try_swap(source, (&target, &view), &old_name)? {
                Attempt::Swapped => return Ok(target),
                Attempt::NotYet(what) => what,
            };
            if monotonic() > deadline {
                let what = view.failure().unwrap_or(what);
                return Err(Error::Conflict(format!(
                    "The re-key could not catch up within {} s, so nothing was changed: {what} Try again.",
                    REKEY_FENCE_MAX.as_secs()
                )));
            }
            std::thread::sleep(REKEY_LOOK);
        }
    }

    /// Swaps if everything has followed, with every log of the source held: what is not in the target then was never committed.
    fn try_swap(
        &self,
        source: &Arc<Container>,
        (target, view): (&Arc<Container>, &Arc<ContainerView>),
        old_name: &str,
    ) -> Result<Attempt> {
        let _not_followed = view.hold();
        let _not_split = source.reshaping();
        let _not_replaced = source.replacing();
        let Some(_definition_stays) = target.try_replacing() else {
            return Ok(Attempt::NotYet("the target's definition is being changed.".to_owned()));
        };
        let partitions = source.partitions();
        let sequencers: Vec<_> = partitions.iter().map(|partition| partition.sequence()).collect();
        // Everything queued before is applied when this returns.
        self.core.commit_and_wait(Batch::new());
        let mut logs = partitions.iter().zip(&sequencers);
        let is_behind =
            |(partition, held): (&Arc<Partition>, &crate::ranked::RankedGuard<'_, _>)| {
                let last: &crate::partition::Sequencer = held;
                view.position(&partition.range) < last.last.max(partition.lsn())
            };
        if logs.any(is_behind) {
            return Ok(Attempt::NotYet("the last changes were not copied yet.".to_owned()));
        }
        if let Some(name) = self.busy_procedure(source) {
            return Ok(Attempt::NotYet(format!(
                "the subscription '{name}' has not yet run its procedure for all changes."
            )));
        }
        let (items, copies) = (source.document_count(), target.document_count());
        if items != copies {
            return Err(Error::Conflict(format!(
                "The container has {items} items and its re-key {copies}, although nothing is left to follow. Undo the re-key and begin again."
            )));
        }
        self.change(|change| change.swap((source, target), view, old_name))?;
        drop(sequencers);
        Ok(Attempt::Swapped)
    }

    /// A subscription whose procedure has still to write.
    fn busy_procedure(&self, source: &Arc<Container>) -> Option<Arc<str>> {
        let all = source.subscriptions();
        let mut procedures = all.values().filter(|one| one.has_procedure());
        procedures.find(|one| !one.is_up_to_date(source)).map(|one| one.name.clone())
    }

    /// Cleans up behind swaps: notes of where copies were.
    pub(super) fn remove_rekey_notes(&self) -> Result<(), StoreError> {
        for container in self.containers() {
            if let Some(number) = container.take_rekey_notes() {
                self.remove_notes(number)?;
            }
        }
        Ok(())
    }
}

impl<'a> Change<'a> {
    /// Changes the names of source and target, and everything that goes with them.
    fn swap(
        &mut self,
        (source, target): (&'a Arc<Container>, &'a Arc<Container>),
        view: &'a Arc<ContainerView>,
        old_name: &str,
    ) -> Result<()> {
        self.check_present(source)?;
        self.check_present(target)?;
        let before = source.settings();
        let database = self.database(&before.database)?;
        if database.containers.contains_key(old_name) {
            return Err(Error::Conflict(format!(
                "There is a container '{old_name}' already. Choose another name for the old container."
            )));
        }
        self.copy_scripts(source, target);
        self.copy_subscriptions(source, target)?;
        let mut next = Database::clone(&database);
        next.containers.remove(&target.settings().name);
        for (container, name) in [(source, old_name), (target, &*before.name)] {
            self.rename(container, name);
            next.containers.insert(name.into(), container.clone());
        }
        self.set_database(next);
        self.keep_permissions(&before, old_name)?;
        self.delete(Meta::View, &[target.number]);
        self.put(Meta::Rekeyed, &[source.number], target.number.to_be_bytes().to_vec());
        // The target is open when the name leads to it, and the source closed.
        self.prepare(move || {
            source.set_rekeyed_into(target.number, Some(monotonic()));
            view.set_over();
        });
        self.show(move || source.remove_view(target));
        Ok(())
    }

    fn rename(&mut self, container: &'a Arc<Container>, name: &str) {
        let before = container.settings();
        let (etag, ts) = self.stamp();
        let mut policy = before.policy.clone();
        policy.definition.remove(MEMBER);
        let stored = StoredContainer {
            name: name.into(),
            etag,
            ts,
            generation: before.generation,
            secret: container.secret(),
            definition: Value::object(policy.definition.clone()),
            ranges: container.ranges(),
        };
        self.put(Meta::Container, &[container.database, container.number], stored.write());
        let settings = Settings {
            database: before.database.clone(),
            name: stored.name,
            alt_link: format!("dbs/{}/colls/{name}", before.database).into(),
            policy,
            etag,
            ts,
            generation: before.generation,
        };
        self.prepare(move || container.set_settings(settings));
    }

    /// Scripts go with the name; the old container keeps its own.
    fn copy_scripts(&mut self, source: &Container, target: &'a Arc<Container>) {
        let (from, mut scripts) = (source.scripts(), Scripts::default());
        for kind in [Kind::Procedure, Kind::Trigger, Kind::Function] {
            for script in from.of(kind).values() {
                let (number, (etag, ts)) = (self.number(), self.stamp());
                let copy = Arc::new(Script { number, etag, ts, ..Script::clone(script) });
                self.put(Meta::Script, &[target.number, number], write_script(&copy));
                scripts.of_mut(kind).insert(copy.name.clone(), copy);
            }
        }
        self.show(move || target.scripts.store(Arc::new(scripts)));
    }

    /// A permission for the whole container goes with the name. One for a key or an item does not: under another key it would allow
    /// something else. It stays with the old container.
    fn keep_permissions(&mut self, before: &Settings, old_name: &str) -> Result<()> {
        let users = self.database(&before.database)?.users.clone();
        for user in users.values() {
            for permission in user.permissions.values() {
                let Some(resource) = moved_resource(permission, before, old_name) else { continue };
                let (database, user) = self.user(&before.database, &user.name)?;
                let new = NewPermission {
                    name: &permission.name,
                    mode: permission.mode,
                    spelling: permission.spelling.clone(),
                    resource: &resource,
                    partition_key: permission.partition_key.clone(),
                };
                let replaced = Some(permission.name.clone());
                self.put_permission(&database, &user, permission.number, replaced, new);
            }
        }
        Ok(())
    }
}

/// The resource of a permission that stays with the old container, where it names it.
fn moved_resource(permission: &Permission, before: &Settings, old_name: &str) -> Option<String> {
    let segments: Vec<&str> =
        permission.resource.split('/').filter(|segment| !segment.is_empty()).collect();
    let ["dbs", database, "colls", container, rest @ ..] = &segments[..] else { return None };
    let is_narrow = permission.partition_key.is_some() || !rest.is_empty();
    if !is_narrow || *container != &*before.name {
        return None;
    }
    let mut resource = format!("dbs/{database}/colls/{old_name}");
    for segment in rest {
        resource.push('/');
        resource.push_str(segment);
    }
    Some(resource)
}

/// What follows a source as its re-key. The policy is that of the target, to which the definition is added.
pub(super) fn follower_of(
    source: &Arc<Container>,
    policy: &mut ContainerPolicy,
) -> Result<NewView> {
    check_source(source)?;
    if source.rekey_target().is_some() {
        return Err(Error::Conflict("The container is being re-keyed already.".to_owned()));
    }
    let stored = Object::of([
        (SOURCE_ID, Value::String(source.settings().name.clone())),
        (SOURCE_RID, Value::String(source.rid_text.clone())),
        (QUERY, REKEY.into()),
    ]);
    policy.definition.insert(MEMBER, Value::object(stored.clone()));
    let head = |partition: &Arc<Partition>| (partition.range.id, partition.lsn());
    let state = State::targeting(source.partitions().iter().map(head));
    let view = ContainerView::new(ViewDefinition::everything(), stored, state.clone());
    Ok(NewView { source: source.clone(), view, state })
}

/// Refuses another definition of a container that is being re-keyed: its re-key was made from the one it has. That of the re-key
/// itself may change, but for the time that items live.
pub(super) fn check_replacement(
    container: &Container,
    before: &ContainerPolicy,
    next: &ContainerPolicy,
) -> Result<()> {
    if container.rekey_target().is_some() {
        return Err(Error::Conflict(
            "The container is being re-keyed. Finish or undo that first; the definition of the re-key can be replaced meanwhile.".to_owned(),
        ));
    }
    let is_rekey = container.view().is_some_and(|view| view.is_rekey());
    if is_rekey && before.default_ttl != next.default_ttl {
        return Err(Error::bad_request(
            "'defaultTtl' is that of the container that is being re-keyed. Change it when this one has taken its place.",
        ));
    }
    Ok(())
}

fn check_source(source: &Container) -> Result<()> {
    if source.view().is_some() {
        return Err(Error::bad_request(
            "This container follows another one. Delete it, and create it with the key that it shall have.",
        ));
    }
    if source.rekeyed_into().is_some() {
        return Err(Error::bad_request(
            "This container was re-keyed, and another one has taken its place: re-key that one.",
        ));
    }
    Ok(())
}

/// A view follows its source by `_rid` and would stand still.
fn check_views(source: &Container) -> Result<()> {
    let views = source.views();
    let view = views.iter().find(|view| view.view().is_some_and(|view| !view.is_rekey()));
    match view {
        None => Ok(()),
        Some(view) => Err(Error::Conflict(format!(
            "The container has views, '{}' for one, which would go on following the old container. Delete them, swap, and create them again.",
            view.settings().name
        ))),
    }
}

/// Closes the containers whose places others have taken, when an account is opened.
pub(super) fn restore(snapshot: &dyn Snapshot, catalog: &Catalog) -> Result<(), StoreError> {
    for database in catalog.databases.values() {
        for container in database.containers.values() {
            let key = keys::meta(Meta::Rekeyed, &[container.number]);
            let Some(stored) = snapshot.get(Keyspace::Meta, &key)? else { continue };
            let number = stored[..].try_into().map(u32::from_be_bytes).map_err(|_| {
                StoreError::corruption("meta", "the note of a re-keyed container is malformed")
            })?;
            container.set_rekeyed_into(number, None);
        }
    }
    Ok(())
}

fn target_of(source: &Container) -> Result<Arc<Container>> {
    source.rekey_target().ok_or_else(no_rekey)
}

fn no_rekey() -> Error {
    Error::NotFound("The container is not being re-keyed.".to_owned())
}
