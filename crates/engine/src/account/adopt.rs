//! Adopting a catalog: what the first slice of an account changes, the others take over from its store.
//!
//! The catalog has an *edition*, a number that each change raises. Whoever has a copy of the first slice's store hands a snapshot of it to
//! the account of another slice, which writes down what differs, with the edition, in one batch of its own. Nothing depends on how often or
//! in which steps that happens: a state is taken over, not a list of changes.

use super::open::{self, entries, malformed, parse_policy};
use super::{Account, Change};
use crate::catalog::stored::{self, StoredContainer, StoredDatabase, StoredEntry};
use crate::catalog::{Catalog, Database};
use crate::container::{Container, Settings};
use crate::dials::Turned;
use crate::keys::{self, Meta};
use crate::scripts::Scripts;
use crate::views::state::State;
use crate::{reindex, store_failure};
use armilla_model::error::Result;
use armilla_storage::{Batch, Keyspace, Snapshot, StoreError};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Entries that are the same in every slice. Those of containers hold ranges, which are not.
const SAME_EVERYWHERE: [Meta; 7] = [
    Meta::Database,
    Meta::User,
    Meta::Permission,
    Meta::EncryptionKey,
    Meta::Offer,
    Meta::Script,
    Meta::Dials,
];

/// The edition of the catalog in a store; 0 where none was ever noted.
pub(super) fn edition_in(snapshot: &dyn Snapshot) -> Result<u64, StoreError> {
    let noted = snapshot.get(Keyspace::Meta, &keys::meta(Meta::Edition, &[]))?;
    Ok(noted.as_deref().and_then(open::read_u64).unwrap_or(0))
}

impl Account {
    /// The edition of the catalog in a store of this account, without opening it.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn edition_of(snapshot: &dyn Snapshot) -> Result<u64, StoreError> {
        edition_in(snapshot)
    }

    /// The edition of the catalog.
    pub fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// Takes over the catalog of the first slice as a snapshot of its store has it; false when that is not newer.
    ///
    /// # Errors
    ///
    /// When a store cannot be read, or the server is stopping.
    pub fn adopt_catalog(&self, first: &dyn Snapshot) -> Result<bool> {
        let edition = edition_in(first).map_err(store_failure)?;
        if edition <= self.edition() {
            return Ok(false);
        }
        self.adopt_settings(first)?;
        let dropped = self.change_own(|change| {
            let dropped = change.adopt(first)?;
            change.set_edition(edition);
            Ok(dropped)
        })?;
        dropped.iter().for_each(|container| container.mark_dropped());
        Ok(true)
    }

    /// Takes over the definitions of containers that were replaced.
    fn adopt_settings(&self, first: &dyn Snapshot) -> Result<()> {
        for container in self.containers() {
            let key = keys::meta(Meta::Container, &[container.database, container.number]);
            let theirs = first.get(Keyspace::Meta, &key).map_err(store_failure)?;
            let Some(theirs) = theirs else { continue };
            let theirs = read_container(&theirs).map_err(store_failure)?;
            if theirs.etag != container.settings().etag {
                self.adopt_definition(&container, theirs)?;
            }
        }
        Ok(())
    }

    fn adopt_definition(&self, container: &Arc<Container>, theirs: StoredContainer) -> Result<()> {
        let _only_one = container.replacing();
        let before = container.settings();
        let policy = parse_policy(&theirs.definition).map_err(store_failure)?;
        let serving = container.index_definition();
        let (etag, ts, generation) = (theirs.etag, theirs.ts, theirs.generation);
        self.change_own(|change| {
            change.check_present(container)?;
            let stored = StoredContainer {
                ranges: container.ranges(),
                secret: container.secret(),
                ..theirs
            };
            change.put(Meta::Container, &[container.database, container.number], stored.write());
            let current = serving.serves(&policy);
            reindex::note_serving(container.number, &serving, current, &mut change.batch);
            Ok(())
        })?;
        container.set_settings(Settings {
            database: before.database.clone(),
            name: before.name.clone(),
            alt_link: before.alt_link.clone(),
            policy,
            etag,
            ts,
            generation,
        });
        let keeps_versions = container.settings().policy.retention_minutes > 0;
        if before.policy.retention_minutes == 0 && keeps_versions {
            container.begin_versions();
        }
        reindex::request(container);
        Ok(())
    }
}

fn read_container(value: &[u8]) -> Result<StoredContainer, StoreError> {
    StoredContainer::read(&StoredEntry::read(value)?)
}

impl<'a> Change<'a> {
    /// Notes which state of the catalog this is.
    pub(super) fn set_edition(&mut self, edition: u64) {
        self.put(Meta::Edition, &[], edition.to_be_bytes().to_vec());
        let account = self.account;
        self.prepare(move || account.edition.store(edition, Ordering::Release));
    }

    /// Makes the catalog that of the first slice; answers which containers are no more.
    fn adopt(&mut self, first: &dyn Snapshot) -> Result<Vec<Arc<Container>>> {
        let own = self.account.core.snapshot();
        for kind in SAME_EVERYWHERE {
            adopt_entries(&mut self.batch, kind, first, &*own).map_err(store_failure)?;
        }
        let counter = first.get(Keyspace::Meta, &keys::meta(Meta::Account, &[]));
        let counter = counter.map_err(store_failure)?;
        self.next_number = counter.as_deref().and_then(open::read_u32).unwrap_or(0);
        let mut databases = HashMap::new();
        for (numbers, value) in entries(first, Meta::Database, &[]).map_err(store_failure)? {
            let [number] = numbers[..] else { return Err(store_failure(malformed())) };
            let database = self.adopt_database(first, number, &value)?;
            databases.insert(database.name.clone(), Arc::new(database));
        }
        let offers = offers(first).map_err(store_failure)?;
        let stays: HashSet<u32> = databases
            .values()
            .flat_map(|database| database.containers.values().map(|container| container.number))
            .collect();
        let mut dropped = self.account.containers();
        dropped.retain(|container| !stays.contains(&container.number));
        self.adopt_views(&databases, &dropped);
        for container in &dropped {
            self.account.retire(container);
            self.drop_container(container);
        }
        self.catalog = Catalog { databases, offers };
        Ok(dropped)
    }

    /// Ties new views to their sources, and lets go of those that are no more.
    fn adopt_views(
        &mut self,
        databases: &HashMap<Arc<str>, Arc<Database>>,
        dropped: &[Arc<Container>],
    ) {
        let known: HashSet<u32> =
            self.account.containers().iter().map(|container| container.number).collect();
        let source_of = |database: &Database, view: &Container| {
            database.container_of_rid(view.view()?.source_rid()).cloned()
        };
        for database in databases.values() {
            for view in database.containers.values().filter(|view| !known.contains(&view.number)) {
                if let Some(source) = source_of(database, view) {
                    self.show_view(source, view);
                }
            }
            for view in dropped.iter().filter(|view| view.database == database.number) {
                if let Some(source) = source_of(database, view) {
                    let view = view.clone();
                    self.show(move || source.remove_view(&view));
                }
            }
        }
    }

    fn adopt_database(
        &mut self,
        first: &dyn Snapshot,
        number: u32,
        value: &[u8],
    ) -> Result<Database> {
        let read = |value: &[u8]| StoredDatabase::read(&StoredEntry::read(value)?);
        let stored = read(value).map_err(store_failure)?;
        let known = self.catalog.databases.values();
        let known = known.flat_map(|database| database.containers.values().cloned());
        let known: HashMap<u32, _> = known.map(|container| (container.number, container)).collect();
        let mut containers = HashMap::new();
        for (numbers, value) in entries(first, Meta::Container, &[number]).map_err(store_failure)? {
            let [container] = numbers[..] else { return Err(store_failure(malformed())) };
            let theirs = read_container(&value).map_err(store_failure)?;
            let name = theirs.name.clone();
            let container = match known.get(&container) {
                Some(known) => known.clone(),
                None => self.adopt_container((number, container), &stored.name, theirs)?,
            };
            self.adopt_parts(first, &container)?;
            containers.insert(name, container);
        }
        Ok(Database {
            number,
            name: stored.name,
            etag: stored.etag,
            ts: stored.ts,
            containers,
            users: open::users(first, number).map_err(store_failure)?,
            encryption_keys: open::encryption_keys(first, number).map_err(store_failure)?,
        })
    }

    /// Makes a container that the first slice has, with the part of the key space that is here.
    fn adopt_container(
        &mut self,
        (database, number): (u32, u32),
        database_name: &Arc<str>,
        theirs: StoredContainer,
    ) -> Result<Arc<Container>> {
        let policy = parse_policy(&theirs.definition).map_err(store_failure)?;
        let slice = self.account.core.slice;
        let count = u32::try_from(theirs.ranges.len()).unwrap_or(u32::MAX);
        let ranges = slice.ranges(&policy.partition_key, count.saturating_mul(slice.count()));
        let stored = StoredContainer { ranges, ..theirs };
        let own = self.account.core.snapshot();
        let view = super::views::restore(&*own, number, &policy).map_err(store_failure)?;
        let container = self.account.build((database, number), database_name, &stored, policy)?;
        if let Some(view) = view {
            // It has read nothing yet, of no slice.
            self.put(Meta::View, &[number], State::default().write());
            container.set_view(view);
        }
        self.put(Meta::Container, &[database, number], stored.write());
        for partition in container.partitions().iter() {
            let head = partition.lsn().0.to_be_bytes().to_vec();
            self.put(Meta::Head, &[number, partition.range.id], head);
        }
        Ok(container)
    }

    /// Takes over what belongs to a container beside its definition.
    fn adopt_parts(&mut self, first: &dyn Snapshot, container: &Arc<Container>) -> Result<()> {
        let number = container.number;
        let scripts: Scripts = open::scripts(first, number).map_err(store_failure)?;
        let turned = first.get(Keyspace::Meta, &keys::meta(Meta::Dials, &[number]));
        let turned = turned.map_err(store_failure)?;
        let turned = turned.as_deref().map(Turned::read).unwrap_or_default();
        let container = container.clone();
        self.show(move || {
            container.scripts.store(Arc::new(scripts));
            container.set_turned(turned);
        });
        Ok(())
    }
}

fn offers(first: &dyn Snapshot) -> Result<BTreeMap<u32, Arc<crate::offers::Offer>>, StoreError> {
    let mut offers = BTreeMap::new();
    for (numbers, value) in entries(first, Meta::Offer, &[])? {
        let [number] = numbers[..] else { return Err(malformed()) };
        offers.insert(number, Arc::new(stored::read_offer(number, &StoredEntry::read(&value)?)?));
    }
    Ok(offers)
}

/// Makes the entries of one kind those of the first slice.
fn adopt_entries(
    batch: &mut Batch,
    kind: Meta,
    first: &dyn Snapshot,
    own: &dyn Snapshot,
) -> Result<(), StoreError> {
    let theirs: BTreeMap<_, _> = entries(first, kind, &[])?.into_iter().collect();
    let ours: BTreeMap<_, _> = entries(own, kind, &[])?.into_iter().collect();
    for (numbers, value) in &theirs {
        if ours.get(numbers) != Some(value) {
            batch.put(Keyspace::Meta, keys::meta(kind, numbers), value.clone());
        }
    }
    for numbers in ours.keys().filter(|numbers| !theirs.contains_key(*numbers)) {
        batch.delete(Keyspace::Meta, keys::meta(kind, numbers));
    }
    Ok(())
}
