//! An item as it is stored: a fixed header, then the JSON text that a read answers with.
//!
//! ```text
//!  0 format u8 │ 1 flags u8 │ 2 docno u64 │ 10 LSN u64 │ 18 sequence u32 │ 22 partition u32
//! 26 _ts u32 │ 30 own ttl i32 (0 none) │ 34 etag 16 bytes │ 50 offset of the id in the text u32
//! 54 the text
//! ```
//!
//! The header answers preconditions, expiry and charges without a look at the text, and tells a
//! write which feed entry to remove. All numbers are big-endian.

use armilla_model::error::Error;
use armilla_model::etag::ETag;
use armilla_model::json;
use armilla_model::lsn::Lsn;
use armilla_model::ttl::Liveness;
use armilla_model::value::Value;
use armilla_storage::StoreError;
use bytes::{Buf as _, Bytes};

/// Length of the header.
pub(crate) const HEADER_LENGTH: usize = 54;
const FORMAT: u8 = 1;
/// The item is gone, but its key must stay so that later probes are found.
const FLAG_DELETED: u8 = 1;
/// The item asked not to be indexed.
const FLAG_UNINDEXED: u8 = 2;

/// What the header says, besides the place in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordHead {
    /// Ordinal inside `_rid`.
    pub docno: u64,
    /// Second of the last write.
    pub ts: u32,
    /// The item's own time to live; 0 is none, -1 is never.
    pub ttl: i32,
    /// Version.
    pub etag: ETag,
    /// Where the value of `id` begins in the text.
    pub id_at: u32,
    /// False when the writer excluded the item from the index.
    pub indexed: bool,
}

/// A stored item.
#[derive(Clone, Debug)]
pub struct Record {
    bytes: Bytes,
}

/// The header of a record, with its place in the log left open. The text stands behind it.
pub(crate) fn header(head: &RecordHead) -> [u8; HEADER_LENGTH] {
    let mut header = [0; HEADER_LENGTH];
    header[0] = FORMAT;
    header[1] = if head.indexed { 0 } else { FLAG_UNINDEXED };
    header[2..10].copy_from_slice(&head.docno.to_be_bytes());
    header[26..30].copy_from_slice(&head.ts.to_be_bytes());
    header[30..34].copy_from_slice(&head.ttl.to_be_bytes());
    header[34..50].copy_from_slice(&head.etag.0);
    header[50..54].copy_from_slice(&head.id_at.to_be_bytes());
    header
}

/// Fills in the place in the log, which is known only when the write is sequenced.
pub(crate) fn set_position(record: &mut [u8], lsn: Lsn, sequence: u32, partition: u32) {
    record[10..18].copy_from_slice(&lsn.0.to_be_bytes());
    record[18..22].copy_from_slice(&sequence.to_be_bytes());
    record[22..26].copy_from_slice(&partition.to_be_bytes());
    debug_assert!(
        Record::new(Bytes::copy_from_slice(record)).is_ok_and(|read| {
            (read.lsn(), read.sequence(), read.partition()) == (lsn, sequence, partition)
        }),
        "a record reads back as it was written"
    );
}

/// A key that must stay although its item is gone.
pub(crate) fn tombstone() -> Vec<u8> {
    let mut record = vec![0; HEADER_LENGTH];
    record[0] = FORMAT;
    record[1] = FLAG_DELETED;
    record
}

/// Ordinal, LSN, second and length of the text of a stored item, which name its version; nothing for what is no item.
pub(crate) fn version(bytes: &[u8]) -> Option<(u64, u64, u32, usize)> {
    let header: &[u8; HEADER_LENGTH] = bytes.first_chunk()?;
    if header[0] != FORMAT || header[1] & FLAG_DELETED != 0 {
        return None;
    }
    let docno = u64::from_be_bytes(header[2..10].try_into().ok()?);
    let lsn = u64::from_be_bytes(header[10..18].try_into().ok()?);
    let ts = u32::from_be_bytes(header[26..30].try_into().ok()?);
    Some((docno, lsn, ts, bytes.len() - HEADER_LENGTH))
}

impl Record {
    /// Reads stored bytes.
    pub fn new(bytes: Bytes) -> Result<Self, StoreError> {
        if bytes.len() < HEADER_LENGTH || bytes[0] != FORMAT {
            return Err(StoreError::corruption("items", "a stored item has no valid header"));
        }
        let record = Self { bytes };
        let id_at = u32::from_be_bytes(record.field(50)) as usize;
        if id_at >= record.size() && !record.is_tombstone() {
            return Err(StoreError::corruption("items", "a stored item ends before its id"));
        }
        Ok(record)
    }

    /// The same in memory of its own.
    pub(crate) fn detached(&self) -> Self {
        Self { bytes: Bytes::copy_from_slice(&self.bytes) }
    }

    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        self.bytes[at..at + N].try_into().expect("the header's length was checked when it was read")
    }

    /// True for a key that stays without its item.
    pub fn is_tombstone(&self) -> bool {
        self.bytes[1] & FLAG_DELETED != 0
    }

    /// False when the writer excluded the item from the index.
    pub fn is_indexed(&self) -> bool {
        self.bytes[1] & FLAG_UNINDEXED == 0
    }

    /// Ordinal inside `_rid`.
    pub fn docno(&self) -> u64 {
        u64::from_be_bytes(self.field(2))
    }

    /// Transaction that wrote it.
    pub fn lsn(&self) -> Lsn {
        Lsn(u64::from_be_bytes(self.field(10)))
    }

    /// Entry inside that transaction.
    pub fn sequence(&self) -> u32 {
        u32::from_be_bytes(self.field(18))
    }

    /// Physical partition whose log has it.
    pub fn partition(&self) -> u32 {
        u32::from_be_bytes(self.field(22))
    }

    /// Reads the item's members with these names, and only those.
    pub fn members(&self, names: &json::Wanted) -> armilla_model::error::Result<Value> {
        json::parse_members(&self.bytes[HEADER_LENGTH..], names).map_err(not_json)
    }

    /// Finds the same members, and leaves their values as they are written.
    pub(crate) fn member_texts(
        &self,
        names: &json::Wanted,
    ) -> armilla_model::error::Result<json::MemberTexts<'_>> {
        json::member_texts(&self.bytes[HEADER_LENGTH..], names).map_err(not_json)
    }

    /// Second of the last write.
    pub fn ts(&self) -> u32 {
        u32::from_be_bytes(self.field(26))
    }

    /// Own time to live; 0 is none.
    pub fn ttl(&self) -> i32 {
        i32::from_be_bytes(self.field(30))
    }

    /// Version.
    pub fn etag(&self) -> ETag {
        ETag(self.field(34))
    }

    /// The JSON text, sharing the stored bytes.
    pub fn text(&self) -> Bytes {
        self.bytes.slice(HEADER_LENGTH..)
    }

    /// The same, where nobody wants the header any more.
    pub(crate) fn into_text(mut self) -> Bytes {
        self.bytes.advance(HEADER_LENGTH);
        self.bytes
    }

    /// The same without a share in the bytes.
    pub(crate) fn as_text(&self) -> &[u8] {
        &self.bytes[HEADER_LENGTH..]
    }

    /// Length of the JSON text.
    pub fn size(&self) -> usize {
        self.bytes.len() - HEADER_LENGTH
    }

    /// The item's id.
    pub fn id(&self) -> Option<String> {
        let at = HEADER_LENGTH + u32::from_be_bytes(self.field(50)) as usize;
        let text = self.bytes.get(at..)?;
        let mut escaped = false;
        let end = text.iter().skip(1).position(|&byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        })?;
        let id = armilla_model::json::parse(&text[..end + 2]).ok()?;
        id.as_str().map(str::to_owned)
    }

    /// True when the item's id, written as JSON with quotes, is this one.
    pub fn has_id(&self, quoted: &[u8]) -> bool {
        let at = HEADER_LENGTH + u32::from_be_bytes(self.field(50)) as usize;
        !self.is_tombstone() && self.bytes.get(at..).is_some_and(|rest| rest.starts_with(quoted))
    }

    /// Whether the item has not expired.
    pub fn is_alive(&self, liveness: Liveness) -> bool {
        liveness.is_alive(self.ts(), self.ttl())
    }
}

/// What is said of a stored text that cannot be read.
pub(crate) fn not_json(error: json::JsonError) -> Error {
    Error::Internal(format!("a stored item is not JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back() {
        let head =
            RecordHead { docno: 5, ts: 100, ttl: 60, etag: ETag([7; 16]), id_at: 6, indexed: true };
        let mut bytes = header(&head).to_vec();
        bytes.extend_from_slice(br#"{"id":"a"}"#);
        set_position(&mut bytes, Lsn(9), 2, 3);
        let record = Record::new(bytes.into()).unwrap();
        assert_eq!((record.docno(), record.lsn(), record.sequence()), (5, Lsn(9), 2));
        assert_eq!((record.partition(), record.ts(), record.ttl()), (3, 100, 60));
        assert_eq!(version(&record.bytes), Some((5, 9, 100, 10)));
        assert_eq!(version(&record.bytes[..HEADER_LENGTH - 1]), None);
        assert_eq!(version(&tombstone()), None);
        assert!(record.has_id(b"\"a\"") && !record.has_id(b"\"ab\""));
        assert_eq!(record.id().as_deref(), Some("a"));
        assert_eq!(record.text(), br#"{"id":"a"}"#.as_slice());
    }
}
