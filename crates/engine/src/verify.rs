//! Verification: items, feed, unique keys, expiry and index must tell the same story.
//!
//! Every key of every keyspace is read. What two keyspaces say of the same item is compared in both
//! directions, so a missing entry is found as surely as one too many.

mod index;

use crate::account::Account;
use crate::container::Container;
use crate::feed::lineage::lineage_of;
use crate::feed_entry::FeedEntry;
use crate::keys::{self, ItemKey, LogPosition};
use crate::limits::VERIFY_FINDINGS_MAX;
use crate::record::Record;
use crate::txn::unique;
use armilla_model::ttl;
use armilla_model::value::Value;
use armilla_storage::{Direction, KeyRange, Keyspace, Snapshot, StoreError};
use bytes::Bytes;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a verification found.
#[derive(Debug, Default)]
pub struct Report {
    /// Containers walked.
    pub containers: usize,
    /// Items checked.
    pub items: u64,
    /// What is wrong; empty when all is well.
    pub findings: Vec<String>,
}

impl Report {
    fn find(&mut self, finding: String) {
        if self.findings.len() < VERIFY_FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

impl Account {
    /// Walks everything and compares.
    pub fn verify(&self) -> Result<Report, StoreError> {
        let snapshot = self.snapshot();
        let mut report = Report::default();
        let containers: HashMap<u32, Arc<Container>> = self
            .catalog()
            .databases
            .values()
            .flat_map(|database| database.containers.values())
            .map(|container| (container.number, container.clone()))
            .collect();
        report.containers = containers.len();
        self.verify_encryption_keys(&*snapshot, &mut report)?;
        let garbage = garbage(&*snapshot)?;
        let mut walk = VerifyWalk {
            snapshot: &*snapshot,
            containers: &containers,
            garbage: &garbage,
            report: &mut report,
        };
        walk.items()?;
        walk.feed()?;
        walk.versions()?;
        walk.unique()?;
        walk.expiry()?;
        for container in containers.values() {
            index::check(container, &mut report)?;
        }
        self.core.opened.damage().into_iter().for_each(|damage| report.find(damage));
        Ok(report)
    }

    /// Stored keys and those of the catalog are the same, and policies name none that is missing.
    fn verify_encryption_keys(
        &self,
        snapshot: &dyn Snapshot,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let stored = KeyRange::prefix(&keys::meta(keys::Meta::EncryptionKey, &[]));
        let stored = snapshot.page(Keyspace::Meta, &stored, Direction::Forward, usize::MAX)?;
        let catalog = self.catalog();
        let databases = catalog.databases.values();
        let known = |key: &[u8]| {
            databases.clone().any(|database| {
                let mut numbers = database.encryption_keys.values().map(|found| found.number);
                numbers.any(|number| {
                    keys::meta(keys::Meta::EncryptionKey, &[database.number, number]) == key
                })
            })
        };
        for (key, _) in stored.iter().filter(|(key, _)| !known(key)) {
            report.find(format!("meta: the encryption key {key:02x?} is of no database"));
        }
        for database in databases.clone() {
            for container in database.containers.values() {
                let settings = container.settings();
                let mut ids = settings.policy.encryption_key_ids();
                if let Some(id) = ids.find(|id| !database.encryption_keys.contains_key(*id)) {
                    let link = &settings.alt_link;
                    report.find(format!(
                        "{link}: its policy names the encryption key '{id}', which is missing"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn garbage(snapshot: &dyn Snapshot) -> Result<Vec<u32>, StoreError> {
    let prefix = KeyRange::prefix(&keys::meta(keys::Meta::Garbage, &[]));
    let entries = snapshot.page(Keyspace::Meta, &prefix, Direction::Forward, usize::MAX)?;
    let number = |key: &[u8]| key.get(1..5)?.try_into().ok().map(u32::from_be_bytes);
    Ok(entries.iter().filter_map(|(key, _)| number(key)).collect())
}

struct VerifyWalk<'a> {
    snapshot: &'a dyn Snapshot,
    containers: &'a HashMap<u32, Arc<Container>>,
    garbage: &'a [u32],
    report: &'a mut Report,
}

impl VerifyWalk<'_> {
    /// Reads a keyspace whose keys hold a container number at a place, and visits what belongs to
    /// living containers.
    fn each(
        &mut self,
        keyspace: Keyspace,
        number_at: usize,
        mut visit: impl FnMut(&mut Self, &Arc<Container>, &[u8], Bytes) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let snapshot = self.snapshot;
        let mut failure = None;
        snapshot.scan(
            keyspace,
            &KeyRange::prefix(&[]),
            Direction::Forward,
            &mut |key, value| {
                let number =
                    key.get(number_at..number_at + 4).and_then(|bytes| bytes.try_into().ok());
                let number = number.map(u32::from_be_bytes).unwrap_or_default();
                let outcome = match self.containers.get(&number).cloned() {
                    Some(container) => visit(self, &container, key, value),
                    None if self.garbage.contains(&number) || keyspace == Keyspace::Expiry => {
                        Ok(())
                    }
                    None => {
                        self.report.find(format!(
                            "{keyspace:?} has a key of container {number}, which does not exist"
                        ));
                        Ok(())
                    }
                };
                match outcome {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        failure = Some(error);
                        ControlFlow::Break(())
                    }
                }
            },
        )?;
        failure.map_or(Ok(()), Err)
    }

    fn items(&mut self) -> Result<(), StoreError> {
        self.each(Keyspace::Items, 0, |walk, container, key, value| {
            let settings = container.settings();
            let definition = &settings.policy.partition_key;
            let Ok(place) = keys::read_item(key, definition) else {
                walk.report.find("an item's key is malformed".to_owned());
                return Ok(());
            };
            let record = Record::new(value)?;
            if record.is_tombstone() {
                return Ok(());
            }
            walk.report.items += 1;
            walk.item(container, &place, &record)
        })
    }

    fn item(
        &mut self,
        container: &Container,
        place: &ItemKey,
        record: &Record,
    ) -> Result<(), StoreError> {
        let settings = container.settings();
        let definition = &settings.policy.partition_key;
        let Ok(value) = armilla_model::json::parse(&record.text()) else {
            self.report.find(format!("item {} is not JSON", record.docno()));
            return Ok(());
        };
        let id = value.get("id").and_then(Value::as_str).unwrap_or_default();
        let key = armilla_model::partition_key::PartitionKey::of_item(&value, definition);
        if definition.epk(&key) != place.epk || container.hash_of(id) != place.hash {
            self.report.find(format!("item '{id}' stands under a key that is not its own"));
        }
        let etag = value.get("_etag").and_then(Value::as_str).unwrap_or_default();
        if etag != record.etag().to_string() {
            self.report
                .find(format!("item '{id}' has one etag in its header and another in its text"));
        }
        let position = LogPosition {
            partition: record.partition(),
            lsn: record.lsn(),
            sequence: record.sequence(),
        };
        let entry = self.snapshot.get(Keyspace::Feed, &keys::log(container.number, position))?;
        match entry.map(|bytes| FeedEntry::decode(&bytes)).transpose()? {
            Some(entry) if entry.item == *place && entry.docno == record.docno() => {}
            _ => self.report.find(format!("item '{id}' has no entry in the change feed")),
        }
        if let Some(second) = ttl::own_second(record.ts(), record.ttl()) {
            let expiry = keys::expiry(second, container.number, definition, place);
            if !self.snapshot.contains(Keyspace::Expiry, &expiry)? {
                self.report.find(format!("item '{id}' has a time to live but no expiry"));
            }
        }
        let tuples = unique::tuples(&value, &settings.policy.unique_keys, container.secret());
        for (constraint, tuple) in tuples.iter().enumerate() {
            let key =
                keys::unique(container.number, definition, &place.epk, constraint as u8, *tuple);
            let owner = [&place.hash.to_be_bytes()[..], &[place.probe]].concat();
            let now = container.core.clock.now_seconds();
            let alive = record.is_alive(settings.policy.liveness(now));
            if alive && self.snapshot.get(Keyspace::Unique, &key)?.as_deref() != Some(&owner[..]) {
                self.report.find(format!("item '{id}' does not own its unique key {constraint}"));
            }
        }
        Ok(())
    }

    fn feed(&mut self) -> Result<(), StoreError> {
        self.each(Keyspace::Feed, 0, |walk, container, key, value| {
            let Ok(position) = keys::read_log(key) else {
                walk.report.find("a key of the change feed is malformed".to_owned());
                return Ok(());
            };
            let entry = FeedEntry::decode(&value)?;
            let record = container.get(walk.snapshot, &entry.item).ok().flatten();
            let matches = record.is_some_and(|record| {
                (record.partition(), record.lsn(), record.sequence())
                    == (position.partition, position.lsn, position.sequence)
            });
            if !matches {
                walk.report.find(format!(
                    "the change feed names a version at LSN {} that is not there",
                    position.lsn
                ));
            }
            Ok(())
        })
    }

    /// Entries of the log of versions must be readable and lie in the history of a range.
    fn versions(&mut self) -> Result<(), StoreError> {
        self.each(Keyspace::Versions, 0, |walk, container, key, value| {
            let known = |partition: u32| {
                let ranges = container.ranges();
                ranges.iter().any(|range| lineage_of(range).any(|id| id == partition))
            };
            let readable = keys::read_log(key).is_ok_and(|position| {
                known(position.partition) && crate::versions::is_readable(&value)
            });
            if !readable {
                walk.report.find("an entry of the log of versions is malformed".to_owned());
            }
            Ok(())
        })
    }

    fn unique(&mut self) -> Result<(), StoreError> {
        self.each(Keyspace::Unique, 0, |walk, container, key, value| {
            let settings = container.settings();
            let definition = &settings.policy.partition_key;
            // Key: container, epk, constraint u8, 16 bytes; value: hash u64, probe u8.
            let Some(epk_end) = key.len().checked_sub(17) else {
                walk.report.find("a unique key is malformed".to_owned());
                return Ok(());
            };
            let mut place = key[..epk_end].to_vec();
            place.extend_from_slice(&value);
            let owner = keys::read_item(&place, definition).ok();
            let record =
                owner.and_then(|owner| container.get(walk.snapshot, &owner).ok().flatten());
            if record.is_none() {
                walk.report.find("a unique key is owned by an item that is not there".to_owned());
            }
            Ok(())
        })
    }

    fn expiry(&mut self) -> Result<(), StoreError> {
        self.each(Keyspace::Expiry, 4, |walk, container, key, _| {
            let settings = container.settings();
            let place = keys::read_expiry(key).ok().and_then(|(second, _, tail)| {
                keys::read_item_tail(tail, &settings.policy.partition_key)
                    .ok()
                    .map(|place| (second, place))
            });
            let Some((second, place)) = place else {
                walk.report.find("an expiry key is malformed".to_owned());
                return Ok(());
            };
            let record = container.get(walk.snapshot, &place).ok().flatten();
            let matches = record
                .is_some_and(|record| ttl::own_second(record.ts(), record.ttl()) == Some(second));
            if !matches {
                walk.report.find("an expiry names an item that does not expire then".to_owned());
            }
            Ok(())
        })
    }
}
