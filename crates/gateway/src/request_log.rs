//! The last requests, one by one, for whoever wants to know what an application really asks.
//!
//! A ring in memory: each request takes the next number and the slot of that number, with a lock of its own that is
//! as good as never contended. A slot keeps the room of its texts, so noting a request allocates nothing once the query texts
//! have found room. Bodies of writes are there for the observer alone, until it has looked at them; account keys, tokens and signatures never enter it.

use crate::Call;
use crate::limits::{
    LOGGED_QUERY_MAX, LOGGED_TEXT_MAX, OBSERVED_BODY_MAX, REQUEST_LOG_ENTRIES_MAX,
};
use crate::metrics::Served;
use crate::routes::Operation;
use armilla_engine::ContainerSettings;
use armilla_model::charge::RequestCharge;
use armilla_model::value::{Object, Value};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Requests that may be noted in the same moment: as many as there are threads, and more.
const NOTED_AT_ONCE_MAX: u64 = 256;
/// Of so many requests that are noted one also leaves the version that it replaced.
const REPLACED_EVERY: u64 = 4;
/// Bytes that a slot has ready for its texts.
const LOGGED_TEXT_ROOM: usize = 160;
/// Bytes that a slot keeps ready for bodies.
const LOGGED_BODY_ROOM: usize = 2 * 1024;

/// The ring of requests.
pub(crate) struct RequestLog {
    slots: Box<[Mutex<Entry>]>,
    next: AtomicU64,
    /// Entries below this number were cleared away.
    cleared: AtomicU64,
    /// Somebody takes up what was noted; see [`observed`](crate::observed).
    is_observed: AtomicBool,
    hasher: RandomState,
}

/// What is known of a request before it is answered.
pub(crate) struct LoggedCall<'a> {
    agent: Option<&'a [u8]>,
    key: Option<&'a str>,
    item: Option<&'a str>,
    query: Option<Bytes>,
    /// What a write brought, while somebody observes.
    written: Option<Bytes>,
    activity: u64,
    continues: bool,
}

/// A part of the log.
pub(crate) struct LogPage<T = Entry> {
    /// The number of the newest entry of all.
    pub(crate) newest: u64,
    /// Entries that were asked for and are not here: others took their places.
    pub(crate) dropped: u64,
    /// Oldest first.
    pub(crate) entries: Vec<T>,
}

/// One request; its number is 0 while there is none.
#[derive(Clone, Default)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) at_millis: u64,
    pub(crate) texts: LoggedTexts,
    /// The client's activity, hashed; 0 when it named none.
    pub(crate) activity: u64,
    pub(crate) operation: &'static str,
    /// The container's number; its names are looked up when somebody reads.
    pub(crate) container: Option<u32>,
    /// For the observer; never shown.
    pub(crate) bodies: LoggedBodies,
    pub(crate) continues: bool,
    pub(crate) status: u16,
    pub(crate) charge: RequestCharge,
    pub(crate) micros: u64,
    pub(crate) range: Option<u32>,
    pub(crate) partitions: usize,
    pub(crate) rows: Option<usize>,
}

/// The texts of a request, one behind the other in room that is used again: a slot was last touched thousands of requests
/// ago, so each piece of memory that it has is one to wait for.
#[derive(Clone, Default)]
pub(crate) struct LoggedTexts {
    text: String,
    /// Where each ends, if it is there.
    ends: [Option<u32>; 4],
}

/// The body of a small write and, of one write in [`REPLACED_EVERY`], the version before it, until the observer has looked at them. They are copied into
/// room of the slot that is used again: memory of a request that another thread gives back long after is memory that is far
/// from the processor when the next request gets it.
#[derive(Clone, Default)]
pub(crate) struct LoggedBodies {
    bytes: Vec<u8>,
    /// Where the written body ends, if there is one; the replaced version lies behind it.
    written: Option<u32>,
    has_replaced: bool,
}

impl LoggedBodies {
    fn set(&mut self, written: Option<&[u8]>, replaced: Option<&[u8]>) {
        self.clear();
        let Some(written) = written else { return };
        self.bytes.extend_from_slice(written);
        self.written = Some(written.len() as u32);
        self.has_replaced = replaced.is_some();
        self.bytes.extend_from_slice(replaced.unwrap_or_default());
    }

    /// Forgets what is there; little room stays.
    fn clear(&mut self) {
        (self.written, self.has_replaced) = (None, false);
        self.bytes.clear();
        self.bytes.shrink_to(LOGGED_BODY_ROOM);
    }

    /// The written body and the version before it; they are not there a second time.
    pub(crate) fn take(&mut self) -> (Option<Bytes>, Option<Bytes>) {
        let Some(end) = self.written.take() else { return (None, None) };
        let (bytes, end) = (Bytes::copy_from_slice(&self.bytes), end as usize);
        self.bytes.clear();
        (Some(bytes.slice(..end)), self.has_replaced.then(|| bytes.slice(end..)))
    }
}

/// The texts of a request in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LoggedText {
    Agent,
    Key,
    Item,
    Query,
}

impl LoggedTexts {
    fn set(&mut self, given: [Option<&str>; 4]) {
        self.text.clear();
        for (end, text) in self.ends.iter_mut().zip(given) {
            *end = text.map(|text| {
                self.text.push_str(text);
                self.text.len() as u32
            });
        }
    }

    pub(crate) fn get(&self, which: LoggedText) -> Option<&str> {
        let (before, from) = self.ends.split_at(which as usize);
        let end = from.first().copied().flatten()?;
        let start = before.iter().rev().find_map(|end| *end).unwrap_or(0);
        self.text.get(start as usize..end as usize)
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    fn value(&self, which: LoggedText) -> Value {
        self.get(which).map_or(Value::Null, Value::from)
    }
}

/// The beginning of a text, whole letters only.
fn cut(bytes: &[u8], length_max: usize) -> &str {
    let short = bytes.get(..length_max).unwrap_or(bytes);
    match std::str::from_utf8(short) {
        Ok(text) => text,
        Err(error) => {
            let whole = short.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(whole).unwrap_or_default()
        }
    }
}

/// The same of what is text already.
fn cut_text(text: &str, length_max: usize) -> &str {
    if text.len() <= length_max { text } else { cut(text.as_bytes(), length_max) }
}

impl<'a> LoggedCall<'a> {
    /// The partition key of the header, as JSON.
    pub(crate) fn key(&self) -> Option<&'a str> {
        self.key
    }
}

impl RequestLog {
    /// A log of so many requests; none are kept when there are 0.
    pub(crate) fn new(entries: usize) -> Self {
        let empty = |_| {
            let text = String::with_capacity(LOGGED_TEXT_ROOM);
            let texts = LoggedTexts { text, ends: [None; 4] };
            Mutex::new(Entry { texts, ..Entry::default() })
        };
        let slots = (0..entries.min(REQUEST_LOG_ENTRIES_MAX)).map(empty).collect();
        Self {
            slots,
            next: AtomicU64::new(1),
            cleared: AtomicU64::new(0),
            is_observed: AtomicBool::new(false),
            hasher: RandomState::new(),
        }
    }

    /// What to keep of a call that is about to be answered; nothing when it is not to be told of.
    pub(crate) fn begin<'a>(&self, call: &Call<'a>) -> Option<LoggedCall<'a>> {
        if self.slots.is_empty() || call.operation.is_about_server() {
            return None;
        }
        let item = match call.operation {
            Operation::ReadItem(path)
            | Operation::ReplaceItem(path)
            | Operation::PatchItem(path)
            | Operation::DeleteItem(path) => Some(path.item),
            Operation::ExecuteProcedure(path) => Some(path.script),
            _ => None,
        };
        let is_query = matches!(call.operation, Operation::QueryItems(_) | Operation::PlanQuery(_));
        let is_observed = self.is_observed.load(Ordering::Relaxed);
        let activity = call.context.activity.filter(|_| is_observed);
        Some(LoggedCall {
            agent: call.context.agent,
            key: call.context.partition_key.as_ref().map(|key| key.raw),
            item,
            query: is_query.then(|| call.body.clone()),
            written: (is_observed && is_small_write(call)).then(|| call.body.clone()),
            activity: activity.map_or(0, |activity| self.hasher.hash_one(activity)),
            continues: call.context.continuation.is_some(),
        })
    }

    /// Keeps a request that was answered.
    pub(crate) fn note(
        &self,
        asked: LoggedCall<'_>,
        served: &Served<'_>,
        rows: Option<usize>,
        replaced: Option<&[u8]>,
        at_millis: u64,
    ) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(slot) = self.slots.get(number as usize % self.slots.len().max(1)) else { return };
        let mut entry = slot.lock();
        entry.texts.set([
            asked.agent.map(|agent| cut(agent, LOGGED_TEXT_MAX)),
            asked.key.map(|key| cut_text(key, LOGGED_TEXT_MAX)),
            asked.item.map(|item| cut_text(item, LOGGED_TEXT_MAX)),
            asked.query.as_deref().map(|query| cut(query, LOGGED_QUERY_MAX)),
        ]);
        entry.number = number;
        entry.at_millis = at_millis;
        entry.operation = served.operation;
        entry.container = served.container.map(|container| container.number);
        entry.continues = asked.continues;
        entry.activity = asked.activity;
        let is_looked_at = is_one_in(number, REPLACED_EVERY);
        let replaced = replaced.filter(|text| is_looked_at && text.len() <= OBSERVED_BODY_MAX);
        entry.bodies.set(asked.written.as_deref(), replaced);
        entry.range = served.range;
        entry.status = served.status;
        entry.charge = served.charge;
        entry.micros = u64::try_from(served.took.as_micros()).unwrap_or(u64::MAX);
        entry.partitions = match served.shares.len() {
            0 => usize::from(served.range.is_some()),
            count => count,
        };
        entry.rows = rows;
    }

    /// The entries behind a number; of too many the newest.
    pub(crate) fn after(&self, number: u64, count_max: usize) -> LogPage {
        let newest = self.newest();
        let floor = number.max(self.cleared.load(Ordering::Relaxed));
        let wanted = |slot: &Mutex<Entry>| {
            let entry = slot.lock();
            (entry.number > floor).then(|| entry.clone())
        };
        let mut found: Vec<Entry> = self.slots.iter().filter_map(wanted).collect();
        found.sort_unstable_by_key(|entry| entry.number);
        found.drain(..found.len().saturating_sub(count_max));
        let dropped = newest.saturating_sub(floor).saturating_sub(found.len() as u64);
        LogPage { newest, dropped, entries: found }
    }

    /// Says whether somebody takes up what is noted from now on: activities and bodies are noted only then.
    pub(crate) fn observe(&self, is_observed: bool) {
        self.is_observed.store(is_observed, Ordering::Relaxed);
    }

    /// What the observer takes of the entries behind a number. Only the slots of these are touched.
    pub(crate) fn take_after<T>(
        &self,
        number: u64,
        mut take: impl FnMut(&mut Entry) -> T,
    ) -> LogPage<T> {
        let newest = self.newest_noted(number);
        let held = self.slots.len() as u64;
        let first = number.max(newest.saturating_sub(held)) + 1;
        let mut found = Vec::with_capacity((newest + 1).saturating_sub(first) as usize);
        for wanted in first..=newest {
            let slot = self.slots.get(wanted as usize % self.slots.len().max(1));
            let Some(mut entry) = slot.map(Mutex::lock) else { break };
            if entry.number == wanted {
                found.push(take(&mut entry));
            }
        }
        let dropped = newest.saturating_sub(number).saturating_sub(found.len() as u64);
        LogPage { newest, dropped, entries: found }
    }

    /// The newest entry below which every recent one is written: requests that are being noted this moment come next time.
    fn newest_noted(&self, number: u64) -> u64 {
        let newest = self.newest();
        let floor = number.max(self.cleared.load(Ordering::Relaxed));
        let first = floor.max(newest.saturating_sub(NOTED_AT_ONCE_MAX)) + 1;
        let is_noted = |number: &u64| {
            let slot = self.slots.get(*number as usize % self.slots.len().max(1));
            slot.is_some_and(|slot| slot.lock().number >= *number)
        };
        let missing = (first..=newest).find(|number| !is_noted(number));
        missing.map_or(newest, |missing| missing - 1)
    }

    /// The number of the newest entry; 0 when there never was one.
    pub(crate) fn newest(&self) -> u64 {
        self.next.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// Entries that are kept at most.
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Forgets everything so far.
    pub(crate) fn clear(&self) {
        self.cleared.store(self.newest(), Ordering::Relaxed);
        // The texts go too, not only the numbers.
        for slot in &self.slots {
            let mut entry = slot.lock();
            entry.bodies.clear();
            entry.texts.set([None; 4]);
            entry.number = 0;
        }
    }
}

/// One number of so many, without a rhythm that requests might have too.
fn is_one_in(number: u64, many: u64) -> bool {
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32).is_multiple_of(many)
}

/// Whether a call writes one item that is small enough to be looked at.
fn is_small_write(call: &Call<'_>) -> bool {
    let writes = matches!(
        call.operation,
        Operation::CreateItem(_)
            | Operation::UpsertItem(_)
            | Operation::ReplaceItem(_)
            | Operation::PatchItem(_)
    );
    writes && call.body.len() <= OBSERVED_BODY_MAX
}

impl Entry {
    /// As the explorer reads it.
    pub(crate) fn members(&self, names: &HashMap<u32, Arc<ContainerSettings>>) -> Object {
        let number = |number: u64| Value::from(i64::try_from(number).unwrap_or(i64::MAX));
        let settings = self.container.and_then(|number| names.get(&number));
        let name = |name: Option<&str>| name.map_or(Value::Null, Value::from);
        Object::of([
            ("number", number(self.number)),
            ("at", number(self.at_millis)),
            ("client", self.texts.value(LoggedText::Agent)),
            ("operation", self.operation.into()),
            ("database", name(settings.map(|settings| &*settings.database))),
            ("container", name(settings.map(|settings| &*settings.name))),
            ("key", self.texts.value(LoggedText::Key)),
            ("item", self.texts.value(LoggedText::Item)),
            ("query", self.texts.value(LoggedText::Query)),
            ("continues", self.continues.into()),
            ("status", i64::from(self.status).into()),
            ("charge", self.charge.units().into()),
            ("milliseconds", (self.micros as f64 / 1000.0).into()),
            ("partitions", number(self.partitions as u64)),
            ("rows", self.rows.map_or(Value::Null, |rows| number(rows as u64))),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn served(status: u16) -> Served<'static> {
        Served {
            operation: "read",
            container: None,
            range: None,
            shares: &[],
            status,
            throttled: 0,
            charge: RequestCharge::ONE,
            took: Duration::from_micros(1500),
        }
    }

    fn asked() -> LoggedCall<'static> {
        LoggedCall {
            agent: Some(b"test"),
            key: Some("[1]"),
            item: None,
            query: None,
            written: None,
            activity: 0,
            continues: false,
        }
    }

    #[test]
    fn the_newest_are_kept_and_told_of_in_order() {
        let log = RequestLog::new(4);
        for status in 200..210 {
            log.note(asked(), &served(status), None, None, 7);
        }
        let statuses = |after| {
            log.after(after, 100).entries.iter().map(|entry| entry.status).collect::<Vec<_>>()
        };
        assert_eq!(statuses(0), [206, 207, 208, 209]);
        assert_eq!(statuses(9), [209]);
        assert_eq!(log.newest(), 10);
        let page = log.after(0, 2);
        assert_eq!(page.entries.first().map(|entry| entry.number), Some(9));
        assert_eq!((page.newest, page.dropped), (10, 8));
        log.clear();
        assert!(statuses(0).is_empty());
        log.note(asked(), &served(404), Some(3), None, 7);
        assert_eq!(statuses(0), [404]);
    }

    /// A request that has its number but not yet its slot is not missed, and neither are those behind it.
    #[test]
    fn what_is_being_noted_is_taken_next_time() {
        let log = RequestLog::new(8);
        log.note(asked(), &served(200), None, None, 7);
        let late = log.next.fetch_add(1, Ordering::Relaxed);
        log.note(asked(), &served(201), None, None, 7);
        let page = log.take_after(0, |_| ());
        assert_eq!((page.newest, page.dropped, page.entries.len()), (1, 0, 1));
        log.slots[late as usize % 8].lock().number = late;
        let page = log.take_after(page.newest, |_| ());
        assert_eq!((page.newest, page.dropped, page.entries.len()), (3, 0, 2));
    }

    /// One replace in four leaves the version before it, also where every second request is one, and only until it was looked at.
    #[test]
    fn some_replaced_versions_are_left_for_the_observer() {
        let log = RequestLog::new(2_000);
        let replaces = || LoggedCall { written: Some(Bytes::from_static(b"{}")), ..asked() };
        let large = vec![b' '; OBSERVED_BODY_MAX + 1];
        for _ in 0..800 {
            log.note(asked(), &served(200), None, Some(b"{}"), 7);
            log.note(replaces(), &served(200), None, Some(b"{\"a\":1}"), 7);
        }
        (0..100).for_each(|_| log.note(replaces(), &served(200), None, Some(&large), 7));
        let left = || {
            let page = log.take_after(0, |entry| entry.bodies.take().1);
            page.entries.into_iter().flatten().collect::<Vec<_>>()
        };
        let texts = left();
        assert!((150..=250).contains(&texts.len()), "{} of 800", texts.len());
        assert!(texts.iter().all(|text| text.as_ref() == b"{\"a\":1}"));
        assert!(left().is_empty());
    }

    #[test]
    fn texts_lie_behind_each_other_and_are_told_apart() {
        let mut texts = LoggedTexts::default();
        let all = [LoggedText::Agent, LoggedText::Key, LoggedText::Item, LoggedText::Query];
        for given in [
            [Some("a"), Some("[1]"), Some(""), Some("q")],
            [None, Some("[1]"), None, None],
            [Some("a"), None, None, Some("q")],
            [None; 4],
        ] {
            texts.set(given);
            assert_eq!(all.map(|which| texts.get(which)), given);
        }
    }

    #[test]
    fn texts_are_cut_between_letters() {
        assert_eq!(cut("aüx".as_bytes(), 2), "a");
        assert_eq!(cut_text("aüx", 3), "aü");
        assert_eq!(cut(b"\xff", 9), "");
        assert_eq!(RequestLog::new(usize::MAX).capacity(), REQUEST_LOG_ENTRIES_MAX);
        RequestLog::new(0).note(asked(), &served(200), None, None, 0);
    }
}
