//! Fingerprint of a condition on a part: the key under which an order of its candidates is cached.

use super::tree::Tree;
use super::{Conjunction, Selector};
use crate::query::plan::costs::FINGERPRINT_MAX;

impl Selector {
    /// Numbers that say which documents of the part the condition leaves, and how surely: equal
    /// numbers, equal documents. Nothing for conditions that take too many, or leave everything.
    pub(in crate::query) fn fingerprint(&self) -> Option<Box<[u32]>> {
        let mut numbers = Vec::with_capacity(8);
        match self.kind {
            Conjunction::All => return None,
            Conjunction::Nothing => numbers.push(1),
            Conjunction::One(number) => {
                let tree = self.conjuncts.get(number)?;
                if matches!(tree, Tree::Unknown) {
                    return None;
                }
                write(tree, &mut numbers)?;
            }
            Conjunction::Many => write_all(4, &self.conjuncts, &mut numbers)?,
        }
        Some(numbers.into())
    }
}

fn write_all(kind: u32, trees: &[Tree], numbers: &mut Vec<u32>) -> Option<()> {
    numbers.extend([kind, u32::try_from(trees.len()).ok()?]);
    trees.iter().try_for_each(|tree| write(tree, numbers))
}

fn write(tree: &Tree, numbers: &mut Vec<u32>) -> Option<()> {
    match tree {
        Tree::All => numbers.push(0),
        Tree::Nothing => numbers.push(1),
        Tree::Unknown => numbers.push(2),
        Tree::Leaf(leaf) => {
            let count = leaf.ordinals.len();
            if numbers.len() + count > FINGERPRINT_MAX {
                return None;
            }
            let flags = u32::from(leaf.complement) << 1 | u32::from(leaf.exact);
            numbers.extend([3, leaf.path, flags, count as u32]);
            numbers.extend(leaf.ordinals.iter().flat_map(|range| [range.start, range.end]));
        }
        Tree::And(trees) => write_all(4, trees, numbers)?,
        Tree::Or(trees) => write_all(5, trees, numbers)?,
    }
    (numbers.len() <= FINGERPRINT_MAX).then_some(())
}
