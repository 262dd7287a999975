//! The plan of a page.

pub(in crate::query) mod costs;
