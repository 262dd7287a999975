//! Sketches of items as they are written: what stands at each path, which paths a replace changes, whether lists grow.
//!
//! All of fixed size. The least hashes of a path's values (MinHash, bottom-k) tell how many different ones there are and how
//! many of them stand at another path too. Numbers are weighted: a request that stands for others counts for them.

use crate::limits::{KINDS_MAX, MINHASH, PATHS_MAX, SKETCH_BYTES_MAX};
use crate::live::{is_system, text_of, visit};
use armilla_model::value::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Types of values, a bit each.
const TYPES: [(&str, u8); 6] =
    [("null", 1), ("bool", 2), ("number", 4), ("string", 8), ("array", 16), ("object", 32)];
/// Hashes have so many bits, so that each is a number in JSON.
const HASH_BITS: u32 = 53;

/// The least hashes of a set of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MinHash {
    /// Ascending, each once.
    pub(crate) least: Vec<u64>,
}

impl MinHash {
    /// Takes a value in.
    pub fn add(&mut self, text: &str) {
        let hash = hash_of(text);
        let Err(at) = self.least.binary_search(&hash) else { return };
        if at < MINHASH {
            self.least.insert(at, hash);
            self.least.truncate(MINHASH);
        }
    }

    /// How many different values there were.
    pub fn distinct(&self) -> f64 {
        match self.least.last() {
            Some(last) if self.least.len() >= MINHASH => {
                (MINHASH - 1) as f64 * (1u64 << HASH_BITS) as f64 / *last as f64
            }
            _ => self.least.len() as f64,
        }
    }

    /// The share of these values that are among others; nothing when too few can be compared.
    pub fn share_in(&self, others: &Self) -> Option<f64> {
        // Above the last hash of a full sketch nothing is known.
        let known = match others.least.last() {
            Some(last) if others.least.len() >= MINHASH => *last,
            _ => u64::MAX,
        };
        let comparable: Vec<&u64> = self.least.iter().filter(|hash| **hash <= known).collect();
        let shared = comparable.iter().filter(|hash| others.least.binary_search(hash).is_ok());
        (comparable.len() >= MINHASH / 8).then(|| shared.count() as f64 / comparable.len() as f64)
    }
}

/// A hash that is the same in every run of the server.
fn hash_of(text: &str) -> u64 {
    let folded = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (folded ^ (folded >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) >> (u64::BITS - HASH_BITS)
}

/// What stands at a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathSketch {
    /// Items that have it.
    pub(crate) items: f64,
    /// Types that were seen, as bits.
    pub(crate) types: u8,
    /// Bytes of texts or elements of lists: in all, at most, and of how many.
    pub(crate) lengths: (f64, f64, f64),
    /// The values.
    pub(crate) values: MinHash,
    /// Replaces that changed it.
    pub(crate) changed: f64,
    /// Replaces that made a list longer, and shorter; elements that were added, less those removed.
    pub(crate) grown: (f64, f64, f64),
}

impl PathSketch {
    fn bytes(path: &str) -> usize {
        160 + path.len() + MINHASH * size_of::<u64>()
    }

    /// Names of the types that were seen.
    pub fn types(&self) -> Vec<&'static str> {
        TYPES.iter().filter(|(_, bit)| self.types & bit != 0).map(|(name, _)| *name).collect()
    }
}

/// Items of one kind in a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemSketch {
    /// Items that were looked at.
    pub(crate) items: f64,
    /// Replaces of which both versions were seen.
    pub(crate) replaced: f64,
    pub(crate) paths: BTreeMap<String, PathSketch>,
}

/// What is sketched of a container, by kind of item.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kinds {
    pub(crate) of: BTreeMap<String, ItemSketch>,
    /// Bytes that it takes.
    pub(crate) bytes: usize,
}

impl Kinds {
    /// The sketch of a kind.
    pub fn get(&self, kind: Option<&str>) -> Option<&ItemSketch> {
        self.of.get(kind.unwrap_or_default())
    }

    /// Takes an item in that was written; tells how many bytes that took of `room`.
    pub(crate) fn written(
        &mut self,
        kind: Option<&str>,
        item: &Value,
        weight: f64,
        room: usize,
    ) -> usize {
        let room = room.min(SKETCH_BYTES_MAX.saturating_sub(self.bytes));
        let Some(sketch) = self.entry(kind) else { return 0 };
        sketch.items += weight;
        let mut used = 0;
        let mut counted = HashSet::new();
        visit(item, "", 0, &mut |path, value| {
            if is_system(path.trim_start_matches('/')) {
                return;
            }
            let is_new = !sketch.paths.contains_key(path);
            let needed = PathSketch::bytes(path);
            if is_new && (sketch.paths.len() >= PATHS_MAX || used + needed > room) {
                return;
            }
            used += if is_new { needed } else { 0 };
            let figures = sketch.paths.entry(path.to_owned()).or_default();
            if counted.insert(path.to_owned()) {
                figures.items += weight;
            }
            note_value(figures, value, weight);
        });
        self.bytes += used;
        used
    }

    /// Takes a replace in: which paths differ, and which lists became longer.
    pub(crate) fn replaced(
        &mut self,
        kind: Option<&str>,
        before: &Value,
        after: &Value,
        weight: f64,
    ) {
        let Some(sketch) = self.entry(kind) else { return };
        sketch.replaced += weight;
        let (old, new) = (top(before), top(after));
        for (path, figures) in &mut sketch.paths {
            if path.matches('/').count() != 1 {
                continue;
            }
            let (was, is) = (old.get(path.as_str()), new.get(path.as_str()));
            if was != is {
                figures.changed += weight;
            }
            if let (Some(Value::Array(was)), Some(Value::Array(is))) = (was, is) {
                let (longer, shorter, added) = &mut figures.grown;
                *longer += if is.len() > was.len() { weight } else { 0.0 };
                *shorter += if is.len() < was.len() { weight } else { 0.0 };
                *added += (is.len() as f64 - was.len() as f64) * weight;
            }
        }
    }

    /// Takes a patch in, which names the paths itself.
    pub(crate) fn patched(&mut self, kind: Option<&str>, body: &Value, weight: f64) {
        let operations = body.get("operations").and_then(Value::as_array).unwrap_or_default();
        let Some(sketch) = self.entry(kind).filter(|_| !operations.is_empty()) else { return };
        sketch.replaced += weight;
        let mut told: Vec<String> = Vec::new();
        for operation in operations {
            let path = operation.get("path").and_then(Value::as_str).unwrap_or_default();
            let first = path.split('/').nth(1).map(|step| format!("/{step}")).unwrap_or_default();
            let Some(figures) = sketch.paths.get_mut(&first) else { continue };
            let adds = operation.get("op").and_then(Value::as_str) == Some("add");
            if adds && path.matches('/').count() == 2 && figures.types & 16 != 0 {
                figures.grown.0 += weight;
                figures.grown.2 += weight;
            }
            if !told.contains(&first) {
                figures.changed += weight;
                told.push(first);
            }
        }
    }

    fn entry(&mut self, kind: Option<&str>) -> Option<&mut ItemSketch> {
        let kind = kind.unwrap_or_default();
        if !self.of.contains_key(kind) && self.of.len() >= KINDS_MAX {
            return None;
        }
        Some(self.of.entry(kind.to_owned()).or_default())
    }

    /// Counts again what it takes.
    pub(crate) fn count_bytes(&mut self) {
        let paths = self.of.values().flat_map(|sketch| sketch.paths.keys());
        self.bytes = paths.map(|path| PathSketch::bytes(path)).sum();
    }
}

/// Members at the top of an item by their paths.
fn top(item: &Value) -> HashMap<String, &Value> {
    let members = item.as_object().into_iter().flat_map(|object| object.iter());
    members.map(|(name, value)| (format!("/{name}"), value)).collect()
}

fn note_value(figures: &mut PathSketch, value: &Value, weight: f64) {
    let (bit, length) = match value {
        Value::Null => (1, None),
        Value::Bool(_) => (2, None),
        Value::Number(_) => (4, None),
        Value::String(text) => (8, Some(text.len())),
        Value::Array(elements) => (16, Some(elements.len())),
        _ => (32, None),
    };
    figures.types |= bit;
    if let Some(length) = length {
        let (sum, most, count) = &mut figures.lengths;
        *sum += length as f64 * weight;
        *most = most.max(length as f64);
        *count += weight;
    }
    if let Some(text) = text_of(value) {
        figures.values.add(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::json;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn least_hashes_tell_how_many_and_how_many_shared() {
        let (mut ids, mut references, mut others) =
            (MinHash::default(), MinHash::default(), MinHash::default());
        for number in 0..10_000 {
            ids.add(&format!("id-{number}"));
            others.add(&format!("other-{number}"));
        }
        for number in 0..50_000 {
            references.add(&format!("id-{}", number % 5_000));
        }
        let off = |estimate: f64, truth: f64| (estimate - truth).abs() / truth;
        assert!(off(ids.distinct(), 10_000.0) < 0.3, "{}", ids.distinct());
        assert!(off(references.distinct(), 5_000.0) < 0.3, "{}", references.distinct());
        assert_eq!(references.share_in(&ids), Some(1.0));
        assert!(off(ids.share_in(&references).unwrap(), 0.5) < 0.4);
        assert_eq!(references.share_in(&others), Some(0.0));
        assert_eq!(MinHash::default().share_in(&ids), None);
    }

    #[test]
    fn paths_that_a_replace_changes_and_lists_that_grow() {
        let mut kinds = Kinds::default();
        let before = value(r#"{"id":"1","name":"a","city":"x","tags":[1]}"#);
        let after = value(r#"{"id":"1","name":"b","city":"x","tags":[1,2,3]}"#);
        for item in [&before, &after] {
            kinds.written(None, item, 1.0, usize::MAX);
        }
        kinds.replaced(None, &before, &after, 2.0);
        kinds.patched(
            None,
            &value(r#"{"operations":[{"op":"add","path":"/tags/-","value":1}]}"#),
            1.0,
        );
        let sketch = kinds.get(None).unwrap();
        let changed = |path: &str| sketch.paths[path].changed;
        assert_eq!((changed("/name"), changed("/city"), changed("/tags")), (2.0, 0.0, 3.0));
        assert_eq!(sketch.paths["/tags"].grown, (3.0, 0.0, 5.0));
        assert_eq!(sketch.replaced, 3.0);
        assert_eq!(sketch.paths["/tags"].types(), ["array"]);
        assert_eq!(sketch.paths["/name"].items, 2.0);
    }

    #[test]
    fn a_sketch_has_no_more_paths_than_there_is_room() {
        let mut kinds = Kinds::default();
        let room = 40 * PathSketch::bytes("/p000");
        let mut used = 0;
        for number in 0..1_000 {
            let item = value(&format!(r#"{{"p{number:03}":1}}"#));
            used += kinds.written(None, &item, 1.0, room - used);
        }
        assert_eq!(kinds.get(None).unwrap().paths.len(), 40);
        let counted = kinds.bytes;
        kinds.count_bytes();
        assert_eq!((used, counted), (kinds.bytes, kinds.bytes));
        for number in 0..10 * KINDS_MAX {
            kinds.written(Some(&number.to_string()), &value("{}"), 1.0, 0);
        }
        assert_eq!(kinds.of.len(), KINDS_MAX);
    }
}
