//! What Cosmos DB *does*: accounts, containers, partitions, transactions, queries.
//!
//! Nothing here knows HTTP, and nothing is `async`: calls run to completion on the caller's thread.
//! The two things that take time, waiting for a logical partition's lock and for a commit to be
//! durable, are calls that take a callback ([`Container::lock`](container::Container::lock),
//! [`Txn::commit`](txn::Txn::commit)).
//!
//! ```text
//! account ── catalog ── database ── container ── partition (a range of effective keys)
//!                                       │             │
//!                                      txn ───────────┘   one change set, one batch, one LSN
//! ```

pub mod account;
mod address;
pub mod admission;
pub mod catalog;
mod computed;
mod container;
mod core;
mod damage;
pub mod dials;
pub mod encryption;
pub mod feed;
mod feed_entry;
mod generation;
mod geo_grid;
mod index_files;
mod indexing;
mod item_cache;
pub mod items;
mod keys;
pub mod limits;
mod listing;
pub mod locks;
mod names;
pub mod observe;
pub mod offers;
mod ordinals;
pub mod partition;
mod partition_sizes;
mod paths;
pub mod prediction;
pub mod query;
mod quick_hash;
pub mod ranges;
mod ranked;
mod record;
mod reindex;
pub mod restore;
pub mod salvage;
pub mod scripts;
mod slice;
mod split;
pub mod subscriptions;
pub mod throttle;
pub mod txn;
pub mod users;
mod verify;
pub mod versions;
pub mod views;

pub use account::{Account, Options};
pub use address::ItemAddress;
pub use container::{Container, Settings as ContainerSettings};
pub use slice::{Slice, SliceBounds};
pub use txn::Txn;

pub(crate) use damage::store_failure;
