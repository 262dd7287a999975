//! The shape of a container: which paths a sample of its items has, and what stands there.

use super::count;
use crate::limits::{
    SHAPE_NUMBERS_MAX, SHAPE_PATH_LENGTH_MAX, SHAPE_PATHS_MAX, SHAPE_TIME, SHAPE_VALUES_MAX,
    SHAPE_VISITS_MAX,
};
use armilla_engine::Container;
use armilla_engine::ranges::EpkSpan;
use armilla_model::charge::RequestCharge;
use armilla_model::clock::monotonic;
use armilla_model::value::{Object, Type, Value};
use armilla_model::{Result, json};
use std::collections::{BTreeMap, HashMap};

/// Levels of objects and arrays that are looked into.
const DEPTH_MAX: usize = 12;
/// Elements of one array that are looked into.
const ELEMENTS_MAX: usize = 64;
/// Most frequent values that are shown.
const FREQUENT_SHOWN: usize = 8;
/// Groups of items with the same top-level properties that are shown.
const CLUSTERS_SHOWN: usize = 12;
/// Bytes of a value that is shown.
const VALUE_LENGTH_MAX: usize = 80;
/// Items that are read at a time.
const PAGE: usize = 256;
/// Bars of a histogram.
const BARS: usize = 16;

/// What is known of a path.
#[derive(Default)]
struct PathFigures {
    /// Items that have it.
    items: u64,
    types: BTreeMap<&'static str, u64>,
    /// Numbers, lengths of strings, lengths of arrays.
    numbers: Vec<f64>,
    lengths: Vec<f64>,
    elements: Vec<f64>,
    values: HashMap<String, u64>,
    /// There were more different values than are counted.
    overflowed: bool,
    last_item: u64,
}

#[derive(Default)]
struct Sample {
    items: u64,
    bytes: u64,
    places: BTreeMap<String, PathFigures>,
    clusters: HashMap<String, u64>,
    paths_left_out: bool,
    /// Properties and elements that were looked at.
    visits: usize,
}

/// The shape of a container as a sample over all its partitions shows it.
pub(super) fn of(container: &Container, wanted: usize) -> Result<(Object, RequestCharge)> {
    let started = monotonic();
    let (mut sample, mut charge) = (Sample::default(), RequestCharge::ZERO);
    let partitions = container.partitions();
    let share = wanted.div_ceil(partitions.len().max(1));
    let mut in_time = true;
    for partition in partitions.iter() {
        let range = &partition.range;
        let span = EpkSpan { min: range.min.clone(), max: range.max.clone() };
        let (mut left, mut next) = (share.min(wanted), None);
        while left > 0 && in_time {
            let page = container.list_items(&span, next.as_deref(), left.min(PAGE))?;
            charge += page.charge;
            left -= page.items.len().min(left);
            for item in &page.items {
                in_time = started.elapsed() < SHAPE_TIME && sample.visits < SHAPE_VISITS_MAX;
                if !in_time {
                    break;
                }
                sample.take(&json::parse(&item.text)?, item.text.len());
            }
            next = page.continuation;
            if next.is_none() {
                break;
            }
        }
    }
    Ok((sample.told(container.document_count(), in_time), charge))
}

impl Sample {
    fn take(&mut self, item: &Value, bytes: usize) {
        self.items += 1;
        self.bytes += bytes as u64;
        let Some(members) = item.as_object() else { return };
        let is_own =
            |name: &str| !matches!(name, "_rid" | "_self" | "_etag" | "_attachments" | "_ts");
        let mut names: Vec<&str> =
            members.iter().map(|(name, _)| &**name).filter(|name| is_own(name)).collect();
        names.sort_unstable();
        let cluster = match item.get("type").and_then(Value::as_str) {
            Some(kind) => format!("type = {}", cut(kind)),
            None => cluster_of(&names),
        };
        if self.clusters.contains_key(&cluster) || self.clusters.len() < SHAPE_VALUES_MAX {
            *self.clusters.entry(cluster).or_default() += 1;
        }
        for (name, value) in members.iter().filter(|(name, _)| is_own(name)) {
            self.look_below("", name, value, 0);
        }
    }

    fn look_below(&mut self, path: &str, name: &str, value: &Value, depth: usize) {
        if path.len() + name.len() >= SHAPE_PATH_LENGTH_MAX {
            self.paths_left_out = true;
            return;
        }
        self.look(&format!("{path}/{name}"), value, depth + 1);
    }

    fn look(&mut self, path: &str, value: &Value, depth: usize) {
        let number = self.items;
        self.visits += 1;
        let is_new = !self.places.contains_key(path);
        if is_new && self.places.len() >= SHAPE_PATHS_MAX || self.visits > SHAPE_VISITS_MAX {
            self.paths_left_out = true;
            return;
        }
        self.places.entry(path.to_owned()).or_default().take(value, number);
        if depth >= DEPTH_MAX {
            return;
        }
        match value {
            Value::Object(members) => {
                for (name, value) in members.iter() {
                    self.look_below(path, name, value, depth);
                }
            }
            Value::Array(elements) => {
                for element in elements.iter().take(ELEMENTS_MAX) {
                    self.look_below(path, "[]", element, depth);
                }
            }
            _ => {}
        }
    }

    fn told(self, items_in_all: u64, whole: bool) -> Object {
        let mut clusters: Vec<_> = self.clusters.into_iter().collect();
        clusters.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
        let clusters = clusters.into_iter().take(CLUSTERS_SHOWN).map(|(of, items)| {
            Value::object(Object::of([("of", of.into()), ("items", count(items))]))
        });
        let paths = self.places.into_iter().map(|(path, place)| {
            let mut members = place.told();
            members.insert("path", path.into());
            Value::object(members)
        });
        Object::of([
            ("sampled", count(self.items)),
            ("items", count(items_in_all)),
            ("bytes", count(self.bytes)),
            ("inTime", whole.into()),
            ("pathsLeftOut", self.paths_left_out.into()),
            ("clusters", Value::array(clusters.collect())),
            ("paths", Value::array(paths.collect())),
        ])
    }
}

impl PathFigures {
    fn take(&mut self, value: &Value, item: u64) {
        if self.last_item != item {
            self.items += 1;
            self.last_item = item;
        }
        *self.types.entry(name_of(value.kind())).or_default() += 1;
        let shown = match value {
            Value::String(text) => {
                add(&mut self.lengths, text.chars().count() as f64);
                format!("\"{}\"", cut(text))
            }
            Value::Array(elements) => {
                add(&mut self.elements, elements.len() as f64);
                return;
            }
            Value::Object(_) => return,
            scalar => {
                if let Some(number) = scalar.as_f64() {
                    add(&mut self.numbers, number);
                }
                scalar.to_json()
            }
        };
        if self.values.contains_key(&shown) || self.values.len() < SHAPE_VALUES_MAX {
            *self.values.entry(shown).or_default() += 1;
        } else {
            self.overflowed = true;
        }
    }

    fn told(self) -> Object {
        let types = self.types.iter().map(|(name, times)| (*name, *times));
        let types = types.map(|(name, times)| {
            Value::object(Object::of([("type", name.into()), ("count", count(times))]))
        });
        let distinct = self.values.len();
        let mut values: Vec<_> = self.values.into_iter().collect();
        values.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
        let frequent = values.into_iter().take(FREQUENT_SHOWN).map(|(value, times)| {
            Value::object(Object::of([("value", value.into()), ("count", count(times))]))
        });
        let frequent = frequent.collect();
        Object::of([
            ("items", count(self.items)),
            ("types", Value::array(types.collect())),
            ("distinct", count(distinct)),
            ("distinctIsMore", self.overflowed.into()),
            ("frequent", Value::array(frequent)),
            ("numbers", spread(self.numbers)),
            ("lengths", spread(self.lengths)),
            ("elements", spread(self.elements)),
        ])
    }
}

fn add(numbers: &mut Vec<f64>, number: f64) {
    if numbers.len() < SHAPE_NUMBERS_MAX {
        numbers.push(number);
    }
}

/// What a group of items is called that have these properties.
fn cluster_of(names: &[&str]) -> String {
    let mut text = String::new();
    for name in names {
        if text.len() >= SHAPE_PATH_LENGTH_MAX {
            text.push_str(", …");
            break;
        }
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&cut(name));
    }
    text
}

/// Least, middle and greatest, and a histogram between them; null where there is nothing.
fn spread(mut numbers: Vec<f64>) -> Value {
    numbers.retain(|number| number.is_finite());
    numbers.sort_by(f64::total_cmp);
    let (Some(&min), Some(&max)) = (numbers.first(), numbers.last()) else { return Value::Null };
    let at = |part: f64| {
        let place = ((numbers.len() - 1) as f64 * part).round() as usize;
        Value::from(numbers.get(place).copied().unwrap_or(max))
    };
    let mut bars = [0_i64; BARS];
    for number in &numbers {
        let place = if max > min { (number - min) / (max - min) * (BARS - 1) as f64 } else { 0.0 };
        if let Some(bar) = bars.get_mut(place.round() as usize) {
            *bar += 1;
        }
    }
    let bars = bars.into_iter().map(Value::from).collect();
    Value::object(Object::of([
        ("min", min.into()),
        ("p50", at(0.5)),
        ("p95", at(0.95)),
        ("max", max.into()),
        ("bars", Value::array(bars)),
    ]))
}

fn name_of(kind: Type) -> &'static str {
    match kind {
        Type::Undefined => "undefined",
        Type::Null => "null",
        Type::Bool => "boolean",
        Type::Number => "number",
        Type::String => "string",
        Type::Array => "array",
        Type::Object => "object",
    }
}

fn cut(text: &str) -> String {
    let short: String = text.chars().take(VALUE_LENGTH_MAX).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(items: &[&str]) -> Value {
        let mut sample = Sample::default();
        for item in items {
            sample.take(&json::parse(item.as_bytes()).unwrap(), item.len());
        }
        Value::object(sample.told(items.len() as u64, true))
    }

    fn path<'v>(shape: &'v Value, path: &str) -> &'v Value {
        let all = shape.get("paths").and_then(Value::as_array).unwrap();
        all.iter().find(|one| one.get("path").and_then(Value::as_str) == Some(path)).unwrap()
    }

    #[test]
    fn presence_types_and_lengths_are_counted() {
        let shape = sampled(&[
            r#"{"id":"a","n":1,"tags":["x","y"],"_ts":1}"#,
            r#"{"id":"b","n":"one","tags":[],"o":{"p":null}}"#,
        ]);
        assert_eq!(path(&shape, "/n").get("types").unwrap().as_array().unwrap().len(), 2);
        let tags = path(&shape, "/tags");
        assert_eq!(tags.get("elements").unwrap().get("max").unwrap().as_f64(), Some(2.0));
        assert_eq!(path(&shape, "/tags/[]").get("items").unwrap().as_i64(), Some(1));
        assert_eq!(path(&shape, "/o/p").get("items").unwrap().as_i64(), Some(1));
        assert!(!shape.to_json().contains("/_ts"));
    }

    #[test]
    fn empty_deep_and_wide_data_stay_within_bounds() {
        assert_eq!(sampled(&[]).get("sampled").unwrap().as_i64(), Some(0));
        let deep = format!("{}1{}", r#"{"a":"#.repeat(60), "}".repeat(60));
        let shape = sampled(&[&deep]);
        assert_eq!(shape.get("paths").unwrap().as_array().unwrap().len(), DEPTH_MAX);
        let wide: Vec<String> = (0..3000).map(|at| format!(r#""p{at}":{at}"#)).collect();
        let shape = sampled(&[&format!("{{{}}}", wide.join(","))]);
        assert_eq!(shape.get("paths").unwrap().as_array().unwrap().len(), SHAPE_PATHS_MAX);
        assert_eq!(shape.get("pathsLeftOut").unwrap().as_bool(), Some(true));
    }
}
