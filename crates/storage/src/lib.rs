//! An ordered byte map with snapshots and atomic batches behind one trait.
//!
//! Everything Armilla must not lose lives here, as keys and values of plain bytes in seven
//! [keyspaces](Keyspace). A reader takes a [`Snapshot`] and holds no lock; a writer hands in a
//! [`Batch`], which becomes visible whole or not at all:
//!
//! ```text
//!   staged batches ──► Committer (one thread) ──► Store::commit ──► sync ──► Snapshot
//!                        one group, one sync          │
//!                                                     ├─ EmbeddedStore  (fjall, on disk)
//!                                                     └─ MemoryStore    (tests, --in-memory)
//! ```
//!
//! * [`keycode`] makes keys whose bytes sort as their values sort.
//! * [`Committer`] turns many small commits into few synced ones.
//! * [`backup`] copies one snapshot into checksummed files and reads it back.
//! * [`verify`] walks every key, so that damage is found before it is needed.
//! * [`ledger`] keeps the truth of several nodes in an existing replicated database.
//! * [`disk`] is the one door to files; only the engine's own files are opened elsewhere.
//!
//! This crate knows no items, containers or JSON: what the bytes mean is the engine's business.
//! There is no transaction object: a batch is all that is written, so that a remote store can answer a
//! write in one round trip.

pub mod backup;
mod batch;
mod commit;
pub mod disk;
mod embedded;
mod error;
pub mod keycode;
mod keyspace;
pub mod ledger;
mod memory;
mod range;
mod store;
pub mod verify;

pub use batch::{Batch, KEY_LENGTH_MAX, Operation, VALUE_LENGTH_MAX};
pub use commit::{
    Committer, CommitterStats, Completion, Fatal, FatalHandler, Publish, Queued, Submission,
};
pub use embedded::{EmbeddedOptions, EmbeddedStore, FORMAT_VERSION, Loss, Salvage};
pub use error::StoreError;
pub use keyspace::Keyspace;
pub use memory::MemoryStore;
pub use range::{Direction, KeyRange};
pub use store::{Durability, Pressure, Room, Shown, Snapshot, Store, StoreStats};
