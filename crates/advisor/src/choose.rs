//! Choosing: the set of changes under which the observed workload costs least.
//!
//! An integer program: a variable for each change, a share for each option of a step (which may only be taken with the
//! changes it requires), and one for each burden (which must be carried once all its changes are made). Beyond tens of
//! changes, or should the solver give up, a local search adds and drops changes one by one.

use crate::flow::Flow;
use crate::limits::EXACT_MAX;
use crate::propose::{Proposal, StepId};
use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use std::collections::BTreeMap;

/// Steps towards the smallest choice.
const SMALLER_MAX: usize = 50;

/// What a choice must keep to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) changes: usize,
    pub(crate) storage: f64,
}

impl Bounds {
    pub(crate) const NONE: Self = Self { changes: usize::MAX, storage: f64::INFINITY };
}

/// A choice, and what the workload costs under it.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) made: Vec<bool>,
    pub(crate) units: f64,
}

/// The three points: cheapest, fewest changes for four fifths of the saving, least storage for half of it.
pub(crate) fn points(proposal: &Proposal, flows: &[Flow]) -> Vec<Point> {
    let point = |made: Vec<bool>| Point { units: proposal.total(flows, &made), made };
    let now = proposal.total(flows, &vec![false; proposal.changes.len()]);
    let cheapest = point(worthwhile(proposal, flows, Bounds::NONE));
    let saved = now - cheapest.units;
    let count = |made: &[bool]| made.iter().filter(|made| **made).count();
    let storage = |made: &[bool]| -> f64 {
        let chosen = proposal.changes.iter().zip(made).filter(|(_, made)| **made);
        chosen.map(|(change, _)| change.storage.max(0.0)).sum()
    };
    let mut fewest = cheapest.clone();
    for changes in 1..count(&cheapest.made) {
        let made = worthwhile(proposal, flows, Bounds { changes, ..Bounds::NONE });
        if now - proposal.total(flows, &made) >= 0.8 * saved {
            fewest = point(made);
            break;
        }
    }
    let mut smallest = cheapest.clone();
    // What saves most in less room than the last: when that is too little, nothing smaller saves enough.
    for _ in 0..SMALLER_MAX {
        // Less by more than the solver takes for the same.
        let (held, limit) = (storage(&smallest.made), storage(&smallest.made) * 0.999 - 1.0);
        let made = worthwhile(proposal, flows, Bounds { storage: limit, ..Bounds::NONE });
        let is_enough = now - proposal.total(flows, &made) >= 0.5 * saved;
        if limit < 0.0 || !is_enough || storage(&made) >= held {
            break;
        }
        smallest = point(made);
    }
    vec![cheapest, fewest, smallest]
}

/// The best set in which every change saves its least share.
fn worthwhile(proposal: &Proposal, flows: &[Flow], bounds: Bounds) -> Vec<bool> {
    let mut allowed = vec![true; proposal.changes.len()];
    let now = proposal.total(flows, &vec![false; allowed.len()]);
    loop {
        let made = best(proposal, flows, bounds, &allowed);
        let (mut worst, mut least) = (None, f64::INFINITY);
        let mut before = vec![false; made.len()];
        for at in order(proposal, &made) {
            let marginal = saved_by(proposal, flows, &made, at);
            let cost = proposal.total(flows, &before);
            before[at] = true;
            let saved = marginal.min(cost - proposal.total(flows, &before));
            let needed = proposal.changes.get(at).map_or(0.0, |change| change.share_min) * now;
            if saved < needed && saved - needed < least {
                (worst, least) = (Some(at), saved - needed);
            }
        }
        match worst {
            Some(at) => allowed[at] = false,
            None => return made,
        }
    }
}

/// What a chosen change saves beside the others.
fn saved_by(proposal: &Proposal, flows: &[Flow], made: &[bool], at: usize) -> f64 {
    let mut without = made.to_vec();
    without[at] = false;
    proposal.total(flows, &without) - proposal.total(flows, made)
}

/// The order in which chosen changes are made: what changes items first, copies of them last.
pub(crate) fn order(proposal: &Proposal, made: &[bool]) -> Vec<usize> {
    let rank = |rule: &str| match rule {
        "reference" | "reverse-reference" | "capped-list" | "buckets" => 0,
        "embed" | "extended-reference" => 1,
        "counter" => 2,
        "partition-key" | "hierarchical-key" | "synthetic-key" => 3,
        "view" | "capped-view" => 4,
        _ => 5,
    };
    let mut chosen: Vec<usize> = (0..made.len()).filter(|at| made[*at]).collect();
    chosen.sort_by_key(|at| proposal.changes.get(*at).map_or(9, |change| rank(change.rule)));
    chosen
}

fn best(proposal: &Proposal, flows: &[Flow], bounds: Bounds, allowed: &[bool]) -> Vec<bool> {
    let searched = search(proposal, flows, bounds, allowed);
    if allowed.iter().filter(|allowed| **allowed).count() > EXACT_MAX {
        return searched;
    }
    match exact(proposal, flows, bounds, allowed) {
        // The solver works in floating point: its answer is counted again before it is believed.
        Some(made) if proposal.total(flows, &made) <= proposal.total(flows, &searched) + 1e-6 => {
            made
        }
        _ => searched,
    }
}

/// The integer program.
fn exact(
    proposal: &Proposal,
    flows: &[Flow],
    bounds: Bounds,
    allowed: &[bool],
) -> Option<Vec<bool>> {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let changes: Vec<Variable> = proposal
        .changes
        .iter()
        .zip(allowed)
        .map(|(change, allowed)| problem.add_integer_var(change.upkeep, (0, i32::from(*allowed))))
        .collect();
    let mut shares: BTreeMap<StepId, Vec<Variable>> = BTreeMap::new();
    let times = |step: StepId| flows.get(step.0).map_or(0.0, |flow| flow.times);
    for option in &proposal.options {
        let now = flows.get(option.step.0)?.steps.get(option.step.1)?.units;
        let saving = (option.units - now) * times(option.step);
        if saving >= 0.0 {
            continue;
        }
        let share = problem.add_var(saving, (0.0, 1.0));
        for required in &option.requires {
            let change = *changes.get(*required)?;
            problem.add_constraint([(share, 1.0), (change, -1.0)], ComparisonOp::Le, 0.0);
        }
        shares.entry(option.step).or_default().push(share);
    }
    for shares in shares.values() {
        let all: Vec<(Variable, f64)> = shares.iter().map(|share| (*share, 1.0)).collect();
        problem.add_constraint(all, ComparisonOp::Le, 1.0);
    }
    for burden in &proposal.burdens {
        let units = burden.units * burden.step.map_or(1.0, times);
        let carried = problem.add_var(units, (0.0, 1.0));
        let mut all = vec![(carried, 1.0)];
        for required in &burden.requires {
            let change = *changes.get(*required)?;
            all.push((change, -1.0));
            problem.add_constraint([(carried, 1.0), (change, -1.0)], ComparisonOp::Le, 0.0);
        }
        let least = 1.0 - burden.requires.len() as f64;
        problem.add_constraint(all, ComparisonOp::Ge, least);
    }
    if bounds.changes < proposal.changes.len() {
        let all: Vec<(Variable, f64)> = changes.iter().map(|change| (*change, 1.0)).collect();
        problem.add_constraint(all, ComparisonOp::Le, bounds.changes as f64);
    }
    if bounds.storage.is_finite() {
        let megabytes = |change: &crate::propose::Change| change.storage.max(0.0) / 1e6;
        let sizes = changes.iter().zip(&proposal.changes);
        let all: Vec<(Variable, f64)> =
            sizes.map(|(one, change)| (*one, megabytes(change))).collect();
        problem.add_constraint(all, ComparisonOp::Le, bounds.storage / 1e6);
    }
    let solution = problem.solve().ok()?.into_solution().ok()?;
    Some(changes.iter().map(|change| solution.var_value(*change) > 0.5).collect())
}

/// Local search: the best single step, up, down or across, until there is none.
fn search(proposal: &Proposal, flows: &[Flow], bounds: Bounds, allowed: &[bool]) -> Vec<bool> {
    let mut made = vec![false; proposal.changes.len()];
    let mut cost = proposal.total(flows, &made);
    let fits = |made: &[bool]| {
        let chosen = proposal.changes.iter().zip(made).filter(|(_, made)| **made);
        let (mut count, mut storage) = (0, 0.0);
        for (change, _) in chosen {
            count += 1;
            storage += change.storage.max(0.0);
        }
        count <= bounds.changes && storage <= bounds.storage
    };
    loop {
        let mut step: Option<(Vec<bool>, f64)> = None;
        for at in 0..made.len() {
            let mut next = made.clone();
            next[at] = !next[at];
            let swaps = (0..made.len()).filter(|other| *other != at && made[*other] && !made[at]);
            let swapped = swaps.map(|other| {
                let mut swapped = next.clone();
                swapped[other] = false;
                swapped
            });
            for next in std::iter::once(next.clone()).chain(swapped) {
                let is_allowed = next.iter().zip(allowed).all(|(made, allowed)| !made || *allowed);
                let units = proposal.total(flows, &next);
                let least = step.as_ref().map_or(cost, |(_, least)| *least);
                if is_allowed && fits(&next) && units < least - 1e-9 {
                    step = Some((next, units));
                }
            }
        }
        match step {
            Some((next, units)) => (made, cost) = (next, units),
            None => return made,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::FlowStep;
    use crate::observe::Shape;
    use crate::propose::Change;

    /// A flow of one step, a hundred times.
    fn flow(units: f64) -> Flow {
        let step = FlowStep {
            shape: Shape::default(),
            times: 1.0,
            units,
            rows: 1.0,
            ranges: 1.0,
            entity: None,
            facts: None,
            origin: None,
            examples: Vec::new(),
        };
        Flow { times: 100.0, steps: vec![step] }
    }

    fn add(proposal: &mut Proposal, storage: f64, upkeep: f64) -> usize {
        let id = format!("change {}", proposal.changes.len());
        let change =
            Change { id, rule: "view", storage, upkeep, share_min: 0.01, ..Change::default() };
        proposal.add(change).unwrap()
    }

    #[test]
    fn three_points() {
        let flows = [flow(10.0), flow(10.0), flow(1.0)];
        let mut proposal = Proposal::default();
        // One large change for both dear steps, a small one for each of them, and one for the cheap step.
        let large = add(&mut proposal, 9e6, 0.0);
        let small = [add(&mut proposal, 1e6, 0.0), add(&mut proposal, 1e6, 0.0)];
        let cheap = add(&mut proposal, 1e6, 0.0);
        for (at, one) in small.into_iter().enumerate() {
            proposal.option((at, 0), vec![large], 1.0);
            proposal.option((at, 0), vec![one], 2.0);
        }
        proposal.option((2, 0), vec![cheap], 0.5);
        let points = points(&proposal, &flows);
        let made: Vec<Vec<bool>> = points.iter().map(|point| point.made.clone()).collect();
        assert_eq!(made[0], [true, false, false, true]);
        assert_eq!(made[1], [true, false, false, false]);
        assert_eq!(made[2], [false, true, true, false]);
        assert!(points[0].units < points[1].units && points[1].units < points[2].units);
    }

    #[test]
    fn what_saves_less_than_a_hundredth_is_not_chosen() {
        for (after, is_chosen) in [(9.85, true), (9.95, false)] {
            let flows = [flow(10.0)];
            let mut proposal = Proposal::default();
            let change = add(&mut proposal, 0.0, 0.0);
            proposal.option((0, 0), vec![change], after);
            assert_eq!(points(&proposal, &flows)[0].made, [is_chosen], "10 to {after}");
        }
    }

    #[test]
    fn the_choice_is_the_best_of_all() {
        let mut seed = 7_u64;
        let mut chance = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for round in 0..60 {
            let flows: Vec<Flow> = (0..4).map(|_| flow(1.0 + chance(20) as f64)).collect();
            let mut proposal = Proposal::default();
            for _ in 0..6 {
                let upkeep = chance(300) as f64;
                add(&mut proposal, chance(5) as f64 * 1e6, upkeep);
            }
            for _ in 0..10 {
                let mut requires: Vec<usize> =
                    (0..=chance(2)).map(|_| chance(6) as usize).collect();
                requires.dedup();
                let (step, units) = ((chance(4) as usize, 0), chance(10) as f64);
                match chance(4) {
                    0 => proposal.burden(Some(step), requires, units),
                    _ => proposal.option(step, requires, units),
                }
            }
            let sets = (0..64_u32).map(|set| (0..6).map(|at| set >> at & 1 == 1).collect());
            let totals = sets.map(|made: Vec<bool>| proposal.total(&flows, &made));
            let least = totals.fold(f64::INFINITY, f64::min);
            let made = best(&proposal, &flows, Bounds::NONE, &[true; 6]);
            let chosen = proposal.total(&flows, &made);
            assert!((chosen - least).abs() < 1e-6, "round {round}: {chosen} and not {least}");
        }
    }
}
