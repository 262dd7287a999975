//! Items: a file per verb, all of them on an open [`Txn`](crate::txn::Txn) but reading.

pub mod batch;
pub mod body;
pub mod create;
pub mod delete;
mod delete_partition;
pub mod patch;
pub mod read;
pub mod replace;
pub mod upsert;

use armilla_model::charge::RequestCharge;
use armilla_model::etag::ETag;
use bytes::Bytes;
use std::sync::Arc;

/// What a client asks of a write besides its body.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The version that must be current.
    pub if_match: Option<String>,
    /// The version that must not be current; `*` refuses any existing item.
    pub if_none_match: Option<String>,
    /// The item is left out of the index.
    pub exclude_from_index: bool,
    /// The written text is not wanted back.
    pub minimal: bool,
}

/// The outcome of a write, staged but not yet durable.
#[derive(Clone, Debug)]
pub struct Written {
    /// True when the item did not exist before.
    pub created: bool,
    /// The stored text; empty for a delete, and where it is not wanted.
    pub text: Bytes,
    /// The new version; `None` for a delete.
    pub etag: Option<ETag>,
    /// What it costs.
    pub charge: RequestCharge,
    /// The item's id.
    pub id: Arc<str>,
    /// The ordinal inside its `_rid`.
    pub docno: u64,
    /// Length of the text that it replaces; 0 when there was none.
    pub size_before: usize,
    /// The stored text that it takes the place of, sharing its bytes; nothing for what the same transaction wrote.
    pub replaced: Option<Bytes>,
}
