//! Array functions: membership, slices, and aggregates over one array.

use super::{ARRAY_RESULT_MAX, Function, Kind, all_of, any_of, defined, elements, optional};
use crate::effort::{Effort, steps_through};
use armilla_model::value::Type;
use armilla_model::{Number, Object, Value};
use std::collections::HashMap;

pub(super) const FUNCTIONS: &[Function] =
    &[
        Function::variadic("ARRAY_CONCAT", 2, |_, arguments| defined(concat(arguments)))
            .or(&["ARRAYCONCAT"])
            .gives(Kind::Array, "The elements of all arrays in order."),
        Function::between("ARRAY_CONTAINS", 2, 3, |context, arguments| {
            defined(contains(arguments, &mut context.effort))
        })
        .or(&["ARRAYCONTAINS"])
        .gives(
            Kind::Bool,
            "True when an element equals the value, or has its members if third is `true`.",
        ),
        Function::between("_TRY_ARRAY_CONTAINS", 2, 3, |context, arguments| {
            contains(arguments, &mut context.effort).unwrap_or(false).into()
        })
        .seeing_undefined()
        .gives(Kind::Bool, "As `ARRAY_CONTAINS`, but false where that is undefined (assumed)."),
        Function::variadic("ARRAY_CONTAINS_ANY", 2, |context, arguments| {
            defined(any_of(contains_each(arguments, &mut context.effort)))
        })
        .seeing_undefined()
        .or(&["ARRAYCONTAINSANY"])
        .gives(Kind::Bool, "True when the array holds one of the values."),
        Function::variadic("ARRAY_CONTAINS_ALL", 2, |context, arguments| {
            defined(all_of(contains_each(arguments, &mut context.effort)))
        })
        .seeing_undefined()
        .or(&["ARRAYCONTAINSALL"])
        .gives(Kind::Bool, "True when the array holds all the values."),
        Function::exact("ARRAY_LENGTH", 1, |_, arguments| {
            defined(elements(arguments, 0).and_then(|elements| i64::try_from(elements.len()).ok()))
        })
        .or(&["ARRAYLENGTH"])
        .gives(Kind::Number, "Number of elements."),
        Function::between("ARRAY_SLICE", 2, 3, |_, arguments| defined(slice(arguments)))
            .or(&["ARRAYSLICE"])
            .gives(Kind::Array, "Elements from a start (negative: from the end), at most so many."),
        Function::exact("ARRAY_SUM", 1, |_, arguments| {
            defined(numbers(arguments).and_then(|numbers| sum(&numbers)).map(Value::Number))
        })
        .or(&["ARRAYSUM"])
        .gives(Kind::Number, "Sum of the numbers of an array; undefined for an empty one."),
        Function::exact("ARRAY_AVG", 1, |_, arguments| {
            defined(numbers(arguments).and_then(average).map(Value::Number))
        })
        .or(&["ARRAYAVG"])
        .gives(Kind::Number, "Average of the numbers of an array; undefined for an empty one."),
        Function::exact("ARRAY_MEDIAN", 1, |_, arguments| {
            defined(numbers(arguments).and_then(median).map(Value::Number))
        })
        .or(&["ARRAYMEDIAN"])
        .gives(Kind::Number, "Median of the numbers of an array; undefined for an empty one."),
        Function::exact("ARRAY_MIN", 1, |context, arguments| {
            defined(primitives(arguments, &mut context.effort).and_then(|values| {
                values.into_iter().min_by(|left, right| left.order(right)).cloned()
            }))
        })
        .or(&["ARRAYMIN"])
        .gives(Kind::Any, "Smallest element; undefined when one is an array or object."),
        Function::exact("ARRAY_MAX", 1, |context, arguments| {
            defined(primitives(arguments, &mut context.effort).and_then(|values| {
                values.into_iter().max_by(|left, right| left.order(right)).cloned()
            }))
        })
        .or(&["ARRAYMAX"])
        .gives(Kind::Any, "Largest element; undefined when one is an array or object."),
    ];

/// Objects with more members than this are searched through a map.
const MEMBERS_SCANNED_MAX: usize = 16;

fn concat(arguments: &[Value]) -> Option<Value> {
    let arrays: Option<Vec<_>> = arguments.iter().map(Value::as_array).collect();
    let arrays = arrays?;
    let length: usize = arrays.iter().map(|array| array.len()).sum();
    (length <= ARRAY_RESULT_MAX).then(|| Value::array(arrays.concat()))
}

fn contains(arguments: &[Value], effort: &mut Effort<'_>) -> Option<bool> {
    let array = elements(arguments, 0)?;
    let wanted = arguments.get(1).filter(|wanted| wanted.is_defined())?;
    spend_search(array, wanted, effort)?;
    let partial = optional(arguments, 2, false, Value::as_bool)?;
    Some(match partial {
        true => array.iter().any(|element| matches_partly(element, wanted)),
        false => holds(array, wanted),
    })
}

fn contains_each<'c>(
    arguments: &'c [Value],
    effort: &'c mut Effort<'_>,
) -> impl Iterator<Item = Option<bool>> {
    let array = elements(arguments, 0);
    arguments[1..].iter().map(move |wanted| {
        let array = array.filter(|_| wanted.is_defined())?;
        spend_search(array, wanted, effort)?;
        Some(holds(array, wanted))
    })
}

// An element is compared as far as the wanted value goes, at most.
fn spend_search(array: &[Value], wanted: &Value, effort: &mut Effort<'_>) -> Option<()> {
    let each = steps_through(wanted, effort.left());
    effort.spend((array.len() as u64).saturating_mul(each)).ok()
}

fn holds(array: &[Value], wanted: &Value) -> bool {
    array.iter().any(|element| element.kind() == wanted.kind() && element == wanted)
}

// An object matches what has all its members, and so do the objects inside it. Arrays match element
// by element and are of one length. Anything else must be equal.
fn matches_partly(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => has_members(value, wanted),
        (Value::Array(value), Value::Array(wanted)) => {
            value.len() == wanted.len()
                && value
                    .iter()
                    .zip(wanted.iter())
                    .all(|(value, wanted)| matches_partly(value, wanted))
        }
        _ => value == wanted,
    }
}

fn has_members(object: &Object, wanted: &Object) -> bool {
    if wanted.len() > object.len() {
        return false;
    }
    if wanted.len() <= MEMBERS_SCANNED_MAX {
        return wanted.iter().all(|(name, wanted)| {
            object.get(name).is_some_and(|value| matches_partly(value, wanted))
        });
    }
    let members: HashMap<&str, &Value> =
        object.iter().map(|(name, value)| (&**name, value)).collect();
    wanted.iter().all(|(name, wanted)| {
        members.get(&**name).is_some_and(|value| matches_partly(value, wanted))
    })
}

fn slice(arguments: &[Value]) -> Option<Value> {
    let array = elements(arguments, 0)?;
    let start = arguments.get(1)?.as_i64()?;
    let count = optional(arguments, 2, i64::MAX, Value::as_i64)?.max(0);
    let from_end = usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX);
    let start = if start < 0 { array.len().saturating_sub(from_end) } else { from_end };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    Some(Value::array(array.iter().skip(start).take(count).cloned().collect()))
}

// The elements as numbers; nothing when one is of another type, or there is none.
fn numbers(arguments: &[Value]) -> Option<Vec<Number>> {
    let numbers =
        elements(arguments, 0)?.iter().map(Value::as_number).collect::<Option<Vec<_>>>()?;
    (!numbers.is_empty()).then_some(numbers)
}

fn sum(numbers: &[Number]) -> Option<Number> {
    numbers.iter().copied().reduce(Number::plus)
}

fn average(numbers: Vec<Number>) -> Option<Number> {
    Some(sum(&numbers)?.divided_by(Number::Int(i64::try_from(numbers.len()).ok()?)))
}

fn median(mut numbers: Vec<Number>) -> Option<Number> {
    numbers.sort_unstable_by(|left, right| left.total_cmp(*right));
    let upper = *numbers.get(numbers.len() / 2)?;
    Some(match numbers.len() % 2 {
        0 => numbers[numbers.len() / 2 - 1].plus(upper).divided_by(Number::Int(2)),
        _ => upper,
    })
}

fn primitives<'v>(arguments: &'v [Value], effort: &mut Effort<'_>) -> Option<Vec<&'v Value>> {
    let array = elements(arguments, 0)?;
    effort.spend(steps_through(arguments.first()?, effort.left())).ok()?;
    let primitive = array.iter().all(|element| element.kind() < Type::Array);
    primitive.then(|| array.iter().filter(|element| element.is_defined()).collect())
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{check, evaluate};
    use armilla_model::{Object, Value};

    #[test]
    fn membership() {
        check(&[
            ("ARRAY_CONTAINS", r#"[["coats","jackets"],"coats"]"#, "true"),
            ("ARRAY_CONTAINS", r#"[["coats","jackets"],"hoodies"]"#, "false"),
            ("ARRAY_CONTAINS", r#"[[1,"1",null],null]"#, "true"),
            ("ARRAY_CONTAINS", r#"[[1,2],"1"]"#, "false"),
            ("ARRAY_CONTAINS", "[[[1,2],[3]],[3]]", "true"),
            ("ARRAY_CONTAINS", r#"[[{"a":1,"b":2}],{"b":2,"a":1}]"#, "true"),
            ("ARRAY_CONTAINS", r#"[[{"a":1,"b":2}],{"a":1}]"#, "false"),
            ("ARRAY_CONTAINS", r#"[[{"a":1,"b":2}],{"a":1},true]"#, "true"),
            ("ARRAY_CONTAINS", r#"[[{"a":{"x":1,"y":2}}],{"a":{"x":1}},true]"#, "true"),
            ("ARRAY_CONTAINS", r#"[[{"a":[1,2]}],{"a":[1]},true]"#, "false"),
            ("ARRAY_CONTAINS", r#"[[[{"a":1,"b":2}]],[{"a":1}],true]"#, "true"),
            ("ARRAY_CONTAINS", r#"[[{"a":[{"x":1,"y":2}]}],{"a":[{"x":1}]},true]"#, "true"),
            ("ARRAY_CONTAINS", r#"[[1,2],2,true]"#, "true"),
            ("ARRAY_CONTAINS", r#"["abc","a"]"#, "undefined"),
            ("ARRAY_CONTAINS", r#"[[1],1,"x"]"#, "undefined"),
            ("ARRAY_CONTAINS_ANY", r#"[[1,true,"3",[1,2]],7,[1,2]]"#, "true"),
            ("ARRAY_CONTAINS_ANY", "[[1,2,3,4],5,6]", "false"),
            ("ARRAY_CONTAINS_ANY", "[[],1,2]", "false"),
            ("ARRAY_CONTAINS_ALL", "[[1,2,3,4],2,3,4]", "true"),
            ("ARRAY_CONTAINS_ALL", "[[1,2,3,4],4,5]", "false"),
            ("ARRAY_CONTAINS_ALL", "[1,4,5]", "undefined"),
        ]);
        let array = || Value::array(vec![1.into(), 2.into()]);
        let run = |name: &str, wanted: i64| {
            evaluate(name, &[array(), wanted.into(), Value::Undefined]).to_string()
        };
        assert_eq!(run("ARRAY_CONTAINS_ANY", 1), "true");
        assert_eq!(run("ARRAY_CONTAINS_ANY", 5), "undefined");
        assert_eq!(run("ARRAY_CONTAINS_ALL", 1), "undefined");
        assert_eq!(run("ARRAY_CONTAINS_ALL", 5), "false");
    }

    #[test]
    fn large_objects_match_partly_too() {
        let object = |members: i64| {
            let members = (0..members).map(|n| (format!("m{n}").into(), n.into()));
            Value::object(members.collect::<Object>())
        };
        let array = Value::array(vec![object(40)]);
        let run = |wanted| evaluate("ARRAY_CONTAINS", &[array.clone(), wanted, true.into()]);
        assert_eq!(run(object(30)), Value::Bool(true));
        assert_eq!(run(object(41)), Value::Bool(false));
    }

    #[test]
    fn slices_and_length() {
        check(&[
            ("ARRAY_CONCAT", "[[1],[[2]],[3]]", "[1,[2],3]"),
            ("ARRAY_CONCAT", "[[1],2]", "undefined"),
            ("ARRAY_LENGTH", "[[[1,2],[3]]]", "2"),
            ("ARRAY_LENGTH", "[null]", "undefined"),
            ("ARRAY_SLICE", "[[1,2,3],1]", "[2,3]"),
            ("ARRAY_SLICE", "[[1,2,3],-2,1]", "[2]"),
            ("ARRAY_SLICE", "[[1,2,3],-10]", "[1,2,3]"),
            ("ARRAY_SLICE", "[[1,2,3],5]", "[]"),
            ("ARRAY_SLICE", "[[1,2,3],0,12]", "[1,2,3]"),
            ("ARRAY_SLICE", "[[1,2,3],1,-1]", "[]"),
            ("ARRAY_SLICE", "[[1,2,3],-9223372036854775808,9223372036854775807]", "[1,2,3]"),
            ("ARRAY_SLICE", "[[1,2,3],0.5]", "undefined"),
            ("ARRAY_SLICE", r#"["abc",0]"#, "undefined"),
        ]);
    }

    #[test]
    fn aggregates() {
        check(&[
            ("ARRAY_SUM", "[[1.5,2.5]]", "4"),
            ("ARRAY_SUM", "[[]]", "undefined"),
            ("ARRAY_SUM", "[[9007199254740993,1]]", "9007199254740994"),
            ("ARRAY_SUM", r#"[[1,"a"]]"#, "undefined"),
            ("ARRAY_AVG", "[[1,2,3,4]]", "2.5"),
            ("ARRAY_AVG", "[[]]", "undefined"),
            ("ARRAY_MEDIAN", "[[3,1,4,2]]", "2.5"),
            ("ARRAY_MEDIAN", "[[7.8,1.0,2.0,4.7,3.3]]", "3.3"),
            ("ARRAY_MEDIAN", "[[5]]", "5"),
            ("ARRAY_MEDIAN", "[[null]]", "undefined"),
            ("ARRAY_MIN", r#"[["abc","ABC","aBc"]]"#, r#""ABC""#),
            ("ARRAY_MIN", r#"[[12,"abc",true,false,null]]"#, "null"),
            ("ARRAY_MIN", "[[3,1,2]]", "1"),
            ("ARRAY_MAX", r#"[[12,"abc",true,false,null]]"#, r#""abc""#),
            ("ARRAY_MAX", "[[true,false]]", "true"),
            ("ARRAY_MAX", "[[]]", "undefined"),
            ("ARRAY_MAX", "[[1,[2]]]", "undefined"),
        ]);
    }
}
