//! Which rows of the journal followers may still ask for, and the removal of the others.
//!
//! An owner notes now and then how long its journal is. What was there a retention ago may go, a few thousand rows at a time: a statement has five
//! seconds, and a ledger that earlier versions made locks the shard while rows go. An owner that is new finds the rows of all owners before it,
//! so it does not know how many there are before it asks. What did not go is tried again, by fewer rows at a time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{LedgerError, Place};

/// How often the length of the journal is noted.
const NOTE_EVERY: Duration = Duration::from_secs(30);
/// At most so many rows are removed at once.
const PIECE_ROWS_MAX: u64 = 4096;

/// What is known of the rows that are kept.
pub(super) struct KeptRows {
    retention: Duration,
    /// Places, and when they were the newest. A place goes when all rows below it are gone.
    marks: VecDeque<(Place, Instant)>,
    next_note: Instant,
    /// No row lies below, as far as this owner knows.
    oldest: Option<Place>,
    /// So many rows are removed next.
    piece: u64,
}

impl KeptRows {
    pub(super) fn new(retention: Duration, now: Instant) -> Self {
        let next_note = now + NOTE_EVERY.min(retention);
        Self { retention, marks: VecDeque::new(), next_note, oldest: None, piece: PIECE_ROWS_MAX }
    }

    /// Notes which row is the newest, if it is time to.
    pub(super) fn note(&mut self, newest: Place, now: Instant) {
        if now >= self.next_note {
            self.next_note = now + NOTE_EVERY.min(self.retention);
            self.marks.push_back((newest, now));
        }
    }

    /// The place below which rows may go, if there are any.
    pub(super) fn due(&self, now: Instant) -> Option<Place> {
        let is_old = |(_, then): &&(Place, Instant)| now.duration_since(*then) >= self.retention;
        self.marks.iter().take_while(is_old).last().map(|(place, _)| *place)
    }

    /// Removes rows below a place, piece by piece until one fails or `is_time` for something else; at least one piece. `oldest` finds the first row
    /// that is there, `cut` removes those below a place.
    pub(super) fn cut(
        &mut self,
        upto: Place,
        oldest: impl FnOnce() -> Result<Place, LedgerError>,
        mut cut: impl FnMut(Place) -> Result<u64, LedgerError>,
        is_time: impl Fn() -> bool,
    ) -> Result<(), LedgerError> {
        let mut from = self.oldest.map_or_else(oldest, Ok)?;
        while from < upto {
            let end = Place(upto.0.min(from.0 + self.piece));
            if let Err(error) = cut(end) {
                self.piece = (self.piece / 2).max(1);
                return Err(error);
            }
            self.piece = (self.piece * 2).min(PIECE_ROWS_MAX);
            from = end;
            self.oldest = Some(end);
            if is_time() {
                break;
            }
        }
        while self.marks.front().is_some_and(|(place, _)| *place <= from) {
            self.marks.pop_front();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use armilla_model::clock::monotonic;

    use super::*;

    const RETENTION: Duration = Duration::from_secs(600);

    fn failed() -> LedgerError {
        LedgerError::OutcomeUnknown("canceling statement due to statement timeout (57014)".into())
    }

    /// An owner that has had the journal for a retention, and how long that was at its start.
    fn after_a_retention(newest: Place) -> (KeptRows, Instant) {
        let begun = monotonic();
        let mut rows = KeptRows::new(RETENTION, begun);
        rows.note(newest, begun);
        assert_eq!(rows.due(begun + RETENTION * 2), None, "it was not time to note anything");
        rows.note(newest, begun + NOTE_EVERY);
        assert_eq!(rows.due(begun + RETENTION), None);
        let now = begun + RETENTION + NOTE_EVERY;
        assert_eq!(rows.due(now), Some(newest));
        (rows, now)
    }

    #[test]
    fn a_new_owner_removes_the_rows_of_all_before_it_in_pieces() {
        let newest = Place(1_000_000);
        let (mut rows, now) = after_a_retention(newest);
        let first = 400_000;
        let mut journal = first;
        while rows.due(now).is_some() {
            let mut pieces = 0;
            let cut = |upto: Place| {
                let removed = upto.0 - journal;
                assert!(removed <= PIECE_ROWS_MAX, "{removed} rows in one statement");
                (journal, pieces) = (upto.0, pieces + 1);
                Ok(removed)
            };
            rows.cut(newest, || Ok(Place(first)), cut, || true).unwrap();
            assert_eq!(pieces, 1, "there are states to fold");
        }
        assert_eq!(journal, newest.0);
        let later = now + RETENTION;
        rows.note(Place(1_000_500), now);
        let mut asked = Vec::new();
        let cut = |upto| {
            asked.push(upto);
            Ok(500)
        };
        let upto = rows.due(later).unwrap();
        rows.cut(upto, || unreachable!("it knows where the journal begins"), cut, || false)
            .unwrap();
        assert_eq!(asked, [Place(1_000_500)]);
    }

    #[test]
    fn what_takes_too_long_is_tried_again_with_fewer_rows() {
        let newest = Place(10_000);
        let (mut rows, now) = after_a_retention(newest);
        assert!(rows.cut(newest, || Err(failed()), |_| unreachable!(), || false).is_err());
        let mut journal = 1;
        let mut failures = 0;
        while rows.due(now).is_some() {
            let cut = |upto: Place| {
                // The database manages a hundred rows in its time.
                if upto.0 - journal > 100 {
                    return Err(failed());
                }
                journal = upto.0;
                Ok(1)
            };
            failures += u32::from(rows.cut(newest, || Ok(Place(1)), cut, || false).is_err());
            assert!(failures < 1_000, "it comes to an end, at place {journal}");
        }
        assert_eq!(journal, newest.0);
        assert!(failures > 0);
    }
}
