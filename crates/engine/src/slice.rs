//! Slices: equal parts of the key space, each with an account, a store and a journal of its own, so that several nodes can serve one
//! account at a time.
//!
//! A slice is fixed when the account is made. The physical partitions of a container lie inside slices: they are split and merged
//! there, by the node that owns the slice, and no batch touches two of them. All slices know the same databases, containers and scripts:
//! the first one changes the catalog, the others [adopt](crate::Account::adopt_catalog) it. Ids of ranges are given out in turn, so a
//! range's id says in which slice it is; ordinals of items are told apart by the position of their range already.

use crate::limits::SLICES_MAX;
use crate::ranges::{self, EpkSpan, Range, cut_evenly};
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::{Definition, Epk, Hashing};

/// One of the equal parts that an account is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    index: u32,
    count: u32,
}

impl Slice {
    /// The only slice of an account that is not cut.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// One of so many slices, counted from 0; nothing where there is no such slice.
    #[must_use]
    pub fn new(index: u32, count: u32) -> Option<Self> {
        (count <= SLICES_MAX && index < count).then_some(Self { index, count })
    }

    /// Its number.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }

    /// How many there are.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count
    }

    /// True when the account is not cut.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.count == 1
    }

    /// The slice of a range.
    #[must_use]
    pub fn of_range(range: u32, count: u32) -> u32 {
        range % count.max(1)
    }

    /// How many of so many partitions of the whole space are in each slice.
    pub(crate) fn share(self, partitions: u32) -> u32 {
        partitions.div_ceil(self.count)
    }

    /// The keys of this slice.
    fn span(self, hashing: Hashing) -> EpkSpan {
        let bound = |position| ranges::boundary(hashing, position, self.count);
        EpkSpan {
            min: if self.index == 0 { Epk::default() } else { bound(self.index) },
            max: (self.index + 1 < self.count).then(|| bound(self.index + 1)),
        }
    }

    /// The ranges of a new container, here, of so many in the whole space.
    pub(crate) fn ranges(self, definition: &Definition, count: u32) -> Vec<Range> {
        if self.is_whole() {
            return ranges::initial(definition, count);
        }
        let spans = cut_evenly(definition, &self.span(definition.hashing), self.share(count));
        let range = |(position, span): (u32, EpkSpan)| {
            let id = self.index + position * self.count;
            Range { id, min: span.min, max: span.max, parents: Vec::new() }
        };
        (0..).zip(spans).map(range).collect()
    }

    /// Refuses a key of another slice.
    pub(crate) fn check(self, definition: &Definition, epk: &Epk) -> Result<()> {
        let hashing = definition.hashing;
        if self.span(hashing).contains(epk) {
            return Ok(());
        }
        let slice = SliceBounds::new(hashing, self.count).slice_of(epk);
        Err(Error::InOtherSlice { slice, hashing, levels: definition.levels() })
    }

    /// Refuses what works on an account that is not cut alone.
    pub(crate) fn require_whole(self, what: &str) -> Result<()> {
        if self.is_whole() {
            return Ok(());
        }
        let message = format!("{what} are not available in an account that is cut into slices.");
        Err(Error::bad_request(message))
    }

    /// Refuses changes of the catalog where it is only adopted.
    pub(crate) fn require_first(self) -> Result<()> {
        if self.index == 0 {
            return Ok(());
        }
        Err(Error::Internal("the catalog is changed in the first slice alone".to_owned()))
    }
}

/// Where the slices of an account begin, for one way of hashing keys.
#[derive(Clone, Debug)]
pub struct SliceBounds(Vec<Epk>);

impl SliceBounds {
    /// The bounds of so many slices.
    #[must_use]
    pub fn new(hashing: Hashing, count: u32) -> Self {
        Self((1..count).map(|position| ranges::boundary(hashing, position, count)).collect())
    }

    /// Where slices begin, but for the first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Epk> {
        self.0.iter()
    }

    /// The slice of an effective key, or of all keys below a prefix.
    #[must_use]
    pub fn slice_of(&self, epk: &Epk) -> u32 {
        u32::try_from(self.0.partition_point(|bound| bound <= epk)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::partition_key::PartitionKey;
    use armilla_model::path::Path;
    use std::collections::HashSet;

    fn definition(hashing: Hashing) -> Definition {
        Definition { paths: vec![Path::parse("/pk").unwrap()], hashing }
    }

    #[test]
    fn slices_cover_the_space_and_their_ranges_say_where_they_are() {
        for hashing in [Hashing::V1, Hashing::V2, Hashing::MultiHash] {
            let definition = definition(hashing);
            for (count, partitions) in [(2, 1), (3, 1), (4, 8), (5, 7), (8, 1)] {
                let slices = (0..count).map(|index| Slice::new(index, count).unwrap());
                let all: Vec<_> = slices
                    .flat_map(|slice| {
                        let ranges = slice.ranges(&definition, partitions);
                        assert!(!ranges.is_empty());
                        for range in &ranges {
                            assert_eq!(Slice::of_range(range.id, count), slice.index);
                        }
                        ranges
                    })
                    .collect();
                assert_eq!(all[0].min, Epk::default());
                assert!(all.last().unwrap().max.is_none());
                for pair in all.windows(2) {
                    assert_eq!(pair[0].max.as_ref(), Some(&pair[1].min));
                }
                let ids: HashSet<_> = all.iter().map(|range| range.id).collect();
                assert_eq!(ids.len(), all.len());
            }
        }
    }

    #[test]
    fn every_key_is_in_the_one_slice_that_others_name() {
        for hashing in [Hashing::V1, Hashing::V2] {
            let definition = definition(hashing);
            let bounds = SliceBounds::new(hashing, 5);
            for number in 0..500 {
                let key = PartitionKey::parse(&format!("[\"key {number}\"]")).unwrap();
                let epk = definition.epk(&key);
                for index in 0..5 {
                    let slice = Slice::new(index, 5).unwrap();
                    match slice.check(&definition, &epk) {
                        Ok(()) => assert_eq!(bounds.slice_of(&epk), index),
                        Err(Error::InOtherSlice { slice, .. }) => {
                            assert_eq!(bounds.slice_of(&epk), slice);
                            assert_ne!(slice, index);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        }
    }

    #[test]
    fn there_are_only_so_many() {
        assert!(Slice::new(2, 2).is_none() && Slice::new(0, SLICES_MAX + 1).is_none());
        assert!(Slice::new(1, 2).unwrap().require_first().is_err());
        assert!(Slice::WHOLE.require_whole("Views").is_ok());
    }
}
