//! From an item and its container's policy to index terms, and to what writing them costs.
//!
//! One walk over the item serves both. Every indexed scalar is a term at its path, array elements
//! stand at `/path/[]`, and each object or array leaves a one-byte marker at its own path, so that
//! `IS_DEFINED` and type tests need no item. Paths are numbered per container by
//! [`PathDictionary`].

use crate::limits::{NEW_PATHS_MAX, PATHS_MAX};
use crate::paths::{ELEMENT, PathMemo, composite_step, computed_step, name_step, spatial_step};
pub(crate) use crate::paths::{PathDictionary, ROOT};
use crate::{computed, geo_grid};
use armilla_index::Terms;
use armilla_model::limits::INDEXED_STRING_MAX;
use armilla_model::number::Number;
use armilla_model::ordered;
use armilla_model::policy::{ContainerPolicy, IndexingPolicy};
use armilla_model::value::Value;
use std::mem::take;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Room for a term, as they are on the average.
const TERM_ROOM: usize = 32;

/// Room for the name of a member, or for its term.
const SCRATCH_ROOM: usize = 72;

/// An item's terms and what they weigh.
#[derive(Debug, Default, Clone)]
pub(crate) struct ItemTerms {
    /// What the index stores.
    pub terms: Terms,
    /// Charged terms per (path, value), for the difference between two versions.
    weights: Vec<(u64, u32)>,
    /// Terms that are always there: `id`, `_ts` and the partition key.
    fixed: u32,
    /// There was a path that is new, and no room for another.
    pub(crate) lacks_paths: bool,
}

/// The terms of an item. Items that are not indexed have none, but still pay the fixed ones.
pub(crate) fn terms_of(
    item: &Value,
    ts: u32,
    indexed: bool,
    policy: &ContainerPolicy,
    paths: &PathDictionary,
) -> ItemTerms {
    walk(item, ts, indexed, policy, (paths, None), (PATHS_MAX, Kept::Terms))
}

/// What the terms of an item weigh, without the terms: all that is asked of a version that is about to go.
pub(crate) fn weights_of(
    item: &Value,
    ts: u32,
    indexed: bool,
    policy: &ContainerPolicy,
    paths: &PathDictionary,
) -> ItemTerms {
    walk(item, ts, indexed, policy, (paths, None), (PATHS_MAX, Kept::Weights))
}

/// The same for an item that is not stored yet and may be refused: see
/// [`ItemTerms::lacks_paths`]. What is stored must be indexed however many paths there are. The memo is that of its transaction.
pub(crate) fn terms_of_new(
    item: &Value,
    ts: u32,
    indexed: bool,
    policy: &ContainerPolicy,
    (paths, memo): (&PathDictionary, &mut PathMemo),
) -> ItemTerms {
    walk(item, ts, indexed, policy, (paths, Some(memo)), (NEW_PATHS_MAX, Kept::Terms))
}

/// What of an item's terms is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// The terms and what they weigh.
    Terms,
    /// What they weigh.
    Weights,
}

fn walk(
    item: &Value,
    ts: u32,
    indexed: bool,
    policy: &ContainerPolicy,
    (paths, mut memo): (&PathDictionary, Option<&mut PathMemo>),
    (paths_max, kept): (usize, Kept),
) -> ItemTerms {
    let (mut scratch, mut step) =
        memo.as_mut().map(|memo| take(&mut memo.scratch)).unwrap_or_default();
    scratch.clear();
    scratch.reserve(SCRATCH_ROOM);
    step.clear();
    step.reserve(SCRATCH_ROOM);
    let found = ItemTerms::default();
    let mut walk = TermWalk { policy, paths, memo, paths_max, kept, found, scratch, step };
    walk.found.fixed = fixed_terms(policy);
    if indexed && policy.indexing.enabled {
        walk.make_room(item);
        walk.members(item, ROOT, policy.indexing.paths.root(), true);
        let path = walk.number_of_timestamp();
        walk.term(path, &Value::from(i64::from(ts)));
        walk.computed(item);
        walk.composites(item);
        walk.found.fixed += policy.unique_keys.len() as u32;
    }
    walk.found.weights.sort_unstable();
    if let Some(memo) = walk.memo {
        memo.scratch = (walk.scratch, walk.step);
    }
    walk.found
}

/// `id` and `_ts`, and each level of the partition key unless it is the id itself.
fn fixed_terms(policy: &ContainerPolicy) -> u32 {
    let keys = policy.partition_key.paths.iter().filter(|path| path.0 != ["id"]).count();
    2 + keys as u32
}

impl ItemTerms {
    /// How many terms are charged for writing all of them.
    pub(crate) fn charged(&self) -> u64 {
        let weights: u32 = self.weights.iter().map(|(_, weight)| weight).sum();
        u64::from(weights + self.fixed)
    }

    /// How many terms are charged from one version to another: those removed plus those added. The
    /// timestamp always counts on both sides.
    pub(crate) fn charged_difference(&self, next: &Self) -> u64 {
        let (mut left, mut right, mut changed) = (&self.weights[..], &next.weights[..], 2);
        while let (Some(a), Some(b)) = (left.first(), right.first()) {
            match a.0.cmp(&b.0) {
                std::cmp::Ordering::Equal => (left, right) = (&left[1..], &right[1..]),
                std::cmp::Ordering::Less => {
                    changed += a.1;
                    left = &left[1..];
                }
                std::cmp::Ordering::Greater => {
                    changed += b.1;
                    right = &right[1..];
                }
            }
        }
        changed += left.iter().chain(right).map(|(_, weight)| weight).sum::<u32>();
        u64::from(changed)
    }
}

struct TermWalk<'a> {
    policy: &'a ContainerPolicy,
    paths: &'a PathDictionary,
    memo: Option<&'a mut PathMemo>,
    paths_max: usize,
    kept: Kept,
    found: ItemTerms,
    scratch: Vec<u8>,
    step: String,
}

type PolicyCursor<'t> = armilla_model::policy::PathCursor<'t>;

impl TermWalk<'_> {
    /// Makes room for the terms of an item that has no more than its members.
    fn make_room(&mut self, item: &Value) {
        let members = item.as_object().map_or(0, |object| object.len()) + 1;
        self.found.weights.reserve_exact(members);
        if self.kept == Kept::Terms {
            self.found.terms = Terms::with_capacity(members, members * TERM_ROOM);
        }
    }

    fn number(&mut self, parent: u32, step: &str) -> u32 {
        let number = self.paths.number(parent, step, self.paths_max);
        self.found.lacks_paths |= number.is_none();
        number.unwrap_or(ROOT)
    }

    fn number_of_timestamp(&mut self) -> u32 {
        if let Some(number) = self.memo.as_ref().and_then(|memo| memo.timestamp()) {
            return number;
        }
        let number = self.number(ROOT, "._ts");
        if let Some(memo) = &mut self.memo {
            memo.add_timestamp(number);
        }
        number
    }

    fn number_of_name(&mut self, parent: u32, name: &Arc<str>) -> u32 {
        if let Some(number) = self.memo.as_mut().and_then(|memo| memo.find(parent, name)) {
            return number;
        }
        let mut step = take(&mut self.step);
        let number = self.number(parent, name_step(name, &mut step));
        self.step = step;
        if let Some(memo) = &mut self.memo {
            memo.add(parent, name, number);
        }
        number
    }

    fn members(&mut self, item: &Value, parent: u32, cursor: PolicyCursor<'_>, top: bool) {
        let Some(object) = item.as_object() else { return };
        for (name, value) in object.iter() {
            let system =
                top && matches!(&**name, "_rid" | "_self" | "_etag" | "_attachments" | "_ts");
            let cursor = cursor.name(name);
            if system || !cursor.may_index_below() {
                continue;
            }
            let path = self.number_of_name(parent, name);
            // `id` is charged as a fixed term; the partition key as a fixed term *and* as a leaf.
            let charged = !(top && &**name == "id");
            self.value(value, path, cursor, charged);
        }
    }

    fn value(&mut self, value: &Value, path: u32, cursor: PolicyCursor<'_>, charged: bool) {
        match value {
            Value::Object(object) => {
                self.marker(value, path, cursor, object.is_empty() && charged);
                self.members(value, path, cursor, false);
            }
            Value::Array(elements) => {
                self.marker(value, path, cursor, elements.is_empty() && charged);
                let below = cursor.element();
                if below.may_index_below() {
                    let path = self.number(path, ELEMENT);
                    elements.iter().for_each(|element| self.value(element, path, below, charged));
                }
            }
            scalar if cursor.value_is_indexed() => {
                self.term(path, scalar);
                if charged {
                    self.weigh(path, scalar);
                }
            }
            _ => {}
        }
    }

    fn marker(&mut self, value: &Value, path: u32, cursor: PolicyCursor<'_>, charged: bool) {
        if cursor.value_is_indexed() {
            self.term(path, value);
            if charged {
                self.weigh(path, value);
            }
        }
    }

    fn term(&mut self, path: u32, value: &Value) {
        // Texts are weighed by themselves, all else by its term.
        if self.kept == Kept::Weights && matches!(value, Value::String(_)) {
            return;
        }
        self.scratch.clear();
        ordered::write_term(value, &mut self.scratch);
        if self.kept == Kept::Weights {
            return;
        }
        // Whether it was written as an integer or as a double is known to the item alone.
        let is_large = value.as_number().is_some_and(Number::is_beyond_doubles);
        if ordered::is_cut(&self.scratch) || is_large {
            self.found.terms.push_cut(path, &self.scratch);
        } else {
            self.found.terms.push(path, &self.scratch);
        }
    }

    /// Short strings weigh two terms, everything else one (`docs/protocol/charges.md#index-terms`).
    fn weigh(&mut self, path: u32, value: &Value) {
        let weight = match value {
            Value::String(text) if text.len() <= INDEXED_STRING_MAX => 2,
            _ => 1,
        };
        let hash = match value {
            // A long string counts by its whole text, not by the prefix that is indexed.
            Value::String(text) => weight_hash(path, text.as_bytes()),
            // `term` has just written it there.
            _ => weight_hash(path, &self.scratch),
        };
        self.found.weights.push((hash, weight));
    }

    /// A computed property that the policy names is walked like a property, below a path of its own.
    fn computed(&mut self, item: &Value) {
        let policy = self.policy;
        for (name, value) in computed::values(item, policy) {
            let cursor = policy.indexing.paths.root().name(name);
            if cursor.may_index_below() && value != Value::Undefined {
                let path = self.number(ROOT, &computed_step(name));
                self.value(&value, path, cursor, true);
            }
        }
    }

    /// A composite index is one synthetic path whose value joins the encodings of its members,
    /// descending ones inverted, absent ones encoded as undefined.
    fn composites(&mut self, item: &Value) {
        let policy: &IndexingPolicy = &self.policy.indexing;
        for (number, composite) in policy.composites.iter().enumerate() {
            let mut joined = Vec::new();
            let mut cut = false;
            for member in composite {
                let value = member.path.find(item).cloned().unwrap_or_default();
                let part = ordered::term(&value);
                cut |= ordered::is_cut(&part);
                write_joined(&part, member.descending, &mut joined);
            }
            let path = self.number(ROOT, &composite_step(number));
            if self.kept == Kept::Weights {
                // The terms are not wanted.
            } else if cut {
                self.found.terms.push_cut(path, &joined);
            } else {
                self.found.terms.push(path, &joined);
            }
            self.found.weights.push((weight_hash(path, &joined), 1));
        }
        for (number, spatial) in policy.spatial.iter().enumerate() {
            if let Some(shape) = spatial.path.find(item) {
                // The grid is one of the globe.
                if !self.policy.geometry && self.kept == Kept::Terms {
                    let path = self.number(ROOT, &spatial_step(number));
                    for cell in geo_grid::cells_of(shape) {
                        self.found.terms.push_cut(path, &cell);
                    }
                }
                self.found.weights.push((weight_hash(ROOT, shape.to_json().as_bytes()), 2));
            }
        }
    }
}

/// Tells charged terms apart. A clash, which clients gain nothing by, costs them a term less.
fn weight_hash(path: u32, value: &[u8]) -> u64 {
    xxh3_64_with_seed(value, u64::from(path))
}

/// Appends one member of a composite: zero bytes escaped and an end mark, so that joined parts sort
/// part by part; all bits inverted when descending.
pub(crate) fn write_joined(part: &[u8], descending: bool, out: &mut Vec<u8>) {
    let flip = |byte: u8| if descending { !byte } else { byte };
    for &byte in part {
        out.push(flip(byte));
        if byte == 0 {
            out.push(flip(0xff));
        }
    }
    out.extend_from_slice(&[flip(0), flip(0)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::json::parse;

    fn policy(extra: &str) -> ContainerPolicy {
        let text = format!(r#"{{"partitionKey":{{"paths":["/pk"]}}{extra}}}"#);
        ContainerPolicy::parse(&parse(text.as_bytes()).unwrap()).unwrap()
    }

    fn charged(item: &str, policy: &ContainerPolicy) -> String {
        let terms =
            terms_of(&parse(item.as_bytes()).unwrap(), 1, true, policy, &PathDictionary::default());
        let rates = armilla_model::charge::Rates::article();
        (rates.terms(terms.charged()) + rates.write(item.len())).to_string()
    }

    #[test]
    fn terms_are_counted_as_the_protocol_page_says() {
        assert_eq!(charged(r#"{"id":"x","pk":"a"}"#, &policy("")), "5.9");
        assert_eq!(charged(r#"{"id":"x","pk":"a","s":"b"}"#, &policy("")), "6.29");
        assert_eq!(charged(r#"{"id":"x","pk":"a","n":7}"#, &policy("")), "6.1");
        let nothing = policy(r#","indexingPolicy":{"excludedPaths":[{"path":"/*"}]}"#);
        assert_eq!(charged(r#"{"id":"x","pk":"a","n":1}"#, &nothing), "5.52");
    }

    #[test]
    fn a_version_that_changes_one_short_string_pays_six_terms() {
        let (policy, paths) = (policy(""), PathDictionary::default());
        let of = |text: &str| terms_of(&parse(text.as_bytes()).unwrap(), 1, true, &policy, &paths);
        let (before, after) =
            (of(r#"{"id":"x","pk":"a","s":"b"}"#), of(r#"{"id":"x","pk":"a","s":"c"}"#));
        assert_eq!(before.charged_difference(&after), 6);
        assert_eq!(before.charged_difference(&before), 2);
    }

    #[test]
    fn weights_are_the_same_without_the_terms() {
        let policy = policy(
            r#","indexingPolicy":{"compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"}]],"spatialIndexes":[{"path":"/at/*","types":["Point"]}]}"#,
        );
        let paths = PathDictionary::default();
        let item = parse(
            br#"{"id":"x","pk":"p","a":"text","b":[1,2.5,null,{"c":true}],"e":{},"at":{"type":"Point","coordinates":[1,2]},"n":12345678901234567890}"#,
        )
        .unwrap();
        let (all, weights) = (
            terms_of(&item, 1, true, &policy, &paths),
            weights_of(&item, 1, true, &policy, &paths),
        );
        assert_eq!(weights.charged(), all.charged());
        assert_eq!(weights.charged_difference(&all), all.charged_difference(&all));
    }

    #[test]
    fn joined_parts_sort_part_by_part() {
        let join = |parts: &[(&str, bool)]| {
            let mut out = Vec::new();
            for (text, descending) in parts {
                write_joined(
                    &ordered::term(&parse(text.as_bytes()).unwrap()),
                    *descending,
                    &mut out,
                );
            }
            out
        };
        assert!(join(&[("\"a\"", false), ("2", false)]) < join(&[("\"ab\"", false), ("1", false)]));
        assert!(join(&[("1", false), ("2", true)]) < join(&[("1", false), ("1", true)]));
    }
}
