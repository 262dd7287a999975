//! Reading values: items from the store, or what a query needs of them from the columns of the index.

pub(in crate::query) mod columns;
pub(in crate::query) mod items;
mod prefetch;
