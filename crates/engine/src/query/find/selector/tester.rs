//! Testing documents of a part one by one, where listing them first would be a waste.

use super::Selector;
use super::on_part::OnPart;
use super::tree::Tree;
use armilla_index::{Column, LocalSet, Part};

/// A selector bound to its part.
pub(in crate::query) struct Tester<'p> {
    conjuncts: Vec<Test<'p>>,
}

enum Test<'p> {
    All,
    Nothing,
    ByColumn(&'p OnPart, Column<'p>),
    /// Where there is no column: the documents in the lists, and whether they are left out.
    ByMembers(LocalSet, bool),
    And(Vec<Self>),
    Or(Vec<Self>),
}

impl<'p> Tester<'p> {
    pub(in crate::query) fn new(selector: &'p Selector, part: &'p Part) -> Self {
        Self { conjuncts: selector.conjuncts.iter().map(|tree| test(tree, part)).collect() }
    }

    /// False when the document surely does not match.
    #[inline]
    pub(in crate::query) fn may_match(&self, local: u32) -> bool {
        self.conjuncts.iter().all(|test| test.may_pass(local))
    }
}

fn test<'p>(tree: &'p Tree, part: &'p Part) -> Test<'p> {
    match tree {
        Tree::All | Tree::Unknown => Test::All,
        Tree::Nothing => Test::Nothing,
        Tree::Leaf(leaf) => {
            let index = leaf.index(part);
            if let Some(column) = index.column() {
                return Test::ByColumn(leaf, column);
            }
            let mut members = LocalSet::none(part.len());
            leaf.ordinals.iter().for_each(|range| members.extend(index.lists(range)));
            Test::ByMembers(members, leaf.complement)
        }
        Tree::And(parts) => Test::And(parts.iter().map(|tree| test(tree, part)).collect()),
        Tree::Or(parts) => Test::Or(parts.iter().map(|tree| test(tree, part)).collect()),
    }
}

impl Test<'_> {
    fn may_pass(&self, local: u32) -> bool {
        match self {
            Self::All => true,
            Self::Nothing => false,
            Self::ByColumn(leaf, column) => leaf.matches(column, local),
            Self::ByMembers(members, complement) => members.contains(local) != *complement,
            Self::And(tests) => tests.iter().all(|test| test.may_pass(local)),
            Self::Or(tests) => tests.iter().any(|test| test.may_pass(local)),
        }
    }
}
