//! An item as an open transaction sees it: stored, or as the transaction left it.

use super::{Draft, Staged, Txn, parse_stored};
use crate::items::WriteOptions;
use crate::items::read::Item;
use crate::record::{HEADER_LENGTH, Record};
use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_model::lsn::Lsn;
use armilla_model::value::Value;
use bytes::Bytes;

/// An item as the transaction sees it.
pub enum Current<'t> {
    /// As it is in the store.
    Stored(Record),
    /// As the transaction left it.
    Staged(StagedItem<'t>),
}

/// A version that the transaction made.
pub struct StagedItem<'t>(pub(super) &'t Draft);

impl Txn {
    /// Whether the transaction has changed this item.
    pub fn has_changed(&self, id: &str) -> bool {
        let staged = self.touched.find(id).and_then(|at| self.staged.get(at));
        staged.is_some_and(Staged::is_changed)
    }
}

impl Current<'_> {
    /// The version.
    pub fn etag(&self) -> ETag {
        match self {
            Self::Stored(record) => record.etag(),
            Self::Staged(StagedItem(draft)) => draft.head.etag,
        }
    }

    /// The ordinal.
    pub fn docno(&self) -> u64 {
        match self {
            Self::Stored(record) => record.docno(),
            Self::Staged(StagedItem(draft)) => draft.head.docno,
        }
    }

    /// Length of the text.
    pub fn size(&self) -> usize {
        match self {
            Self::Stored(record) => record.size(),
            Self::Staged(StagedItem(draft)) => draft.bytes.len() - HEADER_LENGTH,
        }
    }

    /// Checks the client's preconditions against this version.
    pub fn check(&self, options: &WriteOptions) -> Result<()> {
        let etag = self.etag();
        let known = options.if_none_match.as_deref().is_some_and(|known| etag.matches(known));
        if known {
            Err(Error::precondition_failed())
        } else {
            etag.check(options.if_match.as_deref())
        }
    }

    /// The item for a reader.
    pub fn into_item(self) -> Item {
        match self {
            Self::Stored(record) => Item::of(&record),
            Self::Staged(StagedItem(draft)) => Item {
                text: Bytes::copy_from_slice(&draft.bytes[HEADER_LENGTH..]),
                etag: draft.head.etag,
                lsn: Lsn(0),
            },
        }
    }

    /// The document.
    pub fn value(&self) -> Result<Value> {
        match self {
            Self::Stored(record) => parse_stored(&record.text()),
            Self::Staged(StagedItem(draft)) => Ok(draft.value.clone()),
        }
    }
}
