//! Patches as clients write them: `{"condition", "operations"}`, or a bare array of operations.

use armilla_engine::items::patch::{Patch, PatchOperation, PatchVerb, Pointer};
use armilla_model::value::Value;
use armilla_model::{Error, Result, json};

/// Reads the body of a patch.
pub fn parse(body: &[u8]) -> Result<Patch> {
    from_value(&json::parse(body)?)
}

/// Reads a patch from a value, as batches carry it.
pub(crate) fn from_value(body: &Value) -> Result<Patch> {
    let condition = match body.get("condition") {
        None | Some(Value::Null) => None,
        Some(Value::String(condition)) => Some(condition.to_string()),
        Some(other) => return refuse(format!("'condition' must be a string, and is {other}.")),
    };
    let operations = body.get("operations").unwrap_or(body).as_array().unwrap_or_default();
    Patch::check_count(operations.len())?;
    Patch::new(condition, operations.iter().map(operation).collect::<Result<_>>()?)
}

fn operation(value: &Value) -> Result<PatchOperation> {
    let text = |name: &str| match value.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => refuse(format!("A patch operation needs '{name}': {value}")),
    };
    let written = text("path")?;
    let operand = || match value.get("value") {
        Some(value) => Ok(value.clone()),
        None => refuse(format!("The patch operation at '{written}' needs a 'value'.")),
    };
    let verb = match &*text("op")?.to_ascii_lowercase() {
        "add" => PatchVerb::Add(operand()?),
        "set" => PatchVerb::Set(operand()?),
        "replace" => PatchVerb::Replace(operand()?),
        "remove" => PatchVerb::Remove,
        "incr" | "increment" => match operand()? {
            Value::Number(number) => PatchVerb::Increment(number),
            other => return refuse(format!("'incr' needs a number, and got {other}.")),
        },
        "move" => PatchVerb::Move(Pointer::parse(&text("from")?)?),
        other => {
            return refuse(format!(
                "The patch operation '{other}' is not one of add, set, replace, remove, incr, move."
            ));
        }
    };
    Ok(PatchOperation { verb, path: Pointer::parse(&written)? })
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::BadRequest(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(item: &str, operations: &str) -> Result<String> {
        let patch = parse(operations.as_bytes())?;
        let mut item = json::parse(item.as_bytes()).unwrap();
        patch.apply(&mut item)?;
        Ok(item.to_json())
    }

    #[test]
    fn every_operation() {
        let check = |item, operations, expected: &str| {
            assert_eq!(patched(item, operations).unwrap(), expected, "{operations}");
        };
        check(r#"{"a":1}"#, r#"[{"op":"add","path":"/b","value":2}]"#, r#"{"a":1,"b":2}"#);
        check(r#"{"a":[1,3]}"#, r#"[{"op":"add","path":"/a/1","value":2}]"#, r#"{"a":[1,2,3]}"#);
        check(r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/-","value":2}]"#, r#"{"a":[1,2]}"#);
        check(r#"{"a":[1,3]}"#, r#"[{"op":"set","path":"/a/1","value":2}]"#, r#"{"a":[1,2]}"#);
        check(r#"{"a":1}"#, r#"[{"op":"replace","path":"/a","value":2}]"#, r#"{"a":2}"#);
        check(r#"{"a":1,"b":2}"#, r#"[{"op":"remove","path":"/a"}]"#, r#"{"b":2}"#);
        check(r#"{"a":1}"#, r#"[{"op":"incr","path":"/a","value":1.5}]"#, r#"{"a":2.5}"#);
        check(r#"{}"#, r#"[{"op":"incr","path":"/a","value":5}]"#, r#"{"a":5}"#);
        check(r#"{"a":1}"#, r#"[{"op":"move","from":"/a","path":"/b"}]"#, r#"{"b":1}"#);
        check(r#"{"a/b":1}"#, r#"[{"op":"remove","path":"/a~1b"}]"#, "{}");
    }

    #[test]
    fn what_is_refused() {
        for (item, operations) in [
            (r#"{}"#, r#"[{"op":"add","path":"/a/b","value":1}]"#),
            (r#"{"a":[]}"#, r#"[{"op":"add","path":"/a/1","value":1}]"#),
            (r#"{}"#, r#"[{"op":"replace","path":"/a","value":1}]"#),
            (r#"{}"#, r#"[{"op":"remove","path":"/a"}]"#),
            (r#"{"a":"x"}"#, r#"[{"op":"incr","path":"/a","value":1}]"#),
            (r#"{"a":{}}"#, r#"[{"op":"move","from":"/a","path":"/a/b"}]"#),
            (r#"{}"#, r#"[{"op":"fly","path":"/a"}]"#),
            (r#"{}"#, r#"[]"#),
            (r#"{}"#, r#"[{"op":"add","path":"a","value":1}]"#),
        ] {
            assert!(patched(item, operations).is_err(), "{operations} was accepted");
        }
    }

    #[test]
    fn a_move_from_a_missing_path_names_the_source() {
        let refusal = patched("{}", r#"[{"op":"move","from":"/source","path":"/target"}]"#);
        assert!(refusal.unwrap_err().message().contains("'/source' does not exist"));
    }
}
