//! Conditions in words, for explanations.

use armilla_model::value::{Type, Value};
use armilla_sql::access::{Node, PathStep, Test};
use std::ops::Bound;

/// Characters of a value that are shown.
const VALUE_SHOWN_MAX: usize = 40;

/// A condition in words: `/type = "post" and /n > 3`.
pub(in crate::query) fn describe(node: &Node) -> String {
    match node {
        Node::All => "every item".to_owned(),
        Node::Nothing => "no item".to_owned(),
        Node::Unknown => "a condition on items".to_owned(),
        Node::Atom(atom) => of_test(&describe_path(&atom.path), &atom.test),
        Node::And(parts) => joined(parts, " and "),
        Node::Or(parts) => joined(parts, " or "),
    }
}

fn joined(parts: &[Node], between: &str) -> String {
    /// Parts that are shown.
    const PARTS_SHOWN_MAX: usize = 4;
    let shown = parts.iter().take(PARTS_SHOWN_MAX).map(|part| match part {
        Node::And(_) | Node::Or(_) => format!("({})", describe(part)),
        other => describe(other),
    });
    let shown = shown.collect::<Vec<_>>().join(between);
    match parts.len().checked_sub(PARTS_SHOWN_MAX) {
        Some(more @ 1..) => format!("{shown}{between}{more} more"),
        _ => shown,
    }
}

/// A path as policies write it.
pub(in crate::query) fn describe_path(steps: &[PathStep]) -> String {
    let step = |step: &PathStep| match step {
        PathStep::Name(name) => format!("/{name}"),
        PathStep::Element => "/[]".to_owned(),
    };
    steps.iter().map(step).collect()
}

fn of_test(path: &str, test: &Test) -> String {
    match test {
        Test::Equal(value) => format!("{path} = {}", shown(value)),
        Test::NotEqual(value) => format!("{path} != {}", shown(value)),
        Test::In(set) => format!("{path} is one of {} values", set.values().len()),
        Test::NotIn(set) => format!("{path} is none of {} values", set.values().len()),
        Test::Range { kind, low, high } => of_range(path, *kind, low, high),
        Test::StartsWith(prefix) => {
            format!("{path} starts with {}", shown(&Value::String(prefix.clone())))
        }
        Test::Defined => format!("{path} is defined"),
        Test::NotDefined => format!("{path} is not defined"),
        Test::Type(kinds) => format!("{path} is {}", of_types(kinds)),
        Test::NotType(kinds) => format!("{path} is not {}", of_types(kinds)),
        Test::Predicate(_) => format!("a predicate on each value of {path}"),
        Test::Spatial(_) => format!("{path} lies near or within a shape"),
    }
}

fn of_range(path: &str, kind: Type, low: &Bound<Value>, high: &Bound<Value>) -> String {
    let low = match low {
        Bound::Included(value) => Some(format!("{path} >= {}", shown(value))),
        Bound::Excluded(value) => Some(format!("{path} > {}", shown(value))),
        Bound::Unbounded => None,
    };
    let high = match high {
        Bound::Included(value) => Some(format!("{path} <= {}", shown(value))),
        Bound::Excluded(value) => Some(format!("{path} < {}", shown(value))),
        Bound::Unbounded => None,
    };
    match (low, high) {
        (None, None) => format!("{path} is {}", of_types(&[kind])),
        (low, high) => low.into_iter().chain(high).collect::<Vec<_>>().join(" and "),
    }
}

/// `of type number or string`.
fn of_types(kinds: &[Type]) -> String {
    let names: Vec<String> = kinds.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect();
    format!("of type {}", names.join(" or "))
}

fn shown(value: &Value) -> String {
    let text = value.to_json();
    match text.char_indices().nth(VALUE_SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_sql::access::analyse;
    use armilla_sql::{Schema, compile, parse};

    #[test]
    fn conditions_read_like_sentences() {
        let describe = |condition: &str| {
            let text = format!("SELECT * FROM c WHERE {condition}");
            let compiled = compile(&parse(&text).unwrap(), &[], &Schema::none()).unwrap();
            describe(&analyse(&compiled))
        };
        assert_eq!(describe("c.type = 'post' AND c.n > 3"), r#"/type = "post" and /n > 3"#);
        assert_eq!(describe("c.a.b IN (1, 2, 3)"), "/a/b is one of 3 values");
        assert_eq!(describe("STARTSWITH(c.name, 'al')"), r#"/name starts with "al""#);
    }
}
