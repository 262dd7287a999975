//! Physical partitions as clients see them: ranges of effective keys that cover the whole space.
//! A range id that is no more, because it was split or merged, is refused by `Container::partition` (410).

use armilla_model::error::{Error, Result};
use armilla_model::partition_key::{Definition, Epk, Hashing, v1_number};
use armilla_model::rid::SERIES_BITS;

/// The bounds of one physical partition, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its id, never used again.
    pub id: u32,
    /// First effective key.
    pub min: Epk,
    /// First effective key behind it; `None` is the end of the space (`FF`).
    pub max: Option<Epk>,
    /// Every ancestor, oldest first.
    pub parents: Vec<u32>,
}

/// A part of the key space that a request addresses: from a key, to a key (or the end).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpkSpan {
    /// First effective key.
    pub min: Epk,
    /// First effective key behind it; `None` is the end.
    pub max: Option<Epk>,
}

impl Range {
    /// True when the key lies in this range.
    pub fn contains(&self, epk: &Epk) -> bool {
        self.min <= *epk && self.max.as_ref().is_none_or(|max| epk < max)
    }

    /// The part of a span that lies in this range, if any.
    pub fn overlap(&self, span: &EpkSpan) -> Option<EpkSpan> {
        self.span().overlap(span)
    }

    /// Its keys.
    pub fn span(&self) -> EpkSpan {
        EpkSpan { min: self.min.clone(), max: self.max.clone() }
    }
}

impl EpkSpan {
    /// Everything.
    pub fn all() -> Self {
        Self { min: Epk::default(), max: None }
    }

    /// True when the key lies in this span.
    pub fn contains(&self, epk: &Epk) -> bool {
        self.min <= *epk && self.max.as_ref().is_none_or(|max| epk < max)
    }

    /// The keys that both have, if any.
    pub fn overlap(&self, other: &Self) -> Option<Self> {
        let min = self.min.clone().max(other.min.clone());
        let max = match (&self.max, &other.max) {
            (Some(left), Some(right)) => Some(left.min(right).clone()),
            (bound, None) | (None, bound) => bound.clone(),
        };
        (max.as_ref().is_none_or(|max| min < *max)).then_some(Self { min, max })
    }

    /// One logical partition, or all partitions below a prefix of a hierarchical key.
    pub fn of_prefix(epk: &Epk) -> Self {
        // No hash begins with FF, so nothing of the prefix lies behind prefix + FF.
        let mut max = epk.clone();
        max.0.push(0xff);
        Self { min: epk.clone(), max: Some(max) }
    }

    /// Reads the bounds of the wire.
    pub fn parse(min: &str, max: &str) -> Result<Self> {
        let max = if max.eq_ignore_ascii_case("FF") { None } else { Some(Epk::parse_hex(max)?) };
        let span = Self { min: Epk::parse_hex(min)?, max };
        if span.max.as_ref().is_some_and(|max| *max < span.min) {
            return Err(Error::bad_request("The end of the key range lies before its start."));
        }
        Ok(span)
    }
}

/// The ranges of a new container.
pub fn initial(definition: &Definition, count: u32) -> Vec<Range> {
    let bound = |position: u32| boundary(definition.hashing, position, count);
    (0..count)
        .map(|id| Range {
            id,
            min: if id == 0 { Epk::default() } else { bound(id) },
            max: (id + 1 < count).then(|| bound(id + 1)),
            parents: Vec::new(),
        })
        .collect()
}

/// Where range `position` of `count` equal ones begins. Clients' tests show the service's points:
/// the greatest key divided by the count, rounded down, times the position.
pub(crate) fn boundary(hashing: Hashing, position: u32, count: u32) -> Epk {
    match hashing {
        Hashing::V2 | Hashing::MultiHash => {
            let step = ((1u128 << 126) - 1) / u128::from(count);
            Epk::from_bytes(&(u128::from(position) * step).to_be_bytes())
        }
        Hashing::V1 => {
            let step = u64::from(u32::MAX) / u64::from(count);
            v1_number((u64::from(position) * step) as f64)
        }
    }
}

/// Bounds as numbers in the space of hashes.
pub(crate) fn ends(definition: &Definition, span: &EpkSpan) -> (u128, u128) {
    let end = match definition.hashing {
        Hashing::V1 => u128::from(u32::MAX),
        Hashing::V2 | Hashing::MultiHash => (1 << 126) - 1,
    };
    let low = if span.min.as_bytes().is_empty() { 0 } else { number(definition, &span.min) };
    (low, span.max.as_ref().map_or(end, |max| number(definition, max)))
}

/// The hash that a bound stands for, or the one before it.
fn number(definition: &Definition, bound: &Epk) -> u128 {
    match definition.hashing {
        Hashing::V2 | Hashing::MultiHash => {
            let mut first = [0; 16];
            let length = bound.as_bytes().len().min(16);
            first[..length].copy_from_slice(&bound.as_bytes()[..length]);
            u128::from_be_bytes(first)
        }
        Hashing::V1 => {
            let (mut low, mut high) = (0u32, u32::MAX);
            while low < high {
                let middle = low + (high - low).div_ceil(2);
                if v1_number(f64::from(middle)) <= *bound {
                    low = middle;
                } else {
                    high = middle - 1;
                }
            }
            u128::from(low)
        }
    }
}

/// Cuts a span into parts of the same width; into fewer when it is too narrow.
pub(crate) fn cut_evenly(definition: &Definition, span: &EpkSpan, parts: u32) -> Vec<EpkSpan> {
    let (low, high) = ends(definition, span);
    let step = high.saturating_sub(low) / u128::from(parts.max(1));
    let bound = |part: u32| {
        let number = low + step * u128::from(part);
        match definition.hashing {
            Hashing::V2 | Hashing::MultiHash => Epk::from_bytes(&number.to_be_bytes()),
            Hashing::V1 => v1_number(number as f64),
        }
    };
    cut(span, (1..parts).map(bound))
}

/// Cuts a span at the bounds that lie inside it.
pub(crate) fn cut(span: &EpkSpan, bounds: impl Iterator<Item = Epk>) -> Vec<EpkSpan> {
    let mut spans = Vec::new();
    let mut rest = span.clone();
    for bound in bounds {
        if rest.min < bound && rest.max.as_ref().is_none_or(|max| bound < *max) {
            spans.push(EpkSpan { min: rest.min, max: Some(bound.clone()) });
            rest.min = bound;
        }
    }
    spans.push(rest);
    spans
}

/// By how much [`boundary`] may lie below the exact fraction: one for each range of a new container.
const ROUNDED_MAX: u128 = 1 << SERIES_BITS;

/// The series from which items of a range that begins here get their ordinals: the first bits of its position, a
/// fraction of the key space.
pub(crate) fn series(hashing: Hashing, min: &Epk) -> u16 {
    let bytes = min.as_bytes();
    let first_bits = match hashing {
        _ if bytes.is_empty() => 0,
        Hashing::V2 | Hashing::MultiHash => {
            let mut number = [0; size_of::<u128>()];
            let known = bytes.len().min(number.len());
            number[..known].copy_from_slice(&bytes[..known]);
            u128::from_be_bytes(number).saturating_add(ROUNDED_MAX) >> (126 - SERIES_BITS)
        }
        Hashing::V1 => {
            let number = armilla_model::partition_key::read_v1_number(bytes).unwrap_or(0.0);
            (number as u128 + ROUNDED_MAX) >> (u32::BITS - SERIES_BITS)
        }
    };
    u16::try_from(first_bits).unwrap_or(u16::MAX).min((1 << SERIES_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::path::Path;

    fn definition(hashing: Hashing) -> Definition {
        Definition { paths: vec![Path::parse("/pk").unwrap()], hashing }
    }

    #[test]
    fn two_ranges_meet_where_the_service_splits() {
        let v2 = initial(&definition(Hashing::V2), 2);
        assert_eq!(v2[1].min.to_string(), "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF");
        let five = initial(&definition(Hashing::V2), 5);
        assert_eq!(five[4].min.to_string(), "33333333333333333333333333333330");
        let v1 = initial(&definition(Hashing::V1), 2);
        assert_eq!(v1[1].min.to_string(), "05C1DFFFFFFFFC");
    }

    #[test]
    fn ranges_cover_the_space_without_gaps() {
        for count in [1, 2, 3, 7, 42] {
            let ranges = initial(&definition(Hashing::V2), count);
            assert_eq!(ranges[0].min, Epk::default());
            assert!(ranges.last().unwrap().max.is_none());
            for pair in ranges.windows(2) {
                assert_eq!(pair[0].max.as_ref(), Some(&pair[1].min));
            }
        }
    }

    #[test]
    fn overlaps() {
        let ranges = initial(&definition(Hashing::V2), 2);
        let span = EpkSpan::parse("10", "FF").unwrap();
        assert_eq!(ranges[0].overlap(&span).unwrap().min.to_string(), "10");
        assert_eq!(ranges[1].overlap(&span).unwrap().max, None);
        assert!(ranges[1].overlap(&EpkSpan::parse("", "10").unwrap()).is_none());
    }

    #[test]
    fn ranges_number_their_items_by_their_position() {
        for hashing in [Hashing::V1, Hashing::V2, Hashing::MultiHash] {
            let of = |count| {
                let ranges = initial(&definition(hashing), count);
                ranges.iter().map(|range| series(hashing, &range.min)).collect::<Vec<_>>()
            };
            assert_eq!(of(1), [0]);
            assert_eq!(of(2), [0, 0x800], "{hashing:?}");
            assert_eq!(of(4), [0, 0x400, 0x800, 0xc00], "{hashing:?}");
            assert_eq!(of(3), [0, 0x555, 0xaaa], "{hashing:?}");
        }
    }
}
