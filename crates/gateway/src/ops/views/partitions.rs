//! The physical partitions of a container, and the logical keys that requests spend most on.

use super::{count, told};
use crate::Reply;
use crate::hot_keys::HotKey;
use crate::limits::{HOT_KEYS, PARTITIONS_SHOWN_MAX};
use crate::metrics::{RangeRates, Seconds};
use crate::ops::EngineService;
use crate::routes::ContainerPath;
use armilla_engine::Container;
use armilla_engine::partition::Partition;
use armilla_model::Result;
use armilla_model::value::{Object, Value};

pub(super) async fn answer(service: &EngineService, path: ContainerPath<'_>) -> Result<Reply> {
    let container = service.account.container(path.database, path.container)?;
    let (seconds, hot_keys) = (service.seconds.clone(), service.hot_keys.clone());
    let made = service.blocking(move |account| {
        let now = account.clock().now_millis() / 1000;
        let hot = hot_keys.of(container.number, HOT_KEYS, now);
        Ok(figures(&container, &seconds, hot))
    });
    made.await.map(|members| told(&members))
}

fn figures(container: &Container, seconds: &Seconds, hot: Vec<HotKey>) -> Object {
    let all = container.partitions();
    let budget = f64::from(container.budget().units()) / all.len().max(1) as f64;
    let shown = all.iter().take(PARTITIONS_SHOWN_MAX);
    let shown = shown.map(|partition| {
        let rates = seconds.range_rates(container.number, partition.range.id);
        Value::object(range(partition, rates, budget))
    });
    let (_, throttled) = seconds.container_rates(container.number);
    Object::of([
        ("throughput", i64::from(container.budget().units()).into()),
        ("throttledInMinute", count(throttled)),
        ("indexProgress", i64::from(container.index_progress()).into()),
        ("count", count(all.len())),
        ("ranges", Value::array(shown.collect())),
        ("hotKeys", Value::array(hot.into_iter().map(hot_key).collect())),
        ("dials", Value::object(container.dials().show())),
    ])
}

fn range(partition: &Partition, rates: RangeRates, budget: f64) -> Object {
    let range = &partition.range;
    let max = range.max.as_ref().map_or_else(|| "FF".to_owned(), ToString::to_string);
    let state = match (partition.damage(), partition.is_splitting()) {
        (Some(_), _) => "damaged",
        (None, true) => "splitting",
        (None, false) => "serving",
    };
    let parents = range.parents.iter().map(|parent| i64::from(*parent).into()).collect();
    Object::of([
        ("id", i64::from(range.id).into()),
        ("min", range.min.to_string().into()),
        ("max", max.into()),
        ("parents", Value::array(parents)),
        ("items", count(partition.document_count())),
        ("bytes", count(partition.size())),
        ("unitsPerSecond", rates.units_per_second.into()),
        ("unitsPerSecondOfMinute", rates.units_per_second_of_minute.into()),
        ("throttledInMinute", count(rates.throttled_in_minute)),
        ("budget", budget.into()),
        ("state", state.into()),
    ])
}

fn hot_key(hot: HotKey) -> Value {
    Value::object(Object::of([
        ("key", hot.key.into()),
        ("units", hot.units.into()),
        ("unitsOfOthersAtMost", hot.units_of_others_max.into()),
        ("requests", count(hot.requests)),
    ]))
}
