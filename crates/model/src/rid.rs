//! Resource ids (`_rid`): the hierarchical binary names behind every resource.
//!
//! Bytes in standard base64 with `/` written as `-`. A child's bytes begin with its parent's:
//!
//! ```text
//! database 4 │ collection 8 = database + 4 (top bit set) │ document 16 = collection + 8, see below
//!            │ user       8 = database + 4 (top bit clear)│ permission 16 = user + 8
//!            │ client encryption key 16 = database + 4 zeros + u64 LE
//! ```
//!
//! The high nibble of a 16-byte rid's last byte tells documents, scripts and ranges apart. A document's last eight
//! bytes are its number inside its series (five bytes, the lowest first), a zero, and the series: its last eight bits,
//! then the kind and its first four bits. A series is a stretch of the key space, named by the first twelve bits of its
//! position, so that of two halves the upper one shows an `8`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bits of an item's ordinal that count inside its series; the series lies above them.
pub const NUMBER_BITS: u32 = 40;
/// Bits of a series: all ordinals are below 2^52, which a JSON number holds exactly.
pub const SERIES_BITS: u32 = 12;

// Where the series begins in the last eight bytes of a rid.
const SERIES_AT: u32 = 48;

/// What the last eight bytes of a collection's child name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildKind {
    /// An item.
    Document,
    /// A conflict.
    Conflict,
    /// A partition key range.
    PartitionKeyRange,
    /// A user function.
    Function,
    /// A trigger.
    Trigger,
    /// A stored procedure.
    Procedure,
    /// A subscription to the change feed.
    Subscription,
}

impl ChildKind {
    fn nibble(self) -> u8 {
        match self {
            Self::Document => 0x0,
            Self::Conflict => 0x4,
            Self::PartitionKeyRange => 0x5,
            Self::Function => 0x6,
            Self::Trigger => 0x7,
            Self::Procedure => 0x8,
            Self::Subscription => 0xb,
        }
    }
}

/// The text of some rid bytes.
pub fn encode(bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    if text.contains('/') { text.replace('/', "-") } else { text }
}

/// The bytes of a rid's text, if it is well-formed base64 of a length some resource has.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(text.replace('-', "/")).ok()?;
    matches!(bytes.len(), 3 | 4 | 8 | 16 | 20).then_some(bytes)
}

/// Rid of a database.
pub fn database(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Rid of a container.
pub fn container(database: u32, number: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&database.to_be_bytes());
    bytes[4..].copy_from_slice(&(number | 0x8000_0000).to_be_bytes());
    bytes
}

/// Rid of a user.
pub fn user(database: u32, number: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&database.to_be_bytes());
    bytes[4..].copy_from_slice(&(number & 0x7fff_ffff).to_be_bytes());
    bytes
}

/// Rid of a client encryption key: the database's, four zeros where a container would be, and the number.
pub fn encryption_key(database: u32, number: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&database.to_be_bytes());
    bytes[8..].copy_from_slice(&u64::from(number).to_le_bytes());
    bytes
}

/// Rid of a permission.
pub fn permission(user: [u8; 8], number: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&user);
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Rid of an item, from its ordinal.
pub fn document(container: [u8; 8], ordinal: u64) -> [u8; 16] {
    let (series, number) = (ordinal >> NUMBER_BITS, ordinal & ((1 << NUMBER_BITS) - 1));
    child(container, ChildKind::Document, series << SERIES_AT | number)
}

/// Splits the rid of an item into its container's rid and its ordinal.
pub fn split_document(bytes: &[u8]) -> Option<([u8; 8], u64)> {
    let (container, shown) = split_child(bytes, ChildKind::Document)?;
    let (series, number) = (shown >> SERIES_AT, shown & ((1 << SERIES_AT) - 1));
    (number >> NUMBER_BITS == 0).then_some((container, series << NUMBER_BITS | number))
}

/// Rid of something inside a container: scripts, ranges; for items see [`document`].
pub fn child(container: [u8; 8], kind: ChildKind, ordinal: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&container);
    bytes[8..].copy_from_slice(&ordinal.to_le_bytes());
    bytes[15] = (bytes[15] & 0x0f) | (kind.nibble() << 4);
    bytes
}

/// Splits the rid of a container's child into the container's rid and the ordinal, if it is of
/// that kind.
pub fn split_child(bytes: &[u8], kind: ChildKind) -> Option<([u8; 8], u64)> {
    let bytes: [u8; 16] = bytes.try_into().ok()?;
    if bytes[15] >> 4 != kind.nibble() {
        return None;
    }
    let (container, mut ordinal) = (bytes[..8].try_into().ok()?, [0; 8]);
    ordinal.copy_from_slice(&bytes[8..]);
    ordinal[7] &= 0x0f;
    Some((container, u64::from_le_bytes(ordinal)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_lengths_tell_the_levels_apart() {
        assert_eq!(encode(&database(7)).len(), 8);
        assert_eq!(encode(&container(7, 1)).len(), 12);
        assert_eq!(encode(&child(container(7, 1), ChildKind::Document, 5)).len(), 24);
    }

    #[test]
    fn items_show_the_position_of_their_range_in_the_last_byte() {
        let series = |first_bits: u64| first_bits << (NUMBER_BITS + SERIES_BITS - 4);
        for (ordinal, tail) in [
            (1, [1, 0, 0, 0, 0, 0, 0, 0]),
            (0x01_0203_0405, [5, 4, 3, 2, 1, 0, 0, 0]),
            (series(8) | 7, [7, 0, 0, 0, 0, 0, 0, 8]),
            (series(4) | 7, [7, 0, 0, 0, 0, 0, 0, 4]),
            (0xabc << NUMBER_BITS | 9, [9, 0, 0, 0, 0, 0, 0xbc, 0xa]),
        ] {
            let bytes = document(container(7, 1), ordinal);
            assert_eq!(bytes[8..], tail, "{ordinal:x}");
            assert_eq!(split_document(&bytes), Some((container(7, 1), ordinal)));
        }
        let foreign = child(container(7, 1), ChildKind::Document, 1 << NUMBER_BITS);
        assert_eq!(split_document(&foreign), None);
    }

    #[test]
    fn children_carry_their_container_and_kind() {
        let bytes = child(container(7, 1), ChildKind::Trigger, 1 << 52);
        assert_eq!(split_child(&bytes, ChildKind::Trigger), Some((container(7, 1), 1 << 52)));
        assert_eq!(split_child(&bytes, ChildKind::Document), None);
        assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
    }
}
