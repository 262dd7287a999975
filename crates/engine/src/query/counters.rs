//! Counters of a page: what was done for it and what that was charged for, in plain numbers.
//!
//! They are taken while the page is made, whether somebody asks for an explanation or not; nothing is allocated
//! for them.

use crate::query::stopwatch::PageTimes;
use armilla_model::charge::RequestCharge;
use std::ops::AddAssign;

/// What a page was charged, by what it was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::query) struct Charges {
    /// Visiting ranges and searching their indexes.
    pub(in crate::query) ranges: RequestCharge,
    /// Items, read or counted as if they had been.
    pub(in crate::query) items: RequestCharge,
    /// Rows of JOINs and sub-queries, calls of user functions.
    pub(in crate::query) evaluation: RequestCharge,
    /// Items that went into aggregates and groups.
    pub(in crate::query) aggregation: RequestCharge,
    /// Rows handed out, and what is missing to the least that a page costs.
    pub(in crate::query) output: RequestCharge,
}

impl Charges {
    /// All of it.
    pub(in crate::query) fn total(&self) -> RequestCharge {
        self.ranges + self.items + self.evaluation + self.aggregation + self.output
    }
}

impl AddAssign for Charges {
    fn add_assign(&mut self, other: Self) {
        self.ranges += other.ranges;
        self.items += other.items;
        self.evaluation += other.evaluation;
        self.aggregation += other.aggregation;
        self.output += other.output;
    }
}

/// How many parts of an ordered scan were scanned in which way.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::query) struct ScanModes {
    pub(in crate::query) walked: u32,
    pub(in crate::query) ranked: u32,
    pub(in crate::query) cached: u32,
    /// Those that were walked first, until that was given up.
    pub(in crate::query) gave_up: u32,
}

/// Which of a plan's alternatives were taken.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::query) struct Taken {
    /// How the parts of an ordered scan were scanned.
    pub(in crate::query) scans: ScanModes,
    /// MIN and MAX were not known to the ends of the index.
    pub(in crate::query) min_max_missed: bool,
    /// Shares that several threads worked on.
    pub(in crate::query) shares: u32,
    /// Items that a parallel filter left out ahead of the page.
    pub(in crate::query) filtered_ahead: u64,
}

/// What was found in one range.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::query) struct RangeTally {
    pub(in crate::query) visited: u64,
    pub(in crate::query) matched: u64,
    /// What the matched items are charged.
    pub(in crate::query) loads: RequestCharge,
}

/// What went through one level of a query over queries.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::query) struct LevelTally {
    /// Items, or rows of the level below.
    pub(in crate::query) taken: u64,
    /// Rows of FROM and JOIN that met its condition.
    pub(in crate::query) met: u64,
    /// Its own rows.
    pub(in crate::query) made: u64,
}

/// Everything that was counted while a page was made.
#[derive(Debug, Default)]
pub(in crate::query) struct Counters {
    pub(in crate::query) charges: Charges,
    pub(in crate::query) taken: Taken,
    /// Items or combinations of values that were looked at.
    pub(in crate::query) visited: u64,
    /// By range.
    pub(in crate::query) tallies: Vec<RangeTally>,
    /// Rows of the page by range, where there are several and each row comes from one.
    pub(in crate::query) rows_of_ranges: Vec<u64>,
    /// The levels of a query over the rows of another, the outermost first.
    pub(in crate::query) levels: Vec<LevelTally>,
    /// Where the time went, if it was measured.
    pub(in crate::query) times: Option<PageTimes>,
}
