//! Where the copy of a source item lies in a view, and which version of the item it shows.
//!
//! The change feed tells the last version of an item and not where its copy was put before. This note
//! does, by the source item's ordinal. It is written in the batch that writes the copy.

use crate::keys::{self, Meta};
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::Epk;
use armilla_storage::{Keyspace, Snapshot, StoreError};

const FORMAT: u8 = 1;

/// Where a copy lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// Transaction of the source that the copy shows.
    pub(super) lsn: Lsn,
    /// Effective key in the view.
    pub(super) epk: Epk,
    /// Where older copies may still be: a move writes the new one first.
    pub(super) leaving: Vec<Epk>,
}

/// Key of the note about a source item.
pub(super) fn key(view: u32, docno: u64) -> Vec<u8> {
    let (high, low) = ((docno >> 32) as u32, docno as u32);
    keys::meta(Meta::ViewPlacement, &[view, high, low])
}

/// The note about a source item.
pub(super) fn find(
    snapshot: &dyn Snapshot,
    view: u32,
    docno: u64,
) -> Result<Option<Placement>, StoreError> {
    let stored = snapshot.get(Keyspace::Meta, &key(view, docno))?;
    stored.map(|bytes| Placement::read(&bytes)).transpose()
}

impl Placement {
    /// The stored form: format, LSN, then each key with its length.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend_from_slice(&self.lsn.0.to_be_bytes());
        for epk in std::iter::once(&self.epk).chain(&self.leaving) {
            let bytes = epk.as_bytes();
            let length = u16::try_from(bytes.len()).expect("an effective key is short");
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(bytes);
        }
        debug_assert!(
            Self::read(&out).is_ok_and(|read| read == *self),
            "a placement reads back as it was written"
        );
        out
    }

    fn read(bytes: &[u8]) -> Result<Self, StoreError> {
        let corrupt =
            || StoreError::corruption("meta", "the note where a view's item lies is malformed");
        let (&format, rest) = bytes.split_first().ok_or_else(corrupt)?;
        let (lsn, mut rest) = rest.split_first_chunk::<8>().ok_or_else(corrupt)?;
        if format != FORMAT {
            return Err(corrupt());
        }
        let mut places = Vec::new();
        while let Some((length, behind)) = rest.split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            let (epk, behind) = behind.split_at_checked(length).ok_or_else(corrupt)?;
            places.push(Epk::from_bytes(epk));
            rest = behind;
        }
        if places.is_empty() || !rest.is_empty() {
            return Err(corrupt());
        }
        let leaving = places.split_off(1);
        let epk = places.pop().ok_or_else(corrupt)?;
        Ok(Self { lsn: Lsn(u64::from_be_bytes(*lsn)), epk, leaving })
    }

    /// Every place where a copy may be.
    pub(super) fn places(&self) -> impl Iterator<Item = &Epk> {
        self.leaving.iter().chain([&self.epk])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_reads_back_and_nonsense_does_not() {
        let epk = |byte: u8| Epk::from_bytes(&[byte; 16]);
        let placement = Placement { lsn: Lsn(7), epk: epk(1), leaving: vec![epk(2), epk(3)] };
        let bytes = placement.write();
        assert_eq!(Placement::read(&bytes).unwrap(), placement);
        for length in 0..bytes.len() {
            let whole = [9, 27, 45].contains(&(length as i32)) && length > 9;
            assert_eq!(Placement::read(&bytes[..length]).is_ok(), whole, "{length}");
        }
        assert!(Placement::read(&[2; 40]).is_err());
    }
}
