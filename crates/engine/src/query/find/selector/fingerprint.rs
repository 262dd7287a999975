//! What a condition leaves of a part, in a few numbers: a name for things that are remembered of it.

use crate::query::find::selector::{Selector, Tree};
use crate::query::plan::costs::FINGERPRINT_MAX;

impl Selector<'_> {
    /// Numbers that say which documents of the part the condition leaves, and how surely: equal
    /// numbers, equal documents. Nothing for conditions that take too many, or leave everything.
    pub(in crate::query) fn signature(&self) -> Option<Box<[u32]>> {
        if matches!(self.tree, Tree::All | Tree::Unknown) {
            return None;
        }
        let mut numbers = Vec::with_capacity(8);
        sign(&self.tree, &mut numbers)?;
        Some(numbers.into())
    }
}

fn sign(tree: &Tree<'_>, numbers: &mut Vec<u32>) -> Option<()> {
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
        Tree::And(parts) | Tree::Or(parts) => {
            let kind = if matches!(tree, Tree::And(_)) { 4 } else { 5 };
            numbers.extend([kind, u32::try_from(parts.len()).ok()?]);
            parts.iter().try_for_each(|tree| sign(tree, numbers))?;
        }
    }
    (numbers.len() <= FINGERPRINT_MAX).then_some(())
}
