//! Background work: expired items are removed, what dropped containers left behind, and paths that no item has; memory of index
//! files is given back.
//!
//! Readers never wait for this: an expired item is hidden the moment it expires, and a dropped
//! container cannot be addressed. The janitor only gives the space back. Expiry is charged to the
//! container and lives on throughput that no request wants.

use super::Account;
use crate::container::Container;
use crate::core::jobs::flush_index;
use crate::feed::lineage::lineage_of;
use crate::keys::{self, Meta};
use crate::limits::{
    JANITOR_BATCH_KEYS, JANITOR_INTERVAL, JANITOR_VISIT_ITEMS, TRIM_MEMORY_ROUNDS,
};
use crate::partition::Partition;
use crate::txn::Txn;
use crate::views::SeenByViews;
use armilla_model::charge::RequestCharge;
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::{Epk, PartitionKey};
use armilla_storage::{Batch, Direction, KeyRange, Keyspace, StoreError};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;

/// Starts the janitor's thread; it ends with the account.
pub(super) fn start(account: &Arc<Account>) {
    let account = Arc::downgrade(account);
    let spawned = thread::Builder::new().name("janitor".to_owned()).spawn(move || visit(&account));
    if let Err(error) = spawned {
        tracing::error!(%error, "the janitor could not be started; expired items will keep their space");
    }
}

fn visit(account: &Weak<Account>) {
    for round in 0_u64.. {
        thread::sleep(JANITOR_INTERVAL);
        let Some(account) = account.upgrade() else { return };
        if let Err(error) = account.clean_up() {
            tracing::error!(%error, "background cleaning failed; it will be tried again");
        }
        if round.is_multiple_of(TRIM_MEMORY_ROUNDS) {
            account.core.folders.trim_memory();
        }
    }
}

impl Account {
    /// One round of cleaning. Public so that tests need not wait.
    pub fn clean_up(&self) -> Result<(), StoreError> {
        self.remove_garbage()?;
        self.remove_rekey_notes()?;
        for container in self.containers() {
            // What follows another container loses what that one loses; what was re-keyed stays as it is.
            let is_own = container.view().is_none() && container.rekeyed_into().is_none();
            if is_own && container.settings().policy.default_ttl.is_some() {
                self.expire_items(&container)?;
            }
            container.trim_versions()?;
            self.trim_removals(&container)?;
            container.forget_paths_later();
            for partition in container.partitions().iter().filter(|it| it.holds_much_at_rest()) {
                flush_index(&self.core, partition);
            }
        }
        Ok(())
    }

    /// Forgets removals that every index which could want them has in its files.
    fn trim_removals(&self, container: &Arc<Container>) -> Result<(), StoreError> {
        // Whoever builds or switches an index comes first.
        let Some(_not_switched) = container.try_replacing() else { return Ok(()) };
        if container.removals_are_kept() || container.check_alive().is_err() {
            return Ok(());
        }
        let partitions = container.partitions();
        // First what index files have: a view that comes afterwards may have read an item whose removal they do not have yet.
        let in_files: Vec<Lsn> = partitions.iter().map(|partition| partition.covered()).collect();
        // What a view has not seen is kept for it.
        let seen = SeenByViews::of(container);
        let limit = |(partition, in_files): (&Arc<Partition>, &Lsn)| {
            let followed = seen.followed_to(&partition.range);
            followed.unwrap_or(Lsn(u64::MAX)).min(*in_files)
        };
        let covered: Vec<Lsn> = partitions.iter().zip(&in_files).map(limit).collect();
        let mut logs: BTreeMap<u32, Lsn> = BTreeMap::new();
        for (partition, &covered) in partitions.iter().zip(&covered) {
            for log in lineage_of(&partition.range) {
                let limit = logs.entry(log).or_insert(covered);
                *limit = covered.min(*limit);
            }
        }
        let known = |(partition, covered): (&Arc<Partition>, &Lsn)| {
            partition.trimmed.load(Ordering::Relaxed) >= covered.0
        };
        if partitions.iter().zip(&covered).all(known) {
            return Ok(());
        }
        for (log, limit) in logs {
            self.trim_log(container.number, log, limit)?;
        }
        for (partition, covered) in partitions.iter().zip(covered) {
            partition.trimmed.store(covered.0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Forgets the removals of one log up to a transaction. The head of the log is noted with them:
    /// it may have been one of these.
    fn trim_log(&self, container: u32, log: u32, limit: Lsn) -> Result<(), StoreError> {
        let whole = keys::log_of(container, log);
        let behind = keys::log_after(container, log, limit);
        let end = match behind.start {
            Bound::Included(key) => Bound::Excluded(key),
            other => other,
        };
        let range = KeyRange { start: whole.start, end };
        loop {
            let snapshot = self.core.snapshot();
            let page =
                snapshot.page(Keyspace::Gone, &range, Direction::Forward, JANITOR_BATCH_KEYS)?;
            if page.is_empty() {
                return Ok(());
            }
            let mut batch = Batch::with_capacity(page.len() + 2);
            let numbers = [container, log];
            let (head_key, trimmed_key) =
                (keys::meta(Meta::Head, &numbers), keys::meta(Meta::Trimmed, &numbers));
            let noted = snapshot.get(Keyspace::Meta, &head_key)?;
            let noted =
                noted.and_then(|bytes| bytes[..].try_into().ok()).map_or(0, u64::from_be_bytes);
            batch.put(Keyspace::Meta, head_key, noted.max(limit.0).to_be_bytes().to_vec());
            batch.put(Keyspace::Meta, trimmed_key, limit.0.to_be_bytes().to_vec());
            page.into_iter().for_each(|(key, _)| batch.delete(Keyspace::Gone, key));
            if !self.core.commit_and_wait(batch) {
                return Ok(());
            }
        }
    }

    /// Removes the data of dropped containers.
    fn remove_garbage(&self) -> Result<(), StoreError> {
        let snapshot = self.core.snapshot();
        let prefix = KeyRange::prefix(&keys::meta(Meta::Garbage, &[]));
        for (key, _) in snapshot.page(Keyspace::Meta, &prefix, Direction::Forward, 100)? {
            let Some(number) = key.get(1..5).and_then(|bytes| bytes.try_into().ok()) else {
                continue;
            };
            let number = u32::from_be_bytes(number);
            let rekeyed = snapshot.get(Keyspace::Meta, &keys::meta(Meta::Rekeyed, &[number]))?;
            if let Some(Ok(target)) = rekeyed.map(|bytes| bytes[..].try_into()) {
                self.remove_notes(u32::from_be_bytes(target))?;
            }
            for keyspace in [
                Keyspace::Items,
                Keyspace::Feed,
                Keyspace::Gone,
                Keyspace::Unique,
                Keyspace::Versions,
            ] {
                self.remove_range(keyspace, &keys::items_of(number))?;
            }
            self.core.folders.remove_container(number);
            for kind in [
                Meta::DocumentNumber,
                Meta::Head,
                Meta::VersionsFloor,
                Meta::IndexPath,
                Meta::Index,
                Meta::Trimmed,
                Meta::View,
                Meta::ViewPlacement,
                Meta::ViewOrder,
                Meta::Subscription,
                Meta::SubscriptionState,
                Meta::SubscriptionDone,
                Meta::SubscriptionRedriven,
                Meta::Rekeyed,
            ] {
                self.remove_range(Keyspace::Meta, &KeyRange::prefix(&keys::meta(kind, &[number])))?;
            }
            let mut batch = Batch::new();
            batch.delete(Keyspace::Meta, key);
            self.core.commit_and_wait(batch);
        }
        Ok(())
    }

    /// Removes the notes where the copies of a container's items lie.
    pub(super) fn remove_notes(&self, container: u32) -> Result<(), StoreError> {
        let notes = KeyRange::prefix(&keys::meta(Meta::ViewPlacement, &[container]));
        self.remove_range(Keyspace::Meta, &notes)
    }

    fn remove_range(&self, keyspace: Keyspace, range: &KeyRange) -> Result<(), StoreError> {
        loop {
            let page = self.core.snapshot().page(
                keyspace,
                range,
                Direction::Forward,
                JANITOR_BATCH_KEYS,
            )?;
            if page.is_empty() {
                return Ok(());
            }
            let mut batch = Batch::with_capacity(page.len());
            page.into_iter().for_each(|(key, _)| batch.delete(keyspace, key));
            if !self.core.commit_and_wait(batch) {
                return Ok(());
            }
        }
    }

    /// Removes items of a container whose time has passed.
    fn expire_items(&self, container: &Arc<Container>) -> Result<(), StoreError> {
        let (now, settings) = (self.core.clock.now_seconds(), container.settings());
        let liveness = settings.policy.liveness(now);
        let mut expired = Vec::new();
        for partition in container.partitions().iter() {
            let view = partition.view();
            for part in view.view.parts() {
                for local in 0..part.len() {
                    let (ts, ttl) = part.ts_and_ttl(local);
                    if !liveness.is_alive(ts, ttl)
                        && !part.is_dead(local)
                        && expired.len() < JANITOR_VISIT_ITEMS
                    {
                        let document = part.document(local);
                        expired.push((document.epk.to_vec(), document.hash, document.docno));
                    }
                }
            }
        }
        for (epk, hash, docno) in expired {
            let epk = Epk::from_bytes(&epk);
            let partition = container.partition_of(&epk);
            if !container.has_leisure(&partition) {
                continue;
            }
            match self.expire_one(container, &epk, hash, docno) {
                Ok(Some(charge)) => container.charge_background(&partition, charge),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "an expired item could not be removed yet");
                }
            }
        }
        Ok(())
    }

    /// Removes one item if its time has really passed; what that costs.
    fn expire_one(
        &self,
        container: &Arc<Container>,
        epk: &Epk,
        hash: u64,
        docno: u64,
    ) -> armilla_model::Result<Option<RequestCharge>> {
        let lock = container.lock_and_wait(epk);
        let snapshot = self.core.snapshot();
        let Some(record) = container.find_by_docno(&*snapshot, epk, hash, docno)? else {
            return Ok(None);
        };
        let now = self.core.clock.now_seconds();
        if record.is_alive(container.settings().policy.liveness(now)) {
            return Ok(None);
        }
        let value = crate::txn::parse_stored(&record.text())?;
        let key = PartitionKey::of_item(&value, &container.settings().policy.partition_key);
        let Some(id) = value.get("id").and_then(armilla_model::Value::as_str) else {
            return Ok(None);
        };
        let mut txn = Txn::begin(container.clone(), key, lock)?;
        txn.set_expiring();
        let charge = txn.stage_removal(id)?;
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        txn.commit(move |outcome| {
            let _ = sender.send(outcome);
        });
        match receiver.recv() {
            Ok(outcome) => outcome.map(|_| Some(charge)),
            // The account is being closed.
            Err(_) => Ok(None),
        }
    }
}
