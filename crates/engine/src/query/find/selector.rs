//! A condition on one part of an index view: local numbers that may match.
//!
//! [`Selector::new`] looks the condition's values up in the part's dictionaries. What it keeps are numbers
//! (ordinals, how many entries their lists have), nothing that borrows from the part: so a plan owns its
//! selectors and may be handed to another thread. Whoever uses one brings the part along.

mod fingerprint;
mod tester;

pub(in crate::query) use tester::Tester;

use crate::query::find::condition::Condition;
use crate::query::find::leaf::Leaf;
use crate::query::plan::costs::{
    BIT_SET_SHARE, COLUMN_RUN_MAX, LIST_FACTOR, LIST_MIN, PREDICATE_FACTOR,
};
use armilla_index::{Column, LocalSet, Part, PathIndex, within};
use std::ops::Range;

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
    kind: Kind,
}

/// What the conjuncts come to.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// One of them leaves nothing.
    Nothing,
    /// This one decides: the others leave everything.
    One(usize),
    /// All of them leave everything.
    All,
    /// Several decide.
    Many,
}

#[derive(Debug)]
enum Tree {
    All,
    Nothing,
    Unknown,
    Leaf(OnPart),
    And(Vec<Self>),
    Or(Vec<Self>),
}

/// A leaf's values in the dictionary of one part.
#[derive(Debug)]
struct OnPart {
    path: u32,
    /// Ascending and disjoint.
    ordinals: Vec<Range<u32>>,
    complement: bool,
    exact: bool,
    is_multi_valued: bool,
    /// Entries in the lists of these ordinals.
    entries: usize,
}

#[cfg(test)]
thread_local! {
    /// Selectors made on this thread.
    pub(in crate::query) static MADE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl Selector {
    /// Looks the condition's values up. `scope` is how many documents are asked for; `bare` says
    /// that some documents of the part have no terms at all.
    pub(in crate::query) fn new(
        condition: &Condition,
        part: &Part,
        scope: usize,
        bare: bool,
    ) -> Self {
        #[cfg(test)]
        MADE.set(MADE.get() + 1);
        let tree = |condition| tree(condition, part, scope);
        let conjuncts: Vec<Tree> = match condition {
            _ if bare => vec![Tree::Unknown],
            Condition::And(parts) => parts.iter().map(tree).collect(),
            other => vec![tree(other)],
        };
        Self { kind: kind(&conjuncts), conjuncts }
    }

    /// Documents that may match, at most; dead ones and those out of scope included.
    pub(in crate::query) fn size(&self, part: &Part) -> usize {
        smallest(&self.conjuncts, part)
    }

    /// True when nothing needs to be looked at again.
    pub(in crate::query) fn may_be_exact(&self) -> bool {
        matches!(self.kind, Kind::Nothing) || self.conjuncts.iter().all(is_exact)
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
        match self.kind {
            Kind::Nothing => (Vec::new(), true),
            Kind::All => (runs.iter().cloned().flatten().collect(), true),
            Kind::One(number) => select(&self.conjuncts[number], part, runs),
            Kind::Many => select_all(&self.conjuncts, part, runs),
        }
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
            Kind::Nothing => Some(0),
            Kind::All => Some(live(part, runs)),
            Kind::One(number) => count(&self.conjuncts[number], part, runs),
            Kind::Many => None,
        }
    }

    /// How many live documents of the runs may match.
    pub(in crate::query) fn count_live(&self, part: &Part, runs: &[Range<u32>]) -> u64 {
        match self.kind {
            Kind::Nothing => 0,
            Kind::All => live(part, runs),
            Kind::One(number) => count_live(&self.conjuncts[number], part, runs),
            Kind::Many => self.select(part, runs).locals.len() as u64,
        }
    }

    /// The same by one part of an AND alone.
    pub(in crate::query) fn count_conjunct(
        &self,
        number: usize,
        part: &Part,
        runs: &[Range<u32>],
    ) -> u64 {
        self.conjuncts
            .get(number)
            .map_or_else(|| live(part, runs), |tree| count_live(tree, part, runs))
    }

    /// The only conjunct that leaves something out.
    fn deciding(&self) -> Option<&Tree> {
        match self.kind {
            Kind::One(number) => self.conjuncts.get(number),
            _ => None,
        }
    }
}

fn kind(conjuncts: &[Tree]) -> Kind {
    let mut kind = Kind::All;
    for (number, tree) in conjuncts.iter().enumerate() {
        kind = match (tree, kind) {
            (Tree::Nothing, _) => return Kind::Nothing,
            (Tree::All, kind) => kind,
            (_, Kind::All) => Kind::One(number),
            _ => Kind::Many,
        };
    }
    kind
}

/// Live documents of runs.
pub(in crate::query) fn live(part: &Part, runs: &[Range<u32>]) -> u64 {
    runs.iter().map(|run| u64::from(part.live_count_in(run))).sum()
}

fn tree(condition: &Condition, part: &Part, scope: usize) -> Tree {
    match condition {
        Condition::All => Tree::All,
        Condition::Nothing => Tree::Nothing,
        Condition::Unknown => Tree::Unknown,
        Condition::Leaf(leaf) => on_part(leaf, part, scope),
        Condition::And(parts) => {
            let mut trees = Vec::with_capacity(parts.len());
            for condition in parts {
                match tree(condition, part, scope) {
                    Tree::Nothing => return Tree::Nothing,
                    Tree::All => {}
                    other => trees.push(other),
                }
            }
            match trees.len() {
                0 => Tree::All,
                1 => trees.remove(0),
                _ => Tree::And(trees),
            }
        }
        Condition::Or(parts) => {
            let mut trees = Vec::with_capacity(parts.len());
            for condition in parts {
                match tree(condition, part, scope) {
                    Tree::All => return Tree::All,
                    Tree::Unknown => return Tree::Unknown,
                    Tree::Nothing => {}
                    other => trees.push(other),
                }
            }
            match trees.len() {
                0 => Tree::Nothing,
                1 => trees.remove(0),
                _ => Tree::Or(trees),
            }
        }
    }
}

fn on_part(leaf: &Leaf, part: &Part, scope: usize) -> Tree {
    let none = if leaf.complement { Tree::All } else { Tree::Nothing };
    let found = leaf.path.and_then(|path| Some((path, part.path(path)?)));
    let Some((path, index)) = found else { return none };
    let (ordinals, exact) = match &leaf.filter {
        Some(filter) => {
            if index.value_count() as usize > scope.saturating_mul(PREDICATE_FACTOR) {
                return Tree::Unknown;
            }
            let values = filter.matching(part, &index);
            (values.ordinals.clone(), values.exact && leaf.exact)
        }
        None => {
            let ranges = leaf.ranges.iter().map(|range| index.ordinals(range));
            (ranges.filter(|range| !range.is_empty()).collect(), leaf.exact)
        }
    };
    if ordinals.is_empty() {
        return none;
    }
    let entries = ordinals.iter().map(|ordinals| index.lists(ordinals).len()).sum();
    let (complement, is_multi_valued) = (leaf.complement, index.is_multi_valued());
    Tree::Leaf(OnPart { path, ordinals, complement, exact, is_multi_valued, entries })
}

fn size(tree: &Tree, part: &Part) -> usize {
    let all = part.len() as usize;
    match tree {
        Tree::All | Tree::Unknown => all,
        Tree::Nothing => 0,
        Tree::Leaf(leaf) if leaf.complement && leaf.is_multi_valued => all,
        Tree::Leaf(leaf) if leaf.complement => all - leaf.entries.min(all),
        Tree::Leaf(leaf) => leaf.entries.min(all),
        Tree::And(parts) => smallest(parts, part),
        Tree::Or(parts) => parts.iter().map(|tree| size(tree, part)).sum::<usize>().min(all),
    }
}

fn smallest(parts: &[Tree], part: &Part) -> usize {
    parts.iter().map(|tree| size(tree, part)).min().unwrap_or(part.len() as usize)
}

fn is_exact(tree: &Tree) -> bool {
    match tree {
        Tree::All | Tree::Nothing => true,
        Tree::Unknown => false,
        Tree::Leaf(leaf) => leaf.exact,
        Tree::And(parts) | Tree::Or(parts) => parts.iter().all(is_exact),
    }
}

fn count(tree: &Tree, part: &Part, runs: &[Range<u32>]) -> Option<u64> {
    let whole = matches!(runs, [run] if run.len() == part.len() as usize);
    match tree {
        Tree::Nothing => Some(0),
        Tree::All => Some(live(part, runs)),
        Tree::Leaf(leaf) if whole && leaf.exact && !leaf.complement => {
            if leaf.is_multi_valued && leaf.ordinals.len() > 1 {
                return None;
            }
            let index = leaf.index(part);
            let count = |ordinals| u64::from(part.count_ordinals(&index, ordinals));
            Some(leaf.ordinals.iter().map(count).sum())
        }
        _ => None,
    }
}

fn count_live(tree: &Tree, part: &Part, runs: &[Range<u32>]) -> u64 {
    if let Some(count) = count(tree, part, runs) {
        return count;
    }
    match (tree, runs) {
        (Tree::Unknown, _) => live(part, runs),
        (Tree::Leaf(leaf), [run]) => leaf.count_live(part, run),
        _ => {
            let (locals, _) = select(tree, part, runs);
            locals.iter().filter(|local| !part.is_dead(**local)).count() as u64
        }
    }
}

fn select(tree: &Tree, part: &Part, runs: &[Range<u32>]) -> (Vec<u32>, bool) {
    let all = || runs.iter().cloned().flatten().collect::<Vec<u32>>();
    match tree {
        Tree::All => (all(), true),
        Tree::Unknown => (all(), false),
        Tree::Nothing => (Vec::new(), true),
        Tree::Leaf(leaf) => (leaf.select(part, runs), leaf.exact),
        Tree::And(parts) => select_all(parts, part, runs),
        Tree::Or(parts) => {
            let (mut exact, mut found) = (true, Vec::with_capacity(parts.len()));
            for tree in parts {
                let (locals, branch_exact) = select(tree, part, runs);
                exact &= branch_exact;
                found.push(locals);
            }
            (union(found, part), exact)
        }
    }
}

/// What all of these leave: the smallest is listed, the others are tested on its documents.
fn select_all(parts: &[Tree], part: &Part, runs: &[Range<u32>]) -> (Vec<u32>, bool) {
    let mut order: Vec<_> = parts.iter().collect();
    order.sort_by_key(|tree| size(tree, part));
    let (mut locals, mut exact) = select(order[0], part, runs);
    for tree in &order[1..] {
        exact &= retain(tree, part, &mut locals);
    }
    (locals, exact)
}

/// Keeps the documents that may match; true when the rest surely do.
fn retain(tree: &Tree, part: &Part, locals: &mut Vec<u32>) -> bool {
    match tree {
        Tree::All => true,
        Tree::Unknown => false,
        Tree::Nothing => {
            locals.clear();
            true
        }
        Tree::Leaf(leaf) => leaf.retain(part, locals),
        Tree::And(parts) => {
            let mut exact = true;
            for tree in parts {
                exact &= retain(tree, part, locals);
            }
            exact
        }
        Tree::Or(parts) => {
            let (mut exact, mut found) = (true, Vec::with_capacity(parts.len()));
            for tree in parts {
                let mut kept = locals.clone();
                exact &= retain(tree, part, &mut kept);
                found.push(kept);
            }
            *locals = union(found, part);
            exact
        }
    }
}

fn union(mut found: Vec<Vec<u32>>, part: &Part) -> Vec<u32> {
    match found.len() {
        0 => Vec::new(),
        1 => found.remove(0),
        _ => sorted(found.concat(), part.len()),
    }
}

/// Ascending and without repetition.
fn sorted(mut locals: Vec<u32>, documents: u32) -> Vec<u32> {
    if locals.len() > documents as usize / BIT_SET_SHARE {
        let mut set = LocalSet::none(documents);
        locals.iter().for_each(|local| set.insert(*local));
        locals.clear();
        locals.extend(set.iter());
    } else {
        locals.sort_unstable();
        locals.dedup();
    }
    locals
}

impl OnPart {
    fn index<'p>(&self, part: &'p Part) -> PathIndex<'p> {
        part.path(self.path).expect("the selector was made for this part, which has the path")
    }

    /// The list of documents, where there is only one.
    fn only_list<'p>(&self, part: &'p Part) -> Option<&'p [armilla_index::Local]> {
        match self.ordinals.as_slice() {
            [ordinals] if !self.complement && ordinals.len() == 1 => {
                Some(self.index(part).list(ordinals.start))
            }
            _ => None,
        }
    }

    fn is_one_list(&self) -> bool {
        !self.complement && matches!(self.ordinals.as_slice(), [ordinals] if ordinals.len() == 1)
    }

    /// Live documents of a run.
    fn count_live(&self, part: &Part, run: &Range<u32>) -> u64 {
        let index = self.index(part);
        if let Some(column) = index.column().filter(|_| run.len() <= COLUMN_RUN_MAX) {
            let matching = run.clone().filter(|local| self.matches(&column, *local));
            return matching.filter(|local| !part.is_dead(*local)).count() as u64;
        }
        if self.is_one_list() {
            let list = within(index.list(self.ordinals[0].start), run);
            if part.dead().is_empty() {
                return list.len() as u64;
            }
            return list.iter().filter(|local| !part.is_dead(local.get())).count() as u64;
        }
        let locals = self.select(part, std::slice::from_ref(run));
        locals.iter().filter(|local| !part.is_dead(**local)).count() as u64
    }

    /// The documents of the runs, ascending.
    fn select(&self, part: &Part, runs: &[Range<u32>]) -> Vec<u32> {
        let (index, documents) = (self.index(part), part.len());
        let scope: usize = runs.iter().map(|run| run.len()).sum();
        if let Some(column) = index.column()
            && (self.complement || scope < self.entries)
        {
            let all = runs.iter().cloned().flatten();
            return all.filter(|local| self.matches(&column, *local)).collect();
        }
        let mut locals = Vec::with_capacity(self.entries.min(scope));
        for ordinal in self.ordinals.iter().cloned().flatten() {
            let list = index.list(ordinal);
            match runs {
                [run] => locals.extend(within(list, run).iter().map(|local| local.get())),
                _ => locals.extend(
                    list.iter().map(|local| local.get()).filter(|local| is_in(runs, *local)),
                ),
            }
        }
        let locals = if self.is_one_list() { locals } else { sorted(locals, documents) };
        if !self.complement {
            return locals;
        }
        let mut set = LocalSet::none(documents);
        runs.iter().cloned().flatten().for_each(|local| set.insert(local));
        locals.iter().for_each(|local| set.remove(*local));
        set.iter().collect()
    }

    fn retain(&self, part: &Part, locals: &mut Vec<u32>) -> bool {
        let index = self.index(part);
        if let Some(column) = index.column() {
            locals.retain(|local| self.matches(&column, *local));
            return self.exact;
        }
        if self.entries > locals.len().saturating_mul(LIST_FACTOR) + LIST_MIN {
            return false;
        }
        let mut listed = Vec::with_capacity(self.entries);
        for ordinals in &self.ordinals {
            listed.extend(index.lists(ordinals).iter().map(|local| local.get()));
        }
        listed.sort_unstable();
        locals.retain(|local| listed.binary_search(local).is_ok() != self.complement);
        self.exact
    }

    #[inline]
    fn matches(&self, column: &Column<'_>, local: u32) -> bool {
        let inside = match self.ordinals.as_slice() {
            [only] => column.matches(local, only),
            many => column.ordinal(local).is_some_and(|ordinal| {
                let behind = many.partition_point(|range| range.end <= ordinal);
                many.get(behind).is_some_and(|range| range.start <= ordinal)
            }),
        };
        inside != self.complement
    }
}

fn is_in(runs: &[Range<u32>], local: u32) -> bool {
    let behind = runs.partition_point(|run| run.end <= local);
    runs.get(behind).is_some_and(|run| run.start <= local)
}
