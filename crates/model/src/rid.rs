//! Resource ids (`_rid`): the hierarchical binary names behind every resource.
//!
//! Bytes in standard base64 with `/` written as `-`. A child's bytes begin with its parent's:
//!
//! ```text
//! database 4 │ collection 8 = database + 4 (top bit set) │ document 16 = collection + u64 LE
//!            │ user       8 = database + 4 (top bit clear)│ permission 16 = user + 8
//!            │ client encryption key 16 = database + 4 zeros + u64 LE
//! ```
//!
//! The high nibble of a 16-byte rid's last byte tells documents, scripts and ranges apart.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

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
        }
    }
}

/// The text of some rid bytes.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes).replace('/', "-")
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

/// Rid of something inside a container: items, scripts, ranges.
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
    fn children_carry_their_container_and_kind() {
        let bytes = child(container(7, 1), ChildKind::Trigger, 1 << 52);
        assert_eq!(split_child(&bytes, ChildKind::Trigger), Some((container(7, 1), 1 << 52)));
        assert_eq!(split_child(&bytes, ChildKind::Document), None);
        assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
    }
}
