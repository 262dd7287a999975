//! The last minutes, second by second: what the counters gained between two looks at them.
//!
//! Requests pay nothing for this: a thread looks at the counters once a second. It ends with the metrics.

use super::kinds::CountedFor;
use super::{Metrics, durations};
use crate::limits::{ACTIVITY_SECONDS, ACTIVITY_SERIES_MAX};
use armilla_engine::Account;
use armilla_model::clock::monotonic;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Looks at the units of ranges that are kept: a minute's worth.
const RANGE_LOOKS: usize = 61;

/// What counters said at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) units: f64,
    pub(crate) throttled: u64,
    pub(crate) durations: durations::Snapshot,
}

/// Everything that was counted, at one moment.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) kinds: HashMap<(&'static str, CountedFor), Totals>,
    pub(super) ranges: HashMap<(u32, u32), f64>,
    /// Refusals with 429, by container and range.
    pub(super) refusals: HashMap<(u32, u32), u64>,
    pub(super) commits: u64,
    pub(super) compactions: u64,
}

/// What one kind of request did in one second.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) operation: &'static str,
    /// The container's number; nothing for those of no container, or of one among many.
    pub(crate) container: Option<u32>,
    pub(crate) requests: u64,
    pub(crate) units: f64,
    pub(crate) throttled: u64,
    /// Milliseconds, as near as the buckets of the histogram are.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// What a range did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RangeRates {
    /// In the last second.
    pub(crate) units_per_second: f64,
    /// On average in the last minute.
    pub(crate) units_per_second_of_minute: f64,
    /// Requests for this range alone that were refused with 429.
    pub(crate) throttled_in_minute: u64,
}

/// One second.
#[derive(Clone, Debug)]
pub(crate) struct Second {
    pub(crate) at: u64,
    pub(crate) series: Vec<Series>,
    pub(crate) commits: u64,
    pub(crate) compactions: u64,
}

/// The seconds that are kept.
#[derive(Default)]
pub(crate) struct Seconds(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    last: Look,
    seconds: VecDeque<Second>,
    ranges: VecDeque<HashMap<(u32, u32), f64>>,
    refusals: VecDeque<HashMap<(u32, u32), u64>>,
}

impl Seconds {
    /// Looks once a second until nobody holds the metrics or the account any more.
    pub(crate) fn start(self: &Arc<Self>, metrics: &Arc<Metrics>, account: &Arc<Account>) {
        let (seconds, metrics) = (Arc::downgrade(self), Arc::downgrade(metrics));
        let account = Arc::downgrade(account);
        let looking = std::thread::Builder::new().name("activity".to_owned());
        let started = looking.spawn(move || look_on(&seconds, &metrics, &account));
        if let Err(error) = started {
            tracing::warn!(%error, "no thread for the history of activity: it stays empty");
        }
    }

    /// Takes up what the counters gained since the last look.
    pub(crate) fn tick(&self, metrics: &Metrics, at: u64) {
        let look = metrics.look();
        let mut state = self.0.lock();
        let mut series: Vec<Series> = Vec::new();
        for ((operation, owner), now) in &look.kinds {
            let before = state.last.kinds.get(&(*operation, *owner));
            series.extend(gained(operation, *owner, now, before));
        }
        series.sort_by(|one, other| other.units.total_cmp(&one.units));
        if series.len() > ACTIVITY_SERIES_MAX {
            let rest = series.split_off(ACTIVITY_SERIES_MAX);
            series.push(together(&rest));
        }
        let commits = look.commits.saturating_sub(state.last.commits);
        let compactions = look.compactions.saturating_sub(state.last.compactions);
        if state.seconds.len() >= ACTIVITY_SECONDS {
            state.seconds.pop_front();
        }
        state.seconds.push_back(Second { at, series, commits, compactions });
        if state.ranges.len() >= RANGE_LOOKS {
            state.ranges.pop_front();
            state.refusals.pop_front();
        }
        state.ranges.push_back(look.ranges.clone());
        state.refusals.push_back(look.refusals.clone());
        state.last = look;
    }

    /// The seconds behind one, oldest first.
    pub(crate) fn since(&self, second: u64) -> Vec<Second> {
        self.0.lock().seconds.iter().filter(|one| one.at > second).cloned().collect()
    }

    /// What a range did in the last second and minute.
    pub(crate) fn range_rates(&self, container: u32, range: u32) -> RangeRates {
        let state = self.0.lock();
        let at = |look: Option<&HashMap<(u32, u32), f64>>| {
            look.and_then(|look| look.get(&(container, range))).copied().unwrap_or(0.0)
        };
        let looks = state.ranges.len();
        let now = at(state.ranges.back());
        let second = looks.checked_sub(2).map_or(0.0, |before| now - at(state.ranges.get(before)));
        let spans = looks.saturating_sub(1).max(1) as f64;
        let refused = |look: Option<&HashMap<(u32, u32), u64>>| {
            look.and_then(|look| look.get(&(container, range))).copied().unwrap_or(0)
        };
        let refused_now = refused(state.refusals.back());
        // Before the first minute is over, everything so far was refused in it.
        let minute_ago = (looks >= RANGE_LOOKS).then(|| state.refusals.front()).flatten();
        RangeRates {
            units_per_second: second,
            units_per_second_of_minute: (now - at(state.ranges.front())) / spans,
            throttled_in_minute: refused_now.saturating_sub(refused(minute_ago)),
        }
    }

    /// Units in the last second, refusals in the last minute, of a container.
    pub(crate) fn container_rates(&self, container: u32) -> (f64, u64) {
        let state = self.0.lock();
        let of = |second: &Second| -> Vec<(f64, u64)> {
            let own = second.series.iter().filter(|one| one.container == Some(container));
            own.map(|one| (one.units, one.throttled)).collect()
        };
        let last = state.seconds.back().map(of).unwrap_or_default();
        let minute = state.seconds.iter().rev().take(RANGE_LOOKS - 1).flat_map(of);
        let units = last.iter().map(|(units, _)| units).sum();
        (units, minute.map(|(_, throttled)| throttled).sum())
    }
}

fn gained(
    operation: &'static str,
    owner: CountedFor,
    now: &Totals,
    before: Option<&Totals>,
) -> Option<Series> {
    let durations = now.durations.since(before.map(|before| &before.durations));
    let requests = durations.count();
    let units_before = before.map_or(0.0, |before| before.units);
    let throttled_before = before.map_or(0, |before| before.throttled);
    (requests > 0).then(|| Series {
        operation,
        container: match owner {
            CountedFor::Container(number) => Some(number),
            CountedFor::Nobody | CountedFor::Other => None,
        },
        requests,
        units: now.units - units_before,
        throttled: now.throttled.saturating_sub(throttled_before),
        p50: durations.quantile(0.5),
        p99: durations.quantile(0.99),
    })
}

fn together(rest: &[Series]) -> Series {
    Series {
        operation: "other",
        container: None,
        requests: rest.iter().map(|one| one.requests).sum(),
        units: rest.iter().map(|one| one.units).sum(),
        throttled: rest.iter().map(|one| one.throttled).sum(),
        p50: rest.iter().map(|one| one.p50).fold(0.0, f64::max),
        p99: rest.iter().map(|one| one.p99).fold(0.0, f64::max),
    }
}

fn look_on(seconds: &Weak<Seconds>, metrics: &Weak<Metrics>, account: &Weak<Account>) {
    let mut next = monotonic();
    loop {
        next += Duration::from_secs(1);
        std::thread::sleep(next.saturating_duration_since(monotonic()));
        let (Some(seconds), Some(metrics)) = (seconds.upgrade(), metrics.upgrade()) else { return };
        let Some(account) = account.upgrade() else { return };
        metrics.release(&account);
        seconds.tick(&metrics, account.clock().now_seconds());
    }
}
