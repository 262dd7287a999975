//! Opening an account: the catalog from `meta`, log heads from the logs, indexes from their files.
//!
//! An index is derived: what its files lack is replayed from the logs, and files that are lost or
//! damaged are built anew from the items. Nothing durable depends on them.

use crate::catalog::stored::{self, StoredContainer, StoredDatabase, StoredEntry, StoredIndex};
use crate::catalog::{Catalog, Database};
use crate::container::{Container, KnownContainer, Settings};
use crate::core::Core;
use crate::dials::Turned;
use crate::encryption::EncryptionKey;
use crate::feed::lineage::lineage_of;
use crate::generation::derive::Derivation;
use crate::generation::{self, IndexDefinition};
use crate::index_files::IndexName;
use crate::indexing::PathDictionary;
use crate::keys::{self, Meta};
use crate::ordinals::Marks;
use crate::partition::{Partition, Sequencer};
use crate::ranges::Range;
use crate::scripts::Scripts;
use armilla_model::lsn::Lsn;
use armilla_model::policy::ContainerPolicy;
use armilla_model::value::Value;
use armilla_storage::keycode::KeyReader;
use armilla_storage::{Direction, KeyRange, Keyspace, Snapshot, StoreError};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Reads the catalog. Also returns the highest number that was given out.
pub(super) fn load(core: &Arc<Core>) -> Result<(Catalog, u32), StoreError> {
    let snapshot = core.snapshot();
    let counter = snapshot.get(Keyspace::Meta, &keys::meta(Meta::Account, &[]))?;
    let next_number = counter.as_deref().and_then(read_u32).unwrap_or(0);
    let mut databases = HashMap::new();
    for (numbers, value) in entries(&*snapshot, Meta::Database, &[])? {
        let [number] = numbers[..] else { return Err(malformed()) };
        let stored = StoredDatabase::read(&StoredEntry::read(&value)?)?;
        let database = Database {
            number,
            name: stored.name.clone(),
            etag: stored.etag,
            ts: stored.ts,
            containers: containers(core, &*snapshot, number, &stored.name)?,
            users: users(&*snapshot, number)?,
            encryption_keys: encryption_keys(&*snapshot, number)?,
        };
        databases.insert(stored.name, Arc::new(database));
    }
    let containers = databases.values().flat_map(|database| database.containers.values());
    core.folders.retain(&containers.flat_map(index_names).collect());
    let mut offers = BTreeMap::new();
    for (numbers, value) in entries(&*snapshot, Meta::Offer, &[])? {
        let [number] = numbers[..] else { return Err(malformed()) };
        offers.insert(number, Arc::new(stored::read_offer(number, &StoredEntry::read(&value)?)?));
    }
    let catalog = Catalog { databases, offers };
    super::views::tie(&catalog);
    super::rekey::restore(&*snapshot, &catalog)?;
    Ok((catalog, next_number))
}

/// The indexes that serve in a store.
pub(super) fn serving_indexes(snapshot: &dyn Snapshot) -> Result<HashSet<IndexName>, StoreError> {
    let mut names = HashSet::new();
    for (numbers, value) in entries(snapshot, Meta::Container, &[])? {
        let [_, container] = numbers[..] else { return Err(malformed()) };
        let stored = StoredContainer::read(&StoredEntry::read(&value)?)?;
        let policy = parse_policy(&stored.definition)?;
        let id = serving(snapshot, container, &stored, &policy)?.id;
        let name = |range: &Range| IndexName { container, partition: range.id, id };
        names.extend(stored.ranges.iter().map(name));
    }
    Ok(names)
}

/// The indexes that serve a container.
fn index_names(container: &Arc<Container>) -> Vec<IndexName> {
    let (number, id) = (container.number, container.index_definition().id);
    let name = |partition: &Arc<Partition>| IndexName {
        container: number,
        partition: partition.range.id,
        id,
    };
    container.partitions().iter().map(name).collect()
}

pub(super) fn malformed() -> StoreError {
    StoreError::corruption("meta", "a key of the catalog is malformed")
}

pub(super) fn read_u32(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

pub(super) fn read_u64(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

/// Entries of one kind below some numbers: their remaining numbers, and their values.
pub(super) fn entries(
    snapshot: &dyn Snapshot,
    kind: Meta,
    below: &[u32],
) -> Result<Vec<(Vec<u32>, Bytes)>, StoreError> {
    let prefix = keys::meta(kind, below);
    let mut found = Vec::new();
    snapshot.scan(
        Keyspace::Meta,
        &KeyRange::prefix(&prefix),
        Direction::Forward,
        &mut |key, value| {
            let numbers = key[prefix.len()..].chunks_exact(4).filter_map(read_u32).collect();
            found.push((numbers, value));
            ControlFlow::Continue(())
        },
    )?;
    Ok(found)
}

pub(super) fn users(
    snapshot: &dyn Snapshot,
    database: u32,
) -> Result<BTreeMap<Arc<str>, Arc<crate::users::User>>, StoreError> {
    let mut users = BTreeMap::new();
    for (numbers, value) in entries(snapshot, Meta::User, &[database])? {
        let [number] = numbers[..] else { return Err(malformed()) };
        let mut user = stored::read_user(number, &StoredEntry::read(&value)?)?;
        for (numbers, value) in entries(snapshot, Meta::Permission, &[database, number])? {
            let [number] = numbers[..] else { return Err(malformed()) };
            let permission = stored::read_permission(number, &StoredEntry::read(&value)?)?;
            user.permissions.insert(permission.name.clone(), Arc::new(permission));
        }
        users.insert(user.name.clone(), Arc::new(user));
    }
    Ok(users)
}

pub(super) fn encryption_keys(
    snapshot: &dyn Snapshot,
    database: u32,
) -> Result<BTreeMap<Arc<str>, Arc<EncryptionKey>>, StoreError> {
    let mut found = BTreeMap::new();
    for (numbers, value) in entries(snapshot, Meta::EncryptionKey, &[database])? {
        let [number] = numbers[..] else { return Err(malformed()) };
        let key = stored::read_encryption_key(number, &StoredEntry::read(&value)?)?;
        found.insert(key.name.clone(), Arc::new(key));
    }
    Ok(found)
}

fn containers(
    core: &Arc<Core>,
    snapshot: &dyn Snapshot,
    database: u32,
    database_name: &Arc<str>,
) -> Result<HashMap<Arc<str>, Arc<Container>>, StoreError> {
    let mut containers = HashMap::new();
    for (numbers, value) in entries(snapshot, Meta::Container, &[database])? {
        let [number] = numbers[..] else { return Err(malformed()) };
        let stored = StoredContainer::read(&StoredEntry::read(&value)?)?;
        let name = stored.name.clone();
        let container = container(core, snapshot, (database, database_name), number, stored)?;
        if let Some(turned) = snapshot.get(Keyspace::Meta, &keys::meta(Meta::Dials, &[number]))? {
            container.set_turned(Turned::read(&turned));
        }
        containers.insert(name, Arc::new(container));
    }
    Ok(containers)
}

fn container(
    core: &Arc<Core>,
    snapshot: &dyn Snapshot,
    (database, database_name): (u32, &Arc<str>),
    number: u32,
    stored: StoredContainer,
) -> Result<Container, StoreError> {
    let policy = parse_policy(&stored.definition)?;
    let definition = Arc::new(serving(snapshot, number, &stored, &policy)?);
    let paths = paths(snapshot, number)?;
    let mut reserved = Marks::default();
    let mut partitions = Vec::with_capacity(stored.ranges.len());
    for range in stored.ranges {
        let sequencer = sequencer(snapshot, number, &range)?;
        reserved.raise_all(&sequencer.reserved);
        let derivation =
            Derivation { container: number, policy: &definition.policy, paths: &paths };
        let name = IndexName { container: number, partition: range.id, id: definition.id };
        let (files, head) = (core.folders.files(name), sequencer.last);
        let opened = generation::open::open(core, derivation, snapshot, &range, head, files)?;
        core.opened.add(number, range.id, &opened);
        let partition = Partition::new(range, sequencer, opened.index, definition.clone());
        partitions.push(Arc::new(partition));
    }
    let settings = Settings {
        database: database_name.clone(),
        alt_link: format!("dbs/{database_name}/colls/{}", stored.name).into(),
        name: stored.name,
        policy,
        etag: stored.etag,
        ts: stored.ts,
        generation: stored.generation,
    };
    let secret = stored.secret;
    let known = KnownContainer { database, number, secret, settings, paths, partitions, reserved };
    let container = Container::new(core.clone(), known);
    container.scripts.store(Arc::new(scripts(snapshot, number)?));
    let view = super::views::restore(snapshot, number, &container.settings().policy)?;
    view.into_iter().for_each(|view| container.set_view(view));
    let subscriptions = entries(snapshot, Meta::Subscription, &[number])?;
    super::subscriptions::restore(snapshot, &container, subscriptions)?;
    Ok(container)
}

/// What the serving index of a container was built for: its definition, or one of before while
/// another index is to be built.
fn serving(
    snapshot: &dyn Snapshot,
    number: u32,
    container: &StoredContainer,
    policy: &ContainerPolicy,
) -> Result<IndexDefinition, StoreError> {
    let noted = snapshot.get(Keyspace::Meta, &keys::meta(Meta::Index, &[number]))?;
    let noted = noted.map(|value| StoredIndex::read(&StoredEntry::read(&value)?)).transpose()?;
    let Some(StoredIndex { id, definition }) = noted else {
        let id = container.generation;
        return Ok(IndexDefinition::new(id, policy.clone()));
    };
    let policy = match definition {
        Some(definition) => parse_policy(&Value::object(definition))?,
        None => policy.clone(),
    };
    Ok(IndexDefinition::new(id, policy))
}

pub(super) fn parse_policy(definition: &Value) -> Result<ContainerPolicy, StoreError> {
    ContainerPolicy::parse_stored(definition).map_err(|error| {
        StoreError::corruption("meta", format!("a container's definition is malformed: {error}"))
    })
}

/// A log goes on where it ended: at the highest of the last entries in `feed` and `gone`, its own
/// and its ancestors', and the noted head.
/// The head of a range's log in a store.
pub(crate) fn stored_head(
    snapshot: &dyn Snapshot,
    container: u32,
    range: &Range,
) -> Result<Lsn, StoreError> {
    sequencer(snapshot, container, range).map(|sequencer| sequencer.last)
}

fn sequencer(
    snapshot: &dyn Snapshot,
    container: u32,
    range: &Range,
) -> Result<Sequencer, StoreError> {
    let numbers = [container, range.id];
    let noted = snapshot.get(Keyspace::Meta, &keys::meta(Meta::Head, &numbers))?;
    let mut last = Lsn(noted.as_deref().and_then(read_u64).unwrap_or(0));
    let mut second = 0;
    for (log, partition) in [Keyspace::Feed, Keyspace::Gone]
        .into_iter()
        .flat_map(|log| lineage_of(range).map(move |partition| (log, partition)))
    {
        let newest =
            snapshot.first(log, &keys::log_of(container, partition), Direction::Backward)?;
        if let Some((key, value)) = newest {
            let position = keys::read_log(&key).map_err(|_| malformed())?;
            last = last.max(position.lsn);
            second = second.max(crate::feed_entry::FeedEntry::decode(&value)?.second);
        }
    }
    let reserved = snapshot.get(Keyspace::Meta, &keys::meta(Meta::DocumentNumber, &numbers))?;
    let reserved = reserved.as_deref().map(Marks::decode).unwrap_or_default();
    Ok(Sequencer { last, second, reserved, closed: false })
}

fn paths(snapshot: &dyn Snapshot, container: u32) -> Result<PathDictionary, StoreError> {
    let paths = PathDictionary::default();
    let prefix = keys::index_path(container, &[]);
    let mut corrupt = false;
    snapshot.scan(
        Keyspace::Meta,
        &KeyRange::prefix(&prefix),
        Direction::Forward,
        &mut |key, value| {
            let mut fields = KeyReader::new(&key[prefix.len()..]);
            let step = std::str::from_utf8(key.get(prefix.len() + 4..).unwrap_or_default());
            match (fields.u32(), step, read_u32(&value)) {
                (Ok(parent), Ok(step), Some(number)) => {
                    paths.restore(parent, step, number);
                }
                _ => corrupt = true,
            }
            ControlFlow::Continue(())
        },
    )?;
    if corrupt { Err(malformed()) } else { Ok(paths) }
}

/// The scripts of a container.
pub(super) fn scripts(snapshot: &dyn Snapshot, container: u32) -> Result<Scripts, StoreError> {
    let mut scripts = Scripts::default();
    for (numbers, value) in entries(snapshot, Meta::Script, &[container])? {
        let [number] = numbers[..] else { return Err(malformed()) };
        let script = stored::read_script(number, &StoredEntry::read(&value)?)?;
        scripts.of_mut(script.kind).insert(script.name.clone(), Arc::new(script));
    }
    Ok(scripts)
}
