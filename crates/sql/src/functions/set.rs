//! Arrays as sets: deep equality decides what is the same element.

use super::{ARRAY_RESULT_MAX, Function, Kind, defined, elements};
use crate::effort::{Effort, steps_through};
use armilla_model::Value;
use std::cmp::Ordering;
use std::collections::BTreeSet;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("SETUNION", 2, |context, arguments| {
        defined(union(arguments, &mut context.effort))
    })
    .or(&["SET_UNION"])
    .gives(Kind::Array, "Distinct elements of both arrays, those of the first first."),
    Function::exact("SETINTERSECT", 2, |context, arguments| {
        defined(
            affordable(arguments, &mut context.effort)
                .map(|(left, right)| intersection(left, right)),
        )
    })
    .or(&["SET_INTERSECT"])
    .gives(
        Kind::Array,
        "Distinct elements of both, in the order of the first, or of a much shorter second.",
    ),
    Function::exact("SETDIFFERENCE", 2, |context, arguments| {
        defined(
            affordable(arguments, &mut context.effort)
                .map(|(left, right)| selected(left, right, false)),
        )
    })
    .or(&["SET_DIFFERENCE"])
    .gives(Kind::Array, "Distinct elements of the first array that are not in the second."),
    Function::exact("SETEQUAL", 2, |context, arguments| {
        defined(
            affordable(arguments, &mut context.effort)
                .map(|(left, right)| is_same_set(left, right)),
        )
    })
    .or(&["SET_EQUAL"])
    .gives(Kind::Bool, "True when each array has every element of the other."),
];

// Sorting by the order of values finds equal ones in n log n steps.
#[derive(Clone, Copy)]
struct Element<'a>(&'a Value);

impl Ord for Element<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.order(other.0)
    }
}

impl PartialOrd for Element<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element<'_> {}

fn both(arguments: &[Value]) -> Option<(&[Value], &[Value])> {
    elements(arguments, 0).zip(elements(arguments, 1))
}

// Both arrays, if there are steps enough to sort them.
fn affordable<'v>(
    arguments: &'v [Value],
    effort: &mut Effort<'_>,
) -> Option<(&'v [Value], &'v [Value])> {
    let (left, right) = both(arguments)?;
    let through: u64 = arguments.iter().map(|array| steps_through(array, effort.left())).sum();
    let rounds = u64::from((left.len() + right.len()).max(2).ilog2());
    effort.spend(through.saturating_mul(rounds)).ok()?;
    Some((left, right))
}

fn set_of(array: &[Value]) -> BTreeSet<Element<'_>> {
    array.iter().map(Element).collect()
}

fn union(arguments: &[Value], effort: &mut Effort<'_>) -> Option<Value> {
    let (left, right) = affordable(arguments, effort)?;
    let mut seen = BTreeSet::new();
    let distinct = left.iter().chain(right).filter(|value| is_new(&mut seen, value));
    let result: Vec<Value> = distinct.cloned().collect();
    (result.len() <= ARRAY_RESULT_MAX).then(|| Value::array(result))
}

// NaN, and what holds one, has a place in the order and equals nothing, itself included.
#[expect(clippy::eq_op, reason = "NaN is not equal to itself")]
fn equals_itself(value: &Value) -> bool {
    value == value
}

fn is_new<'v>(seen: &mut BTreeSet<Element<'v>>, value: &'v Value) -> bool {
    seen.insert(Element(value)) || !equals_itself(value)
}

fn is_in(set: &BTreeSet<Element<'_>>, value: &Value) -> bool {
    set.contains(&Element(value)) && equals_itself(value)
}

fn is_same_set(left: &[Value], right: &[Value]) -> bool {
    set_of(left) == set_of(right) && left.iter().all(equals_itself)
}

// The order is the first array's, but the second's where that is shorter by two or more: so say the
// published example and every answer of the service that is known.
fn intersection(left: &[Value], right: &[Value]) -> Value {
    let by_right = left.len() >= right.len() + 2;
    if by_right { selected(right, left, true) } else { selected(left, right, true) }
}

// The distinct elements of one array that are, or are not, in the other.
fn selected(array: &[Value], other: &[Value], present: bool) -> Value {
    let other = set_of(other);
    let mut seen = BTreeSet::new();
    let kept =
        array.iter().filter(|value| is_in(&other, value) == present && is_new(&mut seen, value));
    Value::array(kept.cloned().collect())
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::check;

    #[test]
    fn documented_examples() {
        check(&[
            ("SETUNION", "[[1,2,3,4],[3,4,5,6]]", "[1,2,3,4,5,6]"),
            ("SETUNION", "[[1,1],[2,2.0]]", "[1,2]"),
            ("SETUNION", r#"[[1,2,"A","B"],["A",1]]"#, r#"[1,2,"A","B"]"#),
            ("SETUNION", "[[1],2]", "undefined"),
            ("SETINTERSECT", "[[1,2,3,4],[3,4,5,6]]", "[3,4]"),
            ("SETINTERSECT", "[[1,2,3,4],[1,1,1,1]]", "[1]"),
            ("SETINTERSECT", r#"[[1,2,"A","B"],["A",1]]"#, r#"["A",1]"#),
            ("SETINTERSECT", "[[1,2,3],[3,2,1]]", "[1,2,3]"),
            ("SETINTERSECT", r#"[[{"a":1,"b":2}],[{"b":2,"a":1}]]"#, r#"[{"a":1,"b":2}]"#),
            ("SETDIFFERENCE", "[[1,2,6,7],[1,2,3]]", "[6,7]"),
            ("SETDIFFERENCE", "[[1,1,1,1],[2,3,4]]", "[1]"),
            ("SETDIFFERENCE", r#"[[1,"1",null],[1]]"#, r#"["1",null]"#),
            ("SETEQUAL", "[[1,2,3,3],[1,2,2,3,1,2]]", "true"),
            ("SETEQUAL", "[[],[1,2,3]]", "false"),
            ("SETEQUAL", "[[],[]]", "true"),
            ("SETEQUAL", r#"[[1],["1"]]"#, "false"),
        ]);
    }
}
