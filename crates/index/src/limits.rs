//! Everything in the index has a maximum, and the maxima have names.

/// The longest encoded value the index keeps; longer ones are shortened and marked as cut.
pub const VALUE_LENGTH_MAX: usize = 2048;

/// A group of tail chunks with this many documents is sealed into a segment.
pub const TAIL_DOCUMENTS_MAX: u32 = 1024;

/// A group of tail chunks with this many bytes of terms is sealed into a segment.
pub const TAIL_BYTES_MAX: usize = 1 << 20;

/// This many neighbours of one tier are merged into one segment of the next.
pub const TIER_FAN_IN: usize = 8;

/// Chunks inside the tail are gathered in fours, so a full tail has about fifteen of them.
pub const TAIL_FAN_IN: usize = 4;

/// One job never takes more parts than this.
pub const JOB_INPUTS_MAX: usize = 64;

/// One job never makes a segment with more documents than this, and one with half as many is not
/// merged any further.
pub const SEGMENT_DOCUMENTS_MAX: u32 = 8 << 20;

/// One job never takes segments with more bytes than this together, for offsets have four bytes;
/// and one with half as many is not merged any further.
pub const SEGMENT_BYTES_MAX: u64 = 2 << 30;

/// Applied documents with this many bytes of terms become a chunk even before they are published.
pub const PENDING_BYTES_MAX: usize = 16 << 20;

/// One seal never takes chunks with more bytes than this together.
pub const SEAL_BYTES_MAX: usize = 256 << 20;

/// Segments with at least this many documents become files; smaller ones live in memory.
pub const FILE_DOCUMENTS_MIN: u32 = 32 << 10;

/// After this many changes without a new file every segment becomes one, however small, and the
/// manifest is written again: the replay after a crash stays short, and `gone` can be trimmed.
pub const MANIFEST_CHANGES_MAX: u64 = 64 << 10;

/// A check of the files begins anew this many times when the manifest is replaced under it.
pub(crate) const CHECK_REPLACED_MAX: u32 = 16;

/// The limits one index works with. Tests make them small to see many seals and merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// See [`TAIL_DOCUMENTS_MAX`].
    pub tail_documents_max: u32,
    /// See [`TAIL_BYTES_MAX`].
    pub tail_bytes_max: usize,
    /// See [`TIER_FAN_IN`].
    pub tier_fan_in: usize,
    /// See [`TAIL_FAN_IN`].
    pub tail_fan_in: usize,
    /// See [`SEGMENT_DOCUMENTS_MAX`].
    pub segment_documents_max: u32,
    /// See [`FILE_DOCUMENTS_MIN`].
    pub file_documents_min: u32,
    /// See [`MANIFEST_CHANGES_MAX`].
    pub manifest_changes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tail_documents_max: TAIL_DOCUMENTS_MAX,
            tail_bytes_max: TAIL_BYTES_MAX,
            tier_fan_in: TIER_FAN_IN,
            tail_fan_in: TAIL_FAN_IN,
            segment_documents_max: SEGMENT_DOCUMENTS_MAX,
            file_documents_min: FILE_DOCUMENTS_MIN,
            manifest_changes_max: MANIFEST_CHANGES_MAX,
        }
    }
}

// What must hold between them.
const _: () =
    assert!(TAIL_DOCUMENTS_MAX < FILE_DOCUMENTS_MIN, "tails are sealed before they are files");
const _: () = assert!(FILE_DOCUMENTS_MIN < SEGMENT_DOCUMENTS_MAX);
const _: () = assert!(TAIL_FAN_IN <= TIER_FAN_IN && TIER_FAN_IN <= JOB_INPUTS_MAX);
const _: () = assert!(TAIL_BYTES_MAX <= PENDING_BYTES_MAX && PENDING_BYTES_MAX <= SEAL_BYTES_MAX);
const _: () = assert!((SEAL_BYTES_MAX as u64) < SEGMENT_BYTES_MAX);
const _: () = assert!(VALUE_LENGTH_MAX < TAIL_BYTES_MAX);
