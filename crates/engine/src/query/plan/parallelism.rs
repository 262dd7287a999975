//! Parallelism: whether several threads work on a page, and what each of them goes through.
//!
//! Whether others are idle is only known when the page runs, so the caller says so.

use super::Plan;
use super::costs::{
    PARALLEL_DOCUMENTS_MIN, PARALLEL_ITEMS_MIN, PARALLEL_VALUES_MIN, SHARE_ITEMS_MIN,
    SHARE_ITEMS_TINY, SHARES_PER_THREAD,
};
use crate::query::Threads;
use crate::query::prepare::Prepared;
use crate::query::view::RangeView;
use crate::ranges::EpkSpan;
use armilla_model::partition_key::Epk;
use std::ops::Range;

/// What one thread goes through: a range, or a piece of it where all documents are gone through.
#[derive(Clone, Debug)]
pub(in crate::query) struct WorkShare {
    pub(in crate::query) target: usize,
    pub(in crate::query) piece: Option<EpkSpan>,
}

impl WorkShare {
    fn of_range(target: usize) -> Self {
        Self { target, piece: None }
    }

    /// A range cut into about so many pieces, in the order of their keys.
    fn pieces(number: usize, range: &RangeView, pieces: u64) -> Vec<Self> {
        let cuts = range.cuts(usize::try_from(pieces).unwrap_or(1));
        let starts = std::iter::once(Epk::default()).chain(cuts.iter().cloned());
        let ends = cuts.iter().cloned().map(Some).chain([None]);
        let piece = |(min, max)| Some(EpkSpan { min, max });
        starts.zip(ends).map(|keys| Self { target: number, piece: piece(keys) }).collect()
    }
}

/// Says whether another core may have nothing to do.
type HasHelp = fn() -> bool;

impl Plan {
    /// True when work can be shared: on items as the store has them, with rows that depend on nothing but
    /// the items.
    pub(in crate::query) fn may_share(&self, prepared: &Prepared) -> bool {
        !self.has_points() && self.overlay.is_none() && prepared.is_pure()
    }

    /// True when items are so many that several threads should read them.
    pub(in crate::query) fn shares_items(&self, has_help: HasHelp) -> bool {
        self.pays(|| {
            self.view.scope() >= PARALLEL_ITEMS_MIN
                && has_help()
                && self.estimate() >= PARALLEL_ITEMS_MIN
        })
    }

    /// The shares of all items for so many threads.
    pub(in crate::query) fn item_shares(&self, threads: usize) -> Vec<WorkShare> {
        let (items, scope) = (self.estimate(), self.view.scope().max(1));
        let many = match self.threads {
            // What the index finds depends a little on where it is asked: only whole ranges are the same.
            _ if self.is_selective() => 0,
            Threads::Many => items / SHARE_ITEMS_TINY,
            _ => (items / SHARE_ITEMS_MIN).min((threads * SHARES_PER_THREAD) as u64),
        };
        let of_range = |(number, range): (usize, &RangeView)| match range.scope() * many / scope {
            0 | 1 => vec![WorkShare::of_range(number)],
            pieces => WorkShare::pieces(number, range, pieces),
        };
        self.view.ranges.iter().enumerate().flat_map(of_range).collect()
    }

    /// True when several threads should look at so many documents in the index alone.
    pub(in crate::query) fn shares_documents(&self, documents: u64, has_help: HasHelp) -> bool {
        self.pays(|| documents >= PARALLEL_DOCUMENTS_MIN && has_help())
    }

    /// Whole ranges, one share each.
    pub(in crate::query) fn range_shares(&self) -> Vec<WorkShare> {
        (0..self.view.ranges.len()).map(WorkShare::of_range).collect()
    }

    /// True when the ranges of an ordered scan should begin side by side: it will have to rank many
    /// candidates, or has gone through many items for the first rows of some ranges.
    pub(in crate::query) fn shares_scan(
        &self,
        visited: u64,
        prepared: &Prepared,
        has_help: HasHelp,
    ) -> bool {
        let ranks = || prepared.feedback.will_rank() && self.estimate() >= PARALLEL_DOCUMENTS_MIN;
        let is_long = || visited >= PARALLEL_ITEMS_MIN || (self.is_selective() && ranks());
        self.pays(|| is_long() && has_help())
    }

    /// True when several threads should try predicates on the values of some ranges.
    pub(in crate::query) fn shares_values(&self, ranges: &Range<usize>, has_help: HasHelp) -> bool {
        if !self.tries_values() || !self.is_plain() || ranges.len() < 2 {
            return false;
        }
        let values = || self.view.ranges[ranges.clone()].iter().map(RangeView::scope).sum::<u64>();
        self.pays(|| values() >= PARALLEL_VALUES_MIN && has_help())
    }

    /// True when several threads are wanted: always or never, or by cost.
    fn pays(&self, by_cost: impl FnOnce() -> bool) -> bool {
        match self.threads {
            Threads::One => false,
            Threads::Many => true,
            Threads::ByCost => by_cost(),
        }
    }
}
