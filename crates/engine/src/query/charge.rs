//! What a page is charged for the items it went through.
//!
//! Charges follow logical work, so that a better plan never changes a bill: an item is *matched*
//! when it meets the whole condition, and a *candidate* when it meets the most selective part of
//! the condition that the index can serve. How items were really found does not matter. Pages of a
//! query that goes through items in order pay for the candidates between where they begin and where
//! they end, so the pages of a query sum up to the whole.

use crate::query::counters::{Charges, RangeTally};
use crate::query::find::{Condition, Runs, Selector, live};
use crate::query::plan::Plan;
use crate::query::token::Place;
use armilla_index::Part;
use armilla_model::charge::{Rates, RequestCharge};

/// What a page has found so far, by range.
#[derive(Debug, Default)]
pub(in crate::query) struct Bill {
    tallies: Vec<RangeTally>,
    /// The ids of the ranges, where there are several, and what each was charged with.
    ranges: Vec<u32>,
    settled: Vec<RequestCharge>,
    /// Rows of the page that came from each range, where there are several.
    handed_out: Vec<u64>,
}

impl Bill {
    /// Remembers which ranges there are, so that they can share the charge.
    pub(in crate::query) fn over(&mut self, plan: &Plan) {
        let ranges = &plan.view.ranges;
        if ranges.len() > 1 {
            self.ranges = ranges.iter().map(|range| range.partition.range.id).collect();
        }
    }

    /// Counts rows of a range that are on the page.
    pub(in crate::query) fn handed_out(&mut self, target: usize, rows: u64) {
        if self.ranges.is_empty() || rows == 0 {
            return;
        }
        if self.handed_out.len() <= target {
            self.handed_out.resize(self.ranges.len().max(target + 1), 0);
        }
        self.handed_out[target] += rows;
    }

    /// The rows of the page by range, where they were counted.
    pub(in crate::query) fn take_handed_out(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.handed_out)
    }

    fn tally(&mut self, target: usize) -> &mut RangeTally {
        if self.tallies.len() <= target {
            self.tallies.resize(target + 1, RangeTally::default());
        }
        &mut self.tallies[target]
    }

    /// Takes in what another thread has found.
    pub(in crate::query) fn absorb(&mut self, other: &Self) {
        for (number, found) in other.tallies.iter().enumerate() {
            let tally = self.tally(number);
            tally.visited += found.visited;
            tally.matched += found.matched;
            tally.loads += found.loads;
        }
    }

    /// Counts an item that was looked at; its size if it matched.
    pub(in crate::query) fn visited(
        &mut self,
        target: usize,
        matched: Option<usize>,
        rates: &Rates,
    ) {
        let tally = self.tally(target);
        tally.visited += 1;
        if let Some(size) = matched {
            tally.matched += 1;
            tally.loads += rates.load(size);
        }
    }

    /// Counts matched items of a range that only the index has seen.
    pub(in crate::query) fn matched_unseen(
        &mut self,
        target: usize,
        count: u64,
        size: usize,
        rates: &Rates,
    ) {
        let tally = self.tally(target);
        tally.visited += count;
        tally.matched += count;
        tally.loads += rates.load(size) * count;
    }

    /// Items that matched.
    pub(in crate::query) fn matched(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.matched).sum()
    }

    /// The charge for everything between two places, or to the end: the ranges begun there, their
    /// candidates, and the matched items among those.
    pub(in crate::query) fn settle(
        &mut self,
        plan: &Plan,
        start: Option<&Place>,
        end: Option<&Place>,
        rates: &Rates,
    ) -> Charges {
        let mut whole = Charges::default();
        self.settled.clear();
        for (number, range) in plan.view.ranges.iter().enumerate() {
            let begun = |place: &Place| range.partition.range.min <= place.epk;
            if end.is_some_and(|end| !begun(end)) {
                break;
            }
            let start = start.filter(|place| begun(place));
            let mut charges = Charges::default();
            if start.is_none() {
                charges.ranges = base_charge(plan, number, rates);
            }
            let tally = self.tallies.get(number).copied().unwrap_or_default();
            let candidates = match candidates(plan) {
                Candidates::Visited => tally.visited,
                Candidates::Matched => tally.matched,
                Candidates::Counted => {
                    let behind = |place| count_behind(plan, number, place);
                    behind(start).saturating_sub(end.map_or(0, |end| behind(Some(end))))
                }
            };
            let dropped = candidates.saturating_sub(tally.matched);
            let mean = rates.load(plan.view.mean_size(number));
            charges.items = tally.loads + mean * dropped;
            whole += charges;
            self.settled.push(charges.total());
        }
        debug_assert_eq!(whole.total(), self.settled.iter().copied().sum(), "ranges add up");
        whole
    }

    /// What was found, by range.
    pub(in crate::query) fn into_tallies(self) -> Vec<RangeTally> {
        self.tallies
    }

    /// How a page's charge is spread over its ranges, where there are several. What no range was
    /// charged with (evaluation, rows handed out) goes by the items that matched in each, or evenly
    /// where none did.
    pub(in crate::query) fn shares(&self, charge: RequestCharge) -> Vec<(u32, RequestCharge)> {
        if self.ranges.is_empty() {
            return Vec::new();
        }
        let matched = |number: usize| self.tallies.get(number).map_or(0, |tally| tally.matched);
        let all: u64 = (0..self.ranges.len()).map(matched).sum();
        let known: RequestCharge = self.settled.iter().copied().sum();
        let rest = u128::from(charge.steps().saturating_sub(known.steps()));
        let share = |(number, &range): (usize, &u32)| {
            let part = match all {
                0 => rest / self.ranges.len() as u128,
                all => rest * u128::from(matched(number)) / u128::from(all),
            };
            let part = RequestCharge::from_steps(u64::try_from(part).unwrap_or(u64::MAX));
            (range, self.settled.get(number).copied().unwrap_or_default() + part)
        };
        let shares: Vec<_> = self.ranges.iter().enumerate().map(share).collect();
        let spread: RequestCharge = shares.iter().map(|(_, share)| *share).sum();
        debug_assert!(spread <= charge, "shares of {spread:?} add up to more than {charge:?}");
        shares
    }
}

/// How the candidates of a query are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Candidates {
    /// Items were named by their ids: those that are there.
    Visited,
    /// The condition is one part, and whatever the index finds for it matches.
    Matched,
    /// By asking the index.
    Counted,
}

/// How the candidates that a page is charged for are known.
fn candidates(plan: &Plan) -> Candidates {
    if plan.has_points() {
        return Candidates::Visited;
    }
    match useful_parts(&plan.condition).count() {
        1 if plan.condition.is_exact() => Candidates::Matched,
        _ => Candidates::Counted,
    }
}

/// What visiting a range costs before any work.
pub(in crate::query) fn base_charge(plan: &Plan, range: usize, rates: &Rates) -> RequestCharge {
    let seeks = match &plan.points {
        None => plan.seeks,
        Some(points) => {
            let range = &plan.view.ranges[range].partition.range;
            points.iter().filter(|point| range.contains(&point.epk)).count() as u64
        }
    };
    rates.query_base + rates.query_seek * seeks.saturating_sub(1)
}

/// The parts of a condition that the index can serve, each by itself, and their numbers.
fn useful_parts(condition: &Condition) -> impl Iterator<Item = (usize, &Condition)> {
    let parts = match condition {
        Condition::And(parts) => parts.as_slice(),
        other => std::slice::from_ref(other),
    };
    parts.iter().enumerate().filter(|(_, part)| part.is_useful())
}

/// The candidates of a range behind a place: those of the most selective part of the condition.
fn count_behind(plan: &Plan, range: usize, after: Option<&Place>) -> u64 {
    let runs: Vec<(usize, &Part, Runs)> = plan.view.ranges[range].runs(after).collect();
    let all = || runs.iter().map(|(_, part, runs)| live(part, runs)).sum::<u64>();
    let counts = useful_parts(&plan.condition).map(|(conjunct, condition)| {
        match plan.finds_what_is_charged() {
            true => {
                let mut parts = plan.parts(range);
                let of_part = |(number, part, runs): &(usize, &Part, Runs)| {
                    let planned = parts.by_ref().find(|planned| planned.number == *number);
                    let count = planned.map(|it| it.selector.count_conjunct(conjunct, part, runs));
                    count.unwrap_or_default()
                };
                runs.iter().map(of_part).sum::<u64>()
            }
            false => {
                let of_part = |(_, part, runs): &(usize, &Part, Runs)| {
                    let bare = plan.view.is_bare(part);
                    Selector::new(condition, part, runs, bare).count_live(part, runs)
                };
                runs.iter().map(of_part).sum()
            }
        }
    });
    counts.min().unwrap_or_else(all)
}

/// How many items of a range match at most: all conditions together, as far as the index knows.
pub(in crate::query) fn may_match(plan: &Plan, range: usize) -> u64 {
    if plan.finds_what_is_charged() {
        let count =
            |part: crate::query::plan::PartPlan<'_>| part.selector.count_live(part.part, part.runs);
        return plan.parts(range).map(count).sum();
    }
    let of_part = |(_, part, runs): (usize, &Part, Runs)| {
        let bare = plan.view.is_bare(part);
        Selector::new(&plan.condition, part, &runs, bare).count_live(part, &runs)
    };
    plan.view.ranges[range].runs(None).map(of_part).sum()
}
