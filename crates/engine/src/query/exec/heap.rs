//! Bounded heap that keeps the k smallest of all that is pushed.

use crate::query::plan::costs::TOP_K_SLACK;
use std::cmp::Ordering;

/// Keeps the `limit` smallest of all that is pushed.
pub(in crate::query) struct TopK<T, F> {
    limit: usize,
    compare: F,
    kept: Vec<T>,
}

impl<T, F: Fn(&T, &T) -> Ordering> TopK<T, F> {
    pub(in crate::query) fn new(limit: usize, compare: F) -> Self {
        Self { limit, compare, kept: Vec::new() }
    }

    /// Takes one in; gives back what was thrown out to make room.
    pub(in crate::query) fn push(&mut self, item: T) -> Vec<T> {
        self.kept.push(item);
        if self.kept.len() < self.limit.saturating_mul(2).saturating_add(TOP_K_SLACK) {
            return Vec::new();
        }
        self.prune()
    }

    fn prune(&mut self) -> Vec<T> {
        if self.limit == 0 {
            return std::mem::take(&mut self.kept);
        }
        self.kept.select_nth_unstable_by(self.limit - 1, &self.compare);
        self.kept.split_off(self.limit)
    }

    /// The smallest in order.
    pub(in crate::query) fn into_sorted(mut self) -> Vec<T> {
        if self.kept.len() > self.limit {
            self.prune();
        }
        self.kept.sort_by(&self.compare);
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_keeps_the_smallest(
            numbers in proptest::collection::vec(0u32..1000, 0..500),
            limit in 0usize..50,
        ) {
            let mut top = TopK::new(limit, u32::cmp);
            numbers.iter().for_each(|number| drop(top.push(*number)));
            let mut sorted = numbers;
            sorted.sort_unstable();
            sorted.truncate(limit);
            prop_assert_eq!(top.into_sorted(), sorted);
        }
    }
}
