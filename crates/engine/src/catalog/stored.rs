//! The catalog's entries in `meta`: JSON texts, since they are small, rare and worth reading by
//! people.

mod offers;

use crate::encryption::EncryptionKey;
use crate::offers::Offer;
use crate::ranges::Range;
use crate::scripts::{Kind, Script, Trigger, TriggerOperation};
use crate::users::{Mode, Permission, User};
use armilla_model::etag::ETag;
use armilla_model::partition_key::{Epk, PartitionKey};
use armilla_model::value::{Object, Value};
use armilla_storage::StoreError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A stored entry with the fields every entry has.
pub(crate) struct StoredEntry(Value);

/// A database's entry.
pub(crate) struct StoredDatabase {
    pub name: Arc<str>,
    pub etag: ETag,
    pub ts: u64,
}

/// A container's entry.
#[derive(Clone)]
pub(crate) struct StoredContainer {
    pub name: Arc<str>,
    pub etag: ETag,
    pub ts: u64,
    pub generation: u64,
    pub secret: (u64, u64),
    pub definition: Value,
    pub ranges: Vec<Range>,
}

fn corrupt() -> StoreError {
    StoreError::corruption("meta", "an entry of the catalog is malformed")
}

impl StoredEntry {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, StoreError> {
        armilla_model::json::parse(bytes).map(Self).map_err(|_| corrupt())
    }

    fn text(&self, name: &str) -> Result<Arc<str>, StoreError> {
        match self.0.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            _ => Err(corrupt()),
        }
    }

    fn number(&self, name: &str) -> Result<u64, StoreError> {
        let number = self.0.get(name).and_then(Value::as_i64);
        number.and_then(|number| u64::try_from(number).ok()).ok_or_else(corrupt)
    }

    fn hex(&self, name: &str) -> Result<u128, StoreError> {
        u128::from_str_radix(&self.text(name)?, 16).map_err(|_| corrupt())
    }

    fn etag(&self) -> Result<ETag, StoreError> {
        self.hex("etag").map(|etag| ETag(etag.to_be_bytes()))
    }
}

fn hex(number: u128) -> Value {
    Value::from(format!("{number:032x}"))
}

fn stamp(name: &str, etag: ETag, ts: u64) -> Object {
    Object::of([
        ("name", name.into()),
        ("etag", hex(u128::from_be_bytes(etag.0))),
        ("ts", (ts as i64).into()),
    ])
}

fn finish(object: Object) -> Vec<u8> {
    let mut out = Vec::new();
    object.write_json(&mut out);
    out
}

impl StoredDatabase {
    pub(crate) fn write(name: &str, etag: ETag, ts: u64) -> Vec<u8> {
        finish(stamp(name, etag, ts))
    }

    pub(crate) fn read(entry: &StoredEntry) -> Result<Self, StoreError> {
        Ok(Self { name: entry.text("name")?, etag: entry.etag()?, ts: entry.number("ts")? })
    }
}

impl StoredContainer {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut object = stamp(&self.name, self.etag, self.ts);
        object.insert("generation", (self.generation as i64).into());
        object.insert("secret", hex((u128::from(self.secret.0) << 64) | u128::from(self.secret.1)));
        object.insert("definition", self.definition.clone());
        object.insert("ranges", Value::array(self.ranges.iter().map(write_range).collect()));
        finish(object)
    }

    pub(crate) fn read(entry: &StoredEntry) -> Result<Self, StoreError> {
        let secret = entry.hex("secret")?;
        let ranges = entry.0.get("ranges").and_then(Value::as_array).ok_or_else(corrupt)?;
        Ok(Self {
            name: entry.text("name")?,
            etag: entry.etag()?,
            ts: entry.number("ts")?,
            generation: entry.number("generation")?,
            secret: ((secret >> 64) as u64, secret as u64),
            definition: entry.0.get("definition").cloned().ok_or_else(corrupt)?,
            ranges: ranges.iter().map(read_range).collect::<Result<_, _>>()?,
        })
    }
}

/// Which index of a container serves.
pub(crate) struct StoredIndex {
    /// Its id.
    pub id: u64,
    /// The definition it was built for, where that is not the container's any more.
    pub definition: Option<Object>,
}

impl StoredIndex {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut object = Object::of([("id", (self.id as i64).into())]);
        if let Some(definition) = &self.definition {
            object.insert("definition", Value::object(definition.clone()));
        }
        finish(object)
    }

    pub(crate) fn read(entry: &StoredEntry) -> Result<Self, StoreError> {
        let definition = entry.0.get("definition").and_then(Value::as_object).cloned();
        Ok(Self { id: entry.number("id")?, definition })
    }
}

fn write_range(range: &Range) -> Value {
    let max = range.max.as_ref().map_or(Value::Null, |max| max.to_string().into());
    let parents = range.parents.iter().map(|&parent| i64::from(parent).into()).collect();
    Value::object(Object::of([
        ("id", i64::from(range.id).into()),
        ("min", range.min.to_string().into()),
        ("max", max),
        ("parents", Value::array(parents)),
    ]))
}

fn read_range(value: &Value) -> Result<Range, StoreError> {
    let epk = |text: &str| Epk::parse_hex(text).map_err(|_| corrupt());
    let number = |value: &Value| {
        value.as_i64().and_then(|number| u32::try_from(number).ok()).ok_or_else(corrupt)
    };
    let min = value.get("min").and_then(Value::as_str).ok_or_else(corrupt)?;
    let max = value.get("max").and_then(Value::as_str).map(epk).transpose()?;
    let parents = value.get("parents").and_then(Value::as_array).unwrap_or_default();
    Ok(Range {
        id: number(value.get("id").ok_or_else(corrupt)?)?,
        min: epk(min)?,
        max,
        parents: parents.iter().map(number).collect::<Result<_, _>>()?,
    })
}

pub(crate) fn write_script(script: &Script) -> Vec<u8> {
    let mut object = stamp(&script.name, script.etag, script.ts);
    let kind = match script.kind {
        Kind::Procedure => "procedure",
        Kind::Trigger => "trigger",
        Kind::Function => "function",
    };
    object.insert("kind", kind.into());
    object.insert("body", Value::String(script.body.clone()));
    if let Some(trigger) = &script.trigger {
        object.insert("before", trigger.before.into());
        object.insert("operation", Value::String(trigger.spelling.clone()));
    }
    finish(object)
}

pub(crate) fn read_script(number: u32, entry: &StoredEntry) -> Result<Script, StoreError> {
    let kind = match &*entry.text("kind")? {
        "procedure" => Kind::Procedure,
        "trigger" => Kind::Trigger,
        "function" => Kind::Function,
        _ => return Err(corrupt()),
    };
    let trigger = match entry.0.get("before").and_then(Value::as_bool) {
        None => None,
        Some(before) => {
            let spelling = entry.text("operation")?;
            let operation = TriggerOperation::parse(&spelling).map_err(|_| corrupt())?;
            Some(Trigger { before, operation, spelling })
        }
    };
    Ok(Script {
        number,
        kind,
        name: entry.text("name")?,
        body: entry.text("body")?,
        trigger,
        etag: entry.etag()?,
        ts: entry.number("ts")?,
    })
}

pub(crate) fn write_user(user: &User) -> Vec<u8> {
    finish(stamp(&user.name, user.etag, user.ts))
}

pub(crate) fn read_user(number: u32, entry: &StoredEntry) -> Result<User, StoreError> {
    Ok(User {
        number,
        name: entry.text("name")?,
        etag: entry.etag()?,
        ts: entry.number("ts")?,
        permissions: BTreeMap::new(),
    })
}

pub(crate) fn write_permission(permission: &Permission) -> Vec<u8> {
    let mut object = stamp(&permission.name, permission.etag, permission.ts);
    object.insert("mode", Value::String(permission.spelling.clone()));
    object.insert("resource", Value::String(permission.resource.clone()));
    if let Some(key) = &permission.partition_key {
        object.insert("partitionKey", key.to_header().into());
    }
    finish(object)
}

pub(crate) fn read_permission(number: u32, entry: &StoredEntry) -> Result<Permission, StoreError> {
    let partition_key = match entry.0.get("partitionKey").and_then(Value::as_str) {
        None => None,
        Some(header) => Some(PartitionKey::parse(header).map_err(|_| corrupt())?),
    };
    Ok(Permission {
        number,
        name: entry.text("name")?,
        mode: Mode::parse(&entry.text("mode")?).map_err(|_| corrupt())?,
        spelling: entry.text("mode")?,
        resource: entry.text("resource")?,
        partition_key,
        etag: entry.etag()?,
        ts: entry.number("ts")?,
    })
}

pub(crate) fn write_encryption_key(key: &EncryptionKey) -> Vec<u8> {
    let mut object = stamp(&key.name, key.etag, key.ts);
    object.insert("created", (key.created as i64).into());
    object.insert("definition", Value::object(key.definition.clone()));
    finish(object)
}

pub(crate) fn read_encryption_key(
    number: u32,
    entry: &StoredEntry,
) -> Result<EncryptionKey, StoreError> {
    let definition = entry.0.get("definition").and_then(Value::as_object);
    Ok(EncryptionKey {
        number,
        name: entry.text("name")?,
        etag: entry.etag()?,
        ts: entry.number("ts")?,
        created: entry.number("created")?,
        definition: definition.cloned().ok_or_else(corrupt)?,
    })
}

pub(crate) fn write_offer(offer: &Offer) -> Vec<u8> {
    let mut object = stamp("", offer.etag, offer.ts);
    object.insert("resource", Value::String(offer.resource.clone()));
    object.insert("resourceRid", Value::String(offer.resource_rid.clone()));
    object.insert("highest", i64::from(offer.highest).into());
    object.insert("content", Value::object(offers::write(offer)));
    finish(object)
}

pub(crate) fn read_offer(number: u32, entry: &StoredEntry) -> Result<Offer, StoreError> {
    let content = entry.0.get("content").ok_or_else(corrupt)?;
    Ok(Offer {
        number,
        resource: entry.text("resource")?,
        resource_rid: entry.text("resourceRid")?,
        throughput: offers::throughput(content)?,
        highest: u32::try_from(entry.number("highest")?).map_err(|_| corrupt())?,
        shares: offers::shares(content)?,
        etag: entry.etag()?,
        ts: entry.number("ts")?,
    })
}
