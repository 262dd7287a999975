//! A set of changes that happens whole or not at all.
//!
//! A batch is an ordered list of puts and deletes over any keyspaces. Later operations on a key win
//! over earlier ones. Batches are joined with [`Batch::append`] when the committer forms a group.

use bytes::Bytes;

use crate::Keyspace;

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

/// Changes, committed atomically by [`Store::commit`](crate::Store::commit).
#[derive(Clone, Debug, Default)]
pub struct Batch {
    operations: Vec<Operation>,
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

    /// Adds everything of `other` after everything of `self`.
    pub fn append(&mut self, mut other: Self) {
        self.bytes += other.bytes;
        if self.operations.is_empty() {
            self.operations = other.operations;
        } else {
            self.operations.append(&mut other.operations);
        }
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
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

    /// The puts and deletes, in order, without copying them.
    pub fn into_operations(self) -> impl ExactSizeIterator<Item = Operation> {
        self.operations.into_iter()
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
    #[should_panic(expected = "a key of 0 bytes")]
    fn an_empty_key_is_a_bug() {
        Batch::new().delete(Keyspace::Meta, Vec::new());
    }
}
