//! A feed over several ranges at once, for clients that do not read range by range.
//!
//! LSNs of different ranges cannot be compared, so the position of such a reader has one LSN per
//! piece of the key space: `"05C1DF…:12,:57"`, each piece from its key up to the next one's. Pieces
//! are told by keys and not by ranges, so the position outlives splits and merges. The pieces that
//! a page has read go to the end of the list, so that a busy one does not hold up the others.

use super::{Changes, Start};
use crate::container::Container;
use crate::limits::FEED_PIECES_MAX;
use crate::partition::Partition;
use crate::ranges::EpkSpan;
use armilla_model::charge::RequestCharge;
use armilla_model::error::Result;
use armilla_model::lsn::Lsn;
use armilla_model::partition_key::Epk;
use std::fmt;

/// Where a reader of several ranges is: the first key of each piece, and the LSN behind which it
/// goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions(Vec<(Epk, Lsn)>);

/// A page over several ranges.
#[derive(Debug)]
pub struct AcrossChanges<Row> {
    /// The changes.
    pub items: Vec<Row>,
    /// The position behind them.
    pub positions: Positions,
    /// What it costs.
    pub charge: RequestCharge,
}

impl Positions {
    /// Reads the text form; `None` when it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let piece = |piece: &str| {
            let (min, lsn) = piece.split_once(':')?;
            Some((Epk::parse_hex(min).ok()?, Lsn(lsn.parse().ok()?)))
        };
        let pieces: Vec<_> = text.split(',').map(piece).collect::<Option<_>>()?;
        (pieces.len() <= FEED_PIECES_MAX).then_some(Self(pieces))
    }

    /// The pieces of a span in the order they are to be read, each with its LSN. What lies before
    /// the first piece belongs to no position and is read from the beginning.
    fn pieces(&self, span: &EpkSpan) -> Vec<(EpkSpan, Lsn)> {
        let mut mins: Vec<_> = self.0.iter().map(|(min, _)| min).collect();
        mins.sort();
        let piece = |(min, lsn): &(Epk, Lsn)| {
            let next = mins.iter().find(|next| **next > min).map(|next| (*next).clone());
            Some((EpkSpan { min: min.clone(), max: next }.overlap(span)?, *lsn))
        };
        let mut pieces: Vec<_> = self.0.iter().filter_map(piece).collect();
        if let Some(first) = mins.first()
            && span.min < **first
        {
            let before = EpkSpan { min: span.min.clone(), max: Some((*first).clone()) };
            pieces.extend(before.overlap(span).map(|before| (before, Lsn(0))));
        }
        pieces
    }
}

impl fmt::Display for Positions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (min, lsn)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(formatter, "{comma}{min}:{lsn}")?;
        }
        Ok(())
    }
}

impl Container {
    /// Reads a page over every range that a span touches, `read` reading one of them.
    pub fn read_across<Row>(
        &self,
        span: &EpkSpan,
        start: Start,
        positions: Option<&Positions>,
        count_max: usize,
        read: impl Fn(&Partition, &EpkSpan, Start, usize) -> Result<Changes<Row>>,
    ) -> Result<AcrossChanges<Row>> {
        let pieces = match positions {
            Some(positions) => {
                let after = |(span, lsn)| (span, Start::After(lsn));
                positions.pieces(span).into_iter().map(after).collect()
            }
            None => vec![(span.clone(), start)],
        };
        let (mut unread, mut done) = (Vec::new(), Vec::new());
        let mut items = Vec::new();
        let mut charge = RequestCharge::ZERO;
        for (piece, start) in pieces {
            for (partition, part) in self.partitions_in(&piece) {
                let left = count_max.saturating_sub(items.len());
                // A full page reads on only to learn where the other pieces begin.
                let changes = match (left, start) {
                    (0, Start::After(lsn)) => {
                        unread.push((part.min, lsn));
                        continue;
                    }
                    (0, Start::Beginning) => {
                        unread.push((part.min, Lsn(0)));
                        continue;
                    }
                    (0, Start::AfterSecond(second)) => {
                        let next = second.saturating_add(1);
                        unread.push((part.min, self.position_at(&partition, next)?));
                        continue;
                    }
                    _ => read(&partition, &part, start, left.max(1))?,
                };
                charge += changes.charge;
                items.extend(changes.items);
                done.push((part.min, changes.position));
            }
        }
        unread.append(&mut done);
        Ok(AcrossChanges { items, positions: Positions(unread), charge })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_read_back_and_know_their_pieces() {
        let positions = Positions::parse("20:7,:3").unwrap();
        assert_eq!(positions.to_string(), "20:7,:3");
        let all = positions.pieces(&EpkSpan::all());
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].0.max.clone(), all[0].1), (None, Lsn(7)));
        assert_eq!(all[1].0.max.as_ref().unwrap().to_string(), "20");
        let part = positions.pieces(&EpkSpan::parse("10", "30").unwrap());
        assert_eq!(part[0].0, EpkSpan::parse("20", "30").unwrap());
        assert_eq!(part[1].0, EpkSpan::parse("10", "20").unwrap());
        for text in ["", "7", "zz:1", "20:x", "20:1,"] {
            assert!(Positions::parse(text).is_none(), "{text} was accepted");
        }
    }

    #[test]
    fn keys_before_the_first_piece_are_read_from_the_beginning() {
        let pieces = Positions::parse("20:7").unwrap().pieces(&EpkSpan::all());
        assert_eq!(pieces[1], (EpkSpan::parse("", "20").unwrap(), Lsn(0)));
    }
}
