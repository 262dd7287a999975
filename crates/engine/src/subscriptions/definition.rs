//! What a subscription says: its members, their defaults and their bounds.
//!
//! A member that is not known is refused: a typing error in `retry` must not be silent.

use super::members::{Members, number, refuse};
use super::selection::Selection;
use super::target::{Target, Webhook};
use crate::limits::{
    SUBSCRIPTION_AGE_DEFAULT, SUBSCRIPTION_ATTEMPTS_DEFAULT, SUBSCRIPTION_ATTEMPTS_MAX,
    SUBSCRIPTION_BATCH_BYTES_DEFAULT, SUBSCRIPTION_BATCH_BYTES_MAX,
    SUBSCRIPTION_BATCH_ITEMS_DEFAULT, SUBSCRIPTION_BATCH_ITEMS_MAX, SUBSCRIPTION_BATCH_WAIT_MAX,
    SUBSCRIPTION_DELAY_LIMIT, SUBSCRIPTION_DELAY_MAX_DEFAULT, SUBSCRIPTION_DELAY_MIN_DEFAULT,
    SUBSCRIPTION_PARALLEL_DEFAULT, SUBSCRIPTION_PARALLEL_MAX,
};
use armilla_model::error::{Error, Result};
use armilla_model::value::{Object, Value};
use armilla_sql::reference::{Options, run};
use armilla_sql::{Schema, parse};
use std::sync::Arc;
use std::time::Duration;

/// A definition that was accepted.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Off keeps the position and delivers nothing.
    pub enabled: bool,
    /// Which feed is read.
    pub mode: FeedMode,
    /// Where it begins.
    pub start: StartAt,
    /// What is delivered of the feed, and as what.
    pub selection: Selection,
    /// To whom.
    pub target: Target,
    /// How much at once.
    pub batch: BatchRules,
    /// What is kept in order.
    pub ordering: Ordering,
    /// Batches under way at a time, per range.
    pub parallel: usize,
    /// What happens after a failure.
    pub retry: Retry,
    /// What happens when that was in vain.
    pub on_exhausted: OnExhausted,
    /// Name of the container that takes dead letters.
    pub dead_letter: Option<Arc<str>>,
    /// Entries that the subscription itself has caused are left out.
    pub skip_own_writes: bool,
}

/// Which feed is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedMode {
    /// The newest version of each item.
    Latest,
    /// Every version, and removals.
    AllVersions,
}

/// Where a subscription begins.
#[derive(Clone, Debug, PartialEq)]
pub enum StartAt {
    /// With the oldest change.
    Beginning,
    /// With what is written from now on.
    Now,
    /// With the first change at or behind a time: the text, and its second.
    Time(Value, u64),
}

/// How much is delivered at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchRules {
    /// Entries at most; a transaction is never cut.
    pub items_max: usize,
    /// Bytes of items at most; a transaction is never cut.
    pub bytes_max: usize,
    /// How long a batch that is not full waits for more.
    pub wait: Duration,
}

/// What is kept in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// The entries of each logical partition.
    PartitionKey,
    /// The entries of each physical range.
    Range,
    /// Nothing.
    None,
}

/// What happens after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts at a single transaction; nothing means without end.
    pub attempts_max: Option<u32>,
    /// The first pause.
    pub delay_min: Duration,
    /// No pause is longer.
    pub delay_max: Duration,
    /// Seconds since the commit after which no attempt is made; nothing means without end.
    pub age_max: Option<u64>,
    /// Batches that fail are cut in halves.
    pub halve: bool,
}

/// What becomes of an entry that cannot be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExhausted {
    /// It is kept in a container.
    DeadLetter,
    /// It is counted and forgotten.
    Skip,
    /// The subscription stops before it.
    Stop,
}

const MEMBERS: [&str; 15] = [
    "id",
    "enabled",
    "feed",
    "filter",
    "project",
    "target",
    "batch",
    "ordering",
    "parallel",
    "retry",
    "onExhausted",
    "deadLetter",
    "skipOwnWrites",
    "_rid",
    "_self",
];
const SYSTEM: [&str; 2] = ["_etag", "_ts"];

impl Definition {
    /// Reads a definition. A secret that is left out is the one of before.
    ///
    /// # Errors
    ///
    /// Which member is wrong, and what it takes.
    pub fn parse(body: &Value, before: Option<&Self>) -> Result<Self> {
        let all = Members::new(body, "a subscription")?;
        all.only(MEMBERS.iter().chain(&SYSTEM))?;
        let (mode, start) = feed(&all)?;
        let selection = Selection::parse(&all, mode)?;
        let target = Target::parse(&all, before.map(|before| &before.target))?;
        let (ordering, parallel) = ordering(&all)?;
        let (on_exhausted, dead_letter) = exhausted(&all)?;
        Ok(Self {
            enabled: all.switch("enabled", true)?,
            mode,
            start,
            selection,
            target,
            batch: batch(&all)?,
            ordering,
            parallel,
            retry: retry(&all)?,
            on_exhausted,
            dead_letter,
            skip_own_writes: all.switch("skipOwnWrites", true)?,
        })
    }

    /// The members as they are stored and answered, every default spelled out. Clients are not told the secret.
    pub fn members(&self, secret: Secret) -> Object {
        let mut members = Object::of([
            ("enabled", self.enabled.into()),
            ("feed", Value::object(self.feed_members())),
        ]);
        self.selection.show(&mut members);
        let webhook_secret = secret == Secret::Shown;
        members.insert("target", Value::object(self.target.members(webhook_secret)));
        let millis = |time: Duration| number(time.as_millis());
        let batch = Object::of([
            ("maxItems", number(self.batch.items_max)),
            ("maxBytes", number(self.batch.bytes_max)),
            ("maxWaitMs", millis(self.batch.wait)),
        ]);
        members.insert("batch", Value::object(batch));
        members.insert("ordering", self.ordering.word().into());
        members.insert("parallel", number(self.parallel));
        let retry = Object::of([
            ("maxAttempts", self.retry.attempts_max.map_or_else(|| (-1).into(), number)),
            ("minDelayMs", millis(self.retry.delay_min)),
            ("maxDelayMs", millis(self.retry.delay_max)),
            ("maxAgeSeconds", self.retry.age_max.map_or_else(|| (-1).into(), number)),
            ("halve", self.retry.halve.into()),
        ]);
        members.insert("retry", Value::object(retry));
        members.insert("onExhausted", self.on_exhausted.word().into());
        if let Some(container) = &self.dead_letter {
            let place = Object::of([("container", Value::String(container.clone()))]);
            members.insert("deadLetter", Value::object(place));
        }
        members.insert("skipOwnWrites", self.skip_own_writes.into());
        members
    }

    fn feed_members(&self) -> Object {
        let mode = match self.mode {
            FeedMode::Latest => "latest",
            FeedMode::AllVersions => "allVersionsAndDeletes",
        };
        let start = match &self.start {
            StartAt::Beginning => "beginning".into(),
            StartAt::Now => "now".into(),
            StartAt::Time(text, _) => Value::object(Object::of([("time", text.clone())])),
        };
        Object::of([("mode", mode.into()), ("start", start)])
    }

    /// The webhook, where that is the target.
    pub fn webhook(&self) -> Option<&Webhook> {
        match &self.target {
            Target::Webhook(webhook) => Some(webhook),
            Target::Procedure(_) => None,
        }
    }
}

/// Whether a secret is part of what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    /// For the store.
    Shown,
    /// For clients.
    Hidden,
}

impl StartAt {
    /// Reads `"beginning"`, `"now"` or `{"time": …}`.
    pub fn parse(value: &Value) -> Result<Self> {
        let wrong = || {
            Error::bad_request(
                "A start is \"beginning\", \"now\" or {\"time\":\"2026-01-01T00:00:00Z\"}.",
            )
        };
        match value {
            Value::String(word) if &**word == "beginning" => Ok(Self::Beginning),
            Value::String(word) if &**word == "now" => Ok(Self::Now),
            Value::Object(_) => {
                Members::new(value, "a start")?.only(["time"].iter())?;
                let time = value.get("time").ok_or_else(wrong)?;
                Ok(Self::Time(time.clone(), second_of(time).ok_or_else(wrong)?))
            }
            _ => Err(wrong()),
        }
    }
}

/// The second of a time in the form that queries read.
fn second_of(time: &Value) -> Option<u64> {
    let query = parse("SELECT VALUE DateTimeToTimestamp(@time)").ok()?;
    let (schema, parameters) = (Schema::none(), [("@time".into(), time.clone())]);
    let rows = run(&query, &parameters, [Value::Undefined].into_iter(), Options::bounded(&schema));
    let millis = rows.ok()?.first()?.as_f64()?;
    (millis >= 0.0).then_some((millis / 1000.0) as u64)
}

fn feed(all: &Members<'_>) -> Result<(FeedMode, StartAt)> {
    let feed = all.inner("feed")?;
    feed.only(["mode", "start"].iter())?;
    let mode = match feed.word("mode")? {
        None | Some("latest") => FeedMode::Latest,
        Some("allVersionsAndDeletes") => FeedMode::AllVersions,
        Some(other) => {
            return refuse(format!(
                "'feed.mode' is '{other}'; it is latest or allVersionsAndDeletes."
            ));
        }
    };
    let start = feed.get("start").map_or(Ok(StartAt::Now), StartAt::parse)?;
    Ok((mode, start))
}

fn batch(all: &Members<'_>) -> Result<BatchRules> {
    let batch = all.inner("batch")?;
    batch.only(["maxItems", "maxBytes", "maxWaitMs"].iter())?;
    let (items, bytes) = (SUBSCRIPTION_BATCH_ITEMS_MAX, SUBSCRIPTION_BATCH_BYTES_MAX);
    let wait = batch.whole("maxWaitMs", (0, SUBSCRIPTION_BATCH_WAIT_MAX), 0)?;
    Ok(BatchRules {
        items_max: batch.whole("maxItems", (1, items), SUBSCRIPTION_BATCH_ITEMS_DEFAULT)? as usize,
        bytes_max: batch.whole("maxBytes", (1, bytes), SUBSCRIPTION_BATCH_BYTES_DEFAULT)? as usize,
        wait: Duration::from_millis(wait),
    })
}

fn ordering(all: &Members<'_>) -> Result<(Ordering, usize)> {
    let ordering = match all.word("ordering")? {
        None | Some("partitionKey") => Ordering::PartitionKey,
        Some("range") => Ordering::Range,
        Some("none") => Ordering::None,
        Some(other) => {
            return refuse(format!("'ordering' is '{other}'; it is partitionKey, range or none."));
        }
    };
    let most = if ordering == Ordering::Range { 1 } else { SUBSCRIPTION_PARALLEL_MAX };
    let default = SUBSCRIPTION_PARALLEL_DEFAULT.min(most);
    Ok((ordering, all.whole("parallel", (1, most), default)? as usize))
}

fn retry(all: &Members<'_>) -> Result<Retry> {
    let retry = all.inner("retry")?;
    retry.only(["maxAttempts", "minDelayMs", "maxDelayMs", "maxAgeSeconds", "halve"].iter())?;
    let endless = |name: &str| retry.get(name).and_then(Value::as_i64) == Some(-1);
    let attempts_max = match endless("maxAttempts") {
        true => None,
        false => {
            let bounds = (1, SUBSCRIPTION_ATTEMPTS_MAX);
            let attempts = retry.whole("maxAttempts", bounds, SUBSCRIPTION_ATTEMPTS_DEFAULT)?;
            Some(u32::try_from(attempts).unwrap_or(u32::MAX))
        }
    };
    let age_max = match endless("maxAgeSeconds") {
        true => None,
        false => {
            let bounds = (1, i64::MAX as u64);
            Some(retry.whole("maxAgeSeconds", bounds, SUBSCRIPTION_AGE_DEFAULT)?)
        }
    };
    let bounds = (0, SUBSCRIPTION_DELAY_LIMIT);
    let delay_min = retry.whole("minDelayMs", bounds, SUBSCRIPTION_DELAY_MIN_DEFAULT)?;
    let delay_max =
        retry.whole("maxDelayMs", bounds, SUBSCRIPTION_DELAY_MAX_DEFAULT.max(delay_min))?;
    if delay_max < delay_min {
        return refuse("'retry.maxDelayMs' is less than 'retry.minDelayMs'.");
    }
    Ok(Retry {
        attempts_max,
        delay_min: Duration::from_millis(delay_min),
        delay_max: Duration::from_millis(delay_max),
        age_max,
        halve: retry.switch("halve", true)?,
    })
}

fn exhausted(all: &Members<'_>) -> Result<(OnExhausted, Option<Arc<str>>)> {
    let place = match all.get("deadLetter") {
        None => None,
        Some(_) => {
            let place = all.inner("deadLetter")?;
            place.only(["container"].iter())?;
            let Some(container) = place.word("container")? else {
                return refuse("'deadLetter.container' is missing.");
            };
            Some(Arc::from(container))
        }
    };
    let on_exhausted = match (all.word("onExhausted")?, &place) {
        (Some("deadLetter") | None, Some(_)) => OnExhausted::DeadLetter,
        (Some("deadLetter"), None) => {
            return refuse("'onExhausted' is deadLetter; 'deadLetter.container' must say where.");
        }
        (Some("skip"), _) => OnExhausted::Skip,
        (Some("stop"), _) | (None, None) => OnExhausted::Stop,
        (Some(other), _) => {
            return refuse(format!("'onExhausted' is '{other}'; it is deadLetter, skip or stop."));
        }
    };
    Ok((on_exhausted, place))
}

impl Ordering {
    fn word(self) -> &'static str {
        match self {
            Self::PartitionKey => "partitionKey",
            Self::Range => "range",
            Self::None => "none",
        }
    }
}

impl OnExhausted {
    fn word(self) -> &'static str {
        match self {
            Self::DeadLetter => "deadLetter",
            Self::Skip => "skip",
            Self::Stop => "stop",
        }
    }
}

impl Retry {
    /// The pause behind attempt `attempts`, the first of which is 1, before chance is added.
    pub fn delay(&self, attempts: u32) -> Duration {
        let doubled = 1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
        self.delay_min.saturating_mul(doubled.max(1)).min(self.delay_max)
    }
}
