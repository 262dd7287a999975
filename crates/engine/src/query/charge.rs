//! What a page is charged for the items it went through.
//!
//! Charges follow logical work, so that a better plan never changes a bill: an item is *matched*
//! when it meets the whole condition, and a *candidate* when it meets the most selective part of
//! the condition that the index can serve. How items were really found does not matter. Pages of a
//! query that goes through items in order pay for the candidates between where they begin and where
//! they end, so the pages of a query sum up to the whole.

use crate::container::Container;
use crate::indexing::ROOT;
use crate::query::find::{Condition, Runs, Selector};
use crate::query::plan::costs::MEAN_SIZE_ITEMS_MAX;
use crate::query::read::items::Source;
use crate::query::token::Place;
use crate::query::view::Target;
use armilla_index::Part;
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::path::Path;
use armilla_model::policy::ContainerPolicy;

/// What was found in one target.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    visited: u64,
    matched: u64,
    loads: RequestCharge,
}

/// What a page has found so far, by target.
#[derive(Debug, Default)]
pub(in crate::query) struct Bill {
    tallies: Vec<Tally>,
    /// The ranges of the targets, where there are several, and what each was charged with.
    ranges: Vec<u32>,
    settled: Vec<RequestCharge>,
}

impl Bill {
    /// Remembers which ranges there are, so that they can share the charge.
    pub(in crate::query) fn over(&mut self, source: &Source<'_>) {
        if source.targets.len() > 1 {
            self.ranges = source.targets.iter().map(|target| target.partition.range.id).collect();
        }
    }

    fn tally(&mut self, target: usize) -> &mut Tally {
        if self.tallies.len() <= target {
            self.tallies.resize(target + 1, Tally::default());
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

    /// Counts matched items of a target that only the index has seen.
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
        source: &Source<'_>,
        start: Option<&Place>,
        end: Option<&Place>,
        rates: &Rates,
    ) -> RequestCharge {
        let mut whole = RequestCharge::ZERO;
        self.settled.clear();
        for (number, target) in source.targets.iter().enumerate() {
            let begun = |place: &Place| target.partition.range.min <= place.epk;
            if end.is_some_and(|end| !begun(end)) {
                break;
            }
            let start = start.filter(|place| begun(place));
            let mut charge = RequestCharge::ZERO;
            if start.is_none() {
                charge += source.base_charge(target, rates);
            }
            let tally = self.tallies.get(number).copied().unwrap_or_default();
            let candidates = match source.candidates() {
                Candidates::Visited => tally.visited,
                Candidates::Matched => tally.matched,
                Candidates::Counted => {
                    let behind = |place| count_behind(source, target, place);
                    behind(start).saturating_sub(end.map_or(0, |end| behind(Some(end))))
                }
            };
            let dropped = candidates.saturating_sub(tally.matched);
            charge += tally.loads + rates.load(source.mean_size(number)) * dropped;
            whole += charge;
            self.settled.push(charge);
        }
        whole
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
        self.ranges.iter().enumerate().map(share).collect()
    }
}

/// How the candidates of a query are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::query) enum Candidates {
    /// Items were named by their ids: those that are there.
    Visited,
    /// The condition is one part, and whatever the index finds for it matches.
    Matched,
    /// By asking the index.
    Counted,
}

impl Source<'_> {
    /// How the candidates that a page is charged for are known.
    pub(in crate::query) fn candidates(&self) -> Candidates {
        if self.points.is_some() {
            return Candidates::Visited;
        }
        match useful_parts(&self.charged).as_slice() {
            [_] if self.charged.is_exact() => Candidates::Matched,
            _ => Candidates::Counted,
        }
    }

    /// The mean size of a target's items: what an item that is not read counts for.
    pub(in crate::query) fn mean_size(&self, number: usize) -> usize {
        let Some(target) = self.targets.get(number) else { return 0 };
        let documents = target.partition.document_count().max(1);
        usize::try_from(target.partition.size() / documents).unwrap_or(usize::MAX)
    }

    /// The mean size of the items that a query addresses in a target, or of all its items where those
    /// are too many to look at.
    pub(in crate::query) fn mean_size_in_scope(&self, number: usize) -> usize {
        let Some(target) = self.targets.get(number) else { return 0 };
        let (mut documents, mut bytes) = (0u64, 0u64);
        for (_, part, runs) in target.runs(None) {
            for run in runs {
                documents += u64::from(part.live_count_in(&run));
                if documents > MEAN_SIZE_ITEMS_MAX {
                    return self.mean_size(number);
                }
                let live = run.filter(|local| !part.is_dead(*local));
                bytes += live.map(|local| u64::from(part.document(local).size)).sum::<u64>();
            }
        }
        usize::try_from(bytes / documents.max(1)).unwrap_or(usize::MAX)
    }

    /// What visiting a range costs before any work.
    pub(in crate::query) fn base_charge(&self, target: &Target, rates: &Rates) -> RequestCharge {
        let seeks = match &self.points {
            None => self.seeks,
            Some(points) => {
                let range = &target.partition.range;
                points.iter().filter(|point| range.contains(&point.epk)).count() as u64
            }
        };
        rates.query_base + rates.query_seek * seeks.saturating_sub(1)
    }
}

/// The numbers of the paths of the partition key.
pub(in crate::query) fn key_paths(container: &Container, policy: &ContainerPolicy) -> Vec<u32> {
    let number = |path: &Path| {
        path.0.iter().try_fold(ROOT, |parent, name| container.paths.find_name(parent, name))
    };
    policy.partition_key.paths.iter().filter_map(number).collect()
}

/// The parts of a condition that the index can serve, each by itself.
fn useful_parts(condition: &Condition) -> Vec<&Condition> {
    match condition {
        Condition::And(parts) => parts.iter().filter(|part| part.is_useful()).collect(),
        other if other.is_useful() => vec![other],
        _ => Vec::new(),
    }
}

/// The candidates of a target behind a place.
fn count_behind(source: &Source<'_>, target: &Target, after: Option<&Place>) -> u64 {
    let parts: Vec<(usize, &Part, Runs)> = target.runs(after).collect();
    let all = || parts.iter().map(|(_, part, runs)| live(part, runs)).sum::<u64>();
    let useful = useful_parts(&source.charged);
    let counts = useful.iter().map(|condition| {
        let of_part = |(_, part, runs): &(usize, &Part, Runs)| {
            let scope = runs.iter().map(|run| run.len()).sum();
            Selector::new(condition, part, scope, source.is_bare(part)).count_live(runs)
        };
        parts.iter().map(of_part).sum::<u64>()
    });
    counts.min().unwrap_or_else(all)
}

fn live(part: &Part, runs: &Runs) -> u64 {
    runs.iter().map(|run| u64::from(part.live_count_in(run))).sum()
}

/// How many items of a target match at most: all conditions together, as far as the index knows.
pub(in crate::query) fn may_match(source: &Source<'_>, target: &Target) -> u64 {
    let of_part = |(_, part, runs): &(usize, &Part, Runs)| {
        let scope = runs.iter().map(|run| run.len()).sum();
        Selector::new(&source.charged, part, scope, source.is_bare(part)).count_live(runs)
    };
    target.runs(None).map(|part| of_part(&part)).sum()
}
