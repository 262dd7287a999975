//! Physical partitions change while clients work: splits as throughput or data grow, merges when
//! asked for.
//!
//! ```text
//! plan ─► build the children's indexes ─► hold the sequencers: write the new ranges, switch ─► let go
//! ```
//!
//! Items do not move, since their keys hold no partition. Requests by key are routed again inside
//! the server; those that name a range that is gone are told so, after its children can be read.

use super::Account;
use crate::catalog::Database;
use crate::catalog::stored::StoredContainer;
use crate::container::Container;
use crate::generation::build::{BuildError, Finished, NewIndex, Switch};
use crate::keys::Meta;
use crate::limits::{SPLIT_INTERVAL, SPLIT_RETRY_MILLIS};
use crate::offers::{Offer, Throughput};
use crate::ordinals::Marks;
use crate::partition::{Partition, Sequencer};
use crate::split::{self, Reshape};
use crate::store_failure;
use armilla_model::error::{Error, Result};
use armilla_model::value::Value;
use std::sync::{Arc, Weak};
use std::thread;

/// Starts the thread that splits; it ends with the account.
pub(super) fn start(account: &Arc<Account>) {
    let account = Arc::downgrade(account);
    let run = move || watch(&account);
    if let Err(error) = thread::Builder::new().name("partitions".to_owned()).spawn(run) {
        tracing::error!(%error, "partitions will not be split: their thread could not be started");
    }
}

fn watch(account: &Weak<Account>) {
    loop {
        thread::sleep(SPLIT_INTERVAL);
        let Some(account) = account.upgrade() else { return };
        account.split_partitions();
    }
}

impl Account {
    /// Splits what has outgrown its partitions, once the delay has passed. Public so that tests need
    /// not wait.
    pub fn split_partitions(&self) {
        let catalog = self.catalog();
        for database in catalog.databases.values() {
            for container in database.containers.values() {
                if let Err(error) = self.split_container(database, container) {
                    tracing::warn!(%error, "a container could not be split; it will be tried again");
                    container
                        .set_split_due(Some(self.core.clock.now_millis() + SPLIT_RETRY_MILLIS));
                }
            }
        }
    }

    fn split_container(&self, database: &Database, container: &Arc<Container>) -> Result<()> {
        let _alone = container.reshaping();
        let wanted = self.wanted_partitions(database, container);
        let partitions = container.partitions();
        let grows = partitions.len() < wanted;
        let full = |partition: &&Arc<Partition>| {
            partition.size() > self.options.partition_size && partition.may_be_split()
        };
        let growth = match grows {
            true => split::grow(&container.settings().policy.partition_key, &partitions, wanted),
            false => Vec::new(),
        };
        let is_old = |partition: &Arc<Partition>| {
            growth.iter().any(|reshape| reshape.old.iter().any(|old| Arc::ptr_eq(old, partition)))
        };
        let mut any = false;
        for partition in partitions.iter() {
            let splits = if grows { is_old(partition) } else { full(&partition) };
            partition.announce_split(splits);
            any |= splits;
        }
        if !any {
            container.set_split_due(None);
            return Ok(());
        }
        let delay = u64::try_from(self.options.split_delay.as_millis()).unwrap_or(u64::MAX);
        let now = self.core.clock.now_millis();
        let due = container.split_due().unwrap_or(now.saturating_add(delay));
        container.set_split_due(Some(due));
        if now < due {
            return Ok(());
        }
        if grows {
            for reshape in growth {
                self.repartition(container, reshape)?;
            }
        } else {
            for partition in partitions.iter().filter(full) {
                let snapshot = self.core.snapshot();
                let halved =
                    split::halve(container, &*snapshot, partition).map_err(store_failure)?;
                match halved {
                    Some(reshape) => self.repartition(container, reshape)?,
                    None => {
                        partition.set_unsplittable();
                        partition.announce_split(false);
                    }
                }
            }
        }
        container.set_split_due(None);
        Ok(())
    }

    /// True while a container has fewer partitions than its offer asks for.
    pub fn is_scaling(&self, offer: &Offer) -> bool {
        let catalog = self.catalog();
        let outgrown = |database: &Arc<Database>, container: &Arc<Container>| {
            container.partitions().len() < self.wanted_partitions(database, container)
        };
        catalog.databases.values().any(|database| {
            let of_database = database.self_link() == *offer.resource;
            let mut containers = database.containers.values();
            containers.any(|container| {
                (of_database || container.self_link == offer.resource)
                    && outgrown(database, container)
            })
        })
    }

    /// How many partitions the throughput of a container asks for.
    pub(super) fn wanted_partitions(&self, database: &Database, container: &Container) -> usize {
        let dials = container.dials();
        if dials.partitions.is_some() {
            return 1;
        }
        let catalog = self.catalog();
        let offer = catalog
            .offer_of(&container.self_link)
            .or_else(|| catalog.offer_of(&database.self_link()));
        let peak =
            offer.map_or(crate::offers::MANUAL_MIN, |offer| Throughput::peak(offer.throughput));
        self.core.slice.share(dials.partition_count(peak)) as usize
    }

    /// Puts new ranges in the place of old ones: builds their indexes while everybody goes on, and
    /// switches. Does nothing when something else changed meanwhile; whoever wants it asks again.
    pub(super) fn repartition(&self, container: &Arc<Container>, reshape: Reshape) -> Result<()> {
        container.check_alive()?;
        let all = container.partitions();
        let first = all.iter().position(|known| Arc::ptr_eq(known, &reshape.old[0]));
        let Some(first) = first else { return Ok(()) };
        let definition = container.index_definition();
        let ranges = split::children(&all, &reshape, self.core.slice.count());
        let go_on = |_| !self.core.background.is_stopping() && container.check_alive().is_ok();
        let built = NewIndex::build(container, &definition, &reshape.old, &ranges, &go_on);
        let new = match built {
            Ok(new) => new,
            Err(error) => {
                NewIndex::discard(container, &definition, &ranges);
                return match error {
                    BuildError::Stopped => {
                        Err(Error::Internal("the container or the server is going away".to_owned()))
                    }
                    BuildError::Store(error) => Err(store_failure(error)),
                };
            }
        };
        let _definition_stays = container.replacing();
        let same_index = container.index_definition().id == definition.id;
        if !same_index || !Arc::ptr_eq(&all, &container.partitions()) {
            NewIndex::discard(container, &definition, &ranges);
            return Ok(());
        }
        let old = reshape.old.clone();
        NewIndex::switch(container, &reshape.old, new, |switch| {
            self.switch_ranges(container, &old, &all, first, switch)?;
            Ok(|| {})
        })?;
        let old: Vec<_> = reshape.old.iter().map(|old| old.range.clone()).collect();
        NewIndex::discard(container, &definition, &old);
        Ok(())
    }

    /// Makes partitions of finished indexes and puts them in the place of the old ones.
    fn switch_ranges(
        &self,
        container: &Arc<Container>,
        old: &[Arc<Partition>],
        all: &[Arc<Partition>],
        first: usize,
        switch: &mut Switch<'_>,
    ) -> Result<()> {
        let root = self.core.root.load_full();
        let held = &mut switch.sequencers;
        let last = held.iter().map(|held| held.last).max().unwrap_or_default();
        let second = held.iter().map(|held| held.second).max().unwrap_or_default();
        let reserved = Marks::inherited(old, held);
        let child = |(at, finished): (usize, Finished)| {
            let reserved = if at == 0 { reserved.clone() } else { reserved.highest() };
            let sequencer = Sequencer { last, second, reserved, closed: false };
            Arc::new(finished.into_partition(sequencer))
        };
        let finished = std::mem::take(&mut switch.indexes).into_iter().enumerate();
        let children: Vec<_> = finished.map(child).collect();
        let mut partitions = all.to_vec();
        partitions.splice(first..first + old.len(), children.iter().cloned());
        self.change_own(|change| {
            change.check_present(container)?;
            let settings = container.settings();
            let stored = StoredContainer {
                name: settings.name.clone(),
                etag: settings.etag,
                ts: settings.ts,
                generation: settings.generation,
                secret: container.secret(),
                definition: Value::object(settings.policy.definition.clone()),
                ranges: partitions.iter().map(|partition| partition.range.clone()).collect(),
            };
            change.put(Meta::Container, &[container.database, container.number], stored.write());
            for (at, child) in children.iter().enumerate() {
                let reserved = if at == 0 { &reserved } else { &reserved.highest() };
                let numbers = [container.number, child.range.id];
                change.put(Meta::Head, &numbers, last.0.to_be_bytes().to_vec());
                change.put(Meta::DocumentNumber, &numbers, reserved.encode());
            }
            Ok(())
        })?;
        for (old, held) in old.iter().zip(held) {
            held.closed = true;
            old.retire(root.clone());
        }
        // Only now can a child be written to.
        container.set_partitions(partitions);
        Ok(())
    }
}
