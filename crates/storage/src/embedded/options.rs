//! How the engine is set up, and why.

use std::path::Path;
use std::sync::Arc;

use fjall::config::{BlockSizePolicy, CompressionPolicy, FilterPolicy, RestartIntervalPolicy};
use fjall::{CompressionType, Database, DatabaseBuilder, KeyspaceCreateOptions};

use super::merges;
use super::room_waits::RoomWaits;
use crate::Keyspace;

const KIB: u32 = 1024;
const MIB: u64 = 1024 * 1024;

/// Every key of a block is written whole, not as what it adds to the key before it. Keys of items are
/// short and compress well, and a read takes them as they lie: without putting each together in memory of
/// its own, and by halving the block instead of walking through a part of it (decision 0017).
const WHOLE_KEYS: u8 = 1;

/// The smallest journal bound the engine takes.
const JOURNAL_BYTES_MIN: u64 = 64 * MIB;

/// The fewest files the engine keeps open.
const FILES_MIN: usize = 10;

/// What can be chosen when a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// Memory for blocks read from disk.
    pub cache_bytes: u64,
    /// Size of the write buffer of `items`. Remembered by the folder: a new value counts for
    /// folders created with it.
    pub items_buffer_bytes: u64,
    /// About how much journal may wait for a restart to read it; at least 64 MiB.
    pub journal_bytes_max: u64,
    /// Files of tables that are kept open; at least 10. Where the process may open few, this
    /// leaves some to others.
    pub files_max: usize,
    /// Bytes of the disk that are kept free for what is on its way and for deletes, beside the bytes of the
    /// largest merge in sight.
    pub reserve_bytes: u64,
    /// Threads that flush and merge; at least one. One of them only flushes when there are more.
    pub workers: usize,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 128 * MIB,
            items_buffer_bytes: 64 * MIB,
            journal_bytes_max: 128 * MIB,
            // A new journal and a flush of every write buffer.
            reserve_bytes: 256 * MIB,
            files_max: 900,
            // One flushes, two merge: the small merges of one tree do not wait for a large one of another.
            workers: 3,
        }
    }
}

impl EmbeddedOptions {
    /// The engine in a folder; what meets a full disk waits there.
    pub(super) fn waiting(&self, path: &Path, waits: &Arc<RoomWaits>) -> DatabaseBuilder<Database> {
        let factory = merges::pausing(waits);
        let assign = move |_keyspace: &str| Some(Arc::clone(&factory));
        let database = self.database(path).on_full_disk(waits.handler());
        database.with_compaction_filter_factories(Arc::new(assign))
    }

    pub(super) fn database(&self, path: &Path) -> DatabaseBuilder<Database> {
        Database::builder(path)
            .cache_size(self.cache_bytes)
            .max_journaling_size(self.journal_bytes_max.max(JOURNAL_BYTES_MIN))
            .max_cached_files(Some(self.files_max.max(FILES_MIN)))
            .worker_threads(self.workers.max(1))
            // The journal is short-lived: compressing it costs more CPU than its bytes are worth.
            .journal_compression(CompressionType::None)
    }

    pub(super) fn keyspace(&self, keyspace: Keyspace) -> KeyspaceCreateOptions {
        let options = KeyspaceCreateOptions::default()
            // Every write names its durability; nothing is persisted behind our back.
            .manual_journal_persist(true)
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
            .max_memtable_size(self.buffer_bytes(keyspace))
            .data_block_size_policy(BlockSizePolicy::all(block_bytes(keyspace)));
        match keyspace {
            Keyspace::Items => {
                options.data_block_restart_interval_policy(RestartIntervalPolicy::all(WHOLE_KEYS))
            }
            _ if is_log(keyspace) => options.filter_policy(FilterPolicy::disabled()),
            _ => options,
        }
    }

    fn buffer_bytes(&self, keyspace: Keyspace) -> u64 {
        match keyspace {
            Keyspace::Items => self.items_buffer_bytes,
            Keyspace::Versions => 32 * MIB,
            Keyspace::Feed | Keyspace::Gone => 16 * MIB,
            Keyspace::Unique | Keyspace::Expiry => 8 * MIB,
            Keyspace::Meta => 4 * MIB,
        }
    }
}

/// Logs are written at the end and read in order, never by a key that may be absent: they need no
/// filters and like larger blocks.
const fn is_log(keyspace: Keyspace) -> bool {
    matches!(keyspace, Keyspace::Feed | Keyspace::Gone | Keyspace::Expiry | Keyspace::Versions)
}

const fn block_bytes(keyspace: Keyspace) -> u32 {
    if is_log(keyspace) { 16 * KIB } else { 4 * KIB }
}
