//! A set of changes that happens whole or not at all.
//!
//! A batch is an ordered list of puts and deletes over any keyspaces, plus conditions on the state
//! found before the batch. Later operations on a key win over earlier ones. Batches are joined
//! with [`Batch::append`] when the committer forms a group; a condition of the second batch then
//! sees what the first one writes, exactly as if they had been committed one after the other.

use bytes::Bytes;

use crate::{Keyspace, Snapshot, StoreError};

/// The longest key the stores accept, in bytes.
pub const KEY_LENGTH_MAX: usize = 32 * 1024;

/// The longest value the stores accept, in bytes.
pub const VALUE_LENGTH_MAX: usize = 256 * 1024 * 1024;

/// What is counted for an operation beside its key and value, so that many tiny ones weigh something.
const OPERATION_OVERHEAD: usize = 16;

/// One change: a value to put, or nothing to delete the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The map that is changed.
    pub keyspace: Keyspace,
    /// The key that is changed; never empty.
    pub key: Vec<u8>,
    /// The new value, or `None` when the key is deleted.
    pub value: Option<Bytes>,
}

/// What must hold before the batch, or nothing of it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The map that is looked at.
    pub keyspace: Keyspace,
    /// The key that is looked at.
    pub key: Vec<u8>,
    /// The value that must be there, or `None` when the key must be absent.
    pub expected: Option<Bytes>,
    /// How many operations of the batch come before the batch this condition was written for.
    preceding: usize,
}

/// Changes and conditions, committed atomically by [`Store::commit`](crate::Store::commit).
#[derive(Clone, Debug, Default)]
pub struct Batch {
    operations: Vec<Operation>,
    conditions: Vec<Condition>,
    bytes: usize,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with room for this many operations.
    #[must_use]
    pub fn with_capacity(operations: usize) -> Self {
        Self { operations: Vec::with_capacity(operations), ..Self::default() }
    }

    /// Sets `key` to `value`.
    ///
    /// # Panics
    ///
    /// When the key is empty or longer than [`KEY_LENGTH_MAX`], or the value longer than
    /// [`VALUE_LENGTH_MAX`]: callers check sizes long before.
    pub fn put(&mut self, keyspace: Keyspace, key: Vec<u8>, value: impl Into<Bytes>) {
        let value = value.into();
        assert!(value.len() <= VALUE_LENGTH_MAX, "a value of {} bytes is too long", value.len());
        self.push(Operation { keyspace, key, value: Some(value) });
    }

    /// Removes `key`, whether or not it is there.
    ///
    /// # Panics
    ///
    /// When the key is empty or longer than [`KEY_LENGTH_MAX`].
    pub fn delete(&mut self, keyspace: Keyspace, key: Vec<u8>) {
        self.push(Operation { keyspace, key, value: None });
    }

    /// Refuses the batch unless `key` is absent before it.
    pub fn require_absent(&mut self, keyspace: Keyspace, key: Vec<u8>) {
        self.conditions.push(Condition { keyspace, key, expected: None, preceding: 0 });
    }

    /// Refuses the batch unless `key` has exactly this value before it.
    pub fn require_equals(&mut self, keyspace: Keyspace, key: Vec<u8>, value: impl Into<Bytes>) {
        let expected = Some(value.into());
        self.conditions.push(Condition { keyspace, key, expected, preceding: 0 });
    }

    /// Adds everything of `other` after everything of `self`.
    pub fn append(&mut self, mut other: Self) {
        let preceding = self.operations.len();
        for condition in &mut other.conditions {
            condition.preceding += preceding;
        }
        self.bytes += other.bytes;
        if self.operations.is_empty() {
            self.operations = other.operations;
        } else {
            self.operations.append(&mut other.operations);
        }
        self.conditions.append(&mut other.conditions);
    }

    /// Whether there is nothing to do and nothing to check.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty() && self.conditions.is_empty()
    }

    /// The number of puts and deletes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// About how many bytes the batch will write.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The puts and deletes, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Operation> {
        self.operations.iter()
    }

    /// The conditions.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// The puts and deletes, in order, without copying them.
    pub fn into_operations(self) -> impl ExactSizeIterator<Item = Operation> {
        self.operations.into_iter()
    }

    /// Checks every condition against the state before the batch.
    ///
    /// # Errors
    ///
    /// [`StoreError::PreconditionFailed`] names the first one that does not hold.
    pub fn check(&self, before: &dyn Snapshot) -> Result<(), StoreError> {
        self.conditions.iter().try_for_each(|condition| self.check_one(condition, before))
    }

    fn check_one(&self, condition: &Condition, before: &dyn Snapshot) -> Result<(), StoreError> {
        let Condition { keyspace, key, expected, preceding } = condition;
        // Conditions are rare and groups small, so looking back through the group is cheap enough.
        let written = self.operations.iter().take(*preceding).rev();
        let written = written.into_iter().find(|o| o.keyspace == *keyspace && o.key == *key);
        let found = match written {
            Some(operation) => operation.value.clone(),
            None => before.get(*keyspace, key)?,
        };
        if found == *expected {
            return Ok(());
        }
        Err(StoreError::PreconditionFailed { keyspace: *keyspace, key: key.clone() })
    }

    fn push(&mut self, operation: Operation) {
        let length = operation.key.len();
        assert!((1..=KEY_LENGTH_MAX).contains(&length), "a key of {length} bytes is not allowed");
        self.bytes += length + operation.value.as_ref().map_or(0, Bytes::len) + OPERATION_OVERHEAD;
        self.operations.push(operation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, MemoryStore, Store};

    #[test]
    fn append_keeps_order_and_adds_sizes() {
        let mut first = Batch::new();
        first.put(Keyspace::Items, b"a".to_vec(), "1");
        let mut second = Batch::new();
        second.delete(Keyspace::Items, b"a".to_vec());
        let bytes = first.bytes() + second.bytes();
        first.append(second);
        assert_eq!((first.len(), first.bytes()), (2, bytes));
        let values: Vec<_> = first.iter().map(|o| o.value.is_some()).collect();
        assert_eq!(values, [true, false]);
    }

    #[test]
    fn a_batch_of_conditions_only_is_not_empty() {
        let mut batch = Batch::new();
        assert!(batch.is_empty());
        batch.require_absent(Keyspace::Meta, b"a".to_vec());
        assert!(!batch.is_empty());
        assert_eq!(batch.len(), 0);
    }

    #[test]
    fn a_condition_looks_before_its_own_batch_whatever_the_order_of_calls() {
        let store = MemoryStore::new();
        let mut batch = Batch::new();
        batch.put(Keyspace::Meta, b"a".to_vec(), "1");
        batch.require_absent(Keyspace::Meta, b"a".to_vec());
        assert!(batch.check(&*store.snapshot()).is_ok());
    }

    #[test]
    fn a_condition_of_an_appended_batch_sees_the_batch_before_it() {
        let store = MemoryStore::new();
        let mut first = Batch::new();
        first.put(Keyspace::Meta, b"a".to_vec(), "1");
        let mut second = Batch::new();
        second.require_equals(Keyspace::Meta, b"a".to_vec(), "1");
        second.put(Keyspace::Meta, b"a".to_vec(), "2");
        let mut third = Batch::new();
        third.require_absent(Keyspace::Meta, b"a".to_vec());

        let mut group = Batch::new();
        group.append(first);
        group.append(second);
        assert!(store.commit(group.clone(), Durability::Synced).is_ok());

        let store = MemoryStore::new();
        group.append(third);
        let refused = store.commit(group, Durability::Synced);
        assert!(matches!(refused, Err(StoreError::PreconditionFailed { .. })));
        assert_eq!(store.snapshot().get(Keyspace::Meta, b"a").unwrap(), None);
    }

    #[test]
    #[should_panic(expected = "a key of 0 bytes")]
    fn an_empty_key_is_a_bug() {
        Batch::new().delete(Keyspace::Meta, Vec::new());
    }
}
