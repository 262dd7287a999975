//! The plan of a page.

pub(in crate::query) mod costs;
pub(in crate::query) mod order_index;
