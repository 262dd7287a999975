//! A condition on one part of an index view: local numbers that may match.

mod fingerprint;

use crate::query::find::{Condition, Leaf};
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
pub(in crate::query) struct Selector<'p> {
    part: &'p Part,
    tree: Tree<'p>,
}

enum Tree<'p> {
    All,
    Nothing,
    Unknown,
    Leaf(OnPart<'p>),
    And(Vec<Self>),
    Or(Vec<Self>),
}

/// A leaf's values in the dictionary of one part.
struct OnPart<'p> {
    path: u32,
    index: PathIndex<'p>,
    column: Option<Column<'p>>,
    /// Ascending and disjoint.
    ordinals: Vec<Range<u32>>,
    complement: bool,
    exact: bool,
    /// Entries in the lists of these ordinals.
    entries: usize,
    /// The documents in those lists, where there is no column and somebody tests one by one.
    members: Option<LocalSet>,
}

impl<'p> Selector<'p> {
    /// Looks the condition's values up. `scope` is how many documents are asked for; `bare` says
    /// that some documents of the part have no terms at all.
    pub(in crate::query) fn new(
        condition: &Condition,
        part: &'p Part,
        scope: usize,
        bare: bool,
    ) -> Self {
        let tree = if bare { Tree::Unknown } else { tree(condition, part, scope) };
        Self { part, tree }
    }

    /// Documents that may match, at most; dead ones and those out of scope included.
    pub(in crate::query) fn size(&self) -> usize {
        size(&self.tree, self.part)
    }

    /// True when nothing needs to be looked at again.
    pub(in crate::query) fn may_be_exact(&self) -> bool {
        is_exact(&self.tree)
    }

    /// The documents of the runs that may match.
    pub(in crate::query) fn select(&self, runs: &[Range<u32>]) -> Selection {
        let (mut locals, exact) = select(&self.tree, self.part, runs);
        if !self.part.dead().is_empty() {
            locals.retain(|local| !self.part.is_dead(*local));
        }
        Selection { locals, exact }
    }

    /// All documents of the part that may match, dead ones included, and whether all of them do.
    pub(in crate::query) fn candidates(&self) -> (Vec<u32>, bool) {
        select(&self.tree, self.part, std::slice::from_ref(&(0..self.part.len())))
    }

    /// The same, one by one: true when all of them match.
    pub(in crate::query) fn visit(&self, runs: &[Range<u32>], visit: &mut dyn FnMut(u32)) -> bool {
        if let (Tree::Leaf(leaf), [run]) = (&self.tree, runs)
            && leaf.is_one_list()
        {
            let list = within(leaf.index.list(leaf.ordinals[0].start), run);
            let live = list.iter().map(|local| local.get());
            live.filter(|local| !self.part.is_dead(*local)).for_each(visit);
            return leaf.exact;
        }
        let Selection { locals, exact } = self.select(runs);
        locals.into_iter().for_each(visit);
        exact
    }

    /// Prepares for documents being tested one by one.
    pub(in crate::query) fn list_members(&mut self) {
        list_members(&mut self.tree, self.part);
    }

    /// How many documents of the runs match, if the index can count them without looking at each.
    pub(in crate::query) fn count(&self, runs: &[Range<u32>]) -> Option<u64> {
        let whole = matches!(runs, [run] if run.len() == self.part.len() as usize);
        match &self.tree {
            Tree::Nothing => Some(0),
            Tree::All => {
                let live = runs.iter().map(|run| u64::from(self.part.live_count_in(run)));
                Some(live.sum())
            }
            Tree::Leaf(leaf) if whole && leaf.exact && !leaf.complement => {
                if leaf.index.is_multi_valued() && leaf.ordinals.len() > 1 {
                    return None;
                }
                let count = |ordinals| u64::from(self.part.count_ordinals(&leaf.index, ordinals));
                Some(leaf.ordinals.iter().map(count).sum())
            }
            _ => None,
        }
    }

    /// How many live documents of the runs may match.
    pub(in crate::query) fn count_live(&self, runs: &[Range<u32>]) -> u64 {
        if let Some(count) = self.count(runs) {
            return count;
        }
        if let (Tree::Leaf(leaf), [run]) = (&self.tree, runs)
            && let Some(column) = leaf.column.as_ref().filter(|_| run.len() <= COLUMN_RUN_MAX)
        {
            let matching = run.clone().filter(|local| leaf.matches(column, *local));
            return matching.filter(|local| !self.part.is_dead(*local)).count() as u64;
        }
        match (&self.tree, runs) {
            (Tree::Unknown, _) => {
                runs.iter().map(|run| u64::from(self.part.live_count_in(run))).sum()
            }
            (Tree::Leaf(leaf), [run]) if leaf.is_one_list() => {
                let list = within(leaf.index.list(leaf.ordinals[0].start), run);
                if self.part.dead().is_empty() {
                    return list.len() as u64;
                }
                list.iter().filter(|local| !self.part.is_dead(local.get())).count() as u64
            }
            _ => self.select(runs).locals.len() as u64,
        }
    }

    /// False when the document surely does not match.
    pub(in crate::query) fn may_match(&self, local: u32) -> bool {
        may_match(&self.tree, local)
    }
}

fn tree<'p>(condition: &Condition, part: &'p Part, scope: usize) -> Tree<'p> {
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

fn on_part<'p>(leaf: &Leaf, part: &'p Part, scope: usize) -> Tree<'p> {
    let none = if leaf.complement { Tree::All } else { Tree::Nothing };
    let found = leaf.path.and_then(|path| Some((path, part.path(path)?)));
    let Some((path, index)) = found else { return none };
    let (ordinals, exact) = match &leaf.tried {
        Some(tried) => {
            if index.value_count() as usize > scope.saturating_mul(PREDICATE_FACTOR) {
                return Tree::Unknown;
            }
            let passing = tried.passing(part, &index);
            (passing.ordinals.clone(), passing.exact && leaf.exact)
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
    let (column, complement) = (index.column(), leaf.complement);
    Tree::Leaf(OnPart { path, index, column, ordinals, complement, exact, entries, members: None })
}

fn size(tree: &Tree<'_>, part: &Part) -> usize {
    let all = part.len() as usize;
    match tree {
        Tree::All | Tree::Unknown => all,
        Tree::Nothing => 0,
        Tree::Leaf(leaf) if leaf.complement => {
            if leaf.index.is_multi_valued() {
                all
            } else {
                all - leaf.entries.min(all)
            }
        }
        Tree::Leaf(leaf) => leaf.entries.min(all),
        Tree::And(parts) => parts.iter().map(|part_of| size(part_of, part)).min().unwrap_or(all),
        Tree::Or(parts) => parts.iter().map(|part_of| size(part_of, part)).sum::<usize>().min(all),
    }
}

fn is_exact(tree: &Tree<'_>) -> bool {
    match tree {
        Tree::All | Tree::Nothing => true,
        Tree::Unknown => false,
        Tree::Leaf(leaf) => leaf.exact,
        Tree::And(parts) | Tree::Or(parts) => parts.iter().all(is_exact),
    }
}

fn select(tree: &Tree<'_>, part: &Part, runs: &[Range<u32>]) -> (Vec<u32>, bool) {
    let all = || runs.iter().cloned().flatten().collect::<Vec<u32>>();
    match tree {
        Tree::All => (all(), true),
        Tree::Unknown => (all(), false),
        Tree::Nothing => (Vec::new(), true),
        Tree::Leaf(leaf) => (leaf.select(runs, part.len()), leaf.exact),
        Tree::And(parts) => {
            let mut order: Vec<_> = parts.iter().collect();
            order.sort_by_key(|tree| size(tree, part));
            let (mut locals, mut exact) = select(order[0], part, runs);
            for tree in &order[1..] {
                exact &= retain(tree, part, &mut locals);
            }
            (locals, exact)
        }
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

/// Keeps the documents that may match; true when the rest surely do.
fn retain(tree: &Tree<'_>, part: &Part, locals: &mut Vec<u32>) -> bool {
    match tree {
        Tree::All => true,
        Tree::Unknown => false,
        Tree::Nothing => {
            locals.clear();
            true
        }
        Tree::Leaf(leaf) => leaf.retain(locals),
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

fn list_members(tree: &mut Tree<'_>, part: &Part) {
    match tree {
        Tree::All | Tree::Nothing | Tree::Unknown => {}
        Tree::Leaf(leaf) if leaf.column.is_none() => {
            let mut members = LocalSet::none(part.len());
            leaf.ordinals.iter().for_each(|range| members.extend(leaf.index.lists(range)));
            leaf.members = Some(members);
        }
        Tree::Leaf(_) => {}
        Tree::And(parts) | Tree::Or(parts) => {
            parts.iter_mut().for_each(|tree| list_members(tree, part));
        }
    }
}

fn may_match(tree: &Tree<'_>, local: u32) -> bool {
    match tree {
        Tree::All | Tree::Unknown => true,
        Tree::Nothing => false,
        Tree::Leaf(leaf) => match (&leaf.column, &leaf.members) {
            (Some(column), _) => leaf.matches(column, local),
            (None, Some(members)) => members.contains(local) != leaf.complement,
            (None, None) => true,
        },
        Tree::And(parts) => parts.iter().all(|tree| may_match(tree, local)),
        Tree::Or(parts) => parts.iter().any(|tree| may_match(tree, local)),
    }
}

impl OnPart<'_> {
    /// True when the documents are those of one list.
    fn is_one_list(&self) -> bool {
        !self.complement && matches!(self.ordinals.as_slice(), [ordinals] if ordinals.len() == 1)
    }

    /// The documents of the runs, ascending.
    fn select(&self, runs: &[Range<u32>], documents: u32) -> Vec<u32> {
        let scope: usize = runs.iter().map(|run| run.len()).sum();
        if let Some(column) = &self.column
            && (self.complement || scope < self.entries)
        {
            let all = runs.iter().cloned().flatten();
            return all.filter(|local| self.matches(column, *local)).collect();
        }
        let mut locals = Vec::with_capacity(self.entries.min(scope));
        for ordinals in &self.ordinals {
            for ordinal in ordinals.clone() {
                let list = self.index.list(ordinal);
                match runs {
                    [run] => locals.extend(within(list, run).iter().map(|local| local.get())),
                    _ => locals.extend(
                        list.iter().map(|local| local.get()).filter(|local| is_in(runs, *local)),
                    ),
                }
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

    fn retain(&self, locals: &mut Vec<u32>) -> bool {
        if let Some(column) = &self.column {
            locals.retain(|local| self.matches(column, *local));
            return self.exact;
        }
        if self.entries > locals.len().saturating_mul(LIST_FACTOR) + LIST_MIN {
            return false;
        }
        let mut listed = Vec::with_capacity(self.entries);
        for ordinals in &self.ordinals {
            listed.extend(self.index.lists(ordinals).iter().map(|local| local.get()));
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
