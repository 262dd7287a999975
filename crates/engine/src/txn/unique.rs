//! Unique keys: at most one item of a logical partition has a given tuple of values.
//!
//! An entry's key holds a keyed 128-bit hash of the tuple, so a false clash is a non-event and
//! nobody can provoke one. A missing value counts as null; numbers count as doubles.

use super::{Owner, Staged, Txn, parse_stored};
use crate::items::body::Body;
use crate::keys::{self, ItemKey};
use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_model::ordered;
use armilla_model::path::Path;
use armilla_model::value::Value;
use armilla_storage::Keyspace;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;
use std::sync::Arc;

/// An item that has a unique key: its id, content and version.
pub(crate) type Rival = (Arc<str>, Value, ETag);

impl Txn {
    /// Takes an item's unique keys, giving back those it had.
    pub(super) fn claim(&mut self, at: usize, tuples: &[[u8; 16]]) -> Result<()> {
        let owner = (self.staged[at].key.hash, self.staged[at].key.probe);
        let wanted: Vec<_> = self.unique_keys_of(tuples);
        for key in &wanted {
            if self.owner_of(key)?.is_some_and(|other| other != owner) {
                return Err(Error::UniqueKeyViolation(
                    "Unique index constraint violation: another item of this logical partition has the same values.".to_owned(),
                ));
            }
        }
        for key in self.unique_keys_of(self.staged[at].tuples()) {
            // An expired item may have lost its keys to another one since.
            if self.recorded_owner(&key)? == Some(owner) {
                self.unique.insert(key, None);
            }
        }
        for key in wanted {
            self.unique.insert(key, Some(owner));
        }
        Ok(())
    }

    /// Another item that has one of a body's unique keys: its id, content and version.
    pub(crate) fn unique_rival(&mut self, body: &Body) -> Result<Option<Rival>> {
        let at = self.touch(&body.id)?;
        let own = (self.staged[at].key.hash, self.staged[at].key.probe);
        let tuples = tuples(&body.value, &self.policy().unique_keys, self.container.secret());
        for key in self.unique_keys_of(&tuples) {
            let Some((hash, probe)) = self.owner_of(&key)?.filter(|other| *other != own) else {
                continue;
            };
            let is_there = |staged: &&Staged| (staged.key.hash, staged.key.probe) == (hash, probe);
            let staged = self.staged.iter().find(is_there).and_then(Staged::current);
            let place = ItemKey { epk: self.epk.clone(), hash, probe };
            let (value, etag) = match staged {
                Some(current) => (current.value()?, current.etag()),
                None => match self.container.get(&*self.snapshot, &place)? {
                    Some(record) => (parse_stored(&record.text())?, record.etag()),
                    None => continue,
                },
            };
            if let Some(Value::String(id)) = value.get("id") {
                return Ok(Some((id.clone(), value, etag)));
            }
        }
        Ok(None)
    }

    fn unique_keys_of(&self, tuples: &[[u8; 16]]) -> Vec<Vec<u8>> {
        let definition = &self.policy().partition_key;
        let number = self.container.number;
        let key = |(constraint, tuple): (usize, &[u8; 16])| {
            keys::unique(number, definition, &self.epk, constraint as u8, *tuple)
        };
        tuples.iter().enumerate().map(key).collect()
    }

    /// Who is written down as having a unique key.
    fn recorded_owner(&self, key: &[u8]) -> Result<Option<Owner>> {
        if let Some(owner) = self.unique.get(key) {
            return Ok(*owner);
        }
        let stored = self.snapshot.get(Keyspace::Unique, key);
        let stored = stored.map_err(|error| self.container.failed_at(&self.epk, error))?;
        Ok(stored.as_deref().and_then(read_owner))
    }

    /// Who has a unique key. An owner that has expired does not count.
    fn owner_of(&self, key: &[u8]) -> Result<Option<Owner>> {
        if let Some(owner) = self.unique.get(key) {
            return Ok(*owner);
        }
        let Some((hash, probe)) = self.recorded_owner(key)? else { return Ok(None) };
        let place = ItemKey { epk: self.epk.clone(), hash, probe };
        let alive = match self.container.get(&*self.snapshot, &place)? {
            Some(record) => self.is_alive(&record),
            None => false,
        };
        Ok(alive.then_some((hash, probe)))
    }
}

/// The hashes of an item's tuples, one per unique key, in the policy's order.
pub(crate) fn tuples(item: &Value, unique_keys: &[Vec<Path>], secret: (u64, u64)) -> Vec<[u8; 16]> {
    unique_keys.iter().map(|paths| tuple(item, paths, secret)).collect()
}

fn tuple(item: &Value, paths: &[Path], (first, second): (u64, u64)) -> [u8; 16] {
    let mut hasher = SipHasher13::new_with_keys(first, second);
    for path in paths {
        let value = path.find(item).cloned().unwrap_or(Value::Null);
        let bytes = match &value {
            Value::String(text) => {
                hasher.write_u8(ordered::tag(value.kind()));
                text.as_bytes().to_vec()
            }
            Value::Array(_) | Value::Object(_) => value.to_json().into_bytes(),
            // What is stored was hashed so; integers that share a double share a key.
            Value::Number(number) => ordered::term(&Value::from(number.as_f64())),
            scalar => ordered::term(scalar),
        };
        hasher.write_usize(bytes.len());
        hasher.write(&bytes);
    }
    hasher.finish128().as_bytes()
}

fn read_owner(value: &[u8]) -> Option<Owner> {
    let (probe, hash) = value.split_last()?;
    Some((u64::from_be_bytes(hash.try_into().ok()?), *probe))
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::json::parse;

    #[test]
    fn missing_is_null_and_integers_are_doubles() {
        let keys = [vec![Path::parse("/a").unwrap(), Path::parse("/b/c").unwrap()]];
        let of = |text: &str| tuples(&parse(text.as_bytes()).unwrap(), &keys, (1, 2));
        assert_eq!(of(r#"{"a":1}"#), of(r#"{"a":1.0,"b":{"c":null}}"#));
        assert_eq!(of(r#"{"a":9007199254740992}"#), of(r#"{"a":9007199254740993}"#));
        assert_ne!(of(r#"{"a":1}"#), of(r#"{"a":"1"}"#));
        assert_ne!(of(r#"{"a":"x","b":{"c":"y"}}"#), of(r#"{"a":"xy","b":{"c":""}}"#));
    }
}
