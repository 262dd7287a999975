//! RecordIO: segments and records, each record with the checksum of its row.

use super::{VERSION, malformed};
use armilla_model::Result;

/// Schema of a segment header.
const SEGMENT: i32 = 2_147_473_648;
/// Schema of a record header.
const RECORD: i32 = 2_147_473_649;
/// Version and schema id, which every row begins with.
const ROW_HEAD: usize = 5;
/// The least segment header: head, presence byte, length.
const SEGMENT_LENGTH_MIN: usize = 10;
/// A record header: head, length, checksum.
const RECORD_HEADER_LENGTH: usize = 13;
/// The presence bit of a segment's length.
const LENGTH_PRESENT: u8 = 1;

/// The rows of a stream in their order; ends after the first error.
pub(super) fn rows(stream: &[u8]) -> impl Iterator<Item = Result<&[u8]>> {
    let mut rest = Some(stream);
    let mut in_segment = false;
    std::iter::from_fn(move || {
        loop {
            let now = rest.take()?;
            if now.is_empty() && in_segment {
                return None;
            }
            match next(now, in_segment) {
                Ok((None, behind)) => (in_segment, rest) = (true, Some(behind)),
                Ok((Some(row), behind)) => {
                    rest = Some(behind);
                    return Some(Ok(row));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    })
}

/// What stands next: nothing for a segment header, else a record's row; and what is behind it.
fn next(stream: &[u8], in_segment: bool) -> Result<(Option<&[u8]>, &[u8])> {
    match schema_of(stream)? {
        SEGMENT => {
            let Some(head) = stream.first_chunk::<SEGMENT_LENGTH_MIN>() else {
                return malformed("a segment header is cut");
            };
            let [.., presence, a, b, c, d] = *head;
            let length = i32::from_le_bytes([a, b, c, d]);
            let length = usize::try_from(length).unwrap_or(0);
            if presence & LENGTH_PRESENT == 0 || length < SEGMENT_LENGTH_MIN {
                return malformed("a segment has no valid length");
            }
            match stream.get(length..) {
                Some(behind) => Ok((None, behind)),
                None => malformed("a segment is longer than the stream"),
            }
        }
        RECORD if in_segment => record(stream),
        RECORD => malformed("a record stands before any segment"),
        other => malformed(&format!("schema {other} stands outside a record")),
    }
}

fn record(stream: &[u8]) -> Result<(Option<&[u8]>, &[u8])> {
    let Some((head, behind)) = stream.split_first_chunk::<RECORD_HEADER_LENGTH>() else {
        return malformed("a record header is cut");
    };
    let [_, _, _, _, _, l0, l1, l2, l3, c0, c1, c2, c3] = *head;
    let length = i32::from_le_bytes([l0, l1, l2, l3]);
    let Some((row, behind)) =
        usize::try_from(length).ok().and_then(|length| behind.split_at_checked(length))
    else {
        return malformed("a record is longer than the stream");
    };
    if row.len() < ROW_HEAD {
        return malformed("a record is too short for a row");
    }
    if crc32fast::hash(row) != u32::from_le_bytes([c0, c1, c2, c3]) {
        return malformed("the checksum of a record is wrong");
    }
    Ok((Some(row), behind))
}

/// The schema id of the row that stands here.
pub(super) fn schema_of(row: &[u8]) -> Result<i32> {
    match *row {
        [VERSION, a, b, c, d, ..] => Ok(i32::from_le_bytes([a, b, c, d])),
        _ => malformed("no row stands where one is expected"),
    }
}

/// Begins a stream: one segment without a comment.
pub(super) fn begin(capacity: usize) -> Vec<u8> {
    let mut stream = Vec::with_capacity(capacity + SEGMENT_LENGTH_MIN);
    head(SEGMENT, &mut stream);
    stream.push(LENGTH_PRESENT);
    stream.extend_from_slice(&(SEGMENT_LENGTH_MIN as u32).to_le_bytes());
    stream
}

/// Appends a record whose row is written by the function.
pub(super) fn append(stream: &mut Vec<u8>, write_row: impl FnOnce(&mut Vec<u8>)) {
    head(RECORD, stream);
    let at = stream.len();
    stream.extend_from_slice(&[0; RECORD_HEADER_LENGTH - ROW_HEAD]);
    let row_at = stream.len();
    write_row(stream);
    let row = &stream[row_at..];
    let length = u32::try_from(row.len()).expect("an answer is shorter than 4 GB");
    let checksum = crc32fast::hash(row);
    stream[at..at + 4].copy_from_slice(&length.to_le_bytes());
    stream[at + 4..row_at].copy_from_slice(&checksum.to_le_bytes());
}

/// Version and schema id.
pub(super) fn head(schema: i32, out: &mut Vec<u8>) {
    out.push(VERSION);
    out.extend_from_slice(&schema.to_le_bytes());
}
