//! Throughput mode: the recorded hours, billed under each way to pay for throughput.
//!
//! Prices are shares of one another, as the service lists them: autoscale costs half as much again for each unit a second and is billed
//! by the dearest second of each hour, a tenth of its maximum at least; manual throughput is billed in full whether it is used or not;
//! serverless is billed by the unit. What is compared allows the dearest second that was seen, so nothing would have been refused.

use crate::limits::HOURS_MAX;
use crate::observe::load::{HourFigures, Hours};
use crate::propose::{Case, Instruction};
use crate::report::{Bill, Finding};
use crate::understand::Entity;
use armilla_engine::Account;
use armilla_engine::offers::Throughput;
use std::collections::BTreeSet;

/// Hours from which a day is known.
const HOURS_MIN: u64 = 24;
/// The least share of the bill that another mode saves.
const BILL_SHARE_MIN: f64 = 0.2;
/// Steps and least values of throughput.
const MANUAL_STEP: f64 = 100.0;
const MANUAL_MIN: f64 = 400.0;
const AUTOSCALE_STEP: f64 = 1_000.0;
/// A unit a second for an hour with autoscale, where one of manual throughput is 1.
const AUTOSCALE_PRICE: f64 = 1.5;
const AUTOSCALE_FLOOR: f64 = 0.1;
/// A million units of serverless, where a unit a second of manual throughput for an hour is 1.
const SERVERLESS_PRICE: f64 = 3_125.0;

/// A way to pay.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Manual(f64),
    Autoscale(f64),
}

impl Mode {
    fn of(throughput: Throughput) -> Self {
        match throughput {
            Throughput::Manual(units) => Self::Manual(f64::from(units)),
            Throughput::Autoscale { max, .. } => Self::Autoscale(f64::from(max)),
        }
    }

    fn peak(self) -> f64 {
        match self {
            Self::Manual(units) | Self::Autoscale(units) => units,
        }
    }

    fn told(self) -> String {
        match self {
            Self::Manual(units) => format!("manual throughput of {units:.0} RU/s"),
            Self::Autoscale(max) => format!("autoscale up to {max:.0} RU/s"),
        }
    }
}

/// What a container would have cost.
#[derive(Clone, Debug, PartialEq)]
struct Bills {
    now: f64,
    best: (Mode, f64),
    serverless: f64,
    hours: u64,
    peak: f64,
    mean: f64,
}

/// Findings for the containers of a case that have throughput of their own.
pub(crate) fn advise(case: &Case<'_>, account: &Account) -> Vec<Finding> {
    let mut told = BTreeSet::new();
    let mut found = Vec::new();
    for entity in &case.model.entities {
        let offer = account.catalog().offer_of(&entity.container.self_link).cloned();
        let hours = case.sketch(entity).map(|sketch| &sketch.hours);
        if let (Some(offer), Some(hours), true) = (offer, hours, told.insert(&entity.name)) {
            let mode = Mode::of(offer.throughput);
            found.extend(bills(mode, hours).and_then(|bills| finding(case, entity, mode, &bills)));
        }
    }
    found
}

/// Bills the recorded hours; nothing while they are less than a day.
fn bills(now: Mode, hours: &Hours) -> Option<Bills> {
    let (first, last) = (hours.of.front()?, hours.of.back()?);
    let count = (last.hour - first.hour + 1).min(HOURS_MAX as u64);
    let peak = hours.of.iter().map(|hour| hour.peak).fold(0.0, f64::max);
    if count < HOURS_MIN || peak > now.peak() {
        return None;
    }
    let manual = Mode::Manual((peak / MANUAL_STEP).ceil() * MANUAL_STEP);
    let manual = Mode::Manual(manual.peak().max(MANUAL_MIN));
    let auto = (peak / AUTOSCALE_STEP).ceil().max(1.0) * AUTOSCALE_STEP;
    let bill = |mode: Mode| bill(mode, hours, count);
    let options = [manual, Mode::Autoscale(auto)].map(|mode| (mode, bill(mode)));
    let best = options.into_iter().min_by(|one, other| one.1.total_cmp(&other.1))?;
    let units: f64 = hours.of.iter().map(|hour| hour.units).sum();
    Some(Bills {
        now: bill(now),
        best,
        serverless: units / 1e6 * SERVERLESS_PRICE,
        hours: count,
        peak,
        mean: units / (count as f64 * 3_600.0),
    })
}

/// What a mode costs, in units a second of manual throughput times hours.
fn bill(mode: Mode, hours: &Hours, count: u64) -> f64 {
    match mode {
        Mode::Manual(units) => units * count as f64,
        Mode::Autoscale(max) => {
            let floor = max * AUTOSCALE_FLOOR;
            let used: f64 =
                hours.of.iter().map(|hour: &HourFigures| hour.peak.clamp(floor, max)).sum();
            // Hours without a request cost the floor.
            let silent = count.saturating_sub(hours.of.len() as u64) as f64 * floor;
            (used + silent) * AUTOSCALE_PRICE
        }
    }
}

fn finding(case: &Case<'_>, entity: &Entity, now: Mode, bills: &Bills) -> Option<Finding> {
    let (best, cost) = bills.best;
    let bill =
        Bill { hours: bills.hours, before: bills.now, after: cost, serverless: bills.serverless };
    let saved = bill.saved_share();
    if saved < BILL_SHARE_MIN {
        return None;
    }
    let (name, database) = (&entity.name, case.database);
    let serverless = match bills.serverless < cost {
        true => format!(
            " An account without provisioned throughput (serverless) would pay {:.0} % less than today.",
            (1.0 - bills.serverless / bills.now.max(1e-9)) * 100.0
        ),
        false => String::new(),
    };
    Some(Finding {
        id: format!("throughput-mode:{database}/{name}"),
        rule: "throughput-mode",
        title: format!("Give '{name}' {} instead of {}", best.told(), now.told()),
        reason: format!(
            "In {} recorded hours '{name}' used {:.0} RU/s on average and {:.0} in its dearest second. Those hours, billed again, cost {:.0} % less so, and nothing would have been refused.{serverless} Request units stay as they are.",
            bills.hours,
            bills.mean,
            bills.peak,
            saved * 100.0
        ),
        database: database.to_owned(),
        container: name.clone(),
        confidence: if bills.hours >= 7 * 24 { "high" } else { "medium" },
        confidence_reason: format!("{} hours were recorded", bills.hours),
        apply: instructions(database, name, now, best),
        bill: Some(bill),
        ..Finding::default()
    })
}

fn instructions(database: &str, name: &str, now: Mode, best: Mode) -> Vec<Instruction> {
    let call = |mode: Mode| match mode {
        Mode::Manual(units) => format!("container.replace_throughput({units:.0})"),
        Mode::Autoscale(max) => format!(
            "container.replace_throughput(ThroughputProperties(auto_scale_max_throughput={max:.0}))"
        ),
    };
    vec![
        Instruction::new(
            "definition",
            format!("The throughput of '{database}/{name}', set by an SDK or in the explorer"),
            "python",
            call(best),
        ),
        Instruction::new("backfill", "Nothing to do", "text", "It holds from the next request on."),
        Instruction::new(
            "check",
            "Nothing is refused: the number of answers with 429 stays as it is",
            "shell",
            "curl -s $ENDPOINT/metrics | grep throttled",
        ),
        Instruction::new("undo", "To undo it", "python", call(now)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many hours, every twelfth of which has a dear second.
    fn hours(count: u64, low: f64, high: f64) -> Hours {
        let mut hours = Hours::default();
        for hour in 0..count {
            let units = if hour % 12 == 0 { high } else { low };
            hours.add(hour * 3_600_000, units, units);
        }
        hours
    }

    #[test]
    fn a_peak_now_and_then_is_cheaper_with_autoscale_and_a_steady_load_without() {
        let peaky = bills(Mode::Manual(8_000.0), &hours(48, 50.0, 7_500.0)).unwrap();
        assert_eq!(peaky.best.0, Mode::Autoscale(8_000.0));
        // Four dear hours and 44 of the floor, each half as much again.
        assert!((peaky.best.1 - (4.0 * 7_500.0 + 44.0 * 800.0) * 1.5).abs() < 1e-6);
        assert_eq!(peaky.now, 8_000.0 * 48.0);
        let steady = bills(Mode::Autoscale(8_000.0), &hours(48, 7_400.0, 7_500.0)).unwrap();
        assert_eq!(steady.best.0, Mode::Manual(7_500.0));
        assert!(steady.best.1 < steady.now);
    }

    #[test]
    fn less_than_a_day_and_refused_seconds_say_nothing() {
        assert_eq!(bills(Mode::Manual(8_000.0), &hours(12, 50.0, 7_500.0)), None);
        assert_eq!(bills(Mode::Manual(1_000.0), &hours(48, 50.0, 7_500.0)), None);
        assert_eq!(bills(Mode::Manual(400.0), &Hours::default()), None);
    }
}
