//! Reading values: items from the store, or what a query needs of them from the columns of the index.

mod items;
mod loads;
mod prefetch;
mod reader;

pub(in crate::query) use items::{Certainty, Found, Items};
pub(in crate::query) use loads::{LoadCounts, Loads};
pub(in crate::query) use reader::{Loaded, Reader};
