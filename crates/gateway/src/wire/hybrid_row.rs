//! HybridRow: the binary form in which the .NET SDK sends batches and bulk, and takes their results.
//!
//! A body is a RecordIO stream ([`record`]): a segment header, then for each record a header with the
//! length and the checksum of the row behind it. All numbers are little-endian:
//!
//! ```text
//! 81 F0D8FF7F 01 length          segment header (10 bytes, or longer with a comment)
//! 81 F1D8FF7F length crc32       record header (13 bytes)
//! 81 schema presence fixed variable sparse
//! ```
//!
//! A row ([`row`]) has an id of its schema, one presence bit for each nullable fixed and each variable
//! column, the fixed columns, the variable columns that are there, and sparse fields to the end. Two schemas
//! are spoken: [`operation`] in requests, which [`meaning`] makes operations of, and [`result`] in answers.
//!
//! The whole stream is checked before anything of it is applied. A length is compared with the bytes that
//! are there before it is used; rows borrow from the body, so nothing is allocated by what a client declares.

mod meaning;
mod operation;
mod record;
mod result;
mod row;

#[cfg(test)]
mod tests;

pub(crate) use result::{ResultRow, ResultStream};

use armilla_engine::items::batch::Operation;
use armilla_model::limits::BATCH_OPERATIONS_MAX;
use armilla_model::{Error, Result};

/// The first byte of every row, and so of every stream.
const VERSION: u8 = 0x81;

/// True for a body in this form.
pub fn is_hybrid_row(body: &[u8]) -> bool {
    body.first() == Some(&VERSION)
}

/// Reads the operations of a batch. A stream that is damaged is refused as a whole. A row whose body or key
/// cannot be read becomes an operation that fails when its turn comes, and alone.
pub fn parse_operations(stream: &[u8]) -> Result<Vec<Operation>> {
    let mut rows = Vec::new();
    for row in record::rows(stream) {
        if rows.len() == BATCH_OPERATIONS_MAX {
            return Err(too_many(stream));
        }
        rows.push(operation::OperationRow::read(row?)?);
    }
    if rows.is_empty() {
        return Err(Error::bad_request("Batch request has no operations."));
    }
    Ok(rows.iter().map(operation::OperationRow::operation).collect())
}

fn too_many(stream: &[u8]) -> Error {
    let count = record::rows(stream).take_while(Result::is_ok).count();
    Error::bad_request(format!(
        "Batch request has more operations than what is supported. It has {count}, and may have {BATCH_OPERATIONS_MAX}."
    ))
}

/// The refusal of a stream that cannot be read.
fn malformed<T>(why: &str) -> Result<T> {
    Err(Error::bad_request(format!(
        "The batch is not a valid HybridRow stream: {why}. Nothing was written."
    )))
}
