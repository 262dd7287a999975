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
    condition: Option<String>,
    operations: Vec<PatchOperation>,
}

/// One change of a patch.
#[derive(Clone, Debug)]
pub struct PatchOperation {
    /// What to do.
    pub verb: PatchVerb,
    /// Where.
    pub path: Pointer,
}

/// What a patch does at a place.
#[derive(Clone, Debug)]
pub enum PatchVerb {
    /// Puts a value there; in an array, before what is there.
    Add(Value),
    /// Puts a value there, over what is there.
    Set(Value),
    /// Puts a value in the place of what must be there.
    Replace(Value),
    /// Takes away what must be there.
    Remove,
    /// Adds to the number there.
    Increment(Number),
    /// Moves a value from here.
    Move(Pointer),
}

/// A JSON pointer: `/a/0/b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    steps: Vec<String>,
    written: Arc<str>,
}

impl Patch {
    /// A patch of so many operations, and a condition (`FROM c WHERE …`).
    ///
    /// # Errors
    ///
    /// When there are none, or too many.
    pub fn new(condition: Option<String>, operations: Vec<PatchOperation>) -> Result<Self> {
        Self::check_count(operations.len())?;
        Ok(Self { condition, operations })
    }

    /// Refuses a patch of so many operations, before they are looked at.
    ///
    /// # Errors
    ///
    /// When there are none, or too many.
    pub fn check_count(count: usize) -> Result<()> {
        match count {
            0 => refuse("A patch needs a list of 'operations'.".to_owned()),
            1..=PATCH_OPERATIONS_MAX => Ok(()),
            _ => refuse(format!(
                "A patch may have at most {PATCH_OPERATIONS_MAX} operations, and has {count}."
            )),
        }
    }

    /// Applies the operations to an item, whatever the condition says.
    ///
    /// # Errors
    ///
    /// When one of them does not fit the item, which is then half patched.
    pub fn apply(&self, item: &mut Value) -> Result<()> {
        self.operations.iter().try_for_each(|operation| apply(item, operation))
    }
}

impl Pointer {
    /// Reads a pointer.
    ///
    /// # Errors
    ///
    /// When it does not begin with a slash.
    pub fn parse(written: &str) -> Result<Self> {
        let Some(path) = written.strip_prefix('/') else {
            return refuse(format!("The patch path '{written}' must begin with '/'."));
        };
        let step = |part: &str| part.replace("~1", "/").replace("~0", "~");
        Ok(Self { steps: path.split('/').map(step).collect(), written: written.into() })
    }
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::BadRequest(message))
}

impl Txn {
    /// Stages the patched version of an existing item.
    pub fn patch_item(
        &mut self,
        id: &str,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Written> {
        self.check_writable()?;
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
        let count = patch.operations.len() as u64;
        written.charge += self.container().rates().patch_operation * count;
        Ok(written)
    }

    /// The id, the partition key and what the server writes are out of reach.
    fn refuse_fixed(&self, operation: &PatchOperation) -> Result<()> {
        let touched = |pointer: &Pointer| {
            let path = pointer.steps.as_slice();
            let first = path.first().map_or("", String::as_str);
            let system =
                matches!(first, "id" | "_rid" | "_self" | "_etag" | "_ts" | "_attachments");
            let keys = &self.policy().partition_key.paths;
            system || keys.iter().any(|key| key.0.starts_with(path) || path.starts_with(&key.0))
        };
        let from = if let PatchVerb::Move(from) = &operation.verb { Some(from) } else { None };
        if touched(&operation.path) || from.is_some_and(touched) {
            return refuse(format!(
                "The patch path '{}' names the id, the partition key or a system property, which cannot be patched.",
                operation.path.written
            ));
        }
        Ok(())
    }
}

fn apply(item: &mut Value, operation: &PatchOperation) -> Result<()> {
    let place = &operation.path;
    match &operation.verb {
        PatchVerb::Add(value) => place.put(item, value.clone(), InArray::Insert),
        PatchVerb::Set(value) => place.put(item, value.clone(), InArray::Overwrite),
        PatchVerb::Replace(value) => {
            *place.existing(item)? = value.clone();
            Ok(())
        }
        PatchVerb::Remove => place.remove(item).map(drop),
        PatchVerb::Increment(by) => place.increment(item, *by),
        PatchVerb::Move(from) => {
            if place.steps.starts_with(&from.steps) && place != from {
                return refuse(format!(
                    "'{}' lies inside what is to be moved there.",
                    place.written
                ));
            }
            let value = from.remove(item)?;
            place.put(item, value, InArray::Insert)
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum InArray {
    Insert,
    Overwrite,
}

impl Pointer {
    fn missing<T>(&self) -> Result<T> {
        refuse(format!(
            "For the patch operation the path '{}' does not exist in the item.",
            self.written
        ))
    }

    /// Something on the way to the target is missing; a patch does not make it. Clients look for the last words.
    fn broken<T>(&self, step: &str) -> Result<T> {
        refuse(format!(
            "For the patch operation the path '{}' does not exist in the item: no path found beyond: '{step}'.",
            self.written
        ))
    }

    /// The object or array that holds the target, and the last step.
    fn parent<'v>(&self, item: &'v mut Value) -> Result<(&'v mut Value, &str)> {
        let Some((last, steps)) = self.steps.split_last() else { return self.missing() };
        let mut node = item;
        for step in steps {
            node = match child(node, step) {
                Some(node) => node,
                None => return self.broken(step),
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
