//! The tree of a condition on one part: how many documents each branch leaves, and which.

use super::on_part::{Asked, OnPart, on_part, sorted};
use crate::query::find::condition::Condition;
use armilla_index::Part;
use std::ops::Range;

/// A condition by ordinals of one part's dictionaries.
#[derive(Debug)]
pub(super) enum Tree {
    All,
    Nothing,
    Unknown,
    Leaf(OnPart),
    And(Vec<Self>),
    Or(Vec<Self>),
}

/// Live documents of runs.
pub(in crate::query) fn live(part: &Part, runs: &[Range<u32>]) -> u64 {
    runs.iter().map(|run| u64::from(part.live_count_in(run))).sum()
}

pub(super) fn tree(condition: &Condition, part: &Part, asked: Asked) -> Tree {
    match condition {
        Condition::All => Tree::All,
        Condition::Nothing => Tree::Nothing,
        Condition::Unknown => Tree::Unknown,
        Condition::Leaf(leaf) => on_part(leaf, part, asked),
        Condition::And(parts) => {
            let mut trees = Vec::with_capacity(parts.len());
            for condition in parts {
                match tree(condition, part, asked) {
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
                match tree(condition, part, asked) {
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

/// The most distinct values of the part that a predicate of the condition would be tried on.
pub(super) fn values_tried(condition: &Condition, part: &Part) -> usize {
    match condition {
        Condition::All | Condition::Nothing | Condition::Unknown => 0,
        Condition::Leaf(leaf) if leaf.filter.is_none() => 0,
        Condition::Leaf(leaf) => {
            let index = leaf.path.and_then(|path| part.path(path));
            index.map_or(0, |index| index.value_count() as usize)
        }
        Condition::And(parts) | Condition::Or(parts) => {
            parts.iter().map(|condition| values_tried(condition, part)).max().unwrap_or(0)
        }
    }
}

pub(super) fn size(tree: &Tree, part: &Part) -> usize {
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

pub(super) fn smallest(parts: &[Tree], part: &Part) -> usize {
    parts.iter().map(|tree| size(tree, part)).min().unwrap_or(part.len() as usize)
}

pub(super) fn is_exact(tree: &Tree) -> bool {
    match tree {
        Tree::All | Tree::Nothing => true,
        Tree::Unknown => false,
        Tree::Leaf(leaf) => leaf.exact,
        Tree::And(parts) | Tree::Or(parts) => parts.iter().all(is_exact),
    }
}

pub(super) fn count(tree: &Tree, part: &Part, runs: &[Range<u32>]) -> Option<u64> {
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

pub(super) fn count_live(tree: &Tree, part: &Part, runs: &[Range<u32>]) -> u64 {
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

pub(super) fn select(tree: &Tree, part: &Part, runs: &[Range<u32>]) -> (Vec<u32>, bool) {
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
pub(super) fn select_all(parts: &[Tree], part: &Part, runs: &[Range<u32>]) -> (Vec<u32>, bool) {
    let mut order: Vec<_> = parts.iter().collect();
    order.sort_by_key(|tree| size(tree, part));
    let (mut locals, mut exact) = select(order[0], part, runs);
    for tree in &order[1..] {
        exact &= retain(tree, part, &mut locals);
    }
    (locals, exact)
}

/// Keeps the documents that may match; true when the rest surely do.
pub(super) fn retain(tree: &Tree, part: &Part, locals: &mut Vec<u32>) -> bool {
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
