//! Which neighbours are merged, and when.
//!
//! Parts stand in the order of their age, and only neighbours merge, so the list always stays in
//! the order of LSNs. Every part has a tier by its size. As soon as `fan_in` parts of a tier stand
//! together, with nothing larger between them, they and the smaller ones among them become one.

use std::ops::Range;

/// The tier of a part: 0 below `base * fan_in` documents, then one more for each `fan_in` times.
pub(crate) fn tier_of(documents: u32, base: u32, fan_in: usize) -> u32 {
    (documents / base.max(1)).max(1).ilog(u32::try_from(fan_in).unwrap_or(u32::MAX).max(2))
}

/// The run of parts to merge first: the smallest tier of which enough stand together.
///
/// `tiers` has nothing where a part must not be touched.
pub(crate) fn run_to_merge(
    tiers: &[Option<u32>],
    fan_in: usize,
    inputs_max: usize,
) -> Option<Range<usize>> {
    let fan_in = fan_in.max(2);
    let mut present: Vec<u32> = tiers.iter().flatten().copied().collect();
    present.sort_unstable();
    present.dedup();
    present.into_iter().find_map(|tier| {
        let fits = |found: &Option<u32>| found.is_some_and(|found| found <= tier);
        let mut start = 0;
        for run in tiers.chunk_by(|a, b| fits(a) == fits(b)) {
            let range = start..start + run.len();
            start = range.end;
            let of_tier = run.iter().filter(|found| **found == Some(tier)).count();
            if of_tier >= fan_in {
                return Some(range.start..range.end.min(range.start + inputs_max));
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_grow_by_the_fan_in() {
        let tiers = [1, 1024, 8191, 8192, 65_536, 524_288, 4_194_304].map(|n| tier_of(n, 1024, 8));
        assert_eq!(tiers, [0, 0, 0, 1, 2, 3, 4]);
    }

    fn run(tiers: &[u32], fan_in: usize) -> Option<Range<usize>> {
        let tiers: Vec<_> = tiers.iter().map(|tier| Some(*tier)).collect();
        run_to_merge(&tiers, fan_in, 64)
    }

    #[test]
    fn only_enough_neighbours_of_a_tier_merge() {
        assert_eq!(run(&[2, 1, 1, 0, 0], 3), None);
        assert_eq!(run(&[2, 1, 1, 0, 0, 0], 3), Some(3..6));
        assert_eq!(run(&[2, 1, 1, 1, 0, 0], 3), Some(1..6));
    }

    #[test]
    fn a_small_one_between_large_ones_is_taken_along() {
        assert_eq!(run(&[2, 2, 0, 2], 3), Some(0..4));
    }

    #[test]
    fn a_larger_one_or_a_busy_one_separates() {
        assert_eq!(run(&[0, 0, 1, 0], 3), None);
        assert_eq!(run_to_merge(&[Some(0), Some(0), None, Some(0)], 3, 64), None);
    }
}
