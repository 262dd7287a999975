//! Members of a JSON object, read with their bounds; those that nobody knows are refused.

use armilla_model::error::{Error, Result};
use armilla_model::value::{Object, Value};

/// The members of one object of a definition.
pub(super) struct Members<'v> {
    object: Option<&'v Object>,
    of: String,
}

impl<'v> Members<'v> {
    /// The members of a value, which must be an object.
    pub(super) fn new(value: &'v Value, of: &str) -> Result<Self> {
        match value {
            Value::Object(object) => Ok(Self { object: Some(object), of: of.to_owned() }),
            _ => refuse(format!("The definition of {of} is not a JSON object.")),
        }
    }

    /// The members of an object inside; none where that is missing.
    pub(super) fn inner(&self, name: &str) -> Result<Self> {
        match self.get(name) {
            None => Ok(Self { object: None, of: format!("'{name}'") }),
            Some(value) => Self::new(value, &format!("'{name}'")),
        }
    }

    /// Refuses members that are not listed.
    pub(super) fn only<'n>(&self, known: impl Iterator<Item = &'n &'n str> + Clone) -> Result<()> {
        let members = self.object.into_iter().flat_map(Object::iter);
        for (name, _) in members {
            if !known.clone().any(|known| **known == **name) {
                let known: Vec<&str> =
                    known.copied().filter(|name| !name.starts_with('_')).collect();
                return refuse(format!(
                    "'{name}' is no member of {}; there are {}.",
                    self.of,
                    known.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// A member; null is none.
    pub(super) fn get(&self, name: &str) -> Option<&'v Value> {
        self.object?.get(name).filter(|value| !matches!(value, Value::Null))
    }

    /// A member that is a string.
    pub(super) fn word(&self, name: &str) -> Result<Option<&'v str>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => refuse(format!("'{name}' of {} must be a string.", self.of)),
        }
    }

    /// A member that is true or false.
    pub(super) fn switch(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name) {
            None => Ok(default),
            Some(Value::Bool(on)) => Ok(*on),
            Some(_) => refuse(format!("'{name}' of {} must be true or false.", self.of)),
        }
    }

    /// A member that is a whole number between two bounds.
    pub(super) fn whole(&self, name: &str, (min, max): (u64, u64), default: u64) -> Result<u64> {
        let Some(value) = self.get(name) else { return Ok(default) };
        let number = value.as_i64().and_then(|number| u64::try_from(number).ok());
        match number.filter(|number| (min..=max).contains(number)) {
            Some(number) => Ok(number),
            None => refuse(format!(
                "'{name}' of {} is {}; it takes a whole number from {min} to {max}.",
                self.of,
                value.to_json()
            )),
        }
    }
}

/// A number as a value.
pub(super) fn number(number: impl TryInto<i64>) -> Value {
    number.try_into().unwrap_or(i64::MAX).into()
}

pub(super) fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::bad_request(message))
}
