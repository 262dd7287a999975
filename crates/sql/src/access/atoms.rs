//! Comparisons, membership and patterns as atoms.

use super::{Atom, Found, Node, PathStep, Scope, Test, and, is_scalar, or};
use crate::ast::BinaryOperator;
use crate::bind::is_boolean;
use crate::compiled::{CompiledExpr, ValueSet};
use armilla_model::Value;
use armilla_model::value::Type;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Bound;

impl Scope {
    /// The atom for a predicate over one path and constants, if it is of a known form.
    pub(super) fn atom(&self, expr: &CompiledExpr, wanted: bool) -> Option<Node> {
        match expr {
            CompiledExpr::Binary(operator, left, right) => {
                self.comparison(*operator, left, right, wanted)
            }
            CompiledExpr::InSet(needle, set) => {
                let found = self.find(needle)?;
                Some(if wanted { is_in(&found, set) } else { is_not_in(&found, set) })
            }
            CompiledExpr::Between(parts) => {
                let found = self.find(&parts.0)?;
                let (low, high) = (parts.1.constant()?, parts.2.constant()?);
                let above = compare(&found, BinaryOperator::GreaterOrEqual, low, wanted);
                let below = compare(&found, BinaryOperator::LessOrEqual, high, wanted);
                Some(if wanted { and(vec![above, below]) } else { or(vec![above, below]) })
            }
            CompiledExpr::Like(value, pattern) => {
                let found = self.find(value)?;
                if let Some(text) = pattern.exact() {
                    let value = Value::String(text.clone());
                    return Some(if wanted {
                        found.atom(Test::Equal(value))
                    } else {
                        and(vec![
                            found.atom(Test::Type(vec![Type::String])),
                            not_equal(&found, &value),
                        ])
                    });
                }
                match pattern.prefix() {
                    (prefix, true) if wanted => Some(found.atom(Test::StartsWith(prefix.into()))),
                    _ => None,
                }
            }
            CompiledExpr::Call(function, arguments) => {
                self.function(function.name, arguments, wanted)
            }
            _ => None,
        }
    }

    fn comparison(
        &self,
        operator: BinaryOperator,
        left: &CompiledExpr,
        right: &CompiledExpr,
        wanted: bool,
    ) -> Option<Node> {
        if let Some(value) = right.constant() {
            if let Some(found) = self.find(left) {
                return is_comparison(operator).then(|| compare(&found, operator, value, wanted));
            }
            return self
                .truth_compared(operator, left, value, wanted)
                .or_else(|| self.distance(operator, left, value, wanted));
        }
        let value = left.constant()?;
        let flipped = flip(operator)?;
        match self.find(right) {
            Some(found) => Some(compare(&found, flipped, value, wanted)),
            None => self
                .truth_compared(flipped, right, value, wanted)
                .or_else(|| self.distance(flipped, right, value, wanted)),
        }
    }

    /// `IS_DEFINED(c.a) = false` and the like: a predicate compared with a boolean.
    fn truth_compared(
        &self,
        operator: BinaryOperator,
        predicate: &CompiledExpr,
        value: &Value,
        wanted: bool,
    ) -> Option<Node> {
        let expected = value.as_bool()?;
        let equal = match operator {
            BinaryOperator::Equal => wanted,
            BinaryOperator::NotEqual => !wanted,
            _ => return None,
        };
        let boolean = is_boolean(predicate)
            || matches!(predicate, CompiledExpr::Call(function, _) if super::functions::is_type_check(function.name));
        boolean.then(|| self.node(predicate, expected == equal))
    }
}

fn is_comparison(operator: BinaryOperator) -> bool {
    flip(operator).is_some()
}

/// The operator with its sides exchanged.
fn flip(operator: BinaryOperator) -> Option<BinaryOperator> {
    use BinaryOperator::*;
    Some(match operator {
        Equal => Equal,
        NotEqual => NotEqual,
        Less => Greater,
        LessOrEqual => GreaterOrEqual,
        Greater => Less,
        GreaterOrEqual => LessOrEqual,
        _ => return None,
    })
}

/// The operator that is true where this one is false. Both are undefined in the same places.
fn opposite(operator: BinaryOperator) -> BinaryOperator {
    use BinaryOperator::*;
    match operator {
        Equal => NotEqual,
        NotEqual => Equal,
        Less => GreaterOrEqual,
        LessOrEqual => Greater,
        Greater => LessOrEqual,
        GreaterOrEqual => Less,
        other => other,
    }
}

pub(super) fn compare(
    found: &Found,
    operator: BinaryOperator,
    value: &Value,
    wanted: bool,
) -> Node {
    let operator = if wanted { operator } else { opposite(operator) };
    let not_a_number = value.as_f64().is_some_and(f64::is_nan);
    match operator {
        _ if value.is_undefined() || not_a_number => {
            if not_a_number {
                Node::Unknown
            } else {
                Node::Nothing
            }
        }
        BinaryOperator::Equal => equal(found, value),
        BinaryOperator::NotEqual => not_equal(found, value),
        _ => range(found, operator, value),
    }
}

fn range(found: &Found, operator: BinaryOperator, value: &Value) -> Node {
    use BinaryOperator::*;
    if matches!(value, Value::Null) {
        // null is the only value of its type.
        return match operator {
            LessOrEqual | GreaterOrEqual => equal(found, value),
            _ => Node::Nothing,
        };
    }
    if !is_scalar(value) {
        return Node::Nothing;
    }
    let (low, high) = match operator {
        Less => (Bound::Unbounded, Bound::Excluded(value.clone())),
        LessOrEqual => (Bound::Unbounded, Bound::Included(value.clone())),
        Greater => (Bound::Excluded(value.clone()), Bound::Unbounded),
        _ => (Bound::Included(value.clone()), Bound::Unbounded),
    };
    found.atom(Test::Range { kind: value.kind(), low, high })
}

/// Equality with a scalar is one entry; with an array or object its scalars are candidates.
pub(super) fn equal(found: &Found, value: &Value) -> Node {
    match value {
        Value::Array(elements) => {
            let mut inner = found.clone();
            inner.path.push(PathStep::Element);
            inner.precise = false;
            let parts = elements.iter().map(|element| equal(&inner, element).inexact());
            let marker = found.atom(Test::Type(vec![Type::Array])).inexact();
            and(std::iter::once(marker).chain(parts).collect())
        }
        Value::Object(object) => {
            let parts = object.iter().map(|(name, value)| {
                let mut inner = found.clone();
                inner.path.push(PathStep::Name(name.clone()));
                equal(&inner, value).inexact()
            });
            let marker = found.atom(Test::Type(vec![Type::Object])).inexact();
            and(std::iter::once(marker).chain(parts).collect())
        }
        _ => found.atom(Test::Equal(value.clone())),
    }
}

pub(super) fn not_equal(found: &Found, value: &Value) -> Node {
    if is_scalar(value) {
        found.atom(Test::NotEqual(value.clone()))
    } else {
        found.atom(Test::Defined).inexact()
    }
}

pub(super) fn is_in(found: &Found, set: &ValueSet) -> Node {
    let (scalars, others): (Vec<_>, Vec<_>) = set.values().iter().cloned().partition(is_scalar);
    let mut parts: Vec<_> = others.iter().map(|value| equal(found, value)).collect();
    match scalars.as_slice() {
        [] => {}
        [only] => parts.push(found.atom(Test::Equal(only.clone()))),
        _ => parts.push(found.atom(Test::In(ValueSet::new(scalars)))),
    }
    or(parts)
}

pub(super) fn is_not_in(found: &Found, set: &ValueSet) -> Node {
    let scalars: Vec<_> = set.values().iter().filter(|value| is_scalar(value)).cloned().collect();
    let complete = scalars.len() == set.values().len();
    let node = match scalars.as_slice() {
        [] => found.atom(Test::Defined),
        [only] => found.atom(Test::NotEqual(only.clone())),
        _ => found.atom(Test::NotIn(ValueSet::new(scalars))),
    };
    if complete { node } else { node.inexact() }
}

/// Two ranges of one type on one path with one value are one range.
pub(super) fn merge_ranges(parts: Vec<Node>) -> Vec<Node> {
    let is_range =
        |part: &&Node| matches!(part, Node::Atom(atom) if matches!(atom.test, Test::Range { .. }));
    if parts.iter().filter(is_range).nth(1).is_none() {
        return parts;
    }
    let mut merged: Vec<Node> = Vec::with_capacity(parts.len());
    // Where the range on a path is: a condition may have very many parts.
    let mut ranges: HashMap<(Vec<PathStep>, bool), usize> = HashMap::new();
    for part in parts {
        if let Node::Atom(atom) = &part
            && matches!(atom.test, Test::Range { .. })
            && !atom.path.contains(&PathStep::Element)
        {
            match ranges.entry((atom.path.clone(), atom.computed)) {
                Entry::Vacant(entry) => {
                    entry.insert(merged.len());
                }
                Entry::Occupied(entry) => {
                    match merged.get(*entry.get()).and_then(|known| intersect(known, atom)) {
                        // No item is in both, so none is in all.
                        Some(Node::Nothing) => return vec![Node::Nothing],
                        Some(both) => {
                            merged[*entry.get()] = both;
                            continue;
                        }
                        None => {}
                    }
                }
            }
        }
        merged.push(part);
    }
    merged
}

fn intersect(known: &Node, atom: &Atom) -> Option<Node> {
    let Node::Atom(other) = known else { return None };
    let (
        Test::Range { kind, low, high },
        Test::Range { kind: other_kind, low: other_low, high: other_high },
    ) = (&atom.test, &other.test)
    else {
        return None;
    };
    if kind != other_kind {
        return Some(Node::Nothing);
    }
    let low = tighter(low, other_low, std::cmp::Ordering::Greater);
    let high = tighter(high, other_high, std::cmp::Ordering::Less);
    if is_empty(&low, &high) {
        return Some(Node::Nothing);
    }
    let test = Test::Range { kind: *kind, low, high };
    Some(Node::Atom(Atom { test, exact: atom.exact && other.exact, ..atom.clone() }))
}

fn tighter(left: &Bound<Value>, right: &Bound<Value>, wins: std::cmp::Ordering) -> Bound<Value> {
    let (Some(left_value), Some(right_value)) = (bound_value(left), bound_value(right)) else {
        return if matches!(left, Bound::Unbounded) { right.clone() } else { left.clone() };
    };
    let order = left_value.order(right_value);
    let left_wins = order == wins || (order.is_eq() && matches!(left, Bound::Excluded(_)));
    if left_wins { left.clone() } else { right.clone() }
}

fn bound_value(bound: &Bound<Value>) -> Option<&Value> {
    match bound {
        Bound::Included(value) | Bound::Excluded(value) => Some(value),
        Bound::Unbounded => None,
    }
}

fn is_empty(low: &Bound<Value>, high: &Bound<Value>) -> bool {
    let (Some(low_value), Some(high_value)) = (bound_value(low), bound_value(high)) else {
        return false;
    };
    let open = matches!(low, Bound::Excluded(_)) || matches!(high, Bound::Excluded(_));
    let order = low_value.order(high_value);
    order.is_gt() || (order.is_eq() && open)
}

/// `a = 1 OR a = 2 OR …` is one set.
pub(super) fn merge_equals(parts: Vec<Node>) -> Vec<Node> {
    let mut merged: Vec<Node> = Vec::with_capacity(parts.len());
    let mut sets: Vec<(Atom, Vec<Value>)> = Vec::new();
    let mut places: HashMap<(Vec<PathStep>, bool, bool), usize> = HashMap::new();
    for part in parts {
        match part {
            Node::Atom(atom) if matches!(atom.test, Test::Equal(_) | Test::In(_)) => {
                let values = match &atom.test {
                    Test::Equal(value) => vec![value.clone()],
                    Test::In(set) => set.values().to_vec(),
                    _ => Vec::new(),
                };
                let key = (atom.path.clone(), atom.computed, atom.exact);
                let place = *places.entry(key).or_insert(sets.len());
                match sets.get_mut(place) {
                    Some((_, known)) => known.extend(values),
                    None => sets.push((atom, values)),
                }
            }
            other => merged.push(other),
        }
    }
    for (atom, values) in sets {
        let set = ValueSet::new(values);
        let test = match set.values() {
            [only] => Test::Equal(only.clone()),
            _ => Test::In(set),
        };
        merged.push(Node::Atom(Atom { test, ..atom }));
    }
    merged
}
