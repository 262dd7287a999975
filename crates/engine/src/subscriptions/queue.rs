//! What one range has to deliver: batches under way, batches that wait for their next attempt, and what was
//! read and is in no batch yet. It knows no target, no store and no thread, and is told the time.
//!
//! ```text
//! push ─► waiting groups ─► next: a batch ─► under way ─► done │ failed: wait, or halve │ exhausted
//!                                 ▲                                       │
//!                                 └───────────────────────────────────────┘
//! ```
//!
//! A logical partition is in one batch at a time. Halves that share a logical partition go one after the
//! other; as soon as a single transaction has to wait, everything that is not of its key goes on without it.

use super::definition::{BatchRules, Definition, Ordering, Retry};
use super::entry::{DeliveryFailure, EntryKey, Group};
use super::target::Target;
use armilla_model::partition_key::Epk;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::mem::take;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The rules of a definition that concern order and attempts.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How much at once.
    pub batch: BatchRules,
    /// What is kept in order.
    pub ordering: Ordering,
    /// Batches under way at a time.
    pub parallel: usize,
    /// What happens after a failure.
    pub retry: Retry,
    /// A batch holds one logical partition only.
    pub one_key: bool,
}

impl From<&Definition> for Rules {
    fn from(definition: &Definition) -> Self {
        Self {
            batch: definition.batch,
            ordering: definition.ordering,
            parallel: definition.parallel,
            retry: definition.retry,
            one_key: matches!(definition.target, Target::Procedure(_)),
        }
    }
}

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// For pauses.
    pub instant: Instant,
    /// For ages.
    pub second: u64,
    /// Stretches pauses, 0.8 to 1.2.
    pub chance: f64,
}

/// What is to be sent now.
#[derive(Clone, Debug)]
pub struct Sending {
    /// The batch.
    pub batch: u64,
    /// What it holds.
    pub groups: Arc<Vec<Group>>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The same in every attempt with the same entries.
    pub delivery: u64,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum DeliveryOutcome {
    /// Everything is done.
    Done,
    /// Everything is done but these; true where another attempt makes sense.
    Partly(Vec<(EntryKey, bool)>, DeliveryFailure),
    /// Nothing is done; another attempt may succeed, not before this.
    Failed(DeliveryFailure, Option<Duration>),
    /// Nothing is done, and no further attempt will.
    Refused(DeliveryFailure),
    /// It could not be tried.
    NotTried(String),
    /// The target asks not to be called any more.
    Gone(DeliveryFailure),
    /// There is no such target.
    Missing(String),
}

/// Groups that cannot be delivered.
#[derive(Clone, Debug)]
pub struct Exhausted {
    /// The batch that holds them and nothing else.
    pub batch: u64,
    /// The groups.
    pub groups: Arc<Vec<Group>>,
    /// Attempts that were made.
    pub attempts: u32,
    /// Second of the first and of the last.
    pub tried: (u64, u64),
    /// Why the last one failed.
    pub failure: DeliveryFailure,
}

#[derive(Debug)]
struct Batch {
    groups: Arc<Vec<Group>>,
    /// Later halves that share logical partitions with it, the next one first.
    rest: VecDeque<Vec<Group>>,
    attempts: u32,
    delivery: u64,
    tried: (u64, u64),
    state: BatchState,
}

#[derive(Debug)]
enum BatchState {
    UnderWay,
    Due(Instant),
    /// No attempt is left; what becomes of it is tried again from time to time until it succeeds.
    Exhausted(DeliveryFailure, Instant),
}

/// See the module.
#[derive(Debug, Default)]
pub struct DeliveryQueue {
    waiting: VecDeque<(Group, Instant)>,
    batches: BTreeMap<u64, Batch>,
    /// Groups in batches, by logical partition.
    busy: HashMap<Epk, usize>,
    entries: usize,
    bytes: usize,
    next_number: u64,
}

impl DeliveryQueue {
    /// Takes up a group that was read.
    pub fn push(&mut self, group: Group, now: Instant) {
        self.entries += group.entries.len();
        self.bytes += group.bytes;
        self.waiting.push_back((group, now));
    }

    /// Entries that were read and are not settled.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// True when nothing is left.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes of items that were read and are not settled.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Entries that a new batch could take now.
    pub fn ready_len(&self, rules: &Rules) -> usize {
        let ready = self.waiting.iter().filter(|(group, _)| self.is_free(&group.epk, rules));
        ready.map(|(group, _)| group.entries.len()).sum()
    }

    /// Whether a group of a logical partition may go into a new batch.
    fn is_free(&self, epk: &Epk, rules: &Rules) -> bool {
        match rules.ordering {
            Ordering::PartitionKey => !self.busy.contains_key(epk),
            Ordering::Range => self.batches.is_empty(),
            Ordering::None => true,
        }
    }

    /// The first transaction that is not settled.
    pub fn first_open(&self) -> Option<EntryKey> {
        let batches = self.batches.values();
        let in_batches =
            batches.flat_map(|batch| batch.groups.iter().chain(batch.rest.iter().flatten()));
        let groups = in_batches.chain(self.waiting.iter().map(|(group, _)| group));
        groups.filter_map(|group| group.entries.first().map(|entry| entry.key)).min()
    }

    /// Commit second of the oldest entry that is not settled.
    pub fn oldest_second(&self) -> Option<u32> {
        let batches = self.batches.values();
        let in_batches =
            batches.flat_map(|batch| batch.groups.iter().chain(batch.rest.iter().flatten()));
        let groups = in_batches.chain(self.waiting.iter().map(|(group, _)| group));
        groups.map(|group| group.second).min()
    }

    /// Batches under way.
    pub fn under_way(&self) -> usize {
        let under_way = |batch: &&Batch| matches!(batch.state, BatchState::UnderWay);
        self.batches.values().filter(under_way).count()
    }

    /// Logical partitions that are held back by failures: first group, attempts, and the next attempt.
    pub fn held(&self) -> Vec<(&Group, u32, Instant)> {
        let mut held = Vec::new();
        for batch in self.batches.values() {
            let due = match &batch.state {
                BatchState::Due(due) if batch.attempts > 0 => *due,
                BatchState::Exhausted(_, due) => *due,
                _ => continue,
            };
            let mut seen = HashSet::new();
            let groups = batch.groups.iter().filter(|group| seen.insert(group.epk.clone()));
            held.extend(groups.map(|group| (group, batch.attempts, due)));
        }
        held
    }

    /// When something becomes due that is not under way.
    pub fn next_due(&self, rules: &Rules) -> Option<Instant> {
        let has_place = self.under_way() < rules.parallel;
        let due = self.batches.values().filter_map(|batch| match batch.state {
            BatchState::Due(due) if has_place => Some(due),
            BatchState::Exhausted(_, due) => Some(due),
            BatchState::Due(_) | BatchState::UnderWay => None,
        });
        let mut free = self.waiting.iter().filter(|(group, _)| self.is_free(&group.epk, rules));
        let fills = free.next().filter(|_| has_place);
        due.chain(fills.map(|(_, since)| *since + rules.batch.wait)).min()
    }

    /// The next batch to send; it is under way from now on.
    pub fn next(&mut self, rules: &Rules, now: Moment) -> Option<Sending> {
        if self.under_way() >= rules.parallel {
            return None;
        }
        let due = self.batches.iter().filter_map(|(number, batch)| match batch.state {
            BatchState::Due(due) if due <= now.instant => Some((due, *number)),
            _ => None,
        });
        let number = match due.min() {
            Some((_, number)) => number,
            None => self.form(rules, now)?,
        };
        let batch = self.batches.get_mut(&number)?;
        batch.state = BatchState::UnderWay;
        batch.attempts += 1;
        if batch.attempts == 1 {
            batch.tried.0 = now.second;
        }
        batch.tried.1 = now.second;
        let (groups, attempt, delivery) = (batch.groups.clone(), batch.attempts, batch.delivery);
        Some(Sending { batch: number, groups, attempt, delivery })
    }

    /// Groups that have no attempt left, and those that nobody can deliver.
    pub fn exhausted(&mut self, now: Moment) -> Vec<Exhausted> {
        let broken = |(group, _): &(Group, Instant)| group.broken.is_some();
        while let Some(at) = self.waiting.iter().position(broken) {
            let Some((mut group, _)) = self.waiting.remove(at) else { break };
            let failure = group.broken.take().unwrap_or_else(|| DeliveryFailure::told(""));
            let state = BatchState::Exhausted(failure, now.instant);
            self.insert(vec![group], state, now.second);
        }
        let exhausted = self.batches.iter().filter_map(|(number, batch)| match &batch.state {
            BatchState::Exhausted(failure, due) if *due <= now.instant => Some(Exhausted {
                batch: *number,
                groups: batch.groups.clone(),
                attempts: batch.attempts,
                tried: batch.tried,
                failure: failure.clone(),
            }),
            _ => None,
        });
        exhausted.collect()
    }

    /// Tries again later what becomes of an exhausted batch.
    pub fn postpone(&mut self, batch: u64, until: Instant) {
        if let Some(Batch { state: BatchState::Exhausted(_, due), .. }) =
            self.batches.get_mut(&batch)
        {
            *due = until;
        }
    }

    /// A batch is settled: delivered, kept elsewhere or given up. The keys that are done.
    pub fn settle(&mut self, number: u64, now: Moment) -> Vec<EntryKey> {
        let Some(mut batch) = self.batches.remove(&number) else { return Vec::new() };
        let keys = self.release(&batch.groups);
        if let Some(groups) = batch.rest.pop_front() {
            batch.groups = Arc::new(groups);
            batch.attempts = 0;
            batch.delivery = self.number();
            batch.state = BatchState::Due(now.instant);
            self.batches.insert(number, batch);
        }
        keys
    }

    /// Takes up how an attempt ended. The keys that are done; further outcomes show in
    /// [`exhausted`](Self::exhausted) and [`next`](Self::next).
    pub fn finish(
        &mut self,
        number: u64,
        outcome: DeliveryOutcome,
        rules: &Rules,
        now: Moment,
    ) -> Vec<EntryKey> {
        match outcome {
            DeliveryOutcome::Done => self.settle(number, now),
            DeliveryOutcome::Partly(failures, failure) => {
                self.partly(number, &failures, failure, rules, now)
            }
            DeliveryOutcome::Failed(failure, after) => {
                self.fail(number, Failed { failure, after, is_final: false }, rules, now);
                Vec::new()
            }
            DeliveryOutcome::Refused(failure) => {
                let failed = Failed { failure, after: None, is_final: true };
                self.fail(number, failed, rules, now);
                Vec::new()
            }
            DeliveryOutcome::NotTried(_)
            | DeliveryOutcome::Gone(_)
            | DeliveryOutcome::Missing(_) => {
                if let Some(batch) = self.batches.get_mut(&number) {
                    batch.attempts = batch.attempts.saturating_sub(1);
                    batch.state = BatchState::Due(now.instant + rules.retry.delay(1));
                }
                Vec::new()
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn insert(&mut self, groups: Vec<Group>, state: BatchState, second: u64) -> u64 {
        for group in &groups {
            *self.busy.entry(group.epk.clone()).or_default() += 1;
        }
        self.insert_busy(groups, VecDeque::new(), state, second)
    }

    /// A batch of groups that are in a batch already.
    fn insert_busy(
        &mut self,
        groups: Vec<Group>,
        rest: VecDeque<Vec<Group>>,
        state: BatchState,
        second: u64,
    ) -> u64 {
        let (number, delivery) = (self.number(), self.number());
        let (groups, tried) = (Arc::new(groups), (second, second));
        self.batches.insert(number, Batch { groups, rest, attempts: 0, delivery, tried, state });
        number
    }

    /// Groups leave the queue.
    fn release(&mut self, groups: &[Group]) -> Vec<EntryKey> {
        let mut keys = Vec::new();
        for group in groups {
            self.entries = self.entries.saturating_sub(group.entries.len());
            self.bytes = self.bytes.saturating_sub(group.bytes);
            keys.extend(group.entries.iter().map(|entry| entry.key));
            if let Some(count) = self.busy.get_mut(&group.epk) {
                *count -= 1;
                if *count == 0 {
                    self.busy.remove(&group.epk);
                }
            }
        }
        keys
    }

    /// A new batch of what waits, if there is enough of it or it has waited long enough.
    fn form(&mut self, rules: &Rules, now: Moment) -> Option<u64> {
        if rules.ordering == Ordering::Range && !self.batches.is_empty() {
            return None;
        }
        let (mut taken, mut entries, mut bytes) = (Vec::new(), 0, 0);
        let (mut key, mut oldest, mut full) = (None, None, false);
        for (at, (group, since)) in self.waiting.iter().enumerate() {
            let is_free = self.is_free(&group.epk, rules);
            let is_other = rules.one_key && key.as_ref().is_some_and(|key| *key != group.epk);
            if is_other && rules.ordering == Ordering::Range {
                full = true;
                break;
            }
            if !is_free || is_other || group.broken.is_some() {
                continue;
            }
            let more = entries + group.entries.len();
            let is_over =
                more > rules.batch.items_max || bytes + group.bytes > rules.batch.bytes_max;
            if is_over && !taken.is_empty() {
                full = true;
                break;
            }
            (entries, bytes) = (more, bytes + group.bytes);
            key.get_or_insert_with(|| group.epk.clone());
            oldest.get_or_insert(*since);
            taken.push(at);
        }
        full |= entries >= rules.batch.items_max;
        let has_waited = oldest.is_some_and(|since| since + rules.batch.wait <= now.instant);
        if taken.is_empty() || !(full || has_waited) {
            return None;
        }
        let mut groups = Vec::with_capacity(taken.len());
        for at in taken.into_iter().rev() {
            groups.extend(self.waiting.remove(at).map(|(group, _)| group));
        }
        groups.reverse();
        Some(self.insert(groups, BatchState::Due(now.instant), now.second))
    }

    fn partly(
        &mut self,
        number: u64,
        failures: &[(EntryKey, bool)],
        failure: DeliveryFailure,
        rules: &Rules,
        now: Moment,
    ) -> Vec<EntryKey> {
        let Some(batch) = self.batches.get_mut(&number) else { return Vec::new() };
        let mut groups = Vec::clone(&batch.groups);
        let (mut done, mut refused, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for group in &mut groups {
            let (mut again, mut never) = (Vec::new(), Vec::new());
            for entry in take(&mut group.entries) {
                match failures.iter().find(|(key, _)| *key == entry.key) {
                    None => done.push(entry.key),
                    Some((_, true)) => again.push(entry),
                    Some((_, false)) => never.push(entry),
                }
            }
            let part = |entries| Group { entries, ..group.clone() };
            if !again.is_empty() {
                kept.push(part(again));
            }
            if !never.is_empty() {
                refused.push(part(never));
            }
        }
        if done.is_empty() && refused.is_empty() {
            self.fail(number, Failed { failure, after: None, is_final: false }, rules, now);
            return done;
        }
        self.split_off(number, (kept, refused), failure, rules, now);
        self.entries = self.entries.saturating_sub(done.len());
        done
    }

    /// Leaves in a batch what is tried again, and makes one of what is not.
    fn split_off(
        &mut self,
        number: u64,
        (kept, refused): (Vec<Group>, Vec<Group>),
        failure: DeliveryFailure,
        rules: &Rules,
        now: Moment,
    ) {
        let Some(mut batch) = self.batches.remove(&number) else { return };
        for group in kept.iter().chain(&refused) {
            *self.busy.entry(group.epk.clone()).or_default() += 1;
        }
        let before = take(&mut batch.groups);
        for group in before.iter() {
            let still = kept
                .iter()
                .chain(&refused)
                .any(|part| part.lsn == group.lsn && part.epk == group.epk);
            if !still {
                self.bytes = self.bytes.saturating_sub(group.bytes);
            }
            if let Some(count) = self.busy.get_mut(&group.epk) {
                *count -= 1;
                if *count == 0 {
                    self.busy.remove(&group.epk);
                }
            }
        }
        for group in refused {
            let state = BatchState::Exhausted(failure.clone(), now.instant);
            self.insert_busy(vec![group], VecDeque::new(), state, now.second);
        }
        if kept.is_empty() {
            if let Some(next) = batch.rest.pop_front() {
                self.insert_busy(next, batch.rest, BatchState::Due(now.instant), now.second);
            }
            return;
        }
        batch.groups = Arc::new(kept);
        batch.delivery = self.number();
        self.batches.insert(number, batch);
        self.fail(number, Failed { failure, after: None, is_final: false }, rules, now);
    }

    fn fail(&mut self, number: u64, failed: Failed, rules: &Rules, now: Moment) {
        let Some(batch) = self.batches.get_mut(&number) else { return };
        let attempts_max = rules.retry.attempts_max.unwrap_or(u32::MAX);
        let is_enough = failed.is_final || batch.attempts >= HALVED_AFTER.min(attempts_max);
        if batch.groups.len() > 1 && rules.retry.halve && is_enough {
            return self.halve(number, rules, now);
        }
        let first = batch.groups.iter().map(|group| u64::from(group.second)).min();
        let age = now.second.saturating_sub(first.unwrap_or(now.second));
        let is_old = rules.retry.age_max.is_some_and(|most| age > most);
        batch.state = if failed.is_final || batch.attempts >= attempts_max || is_old {
            BatchState::Exhausted(failed.failure, now.instant)
        } else {
            let pause = rules.retry.delay(batch.attempts).mul_f64(now.chance);
            let asked = failed.after.unwrap_or_default().min(rules.retry.delay_max);
            BatchState::Due(now.instant + pause.max(asked))
        };
        if batch.groups.len() == 1 && rules.ordering != Ordering::Range {
            self.let_others_go(number, now);
        }
    }

    /// Cuts a batch in halves, each with a fresh start.
    fn halve(&mut self, number: u64, rules: &Rules, now: Moment) {
        let Some(mut batch) = self.batches.remove(&number) else { return };
        let mut first = Vec::clone(&batch.groups);
        let second = first.split_off(first.len().div_ceil(2));
        let keys: HashSet<&Epk> = first.iter().map(|group| &group.epk).collect();
        let share_a_key = rules.ordering == Ordering::Range
            || second.iter().any(|group| keys.contains(&group.epk));
        let due = || BatchState::Due(now.instant);
        if share_a_key || !batch.rest.is_empty() {
            batch.rest.push_front(second);
        } else {
            self.insert_busy(second, VecDeque::new(), due(), now.second);
        }
        let rest = take(&mut batch.rest);
        let delivery = self.number();
        let (groups, tried) = (Arc::new(first), (now.second, now.second));
        let batch = Batch { groups, rest, attempts: 0, delivery, tried, state: due() };
        self.batches.insert(number, batch);
    }

    /// Takes what is not of a waiting transaction's key out of the line behind it.
    fn let_others_go(&mut self, number: u64, now: Moment) {
        let Some(batch) = self.batches.get_mut(&number) else { return };
        let Some(key) = batch.groups.first().map(|group| group.epk.clone()) else { return };
        let mut others = VecDeque::new();
        for part in take(&mut batch.rest) {
            let (same, other): (Vec<_>, Vec<_>) =
                part.into_iter().partition(|group| group.epk == key);
            batch.rest.extend(Some(same).filter(|part| !part.is_empty()));
            others.extend(Some(other).filter(|part| !part.is_empty()));
        }
        if let Some(first) = others.pop_front() {
            self.insert_busy(first, others, BatchState::Due(now.instant), now.second);
        }
    }
}

struct Failed {
    failure: DeliveryFailure,
    after: Option<Duration>,
    is_final: bool,
}

/// A batch of several transactions is halved after this many attempts.
const HALVED_AFTER: u32 = 2;
