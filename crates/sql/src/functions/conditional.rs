//! Choosing between values, and objects read as arrays.

use super::{Context, Function, Kind, defined, optional};
use armilla_model::{Object, Value};
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("IIF", 3, if_then_else)
        .seeing_undefined()
        .gives(Kind::Any, "The second value when the first is `true`, otherwise the third."),
    Function::variadic("CHOOSE", 2, |_, arguments| defined(choose(arguments)))
        .seeing_undefined()
        .gives(Kind::Any, "The value at a position, counted from 1."),
    Function::between("OBJECTTOARRAY", 1, 3, |_, arguments| defined(object_to_array(arguments)))
        .seeing_undefined()
        .gives(
            Kind::Array,
            "Members as objects of name and value, called `k` and `v` or as given.",
        ),
    Function::exact("_OBJECTTOARRAY", 1, |_, arguments| defined(object_to_array(arguments)))
        .gives(Kind::Array, "As `OBJECTTOARRAY` of one argument (assumed)."),
];

fn if_then_else(_: &mut Context<'_>, arguments: &[Value]) -> Value {
    let chosen = if arguments[0].as_bool() == Some(true) { 1 } else { 2 };
    arguments[chosen].clone()
}

fn choose(arguments: &[Value]) -> Option<Value> {
    let position = usize::try_from(arguments[0].as_i64()?).ok().filter(|&position| position > 0)?;
    arguments.get(position).cloned()
}

fn object_to_array(arguments: &[Value]) -> Option<Value> {
    // Undefined behind the last name is as if it were not there.
    let given = arguments.iter().rposition(Value::is_defined)? + 1;
    let arguments = &arguments[..given];
    let object = arguments[0].as_object()?;
    let key: Arc<str> = optional(arguments, 1, "k", Value::as_str)?.into();
    let value: Arc<str> = optional(arguments, 2, "v", Value::as_str)?.into();
    let pair = |(name, member): (&Arc<str>, &Value)| {
        let mut pair = Object::new();
        pair.insert(key.clone(), Value::String(name.clone()));
        pair.insert(value.clone(), member.clone());
        Value::object(pair)
    };
    Some(Value::array(object.iter().map(pair).collect()))
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{check, evaluate};
    use armilla_model::Value;

    #[test]
    fn documented_examples() {
        check(&[
            ("IIF", "[true,123,456]", "123"),
            ("IIF", "[false,123,456]", "456"),
            ("IIF", r#"["ABC",123,456]"#, "456"),
            ("IIF", "[1,123,456]", "456"),
            ("CHOOSE", r#"[1,"Vimero","Hydration","Pack"]"#, r#""Vimero""#),
            ("CHOOSE", r#"[3,"Vimero","Hydration","Pack"]"#, r#""Pack""#),
            ("CHOOSE", r#"[0,"Vimero","Hydration","Pack"]"#, "undefined"),
            ("CHOOSE", r#"[4,"Vimero","Hydration","Pack"]"#, "undefined"),
            ("CHOOSE", r#"[-1,"a","b"]"#, "undefined"),
            ("CHOOSE", r#"[1.5,"a","b"]"#, "undefined"),
            ("CHOOSE", r#"["1","a","b"]"#, "undefined"),
            ("OBJECTTOARRAY", r#"[{"a":"1","b":2}]"#, r#"[{"k":"a","v":"1"},{"k":"b","v":2}]"#),
            ("OBJECTTOARRAY", r#"[{"a":1},"n","x"]"#, r#"[{"n":"a","x":1}]"#),
            ("OBJECTTOARRAY", r#"[{"a":1},"n"]"#, r#"[{"n":"a","v":1}]"#),
            ("OBJECTTOARRAY", r#"[{"a":1},1]"#, "undefined"),
            ("OBJECTTOARRAY", "[{}]", "[]"),
            ("OBJECTTOARRAY", "[[1]]", "undefined"),
        ]);
    }

    #[test]
    fn undefined_is_seen() {
        let two = Value::from(2);
        assert_eq!(evaluate("IIF", &[Value::Undefined, 1.into(), two.clone()]), two);
        assert!(evaluate("IIF", &[true.into(), Value::Undefined, two.clone()]).is_undefined());
        assert_eq!(evaluate("CHOOSE", &[2.into(), Value::Undefined, two.clone()]), two);
    }
}
