//! A set of changes that happens whole or not at all.
//!
//! A batch is an ordered list of puts and deletes over any keyspaces. Later operations on a key win
//! over earlier ones. Batches are joined with [`Batch::append`] when the committer forms a group.

use bytes::{Bytes, BytesMut};

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
    pub key: Bytes,
    /// The new value, or `None` when the key is deleted.
    pub value: Option<Bytes>,
    /// Key and value are parts of a piece of memory that others of the same batch have parts of: it is held as long as one of them is.
    pub is_shared: bool,
}

/// Changes, committed atomically by [`Store::commit`](crate::Store::commit).
#[derive(Clone, Debug, Default)]
pub struct Batch {
    operations: Vec<Operation>,
    bytes: usize,
    shared: SharedMemory,
}

/// Memory for the keys and values of [`Batch::put_shared`]: a piece for items, and one for all else, since what is written to different
/// keyspaces is let go of at different times.
#[derive(Clone, Debug, Default)]
struct SharedMemory {
    items: BytesMut,
    others: BytesMut,
}

impl SharedMemory {
    fn of(&mut self, keyspace: Keyspace) -> &mut BytesMut {
        match keyspace {
            Keyspace::Items => &mut self.items,
            _ => &mut self.others,
        }
    }
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
        let (key, value) = (key.into(), value.into());
        assert!(value.len() <= VALUE_LENGTH_MAX, "a value of {} bytes is too long", value.len());
        self.push(Operation { keyspace, key, value: Some(value), is_shared: false });
    }

    /// Makes room for keys and values of so many bytes that [`put_shared`](Self::put_shared) is going to copy.
    pub fn share(&mut self, keyspace: Keyspace, bytes: usize) {
        self.shared.of(keyspace).reserve(bytes);
    }

    /// As [`put`](Self::put), with a copy of key and value in memory that many of the batch share. Worth it where a batch has many: a store
    /// takes a part of shared memory over, and lets go of it, without asking for memory or giving it back.
    ///
    /// # Panics
    ///
    /// As [`put`](Self::put).
    pub fn put_shared(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) {
        assert!(value.len() <= VALUE_LENGTH_MAX, "a value of {} bytes is too long", value.len());
        let memory = self.shared.of(keyspace);
        let mut part = |bytes: &[u8]| {
            memory.extend_from_slice(bytes);
            memory.split().freeze()
        };
        let (key, value) = (part(key), part(value));
        self.push(Operation { keyspace, key, value: Some(value), is_shared: true });
    }

    /// Removes `key`, whether or not it is there.
    ///
    /// # Panics
    ///
    /// When the key is empty or longer than [`KEY_LENGTH_MAX`].
    pub fn delete(&mut self, keyspace: Keyspace, key: Vec<u8>) {
        self.push(Operation { keyspace, key: key.into(), value: None, is_shared: false });
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
    fn what_shares_memory_is_what_was_put() {
        let (mut shared, mut plain) = (Batch::new(), Batch::new());
        shared.share(Keyspace::Items, 40);
        for number in 0..100u8 {
            let (key, value) = (vec![number; 3], vec![number; usize::from(number)]);
            let keyspace = if number % 2 == 0 { Keyspace::Items } else { Keyspace::Feed };
            shared.put_shared(keyspace, &key, &value);
            plain.put(keyspace, key, value);
        }
        assert_eq!(shared.bytes(), plain.bytes());
        for (shared, plain) in shared.into_operations().zip(plain.into_operations()) {
            assert_eq!(Operation { is_shared: false, ..shared }, plain);
        }
    }

    #[test]
    #[should_panic(expected = "a key of 0 bytes")]
    fn an_empty_key_is_a_bug() {
        Batch::new().delete(Keyspace::Meta, Vec::new());
    }
}
