//! The rows of a request: one operation each.

use super::row::{Cursor, Field, PathToken};
use super::{malformed, record};
use armilla_model::Result;

/// The schema's id.
const SCHEMA: i32 = 2_145_473_648;
/// Its paths in the order of their tokens, from 1 on: fixed, variable and sparse columns.
const PATHS: [&str; 12] = [
    "operationType",
    "resourceType",
    "partitionKey",
    "effectivePartitionKey",
    "id",
    "binaryId",
    "resourceBody",
    "indexingDirective",
    "ifMatch",
    "ifNoneMatch",
    "timeToLiveInSeconds",
    "minimalReturnPreference",
];
/// Tokens of the schema: its paths, and the empty one.
const TOKEN_COUNT: u64 = PATHS.len() as u64 + 1;

/// An operation as its row says it. What the server does not use (`effectivePartitionKey`, `binaryId`,
/// `timeToLiveInSeconds`) is read and checked all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct OperationRow<'b> {
    pub(super) operation_type: Option<i32>,
    pub(super) resource_type: Option<i32>,
    pub(super) partition_key: Option<&'b str>,
    pub(super) effective_partition_key: Option<&'b [u8]>,
    pub(super) id: Option<&'b str>,
    pub(super) binary_id: Option<&'b [u8]>,
    pub(super) resource_body: Option<&'b [u8]>,
    pub(super) indexing_directive: Option<&'b str>,
    pub(super) if_match: Option<&'b str>,
    pub(super) if_none_match: Option<&'b str>,
    pub(super) time_to_live: Option<i32>,
    pub(super) minimal: Option<bool>,
}

impl<'b> OperationRow<'b> {
    /// Reads a row to its last byte.
    pub(super) fn read(row: &'b [u8]) -> Result<Self> {
        match record::schema_of(row)? {
            SCHEMA => {}
            other => return malformed(&format!("schema {other} is not that of an operation")),
        }
        let mut cursor = Cursor { rest: row };
        cursor.take(5)?;
        let presence = cursor.byte()?;
        let has = |bit: u8| presence >> bit & 1 == 1;
        let (operation_type, resource_type) = (cursor.int32()?, cursor.int32()?);
        let mut read = Self {
            operation_type: has(0).then_some(operation_type),
            resource_type: has(1).then_some(resource_type),
            ..Self::default()
        };
        if has(2) {
            read.partition_key = Some(cursor.utf8()?);
        }
        if has(3) {
            read.effective_partition_key = Some(cursor.binary()?);
        }
        if has(4) {
            read.id = Some(cursor.utf8()?);
        }
        if has(5) {
            read.binary_id = Some(cursor.binary()?);
        }
        if has(6) {
            read.resource_body = Some(cursor.binary()?);
        }
        while !cursor.is_at_end() {
            let (path, value) = cursor.field(TOKEN_COUNT)?;
            read.set(path, value)?;
        }
        Ok(read)
    }

    /// Takes a sparse field. Of two with one path the last counts; unknown paths are skipped.
    fn set(&mut self, path: PathToken<'b>, value: Field<'b>) -> Result<()> {
        let name = match path {
            PathToken::Name(name) => name,
            PathToken::Number(token) => {
                let at = usize::try_from(token).unwrap_or(usize::MAX).wrapping_sub(1);
                PATHS.get(at).copied().unwrap_or_default()
            }
        };
        match (name, value) {
            ("operationType", Field::Int32(number)) => self.operation_type = Some(number),
            ("resourceType", Field::Int32(number)) => self.resource_type = Some(number),
            ("partitionKey", Field::Utf8(text)) => self.partition_key = Some(text),
            ("effectivePartitionKey", Field::Binary(bytes)) => {
                self.effective_partition_key = Some(bytes);
            }
            ("id", Field::Utf8(text)) => self.id = Some(text),
            ("binaryId", Field::Binary(bytes)) => self.binary_id = Some(bytes),
            ("resourceBody", Field::Binary(bytes)) => self.resource_body = Some(bytes),
            ("indexingDirective", Field::Utf8(text)) => self.indexing_directive = Some(text),
            ("ifMatch", Field::Utf8(text)) => self.if_match = Some(text),
            ("ifNoneMatch", Field::Utf8(text)) => self.if_none_match = Some(text),
            ("timeToLiveInSeconds", Field::Int32(number)) => self.time_to_live = Some(number),
            ("minimalReturnPreference", Field::Bool(flag)) => self.minimal = Some(flag),
            (known, _) if PATHS.contains(&known) => {
                return malformed(&format!("the column '{known}' has a value of another type"));
            }
            _ => {}
        }
        Ok(())
    }
}
