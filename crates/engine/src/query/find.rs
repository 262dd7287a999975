//! Finding: which items may match a condition, as far as the index can tell.
//!
//! [`Condition::resolve`] turns the paths of a condition into the container's numbers and its tests into spans of
//! encoded values; what the policy does not index becomes "unknown". A [`Selector`] then answers, for one part of an
//! index view, which documents may match: from the shortest list, with the other tests made on columns, or document
//! by document ([`Tester`]) when most of them match anyway. [`points`] are items that a condition names by id.

mod columns;
mod condition;
mod describe;
mod dictionary;
mod leaf;
pub(in crate::query) mod points;
mod selector;

pub(in crate::query) use columns::{CoveringColumns, PartColumns, PathColumn};
pub(in crate::query) use condition::{Condition, known_value};
pub(in crate::query) use describe::{describe, describe_path};
pub(in crate::query) use leaf::{computed_number, path_number};
#[cfg(test)]
pub(in crate::query) use selector::MADE as SELECTORS_MADE;
pub(in crate::query) use selector::{Runs, Selection, Selector, Tester, live};
