//! Patch: a few changes to an item, applied in order, all or none.
//!
//! Paths are JSON pointers. What the service fixes stays fixed here: the id, the partition key and
//! the system properties cannot be touched.

use super::body::Body;
use super::{WriteOptions, Written};
use crate::txn::Txn;
use armilla_model::error::{Error, Result};
use armilla_model::limits::PATCH_OPERATIONS_MAX;
use armilla_model::number::Number;
use armilla_model::value::Value;
use std::sync::Arc;

/// A patch: operations, and a condition under which they apply.
#[derive(Clone, Debug)]
pub struct Patch {
    /// `FROM c WHERE …`.
    pub condition: Option<String>,
    operations: Vec<Operation>,
}

#[derive(Clone, Debug)]
struct Operation {
    verb: Verb,
    path: Vec<String>,
    written: String,
}

#[derive(Clone, Debug)]
enum Verb {
    Add(Value),
    Set(Value),
    Replace(Value),
    Remove,
    Increment(Number),
    /// From here.
    Move(Vec<String>, Arc<str>),
}

impl Patch {
    /// Reads a patch: `{"condition", "operations"}` or a bare array of operations.
    pub fn parse(body: &[u8]) -> Result<Self> {
        Self::from_value(&armilla_model::json::parse(body)?)
    }

    /// Reads a patch from a value, as batches carry it.
    pub fn from_value(body: &Value) -> Result<Self> {
        let condition = match body.get("condition") {
            None | Some(Value::Null) => None,
            Some(Value::String(condition)) => Some(condition.to_string()),
            Some(other) => return refuse(format!("'condition' must be a string, and is {other}.")),
        };
        let operations = body.get("operations").unwrap_or(body).as_array();
        let Some(operations) = operations.filter(|operations| !operations.is_empty()) else {
            return refuse("A patch needs a list of 'operations'.".to_owned());
        };
        if operations.len() > PATCH_OPERATIONS_MAX {
            return refuse(format!(
                "A patch may have at most {PATCH_OPERATIONS_MAX} operations, and has {}.",
                operations.len()
            ));
        }
        let operations = operations.iter().map(Operation::parse).collect::<Result<_>>()?;
        Ok(Self { condition, operations })
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Never: a patch has at least one operation.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}

impl Operation {
    fn parse(value: &Value) -> Result<Self> {
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
            "add" => Verb::Add(operand()?),
            "set" => Verb::Set(operand()?),
            "replace" => Verb::Replace(operand()?),
            "remove" => Verb::Remove,
            "incr" | "increment" => match operand()? {
                Value::Number(number) => Verb::Increment(number),
                other => return refuse(format!("'incr' needs a number, and got {other}.")),
            },
            "move" => {
                let from = text("from")?;
                Verb::Move(pointer(&from)?, from)
            }
            other => {
                return refuse(format!(
                    "The patch operation '{other}' is not one of add, set, replace, remove, incr, move."
                ));
            }
        };
        Ok(Self { verb, path: pointer(&written)?, written: written.to_string() })
    }
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::BadRequest(message))
}

fn pointer(written: &str) -> Result<Vec<String>> {
    let Some(path) = written.strip_prefix('/') else {
        return refuse(format!("The patch path '{written}' must begin with '/'."));
    };
    Ok(path.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect())
}

impl Txn {
    /// Stages the patched version of an existing item.
    pub fn patch_item(
        &mut self,
        id: &str,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Written> {
        let current = self.find(id)?.ok_or_else(Error::not_found)?;
        current.check(options)?;
        let mut item = current.value()?;
        if let Some(condition) = &patch.condition
            && !crate::query::condition_holds(condition, &item)?
        {
            return Err(Error::PatchConditionFailed);
        }
        for operation in &patch.operations {
            self.refuse_fixed(operation)?;
            apply(&mut item, operation)?;
        }
        let body = Body::from_value(&item)?;
        super::body::check_size(body.bytes.len())?;
        let mut written = self.replace_with(id, body, &WriteOptions::default())?;
        written.charge += self.container().rates().patch_operation * patch.len() as u64;
        Ok(written)
    }

    /// The id, the partition key and what the server writes are out of reach.
    fn refuse_fixed(&self, operation: &Operation) -> Result<()> {
        let touched = |path: &[String]| {
            let first = path.first().map_or("", String::as_str);
            let system =
                matches!(first, "id" | "_rid" | "_self" | "_etag" | "_ts" | "_attachments");
            let keys = &self.policy().partition_key.paths;
            system || keys.iter().any(|key| key.0.starts_with(path) || path.starts_with(&key.0))
        };
        let from = if let Verb::Move(from, _) = &operation.verb { Some(from) } else { None };
        if touched(&operation.path) || from.is_some_and(|from| touched(from)) {
            return refuse(format!(
                "The patch path '{}' names the id, the partition key or a system property, which cannot be patched.",
                operation.written
            ));
        }
        Ok(())
    }
}

fn apply(item: &mut Value, operation: &Operation) -> Result<()> {
    let place = Place { path: &operation.path, written: &operation.written };
    match &operation.verb {
        Verb::Add(value) => place.put(item, value.clone(), InArray::Insert),
        Verb::Set(value) => place.put(item, value.clone(), InArray::Overwrite),
        Verb::Replace(value) => {
            *place.existing(item)? = value.clone();
            Ok(())
        }
        Verb::Remove => place.remove(item).map(drop),
        Verb::Increment(by) => place.increment(item, *by),
        Verb::Move(from, source) => {
            if operation.path.starts_with(from) && operation.path != *from {
                return refuse(format!(
                    "'{}' lies inside what is to be moved there.",
                    place.written
                ));
            }
            let value = Place { path: from, written: source }.remove(item)?;
            place.put(item, value, InArray::Insert)
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum InArray {
    Insert,
    Overwrite,
}

struct Place<'p> {
    path: &'p [String],
    written: &'p str,
}

impl Place<'_> {
    fn missing<T>(&self) -> Result<T> {
        refuse(format!(
            "For the patch operation the path '{}' does not exist in the item.",
            self.written
        ))
    }

    /// The object or array that holds the target, and the last step.
    fn parent<'v>(&self, item: &'v mut Value) -> Result<(&'v mut Value, &str)> {
        let Some((last, steps)) = self.path.split_last() else { return self.missing() };
        let mut node = item;
        for step in steps {
            node = match child(node, step) {
                Some(node) => node,
                None => return self.missing(),
            };
        }
        Ok((node, last))
    }

    fn existing<'v>(&self, item: &'v mut Value) -> Result<&'v mut Value> {
        let (parent, last) = self.parent(item)?;
        match child(parent, last) {
            Some(value) => Ok(value),
            None => self.missing(),
        }
    }

    fn put(&self, item: &mut Value, value: Value, in_array: InArray) -> Result<()> {
        let (parent, last) = self.parent(item)?;
        match parent {
            Value::Object(object) => {
                Arc::make_mut(object).insert(last, value);
                Ok(())
            }
            Value::Array(elements) => {
                let elements = Arc::make_mut(elements);
                let at = if last == "-" { Some(elements.len()) } else { last.parse().ok() };
                match at {
                    Some(at) if at < elements.len() && in_array == InArray::Overwrite => {
                        elements[at] = value;
                    }
                    Some(at) if at <= elements.len() => elements.insert(at, value),
                    _ => {
                        return refuse(format!(
                            "The array index in '{}' is out of range.",
                            self.written
                        ));
                    }
                }
                Ok(())
            }
            _ => self.missing(),
        }
    }

    fn remove(&self, item: &mut Value) -> Result<Value> {
        let (parent, last) = self.parent(item)?;
        let removed = match parent {
            Value::Object(object) => Arc::make_mut(object).remove(last),
            Value::Array(elements) => {
                let at = last.parse().ok().filter(|&at: &usize| at < elements.len());
                at.map(|at| Arc::make_mut(elements).remove(at))
            }
            _ => None,
        };
        removed.map_or_else(|| self.missing(), Ok)
    }

    fn increment(&self, item: &mut Value, by: Number) -> Result<()> {
        let (parent, last) = self.parent(item)?;
        let Some(target) = child(parent, last) else {
            return self.put(item, Value::Number(by), InArray::Overwrite);
        };
        let Value::Number(number) = target else {
            return refuse(format!("The value at '{}' is not a number.", self.written));
        };
        *number = number.plus(by);
        if number.is_finite() {
            Ok(())
        } else {
            refuse(format!("'{}' grows beyond what a number can hold.", self.written))
        }
    }
}

fn child<'v>(node: &'v mut Value, step: &str) -> Option<&'v mut Value> {
    match node {
        Value::Object(object) => Arc::make_mut(object).get_mut(step),
        Value::Array(elements) => Arc::make_mut(elements).get_mut(step.parse::<usize>().ok()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::json::parse;

    fn patched(item: &str, operations: &str) -> Result<String> {
        let patch = Patch::parse(operations.as_bytes())?;
        let mut item = parse(item.as_bytes()).unwrap();
        patch.operations.iter().try_for_each(|operation| apply(&mut item, operation))?;
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
