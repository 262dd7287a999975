//! A page in the making, and what is told with it.

use crate::query::counters::Counters;
use crate::query::plan::costs::PAGE_ROWS_EXPECTED;
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::limits::PAGE_SIZE_MAX;
use armilla_sql::plan::payload_size;
use bytes::Bytes;
use std::time::Duration;

/// A page of rows.
#[derive(Debug, Default)]
pub struct Page {
    /// The rows, each a JSON text.
    pub rows: Vec<Bytes>,
    /// Where the next page begins; `None` on the last one.
    pub continuation: Option<String>,
    /// What it costs.
    pub charge: RequestCharge,
    /// How the charge is spread over ranges, where there are several.
    pub shares: Vec<(u32, RequestCharge)>,
    /// Where the next page begins, if the account is cut into slices.
    pub onward: Onward,
    /// What was done for it.
    pub metrics: Metrics,
    /// The same in detail.
    pub(in crate::query) counters: Counters,
    count_max: usize,
    size: usize,
    /// Bytes that go with the rows of a part.
    beside: usize,
    output_is_free: bool,
}

/// Which slice goes on with a query whose rows come slice by slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Onward {
    /// This one, if there is a continuation.
    #[default]
    Here,
    /// The next one, from the continuation if there is one, else from the beginning.
    NextSlice,
    /// None: the query has all its rows.
    Nowhere,
}

/// What was done for a page.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// All of it.
    pub total_time: Duration,
    /// Parsing and binding.
    pub compile_time: Duration,
    /// Items read.
    pub retrieved_count: u64,
    /// Bytes of the items read.
    pub retrieved_size: u64,
    /// Rows handed out.
    pub output_count: u64,
    /// Bytes of the rows handed out.
    pub output_size: u64,
}

impl Page {
    /// An empty page for so many rows.
    pub(in crate::query) fn new(count_max: usize) -> Self {
        Self { count_max: count_max.max(1), ..Self::default() }
    }

    /// True when no row would be taken any more.
    pub(in crate::query) fn is_full(&self) -> bool {
        self.rows.len() >= self.count_max
            || self.size >= PAGE_SIZE_MAX
            || self.beside >= PAGE_SIZE_MAX
    }

    /// Adds a row if it still fits. The first one always does.
    pub(in crate::query) fn offer(&mut self, row: Bytes) -> bool {
        let fits = self.rows.is_empty() || self.size + row.len() <= PAGE_SIZE_MAX;
        if self.is_full() || !fits {
            return false;
        }
        if self.rows.capacity() == 0 {
            self.rows.reserve(self.count_max.min(PAGE_ROWS_EXPECTED));
        }
        self.size += row.len();
        self.rows.push(row);
        true
    }

    /// Counts what goes with the last row of a part.
    pub(in crate::query) fn count_beside(&mut self, bytes: usize) {
        self.beside += bytes;
    }

    /// Bytes of all rows so far.
    pub(in crate::query) fn size(&self) -> usize {
        self.size
    }

    /// Rows of this page cost nothing beyond what made them.
    pub(in crate::query) fn free_of_output(&mut self) {
        self.output_is_free = true;
    }

    /// What its rows cost beyond what made them.
    pub(in crate::query) fn output_charge(&self, rates: &Rates, wrapped: bool) -> RequestCharge {
        if self.output_is_free {
            return RequestCharge::ZERO;
        }
        self.rows.iter().map(|row| rates.output(charged_size(row, wrapped))).sum()
    }
}

/// The bytes of a row that are charged. What a client adds to a query to merge its ranges costs its
/// user nothing.
fn charged_size(row: &[u8], wrapped: bool) -> usize {
    if wrapped { payload_size(row) } else { row.len() }
}
