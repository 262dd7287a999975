//! One round of one subscription: what ended is taken up, what is due is sent, what is new is read.

use super::definition::{Definition, OnExhausted};
use super::deliver::{Delivery, DeliveryDone, mark_key};
use super::entry::{DeliveryFailure, EntryKey};
use super::position::KeyPositions;
use super::queue::{DeliveryOutcome, DeliveryQueue, Exhausted, Moment, Rules, Sending};
use super::read::Reading;
use super::status::{Counts, LastError, Run};
use super::target::Target;
use super::{Subscription, dead};
use crate::account::Account;
use crate::container::Container;
use crate::keys::{self, Meta};
use crate::limits::{
    SUBSCRIPTION_HELD_MAX, SUBSCRIPTION_RETRY, SUBSCRIPTION_SAVE_EVERY, SUBSCRIPTION_TURN_MAX,
    SUBSCRIPTION_WINDOW_BYTES_MAX, SUBSCRIPTION_WINDOW_MAX,
};
use crate::partition::Partition;
use crate::ranges::Range;
use armilla_model::clock::monotonic;
use armilla_model::error::{Error, Result};
use armilla_model::lsn::Lsn;
use armilla_storage::{Batch, Keyspace};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What a subscription remembers from round to round.
pub(crate) struct Runner {
    pub(super) positions: KeyPositions,
    pub(super) ranges: BTreeMap<u32, RangeRunner>,
    pub(super) run: Run,
    /// Second of the last change of `run`.
    pub(super) since: u64,
    pub(super) counts: Counts,
    pub(super) last_error: Option<LastError>,
    /// Notes of procedures that the next saved position makes superfluous.
    marks: Vec<EntryKey>,
    dirty: bool,
    saved_at: Instant,
    /// Who hears when nothing is under way any more.
    pub(super) waiting: Vec<Box<dyn FnOnce() + Send>>,
    /// What delivery ids are made of.
    seed: RandomState,
}

/// What is under way in one range.
pub(super) struct RangeRunner {
    pub(super) range: Range,
    pub(super) queue: DeliveryQueue,
    pub(super) read_to: Lsn,
    /// Reading failed; it is tried again behind this.
    retry_at: Option<Instant>,
}

/// An attempt that ended.
pub(super) struct Ended {
    pub(super) range: u32,
    pub(super) batch: u64,
    pub(super) outcome: DeliveryOutcome,
}

/// How the turn of a range ended.
enum TurnEnd {
    /// It has read as far as there is room for.
    Done,
    /// Its time was over first.
    Cut,
}

/// What a round has left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// Everything there was is delivered.
    pub(super) idle: bool,
    /// When there is something to do even if nobody wakes the thread.
    pub(super) due: Option<Instant>,
}

/// The parts that a round works with.
pub(crate) struct SubscriptionRound<'r> {
    pub(super) account: &'r Account,
    pub(super) container: &'r Arc<Container>,
    pub(super) subscription: &'r Arc<Subscription>,
    pub(super) definition: Arc<Definition>,
    pub(super) rules: Rules,
}

impl Runner {
    /// A subscription that goes on from here.
    pub(crate) fn new(positions: KeyPositions, run: Run, since: u64, counts: Counts) -> Self {
        Self {
            positions,
            ranges: BTreeMap::new(),
            run,
            since,
            counts,
            last_error: None,
            marks: Vec::new(),
            dirty: false,
            saved_at: monotonic(),
            waiting: Vec::new(),
            seed: RandomState::new(),
        }
    }

    /// Takes up notes that procedures left behind the saved position.
    pub(crate) fn add_marks(&mut self, marks: Vec<EntryKey>) {
        marks.iter().for_each(|mark| self.positions.add_done(*mark));
        self.marks.extend(marks);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.run == Run::Running
    }

    pub(crate) fn set_state(&mut self, run: Run, now: u64) {
        self.set_run(run, now);
    }

    /// Calls somebody once nothing is under way.
    pub(crate) fn tell_when_idle(&mut self, told: Box<dyn FnOnce() + Send>) {
        self.waiting.push(told);
    }

    /// Puts ranges at other positions, forwards or back.
    pub(crate) fn rewind(&mut self, targets: &[(Range, Lsn)]) -> Result<()> {
        if self.is_running() || self.under_way() > 0 {
            return Err(Error::Conflict(
                "The subscription is running. Pause it, rewind it, then let it go on.".to_owned(),
            ));
        }
        self.ranges.clear();
        targets.iter().for_each(|(range, lsn)| self.positions.rewind(range, *lsn));
        self.dirty = true;
        Ok(())
    }

    pub(super) fn under_way(&self) -> usize {
        self.ranges.values().map(|range| range.queue.under_way()).sum()
    }

    /// Whether every change of the container is delivered.
    pub(super) fn is_up_to_date(&self, container: &Container) -> bool {
        let is_done =
            |partition: &Arc<Partition>| self.positions.of(&partition.range) >= partition.lsn();
        self.ranges.values().all(|range| range.queue.is_empty())
            && container.partitions().iter().all(is_done)
    }

    /// Changes whether it runs.
    fn set_run(&mut self, run: Run, now: u64) {
        (self.run, self.since, self.dirty) = (run, now, true);
    }

    pub(super) fn note_error(&mut self, now: u64, failure: &DeliveryFailure) {
        let (status, message) = (failure.status, failure.message.clone());
        self.last_error = Some(LastError { second: now, status, message });
    }

    fn moment(&self, now: u64) -> Moment {
        let instant = monotonic();
        let chance = (self.seed.hash_one((instant, now)) % 1_000) as f64 / 999.0;
        Moment { instant, second: now, chance: 0.8 + 0.4 * chance }
    }

    /// The same for the same batch, and for no other.
    fn uuid(&self, range: u32, delivery: u64) -> String {
        let half = |part: u8| self.seed.hash_one((range, delivery, part));
        let number = (u128::from(half(0)) << 64) | u128::from(half(1));
        // The bits that say: made by chance.
        let number = number & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let text = format!("{number:032x}");
        [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
    }
}

impl SubscriptionRound<'_> {
    fn now(&self) -> u64 {
        self.container.core.clock.now_seconds()
    }

    /// One round.
    pub(super) fn run(&self, runner: &mut Runner) -> Left {
        let partitions = self.container.partitions();
        self.take_up(runner);
        let replaced = self.subscription.replaced.load(Ordering::Acquire);
        let is_on = runner.run == Run::Running && self.definition.enabled && !replaced;
        if !is_on {
            return self.rest(runner, &partitions, replaced);
        }
        self.renew_ranges(runner, &partitions);
        let mut left = Left { idle: true, due: None };
        let until = monotonic() + SUBSCRIPTION_TURN_MAX;
        for partition in partitions.iter() {
            let id = partition.range.id;
            if !runner.ranges.contains_key(&id) {
                left.idle = false;
                continue;
            }
            match self.run_range(runner, partition, until) {
                Ok(TurnEnd::Cut) => left.due = Some(monotonic()),
                Ok(TurnEnd::Done) => {}
                Err(error) => self.put_off(runner, id, &error),
            }
            if runner.run != Run::Running {
                return self.rest(runner, &partitions, false);
            }
            let Some(range) = runner.ranges.get(&id) else { continue };
            left.idle &= range.queue.is_empty() && range.read_to >= partition.lsn();
            let due = [range.queue.next_due(&self.rules), range.retry_at];
            left.due = due.into_iter().flatten().chain(left.due).min();
            if range.queue.is_empty() && range.read_to < partition.lsn() && range.retry_at.is_none()
            {
                left.due = Some(monotonic());
            }
        }
        self.save_if_due(runner, left.idle);
        left
    }

    /// Nothing is begun; what is under way comes to its end.
    fn rest(&self, runner: &mut Runner, partitions: &[Arc<Partition>], replaced: bool) -> Left {
        if runner.under_way() > 0 {
            return Left { idle: false, due: None };
        }
        runner.ranges.clear();
        if replaced {
            self.subscription.replaced.store(false, Ordering::Release);
        }
        self.save_if_due(runner, true);
        take(&mut runner.waiting).into_iter().for_each(|waiting| waiting());
        let behind =
            |partition: &Arc<Partition>| runner.positions.of(&partition.range) < partition.lsn();
        let idle = !replaced && !partitions.iter().any(behind);
        Left { idle, due: replaced.then(monotonic) }
    }

    /// Takes up attempts that ended.
    fn take_up(&self, runner: &mut Runner) {
        let ended = take(&mut *self.subscription.ended.lock());
        let is_procedure = matches!(self.definition.target, Target::Procedure(_));
        for Ended { range: id, batch, outcome } in ended {
            let moment = runner.moment(self.now());
            match &outcome {
                DeliveryOutcome::Failed(failure, _) | DeliveryOutcome::Partly(_, failure) => {
                    runner.counts.retried += 1;
                    runner.note_error(moment.second, failure);
                }
                DeliveryOutcome::Refused(failure) => runner.note_error(moment.second, failure),
                DeliveryOutcome::NotTried(why) => {
                    runner.note_error(moment.second, &DeliveryFailure::told(why))
                }
                DeliveryOutcome::Gone(failure) => {
                    runner.note_error(moment.second, failure);
                    runner.set_run(Run::Stopped("gone"), moment.second);
                }
                DeliveryOutcome::Missing(why) => {
                    runner.note_error(moment.second, &DeliveryFailure::told(why));
                    runner.set_run(Run::Stopped("targetMissing"), moment.second);
                }
                DeliveryOutcome::Done => {}
            }
            let Some(range) = runner.ranges.get_mut(&id) else { continue };
            let done = range.queue.finish(batch, outcome, &self.rules, moment);
            runner.counts.delivered += done.len() as u64;
            if is_procedure {
                runner.marks.extend(&done);
            }
            Self::done(runner, id, done);
        }
    }

    /// Notes what is done and moves the position of its range on.
    fn done(runner: &mut Runner, id: u32, done: Vec<EntryKey>) {
        runner.dirty |= !done.is_empty();
        done.into_iter().for_each(|key| runner.positions.add_done(key));
        Self::advance(runner, id);
    }

    fn advance(runner: &mut Runner, id: u32) {
        let Some(range) = runner.ranges.get(&id) else { return };
        let open = range.queue.first_open().map(|key| Lsn(key.lsn.0.saturating_sub(1)));
        let position = open.map_or(range.read_to, |open| open.min(range.read_to));
        if position > runner.positions.of(&range.range) {
            runner.positions.advance(&range.range, position);
            runner.dirty = true;
        }
    }

    /// Takes up the ranges of now. One that was split or merged comes to its end first: what it has under way
    /// must not be sent twice.
    fn renew_ranges(&self, runner: &mut Runner, partitions: &[Arc<Partition>]) {
        let is_current = |id: u32| partitions.iter().any(|partition| partition.range.id == id);
        let over = |(id, range): (&u32, &RangeRunner)| {
            (!is_current(*id) && range.queue.under_way() == 0).then_some(*id)
        };
        let over: Vec<u32> = runner.ranges.iter().filter_map(over).collect();
        over.iter().for_each(|id| drop(runner.ranges.remove(id)));
        for partition in partitions {
            let range = &partition.range;
            let overlaps = |old: &RangeRunner| old.range.overlap(&range.span()).is_some();
            if runner.ranges.values().any(overlaps) {
                continue;
            }
            let read_to = runner.positions.of(range);
            let (range, queue) = (range.clone(), DeliveryQueue::default());
            let new = RangeRunner { range, queue, read_to, retry_at: None };
            runner.ranges.insert(partition.range.id, new);
        }
    }

    fn put_off(&self, runner: &mut Runner, id: u32, error: &Error) {
        runner.note_error(self.now(), &DeliveryFailure::told(error.to_string()));
        if let Some(range) = runner.ranges.get_mut(&id) {
            range.retry_at = Some(monotonic() + SUBSCRIPTION_RETRY);
        }
    }

    fn run_range(
        &self,
        runner: &mut Runner,
        partition: &Arc<Partition>,
        until: Instant,
    ) -> Result<TurnEnd> {
        let id = partition.range.id;
        let moment = runner.moment(self.now());
        if let Some(range) = runner.ranges.get_mut(&id)
            && range.retry_at.is_some_and(|at| at <= moment.instant)
        {
            range.retry_at = None;
        }
        self.bury(runner, id, moment);
        loop {
            self.send(runner, id, moment);
            if runner.run != Run::Running || !self.read(runner, partition, until)? {
                return Ok(TurnEnd::Done);
            }
            self.bury(runner, id, moment);
            if monotonic() >= until {
                self.send(runner, id, moment);
                return Ok(TurnEnd::Cut);
            }
        }
    }

    fn send(&self, runner: &mut Runner, id: u32, moment: Moment) {
        loop {
            let Some(range) = runner.ranges.get_mut(&id) else { return };
            let Some(sending) = range.queue.next(&self.rules, moment) else { return };
            let Sending { batch, groups, attempt, delivery } = sending;
            let uuid = runner.uuid(id, delivery);
            let (subscription, container) = (self.subscription.clone(), self.container.clone());
            let signal = container.core.subscribers.clone();
            let done = DeliveryDone::new(move |outcome| {
                subscription.ended.lock().push(Ended { range: id, batch, outcome });
                signal.wake();
            });
            let delivery = Delivery {
                container,
                subscription: self.subscription.clone(),
                definition: self.definition.clone(),
                groups,
                attempt,
                uuid,
                mark: Meta::SubscriptionDone,
            };
            delivery.begin(done);
        }
    }

    /// Reads a page, if there is room for it; true when one was read.
    fn read(
        &self,
        runner: &mut Runner,
        partition: &Arc<Partition>,
        until: Instant,
    ) -> Result<bool> {
        let done_len = runner.positions.done_len();
        let Some(range) = runner.ranges.get_mut(&partition.range.id) else { return Ok(false) };
        let is_full = range.queue.len() + done_len >= SUBSCRIPTION_WINDOW_MAX
            || range.queue.bytes() >= SUBSCRIPTION_WINDOW_BYTES_MAX
            || range.queue.ready_len(&self.rules) >= self.rules.batch.items_max
            || range.queue.under_way() >= self.rules.parallel
            || range.queue.held().len() >= SUBSCRIPTION_HELD_MAX;
        if is_full || range.retry_at.is_some() || range.read_to >= partition.lsn() {
            return Ok(false);
        }
        if !self.container.has_leisure(partition) || !self.container.core.keeps_up() {
            range.retry_at = Some(monotonic() + SUBSCRIPTION_RETRY);
            return Ok(false);
        }
        let (container, definition) = (&**self.container, &*self.definition);
        let reading =
            Reading { container, partition, definition, number: self.subscription.number };
        let Some(page) = reading.page(range.read_to, &runner.positions, until)? else {
            let now = self.now();
            runner.note_error(
                now,
                &DeliveryFailure::told("the log does not reach back to the position"),
            );
            runner.set_run(Run::Stopped("feedLost"), now);
            return Ok(false);
        };
        let now = monotonic();
        let has_entries = !page.groups.is_empty() || page.filtered > 0;
        page.groups.into_iter().for_each(|group| range.queue.push(group, now));
        range.read_to = range.read_to.max(page.position);
        runner.counts.filtered += page.filtered;
        if has_entries {
            self.container.charge_background(partition, page.charge);
        }
        Self::advance(runner, partition.range.id);
        Ok(true)
    }

    /// Does with exhausted batches what the definition says.
    fn bury(&self, runner: &mut Runner, id: u32, moment: Moment) {
        let Some(range) = runner.ranges.get_mut(&id) else { return };
        for exhausted in range.queue.exhausted(moment) {
            let entries =
                exhausted.groups.iter().map(|group| group.entries.len() as u64).sum::<u64>();
            runner.note_error(moment.second, &exhausted.failure);
            match self.definition.on_exhausted {
                OnExhausted::Stop => {
                    runner.set_run(Run::Stopped("exhausted"), moment.second);
                    return;
                }
                OnExhausted::Skip => runner.counts.skipped += entries,
                OnExhausted::DeadLetter => match self.keep(&exhausted) {
                    Ok(()) => runner.counts.dead_lettered += entries,
                    Err(error) => {
                        let pause = match error {
                            Error::Overloaded { retry_after } => retry_after,
                            _ => SUBSCRIPTION_RETRY,
                        };
                        runner.note_error(moment.second, &DeliveryFailure::told(error.to_string()));
                        if let Some(range) = runner.ranges.get_mut(&id) {
                            range.queue.postpone(exhausted.batch, moment.instant + pause);
                        }
                        continue;
                    }
                },
            }
            let Some(range) = runner.ranges.get_mut(&id) else { return };
            let done = range.queue.settle(exhausted.batch, moment);
            Self::done(runner, id, done);
        }
    }

    fn keep(&self, exhausted: &Exhausted) -> Result<()> {
        let name = self.definition.dead_letter.as_deref().unwrap_or_default();
        let place = self.account.container(&self.container.settings().database, name)?;
        dead::check(&place)?;
        dead::write(&place, self.subscription, exhausted)
    }

    fn save_if_due(&self, runner: &mut Runner, at_once: bool) {
        let is_due = at_once || runner.saved_at.elapsed() >= SUBSCRIPTION_SAVE_EVERY;
        if runner.dirty && is_due {
            self.save(runner);
        }
    }

    /// Saves the position, and forgets the notes that it makes superfluous.
    pub(super) fn save(&self, runner: &mut Runner) {
        runner.positions.prune(&self.container.ranges());
        let mut batch = Batch::new();
        let numbers = [self.container.number, self.subscription.number];
        let key = keys::meta(Meta::SubscriptionState, &numbers);
        batch.put(Keyspace::Meta, key, runner.write());
        let marks = take(&mut runner.marks);
        for mark in &marks {
            let mark = mark_key(Meta::SubscriptionDone, self.container, self.subscription, mark);
            batch.delete(Keyspace::Meta, mark);
        }
        if self.container.check_alive().is_ok() && self.is_present() {
            self.container.core.commit_and_wait(batch);
        }
        (runner.dirty, runner.saved_at) = (false, monotonic());
    }

    /// Whether the subscription was not deleted meanwhile.
    fn is_present(&self) -> bool {
        let all = self.container.subscriptions.load();
        all.get(&self.subscription.name)
            .is_some_and(|known| known.number == self.subscription.number)
    }

    /// Saves at once, for whoever has changed the position.
    pub(crate) fn save_now(&self, runner: &mut Runner) {
        self.save(runner);
    }

    /// Takes up what ended and saves, for whoever stops the server.
    pub(super) fn close(&self, runner: &mut Runner) {
        self.take_up(runner);
        self.save_if_due(runner, true);
    }
}

/// How long a thread may sleep until a moment.
pub(super) fn until(due: Option<Instant>, most: Duration) -> Duration {
    due.map_or(most, |due| due.saturating_duration_since(monotonic()).min(most))
}
