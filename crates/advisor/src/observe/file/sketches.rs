//! The part of the file that holds what is known of containers beside their requests.

use crate::limits::{HOT_KEYS, HOURS_MAX, MINHASH};
use crate::observe::load::HourFigures;
use crate::observe::sketch::{ItemSketch, MinHash, PathSketch};
use crate::observe::{ContainerId, ContainerSketch};
use armilla_model::value::{Object, Value};
use std::collections::BTreeMap;

fn numbers(list: impl IntoIterator<Item = f64>) -> Value {
    Value::array(list.into_iter().map(Value::from).collect())
}

/// All containers.
pub(super) fn told(containers: &BTreeMap<ContainerId, ContainerSketch>) -> Value {
    let container = |((database, name), known): (&ContainerId, &ContainerSketch)| {
        let keys = known.hot.keys.iter().map(|(key, count, error)| {
            Value::array(vec![key.as_str().into(), (*count).into(), (*error).into()])
        });
        let hours = known.hours.of.iter();
        let hours = hours.map(|one| numbers([one.hour as f64, one.units, one.peak]));
        Value::object(Object::of([
            ("database", database.as_str().into()),
            ("name", name.as_str().into()),
            ("keyed", known.hot.requests.into()),
            ("keys", Value::array(keys.collect())),
            ("hours", Value::array(hours.collect())),
            ("kinds", Value::array(known.kinds.of.iter().map(told_kind).collect())),
        ]))
    };
    Value::array(containers.iter().map(container).collect())
}

fn told_kind((kind, sketch): (&String, &ItemSketch)) -> Value {
    let path = |(path, one): (&String, &PathSketch)| {
        let (sum, most, count) = one.lengths;
        let (longer, shorter, added) = one.grown;
        Value::array(vec![
            path.as_str().into(),
            numbers([
                one.items,
                f64::from(one.types),
                sum,
                most,
                count,
                one.changed,
                longer,
                shorter,
                added,
            ]),
            numbers(one.values.least.iter().map(|hash| *hash as f64)),
        ])
    };
    Value::object(Object::of([
        ("kind", kind.as_str().into()),
        ("items", sketch.items.into()),
        ("replaced", sketch.replaced.into()),
        ("paths", Value::array(sketch.paths.iter().map(path).collect())),
    ]))
}

/// Reads them again; nothing when a member is missing.
pub(super) fn read(value: &Value) -> Option<BTreeMap<ContainerId, ContainerSketch>> {
    let mut containers = BTreeMap::new();
    for one in value.as_array()? {
        let text = |name: &str| one.get(name)?.as_str().map(str::to_owned);
        let mut known = ContainerSketch::default();
        known.hot.requests = one.get("keyed")?.as_f64()?;
        for row in one.get("keys")?.as_array()?.iter().take(HOT_KEYS) {
            let [key, count, error] = row.as_array()? else { return None };
            known.hot.keys.push((key.as_str()?.to_owned(), count.as_f64()?, error.as_f64()?));
        }
        for row in one.get("hours")?.as_array()?.iter().take(HOURS_MAX) {
            let [hour, units, peak] = floats(row)?;
            known.hours.of.push_back(HourFigures { hour: hour as u64, units, peak });
        }
        for row in one.get("kinds")?.as_array()? {
            let (kind, sketch) = kind(row)?;
            known.kinds.of.insert(kind, sketch);
        }
        known.kinds.count_bytes();
        containers.insert((text("database")?, text("name")?), known);
    }
    Some(containers)
}

fn floats<const N: usize>(row: &Value) -> Option<[f64; N]> {
    let list: Option<Vec<f64>> = row.as_array()?.iter().map(Value::as_f64).collect();
    list?.try_into().ok()
}

fn kind(row: &Value) -> Option<(String, ItemSketch)> {
    let mut sketch = ItemSketch {
        items: row.get("items")?.as_f64()?,
        replaced: row.get("replaced")?.as_f64()?,
        ..ItemSketch::default()
    };
    for one in row.get("paths")?.as_array()? {
        let [path, figures, least] = one.as_array()? else { return None };
        let [items, types, sum, most, count, changed, longer, shorter, added] = floats(figures)?;
        let least: Option<Vec<f64>> = least.as_array()?.iter().map(Value::as_f64).collect();
        let mut least: Vec<u64> = least?.into_iter().map(|hash| hash as u64).collect();
        least.sort_unstable();
        least.truncate(MINHASH);
        sketch.paths.insert(
            path.as_str()?.to_owned(),
            PathSketch {
                items,
                types: types as u8,
                lengths: (sum, most, count),
                values: MinHash { least },
                changed,
                grown: (longer, shorter, added),
            },
        );
    }
    Some((row.get("kind")?.as_str()?.to_owned(), sketch))
}
