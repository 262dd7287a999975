//! What the index knows of one document, besides its terms.

/// A version of a document, as it is given to the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Effective partition key: bytes of any length that sort byte by byte.
    pub epk: Vec<u8>,
    /// The ordinal inside `_rid`; stays the same when the document is replaced.
    pub docno: u64,
    /// The LSN at which this version was written.
    pub lsn: u64,
    /// The hash that stands in the item's key.
    pub hash: u64,
    /// The second of the last write, `_ts`.
    pub ts: u32,
    /// The document's own time to live in seconds, -1 for never, 0 for none of its own.
    pub ttl: i32,
    /// How many bytes the item's text has.
    pub size: u32,
}

/// A version of a document, as it is read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentRef<'a> {
    /// See [`Document::epk`].
    pub epk: &'a [u8],
    /// See [`Document::docno`].
    pub docno: u64,
    /// See [`Document::lsn`].
    pub lsn: u64,
    /// See [`Document::hash`].
    pub hash: u64,
    /// See [`Document::ts`].
    pub ts: u32,
    /// See [`Document::ttl`].
    pub ttl: i32,
    /// See [`Document::size`].
    pub size: u32,
}

impl Document {
    /// The same, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> DocumentRef<'_> {
        let Self { epk, docno, lsn, hash, ts, ttl, size } = self;
        DocumentRef { epk, docno: *docno, lsn: *lsn, hash: *hash, ts: *ts, ttl: *ttl, size: *size }
    }
}

impl DocumentRef<'_> {
    /// The same, owned.
    #[must_use]
    pub fn to_owned(self) -> Document {
        let Self { epk, docno, lsn, hash, ts, ttl, size } = self;
        Document { epk: epk.to_vec(), docno, lsn, hash, ts, ttl, size }
    }
}

/// Names a version that is replaced or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The version's effective partition key.
    pub epk: Vec<u8>,
    /// The version's document number.
    pub docno: u64,
    /// The LSN at which the version was written, where the caller knows it: it leads straight to
    /// the part that holds the version. Without it every part is asked.
    pub lsn: Option<u64>,
}
