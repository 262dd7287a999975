//! How far a subscription has come: a position for every piece of the key space, and what is done above it.
//!
//! KeyPositions belong to keys and not to ranges, so that a split or a merge needs no step of its own: a range
//! begins at the lowest position of the pieces in it, and entries of pieces that are further are known to be
//! done.

use super::entry::EntryKey;
use super::members::number;
use crate::ranges::{EpkSpan, Range};
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::Epk;
use armilla_model::value::{Object, Value};
use armilla_storage::StoreError;
use std::collections::{BTreeMap, BTreeSet};

/// KeyPositions, and entries above them that are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPositions {
    /// In the order of keys, without gaps.
    pieces: Vec<Piece>,
    done: BTreeSet<EntryKey>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    span: EpkSpan,
    lsn: Lsn,
}

impl KeyPositions {
    /// The positions of ranges, which cover the key space, or that of a slice: what lies beyond goes with the nearest, and is asked of nobody here.
    pub(crate) fn at<'r>(heads: impl Iterator<Item = (&'r Range, Lsn)>) -> Self {
        let mut pieces: Vec<Piece> =
            heads.map(|(range, lsn)| Piece { span: range.span(), lsn }).collect();
        pieces.sort_by(|left, right| left.span.min.cmp(&right.span.min));
        if let Some(first) = pieces.first_mut() {
            first.span.min = Epk::default();
        }
        if let Some(last) = pieces.last_mut() {
            last.span.max = None;
        }
        Self { pieces, done: BTreeSet::new() }
    }

    /// The positions of slices, each with its own keys.
    pub(crate) fn joined(parts: impl Iterator<Item = (EpkSpan, Self)>) -> Self {
        let (mut pieces, mut done) = (Vec::new(), BTreeSet::new());
        for (span, part) in parts {
            let inside = |piece: Piece| Some(Piece { span: piece.span.overlap(&span)?, ..piece });
            pieces.extend(part.pieces.into_iter().filter_map(inside));
            done.extend(part.done);
        }
        Self { pieces, done }
    }

    /// Everything up to here is done in a range.
    pub(crate) fn of(&self, range: &Range) -> Lsn {
        let span = range.span();
        let inside = self.pieces.iter().filter(|piece| piece.span.overlap(&span).is_some());
        inside.map(|piece| piece.lsn).min().unwrap_or_default()
    }

    /// True when an entry is done.
    pub(crate) fn is_done(&self, epk: &Epk, key: &EntryKey) -> bool {
        let piece = self.pieces.iter().find(|piece| piece.span.contains(epk));
        piece.is_some_and(|piece| key.lsn <= piece.lsn) || self.done.contains(key)
    }

    /// Notes an entry that is done before others below it are.
    pub(crate) fn add_done(&mut self, key: EntryKey) {
        self.done.insert(key);
    }

    /// Entries that are noted one by one.
    pub(crate) fn done_len(&self) -> usize {
        self.done.len()
    }

    /// Moves a range on; positions beyond this one stay.
    pub(crate) fn advance(&mut self, range: &Range, lsn: Lsn) {
        self.set(range, |known| known.max(lsn));
    }

    /// Puts a range at a position, forwards or back. What was done above is forgotten.
    pub(crate) fn rewind(&mut self, range: &Range, lsn: Lsn) {
        self.set(range, |_| lsn);
        let logs: Vec<u32> = crate::feed::lineage::lineage_of(range).collect();
        self.done.retain(|key| !logs.contains(&key.log));
    }

    fn set(&mut self, range: &Range, position: impl Fn(Lsn) -> Lsn) {
        let span = range.span();
        let mut pieces: Vec<Piece> = Vec::with_capacity(self.pieces.len());
        for piece in std::mem::take(&mut self.pieces) {
            let Some(inside) = piece.span.overlap(&span) else {
                pieces.push(piece);
                continue;
            };
            if piece.span.min < inside.min {
                let before = EpkSpan { min: piece.span.min.clone(), max: Some(inside.min.clone()) };
                pieces.push(Piece { span: before, lsn: piece.lsn });
            }
            let behind = inside.max.clone();
            pieces.push(Piece { span: inside, lsn: position(piece.lsn) });
            if let Some(min) =
                behind.filter(|_| piece.span.max.as_ref() != span_end(&span, &piece.span))
            {
                pieces.push(Piece { span: EpkSpan { min, max: piece.span.max }, lsn: piece.lsn });
            }
        }
        self.pieces = joined(pieces, &span);
    }

    /// Forgets done entries that lie below the position of every range that reads their log.
    pub(crate) fn prune(&mut self, ranges: &[Range]) {
        let mut floors: BTreeMap<u32, Lsn> = BTreeMap::new();
        for range in ranges {
            let position = self.of(range);
            for log in crate::feed::lineage::lineage_of(range) {
                let floor = floors.entry(log).or_insert(position);
                *floor = position.min(*floor);
            }
        }
        self.done.retain(|key| floors.get(&key.log).is_some_and(|floor| key.lsn > *floor));
    }

    /// The stored form.
    pub(crate) fn members(&self) -> Object {
        let piece = |piece: &Piece| {
            let max = piece.span.max.as_ref().map_or(Value::Null, |max| max.to_string().into());
            Value::array(vec![piece.span.min.to_string().into(), max, number(piece.lsn.0)])
        };
        let key = |key: &EntryKey| {
            Value::array(vec![number(key.log), number(key.lsn.0), number(key.sequence)])
        };
        Object::of([
            ("pieces", Value::array(self.pieces.iter().map(piece).collect())),
            ("done", Value::array(self.done.iter().map(key).collect())),
        ])
    }

    /// Reads the stored form.
    pub(crate) fn read(stored: &Value) -> Result<Self, StoreError> {
        let read = || {
            let pieces = stored.get("pieces")?.as_array()?.iter().map(read_piece);
            let pieces: Vec<Piece> = pieces.collect::<Option<_>>()?;
            let done = stored.get("done")?.as_array()?.iter().map(read_key);
            let done = done.collect::<Option<_>>()?;
            let first = pieces.first().filter(|piece| piece.span.min == Epk::default());
            let last = pieces.last().filter(|piece| piece.span.max.is_none());
            let meet = |pair: &[Piece]| pair[0].span.max.as_ref() == Some(&pair[1].span.min);
            (first.is_some() && last.is_some() && pieces.windows(2).all(meet))
                .then_some(Self { pieces, done })
        };
        let corrupt =
            || StoreError::corruption("meta", "the position of a subscription is malformed");
        read().ok_or_else(corrupt)
    }
}

/// Where a piece would end if nothing of it lay behind the span.
fn span_end<'s>(span: &'s EpkSpan, piece: &'s EpkSpan) -> Option<&'s Epk> {
    match (&span.max, &piece.max) {
        (Some(span), Some(piece)) => Some(span.min(piece)),
        (end, None) | (None, end) => end.as_ref(),
    }
}

/// Neighbours inside the span that have come equally far are one piece.
fn joined(pieces: Vec<Piece>, span: &EpkSpan) -> Vec<Piece> {
    let inside = |piece: &Piece| piece.span.overlap(span).is_some();
    let mut joined: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if last.lsn == piece.lsn && inside(last) && inside(&piece) => {
                last.span.max = piece.span.max;
            }
            _ => joined.push(piece),
        }
    }
    joined
}

fn read_piece(value: &Value) -> Option<Piece> {
    let [min, max, lsn] = value.as_array()? else { return None };
    let max = match max {
        Value::Null => None,
        max => Some(Epk::parse_hex(max.as_str()?).ok()?),
    };
    let min = Epk::parse_hex(min.as_str()?).ok()?;
    Some(Piece { span: EpkSpan { min, max }, lsn: Lsn(u64::try_from(lsn.as_i64()?).ok()?) })
}

fn read_key(value: &Value) -> Option<EntryKey> {
    let [log, lsn, sequence] = value.as_array()? else { return None };
    let whole = |value: &Value| u64::try_from(value.as_i64()?).ok();
    Some(EntryKey {
        log: u32::try_from(whole(log)?).ok()?,
        lsn: Lsn(whole(lsn)?),
        sequence: u32::try_from(whole(sequence)?).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(id: u32, min: u8, max: Option<u8>, parents: &[u32]) -> Range {
        let epk = |byte: u8| if byte == 0 { Epk::default() } else { Epk::from_bytes(&[byte; 16]) };
        Range { id, min: epk(min), max: max.map(epk), parents: parents.to_vec() }
    }

    fn key(log: u32, lsn: u64) -> EntryKey {
        EntryKey { lsn: Lsn(lsn), log, sequence: 0 }
    }

    #[test]
    fn splits_and_merges_keep_what_each_piece_has_done() {
        let whole = range(0, 0, None, &[]);
        let mut positions = KeyPositions::at([(&whole, Lsn(40))].into_iter());
        positions.add_done(key(0, 55));
        let (left, right) = (range(1, 0, Some(8), &[0]), range(2, 8, None, &[0]));
        assert_eq!((positions.of(&left), positions.of(&right)), (Lsn(40), Lsn(40)));
        positions.advance(&left, Lsn(90));
        assert_eq!((positions.of(&left), positions.of(&right)), (Lsn(90), Lsn(40)));
        positions.prune(&[left.clone(), right.clone()]);
        assert_eq!(positions.done_len(), 1, "the right child has not passed it");
        let merged = range(3, 0, None, &[0, 1, 2]);
        assert_eq!(positions.of(&merged), Lsn(40));
        let (low, high) = (Epk::from_bytes(&[3; 16]), Epk::from_bytes(&[9; 16]));
        assert!(positions.is_done(&low, &key(1, 80)) && !positions.is_done(&high, &key(2, 80)));
        assert!(positions.is_done(&high, &key(0, 55)));
        let read = KeyPositions::read(&Value::object(positions.members())).unwrap();
        assert_eq!(read, positions);
        positions.advance(&merged, Lsn(100));
        positions.prune(std::slice::from_ref(&merged));
        assert_eq!((positions.of(&merged), positions.done_len()), (Lsn(100), 0));
        assert_eq!(positions.pieces.len(), 1, "pieces that are equally far are joined");
        positions.rewind(&merged, Lsn(7));
        assert_eq!(positions.of(&merged), Lsn(7));
    }

    #[test]
    fn a_part_of_a_piece_can_move_alone() {
        let whole = range(0, 0, None, &[]);
        let mut positions = KeyPositions::at([(&whole, Lsn(1))].into_iter());
        positions.advance(&range(1, 4, Some(8), &[0]), Lsn(5));
        let at = |byte: u8| positions.is_done(&Epk::from_bytes(&[byte; 16]), &key(0, 5));
        assert_eq!([at(3), at(4), at(7), at(8)], [false, true, true, false]);
        assert!(KeyPositions::read(&Value::object(positions.members())).is_ok());
    }

    #[test]
    fn nonsense_is_not_read() {
        let read =
            |text: &str| KeyPositions::read(&armilla_model::json::parse(text.as_bytes()).unwrap());
        for text in [
            "{}",
            r#"{"pieces":[],"done":[]}"#,
            r#"{"pieces":[["","08",1]],"done":[]}"#,
            r#"{"pieces":[["","08",1],["09",null,1]],"done":[]}"#,
            r#"{"pieces":[["",null,-1]],"done":[]}"#,
            r#"{"pieces":[["",null,1]],"done":[[1]]}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
