//! Subscriptions as resources: create, replace, delete, pause, resume, rewind, and what is told of them.

use super::{Account, Change};
use crate::catalog::Database;
use crate::container::Container;
use crate::keys::{self, Meta};
use crate::limits::SUBSCRIPTIONS_MAX;
use crate::names::check_name;
use crate::partition::Partition;
use crate::ranges::Range;
use crate::scripts::Kind;
use crate::slice::Slice;
use crate::subscriptions::definition::{FeedMode, Secret, StartAt};
use crate::subscriptions::entry::EntryKey;
use crate::subscriptions::position::KeyPositions;
use crate::subscriptions::runner::Runner;
use crate::subscriptions::status::Run;
use crate::subscriptions::target::Target;
use crate::subscriptions::{
    Courier, Definition, Subscription, SubscriptionVersion, Subscriptions, dead,
};
use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_model::lsn::Lsn;
use armilla_model::value::{Object, Value};
use armilla_storage::{Direction, KeyRange, Keyspace, Snapshot, StoreError};
use std::sync::Arc;

impl<'a> Change<'a> {
    /// Subscriptions of a container that another one takes the place of: they go on there, from its last change. Those of the old
    /// container deliver what is left of it.
    pub(super) fn copy_subscriptions(
        &mut self,
        source: &Container,
        target: &'a Arc<Container>,
    ) -> Result<()> {
        let partitions = target.partitions();
        let heads = partitions.iter().map(|partition| (&partition.range, partition.lsn()));
        let positions = KeyPositions::at(heads);
        let mut all = Subscriptions::new();
        for (name, old) in source.subscriptions().iter() {
            let (number, (etag, ts)) = (self.number(), self.stamp());
            let definition = old.version().definition.clone();
            let version = SubscriptionVersion { definition, etag, ts };
            let stored = old.begun_anew(&positions, ts);
            let runner = Runner::read(&stored).map_err(crate::store_failure)?;
            let numbers = [target.number, number];
            self.put(Meta::Subscription, &numbers, write(name, &version));
            self.put(Meta::SubscriptionState, &numbers, stored);
            all.insert(
                name.clone(),
                Arc::new(Subscription::new(number, name.clone(), version, runner)),
            );
        }
        show(self, target, all);
        Ok(())
    }
}

impl Change<'_> {
    /// Forgets how far a subscription has come.
    fn forget_subscription(&mut self, numbers: &[u32]) -> Result<()> {
        self.delete(Meta::SubscriptionState, numbers);
        let snapshot = self.account.core.snapshot();
        for kind in [Meta::SubscriptionDone, Meta::SubscriptionRedriven] {
            let marks = KeyRange::prefix(&keys::meta(kind, numbers));
            let all = snapshot.page(Keyspace::Meta, &marks, Direction::Forward, usize::MAX);
            for (key, _) in all.map_err(crate::store_failure)? {
                self.batch.delete(Keyspace::Meta, key);
            }
        }
        Ok(())
    }

    /// Takes over the subscriptions that the first slice has. Each slice delivers what it has of the container, and keeps how far it has
    /// come; a new subscription begins here as its definition says.
    pub(super) fn adopt_subscriptions(
        &mut self,
        first: &dyn Snapshot,
        container: &Arc<Container>,
    ) -> Result<()> {
        let own = container.subscriptions();
        let theirs = super::open::entries(first, Meta::Subscription, &[container.number]);
        let mut all = Subscriptions::new();
        for (numbers, value) in theirs.map_err(crate::store_failure)? {
            let (number, name, version) = read(&numbers, &value).map_err(crate::store_failure)?;
            let known = own.values().find(|known| known.number == number).cloned();
            let subscription = match known {
                Some(known) => known,
                None => {
                    let positions = starting_at(container, &version.definition)?;
                    let stored = Runner::stored_new(&positions, version.ts);
                    let runner = Runner::read(&stored).map_err(crate::store_failure)?;
                    let numbers = [container.number, number];
                    self.put(Meta::SubscriptionState, &numbers, stored);
                    let version = version.clone();
                    Arc::new(Subscription::new(number, name.clone(), version, runner))
                }
            };
            if subscription.version().etag != version.etag {
                let replaced = subscription.clone();
                self.show(move || replaced.set_version(version));
            }
            all.insert(name, subscription);
        }
        let stays = |number: u32| all.values().any(|known| known.number == number);
        for gone in own.values().filter(|known| !stays(known.number)) {
            self.forget_subscription(&[container.number, gone.number])?;
        }
        let container = container.clone();
        self.show(move || {
            container.subscriptions.store(Arc::new(all));
            container.core.subscribers.wake();
        });
        Ok(())
    }
}

impl Account {
    /// Sets who carries batches out of the server. Only the first word counts.
    pub fn set_courier(&self, courier: Box<dyn Courier>) {
        let _already_set = self.core.courier.set(courier);
        self.core.subscribers.wake();
    }

    /// Creates a subscription.
    pub fn create_subscription<'a>(
        &'a self,
        container: &'a Arc<Container>,
        body: &Value,
    ) -> Result<Arc<Subscription>> {
        let Some(Value::String(name)) = body.get("id") else {
            return Err(Error::bad_request(
                "The input content is invalid because the required property 'id' is missing.",
            ));
        };
        check_name(name)?;
        let definition = Definition::parse(body, None)?;
        self.check_targets(container, name, &definition)?;
        let positions = starting_at(container, &definition)?;
        self.change(|change| {
            change.check_present(container)?;
            let mut all = Subscriptions::clone(&container.subscriptions.load());
            if all.contains_key(name) {
                return Err(Error::conflict());
            }
            if all.len() >= SUBSCRIPTIONS_MAX {
                return Err(Error::bad_request(format!(
                    "The container has {SUBSCRIPTIONS_MAX} subscriptions already, which is the most. Delete one of them first."
                )));
            }
            let (number, (etag, ts)) = (change.number(), change.stamp());
            let version = SubscriptionVersion { definition: Arc::new(definition), etag, ts };
            let stored = Runner::stored_new(&positions, ts);
            let runner = Runner::read(&stored).map_err(crate::store_failure)?;
            let numbers = [container.number, number];
            change.put(Meta::Subscription, &numbers, write(name, &version));
            change.put(Meta::SubscriptionState, &numbers, stored);
            let subscription = Arc::new(Subscription::new(number, name.clone(), version, runner));
            all.insert(name.clone(), subscription.clone());
            show(change, container, all);
            Ok(subscription)
        })
    }

    /// Replaces everything of a subscription but its name and its position.
    pub fn replace_subscription<'a>(
        &'a self,
        container: &'a Arc<Container>,
        segment: &str,
        body: &Value,
        if_match: Option<&str>,
    ) -> Result<Arc<Subscription>> {
        let known = container.subscription(segment)?;
        let before = known.version();
        before.etag.check(if_match)?;
        if body.get("id").is_some_and(|id| id.as_str() != Some(&known.name)) {
            return Err(Error::bad_request("The id of a subscription cannot be changed."));
        }
        let definition = Definition::parse(body, Some(&before.definition))?;
        if definition.mode != before.definition.mode {
            return Err(Error::bad_request(
                "'feed.mode' cannot be changed: the two feeds have different entries. Create another subscription.",
            ));
        }
        self.check_targets(container, &known.name, &definition)?;
        let replaced = self.change(|change| {
            change.check_present(container)?;
            let subscription = container.subscription(&known.name)?;
            subscription.version().etag.check(if_match)?;
            let (etag, ts) = change.stamp();
            let version = SubscriptionVersion { definition: Arc::new(definition), etag, ts };
            let numbers = [container.number, subscription.number];
            change.put(Meta::Subscription, &numbers, write(&known.name, &version));
            let shown = subscription.clone();
            change.show(move || shown.set_version(version));
            Ok(subscription)
        });
        self.core.subscribers.wake();
        replaced
    }

    /// Deletes a subscription and its position. Dead letters stay.
    pub fn delete_subscription<'a>(
        &'a self,
        container: &'a Arc<Container>,
        segment: &str,
        if_match: Option<&str>,
    ) -> Result<()> {
        self.change(|change| {
            change.check_present(container)?;
            let subscription = container.subscription(segment)?;
            subscription.version().etag.check(if_match)?;
            let mut all = Subscriptions::clone(&container.subscriptions.load());
            all.remove(&subscription.name);
            let numbers = [container.number, subscription.number];
            change.delete(Meta::Subscription, &numbers);
            change.forget_subscription(&numbers)?;
            show(change, container, all);
            Ok(())
        })
    }

    /// The status of a subscription.
    pub fn subscription_status(
        &self,
        container: &Arc<Container>,
        subscription: &Arc<Subscription>,
    ) -> Object {
        let runner = subscription.runner.lock();
        self.round(container, subscription).status(&runner)
    }

    /// Pauses a subscription; the callback hears when nothing is under way any more.
    pub fn pause_subscription(
        &self,
        subscription: &Subscription,
        done: impl FnOnce() + Send + 'static,
    ) {
        let now = self.core.clock.now_seconds();
        subscription.runner.lock().pause(now, Box::new(done));
        self.core.subscribers.wake();
    }

    /// Lets a subscription go on that was paused or has stopped.
    pub fn resume_subscription(&self, subscription: &Subscription) {
        let now = self.core.clock.now_seconds();
        subscription.runner.lock().resume(now);
        self.core.subscribers.wake();
    }

    /// Puts a paused subscription at another position: `"beginning"`, `"now"`, `{"time": …}` or
    /// `{"lsn": {"0": 120}}`.
    pub fn rewind_subscription(
        &self,
        container: &Arc<Container>,
        subscription: &Arc<Subscription>,
        to: &Value,
    ) -> Result<()> {
        let targets: Vec<(Range, Lsn)> = match to.get("lsn") {
            Some(by_range) => positions_in(container, by_range)?,
            None => {
                let start = StartAt::parse(to)?;
                let at = |partition: &Arc<Partition>| {
                    Ok((partition.range.clone(), start_of(container, partition, &start)?))
                };
                container.partitions().iter().map(at).collect::<Result<_>>()?
            }
        };
        let mut runner = subscription.runner.lock();
        runner.rewind(&targets)?;
        self.round(container, subscription).save_now(&mut runner);
        Ok(())
    }

    /// Refuses targets that are not there or cannot be used.
    fn check_targets(
        &self,
        container: &Container,
        name: &str,
        definition: &Definition,
    ) -> Result<()> {
        match &definition.target {
            Target::Procedure(id) => {
                container.script(Kind::Procedure, id).map_err(|_| {
                    Error::bad_request(format!("The container has no stored procedure '{id}'."))
                })?;
            }
            Target::Webhook(webhook) => match self.core.courier.get() {
                Some(courier) => courier.check(webhook)?,
                None => {
                    return Err(Error::bad_request(
                        "This server calls no webhooks. Start it with --webhooks and the hosts that it may call.",
                    ));
                }
            },
        }
        let keeps_versions = container.settings().policy.retention_minutes > 0;
        if definition.mode == FeedMode::AllVersions && !keeps_versions {
            return Err(Error::bad_request(
                "The feed of all versions and deletes must be enabled for this container: give it a changeFeedPolicy with a retentionDuration.",
            ));
        }
        let Some(place) = &definition.dead_letter else { return Ok(()) };
        // They have one key, and entries come from every slice.
        self.core.slice.require_whole("Dead letters")?;
        let database = self.database(&container.settings().database)?;
        let Some(place) = database.containers.get(place) else {
            return Err(Error::bad_request(format!(
                "'{place}', where dead letters shall go, is not a container of this database."
            )));
        };
        if place.number == container.number {
            return Err(Error::bad_request("Dead letters cannot go into the container itself."));
        }
        check_sole(&database, container, name, definition)?;
        dead::check(place)
    }
}

/// Refuses two subscriptions of one name whose dead letters would have the same ids.
fn check_sole(
    database: &Database,
    container: &Container,
    name: &str,
    definition: &Definition,
) -> Result<()> {
    for other in database.containers.values().filter(|other| other.number != container.number) {
        let Ok(known) = other.subscription(name) else { continue };
        if known.version().definition.dead_letter == definition.dead_letter {
            return Err(Error::bad_request(format!(
                "The subscription '{name}' of '{}' keeps its dead letters there too. Take another name or another container.",
                other.settings().name
            )));
        }
    }
    Ok(())
}

fn show<'a>(change: &mut Change<'a>, container: &'a Arc<Container>, all: Subscriptions) {
    change.show(move || {
        container.subscriptions.store(Arc::new(all));
        container.core.subscribers.wake();
    });
}

/// The positions of a new subscription.
fn starting_at(container: &Container, definition: &Definition) -> Result<KeyPositions> {
    let partitions = container.partitions();
    let mut heads = Vec::with_capacity(partitions.len());
    for partition in partitions.iter() {
        if definition.mode == FeedMode::AllVersions && definition.start != StartAt::Now {
            return Err(Error::bad_request(
                "A subscription to all versions and deletes starts now: what is older may be gone.",
            ));
        }
        heads.push((&partition.range, start_of(container, partition, &definition.start)?));
    }
    Ok(KeyPositions::at(heads.into_iter()))
}

fn start_of(container: &Container, partition: &Partition, start: &StartAt) -> Result<Lsn> {
    match start {
        StartAt::Beginning => Ok(Lsn(0)),
        StartAt::Now => Ok(partition.lsn()),
        StartAt::Time(_, second) => container.position_at(partition, *second),
    }
}

/// KeyPositions by range id, of ranges in this slice.
fn positions_in(container: &Container, by_range: &Value) -> Result<Vec<(Range, Lsn)>> {
    let wrong = || {
        Error::bad_request(
            "'lsn' is an object: ids of the container's ranges, and a position for each.",
        )
    };
    let members = by_range.as_object().ok_or_else(wrong)?;
    let ranges = container.ranges();
    let slice = container.core.slice;
    let is_here = |(id, _): &(&Arc<str>, &Value)| {
        let id: Option<u32> = id.parse().ok();
        id.is_none_or(|id| Slice::of_range(id, slice.count()) == slice.index())
    };
    let position = |(id, lsn): (&Arc<str>, &Value)| {
        let range = ranges.iter().find(|range| range.id.to_string() == **id);
        let lsn = lsn.as_i64().and_then(|lsn| u64::try_from(lsn).ok());
        Ok((range.cloned().ok_or_else(wrong)?, Lsn(lsn.ok_or_else(wrong)?)))
    };
    members.iter().filter(is_here).map(position).collect()
}

fn write(name: &str, version: &SubscriptionVersion) -> Vec<u8> {
    let mut stored = Object::of([
        ("name", name.into()),
        ("etag", format!("{:032x}", u128::from_be_bytes(version.etag.0)).into()),
        ("ts", i64::try_from(version.ts).unwrap_or(i64::MAX).into()),
    ]);
    stored.insert("definition", Value::object(version.definition.members(Secret::Shown)));
    let mut out = Vec::new();
    stored.write_json(&mut out);
    out
}

fn malformed() -> StoreError {
    StoreError::corruption("meta", "a subscription is malformed")
}

/// The number, the name and what it says, of a stored subscription.
fn read(numbers: &[u32], value: &[u8]) -> Result<(u32, Arc<str>, SubscriptionVersion), StoreError> {
    let [number] = *numbers else { return Err(malformed()) };
    let stored = armilla_model::json::parse(value).map_err(|_| malformed())?;
    let text = |name: &str| stored.get(name).and_then(Value::as_str).ok_or_else(malformed);
    let etag = u128::from_str_radix(text("etag")?, 16).map_err(|_| malformed())?;
    let ts = stored.get("ts").and_then(Value::as_i64).ok_or_else(malformed)?;
    let definition = stored.get("definition").ok_or_else(malformed)?;
    let definition = Definition::parse(definition, None).map_err(|_| malformed())?;
    let version = SubscriptionVersion {
        definition: Arc::new(definition),
        etag: ETag(etag.to_be_bytes()),
        ts: u64::try_from(ts).map_err(|_| malformed())?,
    };
    Ok((number, text("name")?.into(), version))
}

/// The subscriptions of a stored container.
pub(super) fn restore(
    snapshot: &dyn Snapshot,
    container: &Container,
    entries: Vec<(Vec<u32>, bytes::Bytes)>,
) -> Result<(), StoreError> {
    let mut all = Subscriptions::new();
    for (numbers, value) in entries {
        let (number, name, version) = read(&numbers, &value)?;
        let numbers = [container.number, number];
        let key = keys::meta(Meta::SubscriptionState, &numbers);
        let state = snapshot.get(Keyspace::Meta, &key)?.ok_or_else(malformed)?;
        let mut runner = Runner::read(&state)?;
        runner.add_marks(marks(snapshot, &numbers)?);
        all.insert(name.clone(), Arc::new(Subscription::new(number, name, version, runner)));
    }
    container.subscriptions.store(Arc::new(all));
    Ok(())
}

/// Entries whose effects procedures have committed.
fn marks(snapshot: &dyn Snapshot, numbers: &[u32]) -> Result<Vec<EntryKey>, StoreError> {
    let prefix = keys::meta(Meta::SubscriptionDone, numbers);
    let range = KeyRange::prefix(&prefix);
    let found = snapshot.page(Keyspace::Meta, &range, Direction::Forward, usize::MAX)?;
    let read = |key: &[u8]| {
        let words = key.get(prefix.len()..)?.chunks_exact(4);
        let words: Vec<u32> =
            words.filter_map(|word| word.try_into().ok().map(u32::from_be_bytes)).collect();
        let [log, high, low, sequence] = words[..] else { return None };
        Some(EntryKey { lsn: Lsn((u64::from(high) << 32) | u64::from(low)), log, sequence })
    };
    let corrupt = || StoreError::corruption("meta", "a note of a subscription is malformed");
    found.iter().map(|(key, _)| read(key).ok_or_else(corrupt)).collect()
}

impl Runner {
    fn pause(&mut self, now: u64, done: Box<dyn FnOnce() + Send>) {
        if self.is_running() {
            self.set_state(Run::Paused, now);
        }
        self.tell_when_idle(done);
    }

    fn resume(&mut self, now: u64) {
        if !self.is_running() {
            self.set_state(Run::Running, now);
        }
    }
}
