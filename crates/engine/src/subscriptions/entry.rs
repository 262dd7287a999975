//! One change on its way to a target.

use super::members::number;
use armilla_model::error::{Error, Result};
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::{Epk, PartitionKey};
use armilla_model::value::{Object, Value};
use std::fmt;
use std::sync::Arc;

/// Which change it is: unique in its container, and the same whenever it is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey {
    /// Its transaction.
    pub lsn: Lsn,
    /// The range whose log has it, which may have been split since.
    pub log: u32,
    /// Its place in the transaction.
    pub sequence: u32,
}

impl fmt::Display for EntryKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}:{}", self.log, self.lsn.0, self.sequence)
    }
}

impl EntryKey {
    /// Reads what [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let log = parts.next()?.parse().ok()?;
        let lsn = Lsn(parts.next()?.parse().ok()?);
        let sequence = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Self { lsn, log, sequence })
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryOperation {
    /// The item was made.
    Create,
    /// It got a new version.
    Replace,
    /// It was removed.
    Delete,
    /// Its time to live ran out.
    Expire,
}

impl EntryOperation {
    /// All of them; the first two are those of the feed of newest versions.
    pub const ALL: [Self; 4] = [Self::Create, Self::Replace, Self::Delete, Self::Expire];

    /// The word for clients.
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Replace => "replace",
            Self::Delete => "delete",
            Self::Expire => "expire",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.word() == word)
    }
}

/// A change as it is delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct SubscriptionEntry {
    /// Which it is.
    pub key: EntryKey,
    /// What happened.
    pub operation: EntryOperation,
    /// Second of its commit.
    pub second: u32,
    /// Key of the logical partition.
    pub partition_key: PartitionKey,
    /// Id of the item.
    pub id: Arc<str>,
    /// The item, projected; nothing when it is gone.
    pub item: Option<Value>,
    /// The version before, where the feed has it.
    pub previous: Option<Value>,
}

impl SubscriptionEntry {
    /// The form in which targets get it, and dead letters keep it.
    pub fn members(&self) -> Object {
        let mut members = Object::of([
            ("key", self.key.to_string().into()),
            ("operation", self.operation.word().into()),
            ("lsn", number(self.key.lsn.0)),
            ("ts", number(self.second)),
            ("partitionKey", json_of(&self.partition_key)),
            ("id", Value::String(self.id.clone())),
        ]);
        if let Some(item) = &self.item {
            members.insert("item", item.clone());
        }
        if let Some(previous) = &self.previous {
            members.insert("previous", previous.clone());
        }
        members
    }

    /// Reads what a dead letter keeps.
    pub fn read(value: &Value) -> Result<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let read = || {
            let key = EntryKey::parse(text("key")?)?;
            let second = value.get("ts")?.as_i64()?;
            Some(Self {
                key,
                operation: EntryOperation::parse(text("operation")?)?,
                second: u32::try_from(second).ok()?,
                partition_key: PartitionKey::parse(&value.get("partitionKey")?.to_json()).ok()?,
                id: text("id")?.into(),
                item: value.get("item").cloned(),
                previous: value.get("previous").cloned(),
            })
        };
        read().ok_or_else(|| {
            Error::bad_request("The dead letter's 'entry' was changed and cannot be delivered.")
        })
    }
}

/// A partition key as the array that clients write in a header.
pub(super) fn json_of(key: &PartitionKey) -> Value {
    armilla_model::json::parse(key.to_header().as_bytes()).unwrap_or(Value::Null)
}

/// The entries of one transaction, which is never cut: they are in one logical partition.
#[derive(Clone, Debug)]
pub struct Group {
    /// The transaction.
    pub lsn: Lsn,
    /// Effective key of the logical partition.
    pub epk: Epk,
    /// Second of the commit.
    pub second: u32,
    /// What is delivered.
    pub entries: Vec<SubscriptionEntry>,
    /// Bytes of the items.
    pub bytes: usize,
    /// How many subscriptions caused one another until this was written.
    pub depth: u8,
    /// Why it cannot be delivered at all: the condition failed on it, or it is part of a loop.
    pub broken: Option<DeliveryFailure>,
}

/// Why something was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryFailure {
    /// A status, where the target gave one.
    pub status: Option<u16>,
    /// In words.
    pub message: String,
}

impl DeliveryFailure {
    /// A failure in words.
    pub fn told(message: impl Into<String>) -> Self {
        Self { status: None, message: message.into() }
    }

    /// As clients read it.
    pub fn members(&self) -> Object {
        let mut members = Object::new();
        if let Some(status) = self.status {
            members.insert("status", number(status));
        }
        members.insert("message", self.message.as_str().into());
        members
    }
}
