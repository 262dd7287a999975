//! How far a view has come: a position in the log of each range of its source.
//!
//! Positions are plain LSNs and survive splits and merges: the log of a child begins above its parents'. A
//! range without a position takes the lowest of its ancestors': what it reads twice changes nothing.

use crate::ranges::Range;
use armilla_model::lsn::Lsn;
use armilla_model::value::{Object, Value};
use armilla_storage::StoreError;
use std::collections::BTreeMap;

/// Positions, and what the first build has to reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// By range of the source: every transaction up to here is in the view.
    pub(crate) positions: BTreeMap<u32, Lsn>,
    /// By range of the source: its head when the view was made.
    pub(crate) targets: BTreeMap<u32, Lsn>,
    /// The first build is done.
    pub(crate) active: bool,
    /// Items that were taken up until then.
    pub(crate) seen: u64,
    /// The build is the one after a restore, and not the first.
    pub(crate) restored: bool,
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

    fn target_of(&self, range: &Range) -> Lsn {
        let inherited = || range.parents.iter().filter_map(|id| self.targets.get(id)).max();
        self.targets.get(&range.id).or_else(inherited).copied().unwrap_or_default()
    }

    /// The state once one range was followed to a position, `seen` items further. Of ranges that are gone
    /// nothing is kept.
    pub(crate) fn advanced(&self, ranges: &[Range], id: u32, to: Lsn, seen: u64) -> Self {
        let position = |range: &Range| {
            let known = self.position_of(range);
            (range.id, if range.id == id { known.max(to) } else { known })
        };
        let positions: BTreeMap<_, _> = ranges.iter().map(position).collect();
        let arrived =
            |range: &Range| positions.get(&range.id).is_some_and(|at| *at >= self.target_of(range));
        let active = self.active || ranges.iter().all(arrived);
        Self {
            active,
            targets: if active { BTreeMap::new() } else { self.targets.clone() },
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
        Ok(Self {
            positions: list("positions")?,
            targets: list("targets")?,
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

    #[test]
    fn children_go_on_where_their_parents_were() {
        let state = State::targeting([(0, Lsn(90))].into_iter());
        let state = state.advanced(&[range(0, &[])], 0, Lsn(40), 5);
        assert!(!state.active);
        let children = [range(1, &[0]), range(2, &[0])];
        assert_eq!(state.position_of(&children[1]), Lsn(40));
        let state = state.advanced(&children, 1, Lsn(95), 5);
        assert_eq!((state.active, state.positions.len()), (false, 2));
        let merged = range(3, &[0, 1, 2]);
        assert_eq!(state.position_of(&merged), Lsn(40), "the lower of the two");
        let state = state.advanced(&[merged], 3, Lsn(100), 5);
        assert!(state.active);
        assert_eq!(State::read(&state.write()).unwrap(), state);
    }
}
