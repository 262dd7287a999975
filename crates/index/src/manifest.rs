//! The list of files that make up an index on disk.

/// The name of a segment's file.
pub(crate) fn file_name(id: u64) -> String {
    format!("{id:016x}.segment")
}
