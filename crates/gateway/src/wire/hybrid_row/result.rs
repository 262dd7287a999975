//! The rows of an answer: one result each.

use super::record;
use super::row::{code, write_binary};

/// The schema's id.
const SCHEMA: i32 = 2_145_473_649;

/// Presence bits.
const STATUS: u8 = 1;
const SUBSTATUS: u8 = 1 << 1;
const ETAG: u8 = 1 << 2;
const BODY: u8 = 1 << 3;

/// Tokens of the sparse columns.
const RETRY_AFTER: u8 = 5;
const CHARGE: u8 = 6;

/// What became of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ResultRow<'b> {
    /// The status; never 0, which clients take for a damaged answer.
    pub(crate) status: u16,
    /// The substatus, 0 when there is none. Left out only where nobody says it.
    pub(crate) substatus: Option<u32>,
    /// The version that was read or written, quotes included.
    pub(crate) etag: Option<&'b [u8]>,
    /// The item, or the error document of an operation that failed.
    pub(crate) body: Option<&'b [u8]>,
    /// When a throttled operation may be tried again.
    pub(crate) retry_after_millis: Option<u32>,
    /// Request units.
    pub(crate) charge: Option<f64>,
}

impl ResultRow<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        record::head(SCHEMA, out);
        let bit = |present: bool, bit: u8| if present { bit } else { 0 };
        out.push(
            STATUS
                | bit(self.substatus.is_some(), SUBSTATUS)
                | bit(self.etag.is_some(), ETAG)
                | bit(self.body.is_some(), BODY),
        );
        out.extend_from_slice(&u32::from(self.status).to_le_bytes());
        out.extend_from_slice(&self.substatus.unwrap_or(0).to_le_bytes());
        for column in [self.etag, self.body].into_iter().flatten() {
            write_binary(column, out);
        }
        if let Some(millis) = self.retry_after_millis {
            out.extend_from_slice(&[code::UINT32, RETRY_AFTER]);
            out.extend_from_slice(&millis.to_le_bytes());
        }
        if let Some(charge) = self.charge {
            out.extend_from_slice(&[code::FLOAT64, CHARGE]);
            out.extend_from_slice(&charge.to_le_bytes());
        }
    }
}

/// An answer in the making.
#[derive(Debug)]
pub(crate) struct ResultStream(Vec<u8>);

impl ResultStream {
    /// A stream without rows, with room for about so many bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self(record::begin(capacity))
    }

    /// Appends a result.
    pub(crate) fn push(&mut self, row: &ResultRow<'_>) {
        record::append(&mut self.0, |out| row.write(out));
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The whole stream.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}
