//! A condition on one part of an index view: local numbers that may match.
//!
//! [`Selector::new`] looks the condition's values up in the part's dictionaries. What it keeps are numbers
//! (ordinals, how many entries their lists have), nothing that borrows from the part: so a plan owns its
//! selectors and may be handed to another thread. Whoever uses one brings the part along.

mod fingerprint;
mod on_part;
mod tester;
mod tree;

pub(in crate::query) use tester::Tester;

use crate::query::find::condition::Condition;
use armilla_index::{Part, within};
use on_part::{Asked, is_tried};
use std::ops::Range;
pub(in crate::query) use tree::live;
use tree::{
    Tree, count, count_live, is_exact, select, select_all, smallest, tree as tree_of, values_tried,
};

/// Runs of local numbers, ascending and disjoint.
pub(in crate::query) type Runs = Vec<Range<u32>>;

/// The documents of one part that may match, ascending, without the dead.
#[derive(Debug)]
pub(in crate::query) struct Selection {
    pub(in crate::query) locals: Vec<u32>,
    /// All of them match.
    pub(in crate::query) exact: bool,
}

/// A condition made ready for one part.
#[derive(Debug)]
pub(in crate::query) struct Selector {
    /// What must hold at once: the parts of an AND in its order, or the condition itself.
    conjuncts: Vec<Tree>,
    kind: Conjunction,
    /// What a conjunct comes to where so little is asked for that its predicates are not tried on all
    /// values: the charge goes by that.
    untried: Vec<Untried>,
}

/// A conjunct whose predicates are not tried.
#[derive(Debug)]
struct Untried {
    conjunct: usize,
    /// Distinct values that would have to be tried.
    values: usize,
    tree: Tree,
}

/// What the conjuncts come to.
#[derive(Clone, Copy, Debug)]
enum Conjunction {
    /// One of them leaves nothing.
    Nothing,
    /// This one decides: the others leave everything.
    One(usize),
    /// All of them leave everything.
    All,
    /// Several decide.
    Many,
}

#[cfg(test)]
thread_local! {
    /// Selectors made on this thread.
    pub(in crate::query) static MADE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl Selector {
    /// Looks the condition's values up, for the documents of these runs; `bare` says that some documents of the part have no terms
    /// at all.
    pub(in crate::query) fn new(
        condition: &Condition,
        part: &Part,
        runs: &[Range<u32>],
        bare: bool,
    ) -> Self {
        #[cfg(test)]
        MADE.set(MADE.get() + 1);
        let asked = Asked::of(runs);
        let tree = |condition| tree_of(condition, part, asked);
        let conjuncts: Vec<Tree> = match condition {
            _ if bare => vec![Tree::Unknown],
            Condition::And(parts) => parts.iter().map(tree).collect(),
            other => vec![tree(other)],
        };
        let parts = match condition {
            Condition::And(parts) => parts.as_slice(),
            other => std::slice::from_ref(other),
        };
        let tried = parts.iter().enumerate().filter(|(_, it)| !bare && it.tries_values());
        let untried = |(conjunct, condition): (usize, &Condition)| Untried {
            conjunct,
            values: values_tried(condition, part),
            tree: tree_of(condition, part, Asked { documents: 0, ..asked }),
        };
        let untried = tried.map(untried).collect();
        Self { kind: kind(&conjuncts), conjuncts, untried }
    }

    /// Documents that may match, at most; dead ones and those out of scope included.
    pub(in crate::query) fn size(&self, part: &Part) -> usize {
        smallest(&self.conjuncts, part)
    }

    /// True when nothing needs to be looked at again.
    pub(in crate::query) fn may_be_exact(&self) -> bool {
        matches!(self.kind, Conjunction::Nothing) || self.conjuncts.iter().all(is_exact)
    }

    /// The documents of the runs that may match.
    pub(in crate::query) fn select(&self, part: &Part, runs: &[Range<u32>]) -> Selection {
        let (mut locals, exact) = self.listed(part, runs);
        if !part.dead().is_empty() {
            locals.retain(|local| !part.is_dead(*local));
        }
        Selection { locals, exact }
    }

    /// All documents of the part that may match, dead ones included, and whether all of them do.
    pub(in crate::query) fn candidates(&self, part: &Part) -> (Vec<u32>, bool) {
        self.listed(part, std::slice::from_ref(&(0..part.len())))
    }

    fn listed(&self, part: &Part, runs: &[Range<u32>]) -> (Vec<u32>, bool) {
        debug_assert!(runs.is_sorted_by(|left, right| left.end <= right.start), "runs ascend");
        let (locals, exact) = match self.kind {
            Conjunction::Nothing => (Vec::new(), true),
            Conjunction::All => (runs.iter().cloned().flatten().collect(), true),
            Conjunction::One(number) => select(&self.conjuncts[number], part, runs),
            Conjunction::Many => select_all(&self.conjuncts, part, runs),
        };
        debug_assert!(locals.is_sorted_by(|left, right| left < right), "candidates ascend");
        (locals, exact)
    }

    /// The same, one by one: true when all of them match.
    pub(in crate::query) fn visit(
        &self,
        part: &Part,
        runs: &[Range<u32>],
        visit: &mut dyn FnMut(u32),
    ) -> bool {
        if let (Some(Tree::Leaf(leaf)), [run]) = (self.deciding(), runs)
            && let Some(list) = leaf.only_list(part)
        {
            let live = within(list, run).iter().map(|local| local.get());
            live.filter(|local| !part.is_dead(*local)).for_each(visit);
            return leaf.exact;
        }
        let Selection { locals, exact } = self.select(part, runs);
        locals.into_iter().for_each(visit);
        exact
    }

    /// How many documents of the runs match, if the index can count them without looking at each.
    pub(in crate::query) fn count(&self, part: &Part, runs: &[Range<u32>]) -> Option<u64> {
        match self.kind {
            Conjunction::Nothing => Some(0),
            Conjunction::All => Some(live(part, runs)),
            Conjunction::One(number) => count(&self.conjuncts[number], part, runs),
            Conjunction::Many => None,
        }
    }

    /// How many live documents of the runs may match.
    pub(in crate::query) fn count_live(&self, part: &Part, runs: &[Range<u32>]) -> u64 {
        match self.kind {
            Conjunction::Nothing => 0,
            Conjunction::All => live(part, runs),
            Conjunction::One(number) => count_live(&self.conjuncts[number], part, runs),
            Conjunction::Many => self.select(part, runs).locals.len() as u64,
        }
    }

    /// The same by one part of an AND alone, tried as far as it would be for these runs.
    pub(in crate::query) fn count_conjunct(
        &self,
        number: usize,
        part: &Part,
        runs: &[Range<u32>],
    ) -> u64 {
        let scope: usize = runs.iter().map(|run| run.len()).sum();
        let untried = self.untried.iter().find(|untried| untried.conjunct == number);
        let untried = untried.filter(|untried| !is_tried(untried.values, scope));
        let tree = untried.map(|untried| &untried.tree).or_else(|| self.conjuncts.get(number));
        tree.map_or_else(|| live(part, runs), |tree| count_live(tree, part, runs))
    }

    /// The only conjunct that leaves something out.
    fn deciding(&self) -> Option<&Tree> {
        match self.kind {
            Conjunction::One(number) => self.conjuncts.get(number),
            _ => None,
        }
    }
}

fn kind(conjuncts: &[Tree]) -> Conjunction {
    let mut kind = Conjunction::All;
    for (number, tree) in conjuncts.iter().enumerate() {
        kind = match (tree, kind) {
            (Tree::Nothing, _) => return Conjunction::Nothing,
            (Tree::All, kind) => kind,
            (_, Conjunction::All) => Conjunction::One(number),
            _ => Conjunction::Many,
        };
    }
    kind
}
