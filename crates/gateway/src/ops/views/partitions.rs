//! The physical partitions of a container, their merge, and the logical keys that requests spend most on.

use super::{count, nodes, number_in, told};
use crate::headers::parse_key;
use crate::hot_keys::HotKey;
use crate::limits::{HOT_KEY_SIZE_ITEMS_MAX, HOT_KEYS, PARTITIONS_SHOWN_MAX};
use crate::metrics::{RangeRates, Seconds};
use crate::ops::EngineService;
use crate::routes::ContainerPath;
use crate::{Call, Reply, wire};
use armilla_engine::partition::Partition;
use armilla_engine::{Container, ItemAddress};
use armilla_model::Result;
use armilla_model::value::{Object, Value};
use http::StatusCode;
use std::sync::Arc;

pub(super) async fn answer(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    let container = service.account.container(path.database, path.container)?;
    let (seconds, hot_keys) = (service.seconds.clone(), service.hot_keys.clone());
    let is_counted = service.metrics.counts(container.number);
    let nodes = nodes(service);
    // Items are looked at for the sizes, so whoever asks once a second leaves them out most of the times.
    let with_sizes = number_in(call, "sizes") == Some(1);
    let made = service.blocking(move |account| {
        let now = account.clock().now_millis() / 1000;
        let hot = hot_keys.of(container.number, HOT_KEYS, now);
        let sizes = if with_sizes { sizes(&container, &hot) } else { Vec::new() };
        let mut members = figures(&container, &seconds);
        members.insert("counted", is_counted.into());
        members.insert("nodes", nodes);
        let sizes = sizes.into_iter().chain(std::iter::repeat(None));
        let hot = hot.into_iter().zip(sizes).map(|(hot, size)| hot_key(hot, size));
        members.insert("hotKeys", Value::array(hot.collect()));
        Ok(members)
    });
    made.await.map(|members| told(&members))
}

/// Begins a merge; how far it is, [`answer`] tells. Whoever asks while one is under way is told of that one.
pub(super) async fn merge(service: &EngineService, path: ContainerPath<'_>) -> Result<Reply> {
    let container = service.account.container(path.database, path.container)?;
    if let Some(promised) = service.account.promise_merge(path.database, path.container)? {
        service.pools.catalog.begin(move || promised.run()).await?;
    }
    let members = wire::text(&merging(&container).unwrap_or_default());
    Ok(Reply::json(StatusCode::ACCEPTED, members))
}

/// The merge that is under way, or the last one.
fn merging(container: &Container) -> Option<Object> {
    let merge = container.merge()?;
    let mut members = Object::of([
        ("from", count(merge.from)),
        ("wanted", count(merge.wanted)),
        ("partitions", count(container.partitions().len())),
    ]);
    let state = match merge.end() {
        None => "merging",
        Some(Ok(_)) => "done",
        Some(Err(reason)) => {
            members.insert("error", (&**reason).into());
            "failed"
        }
    };
    members.insert("state", state.into());
    Some(members)
}

/// Bytes of the items of each key, where they are known or soon counted.
fn sizes(container: &Arc<Container>, hot: &[HotKey]) -> Vec<Option<u64>> {
    let mut items_left = HOT_KEY_SIZE_ITEMS_MAX;
    let size = |hot: &HotKey| {
        let address = ItemAddress::of(container, parse_key(&hot.key)?).ok()?;
        container.logical_size(&address.epk, &mut items_left).ok()?
    };
    hot.iter().map(size).collect()
}

fn figures(container: &Container, seconds: &Seconds) -> Object {
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
        ("merge", merging(container).map_or(Value::Null, Value::object)),
        ("ranges", Value::array(shown.collect())),
        ("dials", Value::object(container.dials().show())),
    ])
}

fn range(partition: &Partition, rates: RangeRates, budget: f64) -> Object {
    let range = &partition.range;
    let max = range.max.as_ref().map_or_else(|| "FF".to_owned(), ToString::to_string);
    let state = match partition.damage() {
        Some(_) => "damaged",
        None if partition.is_splitting() => "splitting",
        None if partition.is_merging() => "merging",
        None => "serving",
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

fn hot_key(hot: HotKey, size: Option<u64>) -> Value {
    Value::object(Object::of([
        ("key", hot.key.into()),
        ("units", hot.units.into()),
        ("unitsOfOthersAtMost", hot.units_of_others_max.into()),
        ("requests", count(hot.requests)),
        ("bytes", size.map_or(Value::Null, count)),
    ]))
}
