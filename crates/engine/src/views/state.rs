//! How far a view has come: a position in the log of each range of its source.
//!
//! Positions are plain LSNs and survive splits and merges: the log of a child begins above its parents'. A
//! range without a position takes the lowest of its ancestors': what it reads twice changes nothing.
//!
//! In an account that is cut into slices each slice has a state of its own for its part of the view, with positions in the ranges
//! of all slices. A range's id says in which slice it is.

use crate::feed::lineage::lineage_of;
use crate::ranges::Range;
use crate::slice::Slice;
use armilla_model::lsn::Lsn;
use armilla_model::value::{Object, Value};
use armilla_storage::StoreError;
use std::collections::{BTreeMap, BTreeSet};

/// Positions, and what the first build has to reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// By range of the source: every transaction up to here is in the view.
    pub(crate) positions: BTreeMap<u32, Lsn>,
    /// By range of the source: its head when the view was made.
    pub(crate) targets: BTreeMap<u32, Lsn>,
    /// Slices of the source that were read to their targets, until all were.
    pub(crate) built: BTreeSet<u32>,
    /// The first build is done.
    pub(crate) active: bool,
    /// Items that were taken up until then.
    pub(crate) seen: u64,
    /// The build is the one after a restore, and not the first.
    pub(crate) restored: bool,
}

/// The ranges of a source that are in one slice of so many.
#[derive(Clone, Copy)]
pub(crate) struct SourcePart<'r> {
    /// Which slice.
    pub(crate) slice: u32,
    /// How many slices there are.
    pub(crate) count: u32,
    /// Its ranges with their heads.
    pub(crate) ranges: &'r [(Range, Lsn)],
}

impl SourcePart<'_> {
    fn has(&self, range: u32) -> bool {
        Slice::of_range(range, self.count) == self.slice
    }
}

impl State {
    /// The state of a new view of a source with these ranges.
    pub(crate) fn targeting(heads: impl Iterator<Item = (u32, Lsn)>) -> Self {
        Self { targets: heads.collect(), ..Self::default() }
    }

    /// The state of a view that was restored: its source is gone through again from the beginning. Notes tell
    /// which copies are as they should be.
    pub(crate) fn after_restore(heads: impl Iterator<Item = (u32, Lsn)>) -> Self {
        Self { restored: true, ..Self::targeting(heads) }
    }

    /// The position in the log of a range.
    pub(crate) fn position_of(&self, range: &Range) -> Lsn {
        let inherited = || range.parents.iter().filter_map(|id| self.positions.get(id)).min();
        self.positions.get(&range.id).or_else(inherited).copied().unwrap_or_default()
    }

    /// Whether a part of the source is older than what was read of it before: a copy that has yet to follow.
    pub(crate) fn is_ahead_of(&self, part: &SourcePart<'_>) -> bool {
        self.positions.iter().filter(|(id, _)| part.has(**id)).any(|(id, position)| {
            let mut heads = part
                .ranges
                .iter()
                .filter(|(range, _)| lineage_of(range).any(|log| log == *id))
                .map(|(_, head)| head)
                .peekable();
            heads.peek().is_none() || heads.any(|head| head < position)
        })
    }

    /// Whether a part of the source was read to where it was when the view was made.
    pub(crate) fn has_built(&self, slice: u32) -> bool {
        self.active || self.built.contains(&slice)
    }

    /// The state once one range was followed to a position, `seen` items further. Of ranges that are gone
    /// nothing is kept. What a part has to reach is where it was when it was first looked at, unless that was said before.
    pub(crate) fn advanced(&self, part: &SourcePart<'_>, id: u32, to: Lsn, seen: u64) -> Self {
        let mut positions = self.positions.clone();
        positions.retain(|id, _| !part.has(*id));
        for (range, _) in part.ranges {
            let known = self.position_of(range);
            positions.insert(range.id, if range.id == id { known.max(to) } else { known });
        }
        let mut targets = self.targets.clone();
        let mut built = self.built.clone();
        if !self.has_built(part.slice) {
            if !targets.keys().any(|id| part.has(*id)) {
                targets.extend(part.ranges.iter().map(|(range, head)| (range.id, *head)));
            }
            let target_of = |range: &Range| {
                let inherited = || range.parents.iter().filter_map(|id| targets.get(id)).max();
                targets.get(&range.id).or_else(inherited).copied().unwrap_or_default()
            };
            let arrived = |(range, _): &(Range, Lsn)| positions[&range.id] >= target_of(range);
            if part.ranges.iter().all(arrived) {
                built.insert(part.slice);
                targets.retain(|id, _| !part.has(*id));
            }
        }
        let active = self.active || (0..part.count).all(|slice| built.contains(&slice));
        Self {
            active,
            targets: if active { BTreeMap::new() } else { targets },
            built: if active { BTreeSet::new() } else { built },
            seen: if active { 0 } else { self.seen + seen },
            positions,
            restored: self.restored && !active,
        }
    }

    /// The stored form.
    pub(crate) fn write(&self) -> Vec<u8> {
        let list = |by_range: &BTreeMap<u32, Lsn>| {
            let entry =
                |(id, lsn): (&u32, &Lsn)| Value::array(vec![i64::from(*id).into(), whole(lsn.0)]);
            Value::array(by_range.iter().map(entry).collect())
        };
        let mut object = Object::of([
            ("positions", list(&self.positions)),
            ("targets", list(&self.targets)),
            ("active", self.active.into()),
            ("seen", whole(self.seen)),
        ]);
        if !self.built.is_empty() {
            let built = self.built.iter().map(|slice| i64::from(*slice).into());
            object.insert("built", Value::array(built.collect()));
        }
        if self.restored {
            object.insert("restored", true.into());
        }
        let mut out = Vec::new();
        object.write_json(&mut out);
        debug_assert!(
            Self::read(&out).is_ok_and(|read| read == *self),
            "the state of a view reads back as it was written"
        );
        out
    }

    /// Reads the stored form.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, StoreError> {
        let corrupt = || StoreError::corruption("meta", "the state of a view is malformed");
        let stored = armilla_model::json::parse(bytes).map_err(|_| corrupt())?;
        let number = |value: Option<&Value>| {
            let number = value.and_then(Value::as_i64);
            number.and_then(|number| u64::try_from(number).ok()).ok_or_else(corrupt)
        };
        let list = |name: &str| {
            let entries = stored.get(name).and_then(Value::as_array).ok_or_else(corrupt)?;
            let entry = |entry: &Value| {
                let pair = entry.as_array().unwrap_or_default();
                let id = u32::try_from(number(pair.first())?).map_err(|_| corrupt())?;
                Ok((id, Lsn(number(pair.get(1))?)))
            };
            entries.iter().map(entry).collect::<Result<BTreeMap<_, _>, _>>()
        };
        let slice = |value: &Value| u32::try_from(number(Some(value))?).map_err(|_| corrupt());
        let built = stored.get("built").and_then(Value::as_array).unwrap_or_default();
        Ok(Self {
            positions: list("positions")?,
            targets: list("targets")?,
            built: built.iter().map(slice).collect::<Result<_, _>>()?,
            active: stored.get("active").and_then(Value::as_bool).ok_or_else(corrupt)?,
            seen: number(stored.get("seen"))?,
            restored: stored.get("restored").and_then(Value::as_bool).unwrap_or(false),
        })
    }
}

fn whole(number: u64) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::partition_key::Epk;

    fn range(id: u32, parents: &[u32]) -> Range {
        Range { id, min: Epk::default(), max: None, parents: parents.to_vec() }
    }

    fn part(slice: u32, ranges: &[(Range, Lsn)]) -> SourcePart<'_> {
        SourcePart { slice, count: 2, ranges }
    }

    #[test]
    fn children_go_on_where_their_parents_were() {
        let advanced = |state: &State, ranges: &[(Range, Lsn)], id, to| {
            let whole = SourcePart { slice: 0, count: 1, ranges };
            state.advanced(&whole, id, to, 5)
        };
        let state = State::targeting([(0, Lsn(90))].into_iter());
        let state = advanced(&state, &[(range(0, &[]), Lsn(90))], 0, Lsn(40));
        assert!(!state.active);
        let children = [(range(1, &[0]), Lsn(95)), (range(2, &[0]), Lsn(95))];
        assert_eq!(state.position_of(&children[1].0), Lsn(40));
        let state = advanced(&state, &children, 1, Lsn(95));
        assert_eq!((state.active, state.positions.len()), (false, 2));
        let merged = range(3, &[0, 1, 2]);
        assert_eq!(state.position_of(&merged), Lsn(40), "the lower of the two");
        let state = advanced(&state, &[(merged, Lsn(100))], 3, Lsn(100));
        assert!(state.active);
        assert_eq!(State::read(&state.write()).unwrap(), state);
    }

    #[test]
    fn a_view_is_built_when_every_slice_was_read_to_where_it_was() {
        let (even, odd) = ([(range(0, &[]), Lsn(10))], [(range(1, &[]), Lsn(20))]);
        let state = State::default().advanced(&part(0, &even), 0, Lsn(10), 1);
        assert!(state.has_built(0) && !state.has_built(1) && !state.active);
        let state = state.advanced(&part(1, &odd), 1, Lsn(5), 1);
        assert!(!state.active);
        assert_eq!(State::read(&state.write()).unwrap(), state);
        // What is written later need not be reached.
        let split = [(range(3, &[1]), Lsn(60)), (range(5, &[1]), Lsn(50))];
        let state = state.advanced(&part(1, &split), 3, Lsn(20), 1);
        assert!(!state.active, "the other child is not that far");
        let state = state.advanced(&part(1, &split), 5, Lsn(20), 1);
        assert!(state.active);
        assert_eq!(state.positions.keys().copied().collect::<Vec<_>>(), [0, 3, 5]);
    }

    #[test]
    fn a_copy_that_is_older_than_what_was_read_is_noticed() {
        let children = [(range(3, &[1]), Lsn(60)), (range(5, &[1]), Lsn(50))];
        let state = State::default().advanced(&part(1, &children), 3, Lsn(55), 1);
        assert!(!state.is_ahead_of(&part(1, &children)));
        let older = [(range(3, &[1]), Lsn(54)), (range(5, &[1]), Lsn(50))];
        assert!(state.is_ahead_of(&part(1, &older)));
        let is_ahead_of = |slice, range| state.is_ahead_of(&part(slice, &[range]));
        assert!(is_ahead_of(1, (range(1, &[]), Lsn(50))), "before the split");
        assert!(!is_ahead_of(1, (range(7, &[1, 3, 5]), Lsn(60))));
        assert!(!is_ahead_of(0, (range(0, &[]), Lsn(0))), "another slice");
    }
}
