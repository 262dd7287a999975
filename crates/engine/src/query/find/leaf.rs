//! One test as spans of encoded values at one numbered path.

use crate::computed;
use crate::container::Container;
use crate::geo_grid;
use crate::indexing::{ROOT, write_joined};
use crate::query::find::dictionary::DictionaryFilter;
use armilla_index::ValueRange;
use armilla_model::ordered::{is_cut, tag, term};
use armilla_model::path::Path;
use armilla_model::policy::{CompositePath, ContainerPolicy, SpatialIndex};
use armilla_model::value::{Type, Value};
use armilla_sql::access::{Atom, Node, PathStep, Predicate, Spatial, Test};
use std::ops::Bound;

/// A test on a path.
#[derive(Clone, Debug)]
pub(in crate::query) struct Leaf {
    /// The path's number; nothing when no item has ever had it.
    pub(in crate::query) path: Option<u32>,
    /// The values that may pass, in order and disjoint.
    pub(in crate::query) ranges: Vec<ValueRange>,
    /// Tests the values in the spans one by one.
    pub(in crate::query) filter: Option<DictionaryFilter>,
    /// Those without a value in the spans pass.
    pub(in crate::query) complement: bool,
    /// Values in the spans surely pass.
    pub(in crate::query) exact: bool,
}

/// The number of a path, if it is indexed at all: `Some(None)` when no item has it.
pub(in crate::query) fn path_number(
    steps: &[PathStep],
    container: &Container,
    policy: &ContainerPolicy,
) -> Option<Option<u32>> {
    if !policy.indexing.enabled || !is_indexed(steps, policy) {
        return None;
    }
    Some(number_below(ROOT, steps, container))
}

/// The same for a path whose first step is a computed property.
pub(in crate::query) fn computed_number(
    steps: &[PathStep],
    container: &Container,
    policy: &ContainerPolicy,
) -> Option<Option<u32>> {
    let Some((PathStep::Name(first), rest)) = steps.split_first() else { return None };
    let enabled = policy.indexing.enabled && computed::is_indexed(first, policy);
    if !enabled || !is_walked(steps, policy) {
        return None;
    }
    let number = container.paths.find_computed(first);
    Some(number.and_then(|number| number_below(number, rest, container)))
}

fn number_below(number: u32, steps: &[PathStep], container: &Container) -> Option<u32> {
    steps.iter().try_fold(number, |parent, step| match step {
        PathStep::Name(name) => container.paths.find_name(parent, name),
        PathStep::Element => container.paths.find_element(parent),
    })
}

fn is_indexed(steps: &[PathStep], policy: &ContainerPolicy) -> bool {
    if let Some(PathStep::Name(first)) = steps.first() {
        match &**first {
            "_rid" | "_self" | "_etag" | "_attachments" => return false,
            "_ts" => return steps.len() == 1,
            _ => {}
        }
    }
    is_walked(steps, policy)
}

/// True when the policy lets a walk over an item come here and leave terms.
fn is_walked(steps: &[PathStep], policy: &ContainerPolicy) -> bool {
    let mut cursor = policy.indexing.paths.root();
    for part in steps {
        // The walk over an item turns back where nothing below can be indexed.
        if !cursor.may_index_below() {
            return false;
        }
        cursor = match part {
            PathStep::Name(name) => cursor.name(name),
            PathStep::Element => cursor.element(),
        };
    }
    cursor.value_is_indexed()
}

impl Leaf {
    /// Finds an atom's path and values; nothing when the index cannot serve it.
    pub(in crate::query) fn resolve(
        atom: &Atom,
        container: &Container,
        policy: &ContainerPolicy,
    ) -> Option<Self> {
        let path = match &atom.test {
            Test::Spatial(_) if atom.computed => return None,
            Test::Spatial(test) => return Self::spatial(&atom.path, test, container, policy),
            _ if atom.computed => computed_number(&atom.path, container, policy)?,
            _ => path_number(&atom.path, container, policy)?,
        };
        let spans = spans(&atom.test)?;
        Some(Self {
            path,
            ranges: spans.ranges,
            filter: spans.predicate.map(DictionaryFilter::new),
            complement: spans.complement,
            exact: spans.exact && atom.exact,
        })
    }

    /// The cells of the grid that a shape can reach; each item is looked at again.
    fn spatial(
        path: &[PathStep],
        test: &Spatial,
        container: &Container,
        policy: &ContainerPolicy,
    ) -> Option<Self> {
        let of_path = |index: &SpatialIndex| is_same(&index.path, path);
        let number = policy.indexing.spatial.iter().position(of_path)?;
        if policy.geometry {
            return None;
        }
        let path = container.paths.find_spatial(number);
        let ranges = geo_grid::reach(test)?;
        Some(Self { path, ranges, filter: None, complement: false, exact: false })
    }

    /// A composite index whose first members are compared for equality by some of these tests, and
    /// the next one perhaps by a range: one lookup for all of them. It says nothing that the tests
    /// do not say.
    pub(in crate::query) fn composite(
        tests: &[Node],
        container: &Container,
        policy: &ContainerPolicy,
    ) -> Option<Self> {
        let composites = policy.indexing.composites.iter().enumerate();
        let used = composites.map(|(number, members)| (number, composite_span(members, tests)));
        let (number, (served, span)) = used.max_by_key(|(_, (served, _))| *served)?;
        if served < 2 {
            return None;
        }
        let path = container.paths.find_composite(number);
        Some(Self { path, ranges: vec![span], filter: None, complement: false, exact: true })
    }
}

/// How many members of a composite index some tests pin, and where it then has to be read.
fn composite_span(members: &[CompositePath], tests: &[Node]) -> (usize, ValueRange) {
    let mut joined = Vec::new();
    for (served, member) in members.iter().enumerate() {
        let on_member = || {
            tests.iter().filter_map(|test| match test {
                Node::Atom(atom) if !atom.computed && is_same(&member.path, &atom.path) => {
                    Some(&atom.test)
                }
                _ => None,
            })
        };
        let equal = on_member().find_map(|test| match test {
            Test::Equal(value) => Some(term(value)),
            _ => None,
        });
        if let Some(equal) = equal {
            write_joined(&equal, member.descending, &mut joined);
            continue;
        }
        let ranged =
            on_member().find(|test| matches!(test, Test::Range { .. } | Test::StartsWith(_)));
        let spans = ranged.and_then(spans);
        return match spans.as_ref().and_then(|spans| spans.ranges.first()) {
            Some(range) => (served + 1, joined_span(&joined, range, member.descending)),
            None => (served, ValueRange::prefix(&joined)),
        };
    }
    (members.len(), ValueRange::prefix(&joined))
}

/// The joined values that begin with `head` and go on with a member inside `range`.
///
/// Joining keeps the order of members, or reverses it, and no joined member begins another one; so
/// each bound becomes the beginning or the end of what begins with it.
fn joined_span(head: &[u8], range: &ValueRange, descending: bool) -> ValueRange {
    let beginning_with = |member: &[u8]| {
        let mut joined = head.to_vec();
        write_joined(member, descending, &mut joined);
        ValueRange::prefix(&joined)
    };
    let (first, last) =
        if descending { (&range.end, &range.start) } else { (&range.start, &range.end) };
    let start = match first {
        Bound::Included(member) => beginning_with(member).start,
        Bound::Excluded(member) => match beginning_with(member).end {
            Bound::Excluded(behind) => Bound::Included(behind),
            other => other,
        },
        Bound::Unbounded => ValueRange::prefix(head).start,
    };
    let end = match last {
        Bound::Included(member) => beginning_with(member).end,
        Bound::Excluded(member) => match beginning_with(member).start {
            Bound::Included(at) => Bound::Excluded(at),
            other => other,
        },
        Bound::Unbounded => ValueRange::prefix(head).end,
    };
    ValueRange::new(start, end)
}

fn is_same(path: &Path, steps: &[PathStep]) -> bool {
    path.0.len() == steps.len()
        && path.0.iter().zip(steps).all(|(name, step)| match step {
            PathStep::Name(step) => **step == **name,
            PathStep::Element => false,
        })
}

#[derive(Default)]
struct Spans {
    ranges: Vec<ValueRange>,
    predicate: Option<Predicate>,
    complement: bool,
    exact: bool,
}

fn spans(test: &Test) -> Option<Spans> {
    let exact = |ranges: Vec<ValueRange>| Spans { ranges, exact: true, ..Spans::default() };
    Some(match test {
        Test::Equal(value) => equal(std::slice::from_ref(value)),
        Test::In(set) => equal(set.values()),
        Test::NotEqual(value) => not_equal(std::slice::from_ref(value)),
        Test::NotIn(set) => not_equal(set.values()),
        Test::Range { kind, low, high } => {
            let (low, low_exact) = lower(*kind, low);
            let (high, high_exact) = upper(*kind, high);
            let ranges = vec![ValueRange::new(low, high)];
            Spans { ranges, exact: low_exact && high_exact, ..Spans::default() }
        }
        Test::StartsWith(prefix) => {
            let bytes = term(&Value::String(prefix.clone()));
            if is_cut(&bytes) {
                Spans { ranges: vec![ValueRange::exact(bytes)], ..Spans::default() }
            } else {
                exact(vec![ValueRange::prefix(&bytes)])
            }
        }
        Test::Defined => exact(vec![ValueRange::all()]),
        Test::NotDefined => Spans { complement: true, ..exact(vec![ValueRange::all()]) },
        Test::Type(types) => exact(types_ranges(types)),
        Test::NotType(types) => Spans { complement: true, ..exact(types_ranges(types)) },
        Test::Predicate(predicate) => {
            Spans { predicate: Some(predicate.clone()), ..exact(vec![ValueRange::all()]) }
        }
        Test::Spatial(_) => return None,
    })
}

/// The encodings of values in order, each once.
fn terms(values: &[Value]) -> Vec<Vec<u8>> {
    let mut terms: Vec<_> = values.iter().map(term).collect();
    terms.sort_unstable();
    terms.dedup();
    terms
}

fn equal(values: &[Value]) -> Spans {
    let terms = terms(values);
    let exact = !terms.iter().any(|term| is_cut(term));
    let ranges = terms.into_iter().map(ValueRange::exact).collect();
    Spans { ranges, exact, ..Spans::default() }
}

fn not_equal(values: &[Value]) -> Spans {
    let terms = terms(values);
    // A cut value stands for others too, which are not equal.
    let exact = !terms.iter().any(|term| is_cut(term));
    let mut ranges = Vec::with_capacity(terms.len() + 1);
    let mut start = Bound::Unbounded;
    for term in terms.into_iter().filter(|term| !is_cut(term)) {
        ranges.push(ValueRange::new(start, Bound::Excluded(term.clone())));
        start = Bound::Excluded(term);
    }
    ranges.push(ValueRange::new(start, Bound::Unbounded));
    Spans { ranges, exact, ..Spans::default() }
}

fn lower(kind: Type, bound: &Bound<Value>) -> (Bound<Vec<u8>>, bool) {
    term_of_bound(bound).unwrap_or_else(|| (Bound::Included(vec![tag(kind)]), true))
}

fn upper(kind: Type, bound: &Bound<Value>) -> (Bound<Vec<u8>>, bool) {
    term_of_bound(bound).unwrap_or_else(|| match kind {
        // NaN, which computed properties may have, lies behind all numbers and is no larger than any.
        Type::Number => (Bound::Included(term(&Value::from(f64::INFINITY))), true),
        _ => (Bound::Excluded(vec![behind(kind)]), true),
    })
}

/// The term of a bound, and whether it is exact: a term that was cut stands for larger values too, so it is
/// included. Nothing without a bound.
fn term_of_bound(bound: &Bound<Value>) -> Option<(Bound<Vec<u8>>, bool)> {
    let (Bound::Included(value) | Bound::Excluded(value)) = bound else { return None };
    let term = term(value);
    Some(match (is_cut(&term), bound) {
        (true, _) => (Bound::Included(term), false),
        (false, Bound::Excluded(_)) => (Bound::Excluded(term), true),
        (false, _) => (Bound::Included(term), true),
    })
}

/// The first byte behind all encodings of a type.
fn behind(kind: Type) -> u8 {
    // true and false have a byte each.
    if kind == Type::Bool { tag(kind) + 2 } else { tag(kind) + 1 }
}

fn types_ranges(types: &[Type]) -> Vec<ValueRange> {
    let mut types = types.to_vec();
    types.sort_unstable();
    types.dedup();
    types.into_iter().map(|kind| ValueRange::half_open([tag(kind)], [behind(kind)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_spans_hold_what_is_inside_and_nothing_else() {
        let values = ["", "\0", "\0\0", "a", "a\0", "ab", "b", "\u{7f}"];
        let bounds: Vec<Bound<Vec<u8>>> = values
            .iter()
            .map(|value| value.as_bytes().to_vec())
            .flat_map(|value| [Bound::Included(value.clone()), Bound::Excluded(value)])
            .chain([Bound::Unbounded])
            .collect();
        for descending in [false, true] {
            let join = |head: &str, member: &str| {
                let mut joined = Vec::new();
                write_joined(head.as_bytes(), false, &mut joined);
                write_joined(member.as_bytes(), descending, &mut joined);
                write_joined(b"rest", false, &mut joined);
                joined
            };
            let mut head = Vec::new();
            write_joined(b"h", false, &mut head);
            for (start, end) in bounds.iter().flat_map(|s| bounds.iter().map(move |e| (s, e))) {
                let range = ValueRange::new(start.clone(), end.clone());
                let span = joined_span(&head, &range, descending);
                for value in values {
                    assert_eq!(
                        span.contains(&join("h", value)),
                        range.contains(value.as_bytes()),
                        "{value:?} in {range:?}, descending: {descending}"
                    );
                    assert!(!span.contains(&join("g", value)) && !span.contains(&join("i", value)));
                }
            }
        }
    }
}
